"""Small relations, what one query of `queries/` answers over them, and how that is compared.

A relation is written as columns and rows, or as a list of named tuples, the annotations of
whose class are the types of its columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import date
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import literal, query

Value = int | float | str | bool | date | None

Row = tuple[Value, ...]

Keyed = dict[tuple[Any, ...], dict[str, Any]]
"""Key of a row → its other columns."""

Relation = str | Sequence[NamedTuple]
"""SQL, such as that of `relation`, or named tuples, at least one."""

Relations = Mapping[str, Relation]

_TYPES = {str: "varchar", int: "bigint", float: "double", bool: "boolean", date: "date"}


def relation(columns: str, *rows: Row) -> str:
    """SQL of a relation.

    Args:
        columns: Names and types, such as `unit_id bigint, day date`; a column without a type has
            that of its values.
        rows: At least one.
    """
    names = columns.split(", ")
    values = ", ".join(f"v{i}" for i in range(len(names)))
    selected = ", ".join(_column(f"v{i}", *name.split(" ", 1)) for i, name in enumerate(names))
    return f"select {selected} from (values {', '.join(map(_row, rows))}) as v ({values})"


def _column(value: str, name: str, kind: str = "") -> str:
    return f"cast({value} as {kind}) as {name}" if kind else f"{value} as {name}"


def _row(values: Row) -> str:
    return f"({', '.join(map(_written, values))})"


def _written(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, date):
        return f"date '{value}'"
    if isinstance(value, float):
        return f"'{value}'::double"
    return literal(value) if isinstance(value, str) else str(value)


def _of_tuples(rows: Sequence[NamedTuple]) -> str:
    return relation(_columns(type(rows[0])), *rows)


@cache
def _columns(row: type[NamedTuple]) -> str:
    hints = get_type_hints(row).items()
    kinds = {name: next(iter(get_args(hint)), hint) for name, hint in hints}
    return ", ".join(f"{name} {_TYPES[kind]}" for name, kind in kinds.items())


class Answer(list[Row]):
    """The rows of a query, and the names of their columns."""

    def __init__(self, columns: Iterable[str], rows: Iterable[Row]) -> None:
        super().__init__(rows)
        self.columns = [*columns]

    def as_set(self) -> set[Row]:
        """The rows in no order; none comes twice."""
        rows = set(self)
        assert len(rows) == len(self), "a row is there twice"
        return rows

    def by_key(self, key: str) -> Keyed:
        """The rows by some columns, such as `unit_id day`; no two have the same key."""
        whole = [dict(zip(self.columns, row, strict=True)) for row in self]
        rows = {tuple(row.pop(name) for name in key.split()): row for row in whole}
        assert len(rows) == len(self), "a key is there twice"
        return rows


def answer(name: str, columns: str = "", /, **relations: Relation) -> Answer:
    """The rows of a query over relations.

    Args:
        name: The query, such as `offline/pairs`.
        columns: Those to select, by which rows are then in order; else all, as it orders them.
        relations: What it reads; each may read those before it.
    """
    with closing(DuckDBEngine()) as engine:
        for relation_name, rows in relations.items():
            engine.table(relation_name, rows if isinstance(rows, str) else _of_tuples(rows))
        sql = query(name)
        if columns:
            sql = f"select {columns} from ({sql}) as answer order by all"
        engine.view("answer", sql)
        return Answer(engine.columns("answer"), engine.rows(sql))


def chance(seed: int) -> random.Random:
    """Draws that are the same on every run."""
    return random.Random(seed)  # noqa: S311 (no secret)


def near(rows: Mapping[tuple[Any, ...], Mapping[str, Any]], tolerance: float = 1e-9) -> Keyed:
    """Rows that equal others up to rounding."""
    return {
        key: {name: _near(value, tolerance) for name, value in row.items()}
        for key, row in rows.items()
    }


def _near(value: object, tolerance: float) -> object:
    return pytest.approx(value, rel=tolerance, abs=tolerance) if type(value) is float else value
