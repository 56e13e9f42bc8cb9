"""Times that are text: which format all of them have, and the SQL that reads it.

ISO 8601 is read as it is. Days and months in another order are read only where the values show the
order; otherwise the experiment file must say it.

`duckdb_logs.py` hands it the column of the time of each log that has one as text.
"""

from collections.abc import Mapping
from typing import NamedTuple

from abeval.aggregates.sums import WHOLE
from abeval.engines.sql import literal, quoted
from abeval.engines.text_files import Rows
from abeval.errors import LogError
from abeval.experiment.sources import LogSource, canonical_columns

_CLOCK = "[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
_ZONE = "( ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?|[A-Za-z]+/[A-Za-z_/]+))?"
_ISO = f"[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}({_CLOCK}{_ZONE})?"
_DAY_AND_MONTH = "([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4})"
_OTHER = f"{_DAY_AND_MONTH}({_CLOCK}{_ZONE})?"
_DAY_FIRST, _MONTH_FIRST = r"\3-\2-\1", r"\3-\1-\2"
_WITH_ZONE = ":[0-9.,]+ ?[A-Za-z+-]"
_MOST = 0.8
"""Share of the values that a format must read; the others become null, and are counted."""


class Time(NamedTuple):
    """How a text is read as a time.

    Attributes:
        sql: The expression, null where the text is no time.
        kind: Its type.
    """

    sql: str
    kind: str


def time_column(log: str, source: LogSource, types: Mapping[str, str]) -> str | None:
    """The column of a log's time that must be read from text; None where there is none.

    Raises:
        LogError: The file gives a format for a column that is a time already.
    """
    if "ts" not in canonical_columns(log) or source.time_unit is not None:
        return None
    name = source.columns.get("ts", "ts")
    same = [column for column in types if column.lower() == name.lower()]
    if not same:
        return None
    column = name if name in same else same[0]
    is_text = types[column] == "VARCHAR" or types[column].startswith("ENUM(")
    if source.ts_format is None:
        return column if is_text else None
    if not is_text and types[column] not in WHOLE:
        what = f"logs.{log}: column {column!r} is {types[column]}, so ts_format has no meaning"
        raise LogError(what, "remove it")
    return column


def time_of_text(log: str, relation: str, column: str, source: LogSource, rows: Rows) -> Time:
    """How to read a column of times that are text, or numbers such as 20260701 with a format.

    Args:
        log: Its name, for messages.
        relation: Where the column is.
        column: The column.
        source: The log's entry in the experiment file.
        rows: Runs SQL.

    Raises:
        LogError: The order of day and month is not clear, or the values have no format in common.
    """
    text = f"trim(cast({quoted(column)} as varchar))"
    if source.ts_format is not None:
        return _formatted(log, relation, column, text, source.ts_format, rows)
    shape = _shape(relation, text, rows)
    value = text
    if shape.iso < _MOST * shape.values:
        value = _reordered(log, column, text, shape, source)
    elif shape.others:
        value = f"case when {_matches(text, _ISO)} then {text} end"
    if shape.clocks == 0:
        return Time(f"try_cast({value} as date)", "date")
    if shape.zones == 0:
        return Time(f"try_cast({value} as timestamp)", "timestamp")
    return Time(f"try_cast({value} as timestamp with time zone)", "timestamp with time zone")


class _Shape(NamedTuple):
    """How many texts look how; `day_first` and `month_first` are those that show their order."""

    values: int
    clocks: int
    zones: int
    iso: int
    others: int
    day_first: int
    month_first: int
    example: str | None


def _shape(relation: str, text: str, rows: Rows) -> _Shape:
    first, second = (f"cast(regexp_extract(v, '{_DAY_AND_MONTH}', {i}) as int)" for i in (1, 2))
    ((*counts, example),) = rows(f"""
    with texts as (select {text} as v from {quoted(relation)}),
    counted as (
      select v, {_matches("v", _ISO)} as is_iso, contains(v, ':') as has_clock,
        contains(v, ':') and {_has_zone("v")} as has_zone
      from texts where v is not null
    ),
    ordered as (
      select *, not is_iso and {_matches("v", _OTHER)} as is_other from counted
    )
    select
      count(*), count_if(has_clock), count_if(has_zone), count_if(is_iso), count_if(is_other),
      count_if(case when is_other then {first} > 12 else false end),
      count_if(case when is_other then {second} > 12 else false end),
      min(case when not is_iso then v end)
    from ordered
    """)
    values, clocks, zones, iso, others, day_first, month_first = (int(str(n or 0)) for n in counts)
    shown = None if example is None else str(example)
    return _Shape(values, clocks, zones, iso, others, day_first, month_first, shown)


def _matches(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, '{pattern}')"


def _has_zone(text: str) -> str:
    return f"regexp_matches({text}, '{_WITH_ZONE}')"


def _reordered(log: str, column: str, text: str, shape: _Shape, source: LogSource) -> str:
    """SQL: the text with its date in the order of ISO 8601."""
    where = f"logs.{log}: the times in {column!r}"
    hint = f"set ts_format in [logs.{log}]"
    if shape.others < _MOST * shape.values:
        what = f"{where} have no format that is known, such as {shape.example!r}"
        raise LogError(what, f'{hint}: "%Y-%m-%d %H:%M:%S" is 2026-07-01 09:30:00')
    if bool(shape.day_first) == bool(shape.month_first):
        suggested = " or ".join(f'"{_format(order, shape)}"' for order in ("%d/%m", "%m/%d"))
        both = "are in both orders" if shape.day_first else "fit both orders"
        what = f"{where} {both}, day before month and month before day, such as {shape.example!r}"
        raise LogError(what, f"{hint}: {suggested}, as they are written")
    order = _DAY_FIRST if shape.day_first else _MONTH_FIRST
    return (
        f"case when {_matches(text, _OTHER)} "
        f"then regexp_replace({text}, '^{_DAY_AND_MONTH}', '{order}') end"
    )


def _format(order: str, shape: _Shape) -> str:
    """The format of the example, with day and month in an order."""
    example = str(shape.example)
    separator = next(c for c in example if c in "/.-")
    clock = ("", " %H:%M", " %H:%M:%S")[min(example.count(":"), 2)]
    return order.replace("/", separator) + separator + "%Y" + clock


def _formatted(log: str, relation: str, column: str, text: str, format: str, rows: Rows) -> Time:
    value = f"try_strptime({text}, {literal(format)})"
    ((values, read, example),) = rows(
        f"select count({text}), count({value}), min(case when {value} is null then {text} end) "
        f"from {quoted(relation)}"
    )
    if int(str(read)) < _MOST * int(str(values)):
        raise LogError(
            f"logs.{log}: ts_format {format!r} reads {read:,} of {values:,} times in {column!r}; "
            f"it does not read {example!r}",
            "write the format as in Python's strptime: %d day, %m month, %Y year, %H:%M:%S clock",
        )
    if "%z" in format or "%Z" in format:
        return Time(f"cast({value} as timestamp with time zone)", "timestamp with time zone")
    is_day = not any(part in format for part in _CLOCK_PARTS)
    return Time(f"cast({value} as date)", "date") if is_day else Time(value, "timestamp")


_CLOCK_PARTS = ("%H", "%I", "%-H", "%-I", "%c", "%X", "%M", "%S")
