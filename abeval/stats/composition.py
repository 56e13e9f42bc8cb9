"""Split a difference of ratios into changes within parts and of their mix."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects, srm
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Floats, Refusal, check_finite


class Totals(NamedTuple):
    """Sums of one variant by part, shape (parts,); denominators not negative."""

    numerator: ArrayLike
    denominator: ArrayLike


class Parts(NamedTuple):
    """An overall difference taken apart: `difference = within + mix`."""

    difference: float
    within: float
    mix: float


class _Gradient(NamedTuple):
    """Derivatives of one part of the difference by the means per unit, (parts,).

    A unit's sums, multiplied by these and added, give its influence. The influence has mean 0 over
    the units of the variant. Its variance divided by their number is the variant's share in the
    variance of the part.
    """

    numerator: Floats
    denominator: Floats


class _Gradients(NamedTuple):
    """The gradients of both parts of the difference by one variant's sums."""

    within: _Gradient
    mix: _Gradient


def parts(control: Totals, treatment: Totals) -> Parts:
    """Split a difference of ratios into changes within parts and of their mix.

    Each is the mean over both orders of changing the two. `within` weighs each part's difference by
    its mean share of the denominator; `mix` weighs each part's change of share by its mean ratio. A
    part that only one variant has counts as mix alone. Source: Kitagawa (1955), Das Gupta (1978).
    Refusals: `zero_denominator`; `not_finite`; `not_applicable` for a negative denominator.

    Example:
        >>> control, treatment = Totals([5, 10], [50, 50]), Totals([10, 6], [80, 30])
        >>> [round(value, 6) for value in parts(control, treatment)]
        [-0.004545, 0.015341, -0.019886]
    """
    _, overall, ratios, shares = _derive_ratios_and_shares(control, treatment)
    # Σ mean share · change of ratio, and Σ change of share · mean ratio.
    within = float((shares[0] + shares[1]) @ (ratios[1] - ratios[0])) / 2
    mix = float((shares[1] - shares[0]) @ (ratios[1] + ratios[0])) / 2
    return Parts(float(overall[1] - overall[0]), within, mix)


def divide_totals(control: Totals, treatment: Totals) -> tuple[float, float]:
    """Return the ratio of each variant over all parts; refuses as `parts`."""
    _, overall, _, _ = _derive_ratios_and_shares(control, treatment)
    return float(overall[0]), float(overall[1])


def gradients(
    control: Totals, treatment: Totals, units: tuple[int, int]
) -> tuple[_Gradients, _Gradients]:
    """Return the gradients of `within` and `mix` for control, then for treatment.

    They are by each cell's sums per unit; `units` are the numbers of units of both variants.

    Refusals: As `parts`.

    Example:
        >>> first, _ = gradients(Totals([5], [50]), Totals([9], [60]), (10, 10))
        >>> first.within.numerator.tolist(), first.mix.numerator.tolist()
        ([-0.2], [0.0])
    """
    below, ratio, ratios, shares = _derive_ratios_and_shares(control, treatment)
    # What only one variant has adds nothing within, whatever its ratio.
    both = np.where((below > 0).all(axis=0), shares[0] + shares[1], 0.0) / 2
    change = ratios[1] - ratios[0]

    def variant_gradients(arm: int, sign: int) -> _Gradients:
        per_unit = below[arm] / units[arm]
        mean_denominator = float(below[arm].sum()) / units[arm]
        weight = np.divide(sign * both, per_unit, out=np.zeros_like(per_unit), where=per_unit > 0)
        moved = (change - shares[arm] @ change) / (2 * mean_denominator)
        within = _Gradient(weight, moved - weight * ratios[arm])
        total = np.full(per_unit.shape, sign / mean_denominator)
        mix = _Gradient(total - within.numerator, -total * ratio[arm] - within.denominator)
        return _Gradients(within, mix)

    return variant_gradients(0, -1), variant_gradients(1, 1)


def _derive_ratios_and_shares(
    control: Totals, treatment: Totals
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return denominators, overall ratios, ratios and shares of both variants.

    The first axis of each has length 2.
    """
    above, below = (
        np.array([control_sums, treatment_sums], dtype=float)
        for control_sums, treatment_sums in zip(control, treatment, strict=True)
    )
    check_finite([above, below], "sums must be finite")
    if np.any(below < 0):
        raise Refusal("not_applicable", "the denominator of a part must not be negative")
    totals = below.sum(axis=1)
    if np.any(totals == 0):
        raise Refusal("zero_denominator", "a variant has no denominator")
    ratios = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    # What only one variant has did not change within: its ratio counts for both.
    ratios = np.where(below > 0, ratios, ratios[::-1])
    return below, above.sum(axis=1) / totals, ratios, below / totals[:, None]


def effect(value: float, control: Moments, treatment: Moments, alpha: float = 0.05) -> Effect:
    """Test a part of the difference, such as `Parts.within`, clustered by unit.

    Moments are of the influence of a variant's units: their sums times `_Gradients`. Refusals:
    `too_few_units`; `zero_variance` if the part does not vary.

    Example:
        >>> e = effect(0.1, Moments.of([1, -1, 1, -1]), Moments.of([2, -2, 2, -2]))
        >>> round(e.se, 4), round(e.df, 2)
        (1.291, 4.41)
    """
    variances = [float(arm.covariance[0, 0]) / arm.n for arm in (control, treatment)]
    if sum(variances) == 0:
        raise Refusal("zero_variance", "the part does not vary")
    df = effects.satterthwaite(variances, [control.df, treatment.df])
    return effects.effect_from_difference(
        0.0, value, value, sum(variances) ** 0.5, df, alpha, "delta_t"
    )


class MixShift(NamedTuple):
    """An overall difference taken apart, `within + mix`.

    `within` are the segments' own differences, at the average mix, and `shares` weigh them;
    `mix_p_value` tests that both variants have the same mix.
    """

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
    """Split an overall difference into effects within segments and a mix shift.

    All arrays have the shape (segments,). Weights are what segments weigh in a variant's overall
    value: units for a mean, denominators for a ratio. Units are for the test of the mix. Source:
    Kitagawa (1955); Simpson (1951). Refusals: `too_few_units` for a variant without weight;
    `not_finite`; `not_applicable` for negative weights.

    Example:
        >>> parts = mix_shift([0.10, 0.30], [0.12, 0.32], [90, 10], [50, 50], [90, 10], [50, 50])
        >>> round(parts.within, 6), round(parts.mix, 6)
        (0.02, 0.08)
    """
    values = np.array([control, treatment], dtype=float)
    weights = np.array([control_weights, treatment_weights], dtype=float)
    units = np.array([control_units, treatment_units], dtype=float)
    check_finite([values, weights, units], "values, weights and units must be finite")
    if np.any(weights < 0):
        raise Refusal("not_applicable", "the weight of a segment must not be negative")
    if np.any(weights.sum(axis=1) == 0):
        raise Refusal("too_few_units", "a variant has no weight")
    share = weights / weights.sum(axis=1, keepdims=True)
    average = share.mean(axis=0)
    within = float(average @ (values[1] - values[0]))
    mix = float((share[1] - share[0]) @ values.mean(axis=0))
    return MixShift(within, mix, compare_segment_shares(units), tuple(average.tolist()))


def reversal(within: Effect, overall: Effect) -> float:
    """Test for Simpson's paradox: opposite signs within segments and overall.

    Both effects have to differ from zero (an intersection-union test, Berger 1982), because without
    an effect two estimates have opposite signs by chance. Returns the larger of both p-values; 1 if
    the signs agree.

    Example:
        >>> from abeval.stats.effects import effect_from_difference
        >>> within = effect_from_difference(0, 1, 1, 0.4)
        >>> overall = effect_from_difference(0, -1, -1, 0.3)
        >>> round(reversal(within, overall), 4), reversal(within, within)
        (0.0124, 1.0)
    """
    if within.difference * overall.difference >= 0:
        return 1.0
    return max(within.p_value, overall.p_value)


def compare_segment_shares(units: Floats) -> float:
    """Test whether two variants have the same mix of segments, (2, segments).

    The test is Pearson's chi-square (1900), without Yates's correction. The p-value is 1 if only
    one segment has units. Refusals: `too_few_units` for a variant without units.
    """
    if np.any(units.sum(axis=1) == 0):
        raise Refusal("too_few_units", "a variant has no units")
    return srm.check_homogeneity(units).p_value
