"""Test repeatedly: confidence sequences, and bounds of planned looks."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.distributions import brentq, check_alpha, legendre
from abeval.stats.records import Floats, Refusal, check_finite


class AlwaysValid(NamedTuple):
    """One look at a confidence sequence, with its always-valid p-value."""

    low: float
    high: float
    p_value: float


def measure_information(ses: ArrayLike, scale: ArrayLike = 1.0) -> Floats:
    """Return the information of looks, `(scale / se)^2`, shape (looks,).

    The scale is 1, or for totals per unit the metric's pooled mean at each look (Jennison &
    Turnbull 1999, chapter 11). Refusals: `zero_variance`; `not_finite`; `control_near_zero` for a
    scale of zero.

    Example:
        >>> measure_information([0.5, 0.25]).tolist()
        [4.0, 16.0]
    """
    wrong = "standard errors and scales must be finite"
    errors, units = check_finite(ses, wrong), check_finite(scale, wrong)
    if np.any(errors <= 0):
        raise Refusal("zero_variance", "a look needs a positive standard error")
    if np.any(units == 0):
        raise Refusal("control_near_zero", "a mean of zero cannot be the scale of information")
    return np.asarray((units / errors) ** 2)


def confidence_sequence(
    difference: float, se: float, fraction: float, alpha: float = 0.05
) -> AlwaysValid:
    """Return this look at a confidence sequence, tuned to the planned end.

    `fraction` is the information now over the planned information. On a count clock it is the units
    now over the planned units. It is positive and may exceed 1. The plan must not depend on the
    effect seen. Start once each variant has some hundred units. Source: Waudby-Smith, Arbour,
    Sinha, Kennedy & Ramdas (Annals of Statistics 2024; arXiv:2103.06476), equations 9 and 155.
    Refusals: `zero_variance`; `not_finite`; `too_few_units` for a fraction that is not positive.

    Example:
        >>> look = confidence_sequence(0.05, 0.009, fraction=4.0)
        >>> round(look.low, 6), round(look.high, 6)
        (0.021856, 0.078144)
    """
    z = _check_z(difference, se, fraction)
    if fraction <= 0:
        raise Refusal("too_few_units", "a look needs information")
    clock = tune_mixture(alpha) ** 2 * fraction
    # p = 1 / likelihood ratio of the normal mixture.
    log_p = 0.5 * np.log1p(clock) - clock / (clock + 1) * (z * z) / 2
    return _look(difference, se * find_sequence_bound(fraction, alpha), log_p)


def look_from_start(
    difference: float, se: float, growth: float, alpha: float = 0.05
) -> AlwaysValid:
    """Return this look at a confidence sequence without a plan.

    |z| crosses sqrt(a² + ln growth) at some look with probability alpha, where a² is the upper
    alpha quantile of chi-square with 3 degrees of freedom. `growth` is the information now over the
    information at the start of the looks, at least 1. The start must not depend on the effect.
    Source: Robbins (Annals of Mathematical Statistics 1970), section 3, as the delayed start of
    Waudby-Smith et al. (arXiv:2103.06476) and Bibaut, Kallus & Lindon (arXiv:2212.14411). Refusals:
    `before_first_look` for a growth below 1; `zero_variance`; `not_finite`.

    Example:
        >>> look = look_from_start(0.05, 0.009, growth=100.0)
        >>> round(look.low, 6), round(look.high, 6), round(look.p_value, 6)
        (0.018282, 0.081718, 8e-06)
    """
    z = _check_z(difference, se, growth)
    if growth < 1:
        raise Refusal("before_first_look", "there is less information than at the first look")
    a = np.sqrt(np.maximum(z * z - np.log(growth), 0.0))
    # The upper tail of chi-square with 3 degrees, in logarithms: 2 (Φ(−a) + a φ(a)).
    with np.errstate(divide="ignore"):
        density = np.log(a) - a * a / 2 - 0.5 * math.log(2 * math.pi)
    log_p = math.log(2) + np.logaddexp(special.log_ndtr(-a), density)
    return _look(difference, se * find_bound_from_start(growth, alpha), log_p)


def find_bound_from_start(growth: float, alpha: float = 0.05) -> float:
    """Return the critical value of |z| of `look_from_start`."""
    check_alpha(alpha)
    return math.sqrt(float(special.chdtri(3, alpha)) + math.log(growth))


def find_sequence_bound(fraction: float, alpha: float = 0.05) -> float:
    """Return the critical value of |z| of `confidence_sequence`."""
    clock = tune_mixture(alpha) ** 2 * fraction
    return math.sqrt(2 * (clock + 1) / clock * (0.5 * math.log1p(clock) - math.log(alpha)))


def tune_mixture(alpha: float) -> float:
    """Return ρ, the mixture that makes the sequence tightest at a fraction of 1."""
    check_alpha(alpha)
    return math.sqrt(-2 * math.log(alpha) + math.log1p(-2 * math.log(alpha)))


def _check_z(difference: float, se: float, clock: float) -> float:
    if not all(map(math.isfinite, (difference, se, clock))):
        raise Refusal("not_finite", "a look needs finite numbers")
    if se <= 0:
        raise Refusal("zero_variance", "a look needs a positive standard error")
    return difference / se


def _look(difference: float, width: float, log_p: float) -> AlwaysValid:
    # Underflow to zero is the right limit.
    p_value = float(np.exp(min(0.0, float(log_p))))
    return AlwaysValid(float(difference - width), float(difference + width), p_value)


Spending = Literal["obrien_fleming", "obrien_fleming_total", "pocock", "power"]

# Beyond these standard deviations the path's density is 0 in double precision.
_REACH = 9.0

# The least chance that has a logarithm here.
_LEAST = 1e-307


class Bounds(NamedTuple):
    """Two-sided bounds of planned looks.

    A look rejects if the absolute z reaches `z`, which is infinite if too little alpha is spent to
    reject at all. `spent` is cumulative, for both sides together.
    """

    z: tuple[float, ...]
    spent: tuple[float, ...]


def spend_alpha(
    fraction: float, alpha: float = 0.05, spending: Spending = "obrien_fleming"
) -> float:
    """Return the two-sided alpha spent by an information fraction.

    `obrien_fleming` uses alpha / 2 on each side (as gsDesign and ldbounds do),
    `obrien_fleming_total` uses the total alpha. `pocock` is Pocock's function, `power` the
    fraction's square (Lan & DeMets 1983; Kim & DeMets 1987). An unknown function and a negative
    fraction are refused.

    Example:
        >>> round(spend_alpha(0.6), 6), spend_alpha(1.0)
        (0.007616, 0.05)
    """
    check_alpha(alpha)
    if spending not in get_args(Spending) or fraction < 0:
        raise Refusal("not_applicable", "unknown spending or negative fraction")
    if fraction >= 1:
        return alpha
    if fraction == 0:
        return 0.0
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    if spending == "power":
        return alpha * fraction**2
    sides = 2 if spending == "obrien_fleming" else 1
    z = float(special.ndtri(alpha / sides / 2)) / math.sqrt(fraction)
    return sides * 2 * float(special.ndtr(z))


def bounds(
    fractions: ArrayLike,
    alpha: float = 0.05,
    spending: Spending = "obrien_fleming",
    spent_at: ArrayLike | None = None,
) -> Bounds:
    """Compute bounds on z for looks at any information fractions.

    Bounds are exact to about 1e-10, by quadrature from look to look. Source: Armitage, McPherson &
    Rowe (1969); Lan & DeMets (Biometrika 1983); Lan & DeMets (Biometrics 1989) for spending by the
    calendar. Refusals: As `spent`; `not_applicable` for fractions, or shares of the plan, that do
    not increase within (0, 1]. Fractions increase within (0, 1]. Looks not yet held may be left
    out, because later looks do not move earlier bounds. `alpha` is the error rate of all looks
    together. `spent_at` gives the share of the plan at which each look spends it, if that follows
    another clock than information, such as the calendar. Then only the ratios of `fractions`
    matter.

    Example:
        >>> [round(z, 3) for z in bounds([0.2, 0.4, 0.6, 0.8, 1.0]).z]
        [4.877, 3.357, 2.68, 2.29, 2.031]
    """
    times, plan = _check_clocks(fractions, spent_at)
    total = [spend_alpha(share, alpha, spending) for share in plan]
    edges, (nodes, mass) = _walk(times, total)
    edges.append(_solve_edge(nodes, mass, *_last_step(times, total)))
    z = [edge / math.sqrt(time) for edge, time in zip(edges, times, strict=True)]
    return Bounds(tuple(z), tuple(total))


def _check_clocks(
    fractions: ArrayLike, spent_at: ArrayLike | None
) -> tuple[list[float], list[float]]:
    """Return the information of each look, and its share of the plan."""
    times = _check_fractions(fractions)
    plan = times if spent_at is None else _check_fractions(spent_at)
    if len(plan) != len(times):
        raise Refusal("not_applicable", "one share of the plan per look")
    return times, plan


def _check_fractions(fractions: ArrayLike) -> list[float]:
    times: list[float] = np.atleast_1d(np.asarray(fractions, dtype=float)).tolist()
    if not times or times[-1] > 1 + 1e-12 or not all(a < b for a, b in pairwise([0.0, *times])):
        raise Refusal("not_applicable", "information fractions must increase within (0, 1]")
    return times


class RepeatedPValue(NamedTuple):
    """The smallest level at which a look crosses, and its base-10 logarithm."""

    value: float
    log10: float


def repeated_p_value(
    z: float,
    fractions: ArrayLike,
    spending: Spending = "obrien_fleming",
    spent_at: ArrayLike | None = None,
) -> RepeatedPValue:
    """Return a p-value that holds over all looks so far.

    Source: Jennison & Turnbull (1989).

    `z` is the statistic of the last look. Looks are given as for `bounds`, with the same refusals.

    Example:
        >>> fractions = [0.5, 1.0]
        >>> p = repeated_p_value(bounds(fractions).z[-1], fractions)
        >>> round(p.value, 9)
        0.05
    """
    size = abs(z)
    # A look spends no more than all of alpha, so that p is no smaller than at a fixed horizon.
    least = math.log(2) + float(special.log_ndtr(-size))
    largest = math.log1p(-1e-9)

    times, plan = _check_clocks(fractions, spent_at)
    edge = size * math.sqrt(times[-1])

    def short(log_alpha: float) -> float:
        # The path leaves at this edge more often than the last look may: its bound is farther out.
        total = [spend_alpha(share, math.exp(log_alpha), spending) for share in plan]
        (nodes, mass), (sd, share) = _walk(times, total)[1], _last_step(times, total)
        return math.log(max(_sum_exit_chance(nodes, mass, sd, edge), _LEAST)) - math.log(
            max(share, _LEAST)
        )

    if least >= largest or short(largest) > 0:
        return RepeatedPValue(1.0, 0.0)
    if least < math.log(1e-290) or short(least) <= 0:
        return RepeatedPValue(math.exp(least), least / math.log(10))
    log_p = brentq(short, least, largest, xtol=1e-12, rtol=1e-13)
    return RepeatedPValue(math.exp(log_p), log_p / math.log(10))


def _walk(
    times: Sequence[float], spent_by: Sequence[float]
) -> tuple[list[float], tuple[Floats, Floats]]:
    """Return all edges but the last look's, and the path's density before that look."""
    nodes, mass = np.zeros(1), np.ones(1)
    edges: list[float] = []
    for end in range(1, len(times)):
        sd, share = _last_step(times[:end], spent_by[:end])
        edges.append(_solve_edge(nodes, mass, sd, share))
        nodes, mass = _carry(nodes, mass, edges[-1], times[end - 1], sd)
    return edges, (nodes, mass)


def _last_step(times: Sequence[float], spent_by: Sequence[float]) -> tuple[float, float]:
    """Return the standard deviation of the path's last step, and the alpha it spends."""
    before, spent_before = (times[-2], spent_by[-2]) if len(times) > 1 else (0.0, 0.0)
    return math.sqrt(times[-1] - before), spent_by[-1] - spent_before


def _sum_exit_chance(nodes: Floats, mass: Floats, sd: float, edge: float) -> float:
    """Return the chance that the next step of the path leaves (−edge, edge)."""
    # Nodes and masses are the same on both sides of zero, and so is what leaves.
    return float(2 * (mass @ special.ndtr((nodes - edge) / sd)))


def _solve_edge(nodes: Floats, mass: Floats, sd: float, share: float) -> float:
    """Find c so that the next step of the path leaves (−c, c) with this chance."""
    if len(nodes) == 1:
        return -sd * float(special.ndtri(share / 2)) if share >= 1e-300 else math.inf
    reach = float(nodes.max()) + 38 * sd
    if share < 1e-300 or _sum_exit_chance(nodes, mass, sd, reach) >= share:
        return math.inf
    # Solved in the logarithm, where tiny shares keep their digits.
    target = math.log(share)

    def excess(edge: float) -> float:
        return math.log(max(_sum_exit_chance(nodes, mass, sd, edge), _LEAST)) - target

    return brentq(excess, 0.0, reach, xtol=1e-13)


def _carry(
    nodes: Floats, mass: Floats, edge: float, time: float, sd: float
) -> tuple[Floats, Floats]:
    """Advance the path's density inside (−edge, edge) by one step.

    It uses Gauss-Legendre quadrature, because a grid of step .05 is off in the fifth digit.
    """
    inside = min(edge, _REACH * math.sqrt(time))
    rule, rule_weight = _build_composite_rule(max(4, math.ceil(2 * inside / (3 * sd))))
    x = inside * rule
    kernel = np.exp(-0.5 * ((x[:, None] - nodes) / sd) ** 2)
    return x, rule_weight * (kernel @ mass) * (inside / sd / math.sqrt(2 * math.pi))


@cache
def _build_composite_rule(panels: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of 14 points in each of equal panels of (−1, 1)."""
    rule, weight = legendre(14)
    middle = (2 * np.arange(panels)[:, None] + 1) / panels - 1
    return (middle + rule / panels).ravel(), np.tile(weight / panels, panels)
