"""`abeval tools sql`: queries as they stand and translated."""

from __future__ import annotations

import sys

import pytest
import sqlglot
from sqlglot import exp

from abeval.cli.main import main
from abeval.engines.sql import query, query_names
from abeval.engines.statement import parse_query, transpile, write_plain_statement
from abeval.errors import QueryError

NEEDS_EXPERIMENT = [name for name in query_names() if "columns(" in query(name)]


def sql(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["abeval", "tools", "sql", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.whole
def test_every_query_is_written_for_spark() -> None:
    for name in query_names():
        if name in NEEDS_EXPERIMENT:
            with pytest.raises(QueryError, match="depend on the experiment"):
                write_plain_statement(name, "spark")
        else:
            check_statement(write_plain_statement(name, "spark"))


def check_statement(text: str) -> None:
    """One query that Spark can read, with nothing in it that only DuckDB says."""
    assert "in the spark dialect; the tests run it" in text.splitlines()[0]
    tree, *more = [found for found in sqlglot.parse(text, dialect="spark") if found is not None]
    assert not more
    assert isinstance(tree, exp.Query)
    assert tree.find(exp.Columns) is None
    assert [s.sql() for s in tree.find_all(exp.Select) if s.args.get("windows")] == []
    assert "group by all" not in text.lower()


def test_a_named_window_is_that_of_its_own_select() -> None:
    inner = "(select g, sum(q) over w as a from u window w as (order by z)) as t"
    outer = f"select sum(a) over (w order by a) as x, sum(a) over W as y from {inner}"
    text = f"{outer} window w as (partition by g)"
    said = transpile(parse_query(text), "postgres", lambda _: [])
    assert said == (
        "SELECT SUM(a) OVER (PARTITION BY g ORDER BY a) AS x, SUM(a) OVER (PARTITION BY g) AS y "
        "FROM (SELECT g, SUM(q) OVER (ORDER BY z) AS a FROM u) AS t"
    )


def test_a_query_whose_columns_depend_on_the_experiment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = sql(monkeypatch, capsys, NEEDS_EXPERIMENT[0], "--dialect", "spark")
    assert code == 2
    assert "--sums FILE" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["4_metrics/gauc", "--dialect", "klingon"],
        ["4_metrics/gauc", "--dialect", "snowflake"],
        ["4_metrics/gaucc", "--dialect", "spark"],
    ],
)
def test_unknown_names_are_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = sql(monkeypatch, capsys, *arguments)
    assert code == 2
    assert "is called" in err
