"""Layers, holdouts, traffic, overrides and sticky units."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from abeval.assignment import SLOTS, Assignment, Holdout, Layer, Plan, compute_slot, md5_60
from abeval.assignment.platforms import GrowthBook
from abeval.audit import check_independence, check_uniformity
from abeval.errors import ExperimentError
from tests.assignment.schemes import in_duckdb, odd_ids

EVEN = Assignment("exp", {"control": 1, "treatment": 1})
UNITS = [f"user_{i}" for i in range(20_000)]


def test_a_ramp_moves_no_enrolled_unit() -> None:
    plan = Plan(EVEN, traffic=0.1)
    before = plan.place_many(UNITS).variant
    for traffic in (0.2, 0.5, 1.0):
        after_plan = Plan(EVEN, traffic=traffic)
        after = after_plan.place_many(UNITS).variant
        enrolled = before.notna()
        assert (after[enrolled] == before[enrolled]).all()
        assert after.notna().mean() == pytest.approx(traffic, abs=0.015)
        assert plan.moved(after_plan) == 0
        plan, before = after_plan, after


def test_no_traffic_moves_nobody() -> None:
    assert Plan(EVEN, traffic=0).moved(Plan(EVEN)) == 0
    assert Plan(EVEN).moved(Plan(EVEN, traffic=0)) == 1


def test_variants_that_change_places_or_names_move_every_unit() -> None:
    swapped = Plan(Assignment("exp", {"treatment": 1, "control": 1}))
    assert Plan(EVEN).moved(swapped) == swapped.moved(Plan(EVEN)) == 1
    renamed = Plan(Assignment("exp", {"control": 1, "new": 1}))
    assert Plan(EVEN).moved(renamed) == 0.5


def test_slots_of_a_layer_are_owned_once() -> None:
    with pytest.raises(ExperimentError, match=r"'x' and 'y' share slots 5 to 10"):
        Layer("l", {"x": (0, 10), "y": (5, 20)})


def test_a_plan_names_what_is_there() -> None:
    layer = Layer("ranker", {"one": (0, 300_000)})
    with pytest.raises(ExperimentError, match="slots 300000 to 300000 of 'one' in layer 'l'"):
        Layer("l", {"one": (300_000, 300_000)})
    with pytest.raises(ExperimentError, match="layer 'ranker' has no 'two'"):
        Plan(EVEN, layer=(layer, "two"))
    with pytest.raises(ExperimentError, match="names the unknown variant 'new'"):
        Plan(EVEN, overrides={"user_1": "new"})


def test_other_weights_move_units() -> None:
    heavier = Plan(Assignment("exp", {"control": 0.9, "treatment": 0.1}))
    assert Plan(EVEN).moved(heavier) == 0.4


def test_experiments_of_a_layer_share_no_unit() -> None:
    layer = Layer("ranker", {"one": (0, 300_000), "two": (300_000, SLOTS)})
    one, two = (
        Plan(Assignment(name, {"a": 1, "b": 1}), layer=(layer, name)).place_many(UNITS)
        for name in ("one", "two")
    )
    assert not (one.variant.notna() & two.variant.notna()).any()
    assert (one.variant.notna() | two.variant.notna()).all()
    assert set(one.reason[one.variant.isna()]) == {"layer"}
    assert one.variant.notna().mean() == pytest.approx(0.3, abs=0.015)


def test_a_share_is_from_0_to_1() -> None:
    assert Plan(EVEN, traffic=1, holdout=Holdout("hold", 1)).place("1").reason == "holdout"
    assert Plan(EVEN, traffic=1, holdout=Holdout("hold", 0)).place("1").reason == "split"
    for share in (-0.001, 1.001, float("nan")):
        with pytest.raises(ExperimentError, match="traffic"):
            Plan(EVEN, traffic=share)
        with pytest.raises(ExperimentError, match="share of the holdout"):
            Holdout("hold", share)


def test_the_unit_in_the_slot_after_a_holdout_is_in_the_experiment() -> None:
    place = compute_slot(md5_60("hold", "user_1"))
    first_out, last_in = (
        Plan(EVEN, holdout=Holdout("hold", n / SLOTS)) for n in (place, place + 1)
    )
    assert first_out.place("user_1").reason == "split"
    assert first_out.rule().variant("user_1") == EVEN.assign("user_1").variant
    assert "in the experiment" in first_out.explain("user_1")
    assert last_in.place("user_1").reason == "holdout"
    assert last_in.rule().variant("user_1") is None
    assert "held out" in last_in.explain("user_1").splitlines()[0].partition("(")[0]


def test_only_units_whose_variant_a_person_chose_are_not_analysed() -> None:
    plan = Plan(
        EVEN,
        0.5,
        (Layer("ranker", {"exp": (0, 800_000)}), "exp"),
        Holdout("hold", 0.1),
        overrides={"user_1": "treatment"},
        sticky={f"user_{i}": "control" for i in range(100, 200)},
    )
    rows = plan.place_many(UNITS[:2_000])
    assert rows.groupby("reason").analysed.mean().to_dict() == {
        "override": False,
        "holdout": True,
        "sticky": True,
        "layer": True,
        "traffic": True,
        "split": True,
    }


def test_equal_plans_and_layers_are_one_in_a_set() -> None:
    layers = [Layer("l", {"a": (0, 10)}) for _ in range(2)]
    assert len({*layers}) == 1
    plans = [Plan(EVEN, layer=(layer, "a"), overrides={"1": "control"}) for layer in layers]
    assert len({*plans}) == 1
    assert len({*plans, Plan(EVEN)}) == 2


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
    variants = [None if pd.isna(v) else v for v in in_python]
    assert plan.rule().variants(units) == variants
    assert in_duckdb(plan.rule(), units) == variants
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


def test_a_plan_of_a_split_alone_explains_the_split_alone() -> None:
    assert Plan(EVEN).explain("1") == str(EVEN.explain("1"))
    held = Plan(EVEN, holdout=Holdout("hold", 0)).explain("1")
    assert "traffic" not in held
    assert held.splitlines()[-1] == f"placed      {EVEN.assign('1').variant}, by split"


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.whole
def test_independent_layers_are_told_from_those_that_leak() -> None:
    """GrowthBook's first hash gives like seeds like sides; md5 does not."""
    halves = {"a": 1.0, "b": 1.0}
    own = {
        f"exp_{i}": pd.Series(
            Assignment(f"exp_{i}", halves).assign_many(UNITS).variant.to_numpy(), UNITS
        )
        for i in range(12)
    }
    pairs = check_independence(own)
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
    assert min(pair.p_adjusted or 0 for pair in check_independence(leaky)) < 1e-6


def test_few_units_are_not_tested_for_independence() -> None:
    few = {name: pd.Series(["a", "b", "a", "b"], list("wxyz")) for name in ("one", "two")}
    (pair,) = check_independence(few)
    assert (pair.units, pair.p_value, pair.p_adjusted) == (4, None, None)


def test_uneven_slots_are_seen() -> None:
    numbers = np.random.default_rng(0).random(10_000) * 1000
    assert (check_uniformity(numbers, 1000) or 0) > 0.001
    assert (check_uniformity(np.floor(numbers / 13) * 13, 1000) or 0) < 1e-6
    assert check_uniformity(numbers[:100], 1000) is None
