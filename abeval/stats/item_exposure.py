"""Measure how items share a catalogue's impressions: coverage, Gini, entropy."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats.records import Floats, Integers, Refusal, check_finite

Totals = NDArray[np.floating]
"""Units or impressions by item, shape (sets of groups, items)."""

Spread = Literal["gini", "entropy"]


def coverage(units_per_item: ArrayLike, units: int, at: int, catalogue_size: int) -> float:
    """Return the expected share of the catalogue shown to `at` random units.

    Incidence-based rarefaction (Hurlbert 1971; Colwell et al. 2012); unseen items may be absent.
    Refusals: `too_few_units` for `at` outside [1, units]; `not_applicable` for counts outside [0,
    units] or more items than the catalogue has.

    Example:
        >>> coverage([10, 5, 1], units=10, at=10, catalogue_size=4)
        0.75
    """
    shown = np.asarray(units_per_item, dtype=float)
    if not 1 <= at <= units:
        raise Refusal("too_few_units", f"cannot rarefy {units} units to {at}")
    if np.any((shown < 0) | (shown > units)):
        raise Refusal("not_applicable", "an item must be shown to between 0 and all units")
    if len(shown) > catalogue_size:
        raise Refusal("not_applicable", f"{len(shown)} items in a catalogue of {catalogue_size}")
    sizes = np.array([units], dtype=float), np.array([at], dtype=float)
    return float(rarefy_coverage(shown[None], *sizes, catalogue_size)[0])


def gini(impressions_per_item: ArrayLike, catalogue_size: int) -> float:
    """Return the Gini coefficient of exposure, items never shown as zeros.

    Source: Gini (1912).

    `sum_i (2 i - n - 1) x_(i) / (n sum x)` with n the catalogue size: 0 when all items have equal
    exposure, 1 - 1/n (not 1) when one item has all of it (Dixon et al. 1987). Refusals:
    `too_few_units` without impressions; `not_applicable` for more items than the catalogue has or
    negative counts.

    Example:
        >>> gini([1, 1, 1, 1], 4), gini([4], 4)
        (0.0, 0.75)
    """
    shown = np.asarray(impressions_per_item, dtype=float)
    if len(shown) > catalogue_size or np.any(shown < 0):
        raise Refusal("not_applicable", f"{len(shown)} items in a catalogue of {catalogue_size}")
    if check_finite(shown, "impressions must be finite").sum() == 0:
        raise Refusal("too_few_units", "there are no impressions")
    return float(measure_evenness(shown[None], catalogue_size, ["gini"])[0, 0])


def measure_evenness(totals: Totals, catalogue_size: int, functionals: Sequence[Spread]) -> Floats:
    """Compute Gini and entropy of each row of impressions by item.

    Returns shape (functionals, sets).

    Catalogue items without a column count as zeros. Refusals: `too_few_units` for a set without
    impressions.

    Example:
        >>> measure_evenness(np.array([[4.0, 0.0], [2.0, 2.0]]), 2, ["gini", "entropy"]).round(3)
        array([[0.5  , 0.   ],
               [0.   , 0.693]])
    """
    return measure_spread(count_levels(totals), catalogue_size, functionals)


def rarefy_coverage(totals: Totals, units: Floats, at: Floats, catalogue_size: int) -> Floats:
    """Return the coverage of each set of units, rarefied to `at`, shape (sets,).

    `totals` are the units that were shown each item, shape (sets, items).
    """
    chances = compute_inclusion_chances(units, at)
    # Totals up to the last chance are few, and counted rather than sorted.
    few = np.minimum(totals, chances.shape[1] - 1, dtype=totals.dtype)
    return rarefy_levels(count_levels(few), chances, catalogue_size)


class Levels(NamedTuple):
    """Totals of items in each set of groups, ascending, and how many items have each.

    Shape (sets, levels), or (1, levels) if all sets have the same.
    """

    totals: NDArray[np.number]
    items: Integers


def count_levels(totals: Totals) -> Levels:
    """Count the items of each total in each set, rows of `totals`.

    Example:
        >>> count_levels(np.array([[4.0, 0.0, 4.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0, 0.0]])).items
        array([[3, 0, 2],
               [3, 2, 0]])
    """
    size = int(totals.max(initial=0)) + 1
    # Few whole totals are counted, all others sorted.
    if size <= totals.shape[1] and np.array_equal(totals, np.trunc(totals)):
        items = np.stack([np.bincount(row.astype(np.intp), minlength=size) for row in totals])
        levels = np.flatnonzero(items.any(axis=0))
        return Levels(levels[None], items[:, levels])
    return Levels(np.sort(totals, axis=1), np.ones((1, totals.shape[1]), dtype=np.intp))


def measure_spread(levels: Levels, catalogue_size: int, functionals: Sequence[Spread]) -> Floats:
    """Compute Gini and entropy as `measure_evenness` does, by the levels of each set.

    Refusals: `too_few_units` for a set without impressions.
    """
    sums = np.einsum("ij,ij->i", *levels, dtype=np.float64)
    if not sums.all():
        raise Refusal("too_few_units", "a set of groups has no impressions; use fewer groups")
    return np.stack([SET_FUNCTIONALS[name](*levels, sums, catalogue_size) for name in functionals])


def rarefy_levels(levels: Levels, chances: Floats, catalogue_size: int) -> Floats:
    """Return the coverage of each set, shape (sets,).

    `chances` are those of `compute_inclusion_chances` for each set; no total is larger than the
    last of them.
    """
    seen = chances[np.arange(len(chances))[:, None], levels.totals.astype(np.intp)]
    return np.asarray(np.einsum("ij,ij->i", seen, levels.items) / catalogue_size)


def _measure_ginis(
    levels: NDArray[np.number], counts: Integers, sums: Floats, catalogue_size: int
) -> Floats:
    # Items without a column are the first; equal ones share the ranks that they take up together:
    # the sum of 2 i - n - 1 over them.
    items = counts.sum(axis=1, keepdims=True)
    before = np.cumsum(counts, axis=1) - counts + (catalogue_size - items)
    ranks = counts * (2 * before + counts - catalogue_size)
    return np.asarray(np.einsum("ij,ij->i", ranks, levels) / (catalogue_size * sums))


def _measure_entropies(
    levels: NDArray[np.number], counts: Integers, sums: Floats, _: int
) -> Floats:
    # The logarithm of an item that is never shown counts 0 times.
    logs = np.log(np.where(levels > 0, levels, 1), dtype=np.float64)
    return np.asarray(np.log(sums) - np.einsum("ij,ij,ij->i", counts, levels, logs) / sums)


SET_FUNCTIONALS: Mapping[Spread, Callable[[NDArray[np.number], Integers, Floats, int], Floats]] = {
    "gini": _measure_ginis,
    "entropy": _measure_entropies,
}
"""Functional → its values of several sets, by levels, their items, their sum and the catalogue."""


def compute_inclusion_chances(units: ArrayLike, at: ArrayLike) -> Floats:
    """Return the chance that `at` random units include one of k, for k = 0, 1, ….

    The result has a last axis for k; its last chance also holds for all larger numbers (Hurlbert
    1971).

    Example:
        >>> compute_inclusion_chances(4, 1).round(3), compute_inclusion_chances(4, 4)
        (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), array([0., 1.]))
    """
    total, drawn = np.asarray(units, dtype=float), np.asarray(at, dtype=float)
    left = np.maximum(total - drawn, 0.0)
    # C(U-u, m)/C(U, m) = prod_j (U-m-j)/(U-j), cut where it falls below 1e-17.
    length = np.ceil(-40.0 / np.log1p(-np.clip(drawn / np.maximum(total, 1.0), 1e-12, 0.99)))
    step = np.arange(np.minimum(left, length).max(initial=0.0) + 1)
    factors = np.maximum(left[..., None] - step, 0.0) / np.maximum(total[..., None] - step, 1.0)
    none = np.cumprod(factors, axis=-1)
    return np.concatenate([np.zeros((*total.shape, 1)), 1.0 - none], axis=-1)
