"""Values on sets of hash groups with equal traffic, for `abeval.stats.catalogue`.

`stats/catalogue.py` hands over the matrices of `stats/incidence.py`, and makes an effect of the
values.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from abeval.stats.exposure import Functional, Spread, Totals, coverage_of_sets, spread_of_sets
from abeval.stats.records import Floats, Integers
from abeval.stats.resampling import scaled_null
from abeval.threads import in_threads

_CHUNK = 16
"""Sets of groups whose item totals a thread holds in memory at once."""

_BLOCK = 128
"""Items of one matrix product, few enough for BLAS to run it in the calling thread.

For larger products BLAS starts threads of its own, which compete with ours.
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
        """Names of the functionals, in the order of the values."""

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """Values of one variant at `at` units, shape (functionals, subsets).

        Args:
            arm: The variant.
            at: Units to evaluate each subset at, shape (subsets,).
            orders: Subsets of the groups, each in the order in which groups are used.
        """

    def against_rest(self, pooled: Arm, members: Totals, blocks: int, observed: float) -> Floats:
        """Value of each block minus that of the rest at equal traffic.

        Args:
            pooled: Counts of both variants together.
            members: 1 where a block has a group, shape (permutations * blocks, groups).
            blocks: Blocks of one permutation.
            observed: Units of the smaller variant.

        Returns:
            Shape (functionals, permutations * blocks).
        """

    def groups_used(self, groups: int, in_blocks: int) -> int:
        """Groups that a comparison of a block with the rest uses.

        Args:
            groups: All groups.
            in_blocks: Groups that are in a block.
        """


class Coverage(NamedTuple):
    """Coverage at equal numbers of units, by rarefaction; its counts are units.

    Attributes:
        size: Items that could have been shown.
    """

    size: int

    @property
    def functionals(self) -> Sequence[Functional]:
        """See `Measure`."""
        return ("coverage",)

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """See `Measure`."""
        members = np.zeros((len(orders), len(arm.units)), arm.counts.dtype)
        for row, order in enumerate(orders):
            members[row, order] = 1.0
        units = members @ arm.units

        def evaluate(totals: Totals, chunk: slice) -> Floats:
            return coverage_of_sets(totals, units[chunk], at[chunk], self.size)[None]

        return _over_sets(arm, members, evaluate)

    def against_rest(self, pooled: Arm, members: Totals, blocks: int, observed: float) -> Floats:
        """See `Measure`; the rest is all other groups, in a block or not."""
        units, shown = members @ pooled.units, pooled.counts.sum(axis=0)
        others = pooled.units.sum() - units
        at = np.minimum(units, others)

        def evaluate(totals: Totals, chunk: slice) -> Floats:
            block = coverage_of_sets(totals, units[chunk], at[chunk], self.size)
            rest = coverage_of_sets(shown - totals, others[chunk], at[chunk], self.size)
            return (block - rest)[None]

        # Coverage by rare items is proportional to traffic, and so are its differences.
        return np.asarray(_over_sets(pooled, members, evaluate) * np.maximum(1.0, observed / at))

    def groups_used(self, groups: int, in_blocks: int) -> int:
        """See `Measure`."""
        return groups


class Evenness(NamedTuple):
    """Gini and entropy on sets with equal numbers of units; their counts are impressions.

    Attributes:
        size: Items that could have been shown.
        functionals: Those to compute.
    """

    size: int
    functionals: Sequence[Spread]

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """See `Measure`."""
        plans = [_plan(arm, float(m), order) for m, order in zip(at, orders, strict=True)]
        values = self._over_sets(arm, np.concatenate([plan.members for plan in plans]))
        weighted = values * np.concatenate([plan.weights for plan in plans])
        ends = np.cumsum([len(plan.weights) for plan in plans])
        return np.asarray(np.add.reduceat(weighted, np.concatenate(([0], ends[:-1])), axis=1))

    def against_rest(self, pooled: Arm, members: Totals, blocks: int, observed: float) -> Floats:
        """See `Measure`; the rest is the other blocks of the permutation."""
        values = self._over_sets(pooled, members).reshape(len(self.functionals), -1, blocks)
        centred = values - values.mean(axis=2, keepdims=True)
        return np.asarray(centred.reshape(len(self.functionals), -1) * blocks / (blocks - 1))

    def groups_used(self, groups: int, in_blocks: int) -> int:
        """See `Measure`."""
        return in_blocks

    def _over_sets(self, arm: Arm, members: Totals) -> Floats:
        return _over_sets(arm, members, lambda t, _: spread_of_sets(t, self.size, self.functionals))


def at_equal_traffic(control: Arm, treatment: Arm, order: Integers, measure: Measure) -> Floats:
    """Values of both variants at the units of the smaller one, shape (functionals, 2)."""
    at = np.array([min(control.units.sum(), treatment.units.sum())])
    return np.hstack([measure.values(arm, at, [order]) for arm in (control, treatment)])


def left_out(control: Arm, treatment: Arm, order: Integers, measure: Measure) -> Floats:
    """Values of both variants without one group each, shape (functionals, 2, groups)."""
    orders = [order[order != group] for group in range(len(order))]
    units = [arm.units.sum() - arm.units for arm in (control, treatment)]
    at = np.minimum(*units)
    return np.stack([measure.values(arm, at, orders) for arm in (control, treatment)], axis=1)


def null_differences(
    control: Arm, treatment: Arm, measure: Measure, permutations: int, rng: np.random.Generator
) -> Floats:
    """Differences without a true effect: each random block of groups against the rest.

    Blocks have the smaller variant's share of the groups. The differences are scaled to the
    observed numbers of units; shape (functionals, at least `permutations`).
    """
    pooled = _pooled(control, treatment)
    groups, units = len(pooled.units), np.array([control.units.sum(), treatment.units.sum()])
    length = int(groups * units.min() / units.sum() + 1e-9)
    blocks = groups // length
    orders = [rng.permutation(groups)[: blocks * length] for _ in range(-(-permutations // blocks))]
    members = _members(np.stack(orders).reshape(-1, length), groups)
    null = measure.against_rest(pooled, members, blocks, units.min())
    sizes = (length, measure.groups_used(groups, blocks * length) - length)
    return scaled_null(null, units, groups, sizes, rng)


def _pooled(control: Arm, treatment: Arm) -> Arm:
    # Single precision is enough for a null distribution, at half the memory and time.
    counts = np.empty(control.counts.shape, np.float32)
    np.add(control.counts, treatment.counts, out=counts, casting="same_kind")
    return Arm(counts, control.units + treatment.units)


def _over_sets(arm: Arm, members: Totals, evaluate: Callable[[Totals, slice], Floats]) -> Floats:
    """Functionals on every set of groups, one set per row of `members`, (functionals, sets)."""

    def evaluate_chunk(start: int) -> Floats:
        chunk = slice(start, start + _CHUNK)
        return evaluate(_totals(members[chunk].astype(arm.counts.dtype), arm.counts), chunk)

    parts = in_threads(evaluate_chunk, range(0, len(members), _CHUNK))
    return np.concatenate([*parts], axis=1)


def _totals(members: Totals, counts: Totals) -> Totals:
    """Counts of each item in each set, shape (sets, items): `members @ counts` by blocks."""
    totals = np.empty((len(members), counts.shape[1]), counts.dtype)
    even = counts.shape[1] // _BLOCK * _BLOCK
    np.matmul(members, _blocks(counts[:, :even]), out=_blocks(totals[:, :even]))
    np.matmul(members, counts[:, even:], out=totals[:, even:])
    return totals


def _blocks(matrix: Totals) -> Totals:
    """A view of the matrix of shape (columns / _BLOCK, rows, _BLOCK)."""
    return matrix.reshape(len(matrix), -1, _BLOCK).transpose(1, 0, 2)


def _members(sets: Integers, groups: int) -> NDArray[np.float32]:
    """1 where a set has a group, shape (sets, groups), from the groups of each set."""
    members = np.zeros((len(sets), groups), np.float32)
    np.put_along_axis(members, sets, 1.0, axis=1)
    return members


def _windows(order: Integers, length: int, groups: int) -> NDArray[np.float32]:
    """Half-overlapping windows of `length` groups along `order`, read as a circle.

    Shape (sets, groups); every group is in about equally many windows. One window if it holds all.
    """
    total = len(order)
    sets = 1 if length >= total else min(total, 2 * -(-total // length))
    starts = np.floor(np.arange(sets) * total / sets).astype(np.int64)
    return _members(order[(starts[:, None] + np.arange(min(length, total))) % total], groups)


class _Plan(NamedTuple):
    """Sets of groups to evaluate, and their weights in the mean."""

    members: NDArray[np.float32]
    weights: Floats


def _plan(arm: Arm, at: float, order: Integers) -> _Plan:
    """Sets of groups with `at` units on average.

    Between two whole numbers of groups, values are interpolated linearly in 1 / groups, because
    the bias of Gini and entropy is linear in it.
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
