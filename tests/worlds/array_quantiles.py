"""Quantiles of arrays, by the parts that the analysis combines over its queries."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats import effects
from abeval.stats.moments import Moments
from abeval.stats.quantiles import (
    PARTS,
    SidedEstimate,
    build_distribution,
    design_effect,
    ends,
    estimate_from_ends,
    explain_no_quantile,
    locate_quantile,
    pool_design_effects,
    sides,
)
from abeval.stats.records import Effect, Floats, check_finite


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
    return effects.merge_sides(
        effects.compare(*low, alpha, method), effects.compare(*high, alpha, method)
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
    data = [check_finite(values) for values in variants]
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
    data = [(check_finite(values), np.asarray(units)) for values, units in variants]
    counts = [_counts(values, units, level) for values, units in data]
    effects_ = pool_design_effects([design_effect(c, level) for c in counts], [c.n for c in counts])
    return [
        _estimate(values, one.n, level, effect)
        for (values, _), one, effect in zip(data, counts, effects_, strict=True)
    ]


def _counts(values: Floats, units: NDArray[np.generic], level: float) -> Moments:
    """Moments over units of (values below the quantile, values)."""
    at = locate_quantile(values.size, level)
    step = build_distribution(values).step(at) if values.size else None
    if step is None:
        raise explain_no_quantile(values.size, level)
    at_lower, at_upper = step.weights(at)
    parts = np.select(
        [values < step.lower, values == step.lower, values == step.upper],
        [PARTS, at_lower, at_upper],
    )
    _, codes = np.unique(units, return_inverse=True)
    return Moments.of(np.bincount(codes, weights=parts) / PARTS, np.bincount(codes))


def _estimate(values: Floats, units: int, level: float, effect: float) -> SidedEstimate:
    """The quantile with its errors, by the design effect to use."""
    distribution, n = build_distribution(values), values.size
    places = [locate_quantile(n, at) for at in (level, *ends(n, level, effect))]
    steps = [distribution.step(at) for at in places]
    value, low, high = (
        math.nan if step is None else step.value(at) for step, at in zip(steps, places, strict=True)
    )
    if None in steps:
        raise explain_no_quantile(n, level)
    return estimate_from_ends(value, low, high, units)
