"""Digests of what decides the rows of a part; if they change, and only then, it is recomputed.

`store/collect.py` makes them of the experiment, the columns and the engine; `store/parts.py`
compares them with those of each part, and `store/state.py` digests them again.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import duckdb

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.logs import views
from abeval.logs.row_sql import own_name
from abeval.logs.shape import LogShape
from abeval.store.manifest import FORMAT


@dataclass(frozen=True)
class Definition:
    """Digests of the definition of a part.

    Attributes:
        rows: Of what decides its rows: views, query, types, exposures, versions.
        components: Of each summed column, in the order of the shape.
    """

    rows: str
    components: tuple[str, ...]


def definition_of(experiment: Experiment, shape: LogShape, engine: Engine) -> Definition:
    """Digests of everything that `units/logged_sums` depends on, and of nothing else.

    Of metrics, only the SQL of their sums counts: no names, roles or margins, and no alpha,
    families or looks.
    """
    categories = _content(engine, "items") if shape.has_item_categories else ""
    segments = " ".join(shape.segments.values())
    bare = replace(shape, components=(), events=(), own_columns=_own(shape, segments))
    log = shape.impressions
    mapped = {name: log.types[column] for name, column in sorted(log.mapped.items())}
    rows = (
        FORMAT,
        duckdb.__version__,
        query("units/logged_sums"),
        views.seen_view(experiment, bare, engine, []),
        views.logged_view(experiment, bare),
        mapped,
        _read(shape, segments, categories),
        _content(engine, "exposed") if shape.exposures is not None else "",
    )
    components = tuple(_digest(sql, _read(shape, sql, categories)) for sql in shape.components)
    return Definition(_digest(*rows), components)


def _read(shape: LogShape, sql: str, categories: str) -> tuple[Mapping[str, str], str]:
    """Types of the log's own columns that an expression reads, and the items if it reads these."""
    own = {column: shape.impressions.types[column] for column in _own(shape, sql)}
    return own, categories if quoted("category") in sql else ""


def _own(shape: LogShape, sql: str) -> tuple[str, ...]:
    """The log's own columns that an expression reads, as the log spells them."""
    named = sql.lower()
    return tuple(
        column for column in shape.impressions.types if quoted(own_name(column)).lower() in named
    )


def _content(engine: Engine, relation: str) -> str:
    """A digest of the distinct rows of a small relation, whatever their order."""
    ((rows, mixed),) = engine.rows(
        f"select count(*), cast(bit_xor(md5_number(cast(r as varchar))) as varchar) "
        f"from {relation} r"
    )
    return f"{rows}:{mixed}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]
