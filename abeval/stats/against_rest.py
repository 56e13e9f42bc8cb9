"""A segment against all other units: both sides of it, and the contrast of their effects.

`heterogeneity.py` calls it for every segment.
"""

import math
from collections.abc import Callable, Iterator, Sequence

from abeval.stats import effects
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Refusal

Pair = tuple[Estimate, Estimate]
"""Control and treatment."""


def against_rest(segment: Effect, rest: Effect, alpha: float = 0.05) -> Effect:
    """Effect in a segment against the effect in all other units.

    Args:
        segment: Effect in the segment.
        rest: Effect among the units outside it.
        alpha: Level of the interval.

    Returns:
        Effect whose control is the rest's difference and whose treatment is the segment's; z.

    Raises:
        Refusal: `zero_variance`; `not_finite`.

    Source:
        Welch (1947) on the difference of differences; Statsig, "differential impact detection".

    Example:
        >>> inside = effects.from_difference(1.0, 1.3, 0.3, 0.10)
        >>> outside = effects.from_difference(1.0, 1.1, 0.1, 0.05)
        >>> round(against_rest(inside, outside).statistic, 4)
        1.7889
    """
    se = math.hypot(segment.se, rest.se)
    return effects.from_difference(
        rest.difference,
        segment.difference,
        segment.difference - rest.difference,
        se,
        math.inf,
        alpha,
        "segment_against_rest",
    )


def with_rest(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    estimate: Callable[[Moments], Estimate],
    others: Sequence[tuple[Moments, Moments]] | None,
) -> Iterator[tuple[Pair, Pair]]:
    """Control and treatment in every segment, and outside of it."""
    if len(control) != len(treatment) or len(control) < 2:
        raise Refusal("too_few_units", "a comparison with the rest needs two segments or more")
    for i in range(len(control)):
        rest = (_others(control, i), _others(treatment, i)) if others is None else others[i]
        yield (
            (estimate(control[i]), estimate(treatment[i])),
            (estimate(rest[0]), estimate(rest[1])),
        )


def log_contrast(inside: Pair, outside: Pair, alpha: float) -> Effect | None:
    """The difference of log(treatment / control); None where a value is not positive, or is fixed.

    Example:
        >>> inside = Estimate(2.0, 0.1, 50, 49), Estimate(4.0, 0.1, 50, 49)
        >>> outside = Estimate(3.0, 0.1, 50, 49), Estimate(3.0, 0.1, 50, 49)
        >>> round(log_contrast(inside, outside, 0.05).difference, 4)
        0.6931
    """
    if min(arm.value for arm in (*inside, *outside)) <= 0:
        return None
    logs = [math.log(t.value / c.value) for c, t in (outside, inside)]
    se = math.sqrt(sum(arm.variance / arm.value**2 for arm in (*inside, *outside)))
    if se == 0:
        return None
    difference = logs[1] - logs[0]
    return effects.from_difference(
        logs[0], logs[1], difference, se, math.inf, alpha, "lift_against_rest"
    )


def _others(moments: Sequence[Moments], left_out: int) -> Moments:
    rest = [m for i, m in enumerate(moments) if i != left_out]
    merged = rest[0]
    for m in rest[1:]:
        merged = merged.merge(m)
    return merged
