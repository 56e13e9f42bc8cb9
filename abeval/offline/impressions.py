"""Write the logs of an experiment as judged rows: models, scores and relevance.

Beside the impressions there may be a scores log, and vectors of items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from abeval.engines.sql import Engine, literal, query, quote
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.logs.mapping import LogColumns, map_columns
from abeval.logs.run import Run, open_log
from abeval.logs.shape import EXPRESSION_COLUMNS, LogSchema, write_view_expression
from abeval.metrics.definition import Metric, Need, RowTerm
from abeval.offline.candidates import UNIT_GROUPS, JudgedLog, write_cutoff_columns, write_finite
from abeval.offline.expressions import Expression
from abeval.offline.metrics import OfflineMetric

SIMILARITY = "similarity"
"""The name of relevance by the largest cosine with an item that the unit clicked."""

SCORE_COUNTS: Mapping[str, str] = {
    "repeated_scores": "(select count(*) from list_rows) - (select count(*) from listed_once)",
    "unusable_scores": "select count(*) - count(score) from list_rows",
    "scores_of_unknown_requests": "select count(*) from list_rows l "
    "anti join kept_rows r on l.request_id = r.request_id",
    "scored_items_never_shown": "select count(*) from judged where judged = 0",
}
"""What is counted of the scores of a model."""

_PLAIN_MODEL = "score"
"""The name of the model of a log with one plain `score` column."""


def model_scores(schema: LogSchema, kept_negatives: float | None) -> dict[str, str]:
    """Return model → SQL of its score, for models scored in the impressions."""
    scores = {name: score.replace("score_", "m_") for name, score in schema.model_scores.items()}
    if not scores and schema.scores:
        scores = {_PLAIN_MODEL: "m_1"}
    if kept_negatives is not None:
        # Undo negative sampling: q = p / (p + (1 − p) / w), w the share of negatives kept.
        scores = {
            m: f"{p} / nullif({p} + (1 - {p}) / {kept_negatives!r}, 0)" for m, p in scores.items()
        }
    return scores


# Whole multiples have the same sum in each order of adding.
_RESOLUTION = 1e-6
"""Relevance by an expression is rounded to multiples of this."""

_NEEDS: Mapping[str, tuple[Need, ...]] = {
    "click": ("click",),
    "long_click": ("click", "dwell"),
    "dwell": ("dwell",),
    SIMILARITY: ("click",),
}


def define_relevance(experiment: Experiment, name: str) -> Metric | None:
    """Return the metric that sums relevance by an expression.

    The metric is None for a relevance that is no expression.
    """
    if name in ("click", "dwell", SIMILARITY):
        return None
    text = name
    if name == "long_click":
        long_ms = round(experiment.clicks.long_seconds * 1000)
        text = f"case when click = 1 and dwell_ms >= {long_ms} then 1 else 0 end"
    term = RowTerm(text, scale=_RESOLUTION, resolution=_RESOLUTION)
    return Metric("relevance", "mean", text, value=term)


def check_relevance(schema: LogSchema, relevance: str) -> None:
    """Refuse logs that lack a column or a log that relevance or a replay needs."""
    hint = 'map it: [logs.impressions] columns = { item_id = "..." }'
    if "item_id" not in schema.impressions and "position" not in schema.impressions:
        what = "a replay needs the items that were shown, but there is no column item_id"
        raise LogError(what, hint)
    if relevance == SIMILARITY and "item_id" not in schema.impressions:
        what = f"relevance = {relevance!r} needs item_id, which the impressions lack"
        raise LogError(what, hint)
    for need in _NEEDS.get(relevance, ()):
        if need not in schema.needs_met(""):
            raise LogError(
                f"relevance = {relevance!r} needs {need}, which the logs do not have",
                "add [logs.clicks], map the column, or choose another relevance",
            )


def _write_grade(experiment: Experiment, schema: LogSchema, relevance: str) -> str:
    """Return SQL of the grade of an impression."""
    metric = define_relevance(experiment, relevance)
    if metric is not None and metric.value is not None:
        column = schema.component(metric.value, experiment.control)
        # Errors are of any relevance; metrics of ranking count what is not above 0 as none.
        return f"coalesce({column} * {_RESOLUTION!r}, 0.0e0)"
    if relevance == "dwell":
        return f"coalesce({write_finite('dwell_ms / 1000.0e0')}, 0)"
    if relevance == SIMILARITY:
        # A clicked item is most like itself, whether or not it has a vector.
        return "case when click = 1 then 1.0e0 else coalesce(similarity, 0.0e0) end"
    return "cast(click as double)"


PART_COLUMNS = EXPRESSION_COLUMNS - {"score"}
"""Canonical columns that the expression of a part may read; `score` is the log's own column."""

_NOTHING = (
    "nothing to replay: no unit of a variant has an impression in the period",
    "check logs.impressions.path, [period], timezone and [variants]",
)


def write_impressions(
    run: Run,
    schema: LogSchema,
    relevance: str,
    part: Expression | None = None,
    cutoffs: Sequence[Expression] = (),
) -> JudgedLog:
    """Write the impressions of an experiment, or of a part, without models."""
    where, units_sql = "in_period", "select unit_id, variant as traffic"
    if part is not None:
        where = f"in_period and ({write_view_expression(part.text, None, PART_COLUMNS)})"
        # The units of a part are one traffic with its name, whatever their variant.
        units_sql = f"select unit_id, {literal(part.name)} as traffic"
    check_relevance(schema, relevance)
    # Without ids of items, its position tells a row of a request from the others.
    item = "item_id" if "item_id" in schema.impressions else "position"
    request = "request_id" if "request_id" in schema.impressions else "unit_id"
    selected = ["unit_id", f"{request} as request_id", f"{item} as item_id", "position", "category"]
    # Without models there is one score, the plain `score` column, first in the view.
    columns = dict.fromkeys(schema.model_scores.values() or schema.scores.values())
    selected += [f"{column} as {column.replace('score_', 'm_')}" for column in columns]
    selected += write_cutoff_columns(
        write_view_expression(cutoff.text, None, PART_COLUMNS) for cutoff in cutoffs
    )
    source = "impressions"
    if relevance == SIMILARITY:
        write_similar_items(run.engine, "in_period")
        source = (
            "impressions left join (select unit_id as of_unit, item_id as of_item, similarity "
            "from similar_items) as s on unit_id = of_unit and item_id = of_item"
        )
    grade = _write_grade(run.experiment, schema, relevance)
    # Only units with a row in a part are units of it.
    seen = f" semi join (select unit_id from impressions where {where}) i on u.unit_id = i.unit_id"
    return JudgedLog(
        rows=f"select {', '.join(selected)}, {grade} as grade from {source} where {where}",
        # Sub-buckets are hashes of units, so the groups are random and the same on each run.
        units=f"{units_sql}, sub_bucket % {UNIT_GROUPS} as unit_group from units u"
        f"{'' if part is None else seen}",
        nothing=_NOTHING,
    )


def needs_vectors(metrics: Sequence[OfflineMetric], relevance: str) -> str | None:
    """Return the metric or the relevance that needs the vectors of items.

    None where none does.
    """
    if relevance == SIMILARITY:
        return f"relevance = {SIMILARITY!r}"
    return "ild[vectors]" if any(m.definition.above == "ild_vectors" for m in metrics) else None


def write_vectors(engine: Engine, items: LogColumns | None, reader: str) -> None:
    """Make `vectors` of the item log, scaled to length one.

    There is one row for each dimension of an item.

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
    item, column = (quote(items.mapped[name]) for name in ("item_id", "embedding"))
    frame = engine.frame(f"select {item} as item_id, {column} as vector from raw_items")
    # An item may have several rows; its first vector counts, not a null before it.
    frame = frame.dropna().drop_duplicates("item_id")
    # A text has a length too, but is no list of numbers.
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
    engine.add_frame("vectors", pd.DataFrame(columns))


def write_similar_items(engine: Engine, where: str) -> None:
    """Make `similar_items`, the similarity of shown items to clicked ones, by unit."""
    engine.view(
        "shown_items",
        "select unit_id, item_id, max(click) as click from impressions "
        f"where {where} and item_id is not null group by unit_id, item_id",
    )
    engine.table("similar_items", query("offline/similar_items"))


def open_scores(run: Run, impression_models: Iterable[str]) -> dict[str, str]:
    """Return SQL of each model's list in the scores log; empty without such a log.

    A model may be there or in the impressions, not in both.
    """
    source, engine = run.experiment.logs.scores, run.engine
    if source is None:
        return {}
    open_log(run, "scores")
    log = map_columns("scores", source, engine.columns("raw_scores"), None)
    lacks = [name for name in ("request_id", "item_id") if name not in log]
    if "score" not in log and "rank" not in log:
        lacks.append("score or rank")
    if lacks:
        hint = f'map it: columns = {{ {lacks[0].split()[0]} = "..." }}; {log.columns_hint}'
        raise LogError(f"logs.scores: no column {lacks[0]}", hint)
    columns = {name: quote(column) for name, column in log.mapped.items()}
    model = "'scores'"
    if "model" in columns:
        # Rows without a model are of the model that a log without this column has.
        model = f"coalesce(cast({columns['model']} as varchar), {model})"
    # A rank is turned, because the larger score ranks higher.
    score = columns["score"] if "score" in columns else f"-{columns['rank']}"
    engine.view(
        "scores",
        f"select {model} as model, {columns['request_id']} as request_id, "
        f"{columns['item_id']} as item_id, {write_finite(score)} as score, "
        # Scores have no order of their own.
        "cast(null as bigint) as position from raw_scores",
    )
    models = [str(name) for (name,) in engine.rows("select distinct model from scores order by 1")]
    if both := [name for name in models if name in impression_models]:
        what = f"model {both[0]!r} has scores in the impressions and in logs.scores"
        raise ExperimentError(what, "rename one of them")
    return {
        name: "select request_id, item_id, score, position from scores "
        f"where model = {literal(name)}"
        for name in models
    }
