"""An evaluation of frames: an engine of its own, the result, and the values of each unit.

`offline/evaluate.py` and `offline/evaluate_log.py` say what is judged, and give the `Evaluation` to
the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import ExperimentError
from abeval.offline.candidates import Candidates, Units
from abeval.offline.estimates import result_of
from abeval.offline.inference import columns_of
from abeval.offline.metrics import (
    NoRelevant,
    OfflineMetric,
    Policy,
    Scoring,
    Ties,
    metrics_and_policy,
)
from abeval.offline.sums import Sums, run_models
from abeval.progress import silent
from abeval.results.replay import ReplayModel, ReplayResult

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluation:
    """Ranked lists against what was relevant.

    Attributes:
        result: Every metric of every model, with intervals where there are enough units.
        sums: The sums per unit.
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

        Values are means over the requests of the unit, NaN where the metric leaves all of them out.
        """
        return {model: self._per_unit(model) for model in self.sums.models}

    @cached_property
    def weights(self) -> Mapping[str, pd.DataFrame]:
        """Model → the weight of each value of `per_unit`, in the same shape.

        A metric of requests is Σ value·weight / Σ weight over units.
        """
        return {model: self._per_unit(model, weights=True) for model in self.sums.models}

    def values(self, model: str | None = None) -> dict[str, float | None]:
        """Metric → value of a model, by default the first."""
        rows = self.result.rows
        name = model or rows[0].model
        return {row.metric: row.value for row in rows if row.model == name}

    def _per_unit(self, model: str, *, weights: bool = False) -> pd.DataFrame:
        import pandas as pd

        values = self.sums.models[model].values
        of_metric = {}
        for metric in self.metrics:
            if metric.definition.family in ("list", "r_precision", "tied", "pairs"):
                columns = columns_of(metric, values, self.policy, "traffic")
                below = pd.Series(columns.below, index=values.units)
                mean = columns.above / below.where(below > 0)
                of_metric[metric.id] = below if weights else mean
        return pd.DataFrame(of_metric, index=values.units)


def metrics_of_frames(
    compat: str | None,
    k: Sequence[int],
    metrics: Sequence[str] | None,
    ties: Ties | None,
    no_relevant: NoRelevant | None,
) -> tuple[tuple[OfflineMetric, ...], Policy]:
    """The metrics and the policy of an evaluation of frames.

    Raises:
        ExperimentError: An unknown metric or preset, or a metric that needs vectors of items.
    """
    wanted, policy = metrics_and_policy(compat, k, metrics, ties, no_relevant)
    if any(metric.definition.variant == "vectors" for metric in wanted):
        what = "ild[vectors] needs the item log of an experiment"
        raise ExperimentError(what, "use LoadedExperiment.replay or `abeval replay`")
    return wanted, policy


class Judged(NamedTuple):
    """What an engine was given to evaluate.

    Attributes:
        candidates: The candidates of every model.
        units: The units of the relation `traffic`.
        accounts: Rows that were left out or merged, counted.
    """

    candidates: Candidates
    units: Units
    accounts: Sequence[tuple[str, int]]


def evaluated(
    models: Sequence[str], scoring: Scoring, judge: Callable[[DuckDBEngine], Judged]
) -> Evaluation:
    """Evaluate what `judge` gives a new engine; the other models are compared with the first."""
    with closing(DuckDBEngine()) as engine:
        judged = judge(engine)
        sums = run_models(engine, judged.candidates, judged.units, scoring, silent)
    result = result_of(
        sums,
        scoring,
        name="offline evaluation",
        models=[ReplayModel(model) for model in models],
        control=next(iter(models), None),
        accounting=judged.accounts,
    )
    return Evaluation(result, sums, scoring.metrics, scoring.policy)
