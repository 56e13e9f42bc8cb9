import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from abeval.stats import means
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Refusal
from tests.leave_one_out import moves
from tests.stats.reference_vectors import quick

seeds = st.integers(0, 2**32 - 1)


def paired(moments: Moments, alpha: float = 0.05) -> Effect:
    return means.compare_within_units(moments, means.ratio(0, 1), means.ratio(2, 3), alpha)


@quick
@given(seeds, st.integers(3, 60))
def test_with_one_in_every_denominator_it_is_the_paired_t_test(seed, n):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = a + rng.normal(0.3, 0.5, n)
    one = np.ones(n)
    ours = paired(Moments.of(a, one, b, one))
    theirs = stats.ttest_rel(b, a)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    low, high = theirs.confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((low, high), rel=1e-9)


@quick
@given(seeds)
def test_the_variance_is_the_jackknifes_in_large_samples(seed):
    rng = np.random.default_rng(seed)
    n = 400
    x_a, x_b = rng.poisson(5, n) + 1, rng.poisson(4, n) + 1
    skill = rng.beta(2, 5, n)
    y_a, y_b = rng.binomial(x_a, skill), rng.binomial(x_b, np.minimum(skill * 1.2, 1))
    effect = paired(Moments.of(y_a, x_a, y_b, x_b))
    totals = [v.sum() - v for v in (y_a, x_a, y_b, x_b)]
    left = totals[2] / totals[3] - totals[0] / totals[1]
    jackknife = math.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum())
    assert effect.se == pytest.approx(jackknife, rel=0.02)


def test_without_correlation_it_is_the_difference_of_independent_ratios():
    rng = np.random.default_rng(3)
    n = 200_000
    columns = [rng.poisson(3, n), rng.poisson(5, n) + 1, rng.poisson(2, n), rng.poisson(5, n) + 1]
    m = Moments.of(*columns)
    apart = (
        means.estimate_ratio(m.pick(0, 1)).variance + means.estimate_ratio(m.pick(2, 3)).variance
    )
    assert paired(m).se == pytest.approx(math.sqrt(apart), rel=0.01)


def test_correlated_models_are_told_apart_where_independent_ones_would_not_be():
    rng = np.random.default_rng(5)
    base = rng.normal(0.5, 0.3, 500)
    one = np.ones(500)
    m = Moments.of(base, one, base + rng.normal(0.01, 0.05, 500), one)
    apart = math.sqrt(sum(means.estimate_ratio(m.pick(i, i + 1)).variance for i in (0, 2)))
    assert paired(m).p_value < 0.01
    assert apart > 5 * paired(m).se


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (([1.0], [1.0], [2.0], [1.0]), "too_few_units"),
        (([1.0, 2], [0.0, 0], [2.0, 1], [1.0, 1]), "zero_denominator"),
        (([1.0, 2], [1.0, 1], [1.0, 2], [1.0, 1]), "zero_variance"),
    ],
)
def test_what_cannot_be_compared_is_refused(columns, reason):
    with pytest.raises(Refusal) as refused:
        paired(Moments.of(*columns))
    assert refused.value.reason == reason


def test_an_estimate_is_the_ratio_modules():
    m = Moments.of([1, 0, 2, 1], [4, 5, 6, 5])
    corrected = means.correct_leverage(m)
    assert means.estimate_smooth(corrected, means.ratio(0, 1)) == means.estimate_ratio(m)


def test_units_that_hold_much_of_either_denominator_are_left_out():
    rng = np.random.default_rng(4)
    x = rng.integers(1, 9, (2, 60)).astype(float)
    x[0, 3], x[1, 5] = 90, 120
    y = rng.binomial(x.astype(int), 0.3).astype(float)
    m = Moments.of(y[0], x[0], y[1], x[1], below=(1, 3))
    found = paired(means.correct_leverage(m, blocks=((0, 1), (2, 3))))
    moved = moves(y[1], x[1]) - moves(y[0], x[0])
    assert found.se == pytest.approx(np.sqrt(59 / 60 * np.sum(moved**2)), rel=1e-9)
    assert found.df == pytest.approx(x.sum() ** 2 / np.sum(x.sum(axis=0) ** 2) - 1)


@quick
@given(seeds)
def test_swapping_the_models_swaps_the_sign(seed):
    rng = np.random.default_rng(seed)
    m = Moments.of(*rng.uniform(1, 2, (4, 30)))
    one, other = paired(m), paired(m.pick(2, 3, 0, 1))
    assert one.difference == pytest.approx(-other.difference, rel=1e-12)
    assert one.se == pytest.approx(other.se, rel=1e-12)


def test_the_level_is_five_percent_where_none_is_named():
    m = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [2, 1, 3, 1], [4, 6, 6, 5])
    functions = means.ratio(0, 1), means.ratio(2, 3)
    assert means.compare_within_units(m, *functions) == means.compare_within_units(
        m, *functions, 0.05
    )
