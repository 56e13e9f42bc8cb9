"""Sets of hash groups that hold equal traffic: the machinery under `abeval.stats.catalogue`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from abeval.stats.exposure import (
    Floats,
    Functional,
    Integers,
    Spread,
    Totals,
    coverage_of_sets,
    spread_of_sets,
)
from abeval.threads import in_threads

CHUNK = 16
"""Sets of groups whose item totals a thread holds in memory at once."""

_BLOCK = 128
"""Items of one product of matrices: so small that BLAS leaves it to the thread that asks.

Larger ones it deals out to threads of its own, which get in the way of ours.
"""


class Arm(NamedTuple):
    """One variant's counts.

    Attributes:
        counts: Units or impressions, shape (groups, items).
        units: Units per group, shape (groups,).
    """

    counts: Totals
    units: Floats


class Measure(Protocol):
    """Functionals of the same counts, evaluated together."""

    @property
    def functionals(self) -> Sequence[Functional]:
        """Their names, in the order of the values."""

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """One variant's values at `at` units, shape (functionals, subsets).

        Args:
            arm: The variant.
            at: Units for each subset.
            orders: Subsets of the groups, each in the order in which to take them.
        """

    def against_rest(self, pooled: Arm, members: Totals, blocks: int, observed: float) -> Floats:
        """Every block less what the rest has at the block's traffic, (functionals, deals * blocks).

        Args:
            pooled: Both variants.
            members: Which groups each block holds, shape (deals * blocks, groups).
            blocks: Blocks of a deal.
            observed: Units of the smaller variant.
        """

    def dealt(self, groups: int, in_blocks: int) -> int:
        """Groups of a deal that count, of all and of those in a block."""


class Coverage(NamedTuple):
    """Coverage, by rarefying units; its counts are units.

    Attributes:
        size: Items that could have been shown.
    """

    size: int

    @property
    def functionals(self) -> Sequence[Functional]:
        """As `Measure` has it."""
        return ("coverage",)

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """As `Measure` has it."""
        members = np.zeros((len(orders), len(arm.units)), arm.counts.dtype)
        for row, order in enumerate(orders):
            members[row, order] = 1.0
        have = members @ arm.units

        def of(totals: Totals, chunk: slice) -> Floats:
            return coverage_of_sets(totals, have[chunk], at[chunk], self.size)[None]

        return _over_sets(arm, members, of)

    def against_rest(self, pooled: Arm, members: Totals, blocks: int, observed: float) -> Floats:
        """As `Measure` has it; the rest is all other groups, in a block or not."""
        units, shown = members @ pooled.units, pooled.counts.sum(axis=0)
        others = pooled.units.sum() - units
        at = np.minimum(units, others)

        def of(totals: Totals, chunk: slice) -> Floats:
            block = coverage_of_sets(totals, units[chunk], at[chunk], self.size)
            rest = coverage_of_sets(shown - totals, others[chunk], at[chunk], self.size)
            return (block - rest)[None]

        # Rare items are found in proportion to traffic, so at less of it differences are smaller.
        return np.asarray(_over_sets(pooled, members, of) * np.maximum(1.0, observed / at))

    def dealt(self, groups: int, in_blocks: int) -> int:
        """As `Measure` has it."""
        return groups


class Evenness(NamedTuple):
    """Gini and entropy, on equally large sets of groups; their counts are impressions.

    Attributes:
        size: Items that could have been shown.
        functionals: Which of the two.
    """

    size: int
    functionals: Sequence[Spread]

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """As `Measure` has it."""
        plans = [_plan(arm, float(m), order) for m, order in zip(at, orders, strict=True)]
        values = self._over_sets(arm, np.concatenate([plan.members for plan in plans]))
        weighted = values * np.concatenate([plan.weights for plan in plans])
        ends = np.cumsum([len(plan.weights) for plan in plans])
        return np.asarray(np.add.reduceat(weighted, np.concatenate(([0], ends[:-1])), axis=1))

    def against_rest(self, pooled: Arm, members: Totals, blocks: int, observed: float) -> Floats:
        """As `Measure` has it; the rest is the other blocks of the deal."""
        deals = self._over_sets(pooled, members).reshape(len(self.functionals), -1, blocks)
        centred = deals - deals.mean(axis=2, keepdims=True)
        return np.asarray(centred.reshape(len(self.functionals), -1) * blocks / (blocks - 1))

    def dealt(self, groups: int, in_blocks: int) -> int:
        """As `Measure` has it."""
        return in_blocks

    def _over_sets(self, arm: Arm, members: Totals) -> Floats:
        return _over_sets(arm, members, lambda t, _: spread_of_sets(t, self.size, self.functionals))


def at_equal_traffic(control: Arm, treatment: Arm, order: Integers, measure: Measure) -> Floats:
    """Both variants' values at the smaller one's units, shape (functionals, 2)."""
    at = np.array([min(control.units.sum(), treatment.units.sum())])
    return np.hstack([measure.values(arm, at, [order]) for arm in (control, treatment)])


def left_out(control: Arm, treatment: Arm, order: Integers, measure: Measure) -> Floats:
    """Both variants' values without each group in turn, shape (functionals, 2, groups)."""
    orders = [order[order != group] for group in range(len(order))]
    units = [arm.units.sum() - arm.units for arm in (control, treatment)]
    at = np.minimum(*units)
    return np.stack([measure.values(arm, at, orders) for arm in (control, treatment)], axis=1)


def redeals(
    control: Arm, treatment: Arm, measure: Measure, permutations: int, rng: np.random.Generator
) -> Floats:
    """Null differences, scaled to the observed numbers of units.

    Shape (functionals, permutations) or more of them.
    """
    pooled = _pooled(control, treatment)
    groups, sizes = len(pooled.units), np.array([control.units.sum(), treatment.units.sum()])
    length = int(groups * sizes.min() / sizes.sum() + 1e-9)
    blocks = groups // length
    deals = -(-permutations // blocks)
    dealt = np.stack([rng.permutation(groups)[: blocks * length] for _ in range(deals)])
    members = _members(dealt.reshape(deals * blocks, length), groups)
    against_rest = measure.against_rest(pooled, members, blocks, sizes.min())
    # A re-deal has the variance of 1/m + 1/rest units, the observed one of 1/n_c + 1/n_t.
    used = measure.dealt(groups, blocks * length)
    redealt = groups / sizes.sum() * (1 / length + 1 / (used - length))
    scale = np.sqrt(np.sum(1 / sizes) / redealt)
    finite = np.sqrt((groups - 1) / rng.chisquare(groups - 1, size=against_rest.shape[1]))
    return np.asarray(against_rest * scale * finite)


def _pooled(control: Arm, treatment: Arm) -> Arm:
    # Half the memory and time: a null distribution needs no sixteenth digit.
    counts = np.empty(control.counts.shape, np.float32)
    np.add(control.counts, treatment.counts, out=counts, casting="same_kind")
    return Arm(counts, control.units + treatment.units)


def _over_sets(arm: Arm, members: Totals, of: Callable[[Totals, slice], Floats]) -> Floats:
    """Functionals on every set of groups, one set per row of `members`, (functionals, sets)."""

    def of_chunk(start: int) -> Floats:
        chunk = slice(start, start + CHUNK)
        return of(_totals(members[chunk].astype(arm.counts.dtype), arm.counts), chunk)

    parts = in_threads(of_chunk, range(0, len(members), CHUNK))
    return np.concatenate(parts, axis=1)


def _totals(members: Totals, counts: Totals) -> Totals:
    """What each set was shown of each item, shape (sets, items): `members @ counts` by blocks."""
    totals = np.empty((len(members), counts.shape[1]), counts.dtype)
    even = counts.shape[1] // _BLOCK * _BLOCK
    np.matmul(members, _blocks(counts[:, :even]), out=_blocks(totals[:, :even]))
    np.matmul(members, counts[:, even:], out=totals[:, even:])
    return totals


def _blocks(matrix: Totals) -> Totals:
    """The same numbers, shape (columns / _BLOCK, rows, _BLOCK)."""
    return matrix.reshape(len(matrix), -1, _BLOCK).transpose(1, 0, 2)


def _members(groups_of: Integers, groups: int) -> NDArray[np.float32]:
    """Ones where a set holds a group, shape (sets, groups), from the groups of each set."""
    members = np.zeros((len(groups_of), groups), np.float32)
    np.put_along_axis(members, groups_of, 1.0, axis=1)
    return members


def _windows(order: Integers, length: int, groups: int) -> NDArray[np.float32]:
    """Sets of `length` groups, consecutive in `order` read as a circle, every group about as often.

    Shape (sets, groups): half-overlapping windows, or the one window that holds all.
    """
    total = len(order)
    sets = 1 if length >= total else min(total, 2 * -(-total // length))
    starts = np.floor(np.arange(sets) * total / sets).astype(np.int64)
    return _members(order[(starts[:, None] + np.arange(min(length, total))) % total], groups)


class _Plan(NamedTuple):
    """Sets of groups to evaluate and how to average them into one value."""

    members: NDArray[np.float32]
    weights: Floats


def _plan(arm: Arm, at: float, order: Integers) -> _Plan:
    """Sets of groups holding `at` units on average.

    Between two whole numbers of groups values are interpolated in one over the number, in which
    the bias of Gini and entropy is linear.
    """
    groups, total = len(arm.units), len(order)
    exact = min(float(total), at / (arm.units[order].sum() / total))
    low = max(1, int(np.floor(exact)))
    below = _windows(order, low, groups)
    if exact - low < 1e-9:
        return _Plan(below, np.full(len(below), 1 / len(below)))
    above = _windows(order, low + 1, groups)
    share = (1 / low - 1 / exact) / (1 / low - 1 / (low + 1))
    weights = np.concatenate(
        [np.full(len(below), (1 - share) / len(below)), np.full(len(above), share / len(above))]
    )
    return _Plan(np.concatenate([below, above]), weights)
