"""Coverage, Gini and entropy of item exposure, for one set of units or for many."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats.records import Floats, Integers, Refusal, finite

Totals = NDArray[np.floating]
Functional = Literal["coverage", "gini", "entropy"]
Spread = Literal["gini", "entropy"]

_COUNTED = 1 << 14
"""Totals below this are counted; larger ones are rare and are sorted."""


class _Levels(NamedTuple):
    """The distinct totals of a set, ascending, and the number of items with each."""

    total: Totals
    items: Integers


def coverage(units_per_item: ArrayLike, units: int, at: int, catalogue_size: int) -> float:
    """Return the expected share of the catalogue shown to `at` units drawn from the variant.

    Incidence-based rarefaction (Hurlbert 1971; Colwell et al. 2012); unseen items may be absent.
    Refusals: `too_few_units` for `at` outside [1, units]; `not_applicable` for counts outside [0,
    units] or more items than the catalogue has.

    Example:
        >>> coverage([10, 5, 1], units=10, at=10, catalogue_size=4)
        0.75
        >>> round(coverage([10, 5, 1], units=10, at=1, catalogue_size=4), 3)
        0.4
    """
    # Imported here, because the import takes longer than counting most catalogues.
    from scipy.special import gammaln

    shown = np.asarray(units_per_item, dtype=float)
    if not 1 <= at <= units:
        raise Refusal("too_few_units", f"cannot rarefy {units} units to {at}")
    if np.any((shown < 0) | (shown > units)):
        raise Refusal("not_applicable", "an item must be shown to between 0 and all units")
    if len(shown) > catalogue_size:
        raise Refusal("not_applicable", f"{len(shown)} items in a catalogue of {catalogue_size}")
    log_missed = (
        gammaln(units - shown + 1)
        - gammaln(units - shown - at + 1)
        - gammaln(units + 1)
        + gammaln(units - at + 1)
    )
    missed = np.where(shown > units - at, 0.0, np.exp(np.minimum(log_missed, 0.0)))
    return float(np.sum(1.0 - missed) / catalogue_size)


def gini(impressions_per_item: ArrayLike, catalogue_size: int) -> float:
    """Return the Gini coefficient of exposure; items never shown count as zeros (Gini 1912).

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
    if finite(shown, "impressions must be finite").sum() == 0:
        raise Refusal("too_few_units", "there are no impressions")
    return float(gini_of_sets(shown[None], catalogue_size)[0])


def gini_of_sets(totals: Totals, catalogue_size: int) -> Floats:
    """Return Gini of every row; catalogue items without a column count as zeros."""
    return spread_of_sets(totals, catalogue_size, ["gini"]).ravel()


def entropy_of_sets(totals: Totals) -> Floats:
    """Return entropy of every row, in nats."""
    return spread_of_sets(totals, totals.shape[1], ["entropy"]).ravel()


def spread_of_sets(totals: Totals, catalogue_size: int, functionals: Sequence[Spread]) -> Floats:
    """Evaluate Gini and entropy of every row of impressions by item, shape (functionals, sets).

    Refusals: `too_few_units` for a set without impressions.

    Example:
        >>> spread_of_sets(np.array([[4.0, 0.0], [2.0, 2.0]]), 2, ["gini", "entropy"]).round(3)
        array([[0.5  , 0.   ],
               [0.   , 0.693]])
    """
    values = np.empty((len(functionals), len(totals)))
    for column, row in enumerate(totals):
        levels = _levels(row)
        values[:, column] = [_OF_LEVELS[name](levels, catalogue_size) for name in functionals]
    return values


def coverage_of_sets(totals: Totals, units: Floats, at: Floats, catalogue_size: int) -> Floats:
    """Return the expected share of the catalogue shown to `at` units of every set, shape (sets,).

    `totals` are the units that were shown each item, shape (sets, items).
    """
    sets = zip(totals, units.tolist(), at.tolist(), strict=True)
    return np.array([_rarefied(shown, n, m) / catalogue_size for shown, n, m in sets])


def _levels(totals: Totals) -> _Levels:
    if (np.trunc(totals) != totals).any():
        return _Levels(*np.unique(totals, return_counts=True))
    # Most totals are small whole numbers; counting is several times faster than sorting.
    counted = np.bincount(np.minimum(totals, _COUNTED).astype(np.intp))
    small = np.flatnonzero(counted[:_COUNTED])
    if len(counted) <= _COUNTED:
        return _Levels(small.astype(np.float64), counted[small])
    large, items = np.unique(totals[totals >= _COUNTED], return_counts=True)
    levels = np.concatenate([small, large]).astype(np.float64)
    return _Levels(levels, np.concatenate([counted[small], items]))


def _gini(levels: _Levels, catalogue_size: int) -> float:
    total, items = levels
    # Mean of 2 i - n - 1 over the ranks i of the items with the same total.
    up_to = catalogue_size - items.sum() + np.cumsum(items)
    rank = 2.0 * up_to - items - catalogue_size
    shown = total * items
    return float(shown @ rank) / (catalogue_size * _positive(float(shown.sum())))


def _entropy(levels: _Levels, _: int) -> float:
    shown = levels.total * levels.items
    impressions = _positive(float(shown.sum()))
    spread = shown @ np.log(levels.total, out=np.zeros_like(shown), where=shown > 0)
    return math.log(impressions) - float(spread) / impressions


_OF_LEVELS: Mapping[Spread, Callable[[_Levels, int], float]] = {
    "gini": _gini,
    "entropy": _entropy,
}


def _positive(impressions: float) -> float:
    if impressions == 0:
        raise Refusal("too_few_units", "a set of groups has no impressions; use fewer groups")
    return impressions


def _rarefied(shown: Totals, units: float, at: float) -> float:
    """Expected number of distinct items shown to `at` of the units."""
    if at >= units:
        return float(np.count_nonzero(shown > 0))
    # C(U-u, m)/C(U, m) = prod_j (U-m-j)/(U-j), cut where it falls below 1e-17.
    length = int(min(units - at, np.ceil(-40.0 / np.log1p(-at / units)))) + 1
    step = np.arange(length)
    factors = np.maximum(units - at - step, 0.0) / (units - step)
    seen = 1.0 - np.concatenate(([1.0], np.cumprod(factors)))
    return float(np.sum(seen.take(shown.astype(np.intp), mode="clip")))
