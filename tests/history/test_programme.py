"""What the launches of a quarter gained, beside a holdout."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.history import entries
from abeval.history.measures import build_measures
from abeval.history.programme import Holdout, Kept, describe_programme
from abeval.history.report import report
from abeval.history.table import StoredRows
from abeval.report.history_page import draw_weeks
from abeval.results.history import HistoryRow, Programme
from tests.cli.test_cli import call
from tests.history.past import online
from tests.worlds.launches import DATES, Quarter, build_holdout, build_rows, draw_quarter
from tests.worlds.quarter import Quarter as Logged
from tests.worlds.quarter import write_quarter
from tests.worlds.triggered import World, analyze_world

DRAWN = draw_quarter(Quarter(), np.random.default_rng(5))
ROWS = build_rows(DRAWN)
ALL_KEPT = Kept()


def programme(rows: list[HistoryRow], holdout: Holdout, kept: Kept = ALL_KEPT) -> Programme:
    measure = build_measures(rows).select_side("online")[0]
    return describe_programme(measure, rows, holdout, kept, 0.05)[0]


def test_a_holdout_that_agrees_makes_the_gain_more_precise() -> None:
    row = programme(ROWS, build_holdout(DRAWN.true, 0.02))
    assert row.basis == "both"
    assert row.launches == 12
    assert row.gained_low < math.expm1(DRAWN.true) < row.gained_high
    widths = [row.expected_high - row.expected_low, row.holdout_high - row.holdout_low]
    assert row.gained_high - row.gained_low < min(widths)
    # What was measured is too large by the winners' luck, and not all were live all the time.
    assert row.luck < 0
    assert row.not_live < 0


def test_the_steps_from_what_was_measured_add_up_to_the_holdout() -> None:
    row = programme(ROWS, build_holdout(0.05, 0.02), Kept((1.0, 0.6), 0.1))
    steps = row.naive + row.luck + row.wear_off + row.not_live + row.unexplained
    assert steps == pytest.approx(row.holdout)
    assert row.wear_off < 0
    assert row.unexplained_low < row.unexplained < row.unexplained_high


def test_the_page_draws_the_lift_to_the_end_of_each_week() -> None:
    kept = StoredRows(tuple(ROWS), is_signed=True)
    found = report(Path("history.parquet"), kept, None, None, 0.05, build_holdout(0.05, 0.02))
    (view,) = draw_weeks(found)
    holdout, launches = view.figure["data"]
    (week,) = found.weeks
    # Without covariates the lift is the same, and has no line of its own.
    assert (holdout["name"], launches["name"]) == ("holdout", "launches")
    assert holdout["x"] == launches["x"] == [week.end]
    assert (*holdout["y"], *launches["y"]) == (100 * week.holdout, 100 * week.expected)
    assert view.title == "ctr"


def test_a_holdout_that_refutes_the_launches_stands_alone() -> None:
    row = programme(ROWS, build_holdout(-0.08, 0.01))
    assert row.basis == "holdout"
    assert row.p_value < 0.01
    assert (row.gained, row.gained_low) == (row.holdout, row.holdout_low)


def test_an_untrusted_holdout_says_nothing() -> None:
    row = programme(ROWS, build_holdout(0.5, 0.01)._replace(failed=("srm",)))
    assert (row.basis, row.reason, row.holdout) == ("launches", "untrusted", None)
    assert row.gained == row.expected


def test_lifts_of_launches_compound() -> None:
    rows = [replace(row, effect=0.5, se=0.001, shipped=True) for row in ROWS[:6]]
    row = programme(rows, build_holdout(0.1, 0.01))
    assert row.naive == pytest.approx(1.5**6 - 1)
    assert row.together == pytest.approx(1.5**6 - 1, rel=0.01)


def test_the_holdout_in_its_history_changes_nothing() -> None:
    itself = replace(ROWS[0], experiment="holdout", effect=3.0, se=0.01, shipped=True)
    measured = build_holdout(0.05, 0.02)
    without, among = (
        report(Path("h"), StoredRows(tuple(rows), is_signed=True), None, None, 0.05, measured)
        for rows in (ROWS, [*ROWS, itself])
    )
    assert among == without
    assert among.programmes[0].unmeasured == 0


def test_what_was_launched_before_the_period_is_left_out() -> None:
    early = [replace(row, start="2026-06-01", end="2026-06-15") for row in ROWS[:1]]
    shipped = replace(early[0], shipped=True)
    assert (
        programme([shipped, *ROWS[1:]], build_holdout(0.05, 0.02)).launches == 12 - ROWS[0].shipped
    )


def test_a_test_of_few_units_hardly_counts_before_its_launch() -> None:
    # All are launched on the last day: before it, everybody else has only what is tested.
    last = dict.fromkeys((row.experiment for row in ROWS if row.shipped), "2026-09-29")
    holdout = build_holdout(0.0, 0.02)._replace(launches=last)
    small = [replace(row, units=90, units_control=90) for row in ROWS]
    half, few = programme(ROWS, holdout).expected, programme(small, holdout).expected
    day = programme([replace(row, start=None) for row in ROWS], holdout).expected
    # Of 9,000 units a day, 1 % are in such a test's variant, of all in a test of everybody 50 %.
    assert few - day == pytest.approx((half - day) / 50, rel=0.1)


def test_units_that_return_are_counted_once() -> None:
    last = dict.fromkeys((row.experiment for row in ROWS if row.shipped), DATES[-1])
    holdout = build_holdout(0.0, 0.02)._replace(launches=last)
    end = replace(holdout.plain.windows[-1], days=14, end=DATES[13], units=18_000)
    twice = replace(holdout.plain, windows=(end, *holdout.plain.windows))
    small = [replace(row, units=90, units_control=90) for row in ROWS]
    day = programme([replace(row, start=None) for row in ROWS], holdout).expected
    daily = programme(small, holdout).expected - day
    # In two weeks twice as many units come as on a day.
    entered = programme(small, holdout._replace(plain=twice)).expected - day
    assert entered == pytest.approx(daily / 2, rel=0.01)


def test_launches_can_have_days_of_their_own() -> None:
    first = next(row for row in ROWS if row.shipped)
    holdout = build_holdout(0.05, 0.02)._replace(launches={first.experiment: "2026-09-01"})
    measure = build_measures(ROWS).select_side("online")[0]
    _, (launch,), _ = describe_programme(measure, ROWS, holdout, Kept(), 0.05)
    assert (launch.experiment, launch.since) == (first.experiment, "2026-09-01")
    assert launch.share == pytest.approx(29 / 91)
    assert launch.low < launch.shrunk < launch.measured


def test_what_was_tested_before_the_period_can_be_launched_in_it() -> None:
    first = next(row for row in ROWS if row.shipped)
    rows = [
        replace(row, start="2026-06-10", end="2026-06-30") if row is first else row for row in ROWS
    ]
    holdout = build_holdout(0.05, 0.02)._replace(launches={first.experiment: "2026-07-05"})
    row = programme(rows, holdout)
    assert (row.launches, row.unmeasured) == (1, 0)


def test_what_is_launched_after_the_period_is_not_counted() -> None:
    later = replace(ROWS[0], experiment="new", metric="visits", shipped=True, end="2026-11-15")
    measure = build_measures([*ROWS, later]).select_side("online")[0]
    args = measure, [*ROWS, later], build_holdout(0.1, 0.02), Kept(), 0.05
    assert describe_programme(*args)[0].unmeasured == 0


def test_a_launch_without_a_day_or_a_test_is_refused() -> None:
    undated = [replace(row, start=None, end=None) for row in ROWS]
    with pytest.raises(ExperimentError, match="since when 'e"):
        programme(undated, build_holdout(0.05, 0.02))
    unknown = build_holdout(0.05, 0.02)._replace(launches={"nothing": "2026-09-01"})
    with pytest.raises(ExperimentError, match="no experiment 'nothing' that was shipped"):
        programme(ROWS, unknown)


def test_a_launch_that_was_not_measured_is_counted() -> None:
    other = replace(ROWS[0], experiment="new", metric="visits", shipped=True)
    measure = build_measures([*ROWS, other]).select_side("online")[0]
    row, _, _ = describe_programme(measure, [*ROWS, other], build_holdout(0.1, 0.02), Kept(), 0.05)
    assert (row.launches, row.unmeasured) == (12, 1)


def test_launches_of_exposed_units_count_by_the_lift_of_all_traffic() -> None:
    exposed = [replace(row, effect=10 * row.effect, se=10 * row.se, triggered=True) for row in ROWS]
    site = [
        replace(many, site_lift=row.effect, site_se=row.se)
        for many, row in zip(exposed, ROWS, strict=True)
    ]
    holdout = build_holdout(0.05, 0.02)
    assert programme(site, holdout) == programme(ROWS, holdout)
    # Where that lift is not known, nothing is said of them.
    first = next(i for i, row in enumerate(ROWS) if row.shipped)
    rows = [*ROWS[:first], exposed[first], *ROWS[first + 1 :]]
    row = programme(rows, holdout)
    assert (row.launches, row.unmeasured) == (11, 1)
    stored = StoredRows(tuple(rows), is_signed=True)
    (note,) = (
        note
        for note in report(Path("h"), stored, None, None, 0.05, holdout).notes
        if "exposed units" in note
    )
    assert note.endswith(f"all traffic: {ROWS[first].experiment}")


def test_a_history_keeps_the_lift_of_all_traffic() -> None:
    goal = [{"name": "ctr", "role": "goal"}]
    result = analyze_world(World(rate=0.1, lift=0.6, users=3_000), 20, metrics=goal)
    (seen,), (row,) = result.scorecard, entries.build_rows(result, frozenset())
    assert row.site_lift == seen.site_lift < seen.lift / 3
    assert row.site_lift + 1.96 * row.site_se == pytest.approx(seen.site_lift_high, rel=0.01)
    assert row.triggered
    (row,) = entries.build_rows(online("e", {"ctr": (0.1, 0.01)}, "ship"), None)
    assert (row.site_lift, row.triggered) == (None, False)


def test_too_few_experiments_say_nothing() -> None:
    row = programme(ROWS[:4], build_holdout(0.05, 0.02))
    assert (row.basis, row.reason) == ("none", "too_few_units")


@pytest.fixture(scope="module")
def quarter(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The files of a quarter in which two of six tests were shipped, and its true lift."""
    folder = tmp_path_factory.mktemp("quarter")
    effects = (0.02, 0.12, -0.08, 0.0, 0.1, -0.05)
    true = write_quarter(folder, Logged(effects, (1, 4), users=5_000, seed=5))
    history = abeval.History(folder / "h.parquet")
    for i in range(len(effects)):
        shipped = ["new"] if i in (1, 4) else []
        history.add(abeval.load(folder / f"e{i}.toml").analyze(), shipped=shipped)
    return folder, true


@pytest.mark.whole
def test_the_command_says_what_a_quarter_gained(
    quarter: tuple[Path, float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, true = quarter
    done = call(
        monkeypatch,
        *("history", "report", "--history", folder / "h.parquet"),
        *("--holdout", folder / "holdout.toml", "--json", folder / "h.json"),
        *("--report", folder / "h.html"),
    )
    assert done == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "by 2 launches and the holdout, which agree" in said
    report = json.loads((folder / "h.json").read_text())
    (row,) = report["programmes"]
    assert row["gained_low"] < true < row["gained_high"]
    assert [launch["experiment"] for launch in report["launches"]] == ["e1", "e4"]
    # By week, with and without values before the period.
    assert [week["days"] for week in report["weeks"]] == [7, 14, 21, 28, 35, 42]
    last = report["weeks"][-1]
    assert last["holdout_high"] - last["holdout_low"] < last["plain_high"] - last["plain_low"]
    assert "What the quarter gained" in (folder / "h.html").read_text()


@pytest.mark.whole
def test_an_experiment_without_a_holdout_is_refused(quarter: tuple[Path, float]) -> None:
    folder, _ = quarter
    history = abeval.History(folder / "h.parquet")
    with pytest.raises(ExperimentError, match=r"'e0' has no \[holdout\]"):
        history.report(holdout=abeval.load(folder / "e0.toml"))
    loaded = abeval.load(folder / "holdout.toml")
    with pytest.raises(ExperimentError, match="'q3' is a draft"):
        history.report(holdout=loaded.replace(questions=["is holdout the control?"]))
    variants = {"holdout": {}, "everyone": {}, "others": {}}
    with pytest.raises(ExperimentError, match="'q3' has 3 variants"):
        history.report(holdout=loaded.replace(variants=variants))
