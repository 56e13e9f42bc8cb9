"""`abeval tools sql EXPERIMENT METRIC`: one statement, pasted elsewhere, gives what `analyze` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import abeval
from abeval.api import LoadedExperiment
from abeval.errors import ExperimentError
from abeval.table.metric_sql import metric_statements, view_statements
from tests.aggregates import events_world
from tests.engines import nasty
from tests.logs.small import PERIOD, small_log

LINES = 150


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
    paths, entries = write(folder, frames, **formats), loaded.experiment.model_dump(
        exclude_unset=True, by_alias=True
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
    texts = metric_statements(experiment, names or [*known])
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


WORLDS |= {
    "tied": _tied,
    "touched": _touched,
    "units": _units,
    "events": _events,
    "text": _text,
    "rule": _rule,
    "crossed": _crossed,
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("world", WORLDS)
def test_a_statement_gives_the_value_of_the_analysis(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = WORLDS[world](tmp_path)
    assert check(loaded, monkeypatch) >= 1
