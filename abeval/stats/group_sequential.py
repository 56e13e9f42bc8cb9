"""Planned looks: Lan-DeMets spending bounds and repeated confidence intervals.

`inference/looks.py` and `time/peeking.py` hand over information fractions of the looks so far, for
their bounds; `inference/power.py` takes the bound of the last look.
"""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.distributions import brentq, check_alpha
from abeval.stats.records import Floats, Refusal

Spending = Literal["obrien_fleming", "obrien_fleming_total", "pocock", "power"]

_REACH = 9.0
"""Standard deviations beyond which the density of the path is below double precision."""


class Bounds(NamedTuple):
    """Two-sided bounds of planned looks.

    Attributes:
        fractions: Information fractions.
        z: Reject at a look where the absolute z statistic reaches this; infinite where too little
            is spent to reject at all.
        spent: Cumulative alpha spent, both sides together.
    """

    fractions: tuple[float, ...]
    z: tuple[float, ...]
    spent: tuple[float, ...]


def spent(
    fraction: float, alpha: float = 0.05, spending: Spending = "obrien_fleming", rho: float = 2.0
) -> float:
    """Two-sided alpha spent by an information fraction.

    Args:
        fraction: Information now over information planned; from 1 on all of alpha is spent.
        alpha: Two-sided level.
        spending: `obrien_fleming`: one function of alpha / 2 per side (as gsDesign and ldbounds);
            `obrien_fleming_total`: one function of the total alpha; `pocock`; `power`.
        rho: Exponent of the power family.

    Returns:
        Alpha spent on both sides together.

    Raises:
        Refusal: `not_applicable` for an unknown function or a negative fraction or exponent.

    Source:
        Lan & DeMets (Biometrika 1983); Kim & DeMets (1987) for the power family.

    Example:
        >>> round(spent(0.6), 6), spent(1.0)
        (0.007616, 0.05)
    """
    check_alpha(alpha)
    if spending not in get_args(Spending) or fraction < 0 or rho <= 0:
        raise Refusal("not_applicable", "unknown spending, negative fraction or exponent")
    if fraction >= 1:
        return alpha
    if fraction == 0:
        return 0.0
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    if spending == "power":
        return float(alpha * fraction**rho)
    sides = 2 if spending == "obrien_fleming" else 1
    z = float(special.ndtri(alpha / sides / 2)) / math.sqrt(fraction)
    return sides * 2 * float(special.ndtr(z))


def bounds(
    fractions: ArrayLike,
    alpha: float = 0.05,
    spending: Spending = "obrien_fleming",
    rho: float = 2.0,
    spent_at: ArrayLike | None = None,
) -> Bounds:
    """Bounds on z for looks at any information fractions, equal or not.

    The density of the path that has not crossed is carried from look to look by Gauss-Legendre
    quadrature, exact to about 1e-10 (a grid of step .05 is off in the fifth digit, D12).

    Args:
        fractions: Increasing information fractions in (0, 1], shape (looks,). Looks not yet held
            may be left out: later looks do not move earlier bounds.
        alpha: Two-sided level.
        spending: As in `spent`.
        rho: Exponent of the power family.
        spent_at: Share of the plan at which each look spends alpha, where that is another clock
            than information: the calendar, for a plan in days. Then only the ratios of `fractions`
            matter. Without it, alpha is spent by information.

    Returns:
        Bounds and alpha spent.

    Raises:
        Refusal: As `spent`; `not_applicable` for fractions, or shares of the plan, that do not
            increase within (0, 1].

    Source:
        Armitage, McPherson & Rowe (1969); Lan & DeMets (Biometrika 1983); Lan & DeMets
        (Biometrics 1989) for spending by the calendar.

    Example:
        >>> [round(z, 3) for z in bounds([0.2, 0.4, 0.6, 0.8, 1.0]).z]
        [4.877, 3.357, 2.68, 2.29, 2.031]
    """
    times = _increasing(fractions)
    plan = times if spent_at is None else _increasing(spent_at)
    if len(plan) != len(times):
        raise Refusal("not_applicable", "one share of the plan per look")
    steps = np.diff(times, prepend=0.0)
    total = [spent(float(t), alpha, spending, rho) for t in plan]
    nodes, mass = np.zeros(1), np.ones(1)
    edges: list[float] = []
    for i, (step, share) in enumerate(zip(steps, np.diff(total, prepend=0.0), strict=True)):
        edge = _edge(nodes, mass, math.sqrt(step), float(share))
        edges.append(edge / math.sqrt(times[i]))
        nodes, mass = _carry(nodes, mass, edge, float(times[i]), math.sqrt(step))
    return Bounds(tuple(times.tolist()), tuple(edges), tuple(total))


def _increasing(fractions: ArrayLike) -> Floats:
    times = np.atleast_1d(np.asarray(fractions, dtype=float))
    if len(times) == 0 or not np.all(np.diff(times, prepend=0.0) > 0) or times[-1] > 1 + 1e-12:
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
    rho: float = 2.0,
    spent_at: ArrayLike | None = None,
) -> RepeatedPValue:
    """P-value of one look that holds over all looks: at most alpha iff |z| reaches its bound.

    Args:
        z: Statistic of the last look.
        fractions: Information fractions of the looks so far, as in `bounds`.
        spending: As in `spent`.
        rho: Exponent of the power family.
        spent_at: As in `bounds`.

    Raises:
        Refusal: As `bounds`.

    Source:
        Jennison & Turnbull (JRSS B 1989), section 4.

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

    def short(log_alpha: float) -> float:
        return bounds(fractions, math.exp(log_alpha), spending, rho, spent_at).z[-1] - size

    if least >= largest or short(largest) > 0:
        return RepeatedPValue(1.0, 0.0)
    if least < math.log(1e-290) or short(least) <= 0:
        return RepeatedPValue(math.exp(least), least / math.log(10))
    log_p = brentq(short, least, largest, xtol=1e-12, rtol=1e-13)
    return RepeatedPValue(math.exp(log_p), log_p / math.log(10))


def _edge(nodes: Floats, mass: Floats, sd: float, share: float) -> float:
    """The c at which the path, continued by one step, leaves (-c, c) with probability share."""

    def leaves(c: float) -> float:
        # Nodes and masses are the same on both sides of zero, and so is what leaves.
        return float(2 * (mass @ special.ndtr((nodes - c) / sd)))

    reach = float(nodes.max()) + 38 * sd
    if share < 1e-300 or leaves(reach) >= share:
        return math.inf
    # Solved in the logarithm, where tiny shares keep their digits.
    target = math.log(share)
    return brentq(lambda c: math.log(max(leaves(c), 1e-307)) - target, 0.0, reach, xtol=1e-13)


def _carry(
    nodes: Floats, mass: Floats, edge: float, time: float, sd: float
) -> tuple[Floats, Floats]:
    """Quadrature nodes and masses of the path inside (-edge, edge) after one more step."""
    inside = min(edge, _REACH * math.sqrt(time))
    panels = max(4, math.ceil(2 * inside / (3 * sd)))
    rule, rule_weight = np.polynomial.legendre.leggauss(14)
    half = inside / panels
    x = (half * rule + half * (2 * np.arange(panels)[:, None] + 1) - inside).ravel()
    weight = np.tile(half * rule_weight, panels)
    kernel = np.exp(-0.5 * ((x[:, None] - nodes) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    return x, weight * (kernel @ mass)
