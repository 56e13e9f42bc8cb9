"""Quantiles of values with ties, with standard errors to either side, clustered by unit.

A quantile here is that of the mid-distribution (`mid_distribution.py`), which has a standard error
with ties too.

`aggregates/quantiles.py` reads neighbouring values and their shares from the log, and
`inference/other_kinds.py` compares variants by `SidedEstimate`. `clustered` and `iid` do all of it
for arrays.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats import effects, off_policy
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Floats, Interval, Refusal, finite

MIN_TAIL = 10
"""Independent values that have to be expected beyond a quantile, on its shorter side.

With fewer, its interval would end among the last values (docs/calibration.md)."""

_Z = two_sided_quantile(0.05)
"""The ends that give the standard errors are those of a 95 % interval, whatever the level."""


class SidedEstimate(NamedTuple):
    """A quantile of one variant, with a standard error to either side.

    Values are thinner on one side than on the other: at the 90th percentile of a skewed value, or
    where it jumps from one tied value to the next. So the two sides have errors of their own.

    Attributes:
        value: The quantile.
        below: Standard error towards lower values.
        above: Standard error towards higher values.
        units: Units of randomisation.
    """

    value: float
    below: float
    above: float
    units: int

    def towards(self, se: float) -> Estimate:
        """The estimate with the error of one side."""
        return Estimate(self.value, se * se, self.units, float(self.units - 1))


def design_effect(counts: Moments, level: float) -> float:
    """How many times the variance of independent values that of clustered ones is.

    The variance, between units, of the share of values below the quantile (delta method) over the
    ν(1 − ν)/n of independent values without ties (Deng, Knoblich and Lu 2018).

    Args:
        counts: Moments over units of (values below the quantile, values); a value at either
            neighbour of the quantile counts in part, as in `clustered`.
        level: Level of the quantile, ν.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`.

    Example:
        >>> round(design_effect(Moments.of([2, 0, 1, 2, 0], [2, 2, 2, 2, 2]), 0.5), 6)
        2.0
    """
    events = counts.n * float(counts.mean[1])
    return off_policy.estimate(counts).variance * events / (level * (1 - level))


def pooled(own: Sequence[float], units: Sequence[int]) -> list[float]:
    """The design effect to use for each variant: its own, or that of all variants if it is larger.

    In a small variant, the design effect is an estimate with much noise; where it is too small by
    chance, the test would be too eager.

    Args:
        own: Design effect of each variant.
        units: Units of each variant, which weigh it.

    Example:
        >>> pooled([2.0, 1.0], [900, 100])
        [2.0, 1.9]
    """
    everyone = float(np.average(own, weights=units))
    return [max(one, everyone) for one in own]


def ends(n: int, level: float, effect: float = 1.0) -> Interval:
    """Levels whose quantiles enclose the quantile in 95 % of samples (Woodruff 1952).

    ν ∓ z·√(D·ν(1 − ν)/n), with the design effect D.

    Args:
        n: Number of values.
        level: Level of the quantile, ν.
        effect: Design effect of the values.

    Raises:
        Refusal: `too_few_units` where fewer than `MIN_TAIL` independent values are expected beyond
            the quantile; `zero_variance` for a design effect of 0.

    Example:
        >>> low, high = ends(401, 0.9)
        >>> round(low, 4), round(high, 4)
        (0.8706, 0.9294)
    """
    if effect <= 0:
        raise Refusal("zero_variance", "every unit has the same share of values below")
    tail = tail_of(n, level, effect)
    if tail < MIN_TAIL:
        raise Refusal(
            "too_few_units",
            f"{tail:.1f} independent values are expected beyond the quantile {level:g}, "
            f"fewer than {MIN_TAIL}",
        )
    half = _Z * math.sqrt(effect * level * (1 - level) / n)
    return Interval(level - half, level + half)


def tail_of(n: int, level: float, effect: float = 1.0) -> float:
    """Independent values that are expected beyond a quantile, on its shorter side.

    A design effect below 1, as ties give it, does not make them more.

    Example:
        >>> round(tail_of(400, 0.9, 2.0), 6), round(tail_of(400, 0.9, 0.5), 6)
        (20.0, 40.0)
    """
    return n * min(level, 1 - level) / max(effect, 1.0)


def from_ends(value: float, low: float, high: float, units: int) -> SidedEstimate:
    """The quantile with the errors that its ends give.

    Args:
        value: The quantile.
        low: The quantile at the lower of the levels of `ends`.
        high: That at the higher one.
        units: Units of randomisation.

    Raises:
        Refusal: `zero_variance` where neither end differs from the quantile; `not_finite`.

    Example:
        >>> one = from_ends(893.0, 867.0, 925.0, 401)
        >>> round(one.below, 3), round(one.above, 3)
        (13.266, 16.327)
    """
    if not all(map(math.isfinite, (value, low, high))):
        raise Refusal("not_finite", "a quantile is infinite or missing")
    if high <= low:
        raise Refusal("zero_variance", f"the quantile is tied at {value}")
    return SidedEstimate(value, (value - low) / _Z, (high - value) / _Z, units)


def beyond(n: int, level: float) -> Refusal:
    """Why a quantile, or an end of its interval, is not between two values that occur.

    Args:
        n: Number of values.
        level: Level of the quantile.

    Example:
        >>> beyond(20, 0.9).reason, beyond(2_000, 0.9).reason
        ('too_few_units', 'tied_quantile')
    """
    if tail_of(n, level) < MIN_TAIL:
        return Refusal("too_few_units", f"{n} values are too few for the quantile {level:g}")
    message = f"so many values are the lowest or the highest that the quantile {level:g} is not"
    return Refusal("tied_quantile", f"{message} between two values")


def compare(
    control: SidedEstimate,
    treatment: SidedEstimate,
    alpha: float = 0.05,
    method: str = "mid_quantile_t",
) -> Effect:
    """Difference of two independent quantiles, each end with the errors of its own side.

    The lower end of the difference is where the treatment's quantile is lower or control's is
    higher (Zou and Donner 2008). The p-value is that of the side that faces zero, so it agrees
    with the interval.

    Args:
        control: Quantile of control.
        treatment: Quantile of the treatment.
        alpha: Error rate of test and interval.
        method: Id recorded in the effect.

    Raises:
        Refusal: `zero_variance`, `not_finite`.

    Example:
        >>> e = compare(SidedEstimate(10, 0.5, 0.6, 900), SidedEstimate(12, 0.8, 1.2, 900))
        >>> round(e.low, 2), round(e.high, 2), round(e.p_value, 3)
        (0.04, 4.55, 0.046)
    """
    low, high = sides(control, treatment)
    return effects.joined(
        effects.compare(*low, alpha, method), effects.compare(*high, alpha, method)
    )


Pair = tuple[Estimate, Estimate]


def sides(control: SidedEstimate, treatment: SidedEstimate) -> tuple[Pair, Pair]:
    """The two estimates as they give the lower and the higher end of their difference.

    Example:
        >>> low, high = sides(SidedEstimate(10, 1, 2, 9), SidedEstimate(12, 3, 4, 9))
        >>> [one.variance for one in low], [one.variance for one in high]
        ([4, 9], [1, 16])
    """
    return (
        (control.towards(control.above), treatment.towards(treatment.below)),
        (control.towards(control.below), treatment.towards(treatment.above)),
    )


def iid(*variants: ArrayLike, level: float) -> list[SidedEstimate]:
    """Quantiles of one value per unit, in each variant.

    Args:
        variants: Values of each variant, shape (n,) each.
        level: Level of the quantile.

    Raises:
        Refusal: `too_few_units`, `zero_variance`, `not_finite`.

    Example:
        >>> [one] = iid(range(1, 102), level=0.5)
        >>> one.value, round(one.below, 3), round(one.above, 3)
        (51.0, 5.025, 5.025)
    """
    data = [finite(values) for values in variants]
    return clustered(*((values, np.arange(values.size)) for values in data), level=level)


def clustered(*variants: tuple[ArrayLike, ArrayLike], level: float) -> list[SidedEstimate]:
    """Quantiles over events where a unit of randomisation has several, in each variant.

    Args:
        variants: Values of each variant, shape (n,), and the unit of each, of any sortable type.
        level: Level of the quantile.

    Raises:
        Refusal: `too_few_units`, `zero_variance`, `not_finite`.

    Source:
        Mid-distribution: Parzen (2004), Ma, Genton and Parzen (2011). Clusters: Deng, Knoblich and
        Lu (2018), Yao, Li and Lu (2024).

    Example:
        >>> dwell, users = [1, 2, 2, 3] * 25, [i // 2 for i in range(100)]
        >>> [one] = clustered((dwell, users), level=0.5)
        >>> one.value, one.units
        (2.0, 50)
    """
    data = [(finite(values), np.asarray(units)) for values, units in variants]
    counts = [_counts(values, units, level) for values, units in data]
    effects_ = pooled([design_effect(c, level) for c in counts], [c.n for c in counts])
    return [
        _estimate(values, one.n, level, effect)
        for (values, _), one, effect in zip(data, counts, effects_, strict=True)
    ]


def _counts(values: Floats, units: NDArray[np.generic], level: float) -> Moments:
    """Moments over units of (values below the quantile, values)."""
    at = place(values.size, level)
    step = distribution_of(values).step(at) if values.size else None
    if step is None:
        raise beyond(values.size, level)
    at_lower, at_upper = step.weights(at)
    parts = np.select(
        [values < step.lower, values == step.lower, values == step.upper],
        [PARTS, at_lower, at_upper],
    )
    _, codes = np.unique(units, return_inverse=True)
    return Moments.of(np.bincount(codes, weights=parts) / PARTS, np.bincount(codes))


def _estimate(values: Floats, units: int, level: float, effect: float) -> SidedEstimate:
    """The quantile with its errors, by the design effect to use."""
    distribution, n = distribution_of(values), values.size
    places = [place(n, at) for at in (level, *ends(n, level, effect))]
    steps = [distribution.step(at) for at in places]
    value, low, high = (
        math.nan if step is None else step.value(at) for step, at in zip(steps, places, strict=True)
    )
    if None in steps:
        raise beyond(n, level)
    return from_ends(value, low, high, units)
