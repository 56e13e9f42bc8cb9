"""A split that changes: what the analysis says, on logs and over many simulated experiments."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from abeval.api import LoadedExperiment
from benchmarks.calibration.split import (
    START,
    WORLDS,
    aggregates_of,
    experiment_of,
    pooled_result,
    result_of,
    tally,
    units_of,
)

RAMP, RETURNS, DAILY, THREE, EVEN = WORLDS


def log_of(world, units):
    """The impressions of simulated units, one visit a unit; scores all alike."""
    parts = []
    for shown, clicks, when in (
        (units.shown, units.clicks, pd.Timestamp(START) + pd.to_timedelta(units.day, unit="D")),
        (units.shown_before, units.clicks_before, pd.Timestamp("2026-01-02")),
    ):
        user = np.repeat(np.arange(len(shown)), shown)
        place = np.arange(len(user)) - np.repeat(np.cumsum(shown) - shown, shown)
        ts = when if isinstance(when, pd.Timestamp) else when[user]
        parts.append(
            pd.DataFrame(
                {
                    "user_id": user,
                    "variant": np.array(world.variants)[units.variant[user]],
                    "ts": ts + pd.Timedelta(hours=13),
                    "click": (place < clicks[user]).astype(int),
                    "score": 0.5,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("world", [RAMP, THREE], ids=["ramp", "three variants"])
@pytest.mark.parametrize("scheduled", [False, True])
def test_the_simulated_sums_are_those_of_the_queries(world, scheduled):
    units = units_of(world, 5)
    loaded = LoadedExperiment(experiment_of(world, scheduled, "cuped"))
    loaded = loaded.replace(metrics=[{"name": "ctr"}, {"name": "clicks_per_user", "role": "goal"}])
    by_log = loaded.analyze(logs={"impressions": log_of(world, units)})
    by_hand = result_of(world, units, scheduled, "cuped")
    assert len(by_log.ramps) == 2
    assert by_log.ramps == by_hand.ramps
    for row in by_log.scorecard:
        twin = by_hand[row.metric, row.variant]
        assert (row.units_control, row.units) == (twin.units_control, twin.units)
        assert row.difference == pytest.approx(twin.difference, rel=1e-12)
        assert row.p_value == pytest.approx(twin.p_value, rel=1e-9)


def test_an_early_ten_percent_is_no_harm_and_no_gain():
    """Issue: ship at p < .001 before, with no effect at all."""
    results = [(units_of(RAMP, seed), RAMP) for seed in range(20)]
    said = [result_of(world, units, False).verdicts[0].decision for units, world in results]
    before = [pooled_result(world, units)["ctr"].p_value for units, world in results]
    assert said.count("keep_running") >= 17
    assert np.median(before) < 0.01


def test_units_that_return_are_compared_with_those_that_came_as_early():
    """Issue: `clicks_per_user` worse in 40 of 40, with no effect and no drift."""
    worlds = [units_of(RETURNS, seed) for seed in range(20)]
    rows = [result_of(RETURNS, units, False)["clicks_per_user"] for units in worlds]
    before = [pooled_result(RETURNS, units)["clicks_per_user"] for units in worlds]
    assert sum(row.difference < 0 and row.p_value < 0.05 for row in before) >= 19
    assert sum(row.p_value < 0.05 for row in rows) <= 4


@pytest.mark.parametrize("world", [RAMP, THREE], ids=["ramp", "three variants"])
def test_levels_and_coverage_over_few_experiments(world):
    """The table of 1,000 experiments is in docs/calibration.md."""
    found = tally(world, 25, ways=("found", "scheduled, CUPED"))
    assert max(found.rejected.values()) <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 25)
    assert min(found.covered.values()) >= 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / 25)
    assert found.failed <= 0.05


def test_an_even_split_is_one_stretch_and_nothing_changes():
    for seed in range(20):
        units = units_of(EVEN, seed)
        aggregates = aggregates_of(EVEN, units, experiment_of(EVEN, False))
        assert aggregates.stretches == ()
        assert result_of(EVEN, units, False).scorecard == pooled_result(EVEN, units).scorecard
