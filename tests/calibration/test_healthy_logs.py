"""Healthy logs of each kind pass every check, and faults are found, by the whole analysis."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.results.analysis import Result
from benchmarks.calibration import healthy_logs
from benchmarks.calibration.healthy_logs import Run, analyze_world, judge
from tests.worlds.audited import FAULTS as OLD_FAULTS
from tests.worlds.faulty import FAULTS
from tests.worlds.healthy import (
    HOUR_MS,
    KINDS,
    RAMPS,
    Split,
    Visits,
    World,
    declare_splits,
    draw_logs,
    draw_ramp,
    draw_visits,
)

NEW_FAULTS = [name for name in FAULTS if name not in OLD_FAULTS]
HOURS = ("missing_hours", "short_days", "clock", "late_data")


@pytest.mark.first_cases(6)
@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_log_of_each_kind_passes_every_check(kind: str) -> None:
    run = judge(kind, number=3, seed=5)
    assert run.fails == run.warns == []
    assert "do_not_trust" not in run.decisions


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_forty_healthy_logs_of_each_kind_fail_no_check(kind: str) -> None:
    runs = [judge(kind, number, seed=7) for number in range(40)]
    assert [run.fails for run in runs if run.fails] == []
    assert sum(bool(run.warns) for run in runs) <= 5


def hours(result: Result) -> dict[str, str]:
    """The checks of time that warn or fail."""
    checks = [check for check in result.trust if check.name in HOURS]
    return {one.name: one.message for one in checks if one.status in ("warn", "fail")}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("stages", "hour"),
    [
        (RAMPS[0], 0),
        (RAMPS[1], 12),
        (RAMPS[2], 0),
        *(
            pytest.param(stages, hour, marks=pytest.mark.slow)
            for stages in RAMPS
            for hour in (0, 12, 17)
        ),
    ],
)
def test_no_hour_of_a_declared_ramp_lacks_rows(stages, hour: int) -> None:
    """A first, middle or last stage of a day failed always."""
    world = draw_ramp(np.random.default_rng(hour), 3_000, 0.0, stages, hour)
    assert hours(analyze_world(world)) == {}


def test_a_stage_of_a_few_units_has_no_rhythm_of_its_own() -> None:
    """Two units of each variant came in the last stage, at two hours: that was a shifted clock."""
    random = np.random.default_rng(1)
    visits = draw_visits(random, 1_000, days=np.repeat([1.0, 0.0], [13, 1]))
    last = 13 * 24 * HOUR_MS
    few = Visits(
        np.arange(1_000, 1_004).repeat(3),
        last + np.array([18, 20]).repeat(6) * HOUR_MS,
        np.full(12, 0.1),
    )
    both = Visits(*(np.concatenate(pair) for pair in zip(visits, few, strict=True)))
    splits = [Split(0, (0.5, 0.5)), Split(last, (0.4, 0.6))]
    shown, clicks = draw_logs(random, both, 0.0, splits).values()
    late = shown["user_id"] >= 1_000
    shown.loc[late, "variant"] = np.where(shown["user_id"][late] < 1_002, "control", "treatment")
    logs = {"impressions": shown, "clicks": clicks}
    result = analyze_world(World(logs, declare_splits(splits)))
    assert "clock" not in hours(result)


@pytest.mark.first_cases(6)
@pytest.mark.whole
@pytest.mark.parametrize("name", NEW_FAULTS)
def test_a_faulty_log_is_found_and_decides_nothing(name: str) -> None:
    run = judge(name, number=1, seed=5)
    assert run.is_found
    assert set(run.decisions) <= {"do_not_trust", "draft"}


def test_decisions_and_checks_are_counted_by_kind(monkeypatch) -> None:
    runs = [
        Run(1_000, 0.0, ["ship"], [], ["srm"], is_found=False),
        Run(1_000, 0.2, ["keep_running"], ["srm"], ["aa"], is_found=True),
    ]
    monkeypatch.setattr(healthy_logs, "judge", lambda kind, number, seed: runs[number])
    row = healthy_logs.measure_kind("late rows", 2, 0)
    assert (row["a check fails, %"], row["warns, %"], row["no effect: ship"]) == (0.5, 0.5, 1)
    assert row["+20 %: not shipped, by users, of 0"] == "1,000: 1"
    fault = healthy_logs.measure_fault("three hours", 2, 0)
    assert (fault["found"], fault["ship"], fault["checks"]) == (1, 1, "`missing_hours`")
