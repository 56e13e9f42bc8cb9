"""The choice and the test of means without covariates, over thousands of experiments at once.

`skew.py` and `spread.py` judge simulated experiments by it. It is `compare_moments` over arrays;
`tests/calibration/test_at_once.py` holds the two together.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr
from scipy.stats import hypergeom

from abeval.inference.special_tests import FEW, FEW_UNEVEN, LIMIT, LIMIT_AT_EFFECTS, MOST, UNEVEN
from abeval.stats.distributions import skewed_tails
from abeval.stats.records import Floats
from abeval.stats.skewed import FINDABLE, TINY

Flags = NDArray[np.bool_]

ALPHA = 0.05
REACH = 1.959963984540054
ROUNDING = 1e-9
FAR = 1e4
"""A lift above this has to be ruled out, or its interval has no upper end."""


class Arm(NamedTuple):
    """Variants of many experiments with as many units each: Σy, and Σd² and Σd³ about the mean."""

    units: int
    total: Floats
    square: Floats
    cube: Floats

    @property
    def mean(self) -> Floats:
        """Mean of each."""
        return np.asarray(self.total / self.units)

    def part(self, of: slice) -> "Arm":
        """Some of the experiments."""
        return Arm(self.units, self.total[of], self.square[of], self.cube[of])

    def times(self, factor: float | Floats) -> "Arm":
        """The same values, each so many times as large."""
        units, total, square, cube = self
        return Arm(units, total * factor, square * factor**2, cube * factor**3)


def arm(sums: Floats, units: int) -> Arm:
    """From Σy, Σy² and Σy³, shape (experiments, 3)."""
    total, square, cube = sums.T
    mean = total / units
    centred = square - total * mean
    third = cube - 3 * mean * square + 2 * total * mean * mean
    return Arm(units, total, np.where(centred > 1e-12 * square, centred, 0.0), third)


class Sides(NamedTuple):
    """One-sided p-values, of a lower and of a higher value of the treatment."""

    lower: Floats
    upper: Floats

    @property
    def sign(self) -> Floats:
        """−1 or 1 where a side rejects, else 0."""
        return np.asarray(1.0 * (self.upper < ALPHA / 2) - 1.0 * (self.lower < ALPHA / 2))

    def where(self, condition: Flags, other: "Sides") -> "Sides":
        """These where the condition holds, else the others."""
        pairs = zip(self, other, strict=True)
        return Sides(*(np.where(condition, one, two) for one, two in pairs))


class Judged(NamedTuple):
    """What the analysis says.

    Attributes:
        sides: P-values of the test that is chosen; NaN where refused.
        refused: Without an answer.
        permuted: By the test of skewed values.
        exact: By the exact test.
        unbounded: The lift has no upper end.
    """

    sides: Sides
    refused: Flags
    permuted: Flags
    exact: Flags
    unbounded: Flags


def judge(control: Arm, treatment: Arm) -> Judged:
    """Whether the treatments differ, by the test that the analysis chooses."""
    with np.errstate(all="ignore"):
        test, skewness = by_moments(control, treatment)
        scaled = _never_negative(control) & _never_negative(treatment)
        unbounded = by_moments(control, treatment, FAR)[0].lower > ALPHA / 2
        unbounded = (unbounded | (control.total <= 0)) & scaled
        exact = _rare(control, treatment)
        hardly = at_effects(control, treatment) <= LIMIT_AT_EFFECTS
        hardly |= ~scaled | _binary(control, treatment)[0]
        skewed = ((np.abs(skewness) > LIMIT) | ~hardly) & ~exact
        varies = control.square + treatment.square > 0
        refused = skewed & (np.abs(skewness) > MOST) | ~varies
        sides = test.where(skewed, welch(control, treatment))
        if exact.any():
            sides = _fisher(control, treatment, exact).where(exact, sides)
    nothing = Sides(*(np.full(refused.shape, np.nan) for _ in sides))
    permuted = skewed & ~refused
    sides = nothing.where(refused, sides)
    return Judged(sides, refused, permuted, exact & ~refused, unbounded & permuted)


def covers(control: Arm, treatment: Arm, lift: float, judged: Judged) -> Floats:
    """Whether the interval holds the true lift; NaN where refused or by an exact test."""
    with np.errstate(all="ignore"):
        by_skewed = _holds(by_moments(control, treatment, 1 + lift)[0])
        by_welch = _holds(welch(control.times(1 + lift), treatment))
    covered = np.where(judged.permuted, by_skewed, by_welch).astype(float)
    return np.where(judged.refused | judged.exact, np.nan, covered)


def covers_difference(control: Arm, treatment: Arm, by: float, judged: Judged) -> Floats:
    """Whether the interval holds the true difference; NaN where refused, exact or unbounded."""
    with np.errstate(all="ignore"):
        moved = treatment._replace(total=treatment.total - by * treatment.units)
        covered = _holds(welch(control, moved)).astype(float)
        if judged.permuted.any():
            low, high = _differences(control, treatment)
            covered = np.where(judged.permuted, (low <= by) & (by <= high), covered)
    return np.where(judged.refused | judged.exact | judged.unbounded, np.nan, covered)


def _differences(control: Arm, treatment: Arm) -> tuple[Floats, Floats]:
    """Ends of the interval of the difference by the test of skewed values, of values ≥ 0."""
    far = np.full(control.total.shape, np.log(FAR))
    at = np.clip(np.log(treatment.mean / control.mean), -far, far)
    low = _last(control, treatment, at, -far, "upper")
    return (
        _difference_at(control, treatment, np.exp(low), -REACH),
        _difference_at(
            control, treatment, np.exp(_last(control, treatment, at, far, "lower")), REACH
        ),
    )


def _last(control: Arm, treatment: Arm, inside: Floats, outside: Floats, side: str) -> Floats:
    """The logarithm of the ratio that a side just does not reject, between the two, by halves."""
    for _ in range(40):
        middle = (inside + outside) / 2
        sides = by_moments(control, treatment, np.exp(middle))[0]
        rejected = (sides.upper if side == "upper" else sides.lower) < ALPHA / 2
        inside, outside = np.where(rejected, inside, middle), np.where(rejected, middle, outside)
    return inside


def _difference_at(control: Arm, treatment: Arm, ratio: Floats, reach: float) -> Floats:
    """`stats.skewed.difference_at` over arrays."""
    units = control.units + treatment.units
    error = np.sqrt(control.square + treatment.square / ratio**2) / units
    base = (control.total + treatment.total / ratio) / units
    of_ratio = np.abs(treatment.mean / control.mean - ratio) * base
    of_base = np.abs(ratio - 1) * np.minimum(abs(reach) * error, 0.99 * base)
    return np.asarray(
        (ratio - 1) * base + np.sign(reach) * (np.hypot(of_ratio, of_base) - of_ratio)
    )


def _holds(sides: Sides) -> Flags:
    return np.asarray((sides.lower >= ALPHA / 2) & (sides.upper >= ALPHA / 2))


def welch(control: Arm, treatment: Arm) -> Sides:
    """Welch's test."""
    first, second = (one.square / (one.units - 1) / one.units for one in (control, treatment))
    variance = first + second
    with np.errstate(all="ignore"):
        t = (treatment.mean - control.mean) / np.sqrt(variance)
        free = variance**2 / (first**2 / (control.units - 1) + second**2 / (treatment.units - 1))
    return Sides(stdtr(free, t), stdtr(free, -t))


def by_moments(control: Arm, treatment: Arm, ratio: float | Floats = 1.0) -> tuple[Sides, Floats]:
    """The test of skewed values that treatment is `ratio` times control, and the skewness."""
    split, skewness = by_splits(control, treatment, ratio)
    own = hall(control, treatment, ratio)
    return Sides(*(np.maximum(p, q) for p, q in zip(split, own, strict=True))), skewness


def by_splits(control: Arm, treatment: Arm, ratio: float | Floats = 1.0) -> tuple[Sides, Floats]:
    """The permutation test by its moments alone, and the skewness."""
    n, m, scaled = control.units, treatment.units, treatment.times(1 / ratio)
    square = (control.square + scaled.square) / (n + m - 2)
    cube = (control.cube + scaled.cube) * (n + m) / (n + m - 1) / (n + m - 2)
    ways = []
    for more in (1.0, ratio):
        of, third_of = ((n + m) / (n * times + m) for times in (more, more**2))
        of_square = square * (of * more / n + of / m)
        ways.append((of_square, cube * (third_of / m**2 - third_of * more**2 / n**2)))
    variance = np.maximum(ways[0][0], ways[1][0])
    z = (scaled.mean - control.mean) / np.sqrt(variance)
    z = z * np.sqrt((n + m - 1) / (n + m - 2 + z * z))
    # Where both ways are as uncertain, as at equal sizes, higher values count.
    higher = ways[1][0] <= ways[0][0] * (1 + ROUNDING)
    skewness = np.where(higher, ways[0][1], ways[1][1]) / variance**1.5
    return Sides(skewed_tails(-z, -skewness), skewed_tails(z, skewness)), skewness


def hall(control: Arm, treatment: Arm, ratio: float | Floats = 1.0) -> Sides:
    """Hall's transformation of the difference by each variant's own moments."""
    scaled = treatment.times(1 / ratio)
    variance, third = own_moments(control, scaled)
    t, skewness = (scaled.mean - control.mean) / np.sqrt(variance), third / variance**1.5
    lean = np.where(np.abs(skewness) < TINY, 1.0, skewness)
    moved = ((1 + lean * t / 3) ** 3 - 1) / lean + lean / 6
    z = np.where(np.abs(skewness) < TINY, t, moved)
    return Sides(ndtr(z), ndtr(-z))


def johnson(control: Arm, treatment: Arm) -> Sides:
    """Johnson's modified t of two samples (1978), by each variant's own moments."""
    variance, third = own_moments(control, treatment)
    difference = treatment.mean - control.mean
    moved = difference + third / (6 * variance) + third * difference**2 / (3 * variance**2)
    z = moved / np.sqrt(variance)
    return Sides(ndtr(z), ndtr(-z))


def own_moments(control: Arm, treatment: Arm) -> tuple[Floats, Floats]:
    """Variance and third moment of the difference, by each variant's own."""
    (_, _, square, cube), (_, _, more, its) = control, treatment
    n, m = control.units, treatment.units
    return square / (n - 1) / n + more / (m - 1) / m, its / m**3 - cube / n**3


def at_effects(control: Arm, treatment: Arm) -> Floats:
    """The larger skewness at a gain and a loss that can be found."""
    n, m = control.units, treatment.units
    square = (control.square + treatment.square) / (n + m)
    cube = (control.cube + treatment.cube) / (n + m)
    se = np.sqrt(square * (n + m) / (n + m - 2) * (1 / n + 1 / m))
    effect = FINDABLE * se * (n + m) / (control.total + treatment.total)
    return np.maximum(
        *(
            np.abs(cube * (times**3 / m**2 - 1 / n**2)) / (square * (1 / n + times**2 / m)) ** 1.5
            for times in (1 + effect, 1 - np.minimum(effect, 0.9))
        )
    )


def _never_negative(one: Arm) -> Flags:
    mean, variance = one.mean, one.square / one.units
    square = mean * mean + variance
    cube = mean**3 + 3 * mean * variance + one.cube / one.units
    return np.asarray((mean >= 0) & (cube >= 0) & (mean * cube >= square * square * (1 - 1e-9)))


def _rare(control: Arm, treatment: Arm) -> Flags:
    """Where values are 0 and 1, and few of either in an arm."""
    fewer, more = sorted((control.units, treatment.units))
    limit = FEW_UNEVEN if more > UNEVEN * fewer else FEW
    binary, fewest = _binary(control, treatment)
    return np.asarray(binary & (fewest < limit))


def _binary(control: Arm, treatment: Arm) -> tuple[Flags, Floats]:
    """Where values are 0 and 1, and the fewest of either in an arm."""
    binary, fewest = np.ones(control.total.shape, dtype=bool), np.full(control.total.shape, np.inf)
    for one in (control, treatment):
        k, n = one.total, one.units
        binary &= (np.abs(k - np.round(k)) < 1e-9) & (k >= 0) & (k <= n)
        binary &= np.abs(one.square - k * (n - k) / n) <= 1e-11 * np.maximum(1, k)
        fewest = np.minimum(fewest, np.minimum(k, n - k))
    return binary, fewest


def _fisher(control: Arm, treatment: Arm, exact: Flags) -> Sides:
    """Fisher's exact test by its mid-p: the hypergeometric tails, less half of the table."""
    lower, upper = np.full((2, exact.size), np.nan)
    c, t = (np.round(one.total[exact]).astype(int) for one in (control, treatment))
    of = hypergeom(control.units + treatment.units, c + t, treatment.units)
    half = of.pmf(t) / 2
    lower[exact], upper[exact] = of.cdf(t) - half, of.sf(t - 1) - half
    return Sides(lower, upper)
