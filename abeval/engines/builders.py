"""Time and hash, which every SQL dialect writes differently.

SQL that is to be transpiled calls `abeval_epoch_ms(timestamp)`, `abeval_local_time(milliseconds,
zone)`, `abeval_hash60(salt, unit)` and `abeval_md5_hex(text, start, count)` (and those of sha1
and sha256); the last step replaces the calls by the dialect's own SQL.

`logs/canonical.py` and `logs/prepare.py` ask the engine for them; `transpile.py` replaces the
calls, `duckdb.py` defines them as macros.
"""

from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from abeval.assignment.draws import HexHash
from abeval.engines.sql import literal

EPOCH_MS, LOCAL_TIME, HASH60 = "abeval_epoch_ms", "abeval_local_time", "abeval_hash60"
MD5_HEX, SHA1_HEX, SHA256_HEX = "abeval_md5_hex", "abeval_sha1_hex", "abeval_sha256_hex"

_SPARK = {
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
        EPOCH_MS: "unix_millis(timestamp({0}))",
        LOCAL_TIME: "datetime(timestamp_millis({0}), {1})",
        HASH60: "cast(concat('0x', substr(to_hex(md5(concat({0}, ':', {1}))), 1, 15)) as int64)",
    },
    "snowflake": {
        EPOCH_MS: "date_part(epoch_millisecond, {0})",
        LOCAL_TIME: "convert_timezone('UTC', {1}, to_timestamp_ntz({0}, 3))",
        HASH60: "to_number(substr(md5({0} || ':' || {1}), 1, 15), 'XXXXXXXXXXXXXXX')",
    },
    "trino": {
        EPOCH_MS: "cast(floor(to_unixtime(with_timezone({0}, 'UTC')) * 1000) as bigint)",
        LOCAL_TIME: "cast(from_unixtime({0} / 1000e0, {1}) as timestamp)",
        HASH60: "from_base(substr(to_hex(md5(to_utf8({0} || ':' || {1}))), 1, 15), 16)",
    },
    "postgres": {
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
    """Expression builders for engines that transpile: they return the calls to be replaced."""

    def epoch_ms(self, timestamp: str) -> str:
        """SQL: whole milliseconds since 1970 of a UTC timestamp expression, rounded down."""
        return f"{EPOCH_MS}({timestamp})"

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """SQL: the local timestamp of an epoch-milliseconds expression."""
        return f"{LOCAL_TIME}({milliseconds}, {literal(timezone)})"

    def hash60(self, salt: str, unit: str) -> str:
        """SQL: the `md5_60` of a salt and a unit expression."""
        return f"{HASH60}({literal(salt)}, {unit})"

    def hex_number(self, function: HexHash, text: str, start: int, count: int) -> str:
        """SQL: the number of at most 15 hex digits of the hash of a text expression."""
        return hex_call(function, text, start, count)


def duckdb_epoch_ms(timestamp: str) -> str:
    """DuckDB's SQL of whole milliseconds since 1970, rounded down.

    Example:
        >>> import duckdb
        >>> sql = duckdb_epoch_ms("timestamp '1970-01-02 00:00:00' - interval 1 microsecond")
        >>> duckdb.sql(f"select {sql}").fetchall()
        [(86399999,)]
    """
    return _TEMPLATES["duckdb"][EPOCH_MS].format(timestamp)


def duckdb_macros() -> list[str]:
    """Statements that define the functions in DuckDB."""
    arguments = {
        EPOCH_MS: ("t",),
        LOCAL_TIME: ("ms", "zone"),
        HASH60: ("salt", "unit"),
    }
    arguments |= dict.fromkeys((MD5_HEX, SHA1_HEX, SHA256_HEX), ("x", "start", "n"))
    return [
        f"create macro {name}({', '.join(names)}) as {_TEMPLATES['duckdb'][name].format(*names)}"
        for name, names in arguments.items()
    ]


def written_out(tree: exp.Query, dialect: str) -> exp.Query:
    """The query with time and hash in the dialect's SQL; calls stay if there is none.

    Example:
        >>> from sqlglot import parse_one
        >>> written_out(parse_one("select abeval_epoch_ms(ts)"), "spark").sql("spark")
        'SELECT UNIX_MILLIS(CAST(ts AS TIMESTAMP))'
    """
    templates = _TEMPLATES.get(dialect, {})
    query = tree.copy()
    # From the inside out: one may be an argument of another.
    for call in reversed(list(query.find_all(exp.Anonymous))):
        template = templates.get(call.name.lower())
        if template is not None:
            arguments = [part.sql(dialect=dialect) for part in call.expressions]
            call.replace(sqlglot.parse_one(template.format(*arguments), dialect=dialect))
    return query
