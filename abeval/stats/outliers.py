"""Capping of extreme values at one threshold for all variants, never without the raw effect.

For arrays of your own. `cap` of an experiment file runs as SQL (`queries/metric/cap.sql`), and
caps at the smallest value that occurs and is not below this threshold.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import means, ratios
from abeval.stats.arrays import Floats, finite
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Refusal


class Capped(NamedTuple):
    """An effect with capped values beside the one without.

    Attributes:
        effect: The effect of the capped values.
        uncapped: The effect of the values as they are.
        caps: Threshold of each variable: the value, or numerator and denominator.
        capped_control: Units of the control with a value above its cap.
        capped_treatment: Units of the treatment with a value above its cap.
    """

    effect: Effect
    uncapped: Effect
    caps: tuple[float, ...]
    capped_control: int
    capped_treatment: int


def threshold(*variants: ArrayLike, level: float = 0.99) -> float:
    """Percentile of all variants together, interpolated linearly (type 7).

    One threshold for all: a cap of each variant's own would undo part of the effect
    (Kohavi, Tang and Xu 2020, chapter 19).

    Args:
        variants: One array per variant, one value per exposed unit.
        level: Quantile level, between 0 and 1.

    Raises:
        Refusal: `too_few_units` without any unit, `not_finite`.

    Example:
        >>> round(threshold(range(1, 51), [*range(51, 100), 1000], level=0.99), 4)
        108.01
    """
    if not 0 <= level <= 1:
        raise ValueError(f"a quantile level lies between 0 and 1, got {level}")
    values = np.concatenate([finite(variant) for variant in variants])
    if values.size == 0:
        raise Refusal("too_few_units", "a percentile needs at least one unit")
    return float(np.quantile(values, level))


def cap(values: ArrayLike, at: float) -> Floats:
    """Values above `at` brought down to it.

    Example:
        >>> cap([1, 5, 100], 10).tolist()
        [1.0, 5.0, 10.0]
    """
    return np.minimum(finite(values), at)


def mean(
    control: ArrayLike, treatment: ArrayLike, level: float = 0.99, alpha: float = 0.05
) -> Capped:
    """Difference in means with values capped at their pooled percentile.

    Args:
        control: One value per unit of the control, zeros included.
        treatment: One value per unit of the treatment, zeros included.
        level: Percentile of the cap.
        alpha: Error rate of tests and intervals.

    Raises:
        Refusal: `zero_variance` also when the cap leaves one value only, as it does where
            fewer units than 1 − level are above zero; `too_few_units`, `not_finite`.

    Example:
        >>> r = mean([1, 2, 3, 4], [2, 3, 4, 500], level=0.8)
        >>> r.uncapped.difference, r.caps, r.effect.difference, r.capped_treatment
        (124.75, (4.0,), 0.75, 1)
    """
    arms = [[finite(control)], [finite(treatment)]]
    capped, caps, counts = _cap_all(arms, level)
    raw = [Moments.of(*arm) for arm in arms]
    uncapped = means.welch(raw[0], raw[1], alpha)
    effect = means.welch(capped[0], capped[1], alpha)
    return Capped(effect, uncapped, caps, counts[0], counts[1])


def ratio(
    control: tuple[ArrayLike, ArrayLike],
    treatment: tuple[ArrayLike, ArrayLike],
    level: float = 0.99,
    alpha: float = 0.05,
) -> Capped:
    """Difference of ratios, numerator and denominator capped at a percentile each.

    Both percentiles are over the same population, every exposed unit of both variants with
    its zeros. A threshold of the denominator over those above zero only breaks the ratio.

    Args:
        control: Numerator and denominator per unit of the control.
        treatment: Numerator and denominator per unit of the treatment.
        level: Percentile of the caps.
        alpha: Error rate of tests and intervals.

    Raises:
        Refusal: `zero_denominator`, `zero_variance`, `too_few_units`, `not_finite`.

    Example:
        >>> control = ([20, 0, 40, 10], [1, 0, 2, 1])
        >>> r = ratio(control, ([40, 0, 20, 2000], [2, 0, 1, 100]), level=0.8)
        >>> r.caps, r.effect.treatment, r.capped_treatment
        ((40.0, 2.0), 20.0, 1)
    """
    arms = [[finite(column) for column in arm] for arm in (control, treatment)]
    capped, caps, counts = _cap_all(arms, level)
    raw = [Moments.of(*arm) for arm in arms]
    uncapped = ratios.delta(raw[0], raw[1], alpha)
    effect = ratios.delta(capped[0], capped[1], alpha)
    return Capped(effect, uncapped, caps, counts[0], counts[1])


def _cap_all(
    arms: Sequence[Sequence[Floats]], level: float
) -> tuple[list[Moments], tuple[float, ...], list[int]]:
    caps = tuple(threshold(*columns, level=level) for columns in zip(*arms, strict=True))
    cut = [[cap(column, at) for column, at in zip(arm, caps, strict=True)] for arm in arms]
    above = [[column > at for column, at in zip(arm, caps, strict=True)] for arm in arms]
    counts = [int(np.any(flags, axis=0).sum()) for flags in above]
    return [Moments.of(*columns) for columns in cut], caps, counts
