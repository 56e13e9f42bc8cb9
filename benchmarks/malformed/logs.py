"""Expressions that are no value, logs of other types and values, files with bytes not meant."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.malformed.experiments import damaged
from benchmarks.malformed.world import FILE, LOG, Case, log_of

EXPRESSIONS = (
    *("", " ", "'", '"', "(", ")", "1 +", "price price", "price;", "price -- x", "/* x", "*", "?"),
    *("$1", ":x", "{{x}}", "select 1", "(select 1)", "exists (select 1)", "sum(price)", "count(*)"),
    *("max(price)", "row_number() over ()", "price over ()", "unnest([1])", "[1, 2]", "{'a': 1}"),
    *(
        "null",
        "cast(null as double)",
        "true",
        "'x'",
        "ts",
        "user_id",
        "variant",
        "no_such",
        "1e308",
    ),
    *("1e308 * 10", "-1e308 * price", "9223372036854775807", "9223372036854775807 + position"),
    *("price / 0", "price // 0", "position % 0", "1 / (position - 1)", "ln(0)", "ln(price - 1)"),
    *("sqrt(-1)", "sqrt(price - 1)", "pow(10, 400)", "cast('x' as int)", "try_cast('x' as int)"),
    *(
        "cast(user_id as int)",
        "cast('nan' as double)",
        "cast('inf' as double)",
        "cast(ts as double)",
    ),
    *("interval 1 day", "date '2024-01-01'", "current_date", "now()", "random()", "uuid()"),
    *("getenv('HOME')", "read_text('/etc/passwd')", "(from '/etc/passwd')", "'a' || user_id"),
    *("repeat('x', 1000000)", "repeat('x', 10) || price", "concat(user_id, price)", "lower(price)"),
    *(
        "case when price > 1 then 1",
        "case when true then 'x' else 1 end",
        "coalesce()",
        "nosuch(1)",
    ),
    *("price between 1 and", "price in ()", "price in (1, 'x')", "price like '%'", "price = 'x'"),
    *("click and price", "not price", "-price", "--price", "price is", "price::int", "price::foo"),
    *("a.price", "t.*", '"price"', '"no such"', "struct_pack(a := 1)", "list_sum([price])", "💥"),
    *("x -> x + 1", "list_transform([1], x -> x)", "columns('.*')", "exclude price", "price\x00"),
    *("(" * 200 + "price" + ")" * 200, "+".join(["price"] * 2000), "x" * 5000, "-" * 3000 + "1"),
    *("not " * 2000 + "true", "(" * 20000, "1 " * 5000),
)


def expressions() -> Iterator[Case]:
    """What is no value, as value, numerator, segment and function."""
    for text in EXPRESSIONS:
        quoted = json.dumps(text).replace("\\u0000", "\\u0000")
        added = {
            "value": f"[[metrics]]\nname = 'own'\nvalue = {quoted}\n",
            "ratio": f"[[metrics]]\nname = 'own'\nnumerator = {quoted}\ndenominator = '1'\n",
            "function": f"[[metrics]]\nname = 'own'\nfunction = {quoted}\n",
            "segment": f"[segments]\nown = {quoted}\n",
        }
        for place, more in added.items():
            yield Case(
                "expression", f"{place} {text[:40]}", files={"e.toml": (FILE + more).encode()}
            )


COLUMNS = (
    "user_id",
    "ts",
    "variant",
    "item_id",
    "request_id",
    "position",
    "click",
    "dwell",
    "score",
)
CELLS = (
    *("null", "cast(null as int)", "''", "'x'", "0", "-1", "1e308", "cast('nan' as double)"),
    *("cast('-inf' as double)", "true", "[1]", "{'a': 1}", "9223372036854775807", "0.5"),
    *(
        "cast(1 as decimal(38, 10))",
        "cast('x' as blob)",
        "timestamp 'infinity'",
        "date '0001-01-01'",
    ),
    *("timestamp '200000-01-01'", "timestamptz '2024-01-01 00:00:00+00'", "time '01:00:00'"),
    *("interval 1 day", "uuid '00000000-0000-0000-0000-000000000000'", "cast(1e30 as hugeint)"),
    *("cast(2 as utinyint)", "repeat('y', 100000)"),
)


SOME_NUMBERS = (
    *("null", "-1", "0", "0.5", "1e30", "1e308", "-1e308", "9223372036854775807"),
    *("cast('nan' as double)", "cast('inf' as double)", "cast('-inf' as double)"),
)
SOME_TIMES = (
    *("null", "timestamp 'infinity'", "timestamp '-infinity'", "timestamp '200000-01-01'"),
    *("timestamp '0044-03-15 (BC)'", "timestamp '0001-01-01'", "timestamp '1970-01-01'"),
    *("timestamp '1582-10-10'", "timestamp '9999-12-31 23:59:59.999'"),
)


def logs() -> Iterator[Case]:
    """Columns of other types and values: in every row, and in one row among the others."""
    for column in COLUMNS:
        for cell in CELLS:
            sql = f"select * replace ({cell} as {column}) from ({LOG})"
            yield Case("log", f"{column} is {cell}", files={"log.parquet": sql.encode()})
    for column in ("ts", "position", "click", "dwell", "score"):
        kind = "ts" if column == "ts" else f"cast({column} as double)"
        for cell in SOME_TIMES if column == "ts" else SOME_NUMBERS:
            some = f"case when impression_id = 7 then {cell} else {kind} end as {column}"
            sql = f"select * replace ({some}) from ({LOG})"
            for period, text in (("with", FILE), ("without", without_period())):
                odd = {"log.parquet": sql.encode(), "e.toml": text.encode()}
                yield Case("log", f"one {column} is {cell}, {period} a period", files=odd)
    for column in COLUMNS:
        sql = f"select * exclude ({column}) from ({LOG})"
        yield Case("log", f"no {column}", files={"log.parquet": sql.encode()})


def without_period() -> str:
    """The file without its period."""
    return FILE.replace("[period]\nstart = 2024-01-01\nend = 2024-01-04\n", "")


def files() -> Iterator[Case]:
    """Logs with bytes that are not meant, in three formats."""
    for suffix, seed in ((".parquet", 2), (".csv", 3), (".json", 4)):
        text = FILE.replace("log.parquet", f"log{suffix}").encode()
        for name, data in damaged(log_of(suffix=suffix), 60, seed):
            whole = {"e.toml": text, f"log{suffix}": data}
            yield Case("file of a log", f"{suffix}: {name}", files=whole)
