"""The exact test of metrics of 0s and 1s with few successes, or few failures.

Where few succeed, Welch's test and the delta method reject too often: at 90/10 and one expected
success in the smaller arm, 36 % of A/A tests in place of 5 % (`benchmarks.calibration.rare`).

`means_and_ratios.py` asks it by the moments of both variants, and uses it in place of the other
tests where looks are fixed.
"""

from typing import NamedTuple

from abeval.stats import proportions
from abeval.stats.moments import Moments
from abeval.stats.proportions import Count
from abeval.stats.records import Effect, Interval, Lift, Refusal

FEW = 10
"""Fewer successes or failures than this in an arm are few."""

FEW_UNEVEN = 50
"""The same, where an arm has more than `UNEVEN` times as many units as the other."""

UNEVEN = 2.0

_ROUNDING = 1e-11
"""Relative rounding of moments, which are quotients of exact integers, is below this."""


class Rare(NamedTuple):
    """Successes of control and treatment, where they or the failures are few."""

    control: Count
    treatment: Count


def rare(control: Moments, treatment: Moments) -> Rare | None:
    """Counts of two arms whose values are 0 or 1, with few of either in an arm; else None.

    Args:
        control: Moments of (y, x) over units; x is 1 for every unit of a mean.
        treatment: The same of the treatment.
    """
    first, second = _count(control), _count(treatment)
    if first is None or second is None:
        return None
    fewer, more = sorted((first.units, second.units))
    limit = FEW_UNEVEN if more > UNEVEN * fewer else FEW
    fewest = min(min(count.successes, count.units - count.successes) for count in (first, second))
    return Rare(first, second) if fewest < limit else None


def has_shares(control: Moments, treatment: Moments) -> bool:
    """Whether every value is 0 or 1, and every denominator 1 where moments have one."""
    return _count(control) is not None and _count(treatment) is not None


def _count(moments: Moments) -> Count | None:
    """Successes of units that all have a denominator of 1 and a value of 0 or 1.

    Σy² = Σy holds for whole numbers only where each is 0 or 1. Fractions could meet it by chance,
    but hardly in both arms.
    """
    n, total, square = moments.n, moments.n * float(moments.mean[0]), moments.comoment
    if moments.mean.size > 1 and (
        abs(float(moments.mean[1]) - 1) > _ROUNDING or float(square[1, 1]) > _ROUNDING
    ):
        return None
    successes = round(total)
    error = _ROUNDING * max(1, successes)
    if not 0 <= successes <= n or abs(total - successes) > error:
        return None
    if abs(float(square[0, 0]) - successes * (n - successes) / n) > error:
        return None
    return Count(successes, n)


def compare(counts: Rare, alpha: float, is_share: bool) -> tuple[Effect, Lift | None]:
    """The mid-p of Fisher's exact test, with its intervals of the difference and of the lift.

    Args:
        counts: Of both variants.
        alpha: Error rate of test and interval.
        is_share: Whether values are 0 or 1 by definition: a revenue of nothing but zeros is no
            share, and nobody knows how large it may become.

    Raises:
        Refusal: `zero_variance` where nobody or everybody succeeds, of what is no share.
    """
    effect = _effect(counts, alpha, is_share)
    try:
        return effect, proportions.exact_lift(counts.control, counts.treatment, alpha)
    except Refusal:
        return effect, None


def interval(counts: Rare, level: float) -> Interval:
    """Interval of the difference at another error rate, of counts that `compare` compared."""
    effect = _effect(counts, level, is_share=True)
    return Interval(effect.low, effect.high)


def _effect(counts: Rare, alpha: float, is_share: bool) -> Effect:
    control, treatment = counts
    if is_share and control.successes + treatment.successes in (0, control.units + treatment.units):
        return proportions.unchanged(control, treatment, alpha)
    return proportions.exact(control, treatment, alpha)
