"""Quantiles with standard errors from order statistics, for independent and clustered values.

`aggregates/quantiles.py` asks which order statistics to read from the log;
`inference/other_kinds.py` hands over their values.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import ratios
from abeval.stats.arrays import finite
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Interval, Refusal


def ranks(n: int, nu: float, alpha: float = 0.05) -> Interval:
    """Quantile levels whose order statistics enclose the quantile `nu` of n values.

    ν ∓ z·√(ν(1 − ν)/n) (Woodruff 1952). With them an engine can compute the three quantiles
    for `from_order_statistics` in one pass.

    Args:
        n: Number of values.
        nu: Level of the quantile, between 0 and 1.
        alpha: Error rate of the interval.

    Raises:
        Refusal: `too_few_units` when a level falls outside 0 to 1.

    Example:
        >>> low, high = ranks(401, 0.9)
        >>> round(low, 4), round(high, 4)
        (0.8706, 0.9294)
    """
    if not 0 < nu < 1:
        raise ValueError(f"a quantile level lies between 0 and 1, got {nu}")
    if n < 2:
        raise Refusal("too_few_units", f"a quantile needs at least two values, got {n}")
    half = two_sided_quantile(alpha) * math.sqrt(nu * (1 - nu) / n)
    if nu - half <= 0 or nu + half >= 1:
        raise Refusal("too_few_units", f"{n} values are too few for the quantile {nu}")
    return Interval(nu - half, nu + half)


def from_order_statistics(
    value: float, low: float, high: float, n: int, alpha: float = 0.05
) -> Estimate:
    """Estimate of a quantile from its value and the values at the levels of `ranks`.

    Standard error (high − low) / 2z.

    Args:
        value: The sample quantile.
        low: Sample quantile at the lower level.
        high: Sample quantile at the upper level.
        n: Number of independent values.
        alpha: The error rate used in `ranks`.

    Raises:
        Refusal: `zero_variance` when both ends are the same value: the quantile is tied, and
            this method has no standard error for it; `not_finite`.

    Example:
        >>> e = from_order_statistics(893.0, 867.0, 925.0, 401)
        >>> round(math.sqrt(e.variance), 4)
        14.7962
    """
    if not all(map(math.isfinite, (value, low, high))):
        raise Refusal("not_finite", "a quantile is infinite or missing")
    if high <= low:
        raise Refusal("zero_variance", f"the quantile is tied at {value}")
    se = (high - low) / (2 * two_sided_quantile(alpha))
    return Estimate(value, se * se, n, float(n - 1))


class Place(NamedTuple):
    """Position of a sample quantile among n sorted values.

    Attributes:
        lower: Position of the value at or below it, from 0.
        upper: Position of the value at or above it.
        share: Its distance from the lower one, as a share of the step to the upper one.
    """

    lower: int
    upper: int
    share: float

    def between(self, lower: float, upper: float) -> float:
        """The quantile from the values at the two positions."""
        return lower + (upper - lower) * self.share


def place(n: int, level: float) -> Place:
    """Position of the type 7 quantile (numpy, DuckDB `quantile_cont`) of n values.

    Example:
        >>> place(101, 0.5), place(4, 0.5).between(2, 3)
        (Place(lower=50, upper=50, share=0.0), 2.5)
    """
    position = (n - 1) * level
    lower = math.floor(position)
    share = position - lower
    return Place(lower, lower + 1 if share else lower, share)


def iid(values: ArrayLike, nu: float, alpha: float = 0.05) -> Estimate:
    """Quantile of one value per unit (Woodruff 1952; Deng, Knoblich and Lu 2018).

    Quantiles interpolate linearly (type 7: numpy, DuckDB `quantile_cont`).

    Args:
        values: One value per unit, shape (n,).
        nu: Level of the quantile.
        alpha: Error rate of the order-statistic interval behind the standard error.

    Raises:
        Refusal: `too_few_units`, `zero_variance`, `not_finite`.

    Example:
        >>> e = iid(range(101), 0.5)
        >>> e.value, round(math.sqrt(e.variance), 4)
        (50.0, 4.9752)
    """
    data = finite(values)
    low, high = ranks(data.size, nu, alpha)
    at = np.quantile(data, [nu, low, high])
    return from_order_statistics(float(at[0]), float(at[1]), float(at[2]), data.size, alpha)


def clustered(values: ArrayLike, units: ArrayLike, nu: float, alpha: float = 0.05) -> Estimate:
    """Quantile over events where a unit of randomisation has several (Deng et al. 2018).

    Args:
        values: One value per event, shape (n,).
        units: Unit of each event, shape (n,), of any sortable type.
        nu: Level of the quantile.
        alpha: Error rate of the order-statistic interval.

    Raises:
        Refusal: `too_few_units`, `zero_variance`, `not_finite`.

    Example:
        >>> e = clustered([1, 2, 3, 4] * 25, [i // 2 for i in range(100)], 0.5)
        >>> e.value, e.units
        (2.5, 50)
    """
    data = finite(values)
    independent = iid(data, nu, alpha)
    _, codes = np.unique(np.asarray(units), return_inverse=True)
    below = np.bincount(codes, weights=data <= independent.value)
    return inflate(independent, Moments.of(below, np.bincount(codes)), nu)


def inflate(independent: Estimate, counts: Moments, nu: float) -> Estimate:
    """Variance of a quantile over events, from that of independent events.

    Scaled by a ratio of two variances of the share of events below the quantile: between units,
    by the delta method, over the ν(1 − ν)/n of independent events.

    Args:
        independent: The quantile with the variance of independent events; `units` is the
            number of events.
        counts: Moments over units of (events at or below the quantile, events).
        nu: Level of the quantile.

    Raises:
        Refusal: `too_few_units`, `zero_variance`.

    Example:
        >>> events = from_order_statistics(5.0, 4.0, 6.0, 100)
        >>> e = inflate(events, Moments.of([2, 0, 1, 2, 0], [2, 2, 2, 2, 2]), 0.5)
        >>> e.units, e.variance > events.variance
        (5, True)
    """
    share = ratios.estimate(counts)
    if share.variance == 0:
        raise Refusal("zero_variance", "every unit has the same share of events below")
    factor = share.variance / (nu * (1 - nu) / independent.units)
    return Estimate(independent.value, independent.variance * factor, share.units, share.df)
