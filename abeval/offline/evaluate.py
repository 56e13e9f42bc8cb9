"""Ranked lists against a ground truth given apart, both as frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine
from abeval.errors import LogError
from abeval.offline.definitions import OfflineMetric
from abeval.offline.inference import columns_of
from abeval.offline.judge import result_of
from abeval.offline.models import replayed_models
from abeval.offline.presets import NoRelevant, Policy, Ties, chosen
from abeval.offline.result import ReplayResult
from abeval.offline.run import Replayed, Sums, one_traffic, read_units, run_models
from abeval.offline.scores import ScoreOptions
from abeval.offline.vectors import refuse_vectors
from abeval.queries import query
from abeval.sql import quoted

if TYPE_CHECKING:
    import pandas as pd

_TIE = {
    "item": "item_id",
    "text": "cast(item_id as varchar)",
    "position": "-place",
}


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


def evaluate(
    runs: Mapping[str, object] | object,
    truth: object,
    *,
    k: Sequence[int] = (1, 5, 10),
    metrics: Sequence[str] | None = None,
    compat: str | None = None,
    ties: Ties | None = None,
    no_relevant: NoRelevant | None = None,
    alpha: float = 0.05,
    threshold: float | None = None,
    bins: int = 10,
    history: object | None = None,
    catalogue: object | None = None,
) -> Evaluation:
    """Score ranked lists against a ground truth.

    Args:
        runs: A frame of `request_id, item_id` and `score` or `rank`, or such a frame by model.
        truth: A frame of `request_id, item_id`, with `grade` where relevance is graded and
            `unit_id` where requests belong to units.
        k: Cut-offs.
        metrics: Ids, instead of all on offer.
        compat: The library whose definitions and policies to follow.
        ties: Instead of the policy's.
        no_relevant: Instead of the policy's.
        alpha: Level of the intervals.
        threshold: The score from which on a click is predicted.
        bins: Of the calibration curve and error.
        history: A frame of `unit_id, item_id`, a row per earlier choice, for novelty.
        catalogue: A frame of `item_id`: what could have been listed, beside what was.

    Raises:
        ExperimentError: An unknown metric or preset.
        LogError: A frame lacks a column.

    Example:
        >>> import pandas as pd
        >>> run = pd.DataFrame({"request_id": [1, 1], "item_id": ["a", "b"], "score": [0.9, 0.8]})
        >>> truth = pd.DataFrame({"request_id": [1], "item_id": ["b"]})
        >>> found = evaluate(run, truth, metrics=["mrr@2", "ndcg@2[lin]"]).values()
        >>> found["mrr@2"], round(found["ndcg@2[lin]"] or 0, 5)
        (0.5, 0.63093)
    """
    wanted, policy = chosen(compat, k, metrics)
    refuse_vectors(wanted)
    policy = replace(
        policy, ties=ties or policy.ties, no_relevant=no_relevant or policy.no_relevant
    )
    named = runs if isinstance(runs, Mapping) else {"model": runs}
    engine = DuckDBEngine()
    try:
        before = _beside(engine, "history", history), _beside(engine, "catalogue", catalogue)
        options = ScoreOptions(threshold, bins)
        sums, accounting = _sums(engine, named, truth, wanted, policy, options, before)
    finally:
        engine.close()
    return judged(sums, wanted, policy, list(named), alpha, accounting, same_lists=False)


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


def _sums(
    engine: Engine,
    runs: Mapping[str, object],
    truth: object,
    metrics: Sequence[OfflineMetric],
    policy: Policy,
    options: ScoreOptions,
    before: tuple[str | None, str | None],
) -> tuple[Sums, list[tuple[str, int]]]:
    engine.add_frame("truth_frame", _packed(truth))
    engine.table("truth_rows", _truth_view(engine))
    ((unusable,),) = engine.rows("select count(*) - count(grade) from truth_rows")
    accounting = [
        ("truth_duplicates", _repeated(engine, "truth_rows")),
        ("truth_without_usable_grade", int(unusable or 0)),
    ]
    candidates = {}
    for i, (model, frame) in enumerate(runs.items()):
        engine.add_frame("run_frame", _packed(frame))
        engine.table("listed_rows", _run_view(engine, model))
        accounting += _counted(engine, model)
        engine.table(f"judged_{i}", query("offline/judged"))
        tie = _TIE[policy.ties]
        candidates[model] = f"select *, {tie} as tie, null as category from judged_{i}"
    engine.table("traffic", one_traffic("truth_rows"))
    replayed, units = Replayed(candidates, False, *before), read_units(engine)
    return run_models(engine, replayed, units, metrics, policy, options, _silent), accounting


def _beside(engine: Engine, name: str, frame: object | None) -> str | None:
    """SQL of a frame that only some metrics read."""
    if frame is None:
        return None
    engine.add_frame(f"{name}_frame", _packed(frame))
    columns = ("unit_id", "item_id") if name == "history" else ("item_id",)
    _check(name, engine.columns(f"{name}_frame"), columns)
    return f"select {', '.join(columns)} from {name}_frame"


def _truth_view(engine: Engine) -> str:
    columns = engine.columns("truth_frame")
    _check("truth", columns, ("request_id", "item_id"))
    unit = "unit_id" if "unit_id" in columns else "request_id"
    grade = "cast(grade as double)" if "grade" in columns else "1.0e0"
    finite = f"case when abs({grade}) < 1e300 then {grade} end"
    return f"select {unit} as unit_id, request_id, item_id, {finite} as grade from truth_frame"


def _run_view(engine: Engine, model: str) -> str:
    columns = engine.columns("run_frame")
    _check(model, columns, ("request_id", "item_id"))
    if "score" not in columns and "rank" not in columns:
        raise LogError(f"{model}: the frame has neither `score` nor `rank`", _has(columns))
    score = "cast(score as double)" if "score" in columns else f"-cast({quoted('rank')} as double)"
    finite = f"case when abs({score}) < 1e300 then {score} end"
    place = "row_number() over () as place"
    return f"select request_id, item_id, {finite} as score, {place} from run_frame"


def _check(what: str, columns: Mapping[str, str], needed: Sequence[str]) -> None:
    for name in needed:
        if name not in columns:
            raise LogError(f"{what}: the frame has no column `{name}`", _has(columns))


def _has(columns: Mapping[str, str]) -> str:
    return f"it has: {', '.join(columns)}"


def _repeated(engine: Engine, relation: str) -> int:
    ((count,),) = engine.rows(
        f"select coalesce(sum(n - 1), 0) from (select count(*) as n from {relation} "
        "group by request_id, item_id) as c"
    )
    return int(count or 0)


def _counted(engine: Engine, model: str) -> list[tuple[str, int]]:
    ((missing, unjudged),) = engine.rows(
        "select coalesce(sum(case when score is null then 1 else 0 end), 0), "
        "count(distinct case when t.request_id is null then l.request_id end) from listed_rows l "
        "left join (select distinct request_id from truth_rows) t on l.request_id = t.request_id"
    )
    repeated = _repeated(engine, "listed_rows")
    counts = {"duplicates": repeated, "unusable_scores": missing, "requests_not_in_truth": unjudged}
    return [(f"{model}: {what}", int(count or 0)) for what, count in counts.items()]


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


def _silent(_: str) -> None:
    pass


def _packed(frame: object) -> object:
    """DuckDB 2.0 cannot read a pandas frame whose columns are views with a negative stride."""
    pandas = sys.modules.get("pandas")
    return frame.copy() if pandas is not None and isinstance(frame, pandas.DataFrame) else frame
