"""Ranked lists against a ground truth, both as frames.

For your own frames: no analysis calls it. The lists are joined with their relevance, and the
user gets the `Evaluation` of `offline/evaluation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.offline.candidates import (
    TIE,
    Candidates,
    finite_sql,
    listed_candidates,
    one_traffic,
    read_units,
    write_traffic,
    write_truth,
)
from abeval.offline.evaluate import evaluated, metrics_of_frames
from abeval.offline.metrics import NoRelevant, Policy, Scoring, Ties

__all__ = ["Evaluation", "evaluate"]

_TIE = {**TIE, "position": "-place"}


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
        metrics: Ids of metrics to compute; None for the default ones.
        compat: Library whose metrics and policies to use.
        ties: Overrides the policy on ties.
        no_relevant: Overrides the policy on requests without a relevant item.
        alpha: Level of the intervals.
        threshold: Scores from here on predict a click.
        bins: Bins of the calibration curve and of the calibration error.
        history: A frame of `unit_id, item_id`, a row per earlier choice, for novelty.
        catalogue: A frame of `item_id`: items that could be listed besides those that were.

    Raises:
        ExperimentError: An unknown metric or preset.
        LogError: A frame lacks a column.

    Example:
        >>> import pandas as pd
        >>> run = pd.DataFrame({"request_id": [1, 1], "item_id": ["a", "b"], "score": [0.9, 0.8]})
        >>> truth = pd.DataFrame({"request_id": [1], "item_id": ["b"]})
        >>> values = evaluate(run, truth, metrics=["mrr@2", "ndcg@2[lin]"]).values()
        >>> values["mrr@2"], round(values["ndcg@2[lin]"] or 0, 5)
        (0.5, 0.63093)
    """
    wanted, policy = metrics_of_frames(compat, k, metrics, ties, no_relevant)
    named = runs if isinstance(runs, Mapping) else {"model": runs}

    def judge(engine: DuckDBEngine) -> Judged:
        engine.confine([])
        earlier = _optional(engine, "history", history, "unit_id", "item_id")
        items = _optional(engine, "catalogue", catalogue, "item_id")
        sql, accounting = _judged(engine, named, truth, policy)
        write_traffic(engine, one_traffic("truth_rows"))
        candidates = Candidates(sql, same_lists=False, history=earlier, catalogue=items)
        return Judged(candidates, read_units(engine), accounting)

    return evaluated(list(named), Scoring(wanted, policy, alpha, threshold, bins), judge)


def _judged(
    engine: Engine, runs: Mapping[str, object], truth: object, policy: Policy
) -> tuple[dict[str, str], list[tuple[str, int]]]:
    """Model → SQL of its candidates, and rows that were left out or merged, counted."""
    engine.add_frame("truth_frame", truth)
    write_truth(engine, _truth_sql(engine))
    unusable = whole_number(engine, "select count(*) - count(grade) from truth_rows")
    accounting = [
        ("truth_duplicates", _repeated(engine, "truth_rows")),
        ("truth_without_usable_grade", unusable),
    ]
    sql = {}
    for i, (model, frame) in enumerate(runs.items()):
        engine.add_frame("run_frame", frame)
        sql[model] = listed_candidates(engine, i, _run_sql(engine, model), _TIE[policy.ties])
        accounting += _counted(engine, model)
    return sql, accounting


def _optional(engine: Engine, name: str, frame: object | None, *columns: str) -> str | None:
    """SQL of a frame that only some metrics read; None without it."""
    if frame is None:
        return None
    engine.add_frame(f"{name}_frame", frame)
    _check(name, engine.columns(f"{name}_frame"), columns)
    return f"select {', '.join(columns)} from {name}_frame"


def _truth_sql(engine: Engine) -> str:
    columns = engine.columns("truth_frame")
    _check("truth", columns, ("request_id", "item_id"))
    unit = "unit_id" if "unit_id" in columns else "request_id"
    grade = finite_sql("grade") if "grade" in columns else "1.0e0"
    return f"select {unit} as unit_id, request_id, item_id, {grade} as grade from truth_frame"


def _run_sql(engine: Engine, model: str) -> str:
    columns = engine.columns("run_frame")
    _check(model, columns, ("request_id", "item_id"))
    if "score" not in columns and "rank" not in columns:
        raise LogError(f"{model}: the frame has neither `score` nor `rank`", _has(columns))
    score = finite_sql("score") if "score" in columns else f"-{finite_sql(quoted('rank'))}"
    place = "row_number() over () as place"
    return f"select request_id, item_id, {score} as score, {place} from run_frame"


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
    return [(f"{model}: {what}", whole(count)) for what, count in counts.items()]
