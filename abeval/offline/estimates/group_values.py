"""Metrics that are no sum over units, of a traffic and of it without each group of units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from abeval.offline.candidates.traffic import Mask
from abeval.offline.estimates import jackknife
from abeval.offline.estimates.inference import Found
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.units import Floats
from abeval.offline.sums.beyond import Listed
from abeval.offline.sums.scores import Bins
from abeval.offline.sums.sums import Sums
from abeval.results.replay import POOLED

_LARGEST_BIAS = 0.25
"""Share of its standard error by which a calibration error may be too large."""


class GroupValues(NamedTuple):
    """A value, and what it is without each group of units.

    Attributes:
        value: Of the whole traffic.
        without: Without each group that has units, shape (groups,).
        bias: By how much noise alone makes it too large.
        counted: What it is over, counted: rows or lists.
    """

    value: float
    without: Floats
    bias: float
    counted: float

    def estimate(self, units: int, alpha: float) -> Found:
        """The value with its interval, unless noise is too much of it."""
        if self.bias > _LARGEST_BIAS * jackknife.standard_error(self.without):
            return Found(self.value, reason="biased_by_noise")
        return jackknife.estimate(self.value, self.without, units, alpha)


class ByGroup:
    """Values by group of units, each worked out once.

    Args:
        sums: What the queries brought back.
        masks: Traffic → its units.
    """

    def __init__(self, sums: Sums, masks: Mapping[str, Mask]) -> None:
        self._sums = sums
        self._masks = masks
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
        bins = Bins.of(rows, jackknife.UNIT_GROUPS)
        groups = jackknife.used(self._sums.group[self._masks[traffic]])
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
        groups = jackknife.used(self._sums.group[self._masks[traffic]])
        left = listed.without(groups).values(name)
        without = np.zeros(0) if left is None else left
        return GroupValues(float(whole[0]), without, 0.0, float(listed.total.sum()))

    def _lists(self, model: str, k: int, traffic: str) -> Listed | None:
        sums, mask = self._sums.models[model], self._masks[traffic]
        if sums.listed is None:
            return None
        where = (sums.listed["traffic"] == traffic) & (sums.listed["k"] == k)
        every = sums.values["listed"]
        group, lists = self._sums.group[mask], every[mask]
        size = jackknife.UNIT_GROUPS
        total = np.bincount(group, weights=lists, minlength=size).astype(np.float64)
        units = np.bincount(group, weights=lists > 0, minlength=size).astype(np.float64)
        fewest = min(int((every[other] > 0).sum()) for other in self._masks.values())
        return Listed.of(sums.listed[where], total, units, fewest, self._sums.catalogue)
