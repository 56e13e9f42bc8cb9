"""Preferences of interleaved lists: by hand, at their level, and refused where there is none."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from abeval.stats import interleaving
from abeval.stats.records import Refusal
from tests.leave_one_out import ratio_of


def test_a_preference_is_tested_as_a_ratio_of_sums():
    rng = np.random.default_rng(3)
    a, b = rng.poisson(2.0, 200).astype(float), rng.poisson(2.4, 200).astype(float)
    one = interleaving.preference(a, b)
    df = (a + b).sum() ** 2 / ((a + b) ** 2).sum() - 1
    kept = (a + b) > 0
    d, t, n = (b - a)[kept], (a + b)[kept], int(kept.sum())
    value, variance, _ = ratio_of(d, t)
    se = math.sqrt(variance)
    assert one.value == pytest.approx(value)
    assert one.se == pytest.approx(se)
    assert one.p_value == pytest.approx(2 * scipy_stats.t.sf(abs(value / se), df))
    assert (one.units, one.method) == (n, "jackknife_t")


def test_few_units_are_tested_by_all_their_signs():
    # By hand: nets 1, 1, 1, 2 are the most of 16 signs, and their mirror is as far.
    one = interleaving.preference([0, 0, 1, 0], [1, 1, 2, 2])
    assert one.value == pytest.approx(5 / 7)
    assert one.p_value == 2 / 16
    assert (one.low, one.high) == (-1.0, 1.0)


def test_the_interval_of_few_units_is_what_the_flips_do_not_reject():
    rng = np.random.default_rng(5)
    a = rng.poisson(3.0, 25).astype(float)
    b = a + rng.integers(-1, 3, 25).clip(-a)
    one = interleaving.preference(a, b)
    assert one.low < one.value < one.high
    assert (one.low > 0) == (one.p_value <= 0.05)
    wider = interleaving.preference(a, b, alpha=0.01)
    assert wider.low < one.low
    assert one.high < wider.high


def test_swapping_the_rankers_mirrors_everything():
    a, b = np.arange(60.0) % 4, np.arange(60.0) % 5
    one, other = interleaving.preference(a, b), interleaving.preference(b, a)
    assert other.value == pytest.approx(-one.value)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    assert other.p_value == pytest.approx(one.p_value)


def test_units_without_credit_change_nothing():
    a, b = np.arange(60.0) % 4, np.arange(60.0) % 5
    more = np.zeros(40)
    assert interleaving.preference([*a, *more], [*b, *more]) == interleaving.preference(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("units", [pytest.param(15, marks=pytest.mark.whole), 60, 300])
def test_level_with_users_of_1_to_200_lists(units: int):
    rng = np.random.default_rng(units)
    rejected, runs = 0, 1_000
    for _ in range(runs):
        lists = np.exp(rng.uniform(0, np.log(200), units)).astype(int)
        clicks = rng.poisson(lists * rng.gamma(2.0, 0.25, units))
        b = rng.binomial(clicks, 0.5)
        if (clicks > 0).sum() > 1:
            rejected += interleaving.preference(clicks - b, b).p_value <= 0.05
    assert abs(rejected / runs - 0.05) <= 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([1.0], [2.0], "too_few_units"),
        ([0.0, 0.0], [0.0, 0.0], "too_few_units"),
        ([-1.0, -1.0], [-2.0, 1.0], "zero_denominator"),
        ([1.0, 2.0], [1.0, 2.0], "zero_variance"),
        ([1.0, math.nan], [1.0, 2.0], "not_finite"),
    ],
)
def test_a_preference_that_cannot_be_told_is_refused(a, b, reason):
    with pytest.raises(Refusal) as caught:
        interleaving.preference(a, b)
    assert caught.value.reason == reason


def test_units_are_counted_for_the_ranker_they_prefer():
    a = np.repeat([1, 0, 1], [412, 468, 120])
    b = np.repeat([0, 1, 1], [412, 468, 120])
    assert interleaving.count_wins(a, b) == (412, 468, 120)


def test_weights_undo_how_often_positions_are_clicked():
    weights = interleaving.weigh_positions([40, 20, 0], [100, 100, 10])
    assert weights[1] == pytest.approx(2 * weights[0])
    assert weights[2] == 0
    assert weights @ np.array([40, 20, 0]) == pytest.approx(60)


def test_symmetry_of_many_units_is_a_z_test_with_the_variance_of_all_flips() -> None:
    net = np.repeat([2.0, -1.0, 0.0], [30, 40, 7])
    z = (2 * 30 - 40) / math.sqrt(4 * 30 + 40)
    assert interleaving.check_symmetry(net) == pytest.approx(2 * scipy_stats.norm.sf(z), rel=1e-9)
