"""The lift of all traffic against units one by one, and against the jackknife."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from abeval.stats.dilution import Rest, dilute_mean, dilute_ratio, measure_rest
from abeval.stats.effects import compare, effect_from_difference, fieller
from abeval.stats.means import estimate_mean, estimate_ratio
from abeval.stats.moments import Moments
from abeval.stats.records import Lift, Refusal

Z = 1.959963984540054


class Site(NamedTuple):
    """Assigned units: arm, whether exposed, and (y, x) while exposed and while not."""

    treated: np.ndarray
    exposed: np.ndarray
    inside: np.ndarray
    outside: np.ndarray

    def keep(self, kept: np.ndarray) -> Site:
        return Site(
            self.treated[kept], self.exposed[kept], self.inside[:, kept], self.outside[:, kept]
        )

    @property
    def rest(self) -> Rest:
        never = Moments.of(*self.outside[:, ~self.exposed])
        later = self.exposed & (self.outside[1] > 0)
        return measure_rest(never, Moments.of(*self.outside[:, later]), int(self.exposed.sum()))

    @property
    def arms(self) -> tuple[Moments, Moments]:
        a, b = (self.exposed & (self.treated == arm) for arm in (False, True))
        return Moments.of(*self.inside[:, a]), Moments.of(*self.inside[:, b])


def site(seed: int = 1, n: int = 3_000, lift: float = 0.4) -> Site:
    """Heavy users, who are exposed more often; all their rows before are unexposed ones."""
    rng = np.random.default_rng(seed)
    treated, activity = rng.random(n) < 0.4, rng.gamma(1.0, 8.0, n)
    exposed = rng.random(n) < np.minimum(1, 0.1 + activity / 20)
    x = np.stack(
        [rng.poisson(activity * np.where(exposed, 0.7, 0)), rng.poisson(activity * 0.3) + 1]
    )
    y = rng.binomial(x, np.stack([0.2 * np.where(treated, 1 + lift, 1), np.full(n, 0.2)]))
    return Site(treated, exposed, np.stack([y[0], x[0]]), np.stack([y[1], x[1]]))


def mean_lift(units: Site) -> Lift:
    a, b = units.arms
    first, second = estimate_mean(a.pick(0)), estimate_mean(b.pick(0))
    effect = compare(first, second)
    return dilute_mean(effect, first.value, first.variance, -first.variance, units.rest)


def ratio_lift(units: Site) -> Lift:
    rest = units.rest
    control, treatment = (arm.shift(*rest.means.tolist()) for arm in units.arms)
    lift = fieller(estimate_ratio(control), estimate_ratio(treatment))
    return dilute_ratio(lift, control, treatment, rest, Z)


def test_the_rest_is_all_totals_without_exposure_per_exposed_unit() -> None:
    units = site()
    assert units.rest.means == pytest.approx(units.outside.sum(axis=1) / units.exposed.sum())
    residual = units.outside - np.outer(units.rest.means, units.exposed)
    assert units.rest.covariance == pytest.approx(residual @ residual.T / units.exposed.sum() ** 2)
    with pytest.raises(Refusal, match="no unit"):
        measure_rest(Moments.of([1.0], [1.0]), Moments.of([], []), 0)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("lift_of", [mean_lift, ratio_lift])
@pytest.mark.parametrize("lift", [-0.6, 0.0, 1.5])
def test_intervals_are_as_wide_as_the_jackknife_says(lift_of: object, lift: float) -> None:
    assert callable(lift_of)
    units, groups = site(n=6_000, lift=lift), 300
    whole = lift_of(units)
    fold = np.random.default_rng(2).integers(0, groups, 6_000)
    values = np.array([lift_of(units.keep(fold != g)).value for g in range(groups)])
    se = math.sqrt((groups - 1) / groups * float(((values - values.mean()) ** 2).sum()))
    assert (whole.high - whole.low) / 2 / Z == pytest.approx(se, rel=0.12)


def test_the_lift_is_of_totals_and_not_the_lift_times_the_share_of_units() -> None:
    units = site(n=20_000)
    a, b = units.arms
    by_hand = (b.mean[0] - a.mean[0]) / (a.mean[0] + units.outside[0].sum() / units.exposed.sum())
    assert mean_lift(units).value == pytest.approx(by_hand)
    by_units = (b.mean[0] / a.mean[0] - 1) * units.exposed.mean()
    assert mean_lift(units).value > 1.1 * by_units


def test_an_interval_that_excludes_zero_still_does() -> None:
    rest = Rest(np.array([30.0, 0.0]), np.array([[9.0, 0.0], [0.0, 0.0]]))
    effect = effect_from_difference(10, 12, 2, 1.0204)
    lift = dilute_mean(effect, 10, 0.5, -0.5, rest)
    assert effect.low == pytest.approx(0, abs=1e-3)
    assert lift.low == pytest.approx(0, abs=1e-4)
    assert lift.low < lift.value < lift.high
    negative = dilute_mean(
        effect_from_difference(-10, -12, -2, 1.0204),
        -10,
        0.5,
        -0.5,
        rest._replace(means=-rest.means),
    )
    assert negative[:3] == pytest.approx((-lift.value, -lift.high, -lift.low))


def test_a_total_that_may_be_zero_has_no_lift() -> None:
    rest = Rest(np.array([-10.0, 0.0]), np.zeros((2, 2)))
    with pytest.raises(Refusal, match="may be zero"):
        dilute_mean(effect_from_difference(10, 12, 2, 1.0), 10, 0.5, -0.5, rest)
