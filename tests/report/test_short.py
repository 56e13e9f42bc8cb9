"""Results as text, at any width: no name, variant or status is cut; and how results display."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app, main
from abeval.history.entries import Addable, build_rows
from abeval.history.table import edit_rows
from abeval.report.replay_tables import choose_metrics
from abeval.report.short import tabulate
from abeval.report.terminal import as_text
from abeval.results import codes
from abeval.results.analysis import Result
from abeval.results.record import Record
from abeval.simulate import simulate
from tests import builders
from tests.cli.test_cli import abeval as command
from tests.history.past import past

WIDTHS = (36, 80, 140)
METRIC = "revenue_per_session_" * 6
VARIANT = "the new ranker, with a long description " * 3
UNIT = "seconds per session of a returning user."
LONG = {"ctr": METRIC, "treatment": VARIANT, "sample": "s" * 120, "share": UNIT}
SHORT: dict[str, str] = {}
UNITS = {"share": UNIT}

STATUS = {
    "Result": [("scorecard", ("metric", "variant", "status"))],
    "TimeResult": [("stability", ("metric", "variant", "verdict"))],
    "AAResult": [("metrics", ("metric",))],
    "Plans": [("plans", ("metric",))],
    "Pairwise": [("values", (0,)), ("pairs", ("variant", "base"))],
    "ReplayResult": [("models", ("name",))],
    "Agreement": [("decompositions", ("metric",)), ("causes", ("name", "status"))],
    "CheckResult": [("trust", ("name", "status"))],
    "AuditResult": [("matrix", ("logged", "expected"))],
    "OffPolicyResult": [("rows", ("estimator",))],
    "HistoryReport": [
        ("predictions", ("predictor", "target")),
        ("sensitivity", ("measure",)),
        ("gained", ("metric",)),
    ],
}
"""What every row of a result must show, in this order."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    folder = tmp_path_factory.mktemp("short")
    simulate(folder, impressions=6_000)
    loaded = abeval.load(folder / "experiment.toml")
    few = loaded.replace(metrics=[{"name": "ctr", "role": "goal"}, {"name": "dwell_per_user"}])
    named: list[Record] = [
        *(few.analyze(), few.windows(), few.aa(runs=50), few.power(), few.compare("ctr")),
        *(loaded.replay(), few.agree(metrics=["auc", "log_loss"])),
        *(few.check(), few.replace(assignment={"salt": "another"}).audit(), policy()),
        history(folder / "h.parquet"),
    ]
    return {type(result).__name__: result for result in named}


def policy() -> abeval.OffPolicyResult:
    """The value of the treatment's policy, on a log of its own with propensities."""
    rows, random = 400, np.random.default_rng(1)
    log = pd.DataFrame(
        {
            "user_id": [f"u{i}" for i in range(rows)],
            "item_id": random.integers(0, 3, rows).astype(str),
            "variant": random.choice(["control", "treatment"], rows),
            "time": pd.Timestamp("2026-03-03 12:00"),
            "click": random.integers(0, 2, rows),
            "propensity": 1 / 3,
        }
    )
    own = abeval.define(
        name="sample",
        unit="user_id",
        control="control",
        variants={"control": {}, "treatment": {}},
        logs={"impressions": {"columns": {"ts": "time"}}},
        metrics=[{"name": "ctr"}],
    )
    return own.off_policy("control", to="treatment", logs={"impressions": log})


def history(path: Path) -> abeval.HistoryReport:
    results: list[Addable] = []
    for each in past(10, seed=3):
        results += [each.result, each.replayed]
    with edit_rows(path) as rows:
        rows += [row for one in results for row in build_rows(one, None)]
    return abeval.History(path).report(metrics=["ctr"])


def renamed(result: Any, names: dict[str, str]) -> Any:
    """The same result with other names, wherever they stand."""
    return TypeAdapter(type(result)).validate_python(_renamed(result.to_dict(), names))


def _renamed(part: Any, names: dict[str, str]) -> Any:
    if isinstance(part, dict):
        # The click rate of a position is a field, no metric.
        keys = {} if "position" in part else {"ctr": names.get("ctr", "ctr")}
        return {keys.get(key, key): _renamed(value, names) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_renamed(one, names) for one in part]
    return names.get(part, part) if isinstance(part, str) else part


def squeezed(text: object) -> str:
    return "".join(str(text).replace("_", " ").split())


def in_order(result: Record, text: str) -> None:
    """Each row's names and status stand in the text, in the order of the rows."""
    whole = squeezed(text)
    for field, keys in STATUS[type(result).__name__]:
        rows = getattr(result, field)
        if field == "trust":
            # Those that passed are counted, the others stand from the worst to the least.
            order = ("fail", "warn", "skipped")
            rows = sorted(
                (r for r in rows if r.status in order), key=lambda r: order.index(r.status)
            )
        # What is the same in every row has no column.
        one = field in ("scorecard", "stability") and len({row.variant for row in rows}) == 1
        keys = tuple(key for key in keys if not (one and key == "variant"))
        place = max(whole.find(squeezed("Scorecard")), 0)
        for row in rows:
            for key in keys:
                word = codes.describe_code(row[key] if isinstance(key, int) else getattr(row, key))
                place = whole.find(squeezed(word), place)
                assert place >= 0, (field, key, word)


@pytest.mark.first_cases(8)
@pytest.mark.parametrize(
    ("width", "names"), [(36, SHORT), (80, UNITS), *((width, LONG) for width in WIDTHS)]
)
@pytest.mark.parametrize("kind", list(STATUS))
def test_no_name_variant_or_status_is_cut(
    results: dict[str, Record], kind: str, width: int, names: dict[str, str]
) -> None:
    result = renamed(results[kind], names)
    for whole in (False, True):
        text = as_text(result, width, whole)
        assert max(len(line) for line in text.splitlines()) <= width
        if whole or kind != "Agreement":
            in_order(result, text)
        assert "NaN" not in text
        assert "None" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_nor_is_one_of_several_variants(width: int) -> None:
    result = renamed(builders.three_variants(), LONG)
    in_order(result, as_text(result, width))
    assert "…" not in as_text(result, width)


def test_an_agreement_names_what_was_checked_and_what_is_missing(
    results: dict[str, Record],
) -> None:
    result: Any = results["Agreement"]
    text = squeezed(as_text(result, 80))
    for cause in result.causes:
        if cause.status != "cannot be checked":
            assert squeezed(cause.name) in text.lower()
        assert all(squeezed(need) in text for need in cause.needs)
    for offline in {row.offline for row in result.rows if row.role == "goal"}:
        assert text.count(squeezed(f"{offline} treatment")) == 1


def test_an_agreement_says_trust_guardrails_and_where_less_is_better(
    results: dict[str, Record],
) -> None:
    result: Any = results["Agreement"]
    text = " ".join(as_text(result).split())
    assert "Trust: no failed check touches the metric." in text
    guards = [row for row in result.rows if row.role == "guardrail"]
    assert ("Guardrails: online" in text) is bool(guards)
    assert "lower is better for log_loss" in text


def test_a_replay_shows_a_dozen_metrics_at_the_largest_cut_off(results: dict[str, Record]) -> None:
    result = results["ReplayResult"]
    lines = as_text(result).splitlines()
    starts = [line.partition(",")[0] for line in lines if ", all traffic: " in line]
    others = ["FCP", "Q_ctr and calibration", "Beyond accuracy"]
    assert starts == ["Ranking", "Classification", *others]
    rows = [line.split()[0] for line in lines if line.startswith("  ")]
    assert [row for row in rows if "@10" in row][:3] == ["precision@10", "recall@10", "f1@10"]
    assert (sum("@10" in row for row in rows), sum("@5" in row for row in rows)) == (12, 0)
    assert len(lines) < 60
    assert any("more metrics, and each variant's traffic: --all" in line for line in lines)
    whole = as_text(result, show_all=True)
    assert all(row.metric in whole for row in getattr(result, "rows"))  # noqa: B009
    assert "traffic of treatment" in whole


def test_a_replay_says_on_which_traffic_differences_have_the_other_sign(
    results: dict[str, Record],
) -> None:
    result: Any = results["ReplayResult"]
    assert {"control", "treatment", "pooled"} == {pair.traffic for pair in result.pairs}
    up, down = ({"difference": d, "low": d - 0.5, "high": d + 0.5} for d in (1.0, -1.0))
    pairs = [replace(p, **(down if p.traffic == "control" else up)) for p in result.pairs]
    first = as_text(replace(result, pairs=tuple(pairs)), 200).splitlines()[1]
    assert first.startswith("On control's traffic ")
    assert "such as auc -1" in first
    # Signs at cut-offs that the screen does not show count too.
    shown = [pair for pair in pairs if "@" not in pair.metric or "@10" in pair.metric]
    hidden = [pair for pair in pairs if pair not in shown]
    even = [replace(pair, low=-1.0, high=1.0) for pair in shown]
    text = as_text(replace(result, pairs=(*even, *hidden)), 200)
    assert ("have the other sign" in text) == (4 * len(hidden) >= len(pairs))
    assert "have the other sign" not in as_text(replace(result, pairs=()), 200)


def test_effects_over_time_say_since_when(results: dict[str, Record]) -> None:
    result: Any = results["TimeResult"]
    known = tuple(replace(row, window_days=11) for row in result.stability)
    text = as_text(replace(result, stability=known), 140)
    assert re.search(r"since day[^\n]*\n[^\n]*\n *ctr[^\n]* 11\b", text)


def test_metrics_without_a_value_give_way_first(results: dict[str, Record]) -> None:
    ids = [f"m{i}@5" for i in range(14)]
    row = replace(results["ReplayResult"].rows[0], traffic="x")  # type: ignore[attr-defined]
    rows = tuple(
        replace(row, metric=m, value=float(i) if i > 1 else None) for i, m in enumerate(ids)
    )
    assert choose_metrics(replace(results["ReplayResult"], rows=rows)) == ids[2:]  # type: ignore[type-var]


def test_results_are_indexed_by_metric_and_say_what_there_is(results: dict[str, Record]) -> None:
    for kind in ("Result", "TimeResult", "AAResult", "Plans"):
        result: Any = results[kind]
        assert result["ctr"].metric == "ctr"
        with pytest.raises(KeyError, match="'clicks'; there are ctr"):
            result["clicks"]
    replay: Any = results["ReplayResult"]
    assert replay["auc"] == replay["auc", "baseline", "control"]
    assert replay["auc", "candidate", "pooled"].model == "candidate"
    pairs: Any = results["Pairwise"]
    assert pairs["treatment"] == pairs["treatment", "control"] == pairs.pairs[0]


def test_results_display_themselves(results: dict[str, Record]) -> None:
    for result in results.values():
        assert f"{result!r}\n" == str(result) == as_text(result)  # type: ignore[arg-type]
        page = result._repr_html_()
        assert "<table" in page
        assert "<script" not in page
        assert len(result.to_frame()) > 0  # type: ignore[attr-defined]


def test_names_of_a_result_are_text_in_a_notebook(results: dict[str, Record]) -> None:
    page = renamed(results["Pairwise"], {"treatment": builders.HOSTILE})._repr_html_()
    assert "<script" not in page
    assert "&lt;script" in page


def test_a_plan_without_an_answer_keeps_its_baseline(results: dict[str, Record]) -> None:
    plans: Any = results["Plans"]
    none = replace(plans["ctr"], mde=None, units=None, units_control=None, days=None, reason="x")
    text = as_text(replace(plans, plans=(none,)), 80)
    assert "x" in text
    assert f"{none.baseline:.4g}" in text


@pytest.mark.whole
def test_a_pipe_is_wide_enough_without_colours(tmp_path: Path) -> None:
    """A pipe, a terminal of 60 columns, NO_COLOR: the process itself."""
    (tmp_path / "t.csv").write_text(
        "unit,variant,a_rather_long_name_of_a_metric\n"
        + "".join(f"{i},{'ab'[i % 2]},{i % 7}\n" for i in range(400))
    )
    flags = ("analyze", tmp_path / "t.csv", "--unit", "unit", "--variant", "variant")
    for environment in ({"COLUMNS": "60"}, {"NO_COLOR": "1", "COLUMNS": ""}):
        done = command(*flags, **environment)
        assert done.returncode == 0, done.stderr
        assert "a_rather_long_name_of_a_metric" in done.stdout
        assert "\x1b" not in done.stdout
        limit = 60 if environment.get("COLUMNS") else 112
        assert max(map(len, done.stdout.splitlines())) <= limit


@pytest.mark.parametrize("width", WIDTHS)
def test_commands_without_a_result_fit_too(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`init` and `assign --explain`, piped, in a terminal of so many columns."""
    column = "the_days_between_a_users_first_two_visits"
    days = np.arange(90) % 40
    frame = pd.DataFrame({"user_id": range(90), "group": ["a", "b"] * 45, column: days, "n": days})
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    commands = (
        ("init", "t.csv", "--output", "e.toml"),
        (
            "tools",
            "assign",
            "--salt",
            "a_long_salt_" * 4,
            "--variants",
            "a=1,b=1",
            "--explain",
            "u1",
        ),
    )
    texts = []
    for command_ in commands:
        monkeypatch.setattr("sys.argv", ["abeval", *command_])
        with pytest.raises(SystemExit) as end:
            main()
        texts.append(capsys.readouterr().out)
        assert not end.value.code, texts
        assert "\x1b" not in texts[-1]
        assert max(map(len, texts[-1].splitlines())) <= width
    assert squeezed(column) in squeezed(texts[0])
    assert "  abeval analyze e.toml\n" in texts[0]
    assert squeezed("an outcome, or known before?") in squeezed(texts[0])
    assert squeezed("sub_bucket") in squeezed(texts[1])


def test_brackets_of_a_help_text_are_printed() -> None:
    """Rich would read them as its own marks."""
    assert "ndcg@10[exp]" in command("replay", "--help", COLUMNS="140").stdout


def test_metrics_are_listed_whole_at_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    from abeval.experiment.sections import Clicks, Sessions
    from abeval.metrics.builtin import load_builtin_metrics

    names = load_builtin_metrics(Clicks().long_seconds, Sessions().gap_minutes)
    for width in ("40", "80", "200"):
        monkeypatch.setenv("COLUMNS", width)
        done = CliRunner().invoke(app, ["tools", "metrics"])
        words = done.stdout.split()
        assert all(name in words for name in names)
        assert "…" not in done.stdout


def test_the_result_of_an_analysis_is_not_in_part() -> None:
    result: Result = builders.ship()
    assert as_text(result, show_all=True) == as_text(result)


def test_every_kind_of_result_has_tables_a_draft_says_so_and_notes_stand_below(
    results: dict[str, Record],
) -> None:
    for name in set(results) - {"Result"}:
        shown = tabulate(results[name])
        assert shown.parts, name
        assert squeezed(results[name]).endswith(squeezed("".join(shown.notes))), name
        if "questions" in results[name].__dataclass_fields__:
            asked = replace(results[name], questions=("which one?",))
            assert tabulate(asked).draft.startswith("DRAFT: "), name
            assert str(asked).startswith("DRAFT: "), name
