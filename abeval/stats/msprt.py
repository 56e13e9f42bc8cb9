"""The mixture sequential probability ratio test, always valid where its tau is fixed before."""

import math
from typing import Literal, NamedTuple

from abeval.stats.distributions import check_alpha, two_sided_quantile
from abeval.stats.records import Refusal


class MixtureSPRT(NamedTuple):
    """A mixture sequential probability ratio test.

    Attributes:
        log_likelihood_ratio: Natural logarithm of the mixture likelihood ratio.
        z: Critical value: the interval's half-width in standard errors.
        low: Lower end of the interval.
        high: Upper end.
        p_value: `min(1, 1 / ratio)`.
    """

    log_likelihood_ratio: float
    z: float
    low: float
    high: float
    p_value: float


def msprt(
    difference: float,
    se: float,
    tau: float,
    alpha: float = 0.05,
    convention: Literal["johari", "statsig"] = "johari",
) -> MixtureSPRT:
    """Mixture SPRT of a zero effect against effects drawn from N(0, tau).

    Args:
        difference: Estimated effect.
        se: Its standard error.
        tau: Variance of the mixing distribution, fixed before the data are seen.
        alpha: Two-sided level.
        convention: `johari`: interval dual to the p-value; `statsig`: alpha / 2 in the logarithm,
            wider.

    Returns:
        Log likelihood ratio, critical value, interval and always-valid p-value of this look.

    Raises:
        Refusal: `zero_variance`; `not_finite`; `not_applicable` for a tau that is not positive.

    Source:
        Johari, Koomen, Pekelis & Walsh (Operations Research 2022); Zhao et al. (arXiv:1905.10493).

    Example:
        >>> round(msprt(0.08, 0.0296, tau=0.001686).p_value, 4)
        0.1546
    """
    if not all(map(math.isfinite, (difference, se, tau))):
        raise Refusal("not_finite", "a look needs finite numbers")
    if se <= 0:
        raise Refusal("zero_variance", "a look needs a positive standard error")
    if tau <= 0:
        raise Refusal("not_applicable", "the mixing variance must be positive")
    check_alpha(alpha)
    variance = se**2
    shrink = -math.log1p(tau / variance)
    log_ratio = shrink / 2 + tau * (difference / se) ** 2 / (2 * (variance + tau))
    level = alpha / 2 if convention == "statsig" else alpha
    z = math.sqrt((variance + tau) / tau * (-2 * math.log(level) - shrink))
    width = z * se
    return MixtureSPRT(
        log_ratio, z, difference - width, difference + width, math.exp(-max(0.0, log_ratio))
    )


def statsig_tau(
    control_variance: float,
    treatment_variance: float,
    control_units: int,
    treatment_units: int,
    alpha: float = 0.05,
) -> float:
    """Mixing variance as Statsig documents it; it depends on the units of the day it is taken.

    Args:
        control_variance: Sample variance of the metric in control.
        treatment_variance: Sample variance in treatment.
        control_units: Units in control.
        treatment_units: Units in treatment.
        alpha: Two-sided level.

    Returns:
        `z^2 (s_c^2 + s_t^2) / (n_c + n_t)`.

    Source:
        Statsig documentation, "Sequential testing".

    Example:
        >>> round(statsig_tau(4.0, 5.0, 10_000, 10_500), 6)
        0.001686
    """
    if control_units + treatment_units < 1:
        raise Refusal("too_few_units", "a mixing variance needs units")
    spread = (control_variance + treatment_variance) / (control_units + treatment_units)
    return two_sided_quantile(alpha) ** 2 * spread
