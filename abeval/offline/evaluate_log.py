"""One table of judged rows: what was listed, how it was scored, and whether it was relevant."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.offline.candidates.rows import WHOLE
from abeval.offline.candidates.shown import candidates, finite, read_shown, write_rows
from abeval.offline.candidates.traffic import Units, one_traffic, read_units
from abeval.offline.evaluation import Evaluation, asked, judged
from abeval.offline.metrics.presets import NoRelevant, Ties
from abeval.offline.sums.run import run_models
from abeval.offline.sums.scores import ScoreOptions
from abeval.offline.sums.sums import Replayed
from abeval.steps import silent


@dataclass(frozen=True)
class JudgedColumns:
    """What a table of judged rows calls its columns.

    Attributes:
        unit: Whose rows they are; intervals are clustered by it.
        request: What was listed together; the unit where it is None.
        item: What was listed.
        relevance: A click or a grade; relevant where it is above 0.
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
        scores: The columns of scores, or model → its column; the first is compared with the others.
        columns: What the table calls its other columns.
        k: Cut-offs.
        metrics: Ids, instead of all on offer.
        compat: The library whose definitions and policies to follow.
        ties: Instead of the policy's.
        no_relevant: Instead of the policy's.
        alpha: Level of the intervals.
        threshold: The score from which on a click is predicted.
        bins: Of the calibration curve and error.

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
    wanted, policy = asked(compat, k, metrics, ties, no_relevant)
    named = scores if isinstance(scores, Mapping) else {name: name for name in scores}
    of_model = {model: f"m_{i}" for i, model in enumerate(named)}
    named_columns = columns or JudgedColumns()
    with closing(DuckDBEngine()) as engine:
        _open(engine, log)
        _name(engine, named_columns, list(named.values()), policy.ties)
        fetched = read_shown(engine, of_model, policy.ties, named_columns.request is not None)
        units = read_units(engine) if fetched is None else Units.of_one_traffic(fetched.ids)
        rows = None if fetched is None else fetched.rows
        accounts = [*_missing(engine, named_columns), *write_rows(engine, rows, wanted)]
        replayed = Replayed(candidates(of_model, policy.ties), True, rows=rows)
        options = ScoreOptions(threshold, bins)
        sums = run_models(engine, replayed, units, wanted, policy, options, silent)
    return judged(sums, wanted, policy, list(named), alpha, accounts, same_lists=True)


def _open(engine: DuckDBEngine, log: object) -> None:
    if isinstance(log, str | os.PathLike):
        engine.add_files("raw_log", [os.fspath(log)])
    else:
        engine.add_frame("raw_log", log)


def _name(engine: DuckDBEngine, columns: JudgedColumns, scores: Sequence[str], ties: Ties) -> None:
    """Make `candidate_rows`, `analysed_rows` and `traffic` of the table."""
    has = engine.columns("raw_log")
    request = columns.request or columns.unit
    for name in (columns.unit, request, columns.item, columns.relevance, *scores):
        if name not in has:
            raise LogError(f"the log has no column {name!r}", f"it has: {', '.join(has)}")
    models = [f"{finite(quoted(name))} as m_{i}" for i, name in enumerate(scores)]
    # A number of each row is long to make, and only one order of ties asks for it.
    position = "row_number() over ()" if ties == "position" else "cast(null as bigint)"
    engine.view(
        "candidate_rows",
        f"select {quoted(columns.unit)} as unit_id, {quoted(request)} as request_id, "
        f"{quoted(columns.item)} as item_id, {position} as position, null as category, "
        f"{', '.join(models)}, {_grade(columns.relevance, has)} as grade from raw_log",
    )
    engine.view("analysed_rows", "select * from candidate_rows where unit_id is not null")
    engine.view("traffic", one_traffic("analysed_rows"))


def _missing(engine: DuckDBEngine, columns: JudgedColumns) -> list[tuple[str, int]]:
    """Rows of no unit, which are left out, and those whose relevance counts as 0."""
    grade = finite(quoted(columns.relevance))
    ((rows, units, grades),) = engine.rows(
        f"select count(*), count({quoted(columns.unit)}), count({grade}) from raw_log"
    )
    return [
        ("rows_without_unit", int(rows or 0) - int(units or 0)),
        ("rows_without_relevance", int(rows or 0) - int(grades or 0)),
    ]


def _grade(column: str, types: Mapping[str, str]) -> str:
    """Whole numbers as they are, which is less to fetch."""
    return quoted(column) if types[column] in WHOLE else finite(quoted(column), 0)
