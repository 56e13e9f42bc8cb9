"""Healthy logs of each kind pass every check, and faults are found, by the whole analysis."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from abeval.results.analysis import Result
from benchmarks.calibration import healthy_logs
from benchmarks.calibration.audits import FAULTS as OLD_FAULTS
from benchmarks.calibration.faulty_worlds import FAULTS
from benchmarks.calibration.healthy_logs import Plan, analyze_world, judge
from benchmarks.calibration.healthy_worlds import (
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_log_of_each_kind_passes_every_check(kind: str) -> None:
    run = judge(Plan(kind, number=3, seed=5, users=1_000))
    assert run.fails == run.warns == []
    assert "do_not_trust" not in run.decisions


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_forty_healthy_logs_of_each_kind_fail_no_check(kind: str) -> None:
    runs = [judge(plan) for plan in healthy_logs.plans([kind], 40, (1_000, 3_000), (0, 0.2), 7)]
    assert [run.fails for run in runs if run.fails] == []
    assert sum(bool(run.warns) for run in runs) <= 5


def hours(result: Result) -> dict[str, str]:
    """The checks of time that warn or fail."""
    checks = [check for check in result.trust if check.name in HOURS]
    return {one.name: one.message for one in checks if one.status in ("warn", "fail")}


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


@pytest.mark.parametrize("name", NEW_FAULTS)
def test_a_faulty_log_is_found_and_decides_nothing(name: str) -> None:
    run = judge(Plan(name, number=1, seed=5))
    assert run.is_found
    assert set(run.decisions) <= {"do_not_trust", "draft"}


def test_a_stopped_command_goes_on_where_it_was(tmp_path, monkeypatch, capsys) -> None:
    kept = tmp_path / "runs.jsonl"

    def tables(runs: str, carried_out: list[Plan]) -> str:
        def counted(plan: Plan) -> healthy_logs.Run:
            carried_out.append(plan)
            return healthy_logs.Run(*plan, ["ship"], [], ["srm"], 0.1)

        monkeypatch.setattr(healthy_logs, "judge", counted)
        options = ["--runs", runs, "--kinds", "late rows", "--faulty", "1", "--keep", str(kept)]
        monkeypatch.setattr(sys, "argv", ["healthy_logs", *options])
        healthy_logs.main()
        return capsys.readouterr().out

    first: list[Plan] = []
    tables("2", first)
    assert len(first) == 2 + len(FAULTS)
    second: list[Plan] = []
    printed = tables("5", second)
    assert [plan.number for plan in second] == [2, 3, 4]
    assert "| late rows | 5 | 0 | 0.0 % | – | **100.0 %** | `srm` 5 | 3, 0 of 3 |" in printed
    assert "| three hours | `missing_hours` | **0 of 1** | 0 | 1 | 0 |" in printed
