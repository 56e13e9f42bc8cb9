"""The rows that a query of `queries/` gives over relations of a few rows."""

from __future__ import annotations

from datetime import date

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.queries import query
from abeval.engines.sql import literal

Value = int | float | str | bool | date | None


def relation(columns: str, *rows: tuple[Value, ...]) -> str:
    """SQL of a relation with these rows."""
    listed = ", ".join(f"({', '.join(map(_written, row))})" for row in rows)
    return f"select * from (values {listed}) as t ({columns})"


def answer(name: str, **relations: str) -> set[tuple[Value, ...]]:
    """The rows of a query over these relations; none comes twice."""
    engine = DuckDBEngine()
    for relation_name, sql in relations.items():
        engine.table(relation_name, sql)
    rows = engine.rows(query(name))
    engine.close()
    assert len(set(rows)) == len(rows)
    return set(rows)


def _written(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, date):
        return f"date '{value}'"
    return literal(value) if isinstance(value, str) else str(value)
