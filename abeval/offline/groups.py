"""Estimate metrics that are not sums over units: leave out one group of units at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from abeval.offline.candidates import UNIT_GROUPS
from abeval.offline.inference import MIN_UNITS, Value, with_interval
from abeval.offline.metrics import OfflineMetric
from abeval.offline.sums import Sums
from abeval.results.replay import POOLED
from abeval.stats import effects
from abeval.stats.catalogue import coverage, entropy_of_sets, gini_of_sets
from abeval.stats.records import Effect, Floats, Integers, Refusal
from abeval.stats.resampling import jackknife_se

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 8
"""Fewer groups than this have no interval."""

_LARGEST_BIAS = 0.25
"""Largest bias of a calibration error with an interval, as a share of its standard error."""


class GroupValues(NamedTuple):
    """A value with all units, and `without` each group that has units, shape (groups,).

    `bias` is the expected excess of the value from noise alone.
    """

    value: float
    without: Floats
    counted: float
    bias: float = 0.0

    def estimate(self, units: int, alpha: float) -> Value:
        """Return the value with its interval (t, groups − 1 df), unless too much of it is noise."""
        # One group has no spread, and so few units have no interval anyway.
        several = self.without.size > 1
        if several and self.bias > _LARGEST_BIAS * jackknife_se(self.without):
            return Value(self.value, reason="biased_by_noise")
        if units < MIN_UNITS or self.without.size < _FEWEST:
            return Value(self.value, reason="too_few_units")
        return with_interval(self.value, jackknife_se(self.without), self.without.size - 1, alpha)


def compare_groups(control: GroupValues, model: GroupValues, alpha: float) -> Effect | str:
    """Compare two values with intervals over the same groups; a reason where groups differ."""
    df = control.without.size - 1
    if model.without.size - 1 != df:
        return "no_lists"
    se, difference = jackknife_se(model.without - control.without), model.value - control.value
    numbers = (control.value, model.value, difference, se, df)
    try:
        return effects.from_difference(*numbers, alpha=alpha, method="paired_jackknife_t")
    except Refusal as refusal:
        return refusal.reason


class ByGroup:
    """Values with and without each group of units, of calibration curves and listed items."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums
        self._listed: dict[tuple[str, int, str], Listed] = {}

    def values(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        """Return the value with and without each group; a reason where there is none."""
        if traffic == POOLED:
            return "not_pooled"
        group = self._sums.units.group[self._sums.units.masks[traffic]]
        used = np.flatnonzero(np.bincount(group, minlength=UNIT_GROUPS))
        if metric.definition.family != "bins":
            return self._of_lists(model, metric, traffic, used)
        curve = self._sums.models[model].curve
        if curve is not None:
            is_own = (curve["kind"] == metric.definition.variant) & (curve["traffic"] == traffic)
            curve = curve[is_own]
        if curve is None or curve.empty:
            return "no_scores"
        bins = Bins.of(curve, UNIT_GROUPS)
        used = used[bins.rows.sum() > bins.rows[used]]
        bias = bins.bias(used) if used.size > 1 else 0.0
        return GroupValues(bins.error(), bins.errors_without(used), float(bins.rows.sum()), bias)

    def _of_lists(
        self, model: str, metric: OfflineMetric, traffic: str, groups: Integers
    ) -> GroupValues | str:
        rows, key = self._sums.models[model].listed, (model, metric.cutoff, traffic)
        if rows is None:
            return "no_lists"
        if key not in self._listed:
            own = rows[(rows["traffic"] == traffic) & (rows["k"] == metric.cutoff)]
            self._listed[key] = self._lists(own, model, traffic)
        listed, name = self._listed[key], metric.definition.above
        whole = listed.whole().values(name)
        if whole is None:
            return "no_lists"
        without = listed.without(groups).values(name)
        rest = np.zeros(0) if without is None else without
        return GroupValues(float(whole[0]), rest, float(listed.lists.sum()))

    def _lists(self, rows: pd.DataFrame, model: str, traffic: str) -> Listed:
        units, lists = self._sums.units, self._sums.models[model].column("requests", "listed")
        mask = units.masks[traffic]
        total, all_units = (
            np.bincount(units.group[mask], weights, UNIT_GROUPS).astype(np.float64)
            for weights in (lists[mask], lists[mask] > 0)
        )
        fewest = min(int((lists[other] > 0).sum()) for other in units.masks.values())
        return Listed.of(rows, total, all_units, fewest, self._sums.catalogue)


class Bins(NamedTuple):
    """A calibration curve by bin and group; `gap` sums score − click, shape (bins, groups)."""

    gap: Floats
    rows: Floats

    @classmethod
    def of(cls, curve: pd.DataFrame, groups: int) -> Bins:
        """Sum the curve of one traffic and kind of bin."""
        number, group = (curve[c].to_numpy(dtype=np.int64) for c in ("bin", "unit_group"))
        gap = (curve["predicted"] - curve["clicks"]).to_numpy(dtype=np.float64)
        size = int(number.max()) + 1 if number.size else 0
        flat = np.bincount(number * groups + group, gap, size * groups).astype(np.float64)
        counted = curve["rows"].to_numpy(dtype=np.float64)
        rows = np.bincount(group, counted, groups).astype(np.float64)
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
        """Return the expected excess of the error, because noise alone counts as a gap.

        The mean of a folded normal less the gap, over bins (Leone, Nelson and Nottingham 1961).
        """
        # Imported here, because the import takes longer than most metrics.
        from scipy.special import ndtr

        gap = self.gap.sum(axis=1)
        spread = np.sqrt(self.gap[:, groups].var(axis=1, ddof=1) * groups.size)
        z = np.divide(gap, spread, out=np.full(gap.size, np.inf), where=spread > 0)
        noise = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
        folded = noise + gap * (1 - 2 * ndtr(-z))
        excess = np.where(spread > 0, folded - np.abs(gap), 0.0)
        return float(excess.sum() / self.rows.sum())


class Listed(NamedTuple):
    """In how many lists each item is, by item and set of units; `equal` of the smallest traffic.

    Attributes:
        items: Lists that hold the item; sums of its weights in them, of lists normed to length one;
            sums of squared weights; units with such a list. Shape (4, items, sets).
    """

    items: Floats
    lists: Floats
    units: Floats
    equal: int
    catalogue: int

    @classmethod
    def of(
        cls, frame: pd.DataFrame, lists: Floats, units: Floats, equal: int, catalogue: int
    ) -> Listed:
        """Sum rows of `listed_items.sql` of one traffic and cut-off; the sets are groups."""
        item = frame["item_id"].factorize()[0]
        cell = item * lists.size + frame["unit_group"].to_numpy(dtype=np.int64)
        shape = (int(item.max()) + 1 if item.size else 0, lists.size)
        sums = [
            np.bincount(cell, frame[c].to_numpy(np.float64), shape[0] * shape[1]).reshape(shape)
            for c in ("lists", "weight", "squared_weight", "units")
        ]
        return cls(np.array(sums, dtype=np.float64), lists, units, equal, catalogue)

    def whole(self) -> Listed:
        """Join all groups to one set."""
        return self._mapped(lambda sums: sums.sum(axis=-1, keepdims=True))

    def without(self, groups: Integers) -> Listed:
        """Return, for each of some groups, the set of all other groups."""
        return self._mapped(lambda sums: sums.sum(axis=-1, keepdims=True) - sums[..., groups])

    def _mapped(self, to: Callable[[Floats], Floats]) -> Listed:
        return self._replace(items=to(self.items), lists=to(self.lists), units=to(self.units))

    def values(self, name: str) -> Floats | None:
        """Return what a metric sums (`above`) of each set, None where one has no lists.

        Example:
            >>> in_lists, three = np.array([[[2.0], [1], [2], [1]]] * 4), np.array([3.0])
            >>> listed = Listed(in_lists, three, three, 1, 5)
            >>> listed.values("coverage"), listed.values("coverage_equal")
            (array([0.8]), array([0.4]))
        """
        lists, weight, squared, units = self.items
        if not lists.size or (lists.sum(axis=0) < 0.5).any():
            return None
        size = max(self.catalogue, len(lists))
        match name:
            case "coverage":
                return np.asarray((lists > 0.5).sum(axis=0) / self.catalogue)
            case "coverage_equal":
                # Expected distinct items, rarefied to the smallest variant (Hurlbert 1971).
                sets = zip(units.T, self.units.astype(np.int64).tolist(), strict=True)
                return np.array([coverage(of, n, min(self.equal, n), size) for of, n in sets])
            case "gini":
                return gini_of_sets(lists.T, size)
            case "gini_listed":
                held = (column[column > 0.5][None] for column in lists.T)
                return np.asarray(np.concatenate([gini_of_sets(s, s.size) for s in held]))
            case "entropy":
                return np.asarray(entropy_of_sets(lists.T) / np.log(2))
        if (self.lists < 2).any():
            return None
        # A pair's cosine is a sum over items, so sums over items are enough.
        cosines: Floats = (weight**2 - squared).sum(axis=0)
        return np.asarray(1 - cosines / (self.lists * (self.lists - 1)))
