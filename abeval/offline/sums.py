"""Sum every metric of every model per unit, over the requests that every model scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import literal, query
from abeval.errors import LogError
from abeval.offline import kernels
from abeval.offline.candidates import Candidates, Units
from abeval.offline.metrics import OfflineMetric, Scoring
from abeval.offline.queried import ModelSums, add_queried, write_history
from abeval.progress import Step
from abeval.results.replay import ModelCoverage

_LARGEST_GRADE = 1e4
"""Larger relevance would overflow the sums of whole multiples of 1e-12."""


@dataclass(frozen=True)
class Sums:
    """The sums of a replay: all that the statistics know of the log.

    Attributes:
        units: The units, in the order of every model's sums.
        models: Model → its sums; models without any score are left out.
        coverage: How much each model scores.
        uncompared: Requests that only some of the models score.
        longest: Items of the longest list with a relevant item.
        catalogue: Items that could have been listed.
        has_history: Whether earlier choices are known.
        largest_grade: The largest relevance of any item.
        same_lists: Whether all models order the same items of a request.
    """

    units: Units
    models: Mapping[str, ModelSums]
    coverage: tuple[ModelCoverage, ...]
    uncompared: int
    longest: int
    catalogue: int
    has_history: bool
    largest_grade: float
    same_lists: bool


def run_models(
    engine: Engine, candidates: Candidates, units: Units, scoring: Scoring, step: Step
) -> Sums:
    """Sum every metric of every model per unit.

    Args:
        engine: Has `traffic`, and the relations that the candidates read.
        candidates: The models.
        units: The units of `traffic`.
        scoring: The metrics and their options.
        step: Told the name of each step as it begins.

    Raises:
        LogError: Relevance is too large to be summed.
    """
    step("requests")
    rows, drop = candidates.rows, scoring.policy.missing == "drop"
    if rows is None:
        coverage, largest, uncompared = _count_requests(engine, candidates, drop)
    else:
        coverage, largest = tuple(kernels.coverage(rows)), float(rows.grades.max(initial=0))
        uncompared = int(rows.uncompared().sum()) if drop else 0
        rows = rows.only(~rows.uncompared()) if uncompared else rows
    if largest > _LARGEST_GRADE:
        raise LogError(
            f"the largest relevance is {largest:g}, above {_LARGEST_GRADE:g}",
            "divide it, for example dwell in seconds rather than milliseconds",
        )
    queried = kernels.without_kernel(scoring.metrics, rows)
    if rows is not None and queried and uncompared:
        # Kernels know which requests are compared; the queries read it from a table.
        _count_requests(engine, candidates, drop)
    scored = [model.model for model in coverage if model.scored_requests]
    catalogue = _write_catalogue(engine, candidates, scoring.metrics, scored)
    models = {}
    for model in scored:
        step(f"metrics of {model}")
        if rows is None or queried:
            _open(engine, candidates, model, rows is None, uncompared > 0)
        if rows is None:
            models[model] = _counted(engine, units)
        else:
            score = rows.scores[model]
            low, high = float(np.nanmin(score)), float(np.nanmax(score))
            columns = kernels.unit_sums(rows, model, scoring.metrics)
            models[model] = ModelSums(units.ids, low, high, rows.longest, columns)
        add_queried(engine, queried, models[model], scoring.threshold, scoring.bins)
    return Sums(
        units=units,
        models=models,
        coverage=coverage,
        uncompared=uncompared,
        longest=max((sums.longest for sums in models.values()), default=0),
        catalogue=catalogue,
        has_history=candidates.history is not None,
        largest_grade=largest,
        same_lists=candidates.same_lists,
    )


def _count_requests(
    engine: Engine, candidates: Candidates, drop: bool
) -> tuple[tuple[ModelCoverage, ...], float, int]:
    """Make `requests_N` of every model, and `uncompared_requests` if those are dropped.

    Returns:
        What each model scores, the largest relevance, and the number of uncompared requests.
    """
    numbers = {model: i for i, model in enumerate(candidates.sql)}
    for model, i in numbers.items():
        _open_items(engine, candidates.sql[model])
        engine.table(f"requests_{i}", query("offline/requests"))
    _open_requests(engine, numbers)
    rows = engine.rows(query("offline/coverage"))
    ((largest,),) = engine.rows("select max(largest_grade) from model_requests")
    coverage = tuple(ModelCoverage(str(m), *(whole(n) for n in counts)) for m, *counts in rows)
    scored = {of.model: numbers[of.model] for of in coverage if of.scored_requests}
    if not drop or len(scored) < 2:
        return coverage, float(largest or 0), 0
    _open_requests(engine, scored)
    engine.table("uncompared_requests", query("offline/uncompared"))
    uncompared = whole_number(engine, "select count(*) from uncompared_requests")
    return coverage, float(largest or 0), uncompared


def _open_items(engine: Engine, sql: str) -> None:
    engine.view("model_items", sql)


def _open_requests(engine: Engine, numbers: Mapping[str, int]) -> None:
    parts = (f"select {literal(m)} as model, * from requests_{i}" for m, i in numbers.items())
    engine.view("model_requests", " union all ".join(parts))


def _write_catalogue(
    engine: Engine, candidates: Candidates, metrics: Sequence[OfflineMetric], models: Sequence[str]
) -> int:
    """Make what metrics of lists read; the items of the catalogue, 0 without such metrics."""
    if all(m.definition.family not in ("beyond", "catalogue") for m in metrics):
        return 0
    sources = [candidates.sql[model] for model in models]
    sources += [sql for sql in (candidates.history, candidates.catalogue) if sql is not None]
    every = " union ".join(f"select item_id from ({sql}) as s" for sql in sources)
    distinct = f"select count(*) from ({every}) as c where item_id is not null"
    items = whole_number(engine, distinct) if sources else 0
    write_history(engine, candidates.history, items)
    return items


def _open(
    engine: Engine, candidates: Candidates, model: str, is_counted: bool, is_filtered: bool
) -> None:
    """Make `model_items`, `requests`, `scored_rows` and `traffic_rows` of a model.

    `is_counted` says that there is a table of its requests, `is_filtered` that some are left out.
    """

    def compared(rows: str) -> str:
        uncompared = "anti join uncompared_requests u on c.request_id = u.request_id"
        return f"select c.* from ({rows}) c {uncompared}" if is_filtered else rows

    _open_items(engine, compared(candidates.sql[model]))
    counted = f"select * from requests_{list(candidates.sql).index(model)}"
    engine.view("requests", compared(counted) if is_counted else query("offline/requests"))
    points = candidates.points.get(model)
    source = "model_items" if points is None else f"({compared(points)}) as p"
    engine.view(
        "scored_rows",
        "select unit_id, request_id, item_id, score, grade, "
        f"case when grade > 0 then 1 else 0 end as click from {source} where score is not null",
    )
    engine.view(
        "traffic_rows",
        "select t.traffic, t.unit_group, s.* from scored_rows s "
        "join traffic t on s.unit_id = t.unit_id",
    )


def _counted(engine: Engine, units: Units) -> ModelSums:
    """Count requests, and find the range of the scores."""
    ((low, high),) = engine.rows("select min(score), max(score) from scored_rows")
    longest = whole_number(engine, "select max(items) from requests where relevant > 0")
    sums = ModelSums(units.ids, float(low or 0), float(high or 0), longest)
    sums.add("requests", engine.frame(query("offline/unit_requests")))
    return sums
