"""Ranked lists against a ground truth given apart, both as frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine, whole_number
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.offline.candidates.traffic import one_traffic, read_units
from abeval.offline.evaluation import Evaluation, asked, judged
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import NoRelevant, Policy, Ties
from abeval.offline.sums.run import run_models
from abeval.offline.sums.scores import ScoreOptions
from abeval.offline.sums.sums import Replayed, Sums
from abeval.steps import silent

__all__ = ["Evaluation", "evaluate"]

_TIE = {
    "item": "item_id",
    "text": "cast(item_id as varchar)",
    "position": "-place",
}


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
    wanted, policy = asked(compat, k, metrics, ties, no_relevant)
    named = runs if isinstance(runs, Mapping) else {"model": runs}
    with closing(DuckDBEngine()) as engine:
        before = _beside(engine, "history", history), _beside(engine, "catalogue", catalogue)
        options = ScoreOptions(threshold, bins)
        sums, accounting = _sums(engine, named, truth, wanted, policy, options, before)
    return judged(sums, wanted, policy, list(named), alpha, accounting, same_lists=False)


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
    unusable = whole_number(engine, "select count(*) - count(grade) from truth_rows")
    accounting = [
        ("truth_duplicates", _repeated(engine, "truth_rows")),
        ("truth_without_usable_grade", unusable),
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
    return run_models(engine, replayed, units, metrics, policy, options, silent), accounting


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
    return whole_number(
        engine,
        f"select coalesce(sum(n - 1), 0) from (select count(*) as n from {relation} "
        "group by request_id, item_id) as c",
    )


def _counted(engine: Engine, model: str) -> list[tuple[str, int]]:
    ((missing, unjudged),) = engine.rows(
        "select coalesce(sum(case when score is null then 1 else 0 end), 0), "
        "count(distinct case when t.request_id is null then l.request_id end) from listed_rows l "
        "left join (select distinct request_id from truth_rows) t on l.request_id = t.request_id"
    )
    repeated = _repeated(engine, "listed_rows")
    counts = {"duplicates": repeated, "unusable_scores": missing, "requests_not_in_truth": unjudged}
    return [(f"{model}: {what}", int(count or 0)) for what, count in counts.items()]


def _packed(frame: object) -> object:
    """DuckDB 2.0 cannot read a pandas frame whose columns are views with a negative stride."""
    pandas = sys.modules.get("pandas")
    return frame.copy() if pandas is not None and isinstance(frame, pandas.DataFrame) else frame
