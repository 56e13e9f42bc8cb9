"""Write SQL of times, hashes and rules, which dialects write differently.

DuckDB has macros for calls such as `abeval_epoch_ms(timestamp)`; `expand_calls` replaces them for
other dialects.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import SLOTS, SUB_BUCKETS, draws
from abeval.assignment.draws import Draw, Rule
from abeval.engines.sql import Engine, literal
from abeval.packaged import load_toml_next_to

if TYPE_CHECKING:
    from sqlglot import exp

_TEMPLATES = load_toml_next_to(__file__, "calls.toml")
"""Dialect → call → its SQL."""

CALLS: Mapping[str, Sequence[str]] = _TEMPLATES.pop("arguments")
"""The calls, with their arguments."""


def write_duckdb_macros() -> list[str]:
    """Write the statements that define the calls in DuckDB."""
    return [
        f"create macro {name}({', '.join(names)}) as {_TEMPLATES['duckdb'][name].format(*names)}"
        for name, names in CALLS.items()
    ]


def expand_calls(tree: exp.Query, dialect: str) -> exp.Query:
    """Expand the calls of time and hash in a query, in the dialect's SQL.

    Example:
        >>> from sqlglot import parse_one
        >>> expand_calls(parse_one("select abeval_epoch_ms(ts)"), "spark").sql("spark")
        'SELECT UNIX_MILLIS(CAST(ts AS TIMESTAMP))'
    """
    # Imported here, because DuckDB needs none of it, and it takes longer than a small query.
    from sqlglot import exp

    templates = {**_TEMPLATES.get(dialect, {}), **_TEMPLATES["printed"].get(dialect, {})}
    query = tree.copy()
    # From the inside out: one may be an argument of another.
    for call in reversed(list(query.find_all(exp.Anonymous))):
        template = templates.get(call.name.lower())
        if template is not None:
            arguments = {f"arg_{number}": part for number, part in enumerate(call.expressions)}
            call.replace(fill_template(template.format(*arguments), dialect, arguments))
    return query


def fill_template(template: str, dialect: str, parts: Mapping[str, exp.Expr]) -> exp.Expr:
    """Fill the columns of a SQL template with expressions."""
    from sqlglot import exp

    def fill(node: exp.Expr) -> exp.Expr:
        is_part = isinstance(node, exp.Column) and node.name in parts
        return parts[node.name].copy() if is_part else node

    return _parse_template(template, dialect).transform(fill)


@cache
def _parse_template(text: str, dialect: str) -> exp.Expr:
    import sqlglot

    return sqlglot.parse_one(text, dialect=dialect)


SINCE, UNTIL = datetime(2010, 1, 1, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC)
"""Range of the table of offsets; outside of it the engine converts."""

_STEP = 7 * 86_400
"""Seconds of a step, shorter than between any two changes of an offset."""


class Offset(NamedTuple):
    """Hold what a zone adds to UTC from some moment, in milliseconds."""

    since_ms: int
    add_ms: int


@cache
def list_offsets(timezone: str) -> tuple[Offset, ...]:
    """List every offset of a zone between `SINCE` and `UNTIL`, in order.

    Example:
        >>> [offset.add_ms for offset in list_offsets("Asia/Kolkata")]
        [19800000]
    """
    zone, (first, last) = ZoneInfo(timezone), (int(end.timestamp()) for end in (SINCE, UNTIL))
    # Looking offsets up is ten times as fast as DuckDB's conversion of each row.
    changes = [Offset(first * 1000, _find_offset_ms(first, zone))]
    for start in range(first, last, _STEP):
        later = _find_offset_ms(start + _STEP, zone)
        if later != changes[-1].add_ms:
            changes.append(Offset(_find_first_second(later, start, zone) * 1000, later))
    return tuple(changes)


def has_whole_hours(timezone: str, *times: datetime) -> bool:
    """Tell whether hours of UTC are hours of a zone, and local times whole hours.

    Of times before `SINCE` or after `UNTIL` that is not known.

    Example:
        >>> midnight = datetime(2026, 9, 14)
        >>> has_whole_hours("Europe/Berlin", midnight), has_whole_hours("Asia/Kolkata", midnight)
        (True, False)
    """
    changes = {ms for offset in list_offsets(timezone) for ms in offset}
    is_covered = all(SINCE.year < time.year < UNTIL.year for time in times)
    are_whole = all(time == time.replace(minute=0, second=0, microsecond=0) for time in times)
    return is_covered and are_whole and all(ms % 3_600_000 == 0 for ms in changes)


def convert_to_local_ms(milliseconds: NDArray[np.int64], timezone: str) -> NDArray[np.int64]:
    """Convert epoch milliseconds to local time, counted from 1970.

    Example:
        >>> (convert_to_local_ms(np.array([0, 10**12]), "Asia/Kolkata") - [0, 10**12]).tolist()
        [19800000, 19800000]
    """
    since, add = np.array(list_offsets(timezone)).T
    offset_index = np.maximum(np.searchsorted(since, milliseconds, "right") - 1, 0)
    local: NDArray[np.int64] = milliseconds + add[offset_index]
    until, zone = int(UNTIL.timestamp()) * 1000, ZoneInfo(timezone)
    # Outside of the table of offsets each time is converted by itself.
    for index in np.flatnonzero((milliseconds < since[0]) | (milliseconds >= until)):
        ms = int(milliseconds[index])
        local[index] = ms + _find_offset_ms(ms // 1000, zone)
    return local


def _find_first_second(offset_ms: int, start: int, zone: ZoneInfo) -> int:
    """Find the first second at which an offset applies, in one step."""
    seconds = range(start, start + _STEP)
    return start + bisect_left(
        seconds, True, key=lambda second: _find_offset_ms(second, zone) == offset_ms
    )


def _find_offset_ms(second: int, zone: ZoneInfo) -> int:
    """Find the offset of a zone at a second since 1970, in milliseconds."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return int((moment.astimezone(zone).utcoffset() or timedelta()) / timedelta(milliseconds=1))


def write_offset(milliseconds: str, zone_offsets: Sequence[Offset]) -> str:
    """Write the offset to add to a UTC expression in milliseconds.

    Example:
        >>> write_offset("ms", [Offset(0, 5), Offset(10, 7), Offset(20, 5)])
        'case when ms < 10 then 5 else case when ms < 20 then 7 else 5 end end'
    """
    if len(zone_offsets) == 1:
        return str(zone_offsets[0].add_ms)
    # A binary search: a row is compared with six offsets, not with fifty.
    half = len(zone_offsets) // 2
    first = write_offset(milliseconds, zone_offsets[:half])
    second = write_offset(milliseconds, zone_offsets[half:])
    return (
        f"case when {milliseconds} < {zone_offsets[half].since_ms} then {first} else {second} end"
    )


def write_rule_variant(rule: Rule, unit: str) -> str | None:
    """Write SQL of a unit's variant; None where plain SQL lacks the rule's hash.

    Example:
        >>> from abeval.assignment.draws import Stage, split_into_ranges
        >>> draw = Draw("md5_32", "salt-", modulus=10)
        >>> stage = Stage(draw, split_into_ranges({"a": 1, "b": 1}, 10))
        >>> sql = write_rule_variant(Rule((stage,)), "id")
        >>> sql.partition(" and ")[0]
        "case when (abeval_md5_hex('salt-' || id, 1, 8) % 10) >= 0"
    """
    numbers = [_number(stage.draw, unit) for stage in rule.stages]
    label: str | None = "null"
    for stage, number in zip(reversed(rule.stages), reversed(numbers), strict=True):
        if number is None:
            return None
        # Stages are nested from the last one outwards.
        last = stage is rule.stages[-1]
        cases = " ".join(
            f"when {number} >= {_write_constant(r.start)} and {number} < {_write_constant(r.stop)} "
            f"then {literal(r.label) if last else f'({label})'}"
            for r in stage.ranges
            if r.start < r.stop
        )
        label = f"case {cases} end" if cases else "null"
    return label


def _number(draw: Draw, unit: str) -> str | None:
    """Write the number that a draw gives a unit; None without a form in SQL."""
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
        value = "0"
        for start in range(1, digits, 8):
            value = f"(({value} * 4294967296 + {number(start, 8)}) % {draw.modulus})"
    else:
        value = number(1, digits)
        value = value if draw.modulus is None else f"({value} % {draw.modulus})"
    return value if draw.divisor is None else f"({value} / {_write_double(draw.divisor)})"


def _write_constant(number: float) -> str:
    if math.isinf(number):
        return "1e300" if number > 0 else "-1e300"
    return str(int(number)) if number == int(number) else _write_double(number)


def _write_double(number: float) -> str:
    """Write a number so that every engine reads it as a double, without a cast."""
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def write_sub_bucket(engine: Engine, salt: str, unit: str) -> str:
    """Write SQL of the sub-bucket of a unit."""
    return f"{engine.hash60(salt, f'cast({unit} as varchar)')} // {SLOTS} % {SUB_BUCKETS}"
