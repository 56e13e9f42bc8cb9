"""Vectors of items, for the diversity of lists and for relevance by similarity to clicked items.

`offline/replay.py` writes them from the item log where a metric or the relevance needs them;
`offline/sums/beyond.py` and `offline/candidates/relevance.py` use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.sql import query, quoted
from abeval.errors import LogError
from abeval.offline.metrics import OfflineMetric
from abeval.stats.records import Floats

if TYPE_CHECKING:
    import pandas as pd

    from abeval.logs.mapping import LogColumns

SIMILARITY = "similarity"
"""The name of relevance by the largest cosine with an item that the unit clicked."""


def needs_vectors(metrics: Sequence[OfflineMetric], relevance: str) -> str | None:
    """The metric or the relevance that needs the vectors of items; None where none does."""
    if relevance == SIMILARITY:
        return f"relevance = {SIMILARITY!r}"
    needed = any(m.definition.numerator == "ild_vectors" for m in metrics)
    return "ild[vectors]" if needed else None


def write_vectors(engine: Engine, items: LogColumns | None, reader: str) -> None:
    """Make `item_dimensions` of the item log: each vector scaled to length one, a row a dimension.

    An item whose vector is null, of length zero or not finite has none. Messages name `reader`, the
    metric or the relevance that needs the vectors.

    Raises:
        LogError: There are no vectors, or their lengths differ.
    """
    frame = _read_vectors(engine, _with_vectors(items, reader), reader)
    matrix = np.array([_numbers(vector) for vector in frame["vector"]], ndmin=2)
    length = np.linalg.norm(matrix, axis=1)
    usable = np.isfinite(length) & (length > 0)
    if not usable.any():
        raise LogError(
            f"{reader}: no item has a usable vector", "each vector needs a finite length above 0"
        )
    matrix, ids = matrix[usable] / length[usable, None], frame["item_id"].to_numpy()[usable]
    engine.add_frame("item_dimensions", _by_dimension(ids, matrix))


def _with_vectors(items: LogColumns | None, reader: str) -> LogColumns:
    if items is None or "embedding" not in items or "item_id" not in items:
        lacks = "there is no item log" if items is None else "the item log has no such column"
        what = f"{reader} needs the vectors of items, a column `embedding`, but {lacks}"
        raise LogError(what, '[logs.items] path = "...", columns = { embedding = "..." }')
    return items


def _read_vectors(engine: Engine, items: LogColumns, reader: str) -> pd.DataFrame:
    """`item_id, vector` of every item that has a vector."""
    item, vector = (quoted(items.mapped[name]) for name in ("item_id", "embedding"))
    frame = engine.frame(f"select {item} as item_id, {vector} as vector from raw_items")
    frame = frame.dropna().drop_duplicates("item_id")
    if frame["vector"].map(lambda v: isinstance(v, str) or not hasattr(v, "__len__")).any():
        what = f"{reader}: the vectors of items are not lists of numbers"
        raise LogError(what, "write each vector as a list of numbers")
    lengths = frame["vector"].map(len)
    if lengths.nunique() > 1:
        what = f"{reader}: the vectors of items have {lengths.min()} to {lengths.max()} numbers"
        raise LogError(what, "all vectors need the same length")
    return frame


def _by_dimension(ids: NDArray[np.generic], matrix: Floats) -> pd.DataFrame:
    import pandas as pd

    columns = {
        "item_id": np.repeat(ids, matrix.shape[1]),
        "dimension": np.tile(np.arange(matrix.shape[1]), len(ids)),
        "value": matrix.ravel(),
    }
    return pd.DataFrame(columns)


def _numbers(vector: object) -> Floats:
    """A vector with NaN where the log has a null, which engines return as masked."""
    masked = np.ma.asarray(vector, dtype=np.float64)
    return np.asarray(np.ma.filled(masked, np.nan))


def write_similar_items(engine: Engine, where: str) -> None:
    """Make `similar_items`: similarity of the items shown to a unit to those that it clicked."""
    engine.view(
        "shown_items",
        "select unit_id, item_id, max(click) as click from impressions "
        f"where {where} and item_id is not null group by unit_id, item_id",
    )
    engine.table("similar_items", query("offline/similar_items"))


def rows_without_vector(engine: Engine) -> int:
    """Rows of `analysed_rows` whose item has no vector."""
    return whole_number(
        engine,
        "select count(*) from analysed_rows r "
        "anti join item_dimensions d on r.item_id = d.item_id where r.item_id is not null",
    )
