"""Every metric of each model on each traffic, with its interval.

It starts from the `Sums` of `offline/sums/run.py`; `offline/estimates/judge.py` takes the rows of
the result from it, `pairs.py`, `slices.py` and `curves.py` take single values.
"""

from collections.abc import Iterator
from functools import partial

from abeval.offline.estimates import left_out, refusal
from abeval.offline.groups import ByGroup, GroupValues
from abeval.offline.inference import Columns, Value, columns_of, estimate
from abeval.offline.metrics import OfflineMetric, Scoring
from abeval.offline.sums import Sums
from abeval.results.replay import POOLED, ReplayRow
from abeval.stats.records import Bools

BY_GROUP = frozenset({"bins", "catalogue"})
"""Families whose values are not sums over units: their intervals are jackknives."""


class Estimates:
    """The values of a replay, or of a part of one.

    Args:
        sums: The sums per unit.
        scoring: The metrics and their options.
    """

    def __init__(self, sums: Sums, scoring: Scoring) -> None:
        self.metrics = scoring.metrics
        self.alpha = scoring.alpha
        self._sums = sums
        self._policy = scoring.policy
        self._masks = sums.units.masks
        self._by_group = ByGroup(sums)
        self._known: dict[tuple[str, str, str], tuple[Value, float]] = {}
        self._totals: dict[tuple[str, str, str], int] = {}

    @property
    def models(self) -> list[str]:
        """The models that have any score."""
        return list(self._sums.models)

    @property
    def traffics(self) -> list[str]:
        """Each variant, and `pooled` where there are several."""
        return list(self._masks)

    def mask(self, traffic: str) -> Bools:
        """The units of a traffic."""
        return self._masks[traffic]

    def cells(self) -> Iterator[tuple[str, str, OfflineMetric]]:
        """Model, traffic and metric of every row."""
        for model in (covered.model for covered in self._sums.coverage):
            for traffic in self._masks:
                for metric in self.metrics:
                    yield model, traffic, metric

    def rows(self) -> Iterator[ReplayRow]:
        """A row per model, traffic and metric."""
        return (self._row(*cell) for cell in self.cells())

    def value(self, model: str, metric: OfflineMetric, traffic: str) -> Value:
        """A value with its interval, or the reason why there is none."""
        return self._counted(model, metric, traffic)[0]

    def columns(self, model: str, metric: OfflineMetric, traffic: str) -> Columns:
        """The variables of a metric, of all units."""
        by = "pooled" if traffic == POOLED else "traffic"
        return columns_of(metric, self._sums.models[model].values, self._policy, by)

    def groups(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        """The value with and without each group of units; a reason where there is none."""
        return self._by_group.values(model, metric, traffic)

    def _row(self, model: str, traffic: str, metric: OfflineMetric) -> ReplayRow:
        value, counted = self._counted(model, metric, traffic)
        excluded: tuple[tuple[str, int], ...] = ()
        if model in self._sums.models:
            excluded = left_out(metric, partial(self._total, model, traffic), self._policy)
        units = int(self._masks[traffic].sum())
        return value.row((model, traffic, metric.id), units, counted, excluded)

    def _total(self, model: str, traffic: str, column: str) -> int:
        """The sum of a column over the units of a traffic, computed once."""
        key = (model, traffic, column)
        if key not in self._totals:
            values = self._sums.models[model].values[column]
            self._totals[key] = int(values[self._masks[traffic]].sum())
        return self._totals[key]

    def _counted(self, model: str, metric: OfflineMetric, traffic: str) -> tuple[Value, float]:
        """A value and its denominator, computed once: rows and pairs both read it."""
        key = (model, metric.id, traffic)
        if key not in self._known:
            self._known[key] = self._estimate(model, metric, traffic)
        return self._known[key]

    def _estimate(self, model: str, metric: OfflineMetric, traffic: str) -> tuple[Value, float]:
        if model not in self._sums.models:
            return Value(None, reason="no_scores"), 0.0
        reason = refusal(metric, model, self._sums)
        if reason is not None:
            return Value(None, reason=reason), 0.0
        mask = self._masks[traffic]
        if metric.definition.family not in BY_GROUP:
            columns = self.columns(model, metric, traffic)
            return estimate(columns, mask, self.alpha), float(columns.below[mask].sum())
        values = self.groups(model, metric, traffic)
        if isinstance(values, str):
            return Value(None, reason=values), 0.0
        return values.estimate(int(mask.sum()), self.alpha), values.counted
