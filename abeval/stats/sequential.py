"""Looking while the experiment runs: always-valid inference and planned group-sequential looks.

The clock is information, not the count of units, which stalls when units return. A look's
information is `(scale / se)^2`: scale 1 for what is estimated on a fixed scale (ratios,
proportions), and the pooled mean so far for totals per unit, which grow while units return so
that 1/se^2 by itself would run backwards. With it the z statistics of successive looks correlate
as sqrt(I_j / I_k), which every method here relies on.

With a plan, `confidence_sequence` is tightest at the planned information. Without one,
`from_start` needs only where the looks began: its boundary rises with the logarithm of the
information gathered since, and never ends.

`inference/looks.py` hands over one look (the effect of an analysis), `time/peeking.py` all daily
looks.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.distributions import check_alpha
from abeval.stats.records import Floats, Interval, Refusal


class AlwaysValid(NamedTuple):
    """One look at an always-valid test.

    Attributes:
        low: Lower end of the confidence sequence.
        high: Upper end.
        p_value: Always-valid p-value of this look; at most alpha iff 0 is outside the interval.
        log10_p_value: Its base-10 logarithm, finite where `p_value` underflows.
    """

    low: float
    high: float
    p_value: float
    log10_p_value: float


class AlwaysValidPath(NamedTuple):
    """All looks so far.

    Attributes:
        looks: One per look, each by itself valid.
        p_values: Running minimum of the p-values.
        running: Intersection of the intervals so far; the last interval where the
            intersection is empty.
        drifted: Whether the intersection is empty: the effect changed while being measured.
    """

    looks: tuple[AlwaysValid, ...]
    p_values: tuple[float, ...]
    running: Interval
    drifted: bool


def information(ses: ArrayLike, scale: ArrayLike = 1.0) -> Floats:
    """Information of looks, `(scale / se)^2`.

    Args:
        ses: Standard errors of the difference, shape (looks,) or a number.
        scale: 1, or for totals per unit the metric's pooled mean at each look.

    Returns:
        Shape (looks,).

    Raises:
        Refusal: `zero_variance` for a standard error of zero; `not_finite`;
            `control_near_zero` for a scale of zero.

    Source:
        Jennison & Turnbull (1999), chapter 11 (information-based monitoring).

    Example:
        >>> information([0.5, 0.25]).tolist()
        [4.0, 16.0]
    """
    errors = np.atleast_1d(np.asarray(ses, dtype=float))
    units = np.broadcast_to(np.asarray(scale, dtype=float), errors.shape)
    if not (np.isfinite(errors).all() and np.isfinite(units).all()):
        raise Refusal("not_finite", "standard errors and scales must be finite")
    if np.any(errors <= 0):
        raise Refusal("zero_variance", "a look needs a positive standard error")
    if np.any(units == 0):
        raise Refusal("control_near_zero", "a mean of zero cannot be the scale of information")
    return np.asarray((units / errors) ** 2)


def tuning(alpha: float, planned: float) -> float:
    """Mixture parameter rho that makes the sequence tightest at `planned`.

    Args:
        alpha: Two-sided level.
        planned: Units or information planned for the end.

    Returns:
        rho, in one over the square root of the unit of `planned`.

    Source:
        Waudby-Smith et al. (arXiv:2103.06476), equation 161.

    Example:
        >>> round(tuning(0.05, 5000), 6)
        0.03984
    """
    check_alpha(alpha)
    if not planned > 0:
        raise Refusal("too_few_units", "the planned size must be positive")
    return math.sqrt((-2 * math.log(alpha) + math.log1p(-2 * math.log(alpha))) / planned)


def confidence_sequence(
    difference: float, se: float, fraction: float, alpha: float = 0.05
) -> AlwaysValid:
    """Asymptotic confidence sequence and always-valid p-value at one look.

    Args:
        difference: Estimated effect.
        se: Its standard error.
        fraction: Information now over information planned, positive; may pass 1. The plan must
            not depend on the effect seen. On a count clock, units now over units planned.
        alpha: Two-sided level.

    Returns:
        The interval, in the unit of `difference`, and the p-value.

    Raises:
        Refusal: `zero_variance`; `not_finite`; `too_few_units` for a fraction that is not
            positive.

    Source:
        Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (Annals of Statistics 2024;
        arXiv:2103.06476), equations 9 and 155.

    Example:
        >>> look = confidence_sequence(0.05, 0.009, fraction=4.0)
        >>> round(look.low, 6), round(look.high, 6)
        (0.021856, 0.078144)
    """
    if not all(map(math.isfinite, (difference, se, fraction))):
        raise Refusal("not_finite", "a look needs finite numbers")
    if se <= 0:
        raise Refusal("zero_variance", "a look needs a positive standard error")
    if fraction <= 0:
        raise Refusal("too_few_units", "a look needs information")
    return _looks(np.array([difference]), np.array([se]), np.array([fraction]), alpha)[0]


def from_start(difference: float, se: float, growth: float, alpha: float = 0.05) -> AlwaysValid:
    """Confidence sequence and always-valid p-value at one look, without a plan.

    |z| crosses sqrt(a² + ln growth) at some look with probability alpha, where a² is the upper
    alpha quantile of chi-square with 3 degrees of freedom: 2.80 at the start, 3.52 at 100 times
    its information, 4.13 at 10,000 times.

    Args:
        difference: Estimated effect.
        se: Its standard error.
        growth: Information now over information where the looks began, at least 1. Where they
            began must not depend on the effect.
        alpha: Two-sided level over all looks from the start on.

    Returns:
        The interval, in the unit of `difference`, and the p-value.

    Raises:
        Refusal: `before_first_look` for a growth below 1; `zero_variance`; `not_finite`.

    Source:
        Robbins (Annals of Mathematical Statistics 1970), section 3, as the delayed start of
        Waudby-Smith et al. (arXiv:2103.06476) and Bibaut, Kallus & Lindon (arXiv:2212.14411).

    Example:
        >>> look = from_start(0.05, 0.009, growth=100.0)
        >>> round(look.low, 6), round(look.high, 6), round(look.p_value, 6)
        (0.018282, 0.081718, 8e-06)
    """
    if not all(map(math.isfinite, (difference, se, growth))):
        raise Refusal("not_finite", "a look needs finite numbers")
    if growth < 1:
        raise Refusal("before_first_look", "there is less information than at the first look")
    if se <= 0:
        raise Refusal("zero_variance", "a look needs a positive standard error")
    return _looks_from_start(np.array([difference]), np.array([se]), np.array([growth]), alpha)[0]


def critical_from_start(growth: float, alpha: float = 0.05) -> float:
    """Critical value of |z| of `from_start`.

    Example:
        >>> [round(critical_from_start(growth), 3) for growth in (1, 100, 10_000)]
        [2.795, 3.524, 4.126]
    """
    check_alpha(alpha)
    return math.sqrt(float(special.chdtri(3, alpha)) + math.log(growth))


def critical_of_sequence(fraction: float, alpha: float = 0.05) -> float:
    """Critical value of |z| of `confidence_sequence`.

    Example:
        >>> [round(critical_of_sequence(fraction), 3) for fraction in (0.25, 1, 4)]
        [3.264, 3.035, 3.127]
    """
    check_alpha(alpha)
    clock = tuning(alpha, 1.0) ** 2 * fraction
    return math.sqrt(2 * (clock + 1) / clock * (0.5 * math.log1p(clock) - math.log(alpha)))


def always_valid(
    differences: ArrayLike,
    ses: ArrayLike,
    planned_information: float,
    alpha: float = 0.05,
    scale: ArrayLike = 1.0,
) -> AlwaysValidPath:
    """Follow an effect over any number of looks at any times.

    It is asymptotic: start once each variant has some hundred units. A clock that would run
    backwards stands still.

    Args:
        differences: Effect at every look, shape (looks,).
        ses: Standard errors, shape (looks,).
        planned_information: Information expected at the end, in the unit of `information`; the
            interval is tightest there. It must not depend on the effects.
        alpha: Two-sided level, over all looks together.
        scale: As in `information`.

    Returns:
        Every look, the running p-values and the running interval.

    Raises:
        Refusal: As `confidence_sequence`; `not_applicable` without looks or for lengths that
            differ.

    Source:
        Waudby-Smith et al. (arXiv:2103.06476).

    Example:
        >>> path = always_valid([0.05, 0.05], [0.03, 0.01], planned_information=1 / 0.01**2)
        >>> [round(p, 6) for p in path.p_values]
        [0.715546, 4.5e-05]
    """
    effects, errors = np.atleast_1d(np.asarray(differences, float)), np.asarray(ses, float)
    errors = np.atleast_1d(errors)
    if effects.shape != errors.shape or len(effects) == 0:
        raise Refusal("not_applicable", "a path needs one standard error per look")
    clock = np.maximum.accumulate(information(errors, scale)) / planned_information
    if not np.isfinite(effects).all():
        raise Refusal("not_finite", "a look needs finite numbers")
    if not planned_information > 0:
        raise Refusal("too_few_units", "the planned information must be positive")
    return _path(_looks(effects, errors, clock, alpha))


def always_valid_from_start(
    differences: ArrayLike,
    ses: ArrayLike,
    starting_information: float,
    alpha: float = 0.05,
    scale: ArrayLike = 1.0,
) -> AlwaysValidPath:
    """Follow an effect over any number of looks at any times, without a plan.

    Args:
        differences: Effect at every look from the start on, shape (looks,).
        ses: Standard errors, shape (looks,).
        starting_information: Information at which the looks may begin, in the unit of
            `information`; it must not depend on the effects.
        alpha: Two-sided level, over all looks together.
        scale: As in `information`.

    Returns:
        As `always_valid`.

    Raises:
        Refusal: As `always_valid`; `before_first_look` if the first look has less information.

    Source:
        As `from_start`.

    Example:
        >>> path = always_valid_from_start([0.05, 0.05], [0.02, 0.01], starting_information=2_500)
        >>> [round(p, 6) for p in path.p_values]
        [0.100061, 3e-05]
    """
    effects, errors = np.atleast_1d(np.asarray(differences, float)), np.asarray(ses, float)
    errors = np.atleast_1d(errors)
    if effects.shape != errors.shape or len(effects) == 0:
        raise Refusal("not_applicable", "a path needs one standard error per look")
    if not np.isfinite(effects).all():
        raise Refusal("not_finite", "a look needs finite numbers")
    growth = np.maximum.accumulate(information(errors, scale)) / starting_information
    if growth[0] < 1:
        raise Refusal("before_first_look", "there is less information than at the first look")
    return _path(_looks_from_start(effects, errors, growth, alpha))


def _path(looks: tuple[AlwaysValid, ...]) -> AlwaysValidPath:
    running = Interval(max(x.low for x in looks), min(x.high for x in looks))
    drifted = running.low > running.high
    if drifted:
        running = Interval(looks[-1].low, looks[-1].high)
    p_values = np.minimum.accumulate([look.p_value for look in looks])
    return AlwaysValidPath(looks, tuple(p_values.tolist()), running, drifted)


def _looks(
    effects: Floats, ses: Floats, fractions: Floats, alpha: float
) -> tuple[AlwaysValid, ...]:
    clock = tuning(alpha, 1.0) ** 2 * fractions
    half_log = 0.5 * np.log1p(clock)
    width = ses * [critical_of_sequence(float(fraction), alpha) for fraction in fractions]
    log_p = np.minimum(0.0, half_log - clock / (clock + 1) * (effects / ses) ** 2 / 2)
    # Underflow to zero is the right limit; the logarithm keeps what is lost.
    with np.errstate(under="ignore"):
        p_values = np.exp(log_p)
    return _rows(effects, width, p_values, log_p)


def _looks_from_start(
    effects: Floats, ses: Floats, growth: Floats, alpha: float
) -> tuple[AlwaysValid, ...]:
    check_alpha(alpha)
    log_growth = np.log(growth)
    width = ses * np.sqrt(special.chdtri(3, alpha) + log_growth)
    a = np.sqrt(np.maximum((effects / ses) ** 2 - log_growth, 0.0))
    # The upper tail of chi-square with 3 degrees, in logarithms: 2 (Φ(−a) + a φ(a)).
    with np.errstate(divide="ignore", under="ignore"):
        density = np.log(a) - a * a / 2 - 0.5 * math.log(2 * math.pi)
        log_p = np.minimum(0.0, math.log(2) + np.logaddexp(special.log_ndtr(-a), density))
        return _rows(effects, width, np.exp(log_p), log_p)


def _rows(
    effects: Floats, width: Floats, p_values: Floats, log_p: Floats
) -> tuple[AlwaysValid, ...]:
    columns = (effects - width, effects + width, p_values, log_p / math.log(10))
    return tuple(AlwaysValid(*row) for row in zip(*(c.tolist() for c in columns), strict=True))
