"""Choose the test of values that large-sample tests do not hold for."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from abeval.metrics.definition import Metric
from abeval.stats import proportions, skewed
from abeval.stats.moments import Moments
from abeval.stats.proportions import Count
from abeval.stats.records import Effect, Estimate, Interval, Lift, Refusal
from abeval.stats.split_moments import Skewed, Spread, Stratum, standing

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


LIMIT = 0.07
"""Skewness of the difference up to which large-sample tests keep both sides at their level."""

LIMIT_AT_EFFECTS = 0.15
"""Skewness at an effect that can be found, up to which intervals of the difference cover it."""

MOST = 1.5
"""Skewness of the difference up to which three moments describe it."""


class Stretches(NamedTuple):
    """Moments of both variants in each stretch of entry days, and what the stretches weigh."""

    control: Sequence[Moments]
    treatment: Sequence[Moments]
    shares: Sequence[float]


class Shape(NamedTuple):
    """How skewed the values of units are, where a window has no third moments of its own.

    Attributes:
        of_day: Skewness of a unit's value of one day.
        of_all: Of its value of all days.
        days: How many these are.
        scaled: Whether values are never negative, so that an effect multiplies them.
    """

    of_day: float
    of_all: float
    days: int
    scaled: bool

    def skewness(self, days: int) -> float:
        """About that of a value of so many days: in between, by the logarithm of the days.

        Example:
            >>> Shape(8.0, 2.0, 16, True).skewness(4)
            4.0
        """
        if days <= 1 or self.days == 1:
            return self.of_day
        if self.of_day * self.of_all <= 0:
            return max(self.of_day, self.of_all, key=abs)
        way = min(1.0, math.log(days) / math.log(self.days))
        return float(self.of_day * (self.of_all / self.of_day) ** way)


class TooSkewed(Exception):  # noqa: N818 (an expected answer, not an error)
    """No test holds.

    Attributes:
        units_needed: Units of the smaller variant that would do.
    """

    def __init__(self, units_needed: int) -> None:
        super().__init__("too little data for the skewness of the metric")
        self.units_needed = units_needed


def by_moments(
    metric: Metric, control: Moments, treatment: Moments, theta: Sequence[float] = ()
) -> Skewed | None:
    """Two variants that need the permutation test; None where large-sample tests hold.

    Args:
        metric: A mean or a ratio.
        control: Moments of (y, covariates), or of (y, x, covariates) of a ratio.
        treatment: The same of the treatment.
        theta: Coefficients of the covariates.
    """
    if control.third is None or treatment.third is None:
        return None
    compare = skewed.means if metric.kind == "mean" else skewed.ratios
    arms = _without_covariates(metric, control), _without_covariates(metric, treatment)
    return _if_needed(compare(control, treatment, theta), has_shares(*arms))


def by_skewness(
    control: Estimate, treatment: Estimate, skewness: float, scaled: bool, has_shares: bool
) -> Skewed | None:
    """The same from two values with their variances, if units have this skewness in both.

    Args:
        control: Control's value.
        treatment: The treatment's.
        skewness: Of the units' values.
        scaled: Whether an effect multiplies values.
        has_shares: Whether every value is 0 or 1.
    """
    spreads = [
        Spread(n, square, skewness * n * (square / n) ** 1.5)
        for _, variance, n, _ in (control, treatment)
        for square in [variance * n * (n - 1)]
    ]
    if sum(spread.square for spread in spreads) == 0:
        return None
    compared = Skewed(control.value, treatment.value, (Stratum(1.0, *spreads),), scaled)
    return _if_needed(compared, has_shares)


def by_strata(
    metric: Metric,
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    shares: Sequence[float] | None = None,
) -> Skewed | None:
    """The same for units in strata; without shares, they have those of both variants' units."""
    if any(arm.third is None for arm in (*control, *treatment)):
        return None
    if shares is None:
        units = [c.n + t.n for c, t in zip(control, treatment, strict=True)]
        shares = [n / sum(units) for n in units]
    pairs = zip(control, treatment, strict=True)
    return _if_needed(
        skewed.strata(control, treatment, shares, metric.kind != "mean"),
        all(has_shares(*(_without_covariates(metric, m) for m in pair)) for pair in pairs),
    )


def of_image(
    metric: Metric,
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    shares: Sequence[float],
) -> Skewed | None:
    """The same for control's mirror image in a target: skewness adds up, at any split.

    Variants never have the values of a mirror image, so each has its own moments.

    Args:
        metric: A mean or a ratio.
        control: Moments of (y, x) of the mirror image, in each stretch of entry days.
        treatment: The same of the treatment.
        shares: What each stretch weighs.
    """
    if any(arm.third is None for arm in (*control, *treatment)):
        return None
    compared = skewed.strata(control, treatment, shares, metric.kind != "mean")
    compared = compared._replace(scaled=False)
    return compared if abs(standing(compared, 0.0).own.skewness) > LIMIT else None


def _without_covariates(metric: Metric, moments: Moments) -> Moments:
    return moments.pick(0) if metric.kind == "mean" else moments.pick(0, 1)


def _if_needed(compared: Skewed, has_shares: bool) -> Skewed | None:
    if abs(skewed.skewness(compared)) > LIMIT:
        return compared
    # Shares have few successes where they are skewed: the exact test judges those.
    if has_shares or skewed.skewness_at_effects(compared) <= LIMIT_AT_EFFECTS:
        return None
    return compared


def check_holds(compared: Skewed) -> None:
    """Whether a test holds for these variants: by their units always, by moments up to `MOST`.

    Raises:
        TooSkewed: It does not.
    """
    times = (skewed.skewness(compared) / MOST) ** 2
    if compared.pair is None and times > 1:
        control = sum(stratum.control.units for stratum in compared.strata)
        # Skewness falls with the root of the units. Two digits say enough.
        needed = min(control, compared.units - control) * times
        step = 10 ** (math.floor(math.log10(needed)) - 1)
        raise TooSkewed(math.ceil(needed / step) * step)
