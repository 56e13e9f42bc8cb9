"""Estimate which of two rankers users prefer, from interleaved lists.

`interleaving/run.py` passes the credit of each unit's actions for either ranker. The unit is the
user, because the lists of one user are alike.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import means
from abeval.stats.design import power_quantile
from abeval.stats.distributions import check_alpha, compute_p_value, two_sided_quantile
from abeval.stats.effects import effect_from_difference
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Refusal, check_finite

_FEW = 40
"""With fewer units with credit, the test flips signs instead of trusting t."""

# Up to this many units all 2^12 signs are tried; else a sample, off by .005 at 5 %.
_EXACT = 12

_FLIPS = 10_000


class Preference(NamedTuple):
    """The share of credit that B has more than A: −1 to 1, 0 for a tie.

    Attributes:
        units: Units whose actions were credited to either.
        method: `delta_t`; `jackknife_t` with heavy units; `sign_flip` with few units.
        largest: Largest share of all credit that one unit has; 0 if small.
    """

    value: float
    low: float
    high: float
    se: float
    p_value: float
    units: int
    method: str
    largest: float = 0.0


class Wins(NamedTuple):
    """Units or lists by the ranker with more credit; ties have equal credit."""

    a: int
    b: int
    ties: int


def count_wins(credit_a: ArrayLike, credit_b: ArrayLike) -> Wins:
    """Count units, or lists, by the ranker that has more of their credit, (n,).

    Source: Radlinski, Kurup & Joachims (CIKM 2008).

    Example:
        >>> count_wins([2, 0, 1], [1, 3, 1])
        Wins(a=1, b=1, ties=1)
    """
    net = check_finite(credit_b) - check_finite(credit_a)
    return Wins(int(np.sum(net < 0)), int(np.sum(net > 0)), int(np.sum(net == 0)))


def preference(credit_a: ArrayLike, credit_b: ArrayLike, alpha: float = 0.05) -> Preference:
    """Estimate Σ (b − a) / Σ (a + b) over units, and test it.

    With fewer than 40 units the test flips the signs of units, and the interval contains the values
    that this test does not reject. The test is exact if neither ranker is better: then a unit's
    credit is as likely as the credit with the coins of its lists turned over.

    Args:
        credit_a: Credit of each unit's actions for A, shape (units,).
        credit_b: Credit of each unit's actions for B, shape (units,).
        alpha: Error rate of the test and the interval.

    Source: Chapelle, Joachims, Radlinski & Yue (TOIS 2012), credit summed over users; Fisher (1935)
    for the flips.

    Refusals: `too_few_units` below two units with credit; `zero_denominator` if credit sums to
        zero; `zero_variance` if all units have the same preference; `not_finite`.

    Example:
        >>> p = preference([1, 0, 2, 1, 0, 1], [2, 1, 2, 3, 1, 1])
        >>> round(p.value, 3), p.p_value, p.units, p.method
        (0.333, 0.125, 6, 'sign_flip')
    """
    check_alpha(alpha)
    a, b = check_finite(credit_a), check_finite(credit_b)
    some = (a != 0) | (b != 0)
    net, both = (b - a)[some], (a + b)[some]
    units, total = len(net), float(both.sum())
    if units < 2:
        raise Refusal("too_few_units", f"units with credit: {units}, and a test needs two")
    if total <= 0:
        raise Refusal("zero_denominator", "the credit of both rankers sums to zero or less")
    moments = Moments.of(net, both)
    value, variance, _, df = means.estimate_ratio(moments)
    se = math.sqrt(variance)
    if se < 1e-13:
        raise Refusal("zero_variance", "all units have the same preference: no test is possible")
    effect = effect_from_difference(
        0.0, value, value, se, df, alpha, means.name_ratio_method(moments)
    )
    low, high, p_value, method = effect.low, effect.high, effect.p_value, effect.method
    if units < _FEW:
        signs = _list_sign_flips(units)
        p_value = _compute_flip_p_value(signs, net)
        low, high = (_search_end(signs, net, both, value, end, alpha) for end in (-1.0, 1.0))
        method = "sign_flip"
    ends = max(low, -1.0), min(high, 1.0)
    return Preference(value, *ends, se, p_value, units, method, moments.largest)


def check_symmetry(net: ArrayLike) -> float:
    """Test whether nets of units are symmetric around 0, shape (units,).

    With fewer than 40 units the signs are flipped; otherwise it is a z-test with the variance of
    such flips.

    Example:
        >>> check_symmetry([1, 1, 1, 1]), check_symmetry([0, 0])
        (0.125, 1.0)
    """
    some = check_finite(net)
    some = some[some != 0]
    if len(some) < _FEW:
        return _compute_flip_p_value(_list_sign_flips(len(some)), some)
    return compute_p_value(float(some.sum() / np.sqrt(np.sum(some**2))), np.inf)


def _list_sign_flips(units: int) -> Floats:
    if units <= _EXACT:
        numbers = np.arange(2**units)[:, None] >> np.arange(units)
        return np.asarray(1.0 - 2.0 * (numbers & 1), dtype=np.float64)
    # Always the same: a result can be computed again. The first flip is the data as they are.
    drawn = np.random.default_rng(units).integers(0, 2, (_FLIPS, units))
    return 1.0 - 2.0 * np.vstack([np.zeros(units, dtype=np.int64), drawn])


def _compute_flip_p_value(signs: Floats, net: Floats) -> float:
    """Return the share of flips at least as far from 0 as the data."""
    observed = abs(float(net.sum()))
    return float(np.mean(np.abs(signs @ net) >= observed * (1 - 1e-12)))


def _search_end(
    signs: Floats, net: Floats, both: Floats, value: float, end: float, alpha: float
) -> float:
    """Find the end of the interval: where the flips begin to reject."""
    from scipy.optimize import bisect

    def sign_at(at: float) -> float:
        return 1.0 if _compute_flip_p_value(signs, net - at * both) > alpha else -1.0

    return end if sign_at(end) > 0 else float(bisect(sign_at, value, end))


def weigh_positions(clicks: ArrayLike, shown: ArrayLike) -> Floats:
    """Return the weight of a click by position: the inverse of its click rate.

    Clicks and impressions are by position, shape (positions,), for both rankers together. The
    weight is 0 for a position without a click. The mean weight of a click is 1. Source: Joachims,
    Swaminathan & Schnabel (WSDM 2017), with the click rate in place of the propensity, since
    drafting gives both rankers the same places.

    Example:
        >>> weigh_positions([20, 10], [100, 100]).round(3).tolist()
        [0.75, 1.5]
    """
    counts, impressions = check_finite(clicks), check_finite(shown)
    weights = np.divide(impressions, counts, out=np.zeros_like(impressions), where=counts > 0)
    return np.asarray(weights * (counts.sum() / max(float(weights @ counts), 1e-300)))


def plan_preference_units(
    observed: Preference, alpha: float = 0.05, power: float = 0.8, value: float | None = None
) -> float:
    """Return the units with credit that a preference of this size needs.

    Example:
        >>> round(plan_preference_units(Preference(0.05, 0.01, 0.09, 0.02, 0.01, 1_000, "delta_t")))
        1256
    """
    return observed.units * (_reach(alpha, power) * observed.se / (value or observed.value)) ** 2


def plan_test_units(
    actions: ArrayLike, value: float, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Return the units of an A/B test that finds as large a difference.

    The variants of the A/B test are assumed to differ as the rankers do. If a unit has m actions on
    average, their means are (1 - value) · m and (1 + value) · m, so the difference is d = 2 · value
    · m. With variance s² and half of the units in each variant, the test needs (z + z_power)² · 4s²
    / d² units. Users who see two rankers side by side may prefer one by more than a metric moves;
    then the test needs more units.

    Args:
        actions: Sum of each unit's actions, shape (units,), credited or not.
        value: The preference.
        alpha: Two-sided level of the test.
        power: Wanted probability of detecting the difference.

    Source: Kohavi, Tang & Xu (2020), chapter 17, for the size; d follows from what is assumed.

    Example:
        >>> round(plan_test_units([0, 1, 2, 1, 0, 2], 0.05))
        2512
    """
    did = check_finite(actions)
    return float((_reach(alpha, power) / (value * did.mean())) ** 2 * np.var(did, ddof=1))


def _reach(alpha: float, power: float) -> float:
    return two_sided_quantile(alpha) + power_quantile(power)
