"""Test two variants with skewed values, by three moments of their units.

If the variants do not differ, every split of all units into two groups of these sizes is as likely
as the one at hand, and Pearson's type III distribution with the moments of the difference over
those splits gives the p-values (Mielke and Berry 2001, chapter 2). Variants with the same mean may
still have different spreads; then those moments are wrong. In that case the difference over its own
standard error, transformed by its own skewness (Hall 1992), is nearly normal. A side's p-value is
the larger of the two, so that it holds in both cases (`benchmarks.calibration.spread`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import distributions
from abeval.stats.distributions import check_alpha, two_sided_quantile
from abeval.stats.effects import satterthwaite
from abeval.stats.means import centre_strata, compute_quadratic_form
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Floats, Interval, Lift, Refusal

METHOD = "permutation_moments"
"""Id of the test."""

TINY = 1e-5
"""Below this skewness a distribution is taken as normal."""

_ROUNDING = 1e-9
# Largest log ratio tried: a lift that is not rejected there is unbounded.
_FAR = math.log(1e4)

# Lowest log10 of a p-value: brentq needs finite numbers.
_FLOOR = -400.0

# Distances from the difference, in standard errors, at which its end is sought.
_STEPS = tuple(3.0 * 2**k for k in range(12))

FINDABLE = 2.8
"""Standard errors of an effect that has a power of 80 % at 5 %."""

# Largest loss looked at: without values there is no spread.
_MOST_LOSS = 0.9


class Spread(NamedTuple):
    """A variant's units, and Σd² and Σd³ of deviations d from its value."""

    units: int
    square: float
    cube: float


class Stratum(NamedTuple):
    """A stratum: its weight in the effect, and the spreads of both variants.

    Only units of the same stratum are compared with each other.
    """

    share: float
    control: Spread
    treatment: Spread


class Skewed(NamedTuple):
    """Two variants to compare, by one stratum with share 1, or several.

    If `scaled`, an effect multiplies values, as for metrics that are never negative; else it is
    added to them. `df` are the degrees of freedom of a ratio's spread; infinite for a mean.
    """

    control: float
    treatment: float
    strata: tuple[Stratum, ...]
    scaled: bool
    df: float = math.inf

    @property
    def units(self) -> int:
        """Return units of both variants."""
        return sum(s.control.units + s.treatment.units for s in self.strata)


class SeparateDifference(NamedTuple):
    """A difference with standard error and skewness from separate moments."""

    difference: float
    se: float
    skewness: float


class HypothesisTest(NamedTuple):
    """The test of one hypothesis: against all splits, and by separate moments.

    `z` is the difference over its standard error `se` if the variants do not differ. `skewness` is
    the skewness of the difference over all splits.
    """

    z: float
    se: float
    skewness: float
    separate: SeparateDifference

    def tail(self, side: int) -> distributions.Tail:
        """Return the one-sided p-value: higher treatment (1), or lower (−1)."""
        hall_z = hall(self.separate.difference / self.separate.se, self.separate.skewness)
        of_splits = distributions.skewed_tail(side * self.z, side * self.skewness)
        separate = distributions.upper_tail(side * hall_z)
        return max(of_splits, separate, key=lambda tail: tail.log10)

    @property
    def side(self) -> int:
        """Return the side of the smaller p-value."""
        return min((1, -1), key=lambda side: self.tail(side).log10)


def evaluate_hypothesis(compared: Skewed, effect: float) -> HypothesisTest:
    """Test that treatment equals control × `effect`, or control + `effect`.

    Refusals: `zero_variance`.

    Example:
        >>> few, many = Spread(100, 400.0, 1_000.0), Spread(900, 3_600.0, 9_000.0)
        >>> compared = Skewed(1.0, 1.5, (Stratum(1.0, many, few),), True)
        >>> round(evaluate_hypothesis(compared, 1.0).tail(1).p_value, 3)
        0.011
    """
    ratio, shift = (effect, 0.0) if compared.scaled else (1.0, effect)
    se, skewness = _spread_of_splits(compared, ratio)
    difference = compared.treatment / ratio - shift - compared.control
    free = max(compared.units - 2 * len(compared.strata), 1)
    # The difference itself is part of the spread of all units together.
    z = difference / se
    z *= math.sqrt((free + 1) / (free + z * z))
    separate = _separate_difference(compared, ratio, difference)
    # Where few units count, both are t.
    z, separate_z = as_normal([z, difference / separate.se], compared.df).tolist()
    separate = separate._replace(difference=separate_z * separate.se)
    return HypothesisTest(z, se, skewness, separate)


def as_normal(t: ArrayLike, df: ArrayLike) -> Floats:
    """Return the z with about the p-value of t (Wallace 1959).

    Example:
        >>> as_normal([2.0, 2.228], [np.inf, 10]).round(3).tolist()
        [2.0, 1.959]
    """
    t, df = np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64)
    finite_df = np.where(np.isfinite(df), df, 1.0)
    near = (
        (8 * finite_df + 1) / (8 * finite_df + 3) * np.sqrt(finite_df * np.log1p(t * t / finite_df))
    )
    return np.where(np.isfinite(df), np.copysign(near, t), t)


def _evaluate_no_effect(compared: Skewed) -> HypothesisTest:
    """Test that the variants do not differ: a ratio of 1, or a difference of 0."""
    return evaluate_hypothesis(compared, 1.0 if compared.scaled else 0.0)


def _spread_of_splits(compared: Skewed, ratio: float = 1.0) -> tuple[float, float]:
    """Return the standard error of the difference over all splits, and its skewness.

    A lift is either higher values in the treatment, or more units with a value. The test assumes
    the one that makes the difference less certain. With equal sizes both are as uncertain; then it
    assumes higher values, which covers as well and refuses less.
    """
    variance = cube = 0.0
    for stratum in compared.strata:
        square, third = _split_moments(stratum, ratio, 1.0)
        more_units = _split_moments(stratum, ratio, ratio)
        if more_units[0] > square * (1 + _ROUNDING):
            square, third = more_units
        variance += stratum.share**2 * square
        cube += stratum.share**3 * third
    if variance <= 0:
        raise Refusal("zero_variance", "neither variant varies: no test is possible")
    se = math.sqrt(variance)
    return se, cube / se**3


def _split_moments(stratum: Stratum, ratio: float, times: float) -> tuple[float, float]:
    """Return second and third moments of treatment / ratio − control over splits.

    Control's variance is `times` times the treatment's variance divided by ratio².
    """
    _, control, treatment = stratum
    n, m = control.units, treatment.units
    square = (control.square + treatment.square / ratio**2) / (n + m - 2)
    cube = (control.cube + treatment.cube / ratio**3) * (n + m) / (n + m - 1) / (n + m - 2)
    # What the treatment's moments are to those of both, in units of control.
    second, third = ((n + m) / (n * factor + m) for factor in (times, times**2))
    return (
        square * (second * times / n + second / m),
        cube * (third / m**2 - third * times**2 / n**2),
    )


def _separate_difference(compared: Skewed, ratio: float, difference: float) -> SeparateDifference:
    """Return treatment / ratio − control, with the moments of each variant."""
    variance = cube = 0.0
    for share, control, treatment in compared.strata:
        n, m = control.units, treatment.units
        variance += share**2 * control.square / (n - 1) / n
        variance += share**2 * treatment.square / ratio**2 / (m - 1) / m
        cube += share**3 * (treatment.cube / ratio**3 / m**3 - control.cube / n**3)
    se = math.sqrt(variance)
    return SeparateDifference(difference, se, cube / se**3)


def measure_skewness_at_ratio(compared: Skewed, ratio: float) -> float:
    """Return the difference's skewness if treatment is `ratio` times control.

    Example:
        >>> arm = Spread(500, 2_000.0, 20_000.0)
        >>> even = Skewed(1.0, 1.0, (Stratum(1.0, arm, arm),), True)
        >>> measure_skewness_at_ratio(even, 1.0), round(measure_skewness_at_ratio(even, 2.0), 2)
        (0.0, 0.14)
    """
    variance = third = 0.0
    for share, control, treatment in compared.strata:
        n, m = control.units, treatment.units
        square = (control.square + treatment.square) / (n + m)
        cube = (control.cube + treatment.cube) / (n + m)
        variance += share**2 * square * (1 / n + ratio**2 / m)
        third += share**3 * cube * (ratio**3 / m**2 - 1 / n**2)
    return third / variance**1.5 if variance > 0 else 0.0


def hall(t: float, skewness: float) -> float:
    """Transform a studentised statistic to remove its skewness (Hall 1992).

    Example:
        >>> hall(2.0, 0.0), round(hall(2.0, 0.3), 3)
        (2.0, 2.477)
    """
    if abs(skewness) < TINY:
        return t
    return ((1 + skewness * t / 3) ** 3 - 1) / skewness + skewness / 6


@lru_cache(maxsize=256)
def compute_effect_interval(compared: Skewed, alpha: float) -> Interval:
    """Find the smallest and the largest effect not rejected; infinite without an end.

    Refusals: `too_few_units` if added values have no end; `zero_variance`.

    Example:
        >>> few, many = Spread(3, 54.0, 162.0), Spread(100, 25.0, 0.0)
        >>> compute_effect_interval(Skewed(0.5, 3.0, (Stratum(1.0, many, few),), True), 0.05).high
        inf
    """
    check_alpha(alpha)
    above, below = (_build_excess_function(compared, alpha, side) for side in (1, -1))
    if not compared.scaled:
        return Interval(_bound_shift(compared, above, -1), _bound_shift(compared, below, 1))
    if compared.treatment == 0 and below(0.0) <= 0:
        return Interval(0.0, min(_bound_empty_ratio(compared, alpha), 1 - _ROUNDING))
    start, low = 0.0, 0.0
    if compared.treatment > 0:
        start = min(max(math.log(compared.treatment / compared.control), -_FAR), _FAR)
        # Values that are never negative cannot fall by more than 100 %.
        low = math.exp(_solve_end(above, start, -_FAR)) if above(-_FAR) < 0 < above(start) else 0.0
    return Interval(low, math.exp(_solve_end(below, start, _FAR)) if below(_FAR) <= 0 else math.inf)


def _build_excess_function(compared: Skewed, alpha: float, side: int) -> Callable[[float], float]:
    """Return a function that is positive at effects a side does not reject."""
    half = math.log10(alpha / 2)

    def excess(effect: float) -> float:
        test = evaluate_hypothesis(compared, math.exp(effect) if compared.scaled else effect)
        return max(test.tail(side).log10, _FLOOR) - half

    return excess


def _bound_shift(compared: Skewed, excess: Callable[[float], float], side: int) -> float:
    difference, here = compared.treatment - compared.control, evaluate_hypothesis(compared, 0.0)
    step = max(here.se, here.separate.se)
    for times in _STEPS:
        end = difference + side * times * step
        if excess(end) < 0:
            return _solve_end(excess, difference, end)
    raise Refusal("too_few_units", "the interval has no end")


def _solve_end(excess: Callable[[float], float], inside: float, outside: float) -> float:
    """Find the effect that is just not rejected, on this side of no effect."""
    if min(inside, outside) < 0 < max(inside, outside):
        inside, outside = (0.0, outside) if excess(0.0) > 0 else (inside, 0.0)
    return distributions.brentq(excess, inside, outside, xtol=_ROUNDING * abs(outside - inside))


def _bound_empty_ratio(compared: Skewed, alpha: float) -> float:
    """Return the largest ratio if no treated unit has a value.

    At least E[y]² / E[y²] of the units have one, in control and times the ratio in treatment.
    """
    units = sum(s.treatment.units for s in compared.strata)
    # At least E[y]² / E[y²] of the units have a value (Cauchy-Schwarz).
    square = sum(s.share * s.control.square / s.control.units for s in compared.strata)
    return -math.log(alpha / 2) * (1 + square / compared.control**2) / units


def convert_end_to_difference(compared: Skewed, ratio: float, reach: float) -> float:
    """Convert an end of the lift's interval to an end of the difference.

    Control's value is uncertain too, and independent of the test of a ratio. Its error never
    carries the end past zero, so that the two intervals agree. `ratio` is the end of the lift's
    interval, plus 1. `reach` is the number of standard errors by which control's value may be off,
    negative for the lower end.
    """
    base, error = estimate_baseline(compared, ratio)
    end = (ratio - 1) * base
    of_ratio = abs(compared.treatment / compared.control - ratio) * base
    of_base = abs(ratio - 1) * min(abs(reach) * error, 0.99 * base)
    return end + math.copysign(math.hypot(of_ratio, of_base) - of_ratio, reach)


def estimate_baseline(compared: Skewed, ratio: float) -> tuple[float, float]:
    """Estimate control's value from both variants, given their ratio."""
    variance = 0.0
    for share, control, treatment in compared.strata:
        square, units = control.square, control.units
        if ratio > 0:
            square += treatment.square / ratio**2
            units += treatment.units
        variance += share**2 * square / units / units
    if ratio == 0:
        return compared.control, math.sqrt(variance)
    of_treatment = sum(s.treatment.units for s in compared.strata) / compared.units
    value = (1 - of_treatment) * compared.control + of_treatment * compared.treatment / ratio
    return value, math.sqrt(variance)


def means(control: Moments, treatment: Moments, theta: Sequence[float] = ()) -> Skewed:
    """Compare two variants by their means.

    Moments are of (y, covariate, …), as of `Moments.build_with_third`; `theta` are coefficients of
    covariates to take out, as of `cuped_mean`. Refusals: `not_applicable` without third moments,
    `too_few_units`.

    Example:
        >>> control = Moments.build_with_third([0, 0, 0, 0, 1, 0, 9, 2])
        >>> means(control, Moments.build_with_third([0, 3])).treatment
        1.5
    """
    return strata([control], [treatment], [1.0], theta=theta)


def ratios(control: Moments, treatment: Moments, theta: Sequence[float] = ()) -> Skewed:
    """Compare two variants by their ratios, linearised (Deng, Knoblich and Lu 2018).

    Arguments and refusals as in `means`, with moments of (numerator, denominator, covariate, …);
    also `zero_denominator`.

    Example:
        >>> control = Moments.build_with_third([1, 0, 2, 1], [4, 5, 6, 5])
        >>> ratios(control, Moments.build_with_third([2, 1], [4, 6])).treatment
        0.3
    """
    return strata([control], [treatment], [1.0], True, theta)


def strata(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    shares: Sequence[float],
    is_ratio: bool = False,
    theta: Sequence[float] = (),
) -> Skewed:
    """Compare two variants by strata, each with its share.

    Example:
        >>> first = Moments.build_with_third([0, 1]), Moments.build_with_third([2, 4])
        >>> strata([first[0], first[1]], [first[0], first[1]], [0.5, 0.5]).control
        1.75
    """
    (
        (control_value, control_moved, control_spreads, control_dfs),
        (treatment_value, treatment_moved, treatment_spreads, treatment_dfs),
    ) = (_estimate_arm(arm, shares, is_ratio, theta) for arm in (control, treatment))
    df = math.inf
    if is_ratio:
        spreads = [*control_spreads, *treatment_spreads]
        df = _estimate_df(spreads, [*shares] * 2, [*control_dfs, *treatment_dfs])
    # Covariates move both values to where all units are.
    units = [sum(m.n for m in arm) for arm in (control, treatment)]
    shift = (treatment_moved - control_moved) / sum(units)
    values = control_value + units[1] * shift, treatment_value - units[0] * shift
    pairs = zip(shares, control_spreads, treatment_spreads, strict=True)
    scaled = all(map(_can_be_nonnegative, (*control, *treatment))) and min(values) >= 0
    return Skewed(*values, tuple(Stratum(*pair) for pair in pairs), scaled, df)


def _estimate_df(spreads: Sequence[Spread], shares: Sequence[float], dfs: Sequence[float]) -> float:
    """Return the degrees of freedom of ratios' spreads, by the units that count."""
    terms = [
        share**2 * spread.square / spread.units / (spread.units - 1)
        for share, spread in zip(shares, spreads, strict=True)
    ]
    return satterthwaite(terms, dfs) if sum(terms) > 0 else math.inf


def _estimate_arm(
    cells: Sequence[Moments], shares: Sequence[float], is_ratio: bool, theta: Sequence[float]
) -> tuple[float, float, list[Spread], list[float]]:
    """Return a variant's value, the covariates' part of it, its spreads and their df."""
    terms, coefficients = 1 + is_ratio, np.asarray(theta, dtype=np.float64)
    picked = [moments.pick(*range(terms + coefficients.size)) for moments in cells]
    centre, weights, corrected = centre_strata(picked, shares, is_ratio)
    value = float(centre[0] / centre[1]) if is_ratio else float(centre[0])
    weights[terms:] = -coefficients
    spreads = list[Spread]()
    for moments in corrected:
        if moments.third is None:
            raise Refusal("not_applicable", "the third moments of the values are not known")
        if moments.n < 2:
            raise Refusal("too_few_units", f"a variance needs at least two units, got {moments.n}")
        cube = float(weights @ (weights @ (moments.third @ weights)))
        square = compute_quadratic_form(weights, moments.comoment)
        spreads.append(Spread(moments.n, square, cube))
    moved = float(coefficients @ centre[terms:])
    return value, moved, spreads, [moments.df for moments in corrected]


def _can_be_nonnegative(moments: Moments) -> bool:
    """Tell whether variable 0 may be non-negative.

    Then E[y]·E[y³] ≥ E[y²]² holds.
    """
    if moments.third is None or moments.n == 0:
        return False
    mean, n = float(moments.mean[0]), moments.n
    variance = float(moments.comoment[0, 0]) / n
    square = mean * mean + variance
    cube = mean**3 + 3 * mean * variance + float(moments.third[0, 0, 0]) / n
    return mean >= 0 and cube >= 0 and mean * cube >= square * square * (1 - _ROUNDING)


def measure_skewness(compared: Skewed) -> float:
    """Return the skewness of the difference over all splits, under no effect.

    It is zero at even splits. Welch's test rejects too often on one side and too seldom on the
    other, by about 8.5 percentage points times the skewness.

    Example:
        >>> many, few = map(Moments.build_with_third, ([0, 0, 0, 0, 1, 0, 9, 2], [0, 3]))
        >>> round(measure_skewness(means(many, few)), 3)
        0.978
    """
    return _spread_of_splits(compared)[1]


def measure_skewness_at_effects(compared: Skewed) -> float:
    """Return the larger skewness at a gain and a loss that can be found.

    An effect of 2.8 standard errors is found in four of five experiments. If an effect multiplies
    values, one variant's values are larger, and their skewness does not cancel the other's, even at
    an even split. The result is 0 if an effect adds to values.

    Example:
        >>> random = np.random.default_rng(1)
        >>> spent = Moments.build_with_third(np.where(random.random(1_000) < 0.03, 9.0, 0.0))
        >>> compared = means(spent, spent)
        >>> measure_skewness(compared), round(measure_skewness_at_effects(compared), 2)
        (0.0, 0.18)
    """
    if not compared.scaled:
        return 0.0
    value, _ = estimate_baseline(compared, 1.0)
    if value <= 0:
        return 0.0
    effect = FINDABLE * _spread_of_splits(compared)[0] / value
    ratios = (1 + effect, 1 - min(effect, _MOST_LOSS))
    return max(abs(measure_skewness_at_ratio(compared, ratio)) for ratio in ratios)


def convert_test_to_z(compared: Skewed) -> float:
    """Return the z of a normal test with the same p-value.

    Example:
        >>> arm = Moments.build_with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> convert_test_to_z(means(arm, arm))
        0.0
    """
    test = _evaluate_no_effect(compared)
    log10 = test.tail(test.side).log10
    if log10 >= math.log10(0.5):
        return 0.0
    return test.side * -distributions.quantile(max(10**log10, 1e-300))


def estimate_variances(compared: Skewed) -> tuple[float, float]:
    """Return the sampling variances of both values, under no effect.

    Example:
        >>> arm = Moments.build_with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> [round(variance, 3) for variance in estimate_variances(means(arm, arm))]
        [1.94, 1.94]
    """
    parts = [
        (s.share**2 * (s.control.square + s.treatment.square) / (n + m - 2), n, m)
        for s in compared.strata
        for n, m in [(s.control.units, s.treatment.units)]
    ]
    return sum(part / n for part, n, _ in parts), sum(part / m for part, _, m in parts)


def effect(compared: Skewed, alpha: float = 0.05) -> Effect:
    """Test the difference by the permutation test, with the interval that agrees.

    Refusals: `too_few_units` if the interval of added values has no end, `zero_variance`.

    Example:
        >>> random = np.random.default_rng(1)
        >>> spent, more = random.lognormal(0, 1.5, 5_000), random.lognormal(0.3, 1.5, 100)
        >>> result = effect(means(Moments.build_with_third(spent), Moments.build_with_third(more)))
        >>> result.low < result.difference < result.high
        True
    """
    test, (low, high) = _evaluate_no_effect(compared), compute_difference_interval(compared, alpha)
    return Effect(
        control=compared.control,
        treatment=compared.treatment,
        difference=compared.treatment - compared.control,
        se=test.se,
        df=math.inf,
        low=low,
        high=high,
        statistic=test.z,
        p_value=min(1.0, 2 * test.tail(test.side).p_value),
        method=METHOD,
    )


def compute_difference_interval(compared: Skewed, alpha: float = 0.05) -> Interval:
    """Return the differences that the test does not reject.

    If the lift has no upper end, the difference's upper end assumes that the treatment adds to
    values. Refusals: As `effect`.

    Example:
        >>> arm = Moments.build_with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> low, high = compute_difference_interval(means(arm, arm))
        >>> low < 0 < high
        True
    """
    if not compared.scaled or compared.control == 0:
        return compute_effect_interval(compared._replace(scaled=False), alpha)
    limits, reach = compute_effect_interval(compared, alpha), two_sided_quantile(alpha)
    low = convert_end_to_difference(compared, limits.low, -reach)
    if math.isinf(limits.high):
        return Interval(low, compute_effect_interval(compared._replace(scaled=False), alpha).high)
    return Interval(low, convert_end_to_difference(compared, limits.high, reach))


def lift(compared: Skewed, alpha: float = 0.05) -> Lift:
    """Return the relative difference, with the lifts that the test does not reject.

    Refusals: As `effect`; also `control_near_zero`.

    Example:
        >>> arm = Moments.build_with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> lift(means(arm, arm)).value
        0.0
    """
    if compared.control == 0:
        raise Refusal("control_near_zero", "the control is zero: a relative effect has no meaning")
    limits = compute_effect_interval(compared, alpha)
    value = (compared.treatment - compared.control) / abs(compared.control)
    if compared.scaled:
        low, high = (end - 1 for end in limits)
        return Lift(value, low, high, math.isfinite(high), METHOD)
    base, se = estimate_baseline(compared, 1.0)
    if abs(base) <= two_sided_quantile(alpha) * se:
        return Lift(value, -math.inf, math.inf, False, METHOD)
    low, high = (end / abs(base) for end in limits)
    return Lift(value, low, high, True, METHOD)
