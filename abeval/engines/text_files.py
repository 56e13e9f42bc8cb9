"""Read CSV and JSON logs: ids, names and times as they are written.

DuckDB takes types from the first rows, so that an id such as `00100000` further down would become
100000, and reads 7/3/2020 in whatever order of day and month fits. Here ids become whole numbers
only where no digit is lost; names of variants stay text; times stay text until all were looked at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from duckdb import sqltype
from duckdb.sqltypes import DuckDBPyType

from abeval.engines.sources import Files, escape_file_name, find_partition_columns, log_name
from abeval.engines.sql import cast_query, literal, measure_columns, quote, write_case
from abeval.errors import LogError
from abeval.experiment.sources import IDS, LogSource, list_canonical_columns

_NAMES = ("variant", "category", "model")
VARIANT = "variant"
"""Column of the variant where the paths of a log say it."""
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_OF_STRINGS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")
"""Types that DuckDB reads from strings of JSON."""

Rows = Callable[[str], Sequence[tuple[object, ...]]]
"""Function that runs SQL and fetches its rows."""

Types = Mapping[str, str]
"""Column → its type, in order."""


def write_file_list(files: Sequence[str]) -> str:
    """Write the SQL of a list of files for readers that take names for globs."""
    return f"[{', '.join(literal(escape_file_name(file)) for file in files)}]"


def write_parquet_rows(files: Files, source: LogSource) -> str:
    """Write SQL that reads Parquet files."""
    folders = find_partition_columns(files.read)
    options = f"union_by_name = true, hive_partitioning = {'true' if folders else 'false'}"
    names = _list_mapped_columns(source, sorted(folders), _NAMES)
    return _write_read_call("parquet", files, options, _as_text("hive_types", names))


def _write_read_call(kind: str, files: Files, *options: str) -> str:
    """Write the call that reads files."""
    filename_option = f"filename = {literal(VARIANT)}" if files.variants else ""
    arguments = ", ".join(filter(None, [write_file_list(files.read), *options, filename_option]))
    read = f"read_{kind}({arguments})"
    if not files.variants:
        return read
    values = {file: literal(variant) for file, variant in files.variants.items()}
    # Paths say the variant: the name of the file is replaced by it.
    return f"(select * replace ({write_case(VARIANT, values)} as {VARIANT}) from {read})"


def write_text_rows(
    files: Files, sample: str, types: Types | None = None, texts: Sequence[str] = ()
) -> str:
    """Write SQL that reads CSV or JSON files, with some columns as text.

    `sample` is the option of how many rows of CSV tell the types; empty for the first ones.
    """
    if files.variants:
        texts = [column for column in texts if column != VARIANT]
    if files.kind == "json":
        return _write_json_rows(files, types, texts)
    # By itself DuckDB leaves out lines at the top, up to a second header, and "comments".
    every = "union_by_name = true, skip = 0, comment = ''"
    folders = {name.lower() for name in find_partition_columns(files.read)}
    kinds = _as_text("hive_types", [c for c in texts if c.lower() in folders])
    text_types = _as_text("types", [c for c in texts if c.lower() not in folders])
    return _write_read_call(
        "csv", files, every, "dateformat = '%Y-%m-%d'", files.dialect, sample, kinds, text_types
    )


def _as_text(option: str, columns: Sequence[str]) -> str:
    """Write an option by which columns are read as text."""
    texts = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in dict.fromkeys(columns))
    return f"{option} = {{{texts}}}" if texts else ""


def _write_json_rows(files: Files, types: Types | None, texts: Sequence[str]) -> str:
    """Write SQL that reads JSON files."""
    strings = [column for column in texts if types and types[column] in _OF_STRINGS]
    if types is None or not strings:
        # Without types all rows are looked at: DuckDB would drop a key that only later rows have.
        options = f"sample_size = -1, maximum_sample_files = {len(files.read)}"
    else:
        typed = {**types, **dict.fromkeys(strings, "VARCHAR")}
        if files.variants:
            del typed[VARIANT]
        kinds = ", ".join(f"{literal(c)}: {literal(kind)}" for c, kind in typed.items())
        options = f"columns = {{{kinds}}}"
    return _write_read_call("json", files, "union_by_name = true", options)


def read_column_types(rows: Rows, relation: str) -> dict[str, str]:
    """Find columns and types of a relation, or of SQL that reads files."""
    types = {str(name): str(kind) for name, kind, *_ in rows(f"describe from {relation}")}
    long = next((name for name in types if len(name) > _LONGEST_NAME), None)
    if long is not None:
        what = f"a column is called {long[:80]!r}… ({len(long):,} characters)"
        raise LogError(what, f"is row 1 the header? Names have at most {_LONGEST_NAME:,}")
    return types


_LONGEST_NAME = 5_000


def find_struct_fields(types: Types) -> dict[str, str]:
    """Find the fields of structs at any depth: dotted name → SQL."""
    sql = dict[str, str]()

    def visit(name: str, text: str, kind: DuckDBPyType) -> None:
        if kind.id != "struct":
            sql[name] = _write_unranged(text, str(kind))
            return
        for field, inner in kind.children:
            visit(f"{name}.{field}", f"{text}[{literal(str(field))}]", DuckDBPyType(inner))

    for column, kind in types.items():
        if kind.startswith("STRUCT("):
            visit(column, quote(column), sqltype(kind))
    # A column that has the dotted name already is meant by it.
    column_names = {column.lower() for column in types}
    return {name: text for name, text in sql.items() if name.lower() not in column_names}


def _write_unranged(sql: str, kind: str) -> str:
    """Write a value so that DuckDB does not use the range in Parquet footers."""
    # NaN lies outside of the range, so that `abs(x) < 1e300` would be taken to be true of each row.
    return f"case when {sql} is not null then {sql} end" if kind in ("DOUBLE", "FLOAT") else sql


def write_columns_and_fields(types: Types) -> str:
    """Write all columns, and the fields of structs as further ones."""
    plain = {quote(name): _write_unranged(quote(name), kind) for name, kind in types.items()}
    changed = ", ".join(f"{sql} as {name}" for name, sql in plain.items() if sql != name)
    every = f"* replace ({changed})" if changed else "*"
    return ", ".join(
        [every, *(f"{sql} as {quote(name)}" for name, sql in find_struct_fields(types).items())]
    )


_POINTS = "[0-9]{1,3}([.][0-9]{3})+"
_COMMAS = f"[+-]?([0-9]+|{_POINTS})(,[0-9]+)?"
_THOUSANDS = "[+-]?[0-9]{1,3},[0-9]{3}"


def find_decimal_commas(relation: str, columns: Iterable[str], rows: Rows) -> dict[str, str]:
    """Find text columns of numbers with decimal commas, each with an example.

    The example is like 1,234, where the comma may be between thousands, only if all values with a
    comma are.
    """

    def write_example(text: str) -> str:
        is_plain = f"not {_write_full_match(f'trim({text})', _THOUSANDS)}"
        example = f"max_by({text}, contains({text}, ',')::int + ({is_plain})::int)"
        return (
            f"case when bool_and({_write_full_match(f'trim({text})', _COMMAS)}) then {example} end"
        )

    examples = measure_columns(rows, quote(relation), columns, write_example)
    return {column: str(text) for column, text in examples.items() if text and "," in text}


def _list_mapped_columns(
    source: LogSource, types: Iterable[str], names: Sequence[str] = IDS
) -> list[str]:
    """List the columns of a log that hold these canonical ones."""
    lower_names = {name.lower() for name in (*names, *(source.columns.get(n, n) for n in names))}
    return [column for column in types if column.lower() in lower_names]


def list_text_columns(name: str, source: LogSource, types: Types) -> list[str]:
    """List the columns of a log to read as text: ids, names, times."""
    texts = [*_list_mapped_columns(source, types), *_list_mapped_columns(source, types, _NAMES)]
    if "ts" in list_canonical_columns(log_name(name)):
        time = source.columns.get("ts", "ts").lower()
        numbers = () if source.ts_format else (*_WHOLE, "DOUBLE")
        texts += [c for c, kind in types.items() if c.lower() == time and kind not in numbers]
    return texts


def read_columns(name: str, source: LogSource, types: Types, reads: str | None) -> Sequence[str]:
    """List the columns of a log to keep, with those of structs.

    A column that is read by its own name stands somewhere in the text `reads`; None keeps all.
    """
    columns = [*types]
    if reads is None:
        return columns
    text = reads.lower()
    canonical = _list_mapped_columns(
        source, columns, [*list_canonical_columns(log_name(name)), *source.columns]
    )
    kept = [c for c in columns if c in canonical or c.lower() in text or not _is_plain(c)]
    kept += [c for c in columns if c not in kept and types[c].startswith("STRUCT(")]
    # A table needs a column, even if nothing is read of it.
    return kept or columns


def _is_plain(column: str) -> bool:
    """Tell whether a text names a column as it is; some characters are escaped."""
    return column.isprintable() and not {*column} & {*"\"'\\"}


def settle_ids(name: str, source: LogSource, types: Types, now: Types, rows: Rows) -> None:
    """Convert ids to whole numbers if all are, and numbers with a point to doubles.

    `types` are those that DuckDB found, `now` those of the table. `map_columns` refuses doubles:
    123 and 123.0 would be two ids.
    """
    mapped = _list_mapped_columns(source, types)
    ids = [c for c in mapped if now.get(c) == "VARCHAR" and types[c] != "VARCHAR"]

    def write_test(text: str, kind: str) -> str:
        same = f"trim({text}) is not distinct from cast(try_cast({text} as {kind}) as varchar)"
        return f"when bool_and({same}) then '{kind}'"

    def write_kind(text: str) -> str:
        # Ids that are a hash are up to 2**64.
        cases = f"{write_test(text, 'BIGINT')} {write_test(text, 'UBIGINT')}"
        return f"case {cases} when bool_or(contains({text}, '.')) then 'DOUBLE' end"

    for column, kind in measure_columns(rows, quote(name), ids, write_kind).items():
        if kind == "DOUBLE":
            test = _write_full_match(f"trim({quote(column)})", "-?[0-9]+([.][0-9]*)?")
            ((fits,),) = rows(f"select bool_and({test}) from {quote(name)}")
            kind = kind if fits else None
        if kind is not None:
            _set_type(name, column, kind, rows)


_NUMBER = r"\s*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\s*"


def settle_numbers(name: str, columns: Sequence[str], rows: Rows) -> None:
    """Convert text columns to numbers if all values are, apart from blanks."""

    def fits(text: str) -> str:
        return f"bool_and({_write_full_match(text, _NUMBER)})"

    def write_type(text: str) -> str:
        kind = f"if(bool_or(regexp_matches({text}, '[.eE]')), 'DOUBLE', 'BIGINT')"
        return f"case when {fits(text)} and bool_or(regexp_matches({text}, '\\s')) then {kind} end"

    # Most columns of text fail in the first rows already.
    first = measure_columns(rows, f"(from {quote(name)} limit 1000)", columns, fits)
    columns = [column for column, are_numbers in first.items() if are_numbers]
    for column, kind in measure_columns(rows, quote(name), columns, write_type).items():
        if kind is not None:
            _set_type(name, column, kind, rows)


def _set_type(name: str, column: str, kind: str, rows: Rows) -> None:
    text = quote(column)
    cast = f"set data type {kind} using cast({text} as {kind})"
    rows(f"alter table {quote(name)} alter {text} {cast}")


_CLOCK = "[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
_ZONE = "( ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?|[A-Za-z]+/[A-Za-z_/]+))?"
_ISO = f"[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}({_CLOCK}{_ZONE})?"
DAY_AND_MONTH = "([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4})"
"""A date that does not begin with the year."""
_OTHER = f"{DAY_AND_MONTH}({_CLOCK}{_ZONE})?"
ISO_PARTS = {"day": r"\3-\2-\1", "month": r"\3-\1-\2"}
"""What comes first in such a date → the parts in the order of ISO 8601."""
_CLOCK_PARTS = ("%H", "%I", "%-H", "%-I", "%c", "%X", "%M", "%S")
_ZONED = "timestamp with time zone"
_MOST = 0.8
"""Share of values that a format must read; the others become null and are counted."""


class Time(NamedTuple):
    """Define how a text is read as a time: its column, SQL and type."""

    column: str
    sql: str
    kind: str


def find_text_time(
    log: str, relation: str, source: LogSource, types: Types, rows: Rows
) -> Time | None:
    """Find how a time that is text, or a number like 20260701, is read.

    None for all others. `types` are those of the relation.

    Raises:
        LogError: The order of day and month is not clear, the values have no format in common, or
            the file gives a format for a column that is a time already.
    """
    if "ts" not in list_canonical_columns(log) or source.time_unit is not None:
        return None
    name = source.columns.get("ts", "ts")
    column = next((c for c in (name, *types) if c in types and c.lower() == name.lower()), None)
    if column is None:
        return None
    is_text = types[column] == "VARCHAR" or types[column].startswith("ENUM(")
    text = f"trim(cast({quote(column)} as varchar))"
    if source.ts_format is None:
        if not is_text:
            return None
        shape, value = _shape(relation, text, rows), text
        if shape.iso < _MOST * shape.values:
            value = _write_iso_date(log, column, text, shape)
        elif shape.other_orders:
            value = f"case when {_write_full_match(text, _ISO)} then {text} end"
        kind = "date" if shape.clocks == 0 else "timestamp" if shape.zones == 0 else _ZONED
        return Time(column, f"try_cast({value} as {kind})", kind)
    if not is_text and types[column] not in _WHOLE:
        what = f"logs.{log}: column {column!r} is {types[column]}, so ts_format has no meaning"
        raise LogError(what, "remove it")
    return _read_formatted(log, relation, column, text, source.ts_format, rows)


class _Shape(NamedTuple):
    """Count how texts of times look.

    `day_first` and `month_first` count those that show their order.
    """

    values: int
    clocks: int
    zones: int
    iso: int
    other_orders: int
    day_first: int
    month_first: int
    example: str


def _shape(relation: str, text: str, rows: Rows) -> _Shape:
    first, second = (f"cast(regexp_extract(v, '{DAY_AND_MONTH}', {i}) as int)" for i in (1, 2))
    ((*counts, example),) = rows(f"""
    with texts as (select {text} as v from {quote(relation)}),
    counted as (
      select v, {_write_full_match("v", _ISO)} as is_iso, contains(v, ':') as has_clock,
        contains(v, ':') and regexp_matches(v, ':[0-9.,]+ ?[A-Za-z+-]') as has_zone
      from texts where v is not null
    ),
    ordered as (
      select *, not is_iso and {_write_full_match("v", _OTHER)} as is_other from counted
    )
    select
      count(*), count_if(has_clock), count_if(has_zone), count_if(is_iso), count_if(is_other),
      count_if(case when is_other then {first} > 12 else false end),
      count_if(case when is_other then {second} > 12 else false end),
      min(case when not is_iso then v end)
    from ordered
    """)
    return _Shape._make([*(int(str(n or 0)) for n in counts), str(example)])


def _write_full_match(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, '{pattern}')"


def _write_iso_date(log: str, column: str, text: str, shape: _Shape) -> str:
    """Write the text with its date in the order of ISO 8601."""
    where = f"logs.{log}: the times in {column!r}"
    hint = f"set ts_format in [logs.{log}]"
    if shape.other_orders < _MOST * shape.values:
        unread = shape.values - shape.iso - shape.other_orders
        what = f"{where} have no format that is known: {unread:,} of {shape.values:,}, such as "
        read = "make such values empty, or " if shape.iso else ""
        raise LogError(
            f"{what}{shape.example!r}", read + _write_time_hint(log, column, shape.example)
        )
    # Only a number above 12 shows which is the day.
    if bool(shape.day_first) == bool(shape.month_first):
        suggested = " or ".join(f'"{_format(order, shape)}"' for order in ("%d/%m", "%m/%d"))
        both = "are in both orders" if shape.day_first else "fit both orders"
        what = f"{where} {both}, day before month and month before day, such as {shape.example!r}"
        raise LogError(what, f"{hint}: {suggested}, as they are written")
    order = ISO_PARTS["day" if shape.day_first else "month"]
    return (
        f"case when {_write_full_match(text, _OTHER)} "
        f"then regexp_replace({text}, '^{DAY_AND_MONTH}', '{order}') end"
    )


_EPOCHS = {10: "s", 13: "ms", 16: "us", 19: "ns"}
_LESS_USUAL = (
    *("%Y%m%d", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ", "%d %b %Y", "%d-%b-%Y"),
    *("%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d %b %Y %H:%M:%S", "%d-%b-%Y %H:%M:%S"),
    *("%b %d, %Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%Y-%m-%d %H.%M.%S"),
)


def _write_time_hint(log: str, column: str, example: str) -> str:
    """Say how to read times like an example."""
    if example.isdigit() and len(example) in _EPOCHS:
        unit, numbers = _EPOCHS[len(example)], cast_query({column: "bigint"})
        return (
            f"if they are {unit} since 1970, make numbers of them: in [logs.{log}] write "
            f"query = '{numbers}' and time_unit = \"{unit}\""
        )
    for form in _LESS_USUAL:
        with suppress(ValueError):
            datetime.strptime(example, form)
            return f'set ts_format in [logs.{log}]: "{form}" reads {example!r}'
    return f'set ts_format in [logs.{log}]: "%Y-%m-%d %H:%M:%S" is 2026-07-01 09:30:00'


def _format(order: str, shape: _Shape) -> str:
    """Write the format of the example, with day and month in an order."""
    separator = next(c for c in shape.example if c in "/.-")
    clock = ("", " %H:%M", " %H:%M:%S")[min(shape.example.count(":"), 2)]
    return order.replace("/", separator) + separator + "%Y" + clock


def _read_formatted(
    log: str, relation: str, column: str, text: str, format: str, rows: Rows
) -> Time:
    """Read times by a format of the experiment file."""
    value = f"try_strptime({text}, {literal(format)})"
    ((values, read, example),) = rows(
        f"select count({text}), count({value}), min(case when {value} is null then {text} end) "
        f"from {quote(relation)}"
    )
    if int(str(read)) < _MOST * int(str(values)):
        raise LogError(
            f"logs.{log}: ts_format {format!r} reads {read:,} of {values:,} times in {column!r}; "
            f"it does not read {example!r}",
            "write the format as in Python's strptime: %d day, %m month, %Y year, %H:%M:%S clock",
        )
    kind = "timestamp" if any(part in format for part in _CLOCK_PARTS) else "date"
    kind = _ZONED if "%z" in format or "%Z" in format else kind
    return Time(column, f"cast({value} as {kind})", kind)
