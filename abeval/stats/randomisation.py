"""Test two ratios of sums by drawing the assignment again, as the design drew it.

Few clusters, stores or slots of time have no large-sample test, but the draw is known: under no
effect every other assignment would have shown the same values. So the test is exact whatever the
values are (Fisher 1935). Its statistic is a difference over its standard error, which keeps the
level also where effects vary and sizes differ (Chung and Romano 2013; Wu and Ding 2021).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.records import Bools, Floats, Interval, Lift, Refusal

MOST = 20_000
"""So many assignments are all listed; of more, some are drawn."""

DRAWS, SEED = 9_999, 0
"""Assignments that are drawn, and their seed, where a caller names none."""

_ALIKE = 1 - 1e-9
"""A statistic as large as the observed one, up to rounding."""

_STEPS = 40


class Assignments(NamedTuple):
    """Which units are treated in each assignment, shape (assignments, units).

    They are all that the design can draw, or some of them, without the observed one.
    """

    treated: Bools
    is_exact: bool


def assignments(
    treated: ArrayLike,
    strata: ArrayLike | None = None,
    *,
    most: int = MOST,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Assignments:
    """Draw again which units are treated: as many as were, in each stratum.

    Matched pairs are strata of two. Where there are at most `most` assignments, each is listed.

    Example:
        >>> assignments([1, 0, 0]).treated.tolist()
        [[True, False, False], [False, True, False], [False, False, True]]
        >>> len(assignments([1, 0, 0, 1, 1, 0], [0, 0, 1, 1, 2, 2]).treated)
        8
    """
    observed = np.asarray(treated, dtype=bool)
    stratum = np.zeros(len(observed), int) if strata is None else np.asarray(strata)
    places = [np.flatnonzero(stratum == one) for one in np.unique(stratum)]
    counts = [int(observed[own].sum()) for own in places]
    if math.prod(math.comb(len(own), n) for own, n in zip(places, counts, strict=True)) <= most:
        choices = (combinations(own, n) for own, n in zip(places, counts, strict=True))
        listed = [np.concatenate(one).astype(int) for one in product(*choices)]
        drawn = np.zeros((len(listed), len(observed)), dtype=bool)
        np.put_along_axis(drawn, np.array(listed), values=True, axis=1)
        return Assignments(drawn, is_exact=True)
    rng, drawn = np.random.default_rng(seed), np.zeros((draws, len(observed)), dtype=bool)
    for own, n in zip(places, counts, strict=True):
        drawn[:, own] = rng.random((draws, len(own))).argsort(axis=1) < n
    return Assignments(drawn, is_exact=False)


@dataclass(frozen=True, eq=False)
class Randomised:
    """Two ratios Σy / Σx, and the assignments that the design could have drawn.

    Attributes:
        y, x: Numerator and denominator of each unit of randomisation, shape (units,).
        treated: Which are treated.
        drawn: What else the design could have drawn; of any design.

    Example:
        >>> y, x, treated = [1, 2, 3, 7, 8, 9.0], [10.0] * 6, [0, 0, 0, 1, 1, 1]
        >>> test = Randomised(y, x, treated, assignments(treated))
        >>> test.p_value(), round(test.p_value(0.6), 6)
        (0.1, 1.0)
    """

    y: ArrayLike
    x: ArrayLike
    treated: ArrayLike
    drawn: Assignments

    @property
    def least(self) -> float:
        """Return the smallest p-value that there can be."""
        count = len(self.drawn.treated)
        if not self.drawn.is_exact:
            return 1 / (1 + count)
        # Where the variants may be exchanged, the opposite is as extreme.
        is_even = (self.drawn.treated == ~self._values[2]).all(axis=1).any()
        return float(1 + is_even) / count

    @cached_property
    def _values(self) -> tuple[Floats, Floats, Bools]:
        y, x = (np.asarray(one, dtype=np.float64) for one in (self.y, self.x))
        return y, x, np.asarray(self.treated, dtype=bool)

    @cached_property
    def ratios(self) -> tuple[float, float]:
        """Return the observed ratios of control and of treatment.

        Refusals: `zero_denominator`.
        """
        y, x, treated = self._values
        arms = [(float(y[own].sum()), float(x[own].sum())) for own in (~treated, treated)]
        if not all(below for _, below in arms):
            raise Refusal("zero_denominator", "the denominator of the ratio sums to zero")
        return arms[0][0] / arms[0][1], arms[1][0] / arms[1][1]

    def p_value(self, difference: float = 0.0) -> float:
        """Return the two-sided p-value of a difference, the same for every unit of x."""
        return self._p_value(self._shifted, -difference)

    def interval(self, alpha: float = 0.05) -> Interval:
        """Return the differences that the test does not reject; all where none can be.

        Refusals: `zero_denominator`.
        """
        low, high = self.ratios
        step = abs(high - low) / 2 or abs(low) / 100 or 1.0
        ends = (self._end(self.p_value, high - low, way * step, alpha) for way in (-1, 1))
        return Interval(*ends)

    def lift(self, alpha: float = 0.05) -> Lift:
        """Return the lift, with those that the test does not reject: each multiplies y.

        Refusals: `control_near_zero`, `zero_denominator`.
        """
        control, treatment = self.ratios
        if min(control, treatment) <= 0:
            raise Refusal("control_near_zero", "a ratio is not above zero: there is no multiple")
        value = math.log(treatment / control)

        def p_value(log_ratio: float) -> float:
            return self._p_value(self._scaled, math.expm1(-log_ratio))

        step = abs(value) / 2 or 0.01
        ends = [self._end(p_value, value, way * step, alpha) for way in (-1, 1)]
        bounded = all(map(math.isfinite, ends))
        low, high = map(math.expm1, ends) if bounded else (-math.inf, math.inf)
        return Lift(math.expm1(value), low, high, bounded, METHOD)

    def _end(
        self, p_value: Callable[[float], float], start: float, step: float, alpha: float
    ) -> float:
        """Seek from the estimate outwards where the test begins to reject."""
        if self.least > alpha:
            return math.copysign(math.inf, step)
        inside, outside = start, start + step
        for _ in range(_STEPS):
            if p_value(outside) <= alpha:
                break
            inside, outside = outside, outside + 2 * (outside - start)
        else:
            return math.copysign(math.inf, step)
        for _ in range(_STEPS):
            middle = (inside + outside) / 2
            if abs(outside - inside) <= 1e-6 * abs(step):
                break
            inside, outside = (inside, middle) if p_value(middle) <= alpha else (middle, outside)
        return outside

    def _p_value(self, sums: "_Sums", factor: float) -> float:
        observed = abs(sums.observed(factor))
        extreme = np.abs(sums.drawn(factor)) >= observed * _ALIKE
        if self.drawn.is_exact:
            return float(extreme.mean())
        # Phipson and Smyth 2010.
        return float((1 + extreme.sum()) / (1 + len(extreme)))

    @cached_property
    def _shifted(self) -> "_Sums":
        """Return sums by which what control would have shown adds to y a part of x."""
        y, x, treated = self._values
        # A common ratio changes no difference, and rounding is less without it.
        return _Sums.of(y - y.sum() / x.sum() * x, x, np.where(treated, x, 0.0), self)

    @cached_property
    def _scaled(self) -> "_Sums":
        """Return sums by which it adds a part of y."""
        y, x, treated = self._values
        return _Sums.of(y, x, np.where(treated, y, 0.0), self)


METHOD = "randomisation"


class _Sums(NamedTuple):
    """Sums of y, x, v and their products over the treated and the others of each assignment.

    Of u = y + factor·v all statistics follow from them. Shape (assignments, 9); the observed
    assignment comes first.
    """

    treated: Floats
    others: Floats
    units: tuple[int, int]

    @classmethod
    def of(cls, y: Floats, x: Floats, v: Floats, test: Randomised) -> "_Sums":
        columns = np.stack([y, x, v, y * y, x * x, v * v, y * x, y * v, x * v], axis=1)
        every = np.vstack([np.asarray(test.treated, dtype=bool)[None], test.drawn.treated])
        treated = every.astype(np.float64) @ columns
        count = int(every[0].sum())
        return cls(treated, columns.sum(axis=0) - treated, (count, len(y) - count))

    def observed(self, factor: float) -> float:
        """Return the statistic of the observed assignment."""
        return float(self._statistic(factor, slice(0, 1))[0])

    def drawn(self, factor: float) -> Floats:
        """Return the statistics of the others."""
        return self._statistic(factor, slice(1, None))

    def _statistic(self, factor: float, rows: slice) -> Floats:
        (t, t_se), (c, c_se) = (
            _ratio(sums[rows].T, factor, units)
            for sums, units in zip(self[:2], self.units, strict=True)
        )
        variance = t_se + c_se if min(self.units) > 1 else np.ones(len(t))
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (t - c) / np.sqrt(variance)
        return np.where(np.isnan(z), 0.0, z)


def _ratio(sums: Floats, factor: float, units: int) -> tuple[Floats, Floats]:
    """Return Σu / Σx and its variance by the delta method, of u = y + factor·v."""
    y, x, v, yy, xx, vv, yx, yv, xv = sums
    below = np.where(x == 0, np.nan, x)
    ratio = (y + factor * v) / below
    uu, ux = yy + 2 * factor * yv + factor**2 * vv, yx + factor * xv
    residual = np.maximum(uu - 2 * ratio * ux + ratio**2 * xx, 0.0)
    return ratio, residual / below**2 * units / max(units - 1, 1)
