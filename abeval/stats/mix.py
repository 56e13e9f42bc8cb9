"""A difference of two ratios of sums, split into what changed within parts and what their mix did.

The parts are parts of the sums, not of the units: a unit has impressions in several scenes, and a
variant moves how many. So each variant's sums over the parts have one covariance between units, and
both parts of the difference get their variance by the delta method from all sums together.

`aggregates/cuts.py` takes the gradients, which the engine applies to each unit's sums;
`inference/cuts.py` the parts and their intervals.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Floats, Refusal


class Totals(NamedTuple):
    """The sums of one variant in each part.

    Attributes:
        numerator: Σ numerator, shape (parts,).
        denominator: Σ denominator, shape (parts,), not negative.
    """

    numerator: ArrayLike
    denominator: ArrayLike


class Parts(NamedTuple):
    """An overall difference taken apart: `difference = within + mix`."""

    difference: float
    within: float
    mix: float


class Gradient(NamedTuple):
    """How one part of the difference follows from one variant's sums.

    A unit's sums times these add up to its influence: over the units of the variant its mean is 0,
    and its variance over their number is what the variant adds to the variance of the part.

    Attributes:
        numerator: By the mean of the numerator per unit, shape (parts,).
        denominator: By the mean of the denominator per unit, shape (parts,).
    """

    numerator: Floats
    denominator: Floats


class Gradients(NamedTuple):
    """The gradients of both parts of the difference by one variant's sums."""

    within: Gradient
    mix: Gradient


class _Arm(NamedTuple):
    """Ratio, ratios and shares of one variant, of sums per unit."""

    denominator: Floats
    ratio: float
    ratios: Floats
    shares: Floats


def parts(control: Totals, treatment: Totals) -> Parts:
    """Split a difference of ratios, each part as the mean over both orders of changing the two.

    `within` weighs each part's difference by its mean share of the denominator; `mix` weighs each
    part's change of share by its mean ratio. What only one variant has is mix alone.

    Args:
        control: Sums of control.
        treatment: Sums of the treatment, in the same parts.

    Raises:
        Refusal: `zero_denominator`; `not_finite`; `not_applicable` for a negative denominator.

    Source:
        Kitagawa (1955), Das Gupta (1978).

    Example:
        >>> control, treatment = Totals([5, 10], [50, 50]), Totals([10, 6], [80, 30])
        >>> [round(value, 6) for value in parts(control, treatment)]
        [-0.004545, 0.015341, -0.019886]
    """
    c, t = _arms(control, treatment)
    within = float((c.shares + t.shares) @ (t.ratios - c.ratios)) / 2
    mix = float((t.shares - c.shares) @ (t.ratios + c.ratios)) / 2
    return Parts(t.ratio - c.ratio, within, mix)


def ratios(control: Totals, treatment: Totals) -> tuple[float, float]:
    """The ratio of each variant over all parts.

    Raises:
        Refusal: As `parts`.

    Example:
        >>> ratios(Totals([5, 10], [50, 50]), Totals([10, 12], [80, 30]))
        (0.15, 0.2)
    """
    c, t = _arms(control, treatment)
    return c.ratio, t.ratio


def gradients(
    control: Totals, treatment: Totals, units: tuple[int, int]
) -> tuple[Gradients, Gradients]:
    """The derivatives of both parts by control's and by treatment's sums per unit.

    Args:
        control: Sums of control.
        treatment: Sums of the treatment, in the same parts.
        units: Units of each variant.

    Raises:
        Refusal: As `parts`.

    Example:
        >>> first, _ = gradients(Totals([5], [50]), Totals([9], [60]), (10, 10))
        >>> first.within.numerator.tolist(), first.mix.numerator.tolist()
        ([-0.2], [0.0])
    """
    c, t = _arms(control, treatment)
    # What only one variant has adds nothing within, whatever its ratio.
    both = (c.denominator > 0) & (t.denominator > 0)
    share, change = np.where(both, c.shares + t.shares, 0.0) / 2, t.ratios - c.ratios
    return (
        _gradients(c, -1, share, change, units[0]),
        _gradients(t, 1, share, change, units[1]),
    )


def _gradients(arm: _Arm, sign: int, share: Floats, change: Floats, units: int) -> Gradients:
    below, whole = arm.denominator / units, float(arm.denominator.sum()) / units
    weight = np.divide(sign * share, below, out=np.zeros_like(below), where=below > 0)
    moved = (change - arm.shares @ change) / (2 * whole)
    within = Gradient(weight, moved - weight * arm.ratios)
    total = np.full(below.shape, sign / whole)
    return Gradients(
        within,
        Gradient(
            total - within.numerator,
            -total * arm.ratio - within.denominator,
        ),
    )


def _arms(control: Totals, treatment: Totals) -> tuple[_Arm, _Arm]:
    above, below = (
        np.array([one, other], dtype=float) for one, other in zip(control, treatment, strict=True)
    )
    if not (np.isfinite(above).all() and np.isfinite(below).all()):
        raise Refusal("not_finite", "sums must be finite")
    if np.any(below < 0):
        raise Refusal("not_applicable", "the denominator of a part must not be negative")
    whole = below.sum(axis=1)
    if np.any(whole == 0):
        raise Refusal("zero_denominator", "a variant has no denominator")
    ratios = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    # What only one variant has did not change within: its ratio counts for both.
    ratios = np.where(below > 0, ratios, ratios[::-1])
    values = above.sum(axis=1) / whole
    shares = below / whole[:, None]
    return (
        _Arm(below[0], float(values[0]), ratios[0], shares[0]),
        _Arm(below[1], float(values[1]), ratios[1], shares[1]),
    )


def effect(
    value: float, control: Moments, treatment: Moments, alpha: float = 0.05, method: str = "delta_t"
) -> Effect:
    """A part of the difference with its interval and test, clustered by unit.

    Args:
        value: The part, such as `Parts.within`.
        control: Moments of the influence of control's units: sums times `Gradients`.
        treatment: The same of the treatment.
        alpha: Level of the interval and the test.
        method: Id recorded in the effect.

    Raises:
        Refusal: `too_few_units`; `zero_variance` where the part does not vary.

    Example:
        >>> e = effect(0.1, Moments.of([1, -1, 1, -1]), Moments.of([2, -2, 2, -2]))
        >>> round(e.se, 4), round(e.df, 2)
        (1.291, 4.41)
    """
    variances = [float(one.covariance[0, 0]) / one.n for one in (control, treatment)]
    if sum(variances) == 0:
        raise Refusal("zero_variance", "the part does not vary")
    df = effects.satterthwaite(variances, [control.df, treatment.df])
    return effects.from_difference(0.0, value, value, sum(variances) ** 0.5, df, alpha, method)
