"""Plain SQL of rows: read as the parser of all others reads it."""

import duckdb
import pytest
from sqlglot.dialects.duckdb import DuckDB

from abeval.metrics import expressions, row_text

OWN = [
    "click",
    "1",
    "coalesce(dwell_ms, 0)",
    "case when click = 1 then coalesce(dwell_ms, 0) else 0 end",
    "case when click = 1 and dwell_ms is not null then 1 else 0 end",
    "case when click = 1 and dwell_ms >= 30000 then 1 else 0 end",
    "case when score is null then 1 else 0 end",
    "case when click = 1 then dwell_ms end",
]
"""Terms of abeval's own metrics."""


@pytest.mark.parametrize("text", OWN)
def test_plain_texts_say_what_a_parser_reads(text: str) -> None:
    assert row_text.is_plain(text)
    assert expressions.find_expression_problem(text) is None
    tree = expressions.parse_expression(text)
    assert {*row_text.list_columns(text)} == {*expressions.list_columns(tree)}
    plain = row_text.replace_plain_columns(text, lambda column: f'"raw_{column}"')
    whole = expressions.replace_columns(text, lambda column: f"raw_{column}")
    assert expressions.parse_tree(plain).sql("duckdb") == expressions.parse_tree(whole).sql(
        "duckdb"
    )


@pytest.mark.parametrize("text", ["sum", "a b", "a + 1", "case when a then 1 end", "Click", '"a"'])
def test_other_texts_are_parsed(text: str) -> None:
    assert row_text.is_plain(text) == (text == "sum")


def test_no_word_of_sql_is_taken_for_a_column() -> None:
    keywords = duckdb.sql("select keyword_name from duckdb_keywords()").fetchall()
    words = {*DuckDB.Tokenizer.KEYWORDS, *DuckDB.Parser.FUNCTIONS, *(word for (word,) in keywords)}
    plain = [word.lower() for word in words if row_text.is_plain(word.lower())]
    assert len(plain) > 500
    columns = [text for text in plain if expressions.find_expression_problem(text) is None]
    assert columns == plain
    assert all(expressions.list_columns(expressions.parse_tree(text)) == [text] for text in plain)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *((text, True) for text in OWN if "score" not in text),
        ('coalesce(CASE WHEN "click" = 1 THEN "score_1" ELSE 0 END, 0)', True),
        ('coalesce("raw_click", 0)', False),
        ('cast("click" as int)', False),
        ("click * 2", False),
        ("'click'", False),
    ],
)
def test_what_chooses_among_numbers_never_fails(text: str, says: bool) -> None:
    assert row_text.never_fails(text) == says
