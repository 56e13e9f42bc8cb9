"""Estimate quantiles of the mid-distribution, with ties and clusters."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats import means
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Floats, Integers, Interval, Refusal

PARTS = 2_000_000
"""Weight of a value below the quantile; the two neighbours get a part of it."""


class Step(NamedTuple):
    """Two neighbouring values and their middles.

    A middle is twice the number of values below a value, plus the number of values equal to it.
    """

    lower: float
    lower_middle: int
    upper: float
    upper_middle: int

    def share(self, at: float) -> float:
        """Return how far `at` lies from the lower value to the upper, 0 to 1."""
        return (at - self.lower_middle) / (self.upper_middle - self.lower_middle)

    def value(self, at: float) -> float:
        """Interpolate the value at a position between the two.

        Example:
            >>> Step(7.0, 90, 8.0, 110).value(100)
            7.5
        """
        return self.lower + (self.upper - self.lower) * self.share(at)

    def weights(self, at: float) -> tuple[int, int]:
        """Return how much each value counts as below a position, in `PARTS`.

        Example:
            >>> Step(7.0, 90, 8.0, 110).weights(100)
            (1500000, 500000)
        """
        upper = round(PARTS / 2 * self.share(at))
        return PARTS // 2 + upper, upper


def locate_quantile(n: int, level: float) -> float:
    """Return a quantile's position on the scale of `Step`: 2·n·level."""
    if not 0 < level < 1:
        raise ValueError(f"a quantile level lies between 0 and 1, got {level}")
    return 2 * n * level


class Distribution(NamedTuple):
    """The values that occur, in order, and the middles of `Step`."""

    values: Floats
    middles: Integers

    def step(self, at: float) -> Step | None:
        """Return the neighbours of a position; None beyond the outer middles."""
        i = int(np.searchsorted(self.middles, at, side="right")) - 1
        if i < 0 or i + 1 >= self.middles.size:
            return None
        lower, upper = self.values[i : i + 2].tolist()
        return Step(lower, int(self.middles[i]), upper, int(self.middles[i + 1]))


def build_distribution(values: Floats, times: NDArray[np.integer] | None = None) -> Distribution:
    """Build the distribution of values, each with a count, shape (n,).

    Example:
        >>> build_distribution(np.array([5.0, 3.0]), np.array([2, 1])).middles.tolist()
        [1, 4]
    """
    distinct, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if times is not None:
        counts = np.bincount(codes, times).astype(np.int64)
    return Distribution(distinct, 2 * np.cumsum(counts) - counts)


# With fewer independent values beyond a quantile, its interval ends among the last.
_MIN_TAIL = 10

# Standard errors always come from the ends of a 95 % interval.
_Z = two_sided_quantile(0.05)


class SidedEstimate(NamedTuple):
    """A quantile with one standard error downwards and one upwards.

    The two differ if values are sparser on one side: at the 90th percentile of a skewed value, or
    where the quantile jumps from one tied value to the next.
    """

    value: float
    below: float
    above: float
    units: int

    def towards(self, se: float) -> Estimate:
        """Return the estimate with the error of one side."""
        return Estimate(self.value, se * se, self.units, float(self.units - 1))


def design_effect(counts: Moments, level: float) -> float:
    """Divide the variance for clustered values by that for independent values.

    The result is the variance between units of the share of values below the quantile (delta
    method), divided by ν(1 − ν)/n, the variance for independent values without ties (Deng, Knoblich
    and Lu 2018). Moments over units are of (values below the quantile, values), with the weights of
    `Step.weights`. Refusals: `too_few_units`, `zero_denominator`.

    Example:
        >>> round(design_effect(Moments.of([2, 0, 1, 2, 0], [2, 2, 2, 2, 2]), 0.5), 6)
        2.0
    """
    events = counts.n * float(counts.mean[1])
    share = means.estimate_smooth(counts, means.ratio(0, 1))
    return share.variance * events / (level * (1 - level))


def pool_design_effects(effects: Sequence[float], units: Sequence[int]) -> list[float]:
    """Choose each variant's design effect: its own, or the pooled one if larger.

    In a small variant the own one is noisy; if it is too small by chance, the test would reject too
    often. The pooled one weighs variants by their units.

    Example:
        >>> pool_design_effects([2.0, 1.0], [900, 100])
        [2.0, 1.9]
    """
    everyone = float(np.average(effects, weights=units))
    return [max(effect, everyone) for effect in effects]


def ends(n: int, level: float, effect: float = 1.0) -> Interval:
    """Return levels whose quantiles form the 95 % interval (Woodruff 1952).

    The levels are ν ∓ z·√(D·ν(1 − ν)/n), for n values with the design effect D. Refusals:
    `too_few_units` if fewer than `_MIN_TAIL` independent values are expected beyond the quantile;
    `zero_variance` for a design effect of 0.

    Example:
        >>> low, high = ends(401, 0.9)
        >>> round(low, 4), round(high, 4)
        (0.8706, 0.9294)
    """
    if effect <= 0:
        raise Refusal("zero_variance", "every unit has the same share of values below")
    tail = estimate_tail_size(n, level, effect)
    if tail < _MIN_TAIL:
        few = f"{tail:.1f} independent values are expected beyond the quantile {level:g}"
        raise Refusal("too_few_units", f"{few}, fewer than {_MIN_TAIL}")
    # ν ∓ z·√(D·ν(1 − ν)/n).
    half = _Z * math.sqrt(effect * level * (1 - level) / n)
    return Interval(level - half, level + half)


def estimate_tail_size(n: int, level: float, effect: float = 1.0) -> float:
    """Return the expected independent values beyond a quantile.

    A design effect below 1, which ties can cause, does not raise this number.
    """
    return n * min(level, 1 - level) / max(effect, 1.0)


def estimate_from_ends(value: float, low: float, high: float, units: int) -> SidedEstimate:
    """Build a sided estimate from a quantile and the ends of its interval.

    Refusals: `zero_variance` if neither end differs from the quantile; `not_finite`.

    Example:
        >>> one = estimate_from_ends(893.0, 867.0, 925.0, 401)
        >>> round(one.below, 3), round(one.above, 3)
        (13.266, 16.327)
    """
    if not all(map(math.isfinite, (value, low, high))):
        raise Refusal("not_finite", "a quantile is infinite or missing")
    if high <= low:
        raise Refusal("zero_variance", f"the quantile is tied at {value}")
    return SidedEstimate(value, (value - low) / _Z, (high - value) / _Z, units)


def explain_no_quantile(n: int, level: float) -> Refusal:
    """Explain why a quantile does not lie between two observed values."""
    if estimate_tail_size(n, level) < _MIN_TAIL:
        return Refusal("too_few_units", f"{n} values are too few for the quantile {level:g}")
    message = f"so many values are the lowest or the highest that the quantile {level:g} is not"
    return Refusal("tied_quantile", f"{message} between two values")


_Pair = tuple[Estimate, Estimate]


def sides(control: SidedEstimate, treatment: SidedEstimate) -> tuple[_Pair, _Pair]:
    """Pair the estimates for the lower and for the upper end of a difference."""
    return (
        (control.towards(control.above), treatment.towards(treatment.below)),
        (control.towards(control.below), treatment.towards(treatment.above)),
    )
