"""Read the logs beside the impressions: vectors of items, the scores log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from abeval.engines.sql import Engine, literal, query, quote
from abeval.errors import ExperimentError, LogError
from abeval.logs.mapping import LogColumns, map_columns
from abeval.logs.run import Run, open_log
from abeval.offline.candidates import write_finite
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
    """Return SQL of the list of each model in the scores log; no model without such a log.

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
