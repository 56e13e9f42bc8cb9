"""Test one hypothesis on two variants with skewed values, by three moments of their units.

If the variants do not differ, every split of all units into two groups of these sizes is as likely
as the one at hand, and Pearson's type III distribution with the moments of the difference over
those splits gives the p-values (Mielke and Berry 2001, chapter 2). Variants with one mean may still
vary unlike each other; then those moments are wrong, and the difference over its own standard
error, transformed by its own skewness (Hall 1992), is near the normal. A side's p-value is the
larger of the two, so that it holds in both cases (`benchmarks.calibration.spread`).
"""

import math
from typing import NamedTuple

from abeval.stats.distributions import skewed_tail, upper_tail
from abeval.stats.records import Refusal

_ROUNDING = 1e-9

TINY = 1e-5
"""Below this skewness a distribution is the normal."""


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
        """Return units of both variants."""
        return sum(s.control.units + s.treatment.units for s in self.strata)


class Own(NamedTuple):
    """A difference with its standard error and skewness by each variant's own moments."""

    difference: float
    se: float
    skewness: float


class Standing(NamedTuple):
    """A difference beside those of all splits, by moments alone.

    Attributes:
        z: The difference over its standard error if the variants do not differ.
        se: This standard error.
        skewness: Of the difference over all splits.
        own: The difference by each variant's own moments.
    """

    z: float
    se: float
    skewness: float
    own: Own


class At(NamedTuple):
    """The test of one hypothesis: where the difference stands, and log-precise p-values.

    Attributes:
        z: As of `Standing`, and so the next three.
        se: The standard error.
        skewness: Of the difference over all splits.
        own: The difference by each variant's own moments.
        lower: P-value of a lower value of the treatment, and its log10.
        upper: Of a higher one.
    """

    z: float
    se: float
    skewness: float
    own: Own
    lower: tuple[float, float]
    upper: tuple[float, float]


def standing(compared: Skewed, effect: float) -> Standing:
    """Place a difference among all splits if treatment is `effect` times control, or more by it.

    Raises:
        Refusal: `zero_variance`.

    Example:
        >>> arm = Spread(100, 400.0, 1_000.0)
        >>> standing(Skewed(1.0, 1.0, (Stratum(1.0, arm, arm),), True), 1.0).z
        0.0
    """
    ratio = effect if compared.scaled else 1.0
    shift = 0.0 if compared.scaled else effect
    variance, cube = _moments_of_splits(compared, ratio)
    if variance <= 0:
        raise Refusal("zero_variance", "neither variant varies: no test is possible")
    difference = compared.treatment / ratio - shift - compared.control
    se = math.sqrt(variance)
    free = max(compared.units - 2 * len(compared.strata), 1)
    # The difference itself is part of the spread of all units together.
    z = difference / se
    z *= math.sqrt((free + 1) / (free + z * z))
    return Standing(z, se, cube / se**3, _own(compared, ratio, difference))


def at(compared: Skewed, effect: float) -> At:
    """Test that treatment is `effect` times control, or more than control by it.

    Raises:
        Refusal: `zero_variance`.

    Example:
        >>> few, many = Spread(100, 400.0, 1_000.0), Spread(900, 3_600.0, 9_000.0)
        >>> compared = Skewed(1.0, 1.5, (Stratum(1.0, many, few),), True)
        >>> round(at(compared, 1.0).upper[0], 3), round(at(compared, 1.5).upper[0], 1)
        (0.011, 0.5)
    """
    z, se, skew, own = standing(compared, effect)
    lower = max(skewed_tail(-z, -skew), _hall(own, -1), key=_log)
    upper = max(skewed_tail(z, skew), _hall(own, 1), key=_log)
    return At(z, se, skew, own, lower, upper)


def _moments_of_splits(compared: Skewed, ratio: float) -> tuple[float, float]:
    """Return the variance of the difference over all splits, and its third moment.

    The treatment has higher values, or more units with one: of the two, what makes the difference
    less certain. Equal sizes make both as uncertain; higher values count then, which covers as well
    as both together, and refuses less.
    """
    variance = cube = 0.0
    for stratum in compared.strata:
        square, third = _split_moments(stratum, ratio, 2)
        more_units = _split_moments(stratum, ratio, 1)
        if more_units[0] > square * (1 + _ROUNDING):
            square, third = more_units
        variance += stratum.share**2 * square
        cube += stratum.share**3 * third
    return variance, cube


def _log(tail: tuple[float, float]) -> float:
    return tail[1]


def _own(compared: Skewed, ratio: float, difference: float) -> Own:
    """Return the difference of treatment / ratio and control by the moments of each."""
    variance = cube = 0.0
    for share, control, treatment in compared.strata:
        n, m = control.units, treatment.units
        variance += share**2 * control.square / (n - 1) / n
        variance += share**2 * treatment.square / ratio**2 / (m - 1) / m
        cube += share**3 * (treatment.cube / ratio**3 / m**3 - control.cube / n**3)
    se = math.sqrt(variance)
    return Own(difference, se, cube / se**3)


def _hall(own: Own, side: int) -> tuple[float, float]:
    """Return the p-value on a side by Hall's transformation, and its log10."""
    return upper_tail(side * hall(own.difference / own.se, own.skewness))


def skewness_if_times(compared: Skewed, ratio: float) -> float:
    """Return the difference's skewness if both have all units' spread, treatment's × `ratio`.

    Example:
        >>> arm = Spread(500, 2_000.0, 20_000.0)
        >>> even = Skewed(1.0, 1.0, (Stratum(1.0, arm, arm),), True)
        >>> skewness_if_times(even, 1.0), round(skewness_if_times(even, 2.0), 2)
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
    """Free a studentised statistic from the skewness of what it is of (Hall 1992).

    Example:
        >>> hall(2.0, 0.0), round(hall(2.0, 0.3), 3)
        (2.0, 2.477)
    """
    if abs(skewness) < TINY:
        return t
    return ((1 + skewness * t / 3) ** 3 - 1) / skewness + skewness / 6


def _split_moments(stratum: Stratum, ratio: float, power: int) -> tuple[float, float]:
    """Return the second and third moment of treatment / ratio less control over all splits.

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
    """Return two numbers, the first `times` the second, whose mean over n and m units is 1."""
    second = (n + m) / (n * times + m)
    return second * times, second
