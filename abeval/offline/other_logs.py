"""Read the logs beside the impressions: vectors of items, the truth log, the scores log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.sql import literal, query, quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.mapping import LogColumns, map_columns
from abeval.logs.run import Run, open_log
from abeval.offline.candidates import TIE, counted, finite_sql, listed_candidates, write_truth
from abeval.offline.metrics import OfflineMetric, Ties

if TYPE_CHECKING:
    from abeval.logs.mapping import LogColumns

SIMILARITY = "similarity"
"""The name of relevance by the largest cosine with an item that the unit clicked."""


def needs_vectors(metrics: Sequence[OfflineMetric], relevance: str) -> str | None:
    """Return the metric or the relevance that needs the vectors of items; None where none does."""
    if relevance == SIMILARITY:
        return f"relevance = {SIMILARITY!r}"
    return "ild[vectors]" if any(m.definition.above == "ild_vectors" for m in metrics) else None


def write_vectors(engine: Engine, items: LogColumns | None, reader: str) -> None:
    """Make `item_dimensions` of the item log: each vector scaled to length one, a row a dimension.

    An item whose vector is null, of length zero or not finite has none. Messages name `reader`, the
    metric or the relevance that needs the vectors.

    Raises:
        LogError: There are no vectors, or their lengths differ.
    """
    import pandas as pd

    if items is None or "embedding" not in items or "item_id" not in items:
        lacks = "there is no item log" if items is None else "the item log has no such column"
        what = f"{reader} needs the vectors of items, a column `embedding`, but {lacks}"
        raise LogError(what, '[logs.items] path = "...", columns = { embedding = "..." }')
    item, column = (quoted(items.mapped[name]) for name in ("item_id", "embedding"))
    frame = engine.frame(f"select {item} as item_id, {column} as vector from raw_items")
    frame = frame.dropna().drop_duplicates("item_id")
    if frame["vector"].map(lambda v: isinstance(v, str) or not hasattr(v, "__len__")).any():
        what = f"{reader}: the vectors of items are not lists of numbers"
        raise LogError(what, "write each vector as a list of numbers")
    sizes = frame["vector"].map(len)
    if sizes.nunique() > 1:
        what = f"{reader}: the vectors of items have {sizes.min()} to {sizes.max()} numbers"
        raise LogError(what, "all vectors need the same length")
    # A null within a vector comes as masked.
    vectors = [np.ma.asarray(vector, dtype=np.float64).filled(np.nan) for vector in frame["vector"]]
    matrix = np.array(vectors, ndmin=2)
    length = np.linalg.norm(matrix, axis=1)
    usable = np.isfinite(length) & (length > 0)
    if not usable.any():
        raise LogError(
            f"{reader}: no item has a usable vector", "each vector needs a finite length above 0"
        )
    matrix, ids = matrix[usable] / length[usable, None], frame["item_id"].to_numpy()[usable]
    columns = {
        "item_id": np.repeat(ids, matrix.shape[1]),
        "dimension": np.tile(np.arange(matrix.shape[1]), len(ids)),
        "value": matrix.ravel(),
    }
    engine.add_frame("item_dimensions", pd.DataFrame(columns))


def write_similar_items(engine: Engine, where: str) -> None:
    """Make `similar_items`: similarity of the items shown to a unit to those that it clicked."""
    engine.view(
        "shown_items",
        "select unit_id, item_id, max(click) as click from impressions "
        f"where {where} and item_id is not null group by unit_id, item_id",
    )
    engine.table("similar_items", query("offline/similar_items"))


def rows_without_vector(engine: Engine) -> int:
    """Count the rows of `analysed_rows` whose item has no vector."""
    return whole_number(
        engine,
        "select count(*) from analysed_rows r "
        "anti join item_dimensions d on r.item_id = d.item_id where r.item_id is not null",
    )


TRUTH = "truth"
"""The name of relevance that the truth log defines."""


def open_truth(run: Run) -> str:
    """Make `truth_log` (`whose`, `item_id`, `grade`) of the truth log; without a grade it is 1.

    Return its key: `request_id`, or `unit_id` where it holds for all requests of a unit.
    """
    experiment, engine, source = run.experiment, run.engine, run.experiment.logs.truth
    if source is None:
        what = f"relevance = {TRUTH!r} needs a ground truth, but the experiment has no logs.truth"
        raise LogError(
            what, '[logs.truth] path = "...", of request_id (or the unit), item_id, grade'
        )
    open_log(run, "truth")
    types = engine.columns("raw_truth")
    by_name = experiment.unit != ROW_UNIT and experiment.unit in types
    unit = experiment.unit if by_name and "unit_id" not in source.columns else None
    log = map_columns("truth", source, types, unit)
    if "item_id" not in log:
        raise LogError("logs.truth: no column item_id", f"map it; {log.listed}")
    key = next((name for name in ("request_id", "unit_id") if name in log), None)
    if key is None:
        what = "logs.truth: neither a column request_id nor a unit column"
        raise LogError(what, f'map one: columns = {{ request_id = "..." }}; {log.listed}')
    item, whose = (quoted(log.mapped[name]) for name in ("item_id", key))
    grade = finite_sql(quoted(log.mapped["grade"])) if "grade" in log else "1.0e0"
    rows = f"select {whose} as whose, {item} as item_id, {grade} as grade from raw_truth"
    if key == "unit_id":
        rows = (
            f"select n.unit_id as whose, r.item_id, r.grade from ({rows}) as r "
            "left join unit_names n on r.whose = n.logged_id"
        )
    engine.table("truth_rows_read", rows)
    engine.view(
        "truth_log",
        "select whose, item_id, greatest(grade, 0.0e0) as grade from truth_rows_read "
        "where whose is not null and item_id is not null and grade is not null",
    )
    return key


def with_truth(engine: Engine, key: str, scores: Sequence[str]) -> str:
    """Make `true_items`; return SQL of `shown_rows` graded, and of relevant items never shown.

    The columns of `scores` are null for items that were never shown.
    """
    engine.view(
        "truth_keys", f"select distinct unit_id, request_id, {key} as whose from shown_rows"
    )
    engine.table("true_items", query("offline/true_items"))
    return (
        "select coalesce(s.unit_id, t.unit_id) as unit_id, coalesce(s.request_id, t.request_id) as "
        "request_id, coalesce(s.item_id, t.item_id) as item_id, "
        f"{', '.join(['position', 'category', *scores])}, coalesce(t.grade, 0.0e0) as grade "
        "from shown_rows s full join true_items t on s.unit_id = t.unit_id "
        "and s.request_id = t.request_id and s.item_id = t.item_id "
        "where s.unit_id is not null or t.grade > 0"
    )


def longest_shown(engine: Engine) -> int:
    """Count the items of the longest list that was shown for a request with a relevant item."""
    return whole_number(
        engine,
        "select max(n) from (select count(distinct s.item_id) as n from shown_rows s "
        "semi join (select * from true_items where grade > 0) t "
        "on s.unit_id = t.unit_id and s.request_id = t.request_id "
        "group by s.unit_id, s.request_id) as l",
    )


def truth_accounts(engine: Engine) -> list[tuple[str, int]]:
    """Count rows of the truth log that were left out, merged, or about items never shown."""
    return counted(
        engine,
        "select (select count(*) from truth_rows_read where item_id is null or grade is null), "
        "(select count(*) from truth_log) - (select count(*) from "
        "(select distinct whose, item_id from truth_log) as d), "
        "(select count(*) from truth_log t anti join truth_keys a on t.whose = a.whose) + "
        "(select count(*) from truth_rows_read where whose is null and item_id is not null "
        "and grade is not null), "
        "(select count(*) from true_items t anti join shown_rows s on "
        "s.unit_id = t.unit_id and s.request_id = t.request_id and s.item_id = t.item_id "
        "where t.grade > 0)",
        *("truth_rows_without_usable_item_or_grade", "truth_rows_repeated"),
        *("truth_rows_of_unknown_requests_or_units", "relevant_items_never_shown"),
    )


SERVED = "served"
"""The order in which items were shown, compared with the stages before it."""


class ScoreLog(NamedTuple):
    """The models of a scores log, with SQL of their candidates."""

    sql: dict[str, str]
    stages: dict[str, str | None]
    accounts: list[tuple[str, int]]


def open_scores(run: Run) -> LogColumns | None:
    """Make `scores` (`model, stage, request_id, item_id, score`); None without a scores log."""
    source, engine = run.experiment.logs.scores, run.engine
    if source is None:
        return None
    open_log(run, "scores")
    log = map_columns("scores", source, engine.columns("raw_scores"), None)
    lacks = [name for name in ("request_id", "item_id") if name not in log]
    if "score" not in log and "rank" not in log:
        lacks.append("score or rank")
    if lacks:
        hint = f'map it: columns = {{ {lacks[0].split()[0]} = "..." }}; {log.listed}'
        raise LogError(f"logs.scores: no column {lacks[0]}", hint)
    own = {name: quoted(column) for name, column in log.mapped.items()}
    model, stage = "'scores'", "cast(null as varchar)"
    if "model" in own:
        model = f"coalesce(cast({own['model']} as varchar), {model})"
    if "stage" in own:
        stage = f"cast({own['stage']} as varchar)"
        model = f"coalesce({stage} || '/', '') || {model}"
    score = own["score"] if "score" in own else f"-{own['rank']}"
    engine.view(
        "scores",
        f"select {model} as model, {stage} as stage, {own['request_id']} as request_id, "
        f"{own['item_id']} as item_id, {finite_sql(score)} as score from raw_scores",
    )
    return log


def judge_scores(
    engine: Engine, log: LogColumns | None, ties: Ties, own: Mapping[str, str], has_positions: bool
) -> ScoreLog:
    """Make candidates of the models of the scores log; items that a model leaves out rank last.

    Where the log names stages, a model is `STAGE/MODEL`, and the order in which items were shown is
    one more model. `own` has the models with scores in the impressions; no model may be in both.
    """
    if log is None:
        return ScoreLog({}, {}, [])
    # Stages with more items come first.
    known = engine.rows(
        "select model, stage, sum(count(*)) over (partition by stage) from scores "
        "group by model, stage order by 3 desc, coalesce(stage, ''), model"
    )
    stages = {str(m): None if stage is None else str(stage) for m, stage, _ in known}
    both = [name for name in stages if name in own]
    if both:
        what = f"model {both[0]!r} has scores in the impressions and in logs.scores"
        raise ExperimentError(what, "rename one of them")
    write_truth(engine, "select unit_id, request_id, item_id, grade from replay_rows")
    sql, accounts = {}, list[tuple[str, int]]()
    tie = TIE["text" if ties == "text" else "item"]
    for i, name in enumerate(stages):
        listed = "select request_id, item_id, score, 0 as place from scores"
        sql[name] = listed_candidates(engine, i, f"{listed} where model = {literal(name)}", tie)
        accounts += _left_out(engine, i, name)
    if "stage" in log and has_positions:
        sql[SERVED] = (
            "select unit_id, request_id, item_id, cast(-position as double) as score, "
            "item_id as tie, grade, category from replay_rows"
        )
        stages[SERVED] = SERVED
    return ScoreLog(sql, stages, accounts)


def _left_out(engine: Engine, number: int, model: str) -> list[tuple[str, int]]:
    """Count scores of `listed_rows` that were left out or merged."""
    names = (
        *("repeated_scores", "unusable_scores"),
        *("scores_of_unknown_requests", "scored_items_never_shown"),
    )
    return counted(
        engine,
        "select (select count(*) - count(distinct (request_id, item_id)) from listed_rows), "
        "(select count(*) - count(score) from listed_rows), (select count(*) from listed_rows l "
        "anti join replay_rows r on l.request_id = r.request_id), "
        f"(select count(*) from judged_{number} l anti join replay_rows r "
        "on l.request_id = r.request_id and l.item_id = r.item_id)",
        *(f"{model}: {name}" for name in names),
    )
