"""Views are written into what reads them, and created where they are read again."""

import pytest

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.views import Views
from abeval.errors import QueryError


def test_a_view_is_a_cte_of_what_reads_it_first_and_is_created_after_that() -> None:
    views = Views()
    views.add("ones", "select 1 as n")
    views.add("twos", "select n + 1 as n from ones")
    created, sql = views.inline("-- two\nwith x as (select * from twos) select n from x")
    assert not created
    assert " ".join(sql.split()) == (
        "-- two with ones as not materialized ( select 1 as n ), twos as not materialized ( "
        "select n + 1 as n from ones ), x as (select * from twos) select n from x"
    )
    assert views.inline("select n from ones") == (
        ['create or replace view "ones" as select 1 as n'],
        "select n from ones",
    )
    # What is created is no longer written into anything.
    assert views.inline("select n from ones") == ((), "select n from ones")


def test_a_view_of_a_new_name_is_read_by_those_that_read_the_old_one() -> None:
    engine = DuckDBEngine()
    for number in (1, 2, 3):
        engine.view("base", f"select {number} as n")
        if number == 1:
            engine.view("above", "select 10 * n as n from base")
        assert engine.rows("select n from above") == [(10 * number,)]
        assert engine.columns("above") == {"n": "INTEGER"}
        # What was created anew reads what is not.
        engine.view("middle", "select 1 as n")
        engine.view("again", f"select n + {number} as n from middle")
        for _ in range(2):
            assert engine.rows("select n from again") == [(1 + number,)]
    engine.close()


@pytest.mark.parametrize("kinds", [("view", "table"), ("table", "view")])
def test_a_relation_may_become_one_of_the_other_kind(kinds: tuple[str, str]) -> None:
    engine = DuckDBEngine()
    for number, kind in enumerate(kinds):
        getattr(engine, kind)("it", f"select {number} as n")
        assert engine.rows("select n from it join (select 1) as x on true") == [(number,)]
        assert engine.count("it") == 1
    engine.close()


def test_what_stands_before_a_mistake_has_run() -> None:
    engine = DuckDBEngine()
    engine.view("plain", "select 1 as n")
    engine.view("Not Plain", "select n from plain")
    engine.view("Also not", "select select")
    with pytest.raises(QueryError, match=r"could not run a query"):
        engine.rows("select 2")
    assert engine.rows('select n from "Not Plain"') == [(1,)]
    engine.close()


def test_a_name_that_a_query_gives_itself_is_not_the_view() -> None:
    engine = DuckDBEngine()
    engine.view("items", "select 1 as n")
    engine.view("others", "select n from items")
    rows = engine.rows("with items as (select 7 as n) select o.n, i.n from others o, items i")
    assert rows == [(1, 7)]
    engine.close()
