"""`queries/` keeps to SQL that means the same on every engine, and what does not is refused."""

from __future__ import annotations

from functools import cache

import pytest
from sqlglot import exp

from abeval.engines.sql import query, query_names
from abeval.engines.statement import expand_columns, parse_query, transpile
from abeval.errors import QueryError

COLUMNS = [
    *("unit_id", "variant", "sub_bucket", "is_new", "s_kind", "c_1", "t_1", "p_1", "v_map"),
    *("u_1", "sum_1", "max_1", "distinct_1", "min_1", "first_1"),
    "f_0",
]
"""Something for every `columns('regex')` of the queries."""

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def spark(sql: str, trusted: bool = False) -> str:
    return transpile(parse_query(sql), "spark", lambda _: COLUMNS, trusted=trusted)


@cache
def translated(name: str) -> str:
    return spark(query(name), trusted=True)


@cache
def tree(name: str) -> exp.Query:
    return expand_columns(parse_query(query(name)), lambda _: COLUMNS)


def fractions(node: exp.Expr) -> list[exp.Expr]:
    """What makes a number that may not be whole, outside of what rounds it."""
    if isinstance(node, (exp.Round, exp.Floor, exp.Ceil, exp.Count)):
        return []
    own = isinstance(node, (exp.Div, exp.Ln, exp.Sqrt, exp.Pow)) or (
        isinstance(node, exp.Literal) and not node.is_string and not node.this.isdigit()
    )
    return [node] * own + [f for child in node.iter_expressions() for f in fractions(child)]


class TestEveryQuery:
    def test_uses_only_what_is_known_to_mean_the_same(self) -> None:
        for name in query_names():
            assert "columns(" not in translated(name).lower(), name

    def test_casts_to_whole_numbers_only_what_is_whole(self) -> None:
        for name in query_names():
            casts = [c for c in tree(name).find_all(exp.Cast) if c.to.this.name in INTEGERS]
            assert [c.sql("duckdb") for c in casts if fractions(c.this)] == [], name

    def test_never_divides_by_what_may_be_zero(self) -> None:
        for name in query_names():
            divisors = [d.expression.unnest() for d in tree(name).find_all(exp.Div)]
            safe = (exp.Nullif, exp.Literal)
            bare = [d.sql("duckdb") for d in divisors if not isinstance(d, safe)]
            assert [sql for sql in bare if sql not in _ABOVE_ZERO] == [], name

    def test_has_no_decimal_whose_digits_engines_count_otherwise(self) -> None:
        for name in query_names():
            literals = [x.this for x in tree(name).find_all(exp.Literal) if not x.is_string]
            assert [text for text in literals if "." in text and "e" not in text] == [], name

    @pytest.mark.whole
    def test_leaves_the_place_of_nulls_to_no_engine(self) -> None:
        # The names of the columns of totals follow from an experiment; warehouses run them.
        for name in (name for name in query_names() if not name.endswith("totals")):
            for ordered in parse_query(translated(name)).find_all(exp.Ordered):
                assert ordered.args.get("nulls_first") is not None, name


_ABOVE_ZERO = (
    "LOG(2, 1 + position)",
    "LOG(2, 1 + hit)",
    "1e12 * COUNT(*)",
    "CAST(COALESCE(p.interactions, 1) AS DOUBLE)",
    "CAST(COALESCE(p.users, 1) AS DOUBLE)",
    "e.session_gap_ms",
)


@pytest.mark.parametrize(
    "sql",
    [
        "list(x order by y)",
        "percentile_cont(0.5) within group (order by x)",
        "quantile_cont(x, 0.5)",
        "approx_quantile(x, 0.5)",
        "median(x)",
        "kurtosis(x)",
        "hash(x)",
        "date_diff('month', a, b)",
        "dayofweek(t)",
        "extract(epoch from t)",
        "epoch(t)",
        "time_bucket(interval '1 day', t)",
        "arg_max(x, y)",
        "string_agg(x, ',')",
        "first(x)",
        "random()",
        "now()",
        "round(x, 2)",
        "log(3, x)",
        "cast(x as decimal(10, 2))",
        "cast(x as float)",
        "cast(x as utinyint)",
        "left(s, 1)",
        "split_part(s, ',', 1)",
        "s like p",
        "regexp_matches(s, 'a')",
        "no_such_function(x)",
    ],
)
def test_what_spark_would_compute_otherwise_is_refused(sql: str) -> None:
    with pytest.raises(QueryError) as refused:
        spark(f"select {sql} from t")
    assert refused.value.hint is not None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select sum(columns('^c_')) from t", "SELECT SUM(c_1) AS c_1 FROM t"),
        (
            "select sum(columns('^c_(.*)$')) as 't_\\1' from t",
            "SELECT SUM(c_1) AS t_1 FROM t",
        ),
        ("select min(columns('^v_')) as \"\\0\" from t", "SELECT MIN(v_map) AS v_map FROM t"),
        (
            "with a as (select t.*, 1 as c_2 from t) select columns('^c_') from a",
            "WITH a AS (SELECT t.*, 1 AS c_2 FROM t) SELECT c_1 AS c_1, c_2 AS c_2 FROM a",
        ),
        ("select x from t order by x", "SELECT x FROM t ORDER BY x NULLS LAST"),
        ("select 'a\\b' as x", "SELECT 'a\\\\b' AS x"),
    ],
)
def test_columns_and_orders_are_written_out(sql: str, said: str) -> None:
    assert spark(sql) == said


def test_text_is_made_of_a_value_once() -> None:
    parts = [f"cast(c{i} as varchar)" for i in range(10)]
    one, many = (len(spark(f"select {' || '.join(parts[:n])} from t")) for n in (2, 10))
    assert many < 5 * one + 200
    assert len(spark("select cast(lower(trim(cast(c as varchar))) as varchar) from t")) < 2 * one


def test_columns_that_match_nothing_are_an_error() -> None:
    with pytest.raises(QueryError, match="matches none of"):
        spark("select sum(columns('^z_')) from t")
