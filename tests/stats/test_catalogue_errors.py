"""Errors, lifts and refusals of exposure at equal traffic, where every group has as many units."""

import numpy as np
import pytest
from scipy import stats
from test_catalogue import compare

from abeval.stats import catalogue, item_exposure
from abeval.stats.catalogue import Functional
from abeval.stats.records import Refusal

FUNCTIONALS: tuple[Functional, ...] = ("coverage", "gini", "entropy")
Arms = tuple[catalogue.Incidence, catalogue.Incidence]


def even_arms(seed: int, groups: int = 16) -> Arms:
    """As many units in every group of both variants; most items are rare."""
    rng = np.random.default_rng(seed)
    rate = np.repeat([3.0, 1.0, 0.5, 0.05, 0.05, 0.05, 0.02], groups)
    item, group = np.divmod(np.arange(7 * groups), groups)

    def arm(more: float) -> catalogue.Incidence:
        shown = rng.poisson(rate * more)
        return catalogue.Incidence(item, group, np.minimum(shown, 4), shown, np.full(groups, 4), 9)

    return arm(1.0), arm(1.6)


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_errors_are_those_of_the_jackknife_over_groups(functional: Functional) -> None:
    arms, groups = even_arms(21), 16
    comparison = compare(*arms, functional, permutations=0)

    def value(arm: catalogue.Incidence, left_out: int) -> float:
        kept = arm.group != left_out
        counts = arm.units if functional == "coverage" else arm.impressions
        totals = np.bincount(arm.item[kept], counts[kept], 9)
        if functional == "coverage":
            return float(np.mean(totals > 0))
        return float(item_exposure.measure_evenness(np.array([totals]), 9, [functional])[0, 0])

    control, treatment = (np.array([value(arm, g) for g in range(groups)]) for arm in arms)
    whole = [value(arm, -1) for arm in arms]
    difference = treatment - control
    se = np.sqrt((groups - 1) * difference.var())
    t = stats.t(groups - 1)
    effect = comparison.effect
    assert (effect.control, effect.treatment) == pytest.approx(whole)
    assert effect.se == pytest.approx(se, rel=1e-6)
    assert effect.high - effect.difference == pytest.approx(t.ppf(0.975) * se, rel=1e-6)
    assert effect.p_value == pytest.approx(2 * t.sf(abs(effect.difference) / se), rel=1e-6)
    assert (comparison.at, comparison.groups, comparison.permutations) == (64, 16, 0)
    lift, half = whole[1] / whole[0] - 1, t.ppf(0.975) * np.sqrt(15 * (treatment / control).var())
    assert comparison.lift is not None
    assert comparison.lift[:3] == pytest.approx((lift, lift - half, lift + half), rel=1e-6)


def test_where_control_has_no_gini_there_is_no_lift() -> None:
    control, treatment = even_arms(22)
    item, group = np.divmod(np.arange(9 * 16), 16)
    even = catalogue.Incidence(item, group, *np.full((2, 144), 2), np.full(16, 4), 9)
    assert compare(even, treatment, "gini", permutations=0).lift is None
    lift = compare(control, even, "gini", permutations=0).lift
    assert lift is not None
    assert lift.bounded
    # Without its third group control shows one item alone.
    first, second = np.divmod(np.arange(17), 16)
    lone = catalogue.Incidence(
        first, np.where(first == 1, 2, second), *np.full((2, 17), 2), np.full(16, 4), 9
    )
    assert compare(lone, even, "entropy", permutations=0).lift is None


def test_a_control_that_shows_all_items_has_a_lift_of_coverage() -> None:
    item, group = np.divmod(np.arange(9 * 16), 16)
    full = catalogue.Incidence(item, group, *np.full((2, 144), 4), np.full(16, 4), 9)
    comparison = compare(full, even_arms(27)[1], "coverage", permutations=0)
    assert comparison.effect.control == 1
    assert comparison.lift is not None
    assert comparison.lift.value == pytest.approx(comparison.effect.difference)


def test_a_gini_that_no_group_changes_leaves_entropy_its_permutations() -> None:
    # The second item gives to both others alike: the same gini, another entropy.
    moved = np.random.default_rng(23).integers(0, 4, 16)
    item, group = np.divmod(np.arange(48), 16)
    fixed = np.repeat([10, 20, 30], 16)
    both = [
        catalogue.Incidence(item, group, counts, counts, np.full(16, 60), 3)
        for counts in (fixed, np.concatenate([10 + moved, 20 - 2 * moved, 30 + moved]))
    ]
    comparison = catalogue.compare_all(both[0], both[1], ("gini", "entropy"), permutations=30)
    assert isinstance(comparison["gini"], Refusal)
    assert not isinstance(comparison["entropy"], Refusal)
    assert comparison["entropy"].permutations >= 30


def test_what_differs_by_rounding_alone_does_not_vary() -> None:
    # Every group shows the items in the same shares, so that no group can change the entropy.
    times = np.random.default_rng(24).integers(1, 9, 16)
    item, group = np.divmod(np.arange(48), 16)
    shown = np.repeat([1, 3, 7], 16) * np.tile(times, 3)
    arms = [
        catalogue.Incidence(item, group, shown * more, shown * more, 100 * times, 5)
        for more in (1, 3)
    ]
    for pair in (arms, arms[::-1]):
        refused = catalogue.compare_all(pair[0], pair[1], ["entropy"])["entropy"]
        assert isinstance(refused, Refusal)
        assert refused.reason == "zero_variance"


def test_two_groups_worth_of_units_are_enough() -> None:
    control, treatment = even_arms(25)
    for units, refused in ((28, False), (29, True)):
        large = control._replace(units_in_group=np.full(16, units))
        for pair in ((large, treatment), (treatment, large)):
            comparison = catalogue.compare_all(*pair, ("gini",), permutations=8)["gini"]
            assert isinstance(comparison, Refusal) == refused


def test_where_nothing_is_named_there_are_at_most_a_thousand_permutations_and_one_seed() -> None:
    arms = even_arms(26)
    comparison = catalogue.compare_all(*arms)["gini"]
    assert not isinstance(comparison, Refusal)
    assert comparison.permutations <= 1000
    assert comparison == catalogue.compare_all(*arms, ["gini"], 0.05, 1000, 0)["gini"]
    assert comparison.effect.p_value != compare(*arms, "gini", seed=1).effect.p_value


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_permutations_end_once_a_hundred_are_as_large_as_the_difference(share: float) -> None:
    rng = np.random.default_rng(3)
    arms = catalogue.build_item_matrices(*even_arms(26), "impressions")
    measure = catalogue.Evenness(9, ["gini"])
    every = catalogue.draw_null_differences(*arms, measure, 2000, np.random.default_rng(3))
    observed = np.quantile(np.abs(every), [1 - share])
    nulls = catalogue.draw_null_differences(*arms, measure, 2000, rng, observed)
    assert np.array_equal(nulls, every[:, : nulls.shape[1]])
    assert nulls.shape[1] == {0.0: 2000, 0.5: 250, 1.0: 250}[share]
    assert (np.abs(nulls) >= observed).sum() >= (100 if share else 1)


def test_permutations_need_impressions_in_every_block() -> None:
    # All that was shown was shown to two groups: half of the groups may lack both.
    item, group = np.divmod(np.arange(12), 2)
    arms = [
        catalogue.Incidence(item, group, *np.full((2, 12), 2), np.full(16, 4), 9),
        catalogue.Incidence(
            item, group, *np.array([[1, 2, 3, 1, 4, 1, 2, 2, 3, 4, 1, 1]] * 2), np.full(16, 4), 9
        ),
    ]
    pair = arms[0], arms[1]
    names: tuple[Functional, ...] = ("gini", "entropy")
    alone = catalogue.compare_all(*pair, names, permutations=0)
    assert not any(isinstance(one, Refusal) for one in alone.values())
    for one in catalogue.compare_all(*pair, names, permutations=100).values():
        assert isinstance(one, Refusal)
        assert one.reason == "too_few_units"
