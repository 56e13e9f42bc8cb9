"""Claims on a metric that should meet a target: how much nearer the treatment is than control.

The gain is |c − T| − |t − T|, of control c, treatment t and target T. It follows from two
differences: D = t − c, and S = t − (2T − c), to the mirror image of control in the target. The gain
is min(−min(D, S), max(D, S)), so that every claim on it is one on linear contrasts.
"""

import math

from abeval.stats.decisions import Gain
from abeval.stats.distributions import brentq, check_alpha, quantile, two_sided_quantile, upper_tail
from abeval.stats.records import Interval

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
    return 2 * upper_tail(brentq(excess, 0.0, most), df).p_value
