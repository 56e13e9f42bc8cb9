"""Standard errors and skewed intervals against scipy, and where there is no interval."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from abeval.stats.off_policy import Spread, compute_skewed_interval, spread, value_from_influence
from abeval.stats.records import Refusal


def test_error_and_skewness_are_scipys() -> None:
    influence = np.random.default_rng(1).lognormal(0, 1, 40)
    varied = spread(1.0, influence)
    assert varied.se == pytest.approx(scipy.stats.sem(influence), rel=1e-12)
    assert varied.skewness == pytest.approx(scipy.stats.skew(influence), rel=1e-9)
    assert varied.units == 40


def test_without_skewness_the_interval_is_students() -> None:
    influence = np.array([-2.0, -1, -1, 1, 1, 2])
    value = value_from_influence(7.0, influence, None, 0.1, 9.0)
    low, high = scipy.stats.t.interval(0.9, 5, 7.0, scipy.stats.sem(influence))
    assert (value.low, value.high) == pytest.approx((low, high), rel=1e-12)


@pytest.mark.parametrize("skewness", [3.0, 0.5, 5e-5, -1.5])
def test_the_ends_are_where_halls_transformation_meets_t(skewness: float) -> None:
    """A skewness per root of units of 5e-6 moves the ends too, by a little."""
    units = 100
    low, high = compute_skewed_interval(2.0, Spread(0.5, skewness, units))
    a = skewness / np.sqrt(units)
    t = scipy.stats.t.ppf(0.975, units - 1)
    for end, expected in ((low, t), (high, -t)):
        statistic = (2.0 - end) / 0.5
        hall = statistic + a * statistic**2 / 3 + a * a * statistic**3 / 27 + a / 6
        assert hall == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("size", "varies"), [(3e-10, False), (3e-9, True)])
def test_rounding_is_no_variation(size: float, varies: bool) -> None:
    """A relative error of 1e-12 of the value is what rounding leaves."""
    influence = np.tile([size, -size], 2) * np.sqrt(3)
    assert (spread(1000.0, influence).se > 0) == varies


@pytest.mark.parametrize(
    ("rewards", "reason"), [(4.9, "too_few_rewards"), (5.0, None), (6.0, None)]
)
def test_five_effective_rewards_make_an_interval(rewards: float, reason: str | None) -> None:
    value = value_from_influence(0.5, np.tile([0.5, -0.5], 10), None, 0.05, rewards)
    assert value.reason == reason
    assert (value.low is None) == (reason is not None)


def test_an_influence_that_is_not_finite_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        spread(0.5, np.array([1.0, np.inf, 0.0]))
    assert refused.value.reason == "not_finite"
