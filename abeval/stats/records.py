"""Define records, array types and the refusal that all statistics share."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

RefusalReason = Literal[
    "too_few_units",
    "zero_variance",
    "tied_quantile",
    "control_near_zero",
    "not_finite",
    "zero_denominator",
    "inconsistent",
    "not_applicable",
    "before_first_look",
    "invalid_propensity",
    "unsupported_by_logging",
    "weights_not_one",
    "too_few_rewards",
    "model_error_unknown",
]


class Refusal(ValueError):  # noqa: N818 (an expected answer, not an error)
    """A number that cannot be computed; `reason` is a stable code.

    Example:
        >>> raise Refusal("too_few_units", "a variance needs at least two units, got 1")
        Traceback (most recent call last):
        abeval.stats.records.Refusal: a variance needs at least two units, got 1
    """

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason


class Interval(NamedTuple):
    """A confidence interval; its ends may be infinite, never NaN."""

    low: float
    high: float


class Estimate(NamedTuple):
    """One variant's value of a metric, in its own unit.

    `variance` is the squared standard error. It has `df` degrees of freedom, infinite for a z-test.
    `units` counts units of randomisation.
    """

    value: float
    variance: float
    units: int
    df: float


class Effect(NamedTuple):
    """Difference of treatment and control, on the metric's own scale.

    Its interval and p-value are from t with `df` degrees of freedom, infinite for z; they are
    two-sided unless the function says otherwise. `statistic` is `difference / se`. `method` is an
    id such as `welch_t`.
    """

    control: float
    treatment: float
    difference: float
    se: float
    df: float
    low: float
    high: float
    statistic: float
    p_value: float
    method: str


class Lift(NamedTuple):
    """Relative effect, treatment / control − 1, as a fraction: 0.02 is +2 %.

    The ends of its interval are infinite if it is not `bounded`.
    """

    value: float
    low: float
    high: float
    bounded: bool
    method: str


class Adjusted(NamedTuple):
    """An effect with variance reduction.

    Attributes:
        theta: Coefficient of each covariate; empty for post-stratification.
        variance_removed: Share of the variance of the difference that the adjustment removed;
            may be negative.
        control: Denominator of a relative effect: as observed for CUPED and regression,
            post-stratified for post-stratification. `treatment` is computed in the same way.
        covariance: Covariance of `effect.difference` and `control.value`.
    """

    effect: Effect
    theta: tuple[float, ...]
    variance_removed: float
    control: Estimate
    treatment: Estimate
    covariance: float


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


def check_finite(
    values: ArrayLike, message: str = "an infinite or missing value; drop it or fill it first"
) -> Floats:
    """Return values as doubles, of the same shape.

    Refusals: `not_finite` for an infinite or missing value, with this message.

    Example:
        >>> check_finite([1, 2]).tolist()
        [1.0, 2.0]
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise Refusal("not_finite", message)
    return array
