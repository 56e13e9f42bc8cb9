"""Time and hash, which every SQL dialect writes differently; local times; rules of assignment.

DuckDB has macros for calls such as `abeval_epoch_ms(timestamp)`; `written_out` replaces them for
other dialects. Looking up offsets of zones is ten times as fast as DuckDB's conversion of each row.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, get_args
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import SLOTS, SUB_BUCKETS, draws
from abeval.assignment.draws import Draw, HexHash, Rule
from abeval.engines.sql import Engine, literal

if TYPE_CHECKING:
    from sqlglot import exp

EPOCH_MS, LOCAL_TIME, HASH60 = "abeval_epoch_ms", "abeval_local_time", "abeval_hash60"
UTC_TIME = "abeval_utc_time"
MD5_HEX, SHA1_HEX, SHA256_HEX = _HEX = [f"abeval_{name}_hex" for name in get_args(HexHash)]

CALLS: Mapping[str, tuple[str, ...]] = {
    EPOCH_MS: ("t",),
    UTC_TIME: ("t", "zone"),
    LOCAL_TIME: ("ms", "zone"),
    HASH60: ("salt", "unit"),
    **dict.fromkeys(_HEX, ("x", "start", "n")),
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
    "clickhouse": {
        EPOCH_MS: "toUnixTimestamp64Milli(toDateTime64({0}, 6, 'UTC'))",
        # The local time of the zone, as if it were one of UTC.
        LOCAL_TIME: "fromUnixTimestamp64Milli({0} + 1000 * toInt64(timeZoneOffset("
        "fromUnixTimestamp64Milli({0}, {1}))), 'UTC')",
        HASH60: "toInt64(reinterpretAsUInt64(reverse(unhex(concat('0', "
        "substr(hex(MD5(concat({0}, ':', {1}))), 1, 15))))))",
    },
}


def duckdb_macros() -> list[str]:
    """Write the statements that define the calls in DuckDB."""
    return [
        f"create macro {name}({', '.join(names)}) as {_TEMPLATES['duckdb'][name].format(*names)}"
        for name, names in CALLS.items()
    ]


def written_out(tree: exp.Query, dialect: str) -> exp.Query:
    """Write time and hash of a query in the dialect's SQL; calls stay if there is none.

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
    """Replace columns of a template of SQL by expressions."""
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


SINCE, UNTIL = datetime(2010, 1, 1, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC)
"""Between these, offsets are looked up; before and after, the engine converts."""

_STEP = 7 * 86_400
"""Seconds; shorter than the time between any two changes of an offset."""


class Offset(NamedTuple):
    """What a zone adds to UTC from some moment; both in milliseconds."""

    since_ms: int
    add_ms: int


@cache
def offsets(timezone: str) -> tuple[Offset, ...]:
    """List every offset of a zone between `SINCE` and `UNTIL`, in order.

    Example:
        >>> [offset.add_ms for offset in offsets("Asia/Kolkata")]
        [19800000]
    """
    zone, (first, last) = ZoneInfo(timezone), (int(end.timestamp()) for end in (SINCE, UNTIL))
    changes = [Offset(first * 1000, _offset_ms(first, zone))]
    for start in range(first, last, _STEP):
        later = _offset_ms(start + _STEP, zone)
        if later != changes[-1].add_ms:
            changes.append(Offset(_first_second(later, start, zone) * 1000, later))
    return tuple(changes)


def local_ms(milliseconds: NDArray[np.int64], timezone: str) -> NDArray[np.int64]:
    """Move epoch milliseconds to local time, counted from 1970 as a clock on the wall shows it.

    Example:
        >>> (local_ms(np.array([0, 10**12]), "Asia/Kolkata") - [0, 10**12]).tolist()
        [19800000, 19800000]
    """
    since, add = np.array(offsets(timezone)).T
    known = np.maximum(np.searchsorted(since, milliseconds, "right") - 1, 0)
    local: NDArray[np.int64] = milliseconds + add[known]
    until, zone = int(UNTIL.timestamp()) * 1000, ZoneInfo(timezone)
    for place in np.flatnonzero((milliseconds < since[0]) | (milliseconds >= until)):
        ms = int(milliseconds[place])
        local[place] = ms + _offset_ms(ms // 1000, zone)
    return local


def _first_second(offset_ms: int, start: int, zone: ZoneInfo) -> int:
    """Find the second from which on an offset applies, in the step that begins at a start."""
    seconds = range(start, start + _STEP)
    return start + bisect_left(seconds, True, key=lambda one: _offset_ms(one, zone) == offset_ms)


def _offset_ms(second: int, zone: ZoneInfo) -> int:
    """Find the offset of a zone, in milliseconds, in a second since 1970."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return int((moment.astimezone(zone).utcoffset() or timedelta()) / timedelta(milliseconds=1))


def added(milliseconds: str, known: Sequence[Offset]) -> str:
    """Write the offset to add to a UTC expression in milliseconds, found by binary search.

    Example:
        >>> added("ms", [Offset(0, 5), Offset(10, 7), Offset(20, 5)])
        'case when ms < 10 then 5 else case when ms < 20 then 7 else 5 end end'
    """
    if len(known) == 1:
        return str(known[0].add_ms)
    half = len(known) // 2
    first, second = added(milliseconds, known[:half]), added(milliseconds, known[half:])
    return f"case when {milliseconds} < {known[half].since_ms} then {first} else {second} end"


def rule_sql(rule: Rule, unit: str) -> str | None:
    """Write SQL of the variant of a unit, None where a hash of the rule has no form in plain SQL.

    Example:
        >>> from abeval.assignment.draws import Stage, shares
        >>> draw = Draw("md5_32", "salt-", modulus=10)
        >>> sql = rule_sql(Rule((Stage(draw, shares({"a": 1, "b": 1}, 10)),)), "id")
        >>> sql.partition(" and ")[0]
        "case when (abeval_md5_hex('salt-' || id, 1, 8) % 10) >= 0"
    """
    numbers = [_number(stage.draw, unit) for stage in rule.stages]
    label: str | None = "null"
    for stage, number in zip(reversed(rule.stages), reversed(numbers), strict=True):
        if number is None:
            return None
        last = stage is rule.stages[-1]
        cases = " ".join(
            f"when {number} >= {_constant(r.start)} and {number} < {_constant(r.stop)} "
            f"then {literal(r.label) if last else f'({label})'}"
            for r in stage.ranges
            if r.start < r.stop
        )
        label = f"case {cases} end" if cases else "null"
    return label


def _number(draw: Draw, unit: str) -> str | None:
    """Write the number that a draw gives a unit; None where its hash has no form in SQL."""
    function, digits = draws.HEX_HASHES.get(draw.hash, ("md5", 0))
    is_long = digits > draws.HEX_DIGITS
    if not digits or (is_long and draw.modulus is None):
        return None
    texts = [literal(text) if text else "" for text in (draw.before, draw.after)]
    text = " || ".join(filter(None, (texts[0], unit, texts[1])))

    def number(start: int, count: int) -> str:
        return f"abeval_{function}_hex({text}, {start}, {count})"

    if is_long:
        # The remainder of many hex digits, eight at a time.
        whole = "0"
        for start in range(1, digits, 8):
            whole = f"(({whole} * 4294967296 + {number(start, 8)}) % {draw.modulus})"
    else:
        whole = number(1, digits)
        whole = whole if draw.modulus is None else f"({whole} % {draw.modulus})"
    return whole if draw.divisor is None else f"({whole} / {_double(draw.divisor)})"


def _constant(number: float) -> str:
    if math.isinf(number):
        return "1e300" if number > 0 else "-1e300"
    return str(int(number)) if number == int(number) else _double(number)


def _double(number: float) -> str:
    """Write a number so that every engine reads it as a double, without a cast."""
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def sub_bucket_sql(engine: Engine, salt: str, unit: str) -> str:
    """Write the SQL of the sub-bucket of a unit."""
    return f"{engine.hash60(salt, f'cast({unit} as varchar)')} // {SLOTS} % {SUB_BUCKETS}"
