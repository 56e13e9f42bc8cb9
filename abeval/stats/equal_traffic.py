"""Sets of hash groups that hold equal traffic: the machinery under `abeval.stats.catalogue`."""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats.records import Refusal
from abeval.threads import in_threads

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Functional = Literal["coverage", "gini", "entropy"]

_COUNTED = 1 << 17
"""Smaller totals are counted, larger ones sorted."""

CHUNK = 64
"""Sets of groups whose item totals a thread holds in memory at once."""


class Arm(NamedTuple):
    """One variant's counts.

    Attributes:
        counts: Units or impressions, shape (items, groups).
        units: Units per group, shape (groups,).
    """

    counts: NDArray[np.floating]
    units: Floats


class _Levels(NamedTuple):
    """The different totals of a set.

    Attributes:
        total: Ascending.
        items: How many items have it.
    """

    total: Floats
    items: Integers


def _levels(totals: NDArray[np.floating]) -> _Levels:
    # Most totals are small whole numbers: to count them takes a fraction of a sort.
    whole = totals.astype(np.int64)
    if (whole != totals).any():
        return _Levels(*np.unique(totals, return_counts=True))
    counted = np.bincount(whole[whole < _COUNTED])
    small = np.flatnonzero(counted)
    large, items = np.unique(whole[whole >= _COUNTED], return_counts=True)
    levels = np.concatenate([small, large]).astype(np.float64)
    return _Levels(levels, np.concatenate([counted[small], items]))


def gini_of_sets(totals: NDArray[np.floating], catalogue_size: int) -> Floats:
    """Gini of every row; items beyond the columns are zeros, which sort first."""
    return np.array([_gini(_levels(row), catalogue_size) for row in totals])


def _gini(levels: _Levels, catalogue_size: int) -> float:
    total, items = levels
    # The mean of 2 i - n - 1 over the ranks i of the items that share a level.
    up_to = catalogue_size - items.sum() + np.cumsum(items)
    rank = 2.0 * up_to - items - catalogue_size
    shown = total * items
    return float(shown @ rank) / (catalogue_size * _shown(float(shown.sum())))


def _shown(impressions: float) -> float:
    if impressions == 0:
        raise Refusal("too_few_units", "a set of groups was shown nothing; cut fewer groups")
    return impressions


def entropy_of_sets(totals: NDArray[np.floating]) -> Floats:
    """Entropy of every row, in nats."""
    return np.array([_entropy(_levels(row)) for row in totals])


def _entropy(levels: _Levels) -> float:
    shown = levels.total * levels.items
    impressions = _shown(float(shown.sum()))
    spread = shown @ np.log(np.where(shown > 0, levels.total, 1.0))
    return math.log(impressions) - float(spread) / impressions


def _covered(totals: NDArray[np.floating], units: Floats, at: Floats, size: int) -> Floats:
    """Rarefied coverage of every row, by a table of the chance that an item is missed."""
    return np.array(
        [
            _rarefied(row, float(have), float(want)) / size
            for row, have, want in zip(totals, units, at, strict=True)
        ]
    )


def _rarefied(shown: NDArray[np.floating], units: float, at: float) -> float:
    if at >= units:
        return float(np.count_nonzero(shown))
    # C(U-u, m)/C(U, m) = prod_j (U-m-j)/(U-j), below 1e-17 from some u on.
    length = int(min(units - at, np.ceil(-40.0 / np.log1p(-at / units)))) + 1
    step = np.arange(length)
    factors = np.maximum(units - at - step, 0.0) / (units - step)
    seen = 1.0 - np.concatenate(([1.0], np.cumprod(factors)))
    return float(np.sum(seen[np.minimum(shown, length).astype(np.int64)]))


def _evaluate(
    arm: Arm, selection: Floats, functional: Functional, size: int, at: Floats | None = None
) -> Floats:
    """The functional on every set of groups, one set per column of `selection`."""
    have = arm.units @ selection
    want = have if at is None else at

    def of_chunk(start: int) -> Floats:
        chunk = slice(start, start + CHUNK)
        # One set a row, so that what is shown in a set lies together in memory.
        totals = selection[:, chunk].T.astype(arm.counts.dtype) @ arm.counts.T
        if functional == "gini":
            return gini_of_sets(totals, size)
        if functional == "entropy":
            return entropy_of_sets(totals)
        return _covered(totals, have[chunk], want[chunk], size)

    starts = range(0, selection.shape[1], CHUNK)
    return np.concatenate(in_threads(of_chunk, starts))


def _windows(order: Integers, length: int, groups: int) -> Floats:
    """Sets of `length` groups, consecutive in `order` read as a circle, every group about as often.

    Shape (groups, sets): half-overlapping windows, or the one window that holds all.
    """
    total = len(order)
    sets = 1 if length >= total else min(total, 2 * -(-total // length))
    starts = np.floor(np.arange(sets) * total / sets).astype(np.int64)
    member = order[(starts[:, None] + np.arange(min(length, total))) % total]
    selection = np.zeros((groups, sets))
    np.put_along_axis(selection, member.T, 1.0, axis=0)
    return selection


class _Plan(NamedTuple):
    """Columns to evaluate and how to average them into one value."""

    selection: Floats
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
        return _Plan(below, np.full(below.shape[1], 1 / below.shape[1]))
    above = _windows(order, low + 1, groups)
    share = (1 / low - 1 / exact) / (1 / low - 1 / (low + 1))
    weights = np.concatenate(
        [
            np.full(below.shape[1], (1 - share) / below.shape[1]),
            np.full(above.shape[1], share / above.shape[1]),
        ]
    )
    return _Plan(np.hstack([below, above]), weights)


def _values(
    arm: Arm, at: Floats, orders: list[Integers], functional: Functional, size: int
) -> Floats:
    """One variant's value at `at` units, for every subset of groups listed in `orders`."""
    if functional == "coverage":
        selection = np.zeros((len(arm.units), len(orders)))
        for column, order in enumerate(orders):
            selection[order, column] = 1.0
        return _evaluate(arm, selection, functional, size, at)
    plans = [_plan(arm, float(m), order) for m, order in zip(at, orders, strict=True)]
    values = _evaluate(arm, np.hstack([p.selection for p in plans]), functional, size)
    weighted = values * np.concatenate([p.weights for p in plans])
    ends = np.cumsum([len(p.weights) for p in plans])
    return np.add.reduceat(weighted, np.concatenate(([0], ends[:-1])))


def at_equal_traffic(
    control: Arm, treatment: Arm, order: Integers, functional: Functional, size: int
) -> tuple[float, float]:
    """Both variants' values at the smaller one's units."""
    at = np.array([min(control.units.sum(), treatment.units.sum())])
    first, second = (_values(arm, at, [order], functional, size) for arm in (control, treatment))
    return float(first[0]), float(second[0])


def left_out(
    control: Arm, treatment: Arm, order: Integers, functional: Functional, size: int
) -> Floats:
    """Both variants' values without each group in turn, shape (2, groups)."""
    orders = [order[order != group] for group in range(len(order))]
    units = [arm.units.sum() - arm.units for arm in (control, treatment)]
    at = np.minimum(*units)
    return np.stack([_values(arm, at, orders, functional, size) for arm in (control, treatment)])


def redeals(
    control: Arm,
    treatment: Arm,
    functional: Functional,
    size: int,
    permutations: int,
    rng: np.random.Generator,
) -> Floats:
    """Null differences, scaled to the observed numbers of units, shape (permutations,) or more."""
    # Half the memory and time: a null distribution needs no sixteenth digit.
    counts = (control.counts + treatment.counts).astype(np.float32)
    pooled = Arm(counts, control.units + treatment.units)
    groups, sizes = len(pooled.units), np.array([control.units.sum(), treatment.units.sum()])
    length = int(groups * sizes.min() / sizes.sum() + 1e-9)
    blocks = groups // length
    deals = -(-permutations // blocks)
    selection = np.zeros((groups, deals * blocks))
    for deal in range(deals):
        member = rng.permutation(groups)[: blocks * length].reshape(blocks, length)
        np.put_along_axis(selection[:, deal * blocks : (deal + 1) * blocks], member.T, 1.0, axis=0)
    against_rest = _against_rest(pooled, selection, blocks, functional, size, sizes.min())
    # A re-deal has the variance of 1/m + 1/rest units, the observed one of 1/n_c + 1/n_t.
    used = groups if functional == "coverage" else blocks * length
    redealt = groups / sizes.sum() * (1 / length + 1 / (used - length))
    scale = np.sqrt(np.sum(1 / sizes) / redealt)
    finite = np.sqrt((groups - 1) / rng.chisquare(groups - 1, size=len(against_rest)))
    return np.asarray(against_rest * scale * finite)


def _against_rest(
    pooled: Arm, selection: Floats, blocks: int, functional: Functional, size: int, observed: float
) -> Floats:
    """Every block less what the rest has at the block's traffic, shape (deals * blocks,)."""
    if functional == "coverage":
        units = pooled.units @ selection
        at = np.minimum(units, pooled.units.sum() - units)
        block, rest = (
            _evaluate(pooled, s, functional, size, at) for s in (selection, 1 - selection)
        )
        # Rare items are found in proportion to traffic, so at less of it differences are smaller.
        return np.asarray((block - rest) * np.maximum(1.0, observed / at))
    deals = _evaluate(pooled, selection, functional, size).reshape(-1, blocks)
    centred = deals - deals.mean(axis=1, keepdims=True)
    return np.asarray(centred.ravel() * blocks / (blocks - 1))
