"""Before the test: units needed, power, smallest detectable effect.

Everything is per unit of randomisation. `sd` is the standard deviation of the metric between
units, whether of a mean, a ratio or a quantile.

`inference/outlook.py` takes effects of standard errors from it, `time/peeking.py` the days still
needed; sizes of samples are for your own numbers (docs/statistics.md).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy.special import ndtr, ndtri

from abeval.stats.distributions import brentq, check_alpha, two_sided_quantile
from abeval.stats.records import Refusal


class Size(NamedTuple):
    """Units needed, not rounded.

    Attributes:
        control: Units of the control.
        treatment: Units of the treatment.
    """

    control: float
    treatment: float


def with_cuped(sd: float, variance_removed: float) -> float:
    """Standard deviation once CUPED has taken out a share of the variance.

    Example:
        >>> with_cuped(2.0, 0.75)
        1.0
    """
    if not variance_removed < 1:
        raise ValueError(f"CUPED removes less than all of the variance, got {variance_removed}")
    return sd * math.sqrt(1 - variance_removed)


def always_valid_critical(alpha: float = 0.05) -> float:
    """Critical value of an asymptotic confidence sequence at the size it is tuned for.

    In place of z for planning a test that may be looked at any day (Waudby-Smith, Arbour,
    Sinha, Kennedy and Ramdas 2024).

    Example:
        >>> round(always_valid_critical(), 4)
        3.0352
    """
    check_alpha(alpha)
    k = -2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)
    return math.sqrt(2 * (k + 1) / k * math.log(math.sqrt(k + 1) / alpha))


def critical_value(alpha: float, critical: float | None = None) -> float:
    """`critical`, or without it the two-sided z of `alpha`.

    Example:
        >>> round(critical_value(0.05), 4), critical_value(0.05, 3.0)
        (1.96, 3.0)
    """
    return two_sided_quantile(alpha) if critical is None else critical


def power_quantile(power: float) -> float:
    """Normal quantile of the wanted power.

    Example:
        >>> round(power_quantile(0.8), 4)
        0.8416
    """
    if not 0 < power < 1:
        raise ValueError(f"power must be between 0 and 1, got {power}")
    return float(ndtri(power))


def sample_size(
    sd: float,
    effect: float,
    alpha: float = 0.05,
    power: float = 0.8,
    ratio: float = 1.0,
    critical: float | None = None,
    sd_treatment: float | None = None,
) -> Size:
    """Units for a difference in means, ratios or quantiles, by the normal approximation.

    n = (z_{α/2} + z_β)²·(σc² + σt²/r)/δ² in control, less what the far tail adds to power.

    Args:
        sd: Standard deviation between units of the control.
        effect: Difference to detect, in the metric's unit. For non-inferiority, the true
            difference plus the margin, with `critical` the one-sided quantile.
        alpha: Two-sided error rate.
        power: Wanted probability of detection.
        ratio: Units of treatment per unit of control.
        critical: Critical value in place of z: `always_valid_critical`, or the last bound
            of a group-sequential plan.
        sd_treatment: Standard deviation in treatment, where it differs.

    Raises:
        Refusal: `not_applicable` for an effect of zero, `zero_variance`.

    Example:
        >>> round(sample_size(sd=2.0, effect=0.1).control, 2)
        6279.09
    """
    _check(sd, effect, ratio)
    other = sd if sd_treatment is None else sd_treatment
    reach = _reach(critical_value(alpha, critical), power)
    control = reach**2 * (sd * sd + other * other / ratio) / effect**2
    return Size(control, control * ratio)


def power_of(
    sd: float,
    effect: float,
    control: float,
    treatment: float,
    alpha: float = 0.05,
    critical: float | None = None,
) -> float:
    """Probability of a significant result, both tails, by the normal approximation.

    Args:
        sd: Standard deviation between units.
        effect: True difference, in the metric's unit; zero gives the error rate.
        control: Units of the control.
        treatment: Units of the treatment.
        alpha: Two-sided error rate.
        critical: Critical value in place of z.

    Raises:
        Refusal: `zero_variance`, `too_few_units`.

    Example:
        >>> round(power_of(2.0, 0.1, 5000, 5000), 4)
        0.7054
    """
    return power_from_se(_se(sd, control, treatment), effect, alpha, critical)


def power_from_se(
    se: float, effect: float, alpha: float = 0.05, critical: float | None = None
) -> float:
    """As `power_of`, from the standard error of the difference.

    Example:
        >>> round(power_from_se(0.01, 0.028), 3)
        0.8
    """
    if not se > 0:
        raise Refusal("zero_variance", "the standard error must be positive")
    shift, z = abs(effect) / se, critical_value(alpha, critical)
    return float(ndtr(shift - z) + ndtr(-shift - z))


def mde(
    sd: float,
    control: float,
    treatment: float,
    alpha: float = 0.05,
    power: float = 0.8,
    critical: float | None = None,
) -> float:
    """Smallest difference detected with the wanted power, in the metric's unit.

    Example:
        >>> round(mde(2.0, 5000, 5000), 5)
        0.11206
    """
    return _reach(critical_value(alpha, critical), power) * _se(sd, control, treatment)


def mde_from_se(
    se: float, alpha: float = 0.05, power: float = 0.8, critical: float | None = None
) -> float:
    """Smallest difference detected with the wanted power, from the observed standard error.

    (z_{1−α/2} + z_power)·se, the figure a report prints; `mde` also counts detections with
    the wrong sign, which changes the sixth digit.

    Example:
        >>> round(mde_from_se(0.01), 6)
        0.028016
    """
    if not 0 <= se < math.inf:
        raise Refusal("not_finite", "the standard error must be finite and not negative")
    return (critical_value(alpha, critical) + power_quantile(power)) * se


def _reach(critical: float, power: float) -> float:
    """Effect in standard errors at which |Z| passes the critical value with that power."""
    if not 2 * ndtr(-critical) < power < 1:
        raise ValueError(f"power must lie between the error rate and 1, got {power}")

    def lacking(shift: float) -> float:
        return float(ndtr(shift - critical) + ndtr(-shift - critical)) - power

    return _positive_root(lacking)


def _se(sd: float, control: float, treatment: float) -> float:
    if not min(control, treatment) > 0:
        raise Refusal("too_few_units", "both variants need units")
    if not 0 < sd < math.inf:
        raise Refusal("zero_variance", "the metric does not vary: nothing to plan with")
    return sd * math.sqrt(1 / control + 1 / treatment)


def _check(sd: float, effect: float, ratio: float) -> None:
    if not 0 < sd < math.inf:
        raise Refusal("zero_variance", "the metric does not vary: nothing to plan with")
    if effect == 0 or not math.isfinite(effect):
        raise Refusal("not_applicable", "no number of units detects an effect of zero")
    if not ratio > 0:
        raise ValueError(f"units of treatment per unit of control must be positive, got {ratio}")


def _positive_root(increasing: Callable[[float], float]) -> float:
    high = 1.0
    while increasing(high) < 0:
        high *= 2
    return brentq(increasing, 0, high, xtol=1e-14, rtol=1e-14)
