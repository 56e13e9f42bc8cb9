"""Measure what a table's columns hold: types, ranges, and how often a value comes again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import quoted

Kind = Literal["boolean", "integer", "real", "time", "text", "other"]

FEW = 20
"""Columns of at most this many values have them listed."""

_KINDS: Mapping[Kind, tuple[str, ...]] = {
    "boolean": ("BOOLEAN",),
    "time": ("TIMESTAMP", "DATE"),
    "text": ("VARCHAR", "UUID", "ENUM"),
    "real": ("DOUBLE", "FLOAT", "DECIMAL"),
}
"""Kind → how the names of its types begin."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        low: The smallest number; None unless it holds numbers or booleans.
        values: Each value as text with its rows, most frequent first, where there are few.
        is_whole: Whether it holds numbers without a fraction, whatever its type.
    """

    name: str
    type: str
    kind: Kind
    rows: int
    distinct: int
    low: float | None
    high: float | None
    values: tuple[tuple[str, int], ...]
    is_whole: bool = False

    @property
    def is_number(self) -> bool:
        """Say whether sums of it mean something."""
        return self.kind in ("boolean", "integer", "real")

    @property
    def may_be_id(self) -> bool:
        """Say whether it can hold ids: text or whole numbers, even if stored as 7.0."""
        return self.kind in ("text", "integer") or (self.kind == "real" and self.is_whole)

    @property
    def is_share(self) -> bool:
        """Say whether it holds nothing but 0 and 1."""
        return self.is_number and self.distinct == 2 and (self.low, self.high) == (0.0, 1.0)


@dataclass(frozen=True)
class Table:
    """A table's columns and its number of rows; the engine has it as `relation`."""

    relation: str
    rows: int
    columns: tuple[Column, ...]


def look(engine: Engine, relation: str) -> Table:
    """Measure the columns of a relation by one pass, and list few values by another."""
    types = engine.columns(relation)
    numbers = ", ".join(
        _measures(place, name, _kind(type)) for place, (name, type) in enumerate(types.items())
    )
    ((rows, *measures),) = engine.rows(f"select count(*), {numbers} from {quoted(relation)}")
    each = [measures[i : i + _MEASURES] for i in range(0, len(measures), _MEASURES)]
    few = [name for name, m in zip(types, each, strict=True) if 0 < int(str(m[1])) <= FEW]
    listed = ", ".join(f"to_json(histogram(cast({quoted(name)} as varchar)))" for name in few)
    values = engine.rows(f"select {listed} from {quoted(relation)}")[0] if few else ()
    counts = {name: json.loads(str(text)) for name, text in zip(few, values, strict=True)}
    columns = tuple(
        _column(name, type, m, counts.get(name, {}))
        for (name, type), m in zip(types.items(), each, strict=True)
    )
    return Table(relation, whole(rows), columns)


def _kind(type: str) -> Kind:
    for kind, starts in _KINDS.items():
        if type.startswith(starts):
            return "other" if type.endswith("]") else kind
    return "integer" if type.endswith(("INT", "INTEGER")) else "other"


def _measures(place: int, name: str, kind: Kind) -> str:
    column = quoted(name)
    value = f"cast({column} as double)" if kind in ("boolean", "integer", "real") else None
    ends = f"min({value}), max({value}), " if value else "null, null, "
    has_no_fraction = f"bool_and({value} = floor({value}))" if value else "false"
    return f"count({column}), count(distinct {column}), {ends}{has_no_fraction}"


_MEASURES = 5
"""Values of `_measures`."""


def _column(name: str, type: str, measures: Sequence[object], counts: Mapping[str, int]) -> Column:
    rows, distinct = int(str(measures[0])), int(str(measures[1]))
    low, high = (None if end is None else float(str(end)) for end in measures[2:4])
    values = tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
    is_whole = bool(measures[4]) and _kind(type) in ("integer", "real")
    return Column(name, type, _kind(type), rows, distinct, low, high, values, is_whole)
