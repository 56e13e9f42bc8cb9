"""Test two ratios of sums by re-randomising, as the design did.

A large-sample test does not hold for few clusters, stores or slots of time, but the draw is known.
Without an effect, every other assignment would have shown the same values, so the test is exact
whatever the values are (Fisher 1935). Its statistic is a difference over its standard error, which
keeps the level also where effects vary and sizes differ (Chung and Romano 2013; Wu and Ding 2021).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, count, product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.records import Bools, Floats, Integers, Interval, Lift, Refusal

_MOST = 20_000
"""Up to this many assignments all are listed; of more, some are drawn."""

DRAWS, SEED = 9_999, 0
"""Default number of drawn assignments, and their seed."""

# Statistics this close to the observed one count as equal, for rounding.
_ALIKE = 1 - 1e-9

# Smaller weights of groups with both arms are rounding.
_NONE = 1e-9

_STEPS = 40

# A log lift beyond this counts as unbounded.
_FARTHEST = 20.0

# Precision of an end, relative to its distance from the estimate.
_PRECISION = 1e-4


class Assignments(NamedTuple):
    """Which units are treated in each assignment, shape (assignments, units).

    These are all assignments that the design can draw, or some of them, without the observed one.
    """

    treated: Bools
    is_exact: bool


def permuted_assignments(
    treated: ArrayLike,
    strata: ArrayLike | None = None,
    *,
    most: int = _MOST,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Assignments:
    """List or draw assignments with as many treated units in each stratum.

    Matched pairs are strata of two. If there are at most `most` assignments, all are listed.

    Example:
        >>> permuted_assignments([1, 0, 0]).treated.tolist()
        [[True, False, False], [False, True, False], [False, False, True]]
        >>> len(permuted_assignments([1, 0, 0, 1, 1, 0], [0, 0, 1, 1, 2, 2]).treated)
        8
    """
    observed = np.asarray(treated, dtype=bool)
    stratum = np.zeros(len(observed)) if strata is None else np.asarray(strata)
    members = [np.flatnonzero(stratum == number) for number in np.unique(stratum)]
    blocks = [(indices.tolist(), int(observed[indices].sum())) for indices in members]
    if math.prod(math.comb(len(indices), n) for indices, n in blocks) <= most:
        choices = [
            [*chain(*choice)] for choice in product(*(combinations(*block) for block in blocks))
        ]
        drawn = np.zeros((len(choices), len(observed)), dtype=bool)
        np.put_along_axis(drawn, np.array(choices, dtype=int), values=True, axis=1)
        return Assignments(drawn, is_exact=True)
    rng, drawn = np.random.default_rng(seed), np.zeros((draws, len(observed)), dtype=bool)
    for indices, n in blocks:
        drawn[:, indices] = rng.random((draws, len(indices))).argsort(axis=1) < n
    return Assignments(drawn, is_exact=False)


def coin_flip_assignments(treated: ArrayLike, coins: ArrayLike, draws: int = DRAWS) -> Assignments:
    """Re-randomise by flipping a fair coin per group of units.

    Slots of time are assigned like this: each by itself, or in pairs with one of the two treated.

    Example:
        >>> coin_flip_assignments([1, 0, 1], [0, 0, 1]).treated.astype(int).tolist()
        [[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]]
    """
    observed = np.asarray(treated, dtype=bool)
    groups, coin = np.unique(coins, return_inverse=True)
    # 2^coins assignments are listed if that is at most `_MOST`.
    is_exact = len(groups) < _MOST.bit_length()
    if is_exact:
        sides = np.array([*product((False, True), repeat=len(groups))], dtype=bool)
    else:
        sides = np.random.default_rng(SEED).random((draws, len(groups))) < 1 / 2
    return Assignments(observed ^ sides[:, coin], is_exact)


def min_units_for_alpha(alpha: float, coins: ArrayLike) -> int:
    """Return the units per arm needed for a p-value of alpha.

    `coins` has the coin of each unit. Units with the same coin are drawn together, so more units
    are needed.

    Example:
        >>> min_units_for_alpha(0.05, [0, 0, 0, 0]), min_units_for_alpha(0.05, [0, 0, 1, 1])
        (4, 6)
    """
    units, groups = np.size(coins), len(np.unique(coins))
    if groups == 1:
        return next(n for n in count(2) if 2 / math.comb(2 * n, n) <= alpha)
    return math.ceil(math.ceil(1 - math.log2(alpha)) * units / groups / 2)


@dataclass(frozen=True, eq=False)
class RandomisationTest:
    """Two ratios Σy / Σx, and alternative assignments of the design.

    Attributes:
        y: Numerator of each unit of randomisation, shape (units,); `x` is its denominator.
        treated: Which of the units are treated.
        assignments: Other assignments that the design could have drawn; any design is allowed.
        within: Group of each unit, such as an hour of the day, that does not depend on the
            assignment. The groups' means are taken out (Frisch, Waugh and Lovell). None for no
            groups.

    Example:
        >>> y, x, treated = np.array([1, 2, 3, 7, 8, 9.0]), np.full(6, 10.0), np.arange(6) > 2
        >>> test = RandomisationTest(y, x, treated, permuted_assignments(treated))
        >>> test.p_value(), round(test.p_value(0.6), 6)
        (0.1, 1.0)
    """

    y: Floats
    x: Floats
    treated: Bools
    assignments: Assignments
    within: Integers | None = None

    @property
    def difference(self) -> float:
        """Return the difference of the ratios, within groups if there are any.

        Refusals: `zero_denominator`; `too_few_units` if no group has both arms.
        """
        control, treatment = self.ratios
        if self.within is None:
            return treatment - control
        if abs(self._additive_statistics.d_1[0]) < _NONE:
            raise Refusal("too_few_units", "no group has units of both arms")
        return -self._additive_statistics.root

    @property
    def least(self) -> float:
        """Return the smallest possible p-value."""
        count = len(self.assignments.treated)
        # Where the variants may be exchanged, the opposite is as extreme.
        is_even = (self.assignments.treated == ~self.treated).all(axis=1).any()
        return float(1 + is_even) / count if self.assignments.is_exact else 1 / (1 + count)

    @property
    def ratios(self) -> tuple[float, float]:
        """Return the observed ratios of control and of treatment.

        Refusals: `zero_denominator`.
        """
        arms = ~self.treated, self.treated
        if not all(self.x[arm].sum() for arm in arms):
            raise Refusal("zero_denominator", "the denominator of the ratio sums to zero")
        control, treatment = (float(self.y[arm].sum() / self.x[arm].sum()) for arm in arms)
        return control, treatment

    def p_value(self, difference: float = 0.0) -> float:
        """Return the two-sided p-value of a difference, the same for every unit of x."""
        return self._share(self._additive_statistics, -difference)

    def interval(self, alpha: float = 0.05) -> Interval:
        """Return the differences not rejected by the test; all if it can reject none.

        Refusals: `zero_denominator`.
        """
        low, high = self.ratios
        step = abs(high - low) / 2 or abs(low) / 100 or 1.0
        return self._search_ends(self.p_value, self.difference, step, alpha)

    def lift(self, alpha: float = 0.05) -> Lift:
        """Return the lift, with an interval of lifts that the test does not reject.

        Refusals: `control_near_zero`, `zero_denominator`.
        """
        control, treatment = self.ratios
        if min(control, treatment) <= 0:
            raise Refusal("control_near_zero", "a ratio is not above zero: there is no multiple")
        scaled, value = self._multiplicative_statistics, math.log(treatment / control)
        if self.within is not None:
            value = -math.log1p(max(scaled.root, -1 + 1e-9))
        step = abs(value) / 2 or 0.01

        def p_value(log_ratio: float) -> float:
            return self._share(scaled, math.expm1(min(-log_ratio, _FARTHEST)))

        ends = self._search_ends(p_value, value, step, alpha)
        bounded = max(map(abs, ends)) < _FARTHEST
        low, high = map(math.expm1, ends) if bounded else (-math.inf, math.inf)
        return Lift(math.expm1(value), low, high, bounded, METHOD)

    def _search_ends(
        self, p_value: Callable[[float], float], start: float, step: float, alpha: float
    ) -> Interval:
        """Search outwards from the estimate for where the test rejects."""
        ends = []
        for inside, outside in ((start, start - step), (start, start + step)):
            for _ in range(_STEPS if self.least <= alpha else 0):
                if p_value(outside) <= alpha:
                    break
                inside, outside = outside, start + 3 * (outside - start)
            else:
                ends.append(math.copysign(math.inf, outside - start))
                continue
            while abs(outside - inside) > _PRECISION * abs(outside - start):
                middle = (inside + outside) / 2
                rejects = p_value(middle) <= alpha
                inside, outside = (inside, middle) if rejects else (middle, outside)
            ends.append(outside)
        return Interval(*ends)

    def _share(self, statistics: "_Statistics", factor: float) -> float:
        """Return the share of assignments with a statistic as large as observed."""
        z = statistics.evaluate(factor)
        extreme = int((z[1:] >= z[0] * _ALIKE).sum())
        # Phipson and Smyth 2010.
        return extreme / (len(z) - 1) if self.assignments.is_exact else (1 + extreme) / len(z)

    @cached_property
    def _additive_statistics(self) -> "_Statistics":
        """Return the statistics for an effect that adds a multiple of x."""
        # A common ratio changes no difference, and rounding is less without it.
        return _Statistics.build(self, self.y - self.y.sum() / self.x.sum() * self.x, self.x)

    @cached_property
    def _multiplicative_statistics(self) -> "_Statistics":
        """Return the statistics for an effect that adds a multiple of y."""
        return _Statistics.build(self, self.y, self.y)


METHOD = "randomisation"


class _Statistics(NamedTuple):
    """The statistic of each assignment as a function of the effect f.

    Let u = y + f·v, with v for treated units only. The difference of Σu / Σx is d₀ + f·d₁, and its
    variance by the delta method is v₀ + 2f·v₁ + f²·v₂. Each coefficient has the shape
    (assignments,).
    """

    d_0: Floats
    d_1: Floats
    v_0: Floats
    v_1: Floats
    v_2: Floats

    @classmethod
    def build(cls, test: RandomisationTest, y: Floats, added: Floats) -> "_Statistics":
        """Sum y, x and the effect on the observed treated, for each assignment."""
        x, v = test.x, np.where(test.treated, added, 0.0)
        if test.within is not None:
            y, v = (values - x * _share_of_group(values, x, test.within) for values in (y, v))
        columns = np.stack([y, v, x, y * y, y * v, v * v, y * x, v * x, x * x])
        every = np.vstack([test.treated[None], test.assignments.treated]).astype(np.float64)
        treated, n = columns @ every.T, every.sum(axis=1)
        control = _estimate_arm_terms(columns.sum(axis=1)[:, None] - treated, len(y) - n)
        treatment = _estimate_arm_terms(treated, n)
        # Of a single unit there is no variance: then the differences are compared.
        has_variance = 1 < n[0] < len(y) - 1
        variances = treatment[2:] + control[2:] if has_variance else np.eye(3)[:, [0] * len(every)]
        with np.errstate(invalid="ignore"):
            return cls(*(treatment[:2] - control[:2]), *variances)

    @property
    def root(self) -> float:
        """Return the effect at which the observed difference vanishes."""
        return -float(self.d_0[0] / self.d_1[0])

    def evaluate(self, factor: float) -> Floats:
        """Return the absolute statistics at an effect."""
        variance = self.v_0 + factor * (2 * self.v_1 + factor * self.v_2)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.abs(self.d_0 + factor * self.d_1) / np.sqrt(np.maximum(variance, 0.0))
        return np.where(np.isnan(z), 0.0, z)


def _share_of_group(y: Floats, x: Floats, group: Integers) -> Floats:
    """Return the ratio of each unit's group, 0 where it has no denominator."""
    above, below = (np.bincount(group, values) for values in (y, x))
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)[group]


def _estimate_arm_terms(sums: Floats, units: Floats) -> Floats:
    """Return one arm's ratios of y and v to x, and their variance terms."""
    y, v, x, yy, yv, vv, yx, vx, xx = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = y / x, v / x
        scale = units / np.maximum(units - 1, 1) / x**2
        # A draw without units in an arm has no statistic.
        left = yy - 2 * a * yx + a * a * xx, yv - a * vx - b * yx + a * b * xx
        return np.stack([a, b, *(scale * term for term in (*left, vv - 2 * b * vx + b * b * xx))])
