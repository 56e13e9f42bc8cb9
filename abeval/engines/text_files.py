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
