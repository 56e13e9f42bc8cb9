"""Time and hash, which every SQL dialect writes differently.

SQL that is to be transpiled calls `abeval_epoch_ms(timestamp)`, `abeval_utc_time(timestamp, zone)`,
`abeval_local_time(milliseconds, zone)`, `abeval_hash60(salt, unit)` and
`abeval_md5_hex(text, start, count)` (and those of sha1 and sha256); the last step replaces the
calls by the dialect's own SQL.

`logs/mapping.py` and `logs/placing.py` ask the engine for them; `transpile.py` replaces the
calls, `duckdb.py` defines them as macros.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Literal

from abeval.engines.sql import literal

if TYPE_CHECKING:
    from sqlglot import exp

HexHash = Literal["md5", "sha1", "sha256"]
"""Hashes that SQL has, as text of hex digits."""

EPOCH_MS, LOCAL_TIME, HASH60 = "abeval_epoch_ms", "abeval_local_time", "abeval_hash60"
UTC_TIME = "abeval_utc_time"
MD5_HEX, SHA1_HEX, SHA256_HEX = "abeval_md5_hex", "abeval_sha1_hex", "abeval_sha256_hex"

CALLS: Mapping[str, tuple[str, ...]] = {
    EPOCH_MS: ("t",),
    UTC_TIME: ("t", "zone"),
    LOCAL_TIME: ("ms", "zone"),
    HASH60: ("salt", "unit"),
    **dict.fromkeys((MD5_HEX, SHA1_HEX, SHA256_HEX), ("x", "start", "n")),
}
"""The calls, with their arguments."""

_SPARK_UTC = "to_utc_timestamp(cast({0} as timestamp), {1})"
_SPARK_LATER = (
    f"when from_utc_timestamp({_SPARK_UTC} + interval {{minutes}} minute, {{1}}) "
    f"= cast({{0}} as timestamp) then {_SPARK_UTC} + interval {{minutes}} minute "
)

_SPARK = {
    # Of a time that a clock shows twice, Spark takes the first, DuckDB the second.
    UTC_TIME: "case "
    + "".join(_SPARK_LATER.replace("{minutes}", minutes) for minutes in ("60", "30"))
    + f"else {_SPARK_UTC} end",
    EPOCH_MS: "unix_millis(cast({0} as timestamp))",
    LOCAL_TIME: "cast(from_utc_timestamp(timestamp_millis({0}), {1}) as timestamp_ntz)",
    HASH60: "cast(conv(substring(md5(cast({0} || ':' || {1} as binary)), 1, 15), 16, 10)"
    " as bigint)",
    MD5_HEX: "cast(conv(substring(md5(cast({0} as binary)), {1}, {2}), 16, 10) as bigint)",
    SHA1_HEX: "cast(conv(substring(sha1(cast({0} as binary)), {1}, {2}), 16, 10) as bigint)",
    SHA256_HEX: "cast(conv(substring(sha2(cast({0} as binary), 256), {1}, {2}), 16, 10) as bigint)",
}

_TEMPLATES: Mapping[str, Mapping[str, str]] = {
    "duckdb": {
        UTC_TIME: "cast(timezone({1}, {0}) as timestamp)",
        # `epoch_ms` rounds, which moves the last half millisecond of a day to the next one. This
        # is the most expensive part of a pass over the log.
        EPOCH_MS: "(case when epoch_us({0}) < 0 then epoch_us({0}) - 999 else epoch_us({0}) end"
        " // 1000)",
        LOCAL_TIME: "timezone({1}, timezone('UTC', make_timestamp({0} * 1000)))",
        HASH60: "cast('0x' || substr(md5({0} || ':' || {1}), 1, 15) as bigint)",
        MD5_HEX: "cast('0x' || substr(md5({0}), {1}, {2}) as bigint)",
        SHA1_HEX: "cast('0x' || substr(sha1({0}), {1}, {2}) as bigint)",
        SHA256_HEX: "cast('0x' || substr(sha256({0}), {1}, {2}) as bigint)",
    },
    "spark": _SPARK,
    "databricks": _SPARK,
    "bigquery": {
        UTC_TIME: "timestamp({0}, {1})",
        EPOCH_MS: "unix_millis(timestamp({0}))",
        LOCAL_TIME: "datetime(timestamp_millis({0}), {1})",
        HASH60: "cast(concat('0x', substr(to_hex(md5(concat({0}, ':', {1}))), 1, 15)) as int64)",
    },
    "snowflake": {
        UTC_TIME: "convert_timezone({1}, 'UTC', {0})",
        EPOCH_MS: "date_part(epoch_millisecond, {0})",
        LOCAL_TIME: "convert_timezone('UTC', {1}, to_timestamp_ntz({0}, 3))",
        HASH60: "to_number(substr(md5({0} || ':' || {1}), 1, 15), 'XXXXXXXXXXXXXXX')",
    },
    "trino": {
        UTC_TIME: "cast(at_timezone(with_timezone({0}, {1}), 'UTC') as timestamp)",
        EPOCH_MS: "cast(floor(to_unixtime(with_timezone({0}, 'UTC')) * 1000) as bigint)",
        LOCAL_TIME: "cast(from_unixtime({0} / 1000e0, {1}) as timestamp)",
        HASH60: "from_base(substr(to_hex(md5(to_utf8({0} || ':' || {1}))), 1, 15), 16)",
    },
    "postgres": {
        UTC_TIME: "(({0} at time zone {1}) at time zone 'UTC')",
        EPOCH_MS: "cast(floor(extract(epoch from {0}) * 1000) as bigint)",
        LOCAL_TIME: "to_timestamp({0} / 1000e0) at time zone {1}",
        HASH60: "cast(cast('x0' || substr(md5({0} || ':' || {1}), 1, 15) as bit(64)) as bigint)",
    },
}


def hex_call(function: HexHash, text: str, start: int, count: int) -> str:
    """The call that stands for hex digits of a hash, as a number.

    Example:
        >>> hex_call("md5", "'a'", 1, 15)
        "abeval_md5_hex('a', 1, 15)"
    """
    return f"abeval_{function}_hex({text}, {start}, {count})"


class CallBuilders:
    """Expression builders: they write the calls, which DuckDB knows and others have replaced."""

    def epoch_ms(self, timestamp: str) -> str:
        """SQL: whole milliseconds since 1970 of a UTC timestamp expression, rounded down."""
        return f"{EPOCH_MS}({timestamp})"

    def utc_time(self, timestamp: str, timezone: str) -> str:
        """SQL: the UTC timestamp of a local timestamp expression of a time zone."""
        return f"{UTC_TIME}({timestamp}, {literal(timezone)})"

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """SQL: the local timestamp of an epoch-milliseconds expression."""
        return f"{LOCAL_TIME}({milliseconds}, {literal(timezone)})"

    def hash60(self, salt: str, unit: str) -> str:
        """SQL: the `md5_60` of a salt and a unit expression."""
        return f"{HASH60}({literal(salt)}, {unit})"


def duckdb_macros() -> list[str]:
    """Write the statements that define the calls in DuckDB.

    Example:
        >>> import duckdb
        >>> connection = duckdb.connect()
        >>> for statement in duckdb_macros():
        ...     _ = connection.execute(statement)
        >>> before = "timestamp '1970-01-02 00:00:00' - interval 1 microsecond"
        >>> connection.execute(f"select {EPOCH_MS}({before})").fetchall()
        [(86399999,)]
    """
    return [
        f"create macro {name}({', '.join(names)}) as {_TEMPLATES['duckdb'][name].format(*names)}"
        for name, names in CALLS.items()
    ]


def written_out(tree: exp.Query, dialect: str) -> exp.Query:
    """The query with time and hash in the dialect's SQL; calls stay if there is none.

    Example:
        >>> from sqlglot import parse_one
        >>> written_out(parse_one("select abeval_epoch_ms(ts)"), "spark").sql("spark")
        'SELECT UNIX_MILLIS(CAST(ts AS TIMESTAMP))'
    """
    # Imported here, because DuckDB needs none of it, and it takes longer than a small query.
    from sqlglot import exp

    templates = _TEMPLATES.get(dialect, {})
    query = tree.copy()
    # From the inside out: one may be an argument of another.
    for call in reversed(list(query.find_all(exp.Anonymous))):
        template = templates.get(call.name.lower())
        if template is not None:
            parts = {f"arg_{place}": part for place, part in enumerate(call.expressions)}
            call.replace(filled(template.format(*parts), dialect, parts))
    return query


def filled(template: str, dialect: str, parts: Mapping[str, exp.Expr]) -> exp.Expr:
    """Replace columns of a template of SQL by expressions.

    Example:
        >>> from sqlglot import parse_one
        >>> filled("x + x", "spark", {"x": parse_one("f(1)")}).sql("spark")
        'F(1) + F(1)'
    """
    from sqlglot import exp

    held = exp.Paren(this=_template(template, dialect).copy())
    for column in list(held.find_all(exp.Column)):
        if column.name in parts:
            column.replace(parts[column.name].copy())
    filling: exp.Expr = held.this
    return filling


@cache
def _template(text: str, dialect: str) -> exp.Expr:
    import sqlglot

    return sqlglot.parse_one(text, dialect=dialect)
