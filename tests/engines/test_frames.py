"""What is read of a pandas frame without DuckDB is what DuckDB would read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.frames import find_types, read_texts
from abeval.errors import QueryError
from abeval.experiment.sources import LogSource

KINDS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TIMES = [f"datetime64[{unit}]" for unit in ("s", "ms", "us", "ns")]


def test_types_are_those_of_duckdb() -> None:
    kinds = ["bool", "float32", "float64", *KINDS, *TIMES]
    frame = pd.DataFrame({kind: np.array([1, 0]).astype(kind) for kind in kinds})
    frame["text"], frame["object"] = ["a", "b"], pd.Series(["a", None], dtype=object)
    engine = DuckDBEngine()
    engine.add_frame("copied", frame)
    assert find_types(frame, LogSource()) == engine.columns("copied")
    assert engine.plain_frame("copied") is None
    engine.close()


@pytest.mark.parametrize(
    "columns",
    [
        {"n": [1, 2], "N": [1, 2]},
        {"n": [1.0, np.nan], "text": ["a", None]},
        {"n": [], "text": []},
        {"n": [1, 2], 5: [1, 2]},
        {"n": [1, 2], "mixed": pd.Series(["a", 1], dtype=object)},
        {"n": [1, 2], "none": pd.Series([None, None], dtype=object)},
        {"n": [1, 2], "nullable": pd.array([1, None], dtype="Int64")},
        {"n": [1, 2], "kind": pd.Categorical(["a", "b"])},
        {"n": [1, 2], "ts": ["2026-01-01", "2026-01-02"]},
    ],
    ids=lambda columns: "_".join(map(str, columns)),
)
def test_what_types_do_not_tell_is_left_to_duckdb(columns: dict[str, object]) -> None:
    assert find_types(pd.DataFrame(columns), LogSource()) is None


def test_texts_are_written_as_sql_writes_them() -> None:
    frame = pd.DataFrame({"n": [7, -1, 7], "text": ["b", None, "b"], "x": [1.0, 2.0, 3.0]})
    numbers, texts = read_texts(frame, "n"), read_texts(frame, "text")
    assert numbers is not None
    assert texts is not None
    assert (numbers.code.tolist(), numbers.names) == ([0, 1, 0], ["7", "-1"])
    assert (texts.code.tolist(), texts.names) == ([0, -1, 0], ["b"])
    assert read_texts(frame, "x") is None


def test_a_failing_first_statement_leaves_files_confined(tmp_path: Path) -> None:
    """Settings stand before any statement, also one that cannot be parsed."""
    (tmp_path / "x.csv").write_text("a\n42\n")
    engine = DuckDBEngine()
    engine.confine([])
    with pytest.raises(QueryError):
        engine.rows("select 1 /* never ends")
    with pytest.raises(QueryError, match="disabled by configuration"):
        engine.rows(f"select * from '{tmp_path}/x.csv'")


def test_views_that_wait_for_a_statement_are_made_in_their_order() -> None:
    engine = DuckDBEngine()
    engine.view("base", "select 1 as other")
    engine.view("other", "select other from base")
    engine.view("base", "select 2 as other")
    assert engine.rows("select * from base") == [(2,)]
    assert engine.rows("select * from other") == [(2,)]


def test_members_of_an_enumeration_are_left_to_sql() -> None:
    class Arm(StrEnum):
        A = "a"

    assert read_texts(pd.DataFrame({"arm": pd.Series([Arm.A], dtype=object)}), "arm") is None
