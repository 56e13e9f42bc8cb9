"""A split that changes, or only seems to: what the whole analysis says of simulated logs."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from benchmarks.calibration.split import Plan, measure_plan
from tests.worlds.splits import METRICS, WORLDS, Says, analysed, users_of

pytestmark = pytest.mark.slow

EVEN, _, MOVED, RAMP, _, STICKY, _ = WORLDS
SEEDS = range(2)


def decisions(world, says, lift=0.0):
    return {analysed(world, users_of(world, s, lift), says).verdicts[0].decision for s in SEEDS}


def test_a_treatment_that_moves_first_impressions_makes_no_effect():
    """Issue: DO NOT SHIP in 30 of 40, clicks per user −14 %, with no effect at all."""
    assert decisions(MOVED, "nothing") == {"do_not_trust"}
    assert decisions(MOVED, "schedule") <= {"keep_running", "ship"}
    users = users_of(MOVED, 0, 0.17)
    row = analysed(MOVED, users, "schedule")["clicks_per_user"]
    means = [users.clicks[users.treated == arm].mean() for arm in (0, 1)]
    assert row.lift == pytest.approx(means[1] / means[0] - 1, rel=1e-9)


def test_a_ramp_is_compared_within_stretches_where_its_assignment_is_known():
    """Active users come sooner, when few were treated: pooled, the treatment looks worse."""
    assert decisions(RAMP, "nothing") == {"do_not_trust"}
    assert decisions(RAMP, "schedule") == decisions(RAMP, "exposures") == {"keep_running"}
    users = users_of(RAMP, 0)
    means = [users.clicks[users.treated == arm].mean() for arm in (0, 1)]
    assert means[1] / means[0] < 0.9
    for says in ("schedule", "exposures"):
        row = analysed(RAMP, users, says)["clicks_per_user"]
        assert row.lift_low < 0 < row.lift_high


def test_users_who_were_assigned_before_they_came_need_exposures():
    """Issue: SHIP in 4 of 16, with no effect. The schedule's own shares do not fit the entries."""
    assert decisions(STICKY, "nothing") == decisions(STICKY, "schedule") == {"do_not_trust"}
    assert decisions(STICKY, "exposures") == {"keep_running"}


def test_an_even_split_is_one_stretch_whatever_the_file_says():
    results = [analysed(EVEN, users_of(EVEN, 1), says) for says in get_args(Says)]
    assert all(result.ramps == () for result in results)
    assert results[0].scorecard == results[1].scorecard == results[2].scorecard


def test_the_table_counts_verdicts_and_the_intervals_that_may_be_read():
    moved = measure_plan(Plan(MOVED, "nothing"), 1, 0)
    assert moved["do not trust, %"] == 1
    assert all(np.isnan(moved[f"{name} covered, %"]) for name in METRICS)
    ramp = measure_plan(Plan(RAMP, "schedule", adjust="cuped"), 1, 0)
    assert list(ramp.values())[1:] == ["schedule", 0, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("says", ["schedule", "exposures"])
def test_a_true_effect_is_covered_under_a_ramp(says):
    counts = measure_plan(Plan(RAMP, says, lift=0.17), 100, 0)
    error = np.sqrt(0.05 * 0.95 / 100)
    assert all(counts[f"{name} covered, %"] > 0.95 - 3 * error for name in METRICS)
