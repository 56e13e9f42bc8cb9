"""Before a test of two proportions: units needed, power, smallest detectable effect.

For your own numbers (docs/statistics.md): no analysis calls it.
"""

import math

from scipy.special import ndtr

from abeval.stats.design import Size, critical_value, power_quantile
from abeval.stats.records import Refusal


def sample_size_proportion(
    control: float,
    treatment: float,
    alpha: float = 0.05,
    power: float = 0.8,
    ratio: float = 1.0,
    critical: float | None = None,
) -> Size:
    """Units to tell two proportions apart with the pooled z-test (Fleiss, Levin and Paik 2003).

    Args:
        control: Rate of the control, between 0 and 1.
        treatment: Rate of the treatment.
        alpha: Two-sided error rate.
        power: Wanted probability of detection.
        ratio: Units of treatment per unit of control.
        critical: Critical value in place of z.

    Raises:
        Refusal: `not_applicable` when the rates are equal.
        ValueError: For a rate outside 0 to 1.

    Example:
        >>> round(sample_size_proportion(0.10, 0.11).control, 2)
        14750.79
    """
    _check_rates(control, treatment)
    if treatment == control:
        raise Refusal("not_applicable", "no number of units detects an effect of zero")
    common = (control + ratio * treatment) / (1 + ratio)
    under_null = critical_value(alpha, critical) * math.sqrt(
        common * (1 - common) * (1 + 1 / ratio)
    )
    spread = control * (1 - control) + treatment * (1 - treatment) / ratio
    n = ((under_null + power_quantile(power) * math.sqrt(spread)) / (treatment - control)) ** 2
    return Size(n, n * ratio)


def power_of_proportion(
    control: float,
    treatment: float,
    control_units: float,
    treatment_units: float,
    alpha: float = 0.05,
    critical: float | None = None,
) -> float:
    """Power of the pooled z-test of two proportions, both tails.

    Example:
        >>> round(power_of_proportion(0.10, 0.11, 14751, 14751), 4)
        0.8
    """
    _check_rates(control, treatment)
    if not min(control_units, treatment_units) > 0:
        raise Refusal("too_few_units", "both variants need units")
    total = control_units + treatment_units
    common = (control * control_units + treatment * treatment_units) / total
    null = math.sqrt(common * (1 - common) * (1 / control_units + 1 / treatment_units))
    own = control * (1 - control) / control_units + treatment * (1 - treatment) / treatment_units
    if own == 0:
        raise Refusal("zero_variance", "rates of 0 and 1 do not vary")
    shift, z = abs(treatment - control), critical_value(alpha, critical) * null
    return float(ndtr((shift - z) / math.sqrt(own)) + ndtr((-shift - z) / math.sqrt(own)))


def mde_proportion(
    control: float,
    control_units: float,
    treatment_units: float,
    alpha: float = 0.05,
    power: float = 0.8,
    critical: float | None = None,
) -> float:
    """Smallest increase of a proportion detected with the wanted power.

    Raises:
        Refusal: `too_few_units` when no increase up to a rate of 1 is.

    Example:
        >>> round(mde_proportion(0.10, 14751, 14751), 4)
        0.01
    """

    def lacking(rate: float) -> float:
        units = control_units, treatment_units
        return power_of_proportion(control, rate, *units, alpha, critical) - power

    from scipy.optimize import brentq

    top = 1 - 1e-9
    _check_rates(control, top)
    if lacking(top) < 0:
        raise Refusal("too_few_units", "no increase would be detected with these units")
    return float(brentq(lacking, control, top, xtol=1e-14)) - control


def _check_rates(*rates: float) -> None:
    if not all(0 <= rate <= 1 for rate in rates):
        raise ValueError(f"rates lie between 0 and 1, got {rates}")
