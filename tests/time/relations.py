"""The rows of a query over small relations."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd

from abeval.engines.queries import query


def answer(name: str, **relations: str) -> pd.DataFrame:
    """What a query returns.

    Args:
        name: Of the query.
        **relations: Each `columns: rows`, as SQL has them after `values`.
    """
    with duckdb.connect() as connection:
        for relation, text in relations.items():
            columns, _, rows = text.partition(":")
            connection.execute(f"create table {relation} as from (values {rows}) as t({columns})")
        return connection.execute(query(name)).df()


def rows_of(name: str, **relations: str) -> set[tuple[str, ...]]:
    """The rows of `answer` as `texts`."""
    return texts(answer(name, **relations))


def texts(frame: pd.DataFrame) -> set[tuple[str, ...]]:
    """The rows of a table as text, where a null is an empty one; no row may be there twice."""
    rows = [tuple(map(_text, row)) for row in frame.to_numpy(object).tolist()]
    assert len(set(rows)) == len(rows)
    return set(rows)


def _text(value: Any) -> str:
    if pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return str(value.date())
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)
