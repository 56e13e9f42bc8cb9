"""Choose the test where large-sample tests fail: few successes, or skewed values.

**Few successes.** If values are 0 or 1 and few of either, Welch's test and the delta method reject
too often: at 90/10 and one expected success in the smaller arm, in 36 % of A/A tests instead of 5 %
(`benchmarks.calibration.rare`). Fisher's exact test decides, if looks are fixed.

**Skewed values.** At even splits the skewness of two variants cancels. At uneven splits it does
not, and large-sample tests reject too often on one side and too seldom on the other. If an effect
multiplies values, skewness does not cancel at even splits either: the test keeps its level, but its
interval covers the true difference too seldom. The choice depends on the units of both variants
together, never on a p-value:

- up to `LIMIT` and `LIMIT_AT_EFFECTS`: the planned test; for 0s and 1s only the first limit counts;
- above, up to `MOST`: the permutation test by its moments, `stats.skewed`;
- beyond: no test, but the number of units needed.

The limits were measured by `benchmarks.calibration.skew`.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from abeval.stats import proportions, skewed
from abeval.stats.effects import satterthwaite
from abeval.stats.moments import Moments
from abeval.stats.proportions import Count
from abeval.stats.records import Effect, Estimate
from abeval.stats.skewed import Skewed, Spread, Stratum

FEW = 10
"""Fewer successes or failures than this in an arm are few."""

FEW_UNEVEN = 50
"""The same, if one arm has more than `UNEVEN` times the units of the other."""

UNEVEN = 2.0

LIMIT = 0.07
"""Skewness of the difference up to which large-sample tests keep their level."""

LIMIT_AT_EFFECTS = 0.15
"""Skewness at a detectable effect up to which intervals cover the difference."""

MOST = 1.5
"""Skewness of the difference up to which three moments describe it."""

# Bound of the relative rounding of moments, which are quotients of exact integers.
_ROUNDING = 1e-11


class Rare(NamedTuple):
    """Successes of control and treatment, where they or the failures are few."""

    control: Count
    treatment: Count


def count_rare_successes(control: Moments, treatment: Moments) -> Rare | None:
    """Count successes if both arms are 0s and 1s and few of either; else None.

    Moments are of (y, x) over units; x is 1 for every unit of a mean.
    """
    first, second = _count(control), _count(treatment)
    if first is None or second is None:
        return None
    fewest = min(min(count.successes, count.units - count.successes) for count in (first, second))
    return Rare(first, second) if fewest < choose_few_limit(first.units, second.units) else None


def choose_few_limit(*sizes: float) -> int:
    """Return the number of successes or failures below which they are few."""
    return FEW_UNEVEN if max(sizes) > UNEVEN * min(sizes) else FEW


def has_shares(*arms: Moments) -> bool:
    """Tell whether all values are 0 or 1, and all denominators 1."""
    return all(_count(arm) is not None for arm in arms)


def _count(moments: Moments) -> Count | None:
    """Count successes if all values are 0 or 1; else None.

    For integers, Σy² = Σy only if each is 0 or 1. Fractions could meet this by chance, but hardly
    in both arms.
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


def compare_counts(counts: Rare, alpha: float, is_share: bool) -> Effect:
    """Test counts by Fisher's mid-p, with an interval of the difference.

    `is_share` tells whether values are 0 or 1 by definition. A revenue of zeros only is no share:
    its values could be of any size.

    Raises:
        Refusal: `zero_variance` if nobody or everybody succeeds and the metric is no share.
    """
    control, treatment = counts
    if is_share and control.successes + treatment.successes in (0, control.units + treatment.units):
        return proportions.bound_unvaried(control, treatment, alpha)
    return proportions.exact(control, treatment, alpha)


class Shape(NamedTuple):
    """Skewness of unit values, for windows without third moments.

    Attributes:
        of_day: Skewness of a unit's value on one day.
        of_all: Skewness of a unit's value over all days.
        days: Number of days behind `of_all`.
        scaled: Whether values are never negative, so that an effect multiplies them.
    """

    of_day: float
    of_all: float
    days: int
    scaled: bool

    def skewness(self, days: int) -> float:
        """Interpolate the skewness after some days, linearly in log(days).

        Example:
            >>> Shape(8.0, 2.0, 16, True).skewness(4)
            4.0
        """
        if days <= 1 or self.days == 1:
            return self.of_day
        if self.of_day * self.of_all <= 0:
            return max(self.of_day, self.of_all, key=abs)
        # Geometric: skewness falls about as a power of the days.
        way = min(1.0, math.log(days) / math.log(self.days))
        return float(self.of_day * (self.of_all / self.of_day) ** way)


class TooSkewed(Exception):  # noqa: N818 (an expected answer, not an error)
    """No test applies; with `units_needed` units of the smaller variant it would."""

    def __init__(self, units_needed: int) -> None:
        super().__init__("too little data for the skewness of the metric")
        self.units_needed = units_needed


def find_skewed_by_moments(
    pairs: Sequence[tuple[Moments, Moments]],
    is_ratio: bool,
    shares: Sequence[float] | None = None,
    theta: Sequence[float] = (),
) -> Skewed | None:
    """Find variants too skewed for large-sample tests, by their moments.

    None if large-sample tests apply.

    Args:
        pairs: Moments of each stratum, of (y, covariates); for a ratio, of (y, x, covariates).
        is_ratio: Whether values are ratios.
        shares: Weight of each stratum; by units if omitted.
        theta: Coefficients of the covariates.

    Raises:
        TooSkewed: Three moments do not describe the difference, which they do up to `MOST`.
    """
    control, treatment = ([pair[arm] for pair in pairs] for arm in (0, 1))
    if any(arm.third is None for arm in (*control, *treatment)):
        return None
    units = [c.n + t.n for c, t in pairs]
    shares = shares or [n / sum(units) for n in units]
    compared = skewed.strata(control, treatment, shares, is_ratio, theta)
    arms, terms = (*control, *treatment), (0, 1) if is_ratio else (0,)
    return _keep_if_skewed(compared, lambda: has_shares(*(arm.pick(*terms) for arm in arms)))


def find_skewed_by_skewness(
    values: Sequence[Estimate],
    skewness: float,
    scaled: bool,
    are_shares: bool,
    is_ratio: bool = False,
) -> Skewed | None:
    """Find variants too skewed for large-sample tests, by a known skewness.

    `scaled` tells whether an effect multiplies values; `are_shares` whether all are 0 or 1.
    """
    spreads = [
        # Σd³ = skewness · n · (Σd² / n)^1.5.
        Spread(n, square, skewness * n * (square / n) ** 1.5)
        for _, variance, n, _ in values
        for square in [variance * n * (n - 1)]
    ]
    if sum(spread.square for spread in spreads) == 0:
        return None
    control, treatment = (value.value for value in values)
    df = math.inf
    if is_ratio:
        df = satterthwaite([value.variance for value in values], [value.df for value in values])
    stratum = Stratum(1.0, *spreads)
    return _keep_if_skewed(Skewed(control, treatment, (stratum,), scaled, df), lambda: are_shares)


def _keep_if_skewed(compared: Skewed, are_shares: Callable[[], bool]) -> Skewed | None:
    skewness = abs(skewed.measure_skewness(compared))
    # How many times as many units three moments would need.
    times = (skewness / MOST) ** 2
    if times > 1:
        control = sum(stratum.control.units for stratum in compared.strata)
        # Skewness falls with the root of the units. Two digits say enough.
        needed = min(control, compared.units - control) * times
        step = 10 ** (math.floor(math.log10(needed)) - 1)
        raise TooSkewed(math.ceil(needed / step) * step)
    at_effects = (
        skewness <= LIMIT and skewed.measure_skewness_at_effects(compared) > LIMIT_AT_EFFECTS
    )
    # Shares have few successes where they are skewed: the exact test judges those.
    return compared if skewness > LIMIT or (at_effects and not are_shares()) else None
