"""The answer of one query over small tables, to compare with a slow twin.

A table is a list of named tuples; the annotations of their class are the types of its columns.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import duckdb
import pandas as pd
import pytest

from abeval.engines.queries import query

Answer = dict[tuple[Any, ...], dict[str, Any]]
"""Key of a row → its other columns."""

Rows = Sequence[NamedTuple]

Tables = Mapping[str, Rows]

_TYPES = {str: "varchar", int: "bigint", float: "double", bool: "boolean", date: "date"}


def answer(name: str, key: str, *views: str, **tables: Rows) -> Answer:
    """The rows of a query by the columns of its grain.

    Args:
        name: The query, such as `offline/pairs`.
        key: The columns of its grain.
        views: Queries that it reads, each as the relation of its name.
        tables: The relations that it and they read; none is empty.
    """
    with closing(duckdb.connect()) as connection:
        for table, rows in tables.items():
            columns = _columns(type(rows[0]))
            connection.execute(f"create table {table} ({columns})")
            connection.register("cells", pd.DataFrame(rows, dtype=object))
            connection.execute(f"insert into {table} from cells")
        for view in views:
            connection.execute(f"create view {view.rpartition('/')[2]} as {query(view)}")
        result = connection.execute(query(name))
        names = [column[0] for column in result.description]
        whole = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    keys = key.split()
    by_key = {tuple(row.pop(name) for name in keys): row for row in whole}
    assert len(by_key) == len(whole), "a row is there twice"
    return by_key


@cache
def _columns(row: type[NamedTuple]) -> str:
    hints = get_type_hints(row).items()
    kinds = {name: next(iter(get_args(hint)), hint) for name, hint in hints}
    return ", ".join(f"{name} {_TYPES[kind]}" for name, kind in kinds.items())


def chance(seed: int) -> random.Random:
    """Draws that are the same on every run."""
    return random.Random(seed)  # noqa: S311 (no secret)


def near(
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]], tolerance: float = 1e-9
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows that equal others up to rounding."""
    return {
        key: {name: _near(value, tolerance) for name, value in row.items()}
        for key, row in rows.items()
    }


def _near(value: object, tolerance: float) -> object:
    return pytest.approx(value, rel=tolerance, abs=tolerance) if type(value) is float else value
