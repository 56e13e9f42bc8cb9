"""The test that draws assignments again: against scipy, against hand counts, of any design."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from abeval.stats.randomisation import (
    Assignments,
    RandomisationTest,
    coin_flip_assignments,
    permuted_assignments,
)
from abeval.stats.records import Refusal

RNG = np.random.default_rng(5)
Y, TREATED = RNG.normal(5, 1, 9), np.array([1, 0, 1, 0, 0, 0, 1, 1, 0], dtype=bool)
X = RNG.integers(20, 200, 9).astype(float)


def welch(a, b, axis=-1):
    return np.abs(stats.ttest_ind(a, b, axis=axis, equal_var=False).statistic)


def test_of_equal_sizes_it_is_the_permutation_test_of_scipy() -> None:
    test = RandomisationTest(Y, np.ones(9), TREATED, permuted_assignments(TREATED))
    arms = Y[TREATED], Y[~TREATED]
    kind = {"permutation_type": "independent", "n_resamples": np.inf, "alternative": "greater"}
    assert test.p_value() == pytest.approx(stats.permutation_test(arms, welch, **kind).pvalue)


def by_hand(y: np.ndarray, treated: np.ndarray) -> float:
    """Return the studentised difference of two ratios."""
    means, variances = [], []
    for arm in (treated, ~treated):
        ratio = y[arm].sum() / X[arm].sum()
        left = y[arm] - ratio * X[arm]
        means.append(ratio)
        variances.append(left.var(ddof=1) * arm.sum() / X[arm].sum() ** 2)
    return abs(means[0] - means[1]) / sum(variances) ** 0.5


@pytest.mark.parametrize("difference", [0.0, 0.3, -1.0])
def test_of_unequal_sizes_it_counts_as_by_hand(difference: float) -> None:
    y = Y * X
    untreated = y - difference * X * TREATED
    every = [np.isin(np.arange(9), own) for own in itertools.combinations(range(9), 4)]
    observed = by_hand(untreated, TREATED)
    share = np.mean([by_hand(untreated, one) >= observed * (1 - 1e-9) for one in every])
    test = RandomisationTest(y, X, TREATED, permuted_assignments(TREATED))
    assert test.p_value(difference) == pytest.approx(share)


def test_an_interval_holds_what_is_not_rejected_and_the_lift_agrees_on_zero() -> None:
    y = Y * X * np.where(TREATED, 1.6, 1.0)
    test = RandomisationTest(y, X, TREATED, permuted_assignments(TREATED))
    for alpha in (0.05, 0.2):
        low, high = test.interval(alpha)
        inside, outside = (np.array([low, high]) + way * 0.002 * (high - low) for way in (1, -1))
        assert test.p_value(inside[0]) > alpha >= test.p_value(outside[0])
        assert test.p_value(outside[1] + 0.004 * (high - low)) <= alpha
        lift = test.lift(alpha)
        assert lift.bounded
        assert (lift.low > 0) == (low > 0) == (test.p_value() <= alpha)


def test_strata_and_pairs_keep_their_numbers() -> None:
    drawn = permuted_assignments([1, 0, 0, 1, 0, 1, 1, 0], ["a", "a", "a", "b", "b", "b", "b", "b"])
    assert len(drawn.treated) == 3 * 10
    assert (drawn.treated[:, :3].sum(axis=1) == 1).all()
    pairs = permuted_assignments([1, 0] * 5, np.repeat(range(5), 2))
    assert len(np.unique(pairs.treated, axis=0)) == 2**5
    assert (pairs.treated[:, ::2] != pairs.treated[:, 1::2]).all()


def test_many_assignments_are_drawn_and_the_p_value_is_never_zero() -> None:
    treated = np.arange(30) >= 15
    drawn = permuted_assignments(treated, draws=499)
    assert not drawn.is_exact
    assert (drawn.treated.sum(axis=1) == 15).all()
    y = np.arange(30.0)
    assert RandomisationTest(y, np.ones(30), treated, drawn).p_value() == 1 / 500


def test_any_other_design_brings_its_own_assignments() -> None:
    # A switchback of four slots that starts with either variant.
    schedule = np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool)
    drawn = Assignments(schedule, is_exact=True)
    test = RandomisationTest(np.array([3.0, 1, 3, 1]), np.ones(4), schedule[0], drawn)
    assert test.least == test.p_value() == 1.0
    assert test.interval(0.05) == (-np.inf, np.inf)


def test_what_cannot_be_divided_is_refused() -> None:
    drawn, first, both = permuted_assignments([1, 0]), np.array([1.0, 0.0]), np.ones(2)
    with pytest.raises(Refusal, match="denominator"):
        _ = RandomisationTest(both, first, first > 0, drawn).ratios
    with pytest.raises(Refusal, match="above zero"):
        RandomisationTest(first, both, first > 0, drawn).lift()


def test_coins_change_the_units_of_a_group_together() -> None:
    treated, coins = np.array([1, 0, 1, 1]), np.array([7, 7, 3, 9])
    every = coin_flip_assignments(treated, coins)
    assert every.is_exact
    expected = {
        tuple((treated ^ np.array([a, a, b, c])).tolist())
        for a, b, c in itertools.product((0, 1), repeat=3)
    }
    assert {tuple(row) for row in every.treated.astype(int).tolist()} == expected
    some = coin_flip_assignments(np.arange(40) % 2, np.arange(40), draws=500)
    assert (some.is_exact, some.treated.shape) == (False, (500, 40))
    assert some.treated.mean() == pytest.approx(0.5, abs=0.02)


def test_within_groups_the_difference_is_that_of_a_regression_on_them() -> None:
    group = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])
    rate = np.array([0.1, 0.4, 0.2, 0.3, 0.2, 0.5, 0.1, 0.3, 0.2]) + 0.5 * TREATED
    y = X * (3 * group + rate)
    test = RandomisationTest(y, X, TREATED, coin_flip_assignments(TREATED, np.arange(9)), group)
    design = np.column_stack([TREATED, np.eye(3)[group]]) * np.sqrt(X)[:, None]
    slope = np.linalg.lstsq(design, y / np.sqrt(X), rcond=None)[0][0]
    assert test.difference == pytest.approx(slope)
    # An effect that is there is not rejected, and what groups have in common changes nothing.
    assert test.p_value(slope) > 0.95
    moved = RandomisationTest(y + 100 * X * group, X, TREATED, test.assignments, group)
    assert moved.p_value() == pytest.approx(test.p_value())
    low, high = test.interval(0.1)
    assert low < slope < high
    assert moved.interval(0.1) == pytest.approx((low, high), rel=1e-3)


def test_draws_may_treat_another_number_of_units() -> None:
    drawn = Assignments(np.array([[1, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0]], dtype=bool), True)
    treated = np.array([1, 1, 0, 0, 0, 0], dtype=bool)
    y, x = np.array([9, 8, 1, 2, 3, 1.0]), np.ones(6)
    sizes = []
    for one in drawn.treated:
        arms = y[one], y[~one]
        sizes.append(abs(stats.ttest_ind(*arms, equal_var=False).statistic))
    share = np.mean([size >= sizes[1] * (1 - 1e-9) for size in sizes])
    assert RandomisationTest(y, x, treated, drawn).p_value() == pytest.approx(share)


def test_groups_of_one_arm_each_compare_nothing() -> None:
    test = RandomisationTest(
        Y, X, TREATED, coin_flip_assignments(TREATED, np.arange(9)), TREATED.astype(int)
    )
    with pytest.raises(Refusal, match="no group has units of both arms"):
        _ = test.difference
