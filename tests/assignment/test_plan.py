"""Layers, holdouts, traffic, overrides and sticky units."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from abeval.assignment import Assignment, Holdout, Layer, Plan
from abeval.assignment.platforms.fnv import GrowthBook
from abeval.assignment.randomness import independence, uniformity
from abeval.errors import ExperimentError
from tests.assignment.schemes import in_duckdb, odd_ids

EVEN = Assignment("exp", {"control": 1, "treatment": 1})
UNITS = [f"user_{i}" for i in range(20_000)]


def test_a_ramp_moves_no_enrolled_unit() -> None:
    plan = Plan(EVEN, traffic=0.1)
    before = plan.place_many(UNITS).variant
    for traffic in (0.2, 0.5, 1.0):
        after_plan = plan.ramped(traffic)
        after = after_plan.place_many(UNITS).variant
        enrolled = before.notna()
        assert (after[enrolled] == before[enrolled]).all()
        assert after.notna().mean() == pytest.approx(traffic, abs=0.015)
        assert plan.moved(after_plan) == 0
        plan, before = after_plan, after


def test_less_traffic_is_refused_and_other_weights_move_units() -> None:
    with pytest.raises(ExperimentError, match="units would leave a variant"):
        Plan(EVEN, traffic=0.5).ramped(0.2)
    heavier = Plan(Assignment("exp", {"control": 0.9, "treatment": 0.1}))
    assert Plan(EVEN).moved(heavier) == 0.4


def test_experiments_of_a_layer_share_no_unit() -> None:
    layer = Layer("ranker").allocate("one", 0.3).allocate("two", 0.7)
    one, two = (
        Plan(Assignment(name, {"a": 1, "b": 1}), layer=(layer, name)).place_many(UNITS)
        for name in ("one", "two")
    )
    assert not (one.variant.notna() & two.variant.notna()).any()
    assert (one.variant.notna() | two.variant.notna()).all()
    assert set(one.reason[one.variant.isna()]) == {"layer"}
    assert one.variant.notna().mean() == pytest.approx(0.3, abs=0.015)


def test_the_allocator_fills_the_first_gap_and_refuses_what_does_not_fit() -> None:
    layer = Layer("l").allocate("a", 0.2).allocate("b", 0.2).allocate("c", 0.2)
    layer = layer.release("b")
    assert layer.free() == [(200_000, 400_000), (600_000, 1_000_000)]
    assert layer.allocate("d", 0.1).owned["d"] == (200_000, 300_000)
    assert layer.allocate("d", 0.3).owned["d"] == (600_000, 900_000)
    with pytest.raises(ExperimentError, match=r"widest free range has 400,000"):
        layer.allocate("d", 0.5)
    with pytest.raises(ExperimentError, match="is in layer"):
        layer.allocate("a", 0.1)
    with pytest.raises(ExperimentError, match=r"'x' and 'y' share slots 5 to 10"):
        Layer("l", {"x": (0, 10), "y": (5, 20)})


def test_a_holdout_comes_first_and_overrides_before_all() -> None:
    plan = Plan(
        EVEN,
        holdout=Holdout("hold", 0.2),
        overrides={"user_1": "treatment"},
        sticky=dict.fromkeys(UNITS[100:200], "control"),
    )
    rows = plan.place_many(UNITS).set_index("unit")
    assert rows.loc["user_1", ["variant", "reason", "analysed"]].tolist() == [
        "treatment",
        "override",
        False,
    ]
    assert (rows.reason == "holdout").mean() == pytest.approx(0.2, abs=0.01)
    assert rows.variant[rows.reason == "holdout"].isna().all()
    assert (rows.variant[rows.reason == "sticky"] == "control").all()
    assert 60 < (rows.reason == "sticky").sum() < 100
    assert rows.analysed.sum() == len(UNITS) - 1


def test_salts_of_split_layer_and_holdout_must_differ() -> None:
    with pytest.raises(ExperimentError, match="share a salt"):
        Plan(EVEN, holdout=Holdout("exp", 0.1))


def test_holdout_layer_traffic_and_split_are_the_same_in_sql() -> None:
    layer = Layer("ranker", {"exp": (100_000, 800_000)})
    plan = Plan(EVEN, 0.6, (layer, "exp"), Holdout("hold", 0.1))
    units = odd_ids(10_000)
    in_python = plan.place_many(units).variant
    assert in_duckdb(plan.rule(), units) == [None if pd.isna(v) else v for v in in_python]
    assert in_python.isna().mean() == pytest.approx(1 - 0.9 * 0.7 * 0.6, abs=0.02)


def test_explain_says_every_step() -> None:
    layer = Layer("ranker", {"exp": (100_000, 800_000)})
    text = Plan(EVEN, 0.6, (layer, "exp"), Holdout("hold", 0.1), sticky={"1": "control"}).explain(
        "1"
    )
    for part in (
        "holdout",
        "sticky      control",
        "layer",
        "[100,000, 800,000)",
        "traffic     0.6",
        "placed",
    ):
        assert part in text


def test_independent_layers_are_told_from_those_that_leak() -> None:
    """GrowthBook's first hash gives like seeds like sides; md5 does not."""
    halves = {"a": 1.0, "b": 1.0}
    own = {
        f"exp_{i}": pd.Series(
            Assignment(f"exp_{i}", halves).assign_many(UNITS).variant.to_numpy(), UNITS
        )
        for i in range(12)
    }
    pairs = independence(own)
    assert len(pairs) == 66
    assert min(pair.p_adjusted or 0 for pair in pairs) > 0.01
    assert np.mean([(pair.p_value or 0) < 0.05 for pair in pairs]) < 0.15
    leaky = {
        seed: pd.Series(
            GrowthBook(platform="growthbook", seed=seed, version=1).rule(halves).variants(UNITS),
            UNITS,
        )
        for seed in ("exp_1", "exp_2", "exp_3", "exp_4")
    }
    assert min(pair.p_adjusted or 0 for pair in independence(leaky)) < 1e-6


def test_few_units_are_not_tested_for_independence() -> None:
    few = {name: pd.Series(["a", "b", "a", "b"], list("wxyz")) for name in ("one", "two")}
    (pair,) = independence(few)
    assert (pair.units, pair.p_value, pair.p_adjusted) == (4, None, None)


def test_uneven_slots_are_seen() -> None:
    numbers = np.random.default_rng(0).random(10_000) * 1000
    assert (uniformity(numbers, 1000) or 0) > 0.001
    assert (uniformity(np.floor(numbers / 13) * 13, 1000) or 0) < 1e-6
    assert uniformity(numbers[:100], 1000) is None
