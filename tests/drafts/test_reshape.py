"""Nests, slates, rows of types and written numbers become a plain log, by a query in the draft."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from abeval.drafts.columns import Origin
from abeval.drafts.reshape import reshape_table
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import quote
from abeval.experiment.load import make_source


def reshaped(log: object) -> tuple[pd.DataFrame, str]:
    """Reshape a frame or a file; return its rows, and the query that the draft writes."""
    with closing(DuckDBEngine(folder=Path())) as engine:
        if isinstance(log, Path):
            engine.add_log("raw_log", make_source({"path": str(log)}))
        else:
            engine.add_frame("raw_log", log)
        table = reshape_table(engine, "raw_log", Origin())
        query = table.origin.query
        rows = engine.frame(f"select * from {quote(table.relation)}")
        if query:
            # The query of the file does what the draft has looked at.
            again = f"with log as (select * from raw_log) select * from ({query})"
            pd.testing.assert_frame_equal(engine.frame(again), rows)
        return rows, query


def test_a_plain_log_needs_no_query() -> None:
    assert reshaped(pd.DataFrame({"user_id": [1, 2], "tags": [["a"], ["b", "c"]]}))[1] == ""


def test_parameters_become_columns_of_their_types() -> None:
    def parameters(session: int, arm: str) -> list[dict[str, object]]:
        values = ({"int_value": session}, {"string_value": arm})
        empty = {"int_value": None, "string_value": None}
        keys = ("session", "arm")
        return [{"key": k, "value": {**empty, **v}} for k, v in zip(keys, values, strict=True)]

    frame = pd.DataFrame({"id": [1, 2], "p": [parameters(7, "a"), parameters(8, "b")]})
    rows, _ = reshaped(frame)
    assert rows[["id", "session", "arm"]].to_numpy().tolist() == [[1, 7, "a"], [2, 8, "b"]]


def test_json_texts_become_columns_and_broken_ones_nulls() -> None:
    texts = [json.dumps({"slot": i, "ab": {"arm": "x"}}) for i in range(9)]
    rows, _ = reshaped(pd.DataFrame({"id": range(10), "properties": [*texts, "{broken"]}))
    assert rows["slot"].tolist()[:9] == list(range(9))
    assert rows["arm"].tolist()[:9] == ["x"] * 9
    assert pd.isna(rows["slot"].iloc[9])


@pytest.mark.parametrize("write", [list, json.dumps])
def test_a_slate_becomes_a_row_for_each_item(write: type[list] | object) -> None:
    items, clicks = [[5, 6, 7], [8, 9]], [[0, 1, 0], [1, 0]]
    written = [[write(entries) for entries in lists] for lists in (items, clicks)]  # type: ignore[operator]
    frame = pd.DataFrame({"user": [1, 2], "items": written[0], "clicks": written[1]})
    rows, _ = reshaped(frame)
    columns = ["user", "item_id", "clicks", "position"]
    expected = [[1, 5, 0, 1], [1, 6, 1, 2], [1, 7, 0, 3], [2, 8, 1, 1], [2, 9, 0, 2]]
    assert rows[columns].to_numpy().tolist() == expected


def test_items_with_their_click_behind_a_dash_become_rows() -> None:
    """As MIND writes them."""
    slates = [f"N{i}-{i % 2} N{i + 1}-0 N-x{i}-1" for i in range(40)]
    rows, _ = reshaped(pd.DataFrame({"user_id": range(40), "impressions": slates}))
    assert rows.columns.tolist() == ["user_id", "item_id", "click", "position"]
    first = rows[rows.user_id == 7].to_numpy().tolist()
    assert first == [[7, "N7", 1, 1], [7, "N8", 0, 2], [7, "N-x7", 1, 3]]


def test_clicked_items_among_the_shown_ones_are_clicks() -> None:
    shown, clicked = [[5, 6, 7], [8, 9]], [[6], []]
    rows, _ = reshaped(pd.DataFrame({"user": [1, 2], "shown": shown, "clicked": clicked}))
    assert rows[["item_id", "click"]].to_numpy().tolist() == [
        [5, 0],
        [6, 1],
        [7, 0],
        [8, 0],
        [9, 0],
    ]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["$1,234.50", "$3.00", "-$2.25"], [1234.5, 3.0, -2.25]),
        (["12.5%", "100%", "0.0%"], [0.125, 1.0, 0.0]),
        (["4", "\\N", "6.5", "7", "8", "9"], [4.0, None, 6.5, 7.0, 8.0, 9.0]),
    ],
)
def test_written_numbers_become_numbers(
    texts: Sequence[str], numbers: Sequence[float | None]
) -> None:
    rows, _ = reshaped(pd.DataFrame({"id": range(len(texts)), "amount": texts}))
    assert [None if pd.isna(x) else x for x in rows["amount"]] == pytest.approx(list(numbers))


@pytest.mark.parametrize("odd", ["about 7", "1,5", "5 apples"])
def test_a_text_that_is_no_number_leaves_the_column_to_a_person(odd: str) -> None:
    texts = ["1", "2", "3", "4", "5", "6", "7", odd]
    assert reshaped(pd.DataFrame({"id": range(8), "amount": texts}))[1] == ""


def test_a_second_row_of_types_gives_the_types(tmp_path: Path) -> None:
    lines = ["id\tarm\tclicks", "UInt64\tLowCardinality(String)\tNullable(UInt32)"]
    file = tmp_path / "a.tsv"
    file.write_text("\n".join([*lines, f"{2**63}\ta\t3", "7\tb\t\\N"]) + "\n")
    rows, _ = reshaped(file)
    assert rows["id"].tolist() == [2**63, 7]
    assert rows["clicks"].iloc[0] == 3
    assert pd.isna(rows["clicks"].iloc[1])
