"""CSV and JSON logs: ids, names and times as they are written, all else as DuckDB finds the types.

DuckDB takes the types of a CSV file from its first rows, so that an id such as `00100000` further
down would become 100000, and reads a date such as 7/3/2020 in whatever order of day and month fits.
Ids become whole numbers only where no digit is lost; names of variants stay text; times stay text
until `text_times.py` has looked at all of them.

`duckdb_logs.py` hands it the files of a log, and what runs the statements that read them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import duckdb

from abeval.engines.names import log_name
from abeval.engines.sources import Files, exact, partitions
from abeval.engines.sql import literal, quoted
from abeval.experiment.columns import IDS, canonical_columns
from abeval.experiment.sources import LogSource

_NAMES = ("variant", "category", "model", "stage")
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_NOT_AS_WRITTEN = "abeval: a value would not keep its digits"

Rows = Callable[[str], Sequence[tuple[object, ...]]]
"""Runs SQL and fetches its rows."""

Keep = Callable[[str, str], None]
"""Keeps the rows of a query as the table of a name."""


def parquet_relation(files: Files, source: LogSource) -> str:
    """SQL: the rows of Parquet files."""
    folders = partitions(files.read)
    options = f"union_by_name = true, hive_partitioning = {'true' if folders else 'false'}"
    names = _mapped(source, sorted(folders), _NAMES)
    return f"read_parquet({_listed(files)}, {options}{_as_text('hive_types', names)})"


def load_csv(name: str, files: Files, source: LogSource, rows: Rows, keep: Keep) -> None:
    """Parse CSV files into the table `name`.

    Types are those of the first rows; where a later row does not fit, those of all rows.

    Raises:
        duckdb.Error: They cannot be parsed.
    """
    try:
        _load_csv(name, files, source, rows, keep, "")
    except duckdb.Error:
        _load_csv(name, files, source, rows, keep, ", sample_size = -1")


def _load_csv(
    name: str, files: Files, source: LogSource, rows: Rows, keep: Keep, sample: str
) -> None:
    # By itself DuckDB leaves out lines at the top, up to a second header, and "comments".
    every = "union_by_name = true, header = true, skip = 0, comment = ''"
    options = f"{every}, dateformat = '%Y-%m-%d'{sample}"
    read = f"read_csv({_listed(files)}, {options}"
    types = column_types(rows, f"{read})")
    texts = [
        *_ids(source, types),
        *_mapped(source, types, _NAMES),
        *_text_time(name, source, types),
    ]
    folders = {name.lower() for name in partitions(files.read)}
    read += _as_text("hive_types", [column for column in texts if column.lower() in folders])
    read += _as_text("types", [column for column in texts if column.lower() not in folders])
    whole = [column for column in _ids(source, types) if types[column] in WHOLE]
    if whole:
        checked = ", ".join(f"{_checked(column)} as {quoted(column)}" for column in whole)
        try:
            keep(name, f"select * replace ({checked}) from {read})")
        except duckdb.Error as error:
            if _NOT_AS_WRITTEN not in str(error):
                raise
        else:
            return
    keep(name, f"from {read})")
    numbers = [column for column in _ids(source, types) if types[column] != "VARCHAR"]
    # Those of a table that was read before are settled.
    kept = column_types(rows, quoted(name)) if numbers else {}
    _settle_ids(name, [column for column in numbers if kept[column] == "VARCHAR"], rows)


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


def _settle_ids(name: str, columns: Sequence[str], rows: Rows) -> None:
    """Make whole numbers of the ids that all are; numbers with a point, which are no ids, doubles.

    `mapping.py` refuses those: 123 and 123.0 would be two ids.
    """
    for column in columns:
        text = quoted(column)
        decimal = f"regexp_full_match(trim({text}), '-?[0-9]+([.][0-9]*)?')"
        ((whole, decimals),) = rows(
            f"select bool_and({_is_as_written(column)}), "
            f"bool_and({decimal}) and bool_or(contains({text}, '.')) from {quoted(name)}"
        )
        kind = "bigint" if whole else "double" if decimals else None
        if kind is not None:
            rows(
                f"alter table {quoted(name)} alter {text} set data type {kind} "
                f"using cast({text} as {kind})"
            )


def load_json(name: str, files: Files, source: LogSource, rows: Rows, keep: Keep) -> None:
    """Parse JSON files into the table `name`.

    All rows are looked at for keys and types: a key that only later rows have would be dropped.

    Raises:
        duckdb.Error: They cannot be parsed.
    """
    every = f"{_listed(files)}, union_by_name = true"
    read = f"read_json({every}, sample_size = -1, maximum_sample_files = {len(files.read)})"
    types = column_types(rows, read)
    texts = [
        *_ids(source, types),
        *_mapped(source, types, _NAMES),
        *_text_time(name, source, types),
    ]
    strings = [column for column in texts if types[column] in _OF_STRINGS]
    if strings:
        typed = {**types, **dict.fromkeys(strings, "VARCHAR")}
        listed = ", ".join(f"{literal(c)}: {literal(kind)}" for c, kind in typed.items())
        read = f"read_json({every}, columns = {{{listed}}})"
    keep(name, f"from {read}")


_OF_STRINGS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")
"""Types that DuckDB makes of strings of JSON."""


def _listed(files: Files) -> str:
    return "[" + ", ".join(literal(exact(file)) for file in files.read) + "]"


def _as_text(option: str, columns: Sequence[str]) -> str:
    """An option by which columns are read as text."""
    listed = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in dict.fromkeys(columns))
    return f", {option} = {{{listed}}}" if listed else ""


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
