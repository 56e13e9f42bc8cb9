"""Test proportions: two by Fisher's mid-p, one by its interval."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from abeval.stats import effects
from abeval.stats.distributions import brentq, check_alpha, two_sided_quantile
from abeval.stats.records import Effect, Floats, Interval, Lift, Refusal

_HALF = math.log(2)
_ANGLES = np.linspace(0, np.pi / 2, 65)
_Measure = Callable[[float, float], float]
"""An effect as a function of both shares, control's first."""


def fisher(x_c: int, n_c: int, x_t: int, n_t: int) -> float:
    """Return the two-sided mid-p of Fisher's exact test.

    It is twice the smaller tail (Lancaster 1961).

    Example:
        >>> round(fisher(3, 40, 11, 41), 6)
        0.02469
    """
    _, log_weights, observed = _enumerate_tables(x_c, n_c, x_t, n_t)
    lower, upper = log_weights[: observed + 1].copy(), log_weights[observed:].copy()
    lower[-1] -= _HALF
    upper[0] -= _HALF
    smaller = _HALF + min(_log_sum(lower), _log_sum(upper))
    return math.exp(min(0.0, smaller - _log_sum(log_weights)))


@lru_cache(maxsize=256)
def estimate_odds_ratio(x_c: int, n_c: int, x_t: int, n_t: int, alpha: float = 0.05) -> Interval:
    """Return the odds ratios, treatment over control, that `fisher` does not reject."""
    check_alpha(alpha)
    counts, log_weights, observed = _enumerate_tables(x_c, n_c, x_t, n_t)
    limit = math.log(alpha / 2)

    def excess(log_odds: float, tail: slice) -> float:
        tilted = log_weights + log_odds * counts
        log_total = _log_sum(tilted)
        tilted[observed] -= _HALF
        return _log_sum(tilted[tail]) - log_total - limit

    low, high = 0.0, math.inf
    if observed > 0:
        low = math.exp(_solve_root(lambda at: excess(at, slice(observed, None))))
    if observed < len(counts) - 1:
        high = math.exp(-_solve_root(lambda at: excess(-at, slice(observed + 1))))
    return Interval(low, high)


def compute_exact_interval(
    x_c: int, n_c: int, x_t: int, n_t: int, measure: _Measure, alpha: float = 0.05
) -> Interval:
    """Bound a difference or lift, consistently with Fisher's test.

    The ends of the odds ratio are turned into shares with the observed number of successes. That
    number has an error of its own (Clopper and Pearson 1934). The two errors are independent, so an
    end is the most extreme effect on an ellipse around the estimate, with them as its axes. It
    needs at least one success and one failure among all units. `measure` is zero if the shares are
    equal.

    Example:
        >>> low, high = compute_exact_interval(20, 1000, 0, 1000, lambda c, t: t / c - 1)
        >>> round(low, 4), round(high, 4)
        (-1.0, -0.8387)
    """
    total, units = x_c + x_t, n_c + n_t
    totals = (total, *(units * end for end in clopper_pearson(total, units, alpha)))
    low, high = (
        [measure(*_solve_shares(odds, successes, n_c, n_t)) for successes in totals]
        for odds in estimate_odds_ratio(x_c, n_c, x_t, n_t, alpha)
    )
    estimate = measure(x_c / n_c, x_t / n_t)
    return Interval(
        -_find_highest_effect([-e for e in low], -estimate), _find_highest_effect(high, estimate)
    )


def clopper_pearson(successes: int, units: int, alpha: float = 0.05) -> Interval:
    """Return the exact interval of one share (Clopper and Pearson 1934).

    Example:
        >>> low, high = clopper_pearson(0, 100)
        >>> round(low, 4), round(high, 4)
        (0.0, 0.0362)
    """
    x, n = successes, units
    low = 0.0 if x == 0 else float(scipy.special.betaincinv(x, n - x + 1, alpha / 2))
    high = 1.0 if x == n else float(scipy.special.betainccinv(x + 1, n - x, alpha / 2))
    return Interval(low, high)


def _enumerate_tables(x_c: int, n_c: int, x_t: int, n_t: int) -> tuple[Floats, Floats, int]:
    """Return the possible successes of treatment, log weights and observed index."""
    total = x_c + x_t
    counts = np.arange(max(0, total - n_c), min(total, n_t) + 1, dtype=np.float64)
    before = counts[:-1]
    rising = (n_t - before) * (total - before)
    falling = (before + 1) * (n_c - total + before + 1)
    log_weights = np.concatenate([[0.0], np.cumsum(np.log(rising / falling))])
    return counts, log_weights, x_t - int(counts[0])


def _log_sum(log_weights: Floats) -> float:
    largest = log_weights.max()
    return float(largest + math.log(np.exp(log_weights - largest).sum()))


def _solve_root(rising: Callable[[float], float]) -> float:
    low, high = -1.0, 1.0
    while rising(low) > 0:
        low *= 2
    while rising(high) < 0:
        high *= 2
    return brentq(rising, low, high, xtol=1e-12, rtol=1e-12)


def _solve_shares(odds: float, successes: float, n_c: int, n_t: int) -> tuple[float, float]:
    """Return both shares, given the odds ratio and the total of successes."""
    if odds == 0:
        control = min(1.0, successes / n_c)
        return control, max(0.0, successes - n_c * control) / n_t
    if math.isinf(odds):
        treatment = min(1.0, successes / n_t)
        return max(0.0, successes - n_t * treatment) / n_c, treatment
    a = n_c * (odds - 1)
    b = n_c + n_t * odds - successes * (odds - 1)
    control = min(1.0, 2 * successes / (b + math.sqrt(max(b * b + 4 * a * successes, 0.0))))
    return control, control * odds / (1 + control * (odds - 1))


def _find_highest_effect(ends: list[float], estimate: float) -> float:
    """Return the highest effect on the ellipse around the estimate."""
    end, *others = ends
    if end == 0 or math.isinf(end):
        return end
    # The total's error multiplies the end, so it moves by ratios.
    ratios = [1.0, *(other / end for other in others)]
    factor = max(ratios) if end > 0 else min(ratios)
    effects = (estimate + np.cos(_ANGLES) * (end - estimate)) * factor ** np.sin(_ANGLES)
    return float(effects.max())


class Count(NamedTuple):
    """Units of randomisation with a property, out of all units of a variant.

    Clicks out of impressions are not a count of units: use `abeval.stats.means`.
    """

    successes: int
    units: int


def exact(control: Count, treatment: Count, alpha: float = 0.05) -> Effect:
    """Test two proportions by Fisher's mid-p, with its interval.

    Source: Lancaster (1961).

    The p-value is twice the smaller tail. The error rate is near `alpha` or below it, for any rate
    and any split. The standard error assumes one common rate. Refusals: `too_few_units`;
    `zero_variance` when nobody or everybody succeeds.

    Example:
        >>> e = exact(Count(293, 11298), Count(5, 464))
        >>> round(e.p_value, 4), round(e.low, 4), round(e.high, 4)
        (0.0281, -0.0227, -0.0019)
    """
    c, t = _divide_count(control), _divide_count(treatment)
    common = (control.successes + treatment.successes) / (control.units + treatment.units)
    se = math.sqrt(common * (1 - common) * (1 / control.units + 1 / treatment.units))
    effect = effects.effect_from_difference(c, t, t - c, se, method="fisher_mid_p")
    low, high = compute_exact_interval(*control, *treatment, lambda c, t: t - c, alpha)
    p_value = fisher(*control, *treatment)
    return effect._replace(low=max(low, -1.0), high=min(high, 1.0), p_value=p_value)


def bound_unvaried(control: Count, treatment: Count, alpha: float = 0.05) -> Effect:
    """Bound the difference if nobody, or everybody, succeeds in both variants.

    If nobody succeeds, the ends are treatment's largest share by Clopper and Pearson (1934), and
    minus control's. The standard error is that of a normal interval of the same width. Refusals:
    `not_applicable` if somebody succeeds and somebody else does not.

    Example:
        >>> e = bound_unvaried(Count(0, 6000), Count(0, 3000))
        >>> e.p_value, round(e.low, 5), round(e.high, 5)
        (1.0, -0.00061, 0.00123)
    """
    successes = control.successes + treatment.successes
    if successes not in (0, control.units + treatment.units):
        raise Refusal("not_applicable", "some succeed, and some do not")
    rare = [Count(0, count.units) for count in (control, treatment)]
    of_control, of_treatment = (clopper_pearson(*rare_count, alpha).high for rare_count in rare)
    ends = (-of_control, of_treatment) if successes == 0 else (-of_treatment, of_control)
    share = _divide_count(control)
    se = (ends[1] - ends[0]) / 2 / two_sided_quantile(alpha)
    effect = effects.effect_from_difference(share, share, 0.0, se, method="fisher_mid_p")
    return effect._replace(low=ends[0], high=ends[1])


def exact_lift(control: Count, treatment: Count, alpha: float = 0.05) -> Lift:
    """Return the relative effect with the interval of the exact test.

    Refusals: `too_few_units`; `control_near_zero` without a success in control; `zero_variance`
    when everybody succeeds.

    Example:
        >>> lift = exact_lift(Count(20, 1000), Count(0, 1000))
        >>> lift.value, lift.low, round(lift.high, 4)
        (-1.0, -1.0, -0.8387)
    """
    base, share = _divide_count(control), _divide_count(treatment)
    if base == 0:
        raise Refusal("control_near_zero", "no success in control: a lift has no meaning")
    if base == share == 1:
        raise Refusal("zero_variance", "everybody succeeds: no test is possible")
    low, high = compute_exact_interval(*control, *treatment, _measure_lift, alpha)
    return Lift(share / base - 1, max(low, -1.0), high, math.isfinite(high), "fisher_mid_p")


def _measure_lift(control: float, treatment: float) -> float:
    return treatment / control - 1 if control > 0 else math.inf


def compute_share_interval(count: Count, alpha: float = 0.05) -> Interval:
    """Return the interval of one proportion by Wilson (1927).

    Refusals: `too_few_units`.

    Example:
        >>> low, high = compute_share_interval(Count(17, 120))
        >>> round(low, 4), round(high, 4)
        (0.0904, 0.2152)
    """
    _divide_count(count)
    (x, n), q = count, two_sided_quantile(alpha)
    centre, half = x + q * q / 2, q * math.sqrt(x * (n - x) / n + q * q / 4)
    # The ends at no success and at all are exact, where rounding would pass them.
    low = 0.0 if x == 0 else (centre - half) / (n + q * q)
    return Interval(low, 1.0 if x == n else (centre + half) / (n + q * q))


def _divide_count(count: Count) -> float:
    if count.units < 1:
        raise Refusal("too_few_units", "a proportion needs at least one unit")
    if not 0 <= count.successes <= count.units:
        raise ValueError(f"{count.successes} successes of {count.units} units")
    return count.successes / count.units
