"""Every answer and table of a real analysis, on DuckDB and on Spark, and whether they are one."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pandas as pd

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import Engine, query, query_names

TOLERANCE = 1e-9


class Both(Engine):
    """An engine that runs everything on two, compares, and answers what DuckDB does."""

    in_process = False

    def __init__(self, duck: DuckDBEngine, spark: Engine) -> None:
        self.duck, self.spark = duck, spark
        self.ran: set[str] = set()
        self.statements = 0
        # Types of a frame are compared once a text: windows ask the same of other rows.
        self._framed: set[str] = set()

    def add_log(self, name: str, source: Any, reads: str | None = None) -> None:
        self.duck.add_log(name, source)
        self.spark.add_log(name, source)
        self._compare(name, f"select * from {name}")

    def add_frame(
        self, name: str, frame: object, source: Any = None, reads: str | None = None
    ) -> None:
        self.duck.add_frame(name, frame, source)
        self.spark.add_frame(name, frame, source)
        self._compare(name, f"select * from {name}")

    def complete(self, name: str) -> None:
        """Both have every column: `reads` is not handed on."""

    def columns(self, relation: str) -> Mapping[str, str]:
        mine, theirs = self.duck.columns(relation), self.spark.columns(relation)
        assert list(mine) == list(theirs), relation
        if relation.startswith("raw_"):
            assert dict(mine) == dict(theirs), relation
        return mine

    def view(self, name: str, sql: str) -> None:
        self._note(sql)
        self.duck.view(name, sql)
        self.spark.view(name, sql)

    def table(self, name: str, sql: str) -> None:
        self._note(sql)
        self.duck.table(name, sql)
        self.spark.table(name, sql)
        self._compare(name, f"select * from {name}")

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        self._note(sql)
        return self._compare(sql, sql)

    def frame(self, sql: str) -> pd.DataFrame:
        self._note(sql)
        self._compare(sql, sql)
        mine = self.duck.frame(sql)
        if sql in self._framed:
            return mine
        self._framed.add(sql)
        theirs = self.spark.frame(sql)
        assert list(mine.columns) == list(theirs.columns), sql
        for column in mine.columns:
            # A sum of whole numbers is a double in DuckDB's frames, where Spark may keep it whole.
            kinds = {mine[column].dtype.kind, theirs[column].dtype.kind} - {"i"}
            assert len(kinds) < 2 or not len(mine), (sql, column, kinds)
        return mine

    def arrays(self, sql: str) -> Any:
        self._note(sql)
        self._compare(sql, sql)
        return self.duck.arrays(sql)

    def drop(self, *names: str) -> None:
        self.duck.drop(*names)
        self.spark.drop(*names)

    def add_arrays(self, name: str, columns: Any) -> None:
        self.duck.add_arrays(name, columns)
        self.spark.add_arrays(name, columns)
        self._compare(name, f"select * from {name}")

    def hash64(self, values: Sequence[str]) -> str:
        """The same number on both, which their own hashes are not."""
        texts = (f"coalesce(cast({value} as varchar), '-')" for value in values)
        return self.hash60("both", " || '|' || ".join(texts))

    def close(self) -> None:
        self.duck.close()
        self.spark.close()

    def _note(self, sql: str) -> None:
        self.statements += 1
        self.ran |= {name for name in query_names() if query(name).strip() in sql}

    def _compare(self, what: str, sql: str) -> Sequence[tuple[Any, ...]]:
        mine = self.duck.rows(sql)
        difference = first_difference(mine, self.spark.rows(sql))
        assert difference is None, f"{what}\n{difference}"
        return mine


def first_difference(mine: Sequence[tuple], theirs: Sequence[tuple]) -> str | None:
    """What differs between two results whose rows may come in any order; None where nothing."""
    if len(mine) != len(theirs):
        return f"{len(mine)} rows on DuckDB, {len(theirs)} on Spark"
    for row, other in zip(_ordered(mine), _ordered(theirs), strict=True):
        if len(row) != len(other) or not all(map(same, row, other)):
            return f"DuckDB {row}\nSpark  {other}"
    return None


def difference(mine: Any, theirs: Any, where: str = "") -> str | None:
    """Where two JSON documents differ, floats by more than 1e-9; their digests are their own."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        pairs = [(f"{where}.{k}", mine[k], theirs[k]) for k in mine if k != "digest"]
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(mine, theirs, strict=True))]
    else:
        return None if same(mine, theirs) else f"{where}: {mine} on DuckDB, {theirs} on Spark"
    return next((found for w, m, t in pairs if (found := difference(m, t, w))), None)


def same(mine: object, theirs: object) -> bool:
    """Floats to 1e-9, everything else exactly, with its kind."""
    mine, theirs = _plain(mine), _plain(theirs)
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, float) and isinstance(theirs, float):
        if math.isnan(mine) or math.isnan(theirs):
            return math.isnan(mine) and math.isnan(theirs)
        return mine == theirs or math.isclose(mine, theirs, rel_tol=TOLERANCE, abs_tol=1e-12)
    return mine == theirs


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value


def _ordered(rows: Sequence[tuple]) -> list[tuple]:
    return sorted(rows, key=lambda row: tuple(map(_place, row)))


def _place(value: object) -> tuple[bool, str]:
    value = _plain(value)
    # Digits in which two engines may differ must not decide the order.
    return value is None, f"{value:.6e}" if isinstance(value, float) else str(value)
