"""Which items were shown to how many units, and two variants of it as matrices.

`aggregates/aggregates.py` builds an `Incidence` for each variant; `stats/catalogue.py` takes the
matrices of two.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats.catalogue import Arm
from abeval.stats.records import Bools, Integers, Refusal

Numbers = NDArray[np.number[Any]]
Counted = Literal["units", "impressions"]

_EXACT = 1 << 24
"""Whole numbers and sums up to here are exact in single precision."""


class Incidence(NamedTuple):
    """Exposure of items in one variant: one entry per item and group that was shown it.

    A group is a set of hash sub-buckets, the same sets in every variant; a unit is in one group.

    Attributes:
        item: Item code in [0, catalogue_size), the same in every variant, shape (entries,).
        group: Group in [0, groups), shape (entries,).
        units: Distinct units of the group that were shown the item, shape (entries,).
        impressions: Impressions of the item in the group, shape (entries,).
        units_in_group: All units of the variant per group, shown items or not, shape (groups,).
        catalogue_size: Items that could have been shown.
    """

    item: NDArray[np.integer]
    group: Integers
    units: NDArray[np.integer]
    impressions: NDArray[np.integer]
    units_in_group: Integers
    catalogue_size: int


def matrices(control: Incidence, treatment: Incidence, counted: Counted) -> tuple[Arm, Arm]:
    """Dense counts of the items that were shown in either variant.

    Args:
        control: Incidence of control.
        treatment: Incidence of treatment, with the same groups and catalogue.
        counted: The field of an entry to use.

    Raises:
        Refusal: `not_applicable` for groups or catalogues that differ, or a code outside the
            catalogue; `too_few_units` for fewer than eight groups or a variant without counts;
            `not_finite` for counts that are negative or not finite.

    Example:
        >>> columns = ([2, 5], [0, 1], [1, 1], [7, 9], [3] * 8)
        >>> one = Incidence(*map(np.array, columns), 10)
        >>> matrices(one, one, "impressions")[0].counts[:2]
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
    values = [_values(arm, counted) for arm in arms]
    seen = np.sum([np.bincount(arm.item, minlength=size) for arm in arms], axis=0) > 0
    precision = _precision(arms, values)
    first, second = (_arm(a, v, seen, precision) for a, v in zip(arms, values, strict=True))
    return first, second


def _values(arm: Incidence, counted: Counted) -> Numbers:
    values = np.asarray(arm.units if counted == "units" else arm.impressions)
    if not np.isfinite(values).all() or np.any(values < 0):
        raise Refusal("not_finite", "counts must be finite and not negative")
    if values.sum() == 0:
        raise Refusal("too_few_units", "a variant has no impressions")
    return values


def _precision(arms: Sequence[Incidence], values: Sequence[Numbers]) -> type[np.floating]:
    """Single precision where all sums of counts are exact in it: half the memory and time."""
    whole = all((np.trunc(counts) == counts).all() for counts in values)
    shown = [
        np.bincount(arm.item, counts, arm.catalogue_size)
        for arm, counts in zip(arms, values, strict=True)
    ]
    return np.float32 if whole and np.sum(shown, axis=0).max() < _EXACT else np.float64


def _arm(arm: Incidence, values: Numbers, seen: Bools, precision: type[np.floating]) -> Arm:
    groups, column = len(arm.units_in_group), np.cumsum(seen) - 1
    items = np.count_nonzero(seen)
    cell = np.asarray(arm.group, dtype=np.int64) * items + column[arm.item]
    counts = np.bincount(cell, values, groups * items).astype(precision, copy=False)
    return Arm(counts.reshape(groups, items), np.asarray(arm.units_in_group, dtype=np.float64))
