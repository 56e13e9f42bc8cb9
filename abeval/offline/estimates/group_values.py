"""Leave-one-group-out values for metrics that are not sums over units.

From the calibration curve and the listed items in the `Sums`; `offline/estimates/estimates.py` asks
for their intervals, `offline/estimates/pairs.py` compares models by them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abeval.offline import groups
from abeval.offline.candidates import UNIT_GROUPS
from abeval.offline.groups import Bins, Listed
from abeval.offline.inference import Value
from abeval.offline.metrics import OfflineMetric
from abeval.offline.sums import Sums
from abeval.results.replay import POOLED
from abeval.stats.records import Floats

_LARGEST_BIAS = 0.25
"""Largest bias of a calibration error with an interval, as a share of its standard error."""


class GroupValues(NamedTuple):
    """A value with all units, and without each group of units.

    Attributes:
        value: Of all units.
        without: Without each group that has units, shape (groups,).
        bias: Expected excess of the value from noise alone.
        counted: Number of rows or lists that the value is about.
    """

    value: float
    without: Floats
    bias: float
    counted: float

    def estimate(self, units: int, alpha: float) -> Value:
        """The value with its interval, unless too much of it is noise."""
        # One group has no spread, and so few units have no interval anyway.
        several = self.without.size > 1
        if several and self.bias > _LARGEST_BIAS * groups.standard_error(self.without):
            return Value(self.value, reason="biased_by_noise")
        return groups.estimate(self.value, self.without, units, alpha)


class ByGroup:
    """Leave-one-group-out values, each computed once.

    Args:
        sums: The sums per unit.
    """

    def __init__(self, sums: Sums) -> None:
        self._sums = sums
        self._masks = sums.units.masks
        self._values: dict[tuple[str, str, str], GroupValues | str] = {}
        self._listed: dict[tuple[str, int, str], Listed | None] = {}

    def values(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        """The value with and without each group of units; a reason where there is none."""
        key = (model, metric.id, traffic)
        if key not in self._values:
            by = self._of_bins if metric.definition.family == "bins" else self._of_lists
            self._values[key] = "not_pooled" if traffic == POOLED else by(model, metric, traffic)
        return self._values[key]

    def _of_bins(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        curve, kind = self._sums.models[model].curve, metric.definition.variant
        if curve is None:
            return "no_scores"
        rows = curve[(curve["kind"] == kind) & (curve["traffic"] == traffic)]
        if rows.empty:
            return "no_scores"
        bins = Bins.of(rows, UNIT_GROUPS)
        groups = groups.used(self._sums.units.group[self._masks[traffic]])
        groups = groups[bins.rows.sum() > bins.rows[groups]]
        bias = bins.bias(groups) if groups.size > 1 else 0.0
        return GroupValues(bins.error(), bins.errors_without(groups), bias, float(bins.rows.sum()))

    def _of_lists(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        key = (model, metric.cutoff, traffic)
        if key not in self._listed:
            self._listed[key] = self._lists(*key)
        listed, name = self._listed[key], metric.definition.numerator
        whole = None if listed is None else listed.whole().values(name)
        if listed is None or whole is None:
            return "no_lists"
        groups = groups.used(self._sums.units.group[self._masks[traffic]])
        without = listed.without(groups).values(name)
        if without is None:
            without = np.zeros(0)
        return GroupValues(float(whole[0]), without, 0.0, float(listed.total.sum()))

    def _lists(self, model: str, k: int, traffic: str) -> Listed | None:
        sums, mask = self._sums.models[model], self._masks[traffic]
        if sums.listed is None:
            return None
        where = (sums.listed["traffic"] == traffic) & (sums.listed["k"] == k)
        every = sums.values["listed"]
        group, lists = self._sums.units.group[mask], every[mask]
        total, units = (
            np.bincount(group, weights=weights, minlength=UNIT_GROUPS).astype(np.float64)
            for weights in (lists, lists > 0)
        )
        fewest = min(int((every[other] > 0).sum()) for other in self._masks.values())
        return Listed.of(sums.listed[where], total, units, fewest, self._sums.catalogue)
