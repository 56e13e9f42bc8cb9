"""What an evaluation of frames found: the result, and the values of each unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from abeval.offline.candidates.vectors import refuse_vectors
from abeval.offline.estimates.inference import columns_of
from abeval.offline.estimates.judge import result_of
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import NoRelevant, Policy, Ties, chosen
from abeval.offline.sums.sums import Sums
from abeval.results.replay import ReplayResult
from abeval.results.replayed_models import replayed_models

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluation:
    """Ranked lists against what was relevant.

    Attributes:
        result: Every metric of every model, with intervals where units are enough.
        sums: What the metrics add up to per unit.
        metrics: The metrics.
        policy: Which requests count.
    """

    result: ReplayResult
    sums: Sums
    metrics: tuple[OfflineMetric, ...]
    policy: Policy

    @cached_property
    def per_unit(self) -> Mapping[str, pd.DataFrame]:
        """Model → one row per unit, a column per metric.

        Values are means over the requests of the unit, NaN where the metric leaves all of them
        out.
        """
        return {
            model: _per_unit(self.sums, model, self.metrics, self.policy)
            for model in self.sums.models
        }

    @cached_property
    def weights(self) -> Mapping[str, pd.DataFrame]:
        """Model → what each value of `per_unit` weighs, in the same shape.

        A metric of requests is Σ value·weight / Σ weight over units.
        """
        return {
            model: _per_unit(self.sums, model, self.metrics, self.policy, weights=True)
            for model in self.sums.models
        }

    def values(self, model: str | None = None) -> dict[str, float | None]:
        """Metric → value, of the first model or of a named one."""
        rows = self.result.rows
        name = model or rows[0].model
        return {row.metric: row.value for row in rows if row.model == name}


def asked(
    compat: str | None,
    k: Sequence[int],
    metrics: Sequence[str] | None,
    ties: Ties | None,
    no_relevant: NoRelevant | None,
) -> tuple[tuple[OfflineMetric, ...], Policy]:
    """The metrics and the policy of an evaluation.

    Raises:
        ExperimentError: An unknown metric or preset, or a metric that frames have no vectors for.
    """
    wanted, policy = chosen(compat, k, metrics)
    refuse_vectors(wanted)
    return wanted, policy.told(ties, no_relevant)


def judged(
    sums: Sums,
    metrics: tuple[OfflineMetric, ...],
    policy: Policy,
    models: Sequence[str],
    alpha: float,
    accounting: Sequence[tuple[str, int]],
    *,
    same_lists: bool,
) -> Evaluation:
    """The evaluation of some sums; the first model is the one that the others are compared with.

    Args:
        sums: What the queries brought back.
        metrics: In the order of the result.
        policy: Which requests count.
        models: Their names.
        alpha: Level of the intervals.
        accounting: What was set aside or merged.
        same_lists: Whether all models order the same items of a request.
    """
    result = result_of(
        *(sums, metrics, policy),
        name="offline evaluation",
        alpha=alpha,
        models=replayed_models(models, {}, ()),
        same_lists=same_lists,
        control=next(iter(models), None),
        accounting=accounting,
    )
    return Evaluation(result, sums, metrics, policy)


def _per_unit(
    sums: Sums,
    model: str,
    metrics: Sequence[OfflineMetric],
    policy: Policy,
    *,
    weights: bool = False,
) -> pd.DataFrame:
    import pandas as pd

    values = sums.models[model].values
    found = {}
    for metric in metrics:
        if metric.definition.family in ("list", "r_precision", "tied", "pairs"):
            columns = columns_of(metric, values, policy, "traffic")
            below = pd.Series(columns.below, index=values.units)
            found[metric.id] = below if weights else columns.above / below.where(below > 0)
    return pd.DataFrame(found, index=values.units)
