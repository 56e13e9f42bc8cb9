"""Simpson's paradox: when the mix of segments, not the effect in them, moves the total.

`inference/segments.py` hands over values and sizes of the cells of a segment, for the tests of
segments in a result.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.records import Effect, Floats, Refusal


class MixShift(NamedTuple):
    """An overall difference taken apart: `difference = within + mix`.

    Attributes:
        difference: Overall difference.
        within: Part due to the segments' own differences, at the average mix.
        mix: Part due to the different mixes of the variants.
        mix_p_value: Test that the mix of segments is the same in both variants.
        shares: Average share of each segment, which weighs its difference in `within`.
    """

    difference: float
    within: float
    mix: float
    mix_p_value: float
    shares: tuple[float, ...]


def mix_shift(
    control: ArrayLike,
    treatment: ArrayLike,
    control_weights: ArrayLike,
    treatment_weights: ArrayLike,
    control_units: ArrayLike,
    treatment_units: ArrayLike,
) -> MixShift:
    """Take an overall difference apart into effects within segments and a shift of their mix.

    Args:
        control: Values per segment in control, shape (segments,).
        treatment: Values in treatment.
        control_weights: What the segments weigh in control's overall value: units for a mean,
            denominators for a ratio, shape (segments,).
        treatment_weights: The same in treatment.
        control_units: Units per segment in control, for the test of the mix.
        treatment_units: Units per segment in treatment.

    Returns:
        Overall difference, its two parts, and the test of the mix.

    Raises:
        Refusal: `too_few_units` for a variant without weight; `not_finite`; `not_applicable` for
            negative weights.

    Source:
        Kitagawa (1955); Simpson (1951).

    Example:
        >>> parts = mix_shift([0.10, 0.30], [0.12, 0.32], [90, 10], [50, 50], [90, 10], [50, 50])
        >>> round(parts.difference, 6), round(parts.within, 6), round(parts.mix, 6)
        (0.1, 0.02, 0.08)
    """
    values = np.array([control, treatment], dtype=float)
    weights = np.array([control_weights, treatment_weights], dtype=float)
    units = np.array([control_units, treatment_units], dtype=float)
    if not (np.isfinite(values).all() and np.isfinite(weights).all() and np.isfinite(units).all()):
        raise Refusal("not_finite", "values, weights and units must be finite")
    if np.any(weights < 0):
        raise Refusal("not_applicable", "the weight of a segment must not be negative")
    if np.any(weights.sum(axis=1) == 0):
        raise Refusal("too_few_units", "a variant has no weight")
    share = weights / weights.sum(axis=1, keepdims=True)
    average = share.mean(axis=0)
    within = float(average @ (values[1] - values[0]))
    mix = float((share[1] - share[0]) @ values.mean(axis=0))
    difference = float(share[1] @ values[1] - share[0] @ values[0])
    return MixShift(difference, within, mix, same_shares(units), tuple(average.tolist()))


def reversal(within: Effect, overall: Effect) -> float:
    """P-value that the effect within segments and the overall effect point opposite ways.

    Both have to differ from zero, with opposite signs (an intersection-union test, Berger 1982):
    without an effect, two estimates have opposite signs by chance.

    Args:
        within: Effect within segments, such as `MixShift.within` with its standard error.
        overall: Effect of all units together.

    Returns:
        The larger of the two p-values; 1 where the signs agree.

    Example:
        >>> from abeval.stats.effects import from_difference
        >>> within, overall = from_difference(0, 1, 1, 0.4), from_difference(0, -1, -1, 0.3)
        >>> round(reversal(within, overall), 4), reversal(within, within)
        (0.0124, 1.0)
    """
    if within.difference * overall.difference >= 0:
        return 1.0
    return max(within.p_value, overall.p_value)


def same_shares(units: Floats) -> float:
    """P-value that two variants spread over segments alike.

    Args:
        units: Counts, shape (2, segments).

    Returns:
        Pearson's chi-square p-value, without Yates; 1 where only one segment has units.

    Raises:
        Refusal: `too_few_units` for a variant without units.

    Source:
        Pearson (1900).

    Example:
        >>> same_shares(np.array([[50.0, 50.0], [50.0, 50.0]]))
        1.0
    """
    kept = units[:, units.sum(axis=0) > 0]
    if kept.shape[1] < 2:
        return 1.0
    if np.any(kept.sum(axis=1) == 0):
        raise Refusal("too_few_units", "a variant has no units")
    expected = kept.sum(axis=1, keepdims=True) * kept.sum(axis=0) / kept.sum()
    statistic = float(np.sum((kept - expected) ** 2 / expected))
    return float(special.chdtrc(kept.shape[1] - 1, statistic))
