"""Two variants with skewed values and uneven numbers of units: a permutation test by its moments.

Where one variant is much smaller, Welch's test divides by a spread that few units tell, which is
small when the mean is: with skewed values it then rejects too often. If the variants do not differ,
every split of all units into two groups of these sizes is as likely as the one at hand. The first
three moments of the difference over those splits are known exactly from the units of both
variants together, and Pearson's type III distribution with these moments gives the p-value (Mielke
and Berry 2001, chapter 2). The interval has the lifts that the same test does not reject.

`inference/skew.py` chooses it by `skewness`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln

from abeval.stats.arrays import Floats
from abeval.stats.distributions import check_alpha, quantile, two_sided_quantile, upper_tail
from abeval.stats.moments import Moments
from abeval.stats.ratios import gradient, quadratic
from abeval.stats.records import Effect, Interval, Lift, Refusal

METHOD = "permutation_moments"

THIN = 0.5
"""The tail on the side where values end counts on no more skewness than this.

What rare large values add to the skewness does not make that tail any thinner
(`benchmarks.calibration.skew`).
"""

_NORMAL = 1e-5
"""Below this skewness the distribution is the normal."""

_ROUNDING = 1e-9
_FAR = 1e4
"""An interval of a lift that holds this ratio, or one over it, has no end there."""

_FLOOR = -400.0
"""Of the logarithm of a p-value that is compared with a level."""


class Spread(NamedTuple):
    """How the units of a variant vary: their number, Σd² and Σd³ of distances d from its value."""

    units: int
    square: float
    cube: float


class Stratum(NamedTuple):
    """Units that are compared with each other: the stratum's share, and both spreads."""

    share: float
    control: Spread
    treatment: Spread


class Skewed(NamedTuple):
    """Two variants to compare.

    Attributes:
        control: Control's value.
        treatment: The treatment's.
        strata: One with share 1, or several.
        scaled: Whether an effect multiplies values, as of metrics that are never negative; else it
            is added to them.
    """

    control: float
    treatment: float
    strata: tuple[Stratum, ...]
    scaled: bool

    @property
    def units(self) -> int:
        """Units of both variants."""
        return sum(s.control.units + s.treatment.units for s in self.strata)


def means(control: Moments, treatment: Moments, theta: Sequence[float] = ()) -> Skewed:
    """Two variants by their means.

    Args:
        control: Moments of (y, covariate, …) with the third ones, such as `Moments.with_third` has.
        treatment: The same of the treatment.
        theta: Coefficients of the covariates that are taken out, as of `cuped.mean`.

    Raises:
        Refusal: `not_applicable` without third moments, `too_few_units`.

    Example:
        >>> control = Moments.with_third([0, 0, 0, 0, 1, 0, 9, 2])
        >>> means(control, Moments.with_third([0, 3])).treatment
        1.5
    """
    return _of([control], [treatment], [1.0], False, theta)


def ratios(control: Moments, treatment: Moments, theta: Sequence[float] = ()) -> Skewed:
    """Two variants by their ratios, linearised (Deng, Knoblich and Lu 2018).

    Arguments and refusals as in `means`, with moments of (numerator, denominator, covariate, …);
    also `zero_denominator`.

    Example:
        >>> control = Moments.with_third([1, 0, 2, 1], [4, 5, 6, 5])
        >>> ratios(control, Moments.with_third([2, 1], [4, 6])).treatment
        0.3
    """
    return _of([control], [treatment], [1.0], True, theta)


def strata(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    shares: Sequence[float],
    is_ratio: bool = False,
) -> Skewed:
    """Two variants by strata of units, each with its share; the split may differ between them.

    Example:
        >>> first = Moments.with_third([0, 1]), Moments.with_third([2, 4])
        >>> strata([first[0], first[1]], [first[0], first[1]], [0.5, 0.5]).control
        1.75
    """
    return _of(control, treatment, shares, is_ratio, ())


def skewness(compared: Skewed) -> float:
    """Skewness of the difference over all splits of the units, if the variants do not differ.

    Zero at even splits. By it the error rates of Welch's test on either side differ: each is
    off by some 8.5 points times it.

    Example:
        >>> few = Moments.with_third([0, 3])
        >>> round(skewness(means(Moments.with_third([0, 0, 0, 0, 1, 0, 9, 2]), few)), 3)
        0.978
    """
    return _at(compared, 1.0 if compared.scaled else 0.0).skewness


def normal_score(compared: Skewed) -> float:
    """The z of a normal test with the same p-value, for tests of repeated looks.

    Example:
        >>> arm = Moments.with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> normal_score(means(arm, arm))
        0.0
    """
    at = _at(compared, 1.0 if compared.scaled else 0.0)
    side, log10 = min((1.0, at.upper[1]), (-1.0, at.lower[1]), key=lambda one: one[1])
    if log10 >= math.log10(0.5):
        return 0.0
    return side * -quantile(max(10**log10, 1e-300))


def variances(compared: Skewed) -> tuple[float, float]:
    """Sampling variances of both values if the variants do not differ.

    Example:
        >>> arm = Moments.with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> [round(variance, 3) for variance in variances(means(arm, arm))]
        [1.94, 1.94]
    """
    parts = [
        (s.share**2 * (s.control.square + s.treatment.square) / (n + m - 2), n, m)
        for s in compared.strata
        for n, m in [(s.control.units, s.treatment.units)]
    ]
    return sum(part / n for part, n, _ in parts), sum(part / m for part, _, m in parts)


def effect(compared: Skewed, alpha: float = 0.05) -> Effect:
    """The difference, with the p-value of the permutation test and the interval that agrees.

    Args:
        compared: The two variants.
        alpha: Error rate of test and interval, half of it on each side.

    Raises:
        Refusal: `too_few_units` if the interval has no end, `zero_variance`.

    Example:
        >>> random = np.random.default_rng(1)
        >>> spent, more = random.lognormal(0, 1.5, 5_000), random.lognormal(0.3, 1.5, 100)
        >>> result = effect(means(Moments.with_third(spent), Moments.with_third(more)))
        >>> result.low < result.difference < result.high
        True
    """
    at = _at(compared, 1.0 if compared.scaled else 0.0)
    low, high = interval(compared, alpha)
    one_side = min((at.lower, at.upper), key=lambda side: side[1])
    p_value, log10 = min(1.0, 2 * one_side[0]), min(0.0, one_side[1] + math.log10(2))
    difference = compared.treatment - compared.control
    values = (compared.control, compared.treatment, difference, at.se, math.inf)
    return Effect(*values, low, high, at.z, p_value, log10, METHOD)


def interval(compared: Skewed, alpha: float = 0.05) -> Interval:
    """The differences that the test does not reject.

    Raises:
        Refusal: As `effect`.

    Example:
        >>> arm = Moments.with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> low, high = interval(means(arm, arm))
        >>> low < 0 < high
        True
    """
    ends = _ends(compared, alpha)
    if not compared.scaled:
        return ends
    reach = two_sided_quantile(alpha)
    low, high = (
        _difference_at(compared, ratio, reach * side)
        for ratio, side in zip(ends, (-1, 1), strict=True)
    )
    return Interval(low, high)


def lift(compared: Skewed, alpha: float = 0.05) -> Lift:
    """The relative difference, with the lifts that the test does not reject.

    Raises:
        Refusal: As `effect`; also `control_near_zero`.

    Example:
        >>> arm = Moments.with_third([1.0, 2.0, 3.0, 4.0, 9.0])
        >>> lift(means(arm, arm)).value
        0.0
    """
    if compared.control == 0:
        raise Refusal("control_near_zero", "the control is zero: a relative effect has no meaning")
    ends = _ends(compared, alpha)
    value = (compared.treatment - compared.control) / abs(compared.control)
    if compared.scaled:
        return Lift(value, ends.low - 1, ends.high - 1, True, METHOD)
    whole, se = _baseline(compared, 1.0)
    if abs(whole) <= two_sided_quantile(alpha) * se:
        return Lift(value, -math.inf, math.inf, False, METHOD)
    low, high = (end / abs(whole) for end in ends)
    return Lift(value, low, high, True, METHOD)


def times_units(compared: Skewed, times: float) -> Skewed:
    """The same variants with so many times the units.

    Example:
        >>> arm = Moments.with_third([0.0, 0.0, 0.0, 9.0])
        >>> times_units(means(arm, arm), 2.0).units
        16
    """

    def more(spread: Spread) -> Spread:
        units = round(spread.units * times)
        return Spread(units, spread.square * times, spread.cube * times)

    larger = (
        s._replace(control=more(s.control), treatment=more(s.treatment)) for s in compared.strata
    )
    return compared._replace(strata=tuple(larger))


class _At(NamedTuple):
    """The test of one hypothesis: the statistic, and log-precise one-sided p-values."""

    z: float
    se: float
    skewness: float
    lower: tuple[float, float]
    upper: tuple[float, float]


def _at(compared: Skewed, effect: float) -> _At:
    """The test that treatment is `effect` times control, or more than control by it."""
    ratio = effect if compared.scaled else 1.0
    shift = 0.0 if compared.scaled else effect
    variance, cube = 0.0, 0.0
    for stratum in compared.strata:
        # Higher values, or more of them: of the two, what makes the difference less certain.
        spread, skewed = max(_split_moments(stratum, ratio, power) for power in (2, 1))
        variance += stratum.share**2 * spread
        cube += stratum.share**3 * skewed
    if variance <= 0:
        raise Refusal("zero_variance", "neither variant varies: no test is possible")
    difference = compared.treatment / ratio - shift - compared.control
    se = math.sqrt(variance)
    free = max(compared.units - 2 * len(compared.strata), 1)
    # The difference itself is part of the spread of all units together.
    z = difference / se
    z *= math.sqrt((free + 1) / (free + z * z))
    skew = cube / se**3
    return _At(z, se, skew, _tail(-z, -skew), _tail(z, skew))


def _split_moments(stratum: Stratum, ratio: float, power: int) -> tuple[float, float]:
    """Second and third moment of the difference of treatment / ratio and control over all splits.

    Args:
        stratum: The units.
        ratio: How many times control's value the treatment's is.
        power: By which power of it variances differ: 2 where values are higher, 1 where more
            units have one.
    """
    _, control, treatment = stratum
    n, m = control.units, treatment.units
    square = (control.square + treatment.square / ratio**2) / (n + m - 2)
    cube = (control.cube + treatment.cube / ratio**3) * (n + m) / (n + m - 1) / (n + m - 2)
    # What a variant's moments are to those of both, in units of control.
    of_control, of_treatment = _parts(n, m, ratio ** (2 - power))
    third_of_control, third_of_treatment = _parts(n, m, ratio ** (2 * (2 - power)))
    return (
        square * (of_control / n + of_treatment / m),
        cube * (third_of_treatment / m**2 - third_of_control / n**2),
    )


def _parts(n: int, m: int, times: float) -> tuple[float, float]:
    """Two numbers, the first so many times the second, whose mean over n and m units is 1."""
    second = (n + m) / (n * times + m)
    return second * times, second


def _tail(z: float, skew: float) -> tuple[float, float]:
    """P(Z > z) of Pearson's type III distribution with this skewness, and its log10."""
    skew = max(skew, -THIN)
    if abs(skew) < _NORMAL:
        return upper_tail(z)
    shape = 4 / skew**2
    x = shape + z * math.sqrt(shape) * math.copysign(1, skew)
    if x <= 0:
        return (1.0, 0.0) if skew > 0 else (0.0, -math.inf)
    p = float(gammaincc(shape, x) if skew > 0 else gammainc(shape, x))
    if p > 1e-290:
        return p, math.log10(p)
    # The first term of either tail.
    log = shape * math.log(x) - x - float(gammaln(shape)) - math.log(x if skew > 0 else shape)
    return p, log / math.log(10)


@lru_cache(maxsize=256)
def _ends(compared: Skewed, alpha: float) -> Interval:
    """The smallest and the largest effect that the test does not reject."""
    check_alpha(alpha)
    return _ends_of_ratio(compared, alpha) if compared.scaled else _ends_of_shift(compared, alpha)


def is_bounded(compared: Skewed, alpha: float = 0.05) -> bool:
    """Whether the interval has an upper end, which `effect`, `interval` and `lift` need.

    Example:
        >>> few = Moments.with_third([0.0, 0.0, 9.0])
        >>> is_bounded(means(Moments.with_third([0.0, 1.0] * 50), few))
        False
    """
    if not compared.scaled:
        return True
    return compared.control > 0 and _at(compared, _FAR).lower[0] <= alpha / 2


def _ends_of_ratio(compared: Skewed, alpha: float) -> Interval:
    if not is_bounded(compared, alpha):
        raise Refusal("too_few_units", "the interval of the lift has no upper end")
    half, far = math.log10(alpha / 2), math.log(_FAR)

    def above(log: float) -> float:
        return max(_at(compared, math.exp(log)).upper[1], _FLOOR) - half

    def below(log: float) -> float:
        return max(_at(compared, math.exp(log)).lower[1], _FLOOR) - half

    ratio = compared.treatment / compared.control
    if ratio > 0:
        start = min(max(math.log(ratio), -far), far)
        # Values that are never negative cannot fall by more than 100 %.
        low = math.exp(_root(above, -far, start)) if above(-far) < 0 < above(start) else 0.0
        return Interval(low, math.exp(_root(below, start, far)))
    if below(0.0) > 0:
        return Interval(0.0, math.exp(_root(below, 0.0, far)))
    return Interval(0.0, min(_most_without_any(compared, alpha), 1 - _ROUNDING))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    # Few analyses need it, and importing it costs all of them a quarter of a second.
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-12))


def _most_without_any(compared: Skewed, alpha: float) -> float:
    """The ratio from which on no unit of treatment having a value is as rare as half of alpha.

    At least E[y]² / E[y²] of the units have one, in control and times the ratio in treatment.
    """
    units = sum(s.treatment.units for s in compared.strata)
    square = sum(s.share * s.control.square / s.control.units for s in compared.strata)
    return -math.log(alpha / 2) * (1 + square / compared.control**2) / units


def _ends_of_shift(compared: Skewed, alpha: float) -> Interval:
    at, half = _at(compared, 0.0), math.log10(alpha / 2)
    difference = compared.treatment - compared.control
    free = max(compared.units - 2 * len(compared.strata), 1)

    def critical(skew: float) -> float:
        z = 1.0
        while _tail(z, skew)[1] > half:
            z *= 1.5
        return _root(lambda v: max(_tail(v, skew)[1], _FLOOR) - half, 0.0, z)

    def half_width(skew: float) -> float:
        z = critical(skew)
        if z * z >= free + 1:
            raise Refusal("too_few_units", "the interval has no end")
        return at.se * z * math.sqrt(free / (free + 1 - z * z))

    return Interval(difference - half_width(at.skewness), difference + half_width(-at.skewness))


def _difference_at(compared: Skewed, ratio: float, reach: float) -> float:
    """The end of the interval of the difference where that of the lift ends at a ratio.

    Control's value is uncertain too, and independent of the test of a ratio. Its error never
    carries the end past zero, so that the two intervals agree.

    Args:
        compared: The two variants.
        ratio: The end of the interval of the lift, plus 1.
        reach: How many standard errors of control's value are in reach; negative for the lower end.
    """
    base, error = _baseline(compared, ratio)
    end = (ratio - 1) * base
    of_ratio = abs(compared.treatment / compared.control - ratio) * base
    of_base = abs(ratio - 1) * min(abs(reach) * error, 0.99 * base)
    return end + math.copysign(math.hypot(of_ratio, of_base) - of_ratio, reach)


def _baseline(compared: Skewed, ratio: float) -> tuple[float, float]:
    """Control's value and its error, by both variants' units if treatment is so many times it."""
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


def _of(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    shares: Sequence[float],
    is_ratio: bool,
    theta: Sequence[float],
) -> Skewed:
    first, second = (_arm(arm, shares, is_ratio, theta) for arm in (control, treatment))
    # Covariates move both values to where all units are.
    units = [sum(m.n for m in arm) for arm in (control, treatment)]
    apart = (second.moved - first.moved) / sum(units)
    values = first.value + units[1] * apart, second.value - units[0] * apart
    pairs = zip(shares, first.spreads, second.spreads, strict=True)
    scaled = all(map(_never_negative, (*control, *treatment))) and min(values) >= 0
    return Skewed(*values, tuple(Stratum(*pair) for pair in pairs), scaled)


class _Arm(NamedTuple):
    """A variant: its value, what the covariates explain of it, and the spread of each stratum."""

    value: float
    moved: float
    spreads: list[Spread]


def _arm(
    cells: Sequence[Moments], shares: Sequence[float], is_ratio: bool, theta: Sequence[float]
) -> _Arm:
    terms, coefficients = 2 if is_ratio else 1, np.asarray(theta, dtype=np.float64)
    means = np.array([m.mean[: terms + coefficients.size] for m in cells])
    centre = np.asarray(shares) @ means
    slope = gradient(centre[:terms]) if is_ratio else np.ones(1)
    weights = np.concatenate([slope, -coefficients])
    value = float(centre[0] / centre[1]) if is_ratio else float(centre[0])
    spreads = [_spread(m.pick(*range(weights.size)), weights) for m in cells]
    return _Arm(value, float(coefficients @ centre[terms:]), spreads)


def _spread(moments: Moments, weights: Floats) -> Spread:
    if moments.third is None:
        raise Refusal("not_applicable", "the third moments of the values are not known")
    if moments.n < 2:
        raise Refusal("too_few_units", f"a variance needs at least two units, got {moments.n}")
    cube = float(weights @ (weights @ (moments.third @ weights)))
    return Spread(moments.n, quadratic(weights, moments.comoment), cube)


def _never_negative(moments: Moments) -> bool:
    """Whether variable 0 may be: E[y]·E[y³] ≥ E[y²]² holds for all values that are not negative."""
    if moments.third is None or moments.n == 0:
        return False
    mean, n = float(moments.mean[0]), moments.n
    variance = float(moments.comoment[0, 0]) / n
    square = mean * mean + variance
    cube = mean**3 + 3 * mean * variance + float(moments.third[0, 0, 0]) / n
    return mean >= 0 and cube >= 0 and mean * cube >= square * square * (1 - _ROUNDING)
