"""One table of judged rows: the items listed, their scores, and whether they were relevant.

For your own table, a file or a frame: no analysis calls it. The user gets the `Evaluation`
of `offline/evaluation.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import whole
from abeval.engines.sources import files_of_log
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.experiment.sources import LogSource
from abeval.offline.candidates import (
    TIE,
    Candidates,
    Units,
    finite_sql,
    name_rows,
    one_traffic,
    read_units,
    shown_candidates,
    shown_points,
    write_rows,
    write_traffic,
)
from abeval.offline.evaluate import Evaluation, Judged, evaluated, metrics_of_frames
from abeval.offline.kernels import without_kernel
from abeval.offline.metrics import NoRelevant, Scoring, Ties
from abeval.offline.rows import INTEGER_TYPES, read_rows


@dataclass(frozen=True)
class JudgedColumns:
    """The columns of a table of judged rows.

    Attributes:
        unit: Column of units, by which intervals are clustered.
        request: Column of requests; None where all items of a unit are one list.
        item: Column of items.
        relevance: Column of clicks or grades; an item is relevant where it is above 0.
    """

    unit: str = "unit_id"
    request: str | None = "request_id"
    item: str = "item_id"
    relevance: str = "grade"


def evaluate_log(
    log: object,
    scores: Sequence[str] | Mapping[str, str],
    *,
    columns: JudgedColumns | None = None,
    k: Sequence[int] = (1, 5, 10),
    metrics: Sequence[str] | None = None,
    compat: str | None = None,
    ties: Ties | None = None,
    no_relevant: NoRelevant | None = None,
    alpha: float = 0.05,
    threshold: float | None = None,
    bins: int = 10,
) -> Evaluation:
    """Score the models of one table of judged rows, without an experiment around it.

    Args:
        log: A file, a glob or a folder (Parquet, CSV, JSON), or a frame.
        scores: The columns of scores, or model → its column; the first is the control.
        columns: The other columns of the table.
        k: Cut-offs.
        metrics: Ids of metrics to compute; None for the default ones.
        compat: Library whose metrics and policies to use.
        ties: Overrides the policy on ties.
        no_relevant: Overrides the policy on requests without a relevant item.
        alpha: Level of the intervals.
        threshold: Scores from here on predict a click.
        bins: Bins of the calibration curve and of the calibration error.

    Raises:
        ExperimentError: An unknown metric or preset.
        LogError: The table cannot be read, or lacks a column.

    Example:
        >>> import pandas as pd
        >>> rows = {"unit_id": 1, "request_id": 1, "item_id": [1, 2, 3], "grade": [0, 1, 0]}
        >>> log = pd.DataFrame({**rows, "score": [0.9, 0.5, 0.1]})
        >>> evaluate_log(log, ["score"], metrics=["mrr", "gauc[units]"]).values()
        {'mrr': 0.5, 'gauc[units]': 0.5}
    """
    wanted, policy = metrics_of_frames(compat, k, metrics, ties, no_relevant)
    named = scores if isinstance(scores, Mapping) else {name: name for name in scores}
    of_model = {model: f"m_{i}" for i, model in enumerate(named)}
    mapped = columns or JudgedColumns()

    def judge(engine: DuckDBEngine) -> Judged:
        _open(engine, log, mapped)
        _name(engine, mapped, list(named.values()), policy.ties)
        request = "unit_id" if mapped.request is None else "request_id"
        rows = read_rows(engine, "candidate_rows", TIE[policy.ties], request, of_model)
        units = read_units(engine) if rows is None else Units.of_one_traffic(rows.ids)
        queried = bool(without_kernel(wanted, rows))
        accounts = _missing(engine, mapped)
        accounts += write_rows(engine, unique=rows is not None, queried=queried)
        sql, points = shown_candidates(of_model, policy.ties), shown_points(of_model)
        return Judged(Candidates(sql, True, rows=rows, points=points), units, accounts)

    return evaluated(list(named), Scoring(wanted, policy, alpha, threshold, bins), judge)


def _open(engine: DuckDBEngine, log: object, columns: JudgedColumns) -> None:
    if isinstance(log, str | os.PathLike):
        named = {"unit_id": columns.unit, "item_id": columns.item}
        if columns.request is not None:
            named["request_id"] = columns.request
        source = LogSource(path=os.fspath(log), columns=named)
        engine.confine(files_of_log("log", source, Path()))
        engine.add_log("raw_log", source)
    else:
        engine.confine([])
        engine.add_frame("raw_log", log)


def _name(engine: DuckDBEngine, columns: JudgedColumns, scores: Sequence[str], ties: Ties) -> None:
    """Make `candidate_rows`, `analysed_rows` and `traffic` of the table."""
    has = engine.columns("raw_log")
    request = columns.request or columns.unit
    for name in (columns.unit, request, columns.item, columns.relevance, *scores):
        if name not in has:
            raise LogError(f"the log has no column {name!r}", f"it has: {', '.join(has)}")
    models = [f"{finite_sql(quoted(name))} as m_{i}" for i, name in enumerate(scores)]
    # Row numbers are slow, and only one order of ties needs them.
    position = "row_number() over ()" if ties == "position" else "cast(null as bigint)"
    name_rows(
        engine,
        f"select {quoted(columns.unit)} as unit_id, {quoted(request)} as request_id, "
        f"{quoted(columns.item)} as item_id, {position} as position, null as category, "
        f"{', '.join(models)}, coalesce({_grade(columns.relevance, has)}, 0) as grade from raw_log",
        "select * from candidate_rows where unit_id is not null",
    )
    write_traffic(engine, one_traffic("analysed_rows"))


def _missing(engine: DuckDBEngine, columns: JudgedColumns) -> list[tuple[str, int]]:
    """Rows without a unit, which are left out, and rows without relevance, which count as 0."""
    grade = _grade(columns.relevance, engine.columns("raw_log"))
    ((rows, units, grades),) = engine.rows(
        f"select count(*), count({quoted(columns.unit)}), count({grade}) from raw_log"
    )
    return [
        ("rows_without_unit", whole(rows) - whole(units)),
        ("rows_without_relevance", whole(rows) - whole(grades)),
    ]


def _grade(column: str, types: Mapping[str, str]) -> str:
    """SQL of relevance, null where unknown; integers stay as they are, which is less to fetch."""
    return quoted(column) if types[column] in INTEGER_TYPES else finite_sql(quoted(column))
