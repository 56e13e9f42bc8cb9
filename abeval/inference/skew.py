"""When skewed values need a test of their own, and which.

At even splits the skewness of two variants cancels. At uneven ones it does not, and Welch's test
and the delta method reject too often on one side and too seldom on the other. What is left of it in
the difference is known from the units of both variants (`stats.skewed.skewness`). Even where all of
it cancels without an effect, it does not with one that multiplies values: the test keeps its level,
but its interval covers the true difference too seldom. That skewness is
`stats.skewed.skewness_at_effects`. The choice follows from both, so that no test is chosen by its
p-value:

- up to `LIMIT` and `LIMIT_AT_EFFECTS`: Welch's test, the delta method, CUPED and the others, as the
  plan says; of values of 0 and 1 the first limit is the only one;
- above, where the values of single units are known: their permutation, however skewed they are;
- where only moments are, up to `MOST`: the permutation test by its moments, `stats.skewed`;
- above: no test, but how many units would do.

`means_and_ratios.py` asks it; the limits are measured by `benchmarks.calibration.skew`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from abeval.inference import special_tests
from abeval.metrics.definition import Metric
from abeval.stats import skewed
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate
from abeval.stats.split_moments import Skewed, Spread, Stratum, standing

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
    return _if_needed(compare(control, treatment, theta), special_tests.has_shares(*arms))


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
        all(
            special_tests.has_shares(*(_without_covariates(metric, m) for m in pair))
            for pair in pairs
        ),
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
