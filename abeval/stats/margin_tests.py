"""One-sided tests of a contrast of two estimates with a margin, and two of them together.

`decisions.py` states superiority, non-inferiority and equivalence by them.
"""

import math
from typing import Literal, NamedTuple

from abeval.stats import effects
from abeval.stats.distributions import Tail, check_alpha, quantile, upper_tail
from abeval.stats.effects import satterthwaite, total_variance
from abeval.stats.records import Estimate, Refusal

Direction = Literal["increase", "decrease"]


class Decision(NamedTuple):
    """A one-sided test and its answer.

    Attributes:
        passed: Whether the claim is proven at `alpha`.
        p_value: One-sided p-value of the claim.
        log10_p_value: Its base-10 logarithm.
        statistic: Evidence for the claim in standard errors, positive in its favour.
        df: Degrees of freedom; infinite for z.
        margin: The margin of the claim.
        method: `superiority`, `non_inferiority` or `non_inferiority_relative`.
    """

    passed: bool
    p_value: float
    log10_p_value: float
    statistic: float
    df: float
    margin: float
    method: str


class Equivalence(NamedTuple):
    """Two one-sided tests of a difference within margins.

    Attributes:
        passed: Whether both reject at `alpha`.
        p_value: The larger of the two.
        p_low: Of the difference (or lift) not being above the lower margin.
        p_high: Of it not being below the upper margin.
        low: Lower end of the 1 − 2·alpha interval of the difference.
        high: Upper end.
        method: `equivalence` or `equivalence_relative`.
    """

    passed: bool
    p_value: float
    p_low: float
    p_high: float
    low: float
    high: float
    method: str


def decide(
    control: Estimate,
    treatment: Estimate,
    factor: float,
    shift: float,
    sign: int,
    alpha: float,
    df: float | None,
    method: str,
    margin: float,
) -> Decision:
    """Test of sign·(μt − factor·μc + shift) > 0."""
    check_alpha(alpha)
    total_variance(control, treatment)
    free = _df(control, treatment) if df is None else df
    variance = treatment.variance + factor * factor * control.variance
    if not variance > 0:
        raise Refusal("zero_variance", "the contrast does not vary: no test is possible")
    distance = sign * (treatment.value - factor * control.value + shift)
    statistic = distance / math.sqrt(variance)
    p: Tail = upper_tail(statistic, free)
    # The comparison of quantiles agrees with an interval's end to the last digit.
    passed = statistic > -quantile(alpha, free)
    return Decision(passed, p.p_value, p.log10, statistic, free, margin, method)


def within_margins(
    control: Estimate,
    treatment: Estimate,
    above: Decision,
    below: Decision,
    alpha: float,
    method: str,
) -> Equivalence:
    """Two one-sided tests as one: both have to pass."""
    se = math.sqrt(total_variance(control, treatment))
    ends = effects.interval(treatment.value - control.value, se, above.df, 2 * alpha)
    p_low, p_high = above.p_value, below.p_value
    passed = above.passed and below.passed
    return Equivalence(passed, max(p_low, p_high), p_low, p_high, *ends, method)


def _df(control: Estimate, treatment: Estimate) -> float:
    return satterthwaite([control.variance, treatment.variance], [control.df, treatment.df])


def margin_over(control: Estimate, margin: float) -> float:
    """The margin over |control| as a multiple of the control itself."""
    if control.value == 0:
        raise Refusal("control_near_zero", "a relative margin of a control of zero has no sign")
    return math.copysign(1.0, control.value) * margin


def sign_of(direction: Direction) -> int:
    """1 where more is better, −1 where less is."""
    return 1 if direction == "increase" else -1


def check_margin(margin: float) -> None:
    """Refuse a negative margin."""
    if not 0 <= margin < math.inf:
        raise ValueError(f"a margin must not be negative, got {margin}")


def check_order(low: float, high: float) -> None:
    """Refuse margins that are not in order."""
    if not low < high:
        raise ValueError(f"the lower margin must be below the upper, got {low} and {high}")
