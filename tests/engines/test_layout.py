"""What is printed of a statement: no column that nobody reads, in lines that can be read."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from abeval.engines.layout import WIDTH, lay_out, prune, simplify


def pruned(sql: str, *needed: str) -> str:
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    assert isinstance(tree, exp.Query)
    prune(tree, "it", {"it": {*needed}}, ["items"])
    return tree.sql("duckdb", normalize_functions="lower").lower()


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("select a, b from t", "select a from t"),
        ("select b from t", "select b from t"),
        (
            "with s as (select *, x as a, y as b from t) select a, b from s",
            "with s as (select *, x as a from t) select a from s",
        ),
        # Rows that are compared whole need all their columns.
        (
            "with s as (select x as a, y as b from t) select distinct * from s",
            "with s as (select x as a, y as b from t) select distinct * from s",
        ),
        (
            "select a, b from t union all select c, d from u",
            "select a from t union all select c from u",
        ),
        (
            "with k as (select x as y, z from t) select a from r anti join k on r.q = k.y",
            "with k as (select x as y from t) select a from r anti join k on r.q = k.y",
        ),
        ("select r.a from r left join items i on r.i = i.i", "select r.a from r"),
        (
            "select r.b as a from r left join items i on r.i = i.i where i.c = 1",
            "select r.b as a from r left join items as i on r.i = i.i where i.c = 1",
        ),
        ("select a, b from t order by b", "select a, b from t order by b"),
    ],
)
def test_what_nobody_reads_goes(sql: str, left: str) -> None:
    assert pruned(sql, "a") == left


def test_lines_are_short_and_mean_the_same() -> None:
    items = ", ".join(
        f"case when x = {n} then 'A  {n}, or (B\n  ( ' else x || '{n}' end as c{n}"
        for n in range(9)
    )
    sql = (
        f"WITH t AS (SELECT CAST(7 AS VARCHAR) AS x), u AS (SELECT {items} FROM t) SELECT * FROM u"
    )
    text = lay_out(sqlglot.parse_one(sql, dialect="duckdb").sql("duckdb", pretty=True), "duckdb")
    assert max(map(len, text.splitlines())) <= WIDTH
    with duckdb.connect() as connection:
        assert connection.execute(text).fetchall() == connection.execute(sql).fetchall()


def test_names_that_are_words_of_sql_keep_their_quotes() -> None:
    tree = sqlglot.parse_one('select "time", "order", "Big", "left" from t', dialect="duckdb")
    assert isinstance(tree, exp.Query)
    assert simplify(tree).sql("duckdb") == 'SELECT time, "order", "Big", "left" FROM t'
