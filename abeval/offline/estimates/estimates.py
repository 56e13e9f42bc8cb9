"""The sums of a replay → every metric of each model on each traffic, with its interval."""

from collections.abc import Iterator, Sequence

from abeval.offline.candidates.traffic import Mask, masks
from abeval.offline.estimates.exclusions import left_out, refusal
from abeval.offline.estimates.group_values import ByGroup, GroupValues
from abeval.offline.estimates.inference import Columns, Found, columns_of, estimate
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import Policy
from abeval.offline.sums.sums import Sums
from abeval.results.replay import POOLED, ReplayRow

BY_GROUP = frozenset({"bins", "catalogue"})
"""Families whose value is no sum over units: intervals by leaving out groups of them."""


class Estimates:
    """The values of a replay, or of a part of one.

    Args:
        sums: What the queries brought back.
        metrics: In the order of the result.
        policy: Which requests count.
        alpha: Level of the intervals.
        same_lists: Whether all models order the same items of a request.
    """

    def __init__(
        self,
        sums: Sums,
        metrics: Sequence[OfflineMetric],
        policy: Policy,
        alpha: float,
        same_lists: bool,
    ) -> None:
        self.metrics = tuple(metrics)
        self.alpha = alpha
        self._sums = sums
        self._policy = policy
        self._same_lists = same_lists
        self._masks = masks(sums.traffic)
        self._by_group = ByGroup(sums, self._masks)
        self._known: dict[tuple[str, str, str], tuple[Found, float]] = {}

    @property
    def models(self) -> list[str]:
        """Those with any score."""
        return list(self._sums.models)

    @property
    def traffics(self) -> list[str]:
        """Each variant's, and all."""
        return list(self._masks)

    def mask(self, traffic: str) -> Mask:
        """Which units a traffic has."""
        return self._masks[traffic]

    def cells(self) -> Iterator[tuple[str, str, OfflineMetric]]:
        """Model, traffic and metric of every row."""
        for model in (covered.model for covered in self._sums.coverage):
            for traffic in self._masks:
                for metric in self.metrics:
                    yield model, traffic, metric

    def rows(self) -> Iterator[ReplayRow]:
        """Every model, traffic and metric."""
        return (self._row(*cell) for cell in self.cells())

    def found(self, model: str, metric: OfflineMetric, traffic: str) -> Found:
        """A value with its interval, or why there is none."""
        return self._counted(model, metric, traffic)[0]

    def columns(self, model: str, metric: OfflineMetric, traffic: str) -> Columns:
        """The variables of a metric per unit, of all units."""
        by = "pooled" if traffic == POOLED else "traffic"
        return columns_of(metric, self._sums.models[model].values, self._policy, by)

    def groups(self, model: str, metric: OfflineMetric, traffic: str) -> GroupValues | str:
        """The value with and without each group of units; a reason where there is none."""
        return self._by_group.values(model, metric, traffic)

    def _row(self, model: str, traffic: str, metric: OfflineMetric) -> ReplayRow:
        found, counted = self._counted(model, metric, traffic)
        sums, mask = self._sums.models.get(model), self._masks[traffic]
        excluded = () if sums is None else left_out(metric, sums.values, mask, self._policy)
        return ReplayRow(
            *(model, traffic, metric.id, found.value, found.low, found.high, int(mask.sum())),
            *(counted, excluded, found.reason),
        )

    def _counted(self, model: str, metric: OfflineMetric, traffic: str) -> tuple[Found, float]:
        """A value and what it is over, worked out once: rows and pairs both ask for it."""
        key = (model, metric.id, traffic)
        if key not in self._known:
            self._known[key] = self._made(model, metric, traffic)
        return self._known[key]

    def _made(self, model: str, metric: OfflineMetric, traffic: str) -> tuple[Found, float]:
        if model not in self._sums.models:
            return Found(None, reason="no_scores"), 0.0
        reason = refusal(metric, model, self._sums, self._same_lists)
        if reason is not None:
            return Found(None, reason=reason), 0.0
        if metric.definition.family in BY_GROUP:
            return self._made_by_group(model, metric, traffic)
        columns, mask = self.columns(model, metric, traffic), self._masks[traffic]
        return estimate(columns, mask, self.alpha), float(columns.below[mask].sum())

    def _made_by_group(
        self, model: str, metric: OfflineMetric, traffic: str
    ) -> tuple[Found, float]:
        values = self.groups(model, metric, traffic)
        if isinstance(values, str):
            return Found(None, reason=values), 0.0
        units = int(self._masks[traffic].sum())
        return values.estimate(units, self.alpha), values.counted
