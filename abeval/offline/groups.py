"""Estimate metrics that are not sums over units, by a jackknife over groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.offline.candidates import UNIT_GROUPS
from abeval.offline.inference import MIN_UNITS, Value, add_interval
from abeval.offline.metrics import OfflineMetric
from abeval.offline.sums import SCALE, Sums
from abeval.results.replay import POOLED
from abeval.stats import effects
from abeval.stats.catalogue import chances_seen, coverage
from abeval.stats.records import Bools, Effect, Floats, Integers, Refusal
from abeval.stats.resampling import jackknife_se

if TYPE_CHECKING:
    from abeval.engines.sql import Columns

# Of fewer groups, the standard error is itself too uncertain.
_FEWEST = 8
"""Fewer groups than this have no interval."""

# At this limit a 95 % interval still covers the true value in more than 94 % of cases.
_LARGEST_BIAS = 0.25
"""Largest bias of a calibration error with an interval, as a share of its standard error."""


class GroupValues(NamedTuple):
    """Hold a value with all units, and without each group.

    `without` is of the groups that have units, shape (groups,).

    `bias` is the expected excess of the value from noise alone.
    """

    value: float
    without: Floats
    counted: float
    bias: float = 0.0

    def estimate(self, units: int, alpha: float) -> Value:
        """Return the value with its interval, unless too much of it is noise.

        The interval is by t with groups − 1 degrees of freedom.
        """
        # One group has no spread, and so few units have no interval anyway.
        several = self.without.size > 1
        if several and self.bias > _LARGEST_BIAS * jackknife_se(self.without):
            return Value(self.value, reason="biased_by_noise")
        if units < MIN_UNITS or self.without.size < _FEWEST:
            return Value(self.value, reason="too_few_units")
        return add_interval(self.value, jackknife_se(self.without), self.without.size - 1, alpha)


def compare_groups(control: GroupValues, model: GroupValues, alpha: float) -> Effect | str:
    """Compare two values with intervals over the same groups.

    Return a reason where groups differ.
    """
    df = control.without.size - 1
    # Values are subtracted group by group, so both need the same groups.
    if model.without.size - 1 != df:
        return "no_lists"
    # The difference without each group keeps what both models have in common on the same units.
    se, difference = jackknife_se(model.without - control.without), model.value - control.value
    numbers = (control.value, model.value, difference, se, df)
    try:
        return effects.effect_from_difference(*numbers, alpha=alpha, method="paired_jackknife_t")
    except Refusal as refusal:
        return refusal.reason


class ByGroup:
    """Compute values with and without each group of units.

    They are of calibration curves and of listed items.
    """

    def __init__(self, sums: Sums) -> None:
        self._sums = sums
        self._listed: dict[tuple[str, int, str], ListedItems] = {}

    def values(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        """Return the value with and without each group; a reason where there is none."""
        if traffic == POOLED:
            return "not_pooled"
        group = self._sums.units.group[self._sums.units.masks[traffic]]
        used = np.flatnonzero(np.bincount(group, minlength=UNIT_GROUPS))
        if metric.definition.family != "bins":
            return self._compute_list_values(model, metric, traffic, used)
        curve, number = self._sums.models[model].curve, self._sums.units.names.index(traffic)
        if curve is None:
            return "no_scores"
        kept = (curve["kind"] == metric.definition.variant) & (curve["traffic"] == number)
        if not kept.any():
            return "no_scores"
        bins = Bins.build({name: column[kept] for name, column in curve.items()}, UNIT_GROUPS)
        # Without a group that holds all rows, nothing would be left.
        used = used[bins.rows.sum() > bins.rows[used]]
        bias = bins.bias(used) if used.size > 1 else 0.0
        return GroupValues(bins.error(), bins.errors_without(used), float(bins.rows.sum()), bias)

    def _compute_list_values(
        self, model: str, metric: OfflineMetric, traffic: str, groups: Integers
    ) -> GroupValues | str:
        rows, key = self._sums.models[model].listed_items, (model, metric.cutoff, traffic)
        if rows is None:
            return "no_lists"
        if key not in self._listed:
            self._listed[key] = self._build_listed_items(rows, *key)
        items = self._listed[key]
        values = items.values(metric.definition.above)
        if values is None:
            return "no_lists"
        value, without = values
        # A value that is undefined without a group has no interval, as one of no groups.
        jackknifed = without[groups] if np.isfinite(without[groups]).all() else np.zeros(0)
        return GroupValues(value, jackknifed, float(items.total.sum()))

    def _build_listed_items(
        self, rows: Columns, model: str, cutoff: int, traffic: str
    ) -> ListedItems:
        units, number = self._sums.units, self._sums.units.names.index(traffic)
        # The query orders its rows by traffic, cut-off and item, so a search finds them.
        kept = slice(*np.searchsorted(rows["traffic"], [number, number + 1]))
        first, end = np.searchsorted(rows["k"][kept], [cutoff, cutoff + 1]) + kept.start
        cut_rows = {name: column[first:end] for name, column in rows.items()}
        lists, mask = self._sums.models[model].column("requests", "listed"), units.masks[traffic]
        total, all_units = (
            np.bincount(units.group[mask], weights, UNIT_GROUPS).astype(np.float64)
            for weights in (lists[mask], lists[mask] > 0)
        )
        # More units list more items, so coverage is compared at the units of the smallest traffic.
        fewest = min(int((lists[traffic_mask] > 0).sum()) for traffic_mask in units.masks.values())
        return ListedItems.build(cut_rows, total, all_units, fewest, self._sums.catalogue)


class Bins(NamedTuple):
    """Hold a calibration curve by bin and group.

    `gap` sums score − click, shape (bins, groups).
    """

    gap: Floats
    rows: Floats

    @classmethod
    def build(cls, curve: Columns, groups: int) -> Bins:
        """Sum the curve of one traffic and kind of bin.

        `predicted` is a multiple of 1e-9.
        """
        number, group = (np.asarray(curve[c], dtype=np.int64) for c in ("bin", "unit_group"))
        predicted, clicks = (np.asarray(curve[c], dtype=float) for c in ("predicted", "clicks"))
        gap = predicted * SCALE - clicks
        size = int(number.max()) + 1 if number.size else 0
        flat = np.bincount(number * groups + group, gap, size * groups).astype(np.float64)
        rows = np.bincount(group, curve["rows"], groups).astype(np.float64)
        return cls(flat.reshape(size, groups), rows)

    def error(self) -> float:
        """Return Σ rows·|mean score − click rate| / Σ rows over the bins.

        Example:
            >>> Bins(np.array([[0.5], [-0.5]]), np.array([4.0])).error()
            0.25
        """
        return float(np.abs(self.gap.sum(axis=1)).sum() / self.rows.sum())

    def errors_without(self, groups: Integers) -> Floats:
        """Return the error without each of some groups."""
        gap = np.abs(self.gap.sum(axis=1)[:, None] - self.gap[:, groups]).sum(axis=0)
        return np.asarray(gap / (self.rows.sum() - self.rows[groups]))

    def bias(self, groups: Integers) -> float:
        """Return the expected excess of the error, because noise alone counts as a gap."""
        # Imported here, because the import takes longer than most metrics.
        from scipy.special import ndtr

        gap = self.gap.sum(axis=1)
        # A bin's gap is a sum over independent groups: its variance is that of one times their
        # number.
        spread = np.sqrt(self.gap[:, groups].var(axis=1, ddof=1) * groups.size)
        # A bin without spread has no noise: z is infinite, and its excess zero.
        z = np.divide(gap, spread, out=np.full(gap.size, np.inf), where=spread > 0)
        # The mean of a folded normal, less the gap (Leone, Nelson and Nottingham 1961).
        noise = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
        folded = noise + gap * (1 - 2 * ndtr(-z))
        excess = np.where(spread > 0, folded - np.abs(gap), 0.0)
        return float(excess.sum() / self.rows.sum())


@dataclass(frozen=True, eq=False)
class ListedItems:
    """Count the lists that each item is in, by item and group of units.

    `equal` is the number of units with lists in the smallest traffic.

    A group is left out by subtracting its own entries, of which there are few. Entries are in the
    order of items, shape (entries,); `total` and `units` are of all lists, shape (groups,).

    Attributes:
        item: Code of the item, from 0, of each entry; `group` is its group.
        lists: Lists of the group that hold the item; `held` are its units with such a list.
        weight: Sums of its weights in them, of lists normed to length one.
        squared: Sums of squared weights.
    """

    item: Integers
    group: Integers
    lists: Floats
    held: Floats
    weight: Floats
    squared: Floats
    total: Floats
    units: Floats
    equal: int
    catalogue: int

    @classmethod
    def build(
        cls, rows: Columns, total: Floats, units: Floats, equal: int, catalogue: int
    ) -> ListedItems:
        """Build from rows of `listed_items.sql` of one traffic and cut-off.

        The rows are in the order of items.
        """
        edge = find_run_edges(rows["item_id"])
        item = np.repeat(np.arange(edge.size - 1), np.diff(edge))
        names = ("lists", "units", "weight", "squared_weight")
        lists, held, weight, squared = (np.asarray(rows[name], dtype=float) for name in names)
        group = np.asarray(rows["unit_group"], dtype=np.int64)
        sums = (lists, held, weight, squared)
        return cls(item, group, *sums, total, units, equal, catalogue)

    def values(self, name: str) -> tuple[float, Floats] | None:
        """Return what a metric sums (`above`) of all lists, and without each group.

        None where there are no lists, and NaN where there are none without a group.

        Example:
            >>> one = np.ones(2)
            >>> listed = ListedItems(np.array([0, 1]), np.array([0, 1]), *[one] * 4, one, one, 1, 5)
            >>> listed.values("coverage"), listed.values("coverage_equal")
            ((0.4, array([0.2, 0.2])), (0.2, array([0.2, 0.2])))
        """
        # Personalisation is of pairs of lists.
        fewest = 2 if name == "personalisation" else 1
        if not self.item.size or self.total.sum() < fewest:
            return None
        value, without = getattr(self, f"_{name}")()
        # Counts are floating point here: half lies between none and one.
        left = self._left_groups(self.lists) > 0.5
        left &= self.total.sum() - self.total >= fewest
        return float(value), np.where(left, without, np.nan)

    def _sum_items(self, column: Floats) -> Floats:
        """Sum a column by item."""
        return np.bincount(self.item, column).astype(np.float64, copy=False)

    def _sum_groups(self, column: Floats | Bools) -> Floats:
        """Sum a column by group."""
        return np.bincount(self.group, column, self.total.size).astype(np.float64, copy=False)

    def _left_groups(self, column: Floats) -> Floats:
        """Sum a column without each group."""
        return np.asarray(column.sum() - self._sum_groups(column))

    @cached_property
    def _all(self) -> Floats:
        """Count the lists of each entry's item."""
        return self._sum_items(self.lists)[self.item]

    @cached_property
    def _gone(self) -> Floats:
        """Count the items that only lists of one group hold, by group."""
        return self._sum_groups(self._all - self.lists < 0.5)

    @property
    def _items(self) -> int:
        return int(self.item[-1]) + 1

    def _coverage(self) -> tuple[float, Floats]:
        return self._items / self.catalogue, (self._items - self._gone) / self.catalogue

    def _coverage_equal(self) -> tuple[float, Floats]:
        """Rarefy the items to the units of the smallest variant (Hurlbert 1971)."""
        held, size = self._sum_items(self.held), max(self.catalogue, self._items)
        count = np.bincount(held.astype(np.intp))
        every, entry = np.arange(count.size), held.astype(np.intp)[self.item]
        remaining = (held[self.item] - self.held).astype(np.intp)
        without = np.zeros(self.total.size)
        # Sorted once, so that each group below reads one slice.
        order = np.argsort(self.group, kind="stable")
        edges = np.searchsorted(self.group[order], np.arange(self.total.size + 1))
        for group, units in enumerate((self.units.sum() - self.units).tolist()):
            in_group = order[edges[group] : edges[group + 1]]
            seen = chances_seen(units, min(self.equal, units)) if units else np.zeros(1)
            # Only items in lists of the group have fewer units without it; all others stay.
            unlike = seen.take(remaining[in_group], mode="clip") - seen.take(
                entry[in_group], mode="clip"
            )
            without[group] = count @ seen.take(every, mode="clip") + unlike.sum()
        units = int(self.units.sum())
        return coverage(held, units, min(self.equal, units), size), without / size

    @cached_property
    def _gaps(self) -> tuple[float, Floats]:
        """Sum the differences of lists over pairs of items, with and without each group."""
        # Σ|xi − xj| = Σ_v C(v)·(n − C(v)), where C(v) counts the items in at most v lists. Without
        # a group, C(v) is larger by each of its items, from the lists without it up to those with
        # it.
        left, groups = self._all - self.lists, self.total.size
        levels, at = np.unique(np.concatenate([left, self._all]), return_inverse=True)
        low, high = at[: left.size], at[left.size :]
        width, size = np.diff(levels, append=levels[-1]), levels.size
        # The items of each level: their entries of the lists that hold them.
        item_levels = high[np.flatnonzero(np.diff(self.item, prepend=-1))]
        below = np.cumsum(np.bincount(item_levels, minlength=size)).astype(np.float64)
        total_gap = float((width * below * (self._items - below)).sum())
        # Group and level make one index, so that no loop over groups is needed.
        rise = np.bincount(self.group * size + low, minlength=groups * size)
        rise -= np.bincount(self.group * size + high, minlength=groups * size)
        more = np.cumsum(rise.reshape(groups, size), axis=1).astype(np.float64)
        return total_gap, total_gap + (more * (self._items - 2 * below - more)) @ width

    def _gini(self) -> tuple[float, Floats]:
        size = max(self.catalogue, self._items)
        # Each item in no list differs from every other by its lists.
        none, lists, (total_gap, gaps) = size - self._items, self.lists.sum(), self._gaps
        lists_left = self._left_groups(self.lists)
        return total_gap / (size * lists) + none / size, divide(
            gaps, size * lists_left
        ) + none / size

    def _gini_listed(self) -> tuple[float, Floats]:
        lists, (total_gap, gaps), left = self.lists.sum(), self._gaps, self._items - self._gone
        lists_left = self._left_groups(self.lists)
        return total_gap / (self._items * lists), divide(
            gaps - self._gone * lists_left, left * lists_left
        )

    def _entropy(self) -> tuple[float, Floats]:
        lists, lists_left = self._sum_items(self.lists), self._left_groups(self.lists)
        total = float((lists * np.log(lists)).sum())
        kept = self._all - self.lists
        # x·log x is 0 at 0, as it is at 1.
        fewer = kept * np.log(np.maximum(kept, 1)) - self._all * np.log(self._all)
        bits = np.log(np.maximum(lists_left, 1)) - divide(
            total + self._sum_groups(fewer), lists_left
        )
        return (np.log(lists.sum()) - total / lists.sum()) / np.log(2), bits / np.log(2)

    def _personalisation(self) -> tuple[float, Floats]:
        """Add the cosines of every two lists: of each item, the products of two weights."""
        weight = self._sum_items(self.weight)
        total = float((weight**2).sum() - self.squared.sum())
        # (w − g)² = w² − (2wg − g²), and the squares of the group's own lists go with it.
        item_terms = 2 * weight[self.item] * self.weight - self.weight**2 - self.squared
        every, lists_left = self.total.sum(), self.total.sum() - self.total
        pairs = lists_left * (lists_left - 1)
        return 1 - total / (every * (every - 1)), 1 - divide(
            total - self._sum_groups(item_terms), pairs
        )


def find_run_edges(*keys: NDArray[np.generic]) -> Integers:
    """Return where runs of equal keys start, and last the number of rows.

    Example:
        >>> find_run_edges(np.array([7, 7, 3])).tolist()
        [0, 2, 3]
    """
    rows = keys[0].size
    changed = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    # Without rows there are no runs: the only edge is the number of rows, 0.
    edges = np.concatenate([[True], changed, [True]]) if rows else np.ones(1, dtype=np.bool_)
    return np.flatnonzero(edges)


def divide(above: Floats, below: Floats) -> Floats:
    """Divide element by element; 0 where `below` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
