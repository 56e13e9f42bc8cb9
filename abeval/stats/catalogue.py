"""Compare coverage, Gini and entropy of item exposure at equal traffic."""

import math
import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats import effects, resampling
from abeval.stats.item_exposure import (
    SET_FUNCTIONALS,
    Levels,
    Spread,
    Totals,
    compute_inclusion_chances,
    count_levels,
    measure_evenness,
    measure_spread,
    rarefy_coverage,
    rarefy_levels,
)
from abeval.stats.records import Bools, Effect, Floats, Integers, Lift, Refusal
from abeval.stats.resampling import jackknife_se, scale_null_differences

Functional = Literal["coverage", "gini", "entropy"]


# Items times sets of groups whose totals a thread holds in memory at once.
_CHUNK = 1 << 22

# Share of the groups in a set from which on totals follow from what the other groups take away.
_NEARLY_ALL = 0.9


class Arm(NamedTuple):
    """Units or impressions of a variant, shape (groups, items), and units by group."""

    counts: Totals
    units: Floats


class Coverage(NamedTuple):
    """Coverage at equal numbers of units, by rarefaction; its counts are units.

    `size` is how many items could have been shown.
    """

    size: int
    functionals: Sequence[Functional] = ("coverage",)

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """Evaluate subsets of a variant's groups of units, shape (functionals, subsets).

        Args:
            arm: The variant: units and items shown, by group of units.
            at: How many units each subset is evaluated at, shape (subsets,).
            orders: The groups of each subset, in the order in which they are used.
        """
        members = np.concatenate([_mark_members(order[None], len(arm.units)) for order in orders])
        chances = compute_inclusion_chances(members @ arm.units, at)

        def evaluate(levels: Levels, chunk: slice) -> Floats:
            return rarefy_levels(levels, chances[chunk], self.size)[None]

        return _evaluate_levels(arm, members, evaluate, chances.shape[1] - 1)

    def against_rest(self, pooled: Arm, members: Totals, _: int, observed: float) -> Floats:
        """Compare each block of groups with all others, at equal traffic.

        Returns shape (functionals, blocks).

        `members` is 1 if a block has a group; `observed` are the units of the smaller variant.
        """
        units, shown = members @ pooled.units, pooled.counts.sum(axis=0)
        others = pooled.units.sum() - units
        at = np.minimum(units, others)

        def evaluate(totals: Totals, chunk: slice) -> Floats:
            block = rarefy_coverage(totals, units[chunk], at[chunk], self.size)
            rest = rarefy_coverage(shown - totals, others[chunk], at[chunk], self.size)
            return (block - rest)[None]

        # Coverage by rare items is proportional to traffic, and so are its differences.
        return np.asarray(
            _evaluate_sets(pooled, members, evaluate) * np.maximum(1.0, observed / at)
        )

    def count_groups(self, groups: int, _in_blocks: int) -> int:
        """Count the groups of units that one random difference uses: here, all."""
        return groups


class Evenness(NamedTuple):
    """Gini and entropy on sets of equal numbers of units, from impressions."""

    size: int
    functionals: Sequence[Spread]

    def values(self, arm: Arm, at: Floats, orders: Sequence[Integers]) -> Floats:
        """Evaluate one variant as `Coverage` does."""
        plans = [_plan(arm, float(m), order) for m, order in zip(at, orders, strict=True)]
        members, weights = zip(*plans, strict=True)
        values = _evaluate_levels(
            arm,
            np.concatenate(members),
            lambda levels, _: measure_spread(levels, self.size, self.functionals),
        )
        weighted = values * np.concatenate(weights)
        ends = np.cumsum([len(weight) for weight in weights])
        return np.asarray(np.add.reduceat(weighted, np.concatenate(([0], ends[:-1])), axis=1))

    def against_rest(self, pooled: Arm, members: Totals, blocks: int, _: float) -> Floats:
        """Compare each of the blocks with the other ones of its permutation."""
        values = _evaluate_sets(
            pooled,
            members,
            lambda totals, _: measure_evenness(totals, self.size, self.functionals),
        ).reshape(len(self.functionals), -1, blocks)
        centred = values - values.mean(axis=2, keepdims=True)
        return np.asarray(centred.reshape(len(self.functionals), -1) * blocks / (blocks - 1))

    def count_groups(self, _groups: int, in_blocks: int) -> int:
        """Count the groups of units that one random difference uses: those in blocks."""
        return in_blocks


_Measure = Coverage | Evenness


def evaluate_at_equal_traffic(
    control: Arm, treatment: Arm, order: Integers, measure: _Measure
) -> Floats:
    """Evaluate both variants at the units of the smaller one.

    Returns shape (functionals, 2, 1 + groups): of all groups, then without each.
    """
    arms, orders = (control, treatment), [order, *(order[order != g] for g in range(len(order)))]
    at = np.minimum(*(arm.units.sum() - np.append(0.0, arm.units) for arm in arms))
    return np.stack([measure.values(arm, at, orders) for arm in arms], axis=1)


def draw_null_differences(
    control: Arm,
    treatment: Arm,
    measure: _Measure,
    permutations: int,
    rng: np.random.Generator,
    observed: Floats | None = None,
) -> Floats:
    """Draw null differences: random blocks of groups against the rest.

    Blocks have the smaller variant's share of the groups. The differences are scaled to the
    observed numbers of units; shape (functionals, at least `permutations`). There are fewer once
    `_ENOUGH` are as large as the `observed` difference, of each functional.
    """
    pooled = _pool_arms(control, treatment)
    groups, units = len(pooled.units), np.array([control.units.sum(), treatment.units.sum()])
    length = int(groups * units.min() / units.sum() + 1e-9)
    blocks = groups // length
    sizes = (length, measure.count_groups(groups, blocks * length) - length)
    nulls = np.zeros((len(measure.functionals), 0))
    while nulls.shape[1] < permutations:
        count = -(-min(_BATCH, permutations - nulls.shape[1]) // blocks)
        orders = [rng.permutation(groups)[: blocks * length] for _ in range(count)]
        members = _mark_members(np.stack(orders).reshape(-1, length), groups)
        null = measure.against_rest(pooled, members, blocks, units.min())
        nulls = np.hstack([nulls, scale_null_differences(null, units, groups, sizes, rng)])
        if observed is not None:
            as_large = np.abs(nulls) >= np.abs(observed)[:, None]
            if (as_large.sum(axis=1) >= _ENOUGH).all():
                break
    return nulls


def _pool_arms(control: Arm, treatment: Arm) -> Arm:
    # Single precision is enough for a null distribution, at half the memory and time.
    counts = np.empty(control.counts.shape, np.float32)
    np.add(control.counts, treatment.counts, out=counts, casting="same_kind")
    return Arm(counts, control.units + treatment.units)


def _evaluate_sets(
    arm: Arm, members: Totals, evaluate: Callable[[Totals, slice], Floats]
) -> Floats:
    """Evaluate sets of groups in threads, shape (functionals, sets).

    The rows of `members` are the sets. The function gets the totals of the items in some of the
    sets, shape (sets, items), and which.
    """
    size = max(1, _CHUNK // max(arm.counts.shape[1], 1))
    chunks = [slice(start, start + size) for start in range(0, len(members), size)]

    def evaluate_chunk(chunk: slice) -> Floats:
        return evaluate(members[chunk].astype(arm.counts.dtype) @ arm.counts, chunk)

    # NumPy releases the interpreter's lock while it computes.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return np.concatenate([*pool.map(evaluate_chunk, chunks)], axis=1)


def _evaluate_levels(
    arm: Arm,
    members: Totals,
    evaluate: Callable[[Levels, slice], Floats],
    largest: float = math.inf,
) -> Floats:
    """Evaluate sets of groups by levels of items, shape (functionals, sets).

    Totals above `largest` count as that.
    """
    whole = arm.counts.sum(axis=0)
    size = int(min(whole.max(initial=0), largest)) + 1
    leaves_few_out = members.mean() >= _NEARLY_ALL and size <= whole.size
    groups = _split_counts(arm.counts) if leaves_few_out else None
    if groups is None:

        def evaluate_totals(totals: Totals, chunk: slice) -> Floats:
            few = np.minimum(totals, largest, dtype=totals.dtype)
            return evaluate(count_levels(few), chunk)

        return _evaluate_sets(arm, members, evaluate_totals)
    totals, step, values = whole.astype(np.int64), max(1, _CHUNK // size), []
    for start in range(0, len(members), step):
        chunk = slice(start, start + step)
        left_out = [np.flatnonzero(row == 0).tolist() for row in members[chunk]]
        items = _count_levels_without(totals, groups, left_out, size)
        levels = np.flatnonzero(items.any(axis=0))
        values.append(evaluate(Levels(levels[None], items[:, levels]), chunk))
    return np.concatenate(values, axis=1)


def _split_counts(counts: Totals) -> list[tuple[Integers, Integers]] | None:
    """List the items of each group, and their counts; None if some are not whole."""
    shown = [np.flatnonzero(row) for row in counts]
    values = [row[items] for row, items in zip(counts, shown, strict=True)]
    if any(not np.array_equal(row, np.trunc(row)) for row in values):
        return None
    return [(items, row.astype(np.int64)) for items, row in zip(shown, values, strict=True)]


def _count_levels_without(
    totals: Integers,
    groups: Sequence[tuple[Integers, Integers]],
    left_out: Sequence[Sequence[int]],
    size: int,
) -> Integers:
    """Count the items of each total without some groups, shape (sets, size).

    Only the items of the groups that are left out change; totals from `size` on count as the last.
    """
    last = size - 1
    items = np.tile(np.bincount(np.minimum(totals, last), minlength=size), (len(left_out), 1))
    left = totals.copy()
    for row, without in zip(items, left_out, strict=True):
        for group in without:
            index, counts = groups[group]
            before = left[index]
            after = before - counts
            left[index] = after
            row -= np.bincount(np.minimum(before, last), minlength=size)
            row += np.bincount(np.minimum(after, last), minlength=size)
        for group in without:
            index, _ = groups[group]
            left[index] = totals[index]
    return items


def _mark_members(sets: Integers, groups: int) -> NDArray[np.float32]:
    """Mark the groups of each set by 1, shape (sets, groups)."""
    members = np.zeros((len(sets), groups), np.float32)
    members[np.arange(len(sets))[:, None], sets] = 1.0
    return members


def _cut_windows(order: Integers, length: int, groups: int) -> NDArray[np.float32]:
    """Cut half-overlapping windows of `length` groups along a circular `order`.

    Shape (sets, groups); every group is in about equally many windows. One window if it holds all.
    """
    return _mark_members(order[_list_window_positions(len(order), length)], groups)


@cache
def _list_window_positions(total: int, length: int) -> Integers:
    """Return the positions in an order that each window holds, shape (sets, groups)."""
    sets = 1 if length >= total else min(total, 2 * -(-total // length))
    starts = np.floor(np.arange(sets) * total / sets).astype(np.int64)
    return (starts[:, None] + np.arange(min(length, total))) % total


def _plan(arm: Arm, at: float, order: Integers) -> tuple[NDArray[np.float32], Floats]:
    """Choose sets of groups with `at` units on average, and weights for their mean.

    Between two whole numbers of groups, values are interpolated linearly in 1 / groups, because the
    bias of Gini and entropy is linear in it.
    """
    groups, total = len(arm.units), len(order)
    exact = min(float(total), at / (arm.units[order].sum() / total))
    low = max(1, int(np.floor(exact)))
    below = _cut_windows(order, low, groups)
    if exact - low < 1e-9:
        return below, np.full(len(below), 1 / len(below))
    above = _cut_windows(order, low + 1, groups)
    # Linear in 1 / groups, as the bias of Gini and entropy is.
    share = (1 / low - 1 / exact) / (1 / low - 1 / (low + 1))
    weights = np.concatenate(
        [np.full(len(below), (1 - share) / len(below)), np.full(len(above), share / len(above))]
    )
    return np.concatenate([below, above]), weights


_Numbers = NDArray[np.number[Any]]
_Counted = Literal["units", "impressions"]

# Integers and sums up to here are exact in single precision.
_EXACT = 1 << 24


class Incidence(NamedTuple):
    """Item exposure of one variant: an entry per item and group that saw it.

    A group is a set of hash sub-buckets, the same sets in every variant; a unit is in one group.
    Codes of items, in [0, catalogue_size), are the same in every variant; `units` counts the
    distinct units of the group that were shown the item. Columns have the shape (entries,), except
    `units_in_group` with shape (groups,): all units per group, whether they were shown items or
    not.
    """

    item: NDArray[np.integer]
    group: Integers
    units: NDArray[np.integer]
    impressions: NDArray[np.integer]
    units_in_group: Integers
    catalogue_size: int


def build_item_matrices(
    control: Incidence, treatment: Incidence, counted: _Counted
) -> tuple[Arm, Arm]:
    """Count items densely by units or impressions, for both variants.

    Refusals: `not_applicable` for groups or catalogues that differ, or a code outside the
    catalogue; `too_few_units` for fewer than eight groups or a variant without counts; `not_finite`
    for counts that are negative or not finite.

    Example:
        >>> columns = ([2, 5], [0, 1], [1, 1], [7, 9], [3] * 8)
        >>> one = Incidence(*map(np.array, columns), 10)
        >>> build_item_matrices(one, one, "impressions")[0].counts[:2]
        array([[7., 0.],
               [0., 9.]], dtype=float32)
    """
    arms, groups, size = (control, treatment), len(control.units_in_group), control.catalogue_size
    if len(treatment.units_in_group) != groups:
        raise Refusal("not_applicable", "the variants have different groups")
    if treatment.catalogue_size != size:
        raise Refusal("not_applicable", "the variants have different catalogues")
    if groups < 8:
        raise Refusal("too_few_units", f"a jackknife of {groups} groups; use at least 8, better 64")
    for arm in arms:
        if len(arm.item) and (np.min(arm.item) < 0 or np.max(arm.item) >= size):
            raise Refusal("not_applicable", "an item's code lies outside the catalogue")
    values = [_select_counts(arm, counted) for arm in arms]
    seen = np.sum([np.bincount(arm.item, minlength=size) for arm in arms], axis=0) > 0
    precision = _choose_precision(arms, values)
    first, second = (
        _build_matrix(a, v, seen, precision) for a, v in zip(arms, values, strict=True)
    )
    return first, second


def _select_counts(arm: Incidence, counted: _Counted) -> _Numbers:
    values = np.asarray(arm.units if counted == "units" else arm.impressions)
    if not np.isfinite(values).all() or np.any(values < 0):
        raise Refusal("not_finite", "counts must be finite and not negative")
    if values.sum() == 0:
        raise Refusal("too_few_units", "a variant has no impressions")
    return values


def _choose_precision(arms: Sequence[Incidence], values: Sequence[_Numbers]) -> type[np.floating]:
    """Choose single precision if all sums of counts are exact in it."""
    is_whole = all((np.trunc(counts) == counts).all() for counts in values)
    shown = [
        np.bincount(arm.item, counts, arm.catalogue_size)
        for arm, counts in zip(arms, values, strict=True)
    ]
    return np.float32 if is_whole and np.sum(shown, axis=0).max() < _EXACT else np.float64


def _build_matrix(
    arm: Incidence, values: _Numbers, seen: Bools, precision: type[np.floating]
) -> Arm:
    groups, column = len(arm.units_in_group), np.cumsum(seen) - 1
    items = np.count_nonzero(seen)
    cell = np.asarray(arm.group, dtype=np.int64) * items + column[arm.item]
    counts = np.zeros(groups * items, precision)
    np.add.at(counts, cell, values.astype(precision))
    return Arm(counts.reshape(groups, items), np.asarray(arm.units_in_group, dtype=np.float64))


PERMUTATIONS, SEED = 1000, 0
"""Most permutations by default, and the seed."""

# Permutations of a batch; none follows once so many differences are as large as the observed. Of
# 1,000 the p-value is then above a tenth, and known to a tenth of itself (Besag and Clifford 1991).
_BATCH, _ENOUGH = 250, 100


class CatalogueComparison(NamedTuple):
    """Two variants at equal traffic.

    The interval of `effect` is by delete-a-group jackknife (t with groups - 1 degrees of freedom),
    its p-value by permutation: they may disagree near alpha. The lift has a jackknife interval of
    its own; None if control is zero. `at` are the units of the smaller variant; 0 permutations mean
    the p-value of the jackknife's t.
    """

    effect: Effect
    lift: Lift | None
    at: int
    groups: int
    permutations: int


def compare_all(
    control: Incidence,
    treatment: Incidence,
    functionals: Collection[Functional] = ("coverage", "gini", "entropy"),
    alpha: float = 0.05,
    permutations: int = PERMUTATIONS,
    seed: int = SEED,
) -> dict[Functional, CatalogueComparison | Refusal]:
    """Compare two variants' coverage, Gini and entropy (nats) at equal traffic.

    Coverage is rarefied (Hurlbert 1971); the interval is by jackknife (Efron & Stein 1981). The
    permutation test pools the variants within each group and cuts the groups at random into blocks
    of the smaller variant's share; each block is compared with the others. Control's and
    treatment's counts of a group are never swapped, because they differ in size. The null
    differences are scaled as in `resampling.scaled_null`. The p-value is no smaller than 1 /
    (permutations + 1); without permutations it is that of the jackknife's t.

    Returns:
        By functional, the comparison, or its refusal: `too_few_units` for fewer than eight groups,
        an empty variant, or a smaller variant with less than two groups' worth of the pooled units;
        `zero_variance` if no group changes the values; `not_applicable` for groups or catalogues
        that differ.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> item, group = np.divmod(np.arange(50 * 16), 16)
        >>> def arm(policy):
        ...     shown = rng.binomial(30, np.repeat(policy, 16))
        ...     return Incidence(item, group, shown, shown, np.full(16, 30), 60)
        >>> arms = arm(np.full(50, 0.02)), arm(np.full(50, 0.001))
        >>> comparison = compare_all(*arms)["coverage"]
        >>> comparison.at, comparison.effect.difference < 0, round(comparison.effect.p_value, 3)
        (480, True, 0.001)
    """
    size = control.catalogue_size
    measures: list[tuple[_Counted, _Measure]] = []
    if "coverage" in functionals:
        measures.append(("units", Coverage(size)))
    spread = [name for name in SET_FUNCTIONALS if name in functionals]
    if spread:
        measures.append(("impressions", Evenness(size, spread)))
    outcomes: dict[Functional, CatalogueComparison | Refusal] = {}
    for counted, measure in measures:
        rng = np.random.default_rng(seed)
        try:
            arms = build_item_matrices(control, treatment, counted)
            outcomes |= _compare(*arms, measure, alpha, permutations, rng)
        except Refusal as refusal:
            # A traceback would keep the matrices in memory.
            outcomes |= dict.fromkeys(measure.functionals, refusal.with_traceback(None))
    return {name: outcomes[name] for name in functionals}


def _compare(
    control: Arm,
    treatment: Arm,
    measure: _Measure,
    alpha: float,
    permutations: int,
    rng: np.random.Generator,
) -> dict[Functional, CatalogueComparison | Refusal]:
    """Compare the variants by all functionals of a measure."""
    at, order = _count_common_units(control, treatment), rng.permutation(len(control.units))
    values = evaluate_at_equal_traffic(control, treatment, order, measure)
    outcomes = {
        name: _jackknife_comparison(name, value[:, 0], value[:, 1:], at, alpha)
        for name, value in zip(measure.functionals, values, strict=True)
    }
    compared = [name for name, outcome in outcomes.items() if not isinstance(outcome, Refusal)]
    if permutations == 0 or not compared:
        return outcomes
    observed = values[:, 1, 0] - values[:, 0, 0]
    try:
        nulls = draw_null_differences(control, treatment, measure, permutations, rng, observed)
    except Refusal as refusal:
        return outcomes | dict.fromkeys(compared, refusal.with_traceback(None))
    by_name = dict(zip(measure.functionals, nulls, strict=True))
    for name, outcome in outcomes.items():
        if not isinstance(outcome, Refusal):
            null = by_name[name]
            effect = resampling.replace_p_value(outcome.effect, null, f"{name}_permutation")
            outcomes[name] = outcome._replace(effect=effect, permutations=len(null))
    return outcomes


def _jackknife_comparison(
    functional: Functional, values: Floats, without: Floats, at: int, alpha: float
) -> CatalogueComparison | Refusal:
    """Compare two values by the jackknife."""
    control, treatment = values.tolist()
    groups, se = without.shape[1], jackknife_se(without[1] - without[0])
    if se <= 1e-12 * (abs(control) + abs(treatment)):
        return Refusal("zero_variance", f"{functional} does not change when any group is left out")
    difference, method = treatment - control, f"{functional}_jackknife"
    effect = effects.effect_from_difference(
        control, treatment, difference, se, groups - 1, alpha, method
    )
    return CatalogueComparison(
        effect, _estimate_lift(control, treatment, without, alpha), at, groups, 0
    )


def _estimate_lift(control: float, treatment: float, without: Floats, alpha: float) -> Lift | None:
    """Return the lift with the jackknife interval of the ratio."""
    if control == 0 or np.any(without[0] == 0):
        return None
    value = treatment / control - 1
    se = jackknife_se(without[1] / without[0])
    low, high = effects.compute_interval(value, se, without.shape[1] - 1, alpha)
    return Lift(value, low, high, True, "jackknife")


def _count_common_units(control: Arm, treatment: Arm) -> int:
    """Return the units of the smaller variant."""
    small, large = sorted((control.units.sum(), treatment.units.sum()))
    if small / (small + large) * len(control.units) < 2:
        few = f"the smaller variant has fewer units than two of {len(control.units)} groups"
        raise Refusal("too_few_units", f"{few}; use more groups")
    return int(small)
