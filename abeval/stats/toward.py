"""Claims on a metric that should meet a target: how much nearer the treatment is than control.

The gain is |c − T| − |t − T|, of control c, treatment t and target T. It follows from two
differences: D = t − c, and S = t − (2T − c), to the mirror image of control in the target. The gain
is min(−min(D, S), max(D, S)), so that every claim on it is one on linear contrasts.

`inference/toward.py` applies it to comparisons of any kind; `interval` and `non_inferiority` are
for two estimates of your own.
"""

import math
from collections.abc import Callable

from abeval.stats import effects
from abeval.stats.decisions import Gain
from abeval.stats.distributions import check_alpha, quantile, two_sided_quantile, upper_tail
from abeval.stats.margin_tests import Decision, check_margin
from abeval.stats.records import Estimate, Interval

SIDE = 0.02
"""Share of alpha that goes into knowing on which side of the target a value lies."""


def gain(difference: float, mirrored: float) -> float:
    """How much nearer to the target the treatment is; negative is farther.

    Args:
        difference: Treatment less control.
        mirrored: Treatment less the mirror image of control.

    Example:
        >>> gain(-3, 1)  # from 2 above the target to 1 below it
        1
    """
    return min(-min(difference, mirrored), max(difference, mirrored))


def gain_interval(difference: Interval, mirrored: Interval) -> Gain:
    """The smallest and the largest gain that two intervals allow.

    It excludes 0 exactly where both intervals do, so it agrees with the larger of two p-values.

    Args:
        difference: Of treatment less control.
        mirrored: Of treatment less the mirror image of control.

    Example:
        >>> gain_interval(Interval(-3, -2), Interval(0.5, 1.5))
        Gain(low=0.5, high=1.5)
    """
    low = min(-min(difference.high, mirrored.high), max(difference.low, mirrored.low))
    high = max(min(-difference.low, mirrored.high), min(difference.high, -mirrored.low))
    return Gain(low, high)


def contrast_level(
    distance: float, se_distance: float, se: float, alpha: float = 0.05, df: float = math.inf
) -> float:
    """Error rate of the intervals of D and S whose gain errs at one end in alpha / 2.

    H0 of the lower end, |t − T| ≥ |c − T| + m, is D, S ≥ m or D, S ≤ −m: either contrast disproves
    an orthant, one of them true at its edge and the other off by 2|c − T|. So both err in at most
    tail(z) + tail(z + 2δ / se), where δ ≤ |c − T| but for a share of alpha (Berger and Boos 1994).

    At the target each contrast gets half of alpha; far from it only one can err, and gets nearly
    all. For the upper end, control and treatment change places.

    Args:
        distance: The estimate whose side matters, less the target: control's for the lower end.
        se_distance: Its standard error.
        se: Of D and of S, the larger.
        alpha: Two-sided level of the interval of the gain.
        df: Degrees of freedom of the standard errors.

    Example:
        >>> round(contrast_level(0.0, 1.0, 1.5), 4), round(contrast_level(9.0, 1.0, 1.5), 4)
        (0.0245, 0.049)
    """
    check_alpha(alpha)
    side, one_sided = SIDE * alpha / 2, (1 - SIDE) * alpha / 2
    proven = max(0.0, abs(distance) - two_sided_quantile(side, df) * se_distance)
    apart = 2 * proven / se

    def excess(z: float) -> float:
        return upper_tail(z, df).p_value + upper_tail(z + apart, df).p_value - one_sided

    if apart == 0:
        return one_sided
    # Rounding may put a root at an end outside of the bracket.
    most = -quantile(one_sided / 2, df) + 1e-9
    return 2 * upper_tail(_root(excess, 0.0, most), df).p_value


def interval(control: Estimate, treatment: Estimate, target: float, alpha: float = 0.05) -> Gain:
    """The gain of independent estimates at worst and at best, each end one-sided at alpha / 2.

    It keeps this level wherever control, treatment and target lie (`contrast_level`).

    Raises:
        Refusal: `zero_variance`, `not_finite`.

    Example:
        >>> low, high = interval(Estimate(3, 0.02, 99, 98), Estimate(2, 0.02, 99, 98), target=0)
        >>> round(low, 2), round(high, 2)
        (0.6, 1.4)
    """
    se, df = _error(control, treatment)
    difference = treatment.value - control.value
    mirrored = treatment.value + control.value - 2 * target
    ends = []
    for value in (control, treatment):
        level = contrast_level(
            value.value - target, math.sqrt(value.variance), se, alpha, min(df, value.df)
        )
        contrasts = (effects.interval(one, se, df, level) for one in (difference, mirrored))
        ends.append(gain_interval(*contrasts))
    return Gain(ends[0].low, ends[1].high)


def non_inferiority(
    control: Estimate, treatment: Estimate, target: float, margin: float, alpha: float = 0.025
) -> Decision:
    """Whether the treatment is farther from the target than control by less than a margin.

    H0: |t − T| ≥ |c − T| + m, by the contrasts of `contrast_level`. It passes exactly where the
    lower end of `interval` at 2·alpha is above −m; the p-value is the smallest such alpha.

    Args:
        control: Estimate of the control.
        treatment: Independent estimate of the treatment.
        target: The value that the metric should meet.
        margin: Largest loss that is acceptable, in the metric's unit.
        alpha: One-sided.

    Raises:
        Refusal: `zero_variance`, `not_finite`.
        ValueError: For a negative margin.

    Example:
        >>> control, treatment = Estimate(1.0, 1e-4, 99, 98), Estimate(1.01, 1e-4, 99, 98)
        >>> decision = non_inferiority(control, treatment, target=1.0, margin=0.05)
        >>> decision.passed, round(decision.p_value, 4)
        (True, 0.0053)
    """
    check_margin(margin)
    check_alpha(alpha)
    se, df = _error(control, treatment)
    difference = treatment.value - control.value
    nearer = gain(difference, treatment.value + control.value - 2 * target)
    statistic = (nearer + margin) / se
    one = upper_tail(statistic, df)
    distance, spread = control.value - target, math.sqrt(control.variance)

    def excess(log_alpha: float) -> float:
        level = contrast_level(distance, spread, se, 2 * math.exp(log_alpha), min(df, control.df))
        return math.log(level / 2) - log_one

    log_one = one.log10 * math.log(10)
    least, most = log_one - math.log(1 - SIDE), log_one + math.log(2 / (1 - SIDE))
    # Beyond these, alpha is no longer an error rate.
    if most >= math.log(0.5) or least < math.log(1e-290):
        log_p = min(most, 0.0)
    else:
        log_p = _root(excess, least - 1e-9, most + 1e-9)
    passed = interval(control, treatment, target, 2 * alpha).low > -margin
    p_value = math.exp(log_p)
    return Decision(
        passed, p_value, log_p / math.log(10), statistic, df, margin, "non_inferiority_toward"
    )


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    # Few analyses need it, and importing it costs all of them a quarter of a second.
    from scipy.optimize import brentq

    return float(brentq(function, low, high))


def _error(control: Estimate, treatment: Estimate) -> tuple[float, float]:
    """Standard error and degrees of freedom of D, which are those of S."""
    variance = effects.total_variance(control, treatment)
    variances, dfs = zip(*((one.variance, one.df) for one in (control, treatment)), strict=True)
    return math.sqrt(variance), effects.satterthwaite(variances, dfs)
