"""The user's SQL: what a row-level expression may hold, and that nothing else gets through."""

from __future__ import annotations

import contextlib
import re

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.errors import ExperimentError
from abeval.metrics.expressions import (
    find_expression_problem,
    list_columns,
    parse_expression,
)
from tests.logs.small import analyze, aside, small_log

ROW = """
select
  2.5 as price, 1 as click, 30.0 as dwell, 'phone' as device, timestamp '2024-02-03 04:05:06' as ts,
  true as seen, cast(null as double) as score
"""


@pytest.fixture(scope="module")
def row() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"create table log as {ROW}").fetchall()
    return con


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("price * Click", 2.5),
        ("PRICE - -1", 3.5),
        ('"price" % 2', 0.5),
        ("cast(dwell as int) // 7", 4),
        ("case when click = 1 and dwell >= 30 then 1 else 0 end", 1),
        ("case device when 'phone' then 1 end", 1),
        ("if(seen, 1, 0)", 1),
        ("coalesce(score, 0) + nullif(click, 1)", None),
        ("greatest(price, 1, least(9, 4))", 4),
        ("round(price / 3, 2) + floor(price) + ceil(price) + abs(-1) + sign(-2)", 5.83),
        ("sqrt(4) + pow(2, 3) + exp(0) + ln(1)", 11),
        ("cast('3' as int) + try_cast('x' as int)", None),
        ("price between 2 and 3 and device in ('phone', 'tv') and not seen is null", True),
        ("device like 'ph%' or device ilike 'TV'", True),
        ("score is not distinct from null", True),
        ("upper(left(device, 2)) || lower('X') || trim(' a ')", "PHxa"),
        ("length(replace(device, 'ph', '')) + length(substring(device, 2, 2))", 5),
        ("starts_with(device, 'p') and contains(device, 'on')", True),
        ("split_part('a-b', '-', 2)", "b"),
        ("extract(hour from ts) + month(ts)", 6),
        ("date_trunc('day', ts) = timestamp '2024-02-03'", True),
        ("'it''s; -- no comment'", "it's; -- no comment"),
        ("1e3", 1000),
    ],
)
def test_what_a_row_level_expression_may_hold(
    row: duckdb.DuckDBPyConnection, text: str, value: object
) -> None:
    tree = parse_expression(text)
    sql = tree.sql(dialect="duckdb", identify=True)
    ((found,),) = row.execute(f"select {sql} from log").fetchall()
    ((direct,),) = row.execute(f"select {text} from log").fetchall()
    assert found == direct  # what is run is what was written
    assert found == pytest.approx(value) if isinstance(value, float) else found == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not one expression"),
        ("  \n", "is not one expression"),
        ("price +", "is not one SQL expression: look at character 7, `+`"),
        ("price as p", "is not one SQL expression: look at character 8, `as`"),
        ("price, click", "is not one SQL expression: look at character 6, `,`"),
        ("price; drop table log", "is not one SQL expression"),
        ("price price", "is not one SQL expression"),
        ("'open", "is not one SQL expression"),
        ("sum(price)", "holds an aggregate"),
        ("1 + count(*)", "holds an aggregate"),
        ("avg(price) over ()", "holds an aggregate"),
        ("row_number() over (order by ts)", "holds a window"),
        ("*", "holds a star"),
        ("columns(*)", "holds a star"),
        ("?", "holds a parameter"),
        ("$1", "holds a parameter"),
        (":x", "holds a parameter"),
        ("random()", "holds a random number"),
        ("(select 1)", "holds a query"),
        ("price in (select 1)", "holds a query"),
        ("exists(select 1)", "holds a query"),
    ],
)
def test_each_mistake_has_its_own_words(text: str, why: str) -> None:
    problem = find_expression_problem(text)
    assert problem is not None
    assert problem.startswith(f"{text!r} {why}")
    with pytest.raises(ExperimentError, match=re.escape(why)):
        parse_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        # Files, settings and secrets.
        "read_text('/etc/passwd')",
        "read_csv('/etc/passwd')",
        "read_blob('/etc/passwd')",
        "\"read_text\"('/etc/passwd')",
        "main.read_text('/etc/passwd')",
        "system.main.read_text('/etc/passwd')",
        "length(read_text('/etc/passwd'))",
        "case when read_text('/etc/passwd') is null then 1 end",
        "cast(getenv('HOME') as int)",
        "getvariable('x')",
        "current_setting('home_directory')",
        "pragma_version()",
        "nextval('s')",
        "query('select 1')",
        "(from read_text('/etc/passwd'))",
        "(table log)",
        "(values (1))",
        "[x for x in (select 1)]",
        # What changes from run to run.
        "now()",
        "current_date",
        "current_timestamp",
        "uuid()",
        # What is no scalar, or makes several rows of one.
        "unnest([1, 2])",
        "columns('p')",
        "[price]",
        "{'a': price}",
        "(price, click)",
        "struct_pack(a := price)",
        "x -> x",
        "price[1]",
        "map([1], [2])",
        "try(price)",
        "error('x')",
        # Types that may run code of their own, or depend on a setting.
        "price::json",
        "price::int[]",
        "price::no_such_type",
        "ts::timestamptz",
        "ts at time zone 'Europe/Berlin'",
        "e'\\x27'",
        "$$x$$",
        "#1",
        "price collate nocase",
    ],
)
def test_nothing_else_gets_through(text: str) -> None:
    problem = find_expression_problem(text)
    assert problem is not None
    assert problem.startswith(repr(text))


def test_what_is_refused_comes_with_what_may_be_used() -> None:
    problem = find_expression_problem("unnest([1, 2])")
    assert problem is not None
    assert "holds `UNNEST([1, 2])`; an expression of a row may use its columns" in problem
    assert "case, cast, coalesce" in problem


@pytest.mark.parametrize("text", ["price -- c", "/* a */ price", "price /* '; drop table log */"])
def test_comments_are_left_behind(text: str) -> None:
    assert parse_expression(text).sql(dialect="duckdb", identify=True) == '"price"'


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "1" + ")" * 5000, "not " * 3000 + "a", "1" + "+1" * 3000, "1" * 20_000]
)
def test_an_endless_expression_is_refused_in_few_words(text: str) -> None:
    problem = find_expression_problem(text)
    assert problem is not None
    assert "nested too deeply" in problem or "more than 10,000" in problem
    assert len(problem) < 400


def test_columns_are_named_once_and_as_sql_names_them() -> None:
    tree = parse_expression('Click * "Price" + click')
    assert list_columns(tree) == ["click", "price"]


def accepted_or_refused(text: str) -> bool:
    """Whether an expression is accepted; anything but a refusal by name is a failure."""
    try:
        sql = parse_expression(text).sql(dialect="duckdb", identify=True)
    except ExperimentError:
        return False
    # What comes out goes in again: no accepted text turns into something else on its way.
    assert find_expression_problem(sql) is None
    return True


def test_an_operator_without_its_operand_is_refused() -> None:
    assert find_expression_problem("@") is not None


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    assert accepted_or_refused(text) == (find_expression_problem(text) is None)


PIECES = st.sampled_from(
    re.split(
        " +",
        "price click 'x' 1 \"a\" ( ) , ; + * -> :: . -- /* */ ' \" select from read_text "
        "read_text( sum( case when then end over in int json unnest( $1 ? [ ] { } : e' $$ not null "
        "interval extract( hour table pragma \x00 é",
    )
)


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=12))
def test_any_heap_of_sql_is_accepted_or_refused_and_never_calls_or_reads(
    pieces: list[str],
) -> None:
    text = " ".join(pieces)
    if accepted_or_refused(text):
        sql = parse_expression(text).sql(dialect="duckdb", identify=True)
        outside = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "", sql).lower()
        for word in ("read_text", "select", "from ", "table", "pragma", "unnest", ";", "--"):
            assert word not in outside


@settings(max_examples=150, deadline=None)
@given(content=st.text(alphabet="'\"\\;-/*$e x", max_size=15))
def test_quotes_in_a_literal_stay_in_it(row: duckdb.DuckDBPyConnection, content: str) -> None:
    text = "'" + content.replace("'", "''") + "'"
    with contextlib.suppress(ExperimentError):
        sql = parse_expression(text).sql(dialect="duckdb", identify=True)
        assert row.execute(f"select {sql}").fetchall() == [(content,)]


def test_what_a_row_set_aside_holds_stops_no_run() -> None:
    log = small_log().astype({"user_id": "Int64"})
    log["price"] = log["click"].astype("string")
    log.loc[7, ["user_id", "price"]] = [None, "n/a"]
    found = analyze(log, metrics=[{"name": "spend", "value": "cast(price as integer)"}, "ctr"])
    assert aside(found) == {"used": 239, "null_unit": 1}
    kept = log.drop(index=7).groupby("variant")
    spent = tuple(kept["click"].sum() / kept["user_id"].nunique())
    assert (found["spend"].control, found["spend"].treatment) == pytest.approx(spent)


def test_a_dotted_name_is_that_of_a_field() -> None:
    assert parse_expression("stats.Clicks + a.b.c").sql("duckdb") == '"stats.clicks" + "a.b.c"'
    assert [*list_columns(parse_expression("stats.clicks / x"))] == ["stats.clicks", "x"]
