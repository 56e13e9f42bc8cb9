"""Plan a test: power, smallest detectable effect, days."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Floats, Refusal


def power_quantile(power: float) -> float:
    """Return the normal quantile of the wanted power."""
    if not 0 < power < 1:
        raise ValueError(f"power must be between 0 and 1, got {power}")
    return float(ndtri(power))


def compute_mde(se: float, power: float = 0.8, critical: float | None = None) -> float:
    """Return the smallest difference detected with a power, (critical + z_power)·se.

    The test rejects from |z| = `critical` on; without it, at 5 %.

    Example:
        >>> round(compute_mde(0.01), 6)
        0.028016
    """
    if not 0 <= se < math.inf:
        raise Refusal("not_finite", "the standard error must be finite and not negative")
    reject = two_sided_quantile(0.05) if critical is None else critical
    return (reject + power_quantile(power)) * se


WEEK = 7


def predict_information(information: Sequence[float], days: float) -> float:
    """Predict the information, 1 / se², after a number of days.

    The variance falls as in the last week, as a + b / days. Differences between returning units
    stay (a); differences between their visits average out (b). Fewer days than a week cannot
    separate the two. Then information grows as a power of time, as in `predict_total`, with the
    same refusals.

    Example:
        >>> week = [1 / (0.1 + 0.9 / day) for day in range(1, 8)]
        >>> round(1 / predict_information(week, 90), 6)
        0.11
    """
    if len(information) < WEEK:
        return predict_total(information, days)
    falls = max(_fit_variance_fall(information), 0.0)
    return float(1 / (1 / information[-1] - falls * (1 / len(information) - 1 / days)))


def predict_total(values: Sequence[float], days: float) -> float:
    """Predict a growing total after a number of days.

    Within the observed days it is the total observed by the end of the day. After them it grows as
    in the last week, as a power of time that is at most linear. Refusals: `too_few_units` to go
    beyond a single day; `not_applicable` for a value of zero.

    Example:
        >>> values = [100.0, 200.0, 300.0]
        >>> predict_total(values, 2), round(predict_total(values, 6), 6)
        (200.0, 600.0)
    """
    if days <= len(values):
        return float(values[max(math.ceil(days), 1) - 1])
    return float(values[-1] * (days / len(values)) ** _fit_growth_exponent(values))


def _fit_growth_exponent(values: Sequence[float]) -> float:
    """Return the exponent of growth in the last week, value ~ day^b; at most 1."""
    if len(values) < 2:
        raise Refusal("too_few_units", "growth needs at least two days")
    days, last = _last_week(values)
    return min(float(np.polyfit(np.log(days), np.log(last), 1)[0]), 1.0)


def _fit_variance_fall(information: Sequence[float]) -> float:
    """Return b of the last week's variance, a + b / days with a ≥ 0."""
    days, last = _last_week(information)
    slope = float(np.polyfit(1 / days, 1 / last, 1)[0])
    return min(slope, len(information) / float(last[-1]))


def _last_week(values: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the numbers of the last days, and their values."""
    last = np.asarray(values, dtype=np.float64)[-WEEK:]
    if not last.min() > 0:
        raise Refusal("not_applicable", "no units on some of the last days")
    return np.arange(1.0, len(values) + 1)[-WEEK:], last
