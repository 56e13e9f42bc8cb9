"""Estimate metrics that are not sums over units, by a jackknife over groups."""

from __future__ import annotations

from collections.abc import Mapping
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
from abeval.stats.item_exposure import measure_evenness, rarefy_coverage
from abeval.stats.records import Effect, Floats, Integers, Refusal
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
    """Compute values with and without each group of units, for a jackknife.

    They are values of metrics that are no sums of units: of calibration and of listed items.
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


# Sets of groups times items whose sums are held in memory at once.
_CHUNK = 1 << 23

# Whole numbers up to here are exact in single precision, which is counted faster.
_EXACT = 1 << 24


@dataclass(frozen=True, eq=False)
class ListedItems:
    """Count the lists that each item is in, by item and group of units.

    `equal` is the number of units with lists in the smallest traffic.

    Entries are in the order of items, shape (entries,), one for each item and group; `total` and
    `units` are of all lists, shape (groups,).

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
        # A traffic without lists leaves no number of units at which to compare.
        if name == "coverage_equal" and not self.equal:
            return None
        value, *without = np.where(_leave_out(self.total) >= fewest, self._values[name], np.nan)
        return float(value), np.array(without)

    @cached_property
    def _values(self) -> Mapping[str, Floats]:
        """Compute every metric of all lists, then without each group.

        Each result has the shape (1 + groups,).
        """
        in_group = np.bincount(self.group, self.lists, self.total.size)
        # Counts are floating point here: half lies between none and one.
        left = np.flatnonzero(_leave_out(in_group) > 0.5)
        size = max(1, _CHUNK // int(self.item[-1] + 1))
        chunks = [left[start : start + size] for start in range(0, left.size, size)]
        parts = [self._evaluate(chunk) for chunk in chunks]
        values = {name: np.full(1 + self.total.size, np.nan) for name in parts[0]}
        for name, every in values.items():
            every[left] = np.concatenate([part[name] for part in parts])
        return values

    def _evaluate(self, sets: Integers) -> dict[str, Floats]:
        """Compute every metric of some sets of lists.

        Set 0 has all lists, set g has all but those of group g - 1.
        """
        precision = np.float32 if self.total.sum() < _EXACT else np.float64
        lists, held = (self._sum_items(c.astype(precision), sets) for c in (self.lists, self.held))
        weight = self._sum_items(self.weight, sets)
        squared = np.bincount(self.group, self.squared, self.total.size)
        total, units, own_pairs = (
            _leave_out(sums)[sets] for sums in (self.total, self.units, squared)
        )
        items, listed = lists.shape[1], np.count_nonzero(lists, axis=1)
        size = max(self.catalogue, items)
        gini, entropy = measure_evenness(lists, items, ["gini", "entropy"])
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (np.einsum("ij,ij->i", weight, weight) - own_pairs) / (total * (total - 1))
        return {
            "coverage": listed / self.catalogue,
            # Rarefied to the units of the smallest variant (Hurlbert 1971).
            "coverage_equal": rarefy_coverage(held, units, np.minimum(self.equal, units), size),
            # An item in no list is as far from each other one as that has lists.
            "gini": (items * gini + size - items) / size,
            "gini_listed": (items * gini + listed - items) / listed,
            "entropy": entropy / np.log(2),
            # The cosines of every two lists: of each item, the products of two weights.
            "personalisation": 1 - cosine,
        }

    def _sum_items(self, column: NDArray[np.floating], sets: Integers) -> NDArray[np.floating]:
        """Sum a column by item over sets of lists, shape (sets, items)."""
        every = np.bincount(self.item, column).astype(column.dtype)
        sums = np.tile(every, (sets.size, 1))
        row = np.full(1 + self.total.size, -1)
        row[sets] = np.arange(sets.size)
        left_out = row[1 + self.group]
        entries = left_out >= 0
        sums[left_out[entries], self.item[entries]] -= column[entries]
        return sums


def _leave_out(sums: NDArray[np.number]) -> Floats:
    """Return the total of all groups, then without each, shape (1 + groups,)."""
    return np.asarray(sums.sum() - np.append(0.0, sums))


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
