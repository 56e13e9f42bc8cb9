"""CSV and JSON logs: ids, names and times as they are written, all else as DuckDB finds the types.

DuckDB takes the types of a CSV file from its first rows, so that an id such as `00100000` further
down would become 100000, and reads a date such as 7/3/2020 in whatever order of day and month fits.
Ids become whole numbers only where no digit is lost; names of variants stay text; times stay text
until `text_times.py` has looked at all of them.

`duckdb_logs.py` hands it the files of a log, and what runs the statements that read them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import duckdb

from abeval.engines.sources import Files, exact, log_name, partitions
from abeval.engines.sql import literal, quoted
from abeval.errors import LogError
from abeval.experiment.sources import IDS, LogSource, canonical_columns

_NAMES = ("variant", "category", "model", "stage")
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_NOT_AS_WRITTEN = "abeval: a value would not keep its digits"

Rows = Callable[[str], Sequence[tuple[object, ...]]]
"""Runs SQL and fetches its rows."""


class Reader(NamedTuple):
    """What runs the statements that read files.

    Attributes:
        rows: Runs SQL and fetches its rows.
        types: The columns and types that DuckDB finds by what reads files.
        keep: Keeps, under a name, what reads files through a `select` of its columns; it returns
            the types of these.
    """

    rows: Rows
    types: Callable[[str], Mapping[str, str]]
    keep: Callable[[str, str, str], Mapping[str, str]]


def parquet_relation(files: Files, source: LogSource) -> str:
    """SQL: the rows of Parquet files."""
    folders = partitions(files.read)
    options = f"union_by_name = true, hive_partitioning = {'true' if folders else 'false'}"
    names = _mapped(source, sorted(folders), _NAMES)
    return f"read_parquet({listed(files.read)}, {options}{_as_text('hive_types', names)})"


def load_csv(
    name: str, files: Files, source: LogSource, reader: Reader, reads: str | None
) -> Mapping[str, str]:
    """Parse CSV files into the table `name`.

    Types are those of the first rows; where a later row does not fit, those of all rows.

    Args:
        name: The relation.
        files: What is parsed.
        source: The log's entry in the experiment file.
        reader: Runs the statements.
        reads: As of `read_columns`.

    Returns:
        Type of each column of the files, also of those that are not in the table.

    Raises:
        duckdb.Error: They cannot be parsed.
    """
    try:
        return _load_csv(name, files, source, reader, reads, "")
    except duckdb.Error:
        return _load_csv(name, files, source, reader, reads, ", sample_size = -1")


def _load_csv(
    name: str, files: Files, source: LogSource, reader: Reader, reads: str | None, sample: str
) -> Mapping[str, str]:
    # By itself DuckDB leaves out lines at the top, up to a second header, and "comments".
    every = "union_by_name = true, header = true, skip = 0, comment = ''"
    options = f"{every}, dateformat = '%Y-%m-%d'{sample}"
    read = f"read_csv({listed(files.read)}, {options}"
    types = reader.types(f"{read})")
    texts = [
        *_ids(source, types),
        *_mapped(source, types, _NAMES),
        *_text_time(name, source, types),
    ]
    folders = {name.lower() for name in partitions(files.read)}
    read += _as_text("hive_types", [column for column in texts if column.lower() in folders])
    read += _as_text("types", [column for column in texts if column.lower() not in folders])
    columns = read_columns(name, source, types, reads)
    whole = [column for column in _ids(source, types) if types[column] in WHOLE]
    checked = [f"{_checked(c)} as {quoted(c)}" if c in whole else quoted(c) for c in columns]
    try:
        kept = reader.keep(name, f"{read})", f"select {', '.join(checked)}")
    except duckdb.Error as error:
        if _NOT_AS_WRITTEN not in str(error):
            raise
        kept = reader.keep(name, f"{read})", f"select {', '.join(map(quoted, columns))}")
    ids = [c for c in _ids(source, types) if types[c] != "VARCHAR" and kept.get(c) == "VARCHAR"]
    return {**types, **kept, **_settle_ids(name, ids, reader.rows)}


def read_columns(
    name: str, source: LogSource, types: Iterable[str], reads: str | None
) -> Sequence[str]:
    """The columns of a log that are kept of all that it has.

    Args:
        name: Its relation.
        source: Its entry in the experiment file.
        types: All columns.
        reads: Text in which each column that is read by its own name stands somewhere, as
            experiments name them; None to keep all columns.
    """
    columns = [*types]
    if reads is None:
        return columns
    text = reads.lower()
    mapped = _mapped(source, columns, [*canonical_columns(log_name(name)), *source.columns])
    named = [c for c in columns if c in mapped or c.lower() in text or not _is_plain(c)]
    return named or columns


def _is_plain(column: str) -> bool:
    """Whether a text names a column as it is; some characters are escaped."""
    return column.isprintable() and not {*column} & {*"\"'\\"}


def _is_as_written(column: str) -> str:
    text = quoted(column)
    return f"trim({text}) = cast(try_cast({text} as bigint) as varchar)"


def _checked(column: str) -> str:
    """SQL: an id as a whole number; an error where that would not be what is written."""
    value = f"cast({quoted(column)} as bigint)"
    refused = f"error({literal(_NOT_AS_WRITTEN)})"
    return (
        f"case when {quoted(column)} is null or {_is_as_written(column)} then {value} "
        f"else {refused} end"
    )


def _settle_ids(name: str, columns: Sequence[str], rows: Rows) -> dict[str, str]:
    """Make whole numbers of the ids that all are; numbers with a point, which are no ids, doubles.

    `mapping.py` refuses those: 123 and 123.0 would be two ids.

    Returns:
        The types of columns that are no text any more.
    """
    types = dict[str, str]()
    for column in columns:
        text = quoted(column)
        decimal = f"regexp_full_match(trim({text}), '-?[0-9]+([.][0-9]*)?')"
        ((whole, decimals),) = rows(
            f"select bool_and({_is_as_written(column)}), "
            f"bool_and({decimal}) and bool_or(contains({text}, '.')) from {quoted(name)}"
        )
        kind = "BIGINT" if whole else "DOUBLE" if decimals else None
        if kind is not None:
            types[column] = kind
            rows(
                f"alter table {quoted(name)} alter {text} set data type {kind} "
                f"using cast({text} as {kind})"
            )
    return types


def load_json(name: str, files: Files, source: LogSource, reader: Reader) -> Mapping[str, str]:
    """Parse JSON files into the table `name`.

    All rows are looked at for keys and types: a key that only later rows have would be dropped.

    Raises:
        duckdb.Error: They cannot be parsed.
    """
    every = f"{listed(files.read)}, union_by_name = true"
    read = f"read_json({every}, sample_size = -1, maximum_sample_files = {len(files.read)})"
    types = reader.types(read)
    texts = [
        *_ids(source, types),
        *_mapped(source, types, _NAMES),
        *_text_time(name, source, types),
    ]
    strings = [column for column in texts if types[column] in _OF_STRINGS]
    if strings:
        typed = {**types, **dict.fromkeys(strings, "VARCHAR")}
        kinds = ", ".join(f"{literal(c)}: {literal(kind)}" for c, kind in typed.items())
        read = f"read_json({every}, columns = {{{kinds}}})"
    return reader.keep(name, read, "select *")


_OF_STRINGS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")
"""Types that DuckDB makes of strings of JSON."""


def listed(files: Sequence[str]) -> str:
    """Write the SQL of a list of files for readers that take names for globs.

    Example:
        >>> listed(["a.csv", "b[1].csv"])
        "['a.csv', 'b[[]1].csv']"
    """
    return f"[{', '.join(literal(exact(file)) for file in files)}]"


def _as_text(option: str, columns: Sequence[str]) -> str:
    """An option by which columns are read as text."""
    texts = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in dict.fromkeys(columns))
    return f", {option} = {{{texts}}}" if texts else ""


def column_types(rows: Rows, relation: str) -> dict[str, str]:
    """Column names and types of a relation, or of what reads files, in order."""
    return {str(name): str(kind) for name, kind, *_ in rows(f"describe from {relation}")}


def _mapped(source: LogSource, types: Iterable[str], names: Sequence[str]) -> list[str]:
    """The columns of a log that hold these canonical ones, or have their names."""
    wanted = {name.lower() for name in (*names, *(source.columns.get(n, n) for n in names))}
    return [column for column in types if column.lower() in wanted]


def _ids(source: LogSource, types: Mapping[str, str]) -> list[str]:
    return _mapped(source, types, IDS)


def _text_time(name: str, source: LogSource, types: Mapping[str, str]) -> list[str]:
    """The column of the time of a log, unless it counts from 1970."""
    if "ts" not in canonical_columns(log_name(name)):
        return []
    time = source.columns.get("ts", "ts").lower()
    return [
        column
        for column, kind in types.items()
        if column.lower() == time and (kind not in (*WHOLE, "DOUBLE") or source.ts_format)
    ]


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
