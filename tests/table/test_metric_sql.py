"""`abeval tools sql EXPERIMENT METRIC`: pasted elsewhere, it gives what `analyze` says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import abeval
from abeval.api import LoadedExperiment
from abeval.cli.main import main
from abeval.engines.sql import query
from abeval.errors import ExperimentError
from abeval.experiment.metrics import find_metrics_by_name
from abeval.table.metric_sql import write_metric_statements, write_view_statements
from tests.aggregates import events_world
from tests.engines import nasty
from tests.engines.test_sql_queries import ANALYSIS, named_relations
from tests.logs.small import PERIOD, small_log

LINES = 150
SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"


def write(folder: Path, frames: Mapping[str, Any], **formats: str) -> dict[str, str]:
    """Write frames to files, Parquet unless said otherwise; return the path of each."""
    paths = {}
    for name, frame in frames.items():
        paths[name] = f"{name}.{formats.get(name, 'parquet')}"
        if paths[name].endswith("csv"):
            frame.to_csv(folder / paths[name], index=False)
        else:
            frame.to_parquet(folder / paths[name], index=False)
    return paths


def in_files(
    loaded: LoadedExperiment, frames: Mapping[str, Any], folder: Path, **formats: str
) -> LoadedExperiment:
    """The experiment over files of the frames."""
    paths, entries = (
        write(folder, frames, **formats),
        loaded.experiment.model_dump(exclude_unset=True, by_alias=True),
    )
    logs = entries.pop("logs")
    events = logs.get("events", {})
    for name, path in paths.items():
        (events if name in events else logs)[name]["path"] = path
    return abeval.define(folder, **{**entries, "logs": logs})


def values_of(loaded: LoadedExperiment) -> dict[str, dict[str, float]]:
    """Metric → variant → the value that `analyze` reports."""
    values: dict[str, dict[str, float]] = {}
    for row in loaded.analyze().scorecard:
        both = {loaded.experiment.control: row.control, row.variant: row.treatment}
        values.setdefault(row.metric, {}).update({k: v for k, v in both.items() if v is not None})
    return values


def answer(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Variant → value of a statement in a DuckDB of its own, far from UTC, in a folder."""
    monkeypatch.chdir(folder)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'Asia/Tokyo'")
        cursor = connection.execute(text)
        names = [str(column[0]) for column in cursor.description or ()]
        assert names[:2] == ["variant", "value"]
        assert len(names) > 2
        return {str(row[0]): float(row[1]) for row in cursor.fetchall() if row[1] is not None}


def check(
    loaded: LoadedExperiment, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...] = ()
) -> int:
    """Compare the statements of all metrics; return how many there are."""
    experiment, known = loaded.experiment, values_of(loaded)
    texts = write_metric_statements(experiment, names or [*known])
    for metric, text in texts.items():
        assert "abeval_" not in text
        assert len(text.splitlines()) <= LINES or "'VARCHAR'" in text, metric
        said = answer(text, experiment.folder, monkeypatch)
        for variant, value in known[metric].items():
            assert said[variant] == pytest.approx(value, rel=1e-9, abs=1e-9), (metric, variant)
    return len(texts)


def _words(folder: Path) -> LoadedExperiment:
    return in_files(nasty.words_experiment(segments={}), nasty.words(), folder)


def _numbers(folder: Path) -> LoadedExperiment:
    return in_files(nasty.numbers_experiment(segments={}), nasty.numbers(), folder)


WORLDS: dict[str, Callable[[Path], LoadedExperiment]] = {"words": _words, "numbers": _numbers}


def _tied(folder: Path) -> LoadedExperiment:
    return in_files(nasty.tied_experiment(segments={}), nasty.tied(), folder)


def _touched(folder: Path) -> LoadedExperiment:
    return in_files(nasty.touched_experiment(), nasty.touched(), folder)


def _units(folder: Path) -> LoadedExperiment:
    return in_files(nasty.units_experiment(), nasty.units(), folder)


def _events(folder: Path) -> LoadedExperiment:
    world = events_world.world(300)
    return in_files(events_world.experiment(timezone="Asia/Kolkata"), world.logs, folder)


def _text(folder: Path) -> LoadedExperiment:
    """CSV files in a zone, with rows twice and blank ones."""
    log = small_log(900, 60)
    log["ts"] = log["ts"].dt.strftime("%d/%m/%Y %H:%M:%S")
    blank = pd.DataFrame({name: [None] for name in log})
    log = pd.concat([log, log.head(30), blank.astype(object)], ignore_index=True)
    logs = {"impressions": {"ts_zone": "America/New_York", "ts_format": "%d/%m/%Y %H:%M:%S"}}
    loaded = abeval.define(
        name="text",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        timezone="Asia/Kolkata",
        period=PERIOD,
        logs=logs,
    )
    return in_files(loaded, {"impressions": log}, folder, impressions="csv")


def _rule(folder: Path) -> LoadedExperiment:
    """Assigned by hash, without a column of the variant; the unit is a number."""
    log = small_log(900, 60).drop(columns="variant")
    loaded = abeval.define(
        name="rule",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        assignment={"salt": "s", "traffic": 0.9},
        logs={"impressions": {}},
    )
    return in_files(loaded, {"impressions": log}, folder)


def _crossed(folder: Path) -> LoadedExperiment:
    """Units in two variants are left out; rows are units' sums of two arms."""
    log = small_log(900, 60)
    log.loc[::40, "variant"] = "c"
    loaded = abeval.define(
        name="crossed",
        unit="user_id",
        control="a",
        variants={"a": {"of": ["a", "c"]}, "b": {}},
        cleaning={"crossover": "exclude"},
        logs={"impressions": {"where": "position < 5"}},
    )
    return in_files(loaded, {"impressions": log}, folder)


def _rows(folder: Path) -> LoadedExperiment:
    """Each impression is a unit, and has no id."""
    loaded = abeval.define(
        name="rows",
        unit="row",
        control="a",
        variants={"a": {}, "b": {}},
        period=PERIOD,
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}, {"name": "spent", "value": "dwell", "cap": 0.9}],
    )
    return in_files(loaded, {"impressions": small_log().drop(columns="user_id")}, folder)


WORLDS |= {
    "rows": _rows,
    "tied": _tied,
    "touched": _touched,
    "units": _units,
    "events": _events,
    "text": _text,
    "rule": _rule,
    "crossed": _crossed,
}


QUICK = ("rows", "tied", "touched", "units")


@pytest.mark.first_cases(1)
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    "world",
    [world if world in QUICK else pytest.param(world, marks=pytest.mark.whole) for world in WORLDS],
)
def test_a_statement_gives_the_value_of_the_analysis(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(WORLDS[world](tmp_path), monkeypatch)


@pytest.mark.slow
@pytest.mark.whole
def test_all_metrics_of_the_sample_are_those_of_the_analysis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check(abeval.load(SAMPLE), monkeypatch) == 21


@pytest.mark.whole
def test_items_and_users_before_the_period_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = abeval.load(SAMPLE).replace(metrics=[{"name": "novelty"}, {"name": "serendipity"}])
    assert check(loaded, monkeypatch) == 2


@pytest.mark.slow
@pytest.mark.whole
def test_what_is_printed_of_a_metric_is_short_and_in_lower_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment = abeval.load(SAMPLE).experiment
    texts = write_metric_statements(experiment, [m.name for m in find_metrics_by_name(experiment)])
    code, said = printed(capsys, str(SAMPLE), "gauc")
    assert code == 0
    assert said.strip() == texts["gauc"].strip()
    for text in texts.values():
        lines = text.splitlines()
        assert len(lines) <= LINES
        code_lines = [line for line in lines if not line.startswith("--")]
        own = re.sub(r"'[^']*'", "", "\n".join(code_lines))
        assert own == own.lower()
        assert "-- grain: one row per" in text


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of `abeval tools sql`, and what it says."""
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["abeval", "tools", "sql", *arguments])
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    said = capsys.readouterr()
    return code, said.out if code == 0 else said.err


@pytest.mark.parametrize(
    ("entries", "metric", "said"),
    [
        (
            {"metrics": [{"name": "both", "function": "ctr + clicks_per_user"}]},
            "both",
            "it is a function of ctr, clicks_per_user",
        ),
        (
            {"design": {"cluster": "country"}, "metrics": [{"name": "ctr"}]},
            "ctr",
            "compared by their clusters",
        ),
        ({"metrics": [{"name": "ctr"}]}, "gauc", "the logs have no score"),
        ({"metrics": [{"name": "ctr"}]}, "ctrr", "no metric is called 'ctrr'"),
    ],
)
def test_what_has_no_statement_is_refused_with_the_reason(
    entries: dict[str, Any], metric: str, said: str, tmp_path: Path
) -> None:
    base = {"name": "x", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    write(tmp_path, {"impressions": small_log().drop(columns="score").assign(country="x")})
    logs = {"impressions": {"path": "impressions.parquet"}}
    experiment = abeval.define(tmp_path, **{**base, "logs": logs, **entries}).experiment
    with pytest.raises(ExperimentError, match=re.escape(said)):
        write_metric_statements(experiment, [metric])


def test_an_experiment_without_a_metric_asks_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = printed(capsys, str(SAMPLE))
    assert code == 2
    assert "name a metric of the experiment, or give --views" in said


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize("world", ["events", "numbers", "sample"])
def test_queries_run_over_the_views(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = abeval.load(SAMPLE) if world == "sample" else WORLDS[world](tmp_path)
    monkeypatch.chdir(loaded.experiment.folder)
    ran = set()
    with duckdb.connect() as connection:
        connection.execute(write_view_statements(loaded.experiment))
        shown = connection.execute("select view_name from duckdb_views()").fetchall()
        views = {name for (name,) in shown}
        for name in PLAIN:
            if named_relations(name) <= views:
                connection.execute(f"select count(*) from ({query(name)}) as answer")
                ran.add(name)
    assert RUN[world] <= ran


PLAIN = [*ANALYSIS, "2_units/shown"]
PLAIN.remove("2_units/exposure_segments")
_OF_ROWS = {"4_metrics/sessions", "4_metrics/page_views", "2_units/logged_sums", "4_metrics/reach"}
_OF_SCORES = {"4_metrics/gauc", "4_metrics/auc", "4_metrics/unit_aucs", "4_metrics/served_ranking"}
_OF_CLICKS = {f"1_log/{name}" for name in ("clicked_keys", "click_fate", "attributed")}
_VIEWS = {"1_log/seen", "2_units/dated_sums"} | {
    f"3_rows/{name}" for name in ("metric_rows", "scored", "valued", "shown_rows")
}
RUN = {
    "sample": _OF_ROWS | _OF_SCORES | _OF_CLICKS | _VIEWS | {"1_log/exposed", "4_metrics/quantile"},
    "events": {"3_rows/outcomes", "4_metrics/unit_events", "3_rows/impression_events"},
    "numbers": _OF_ROWS | _OF_SCORES | _OF_CLICKS | {"4_metrics/category_diversity"},
}
"""World → queries that its views are enough for."""


@pytest.mark.whole
def test_views_are_written_to_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "e.toml").write_text(EXPERIMENT)
    write(folder, {"impressions": small_log()})
    database = tmp_path / "views.duckdb"
    assert printed(capsys, str(folder / "e.toml"), "--database", str(database))[0] == 0
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(database, read_only=True) as connection:
        rows = connection.execute("select count(*), sum(c_1) from logged_cells").fetchone()
        assert rows is not None
        assert rows[1] == len(small_log())
        assert connection.execute(query("4_metrics/page_views")).fetchall()


EXPERIMENT = """
name = "small"
unit = "user_id"
control = "a"
[variants.a]
[variants.b]
[logs.impressions]
path = "impressions.parquet"
[[metrics]]
name = "ctr"
"""
