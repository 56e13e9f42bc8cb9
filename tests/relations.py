"""Small relations, and what one query answers over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Cell
from abeval.engines.queries import query

Row = tuple[Cell, ...]


class Relation(NamedTuple):
    """Rows, and the name and type of each column: `unit_id bigint, day date`."""

    columns: str
    rows: Iterable[Row]

    @property
    def sql(self) -> str:
        """A select of the rows; of none, where there are none."""
        types = [column.rsplit(" ", 1) for column in self.columns.split(", ")]
        rows = [f"({', '.join(map(_literal, row))})" for row in self.rows]
        nothing = f"({', '.join(['null'] * len(types))})"
        casts = ", ".join(f"cast(v{i} as {kind}) as {name}" for i, (name, kind) in enumerate(types))
        names = ", ".join(f"v{i}" for i in range(len(types)))
        listed = ", ".join(rows or [nothing])
        condition = "" if rows else " where false"
        return f"select {casts} from (values {listed}) as v ({names}){condition}"


def relation_of(columns: str, *rows: Row) -> Relation:
    """A relation of rows that are written out."""
    return Relation(columns, rows)


def _literal(value: Cell) -> str:
    if value is None:
        return "null"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def answer(name: str, columns: str, **relations: Relation) -> Sequence[Row]:
    """The rows of a query over relations, some of its columns, in order."""
    engine = DuckDBEngine()
    try:
        for relation, content in relations.items():
            engine.table(relation, content.sql)
        return engine.rows(f"select {columns} from ({query(name)}) as answer order by all")
    finally:
        engine.close()
