"""CSV and JSON logs: ids, names and times as they are written, all else as DuckDB finds the types.

DuckDB takes types from the first rows, so that an id such as `00100000` further down would become
100000, and reads 7/3/2020 in whatever order of day and month fits. Here ids become whole numbers
only where no digit is lost; names of variants stay text; times stay text until all were looked at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from duckdb import sqltype
from duckdb.sqltypes import DuckDBPyType

from abeval.engines.sources import Files, exact, log_name, partitions
from abeval.engines.sql import literal, quoted
from abeval.errors import LogError
from abeval.experiment.sources import IDS, LogSource, canonical_columns

_NAMES = ("variant", "category", "model", "stage")
VARIANT = "variant"
"""The column of the variant where the files of a log say it."""
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_OF_STRINGS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")
"""Types that DuckDB makes of strings of JSON."""

NOT_AS_WRITTEN = "abeval: a value would not keep its digits"
"""What the error of an id says that would not be as it is written."""

Rows = Callable[[str], Sequence[tuple[object, ...]]]
"""Runs SQL and fetches its rows."""

Types = Mapping[str, str]
"""Column → its type, in order."""


def listed(files: Sequence[str]) -> str:
    """Write the SQL of a list of files for readers that take names for globs."""
    return f"[{', '.join(literal(exact(file)) for file in files)}]"


def parquet_rows(files: Files, source: LogSource) -> str:
    """Write what reads Parquet files."""
    folders = partitions(files.read)
    options = f"union_by_name = true, hive_partitioning = {'true' if folders else 'false'}"
    names = mapped(source, sorted(folders), _NAMES)
    options += _as_text("hive_types", names) + _named_by_file(files)
    return f"read_parquet({listed(files.read)}, {options})"


def _named_by_file(files: Files) -> str:
    """Write the option by which a file's name is the variant of its rows, where it is."""
    return f", filename = {literal(VARIANT)}" if files.variants else ""


def variant_of_file(files: Files) -> str:
    """Write the variant of a row by the name of its file."""
    cases = " ".join(
        f"when {literal(file)} then {literal(variant)}" for file, variant in files.variants.items()
    )
    return f"case {VARIANT} {cases} else {VARIANT} end"


def csv_rows(files: Files, sample: str, texts: Sequence[str] = ()) -> str:
    """Write what reads CSV files, some columns as text.

    `sample` is the option of how many rows tell the types; empty for the first ones.
    """
    # By itself DuckDB leaves out lines at the top, up to a second header, and "comments".
    every = "union_by_name = true, header = true, skip = 0, comment = ''"
    folders = {name.lower() for name in partitions(files.read)}
    kinds = _as_text("hive_types", [c for c in texts if c.lower() in folders])
    own = (c for c in texts if c.lower() not in folders and not (files.variants and c == VARIANT))
    kinds += _as_text("types", [*own]) + _named_by_file(files)
    options = f"{every}, dateformat = '%Y-%m-%d'{files.dialect}{sample}{kinds}"
    return f"read_csv({listed(files.read)}, {options})"


def _as_text(option: str, columns: Sequence[str]) -> str:
    """Write an option by which columns are read as text."""
    texts = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in dict.fromkeys(columns))
    return f", {option} = {{{texts}}}" if texts else ""


def json_rows(files: Files, types: Types | None = None, texts: Sequence[str] = ()) -> str:
    """Write what reads JSON files, some columns as text where they are strings.

    Without `types`, all rows are looked at: DuckDB would drop a key that only later rows have.
    """
    every = f"{listed(files.read)}, union_by_name = true{_named_by_file(files)}"
    strings = [column for column in texts if types and types[column] in _OF_STRINGS]
    if types is None or not strings:
        many = f"sample_size = -1, maximum_sample_files = {len(files.read)}"
        return f"read_json({every}, {many})"
    typed = {**types, **dict.fromkeys(strings, "VARCHAR")}
    if files.variants:
        del typed[VARIANT]
    kinds = ", ".join(f"{literal(c)}: {literal(kind)}" for c, kind in typed.items())
    return f"read_json({every}, columns = {{{kinds}}})"


def column_types(rows: Rows, relation: str) -> dict[str, str]:
    """Find column names and types of a relation, or of what reads files, in order."""
    return {str(name): str(kind) for name, kind, *_ in rows(f"describe from {relation}")}


def fields(types: Types) -> dict[str, str]:
    """Find the fields of structs, at any depth: their dotted names, unless columns have these.

    Returns name → SQL of it.
    """
    sql = dict[str, str]()

    def visit(name: str, text: str, kind: DuckDBPyType) -> None:
        if kind.id != "struct":
            sql[name] = text
            return
        for field, inner in kind.children:
            visit(f"{name}.{field}", f"{text}[{literal(str(field))}]", DuckDBPyType(inner))

    for column, kind in types.items():
        if kind.startswith("STRUCT("):
            visit(column, quoted(column), sqltype(kind))
    known = {column.lower() for column in types}
    return {name: text for name, text in sql.items() if name.lower() not in known}


def with_fields(types: Types, reads: str | None = None) -> str:
    """Write all columns, and as further ones the fields of structs that the text `reads` names."""
    text = None if reads is None else reads.lower()
    named = {name: sql for name, sql in fields(types).items() if not text or name.lower() in text}
    return ", ".join(["*", *(f"{sql} as {quoted(name)}" for name, sql in named.items())])


_POINTS = "[0-9]{1,3}([.][0-9]{3})+"
_COMMAS = f"[+-]?([0-9]+|{_POINTS})(,[0-9]+)?"
_THOUSANDS = "[+-]?[0-9]{1,3},[0-9]{3}"


def decimal_commas(relation: str, columns: Iterable[str], rows: Rows) -> dict[str, str]:
    """Find columns of text whose values are all like 1234,5 or 1.234,5, each with an example.

    That is like 1,234, where commas may be between thousands, only if all values with one are.
    """
    texts = [*columns]
    if not texts:
        return {}
    facts = ", ".join(
        f"bool_and({_matches(f'trim({text})', _COMMAS)}), max_by({text}, "
        f"contains({text}, ',')::int + (not {_matches(f'trim({text})', _THOUSANDS)})::int)"
        for text in map(quoted, texts)
    )
    (row,) = rows(f"select {facts} from {quoted(relation)}")
    return {
        column: str(example)
        for column, fits, example in zip(texts, row[::2], row[1::2], strict=True)
        if fits and "," in str(example)
    }


def mapped(source: LogSource, types: Iterable[str], names: Sequence[str] = IDS) -> list[str]:
    """List the columns of a log that hold these canonical ones, or have their names."""
    wanted = {name.lower() for name in (*names, *(source.columns.get(n, n) for n in names))}
    return [column for column in types if column.lower() in wanted]


def text_columns(name: str, source: LogSource, types: Types) -> list[str]:
    """List the columns of a log that are read as text: ids, names, times that do not count."""
    texts = [*mapped(source, types), *mapped(source, types, _NAMES)]
    if "ts" in canonical_columns(log_name(name)):
        time = source.columns.get("ts", "ts").lower()
        numbers = () if source.ts_format else (*_WHOLE, "DOUBLE")
        texts += [c for c, kind in types.items() if c.lower() == time and kind not in numbers]
    return texts


def read_columns(name: str, source: LogSource, types: Types, reads: str | None) -> Sequence[str]:
    """List the columns of a log that are kept of all that it has: those of structs, too.

    A column that is read by its own name stands somewhere in the text `reads`; None keeps all.
    """
    columns = [*types]
    if reads is None:
        return columns
    text = reads.lower()
    canonical = mapped(source, columns, [*canonical_columns(log_name(name)), *source.columns])
    named = [c for c in columns if c in canonical or c.lower() in text or not _is_plain(c)]
    named += [c for c in columns if c not in named and types[c].startswith("STRUCT(")]
    return named or columns


def _is_plain(column: str) -> bool:
    """Tell whether a text names a column as it is; some characters are escaped."""
    return column.isprintable() and not {*column} & {*"\"'\\"}


def _is_as_written(column: str) -> str:
    text = quoted(column)
    return f"trim({text}) = cast(try_cast({text} as bigint) as varchar)"


def whole_ids(source: LogSource, types: Types, columns: Sequence[str]) -> str:
    """Write columns, with ids that look whole as whole numbers; an error where one is not."""
    whole = [column for column in mapped(source, types) if types[column] in _WHOLE]
    return ", ".join(
        f"case when {quoted(c)} is null or {_is_as_written(c)} then cast({quoted(c)} as bigint) "
        f"else error({literal(NOT_AS_WRITTEN)}) end as {quoted(c)}"
        if c in whole
        else quoted(c)
        for c in columns
    )


def settle_ids(name: str, columns: Sequence[str], rows: Rows) -> dict[str, str]:
    """Make whole numbers of the ids that all are, and doubles of numbers with a point.

    `map_columns` refuses these: 123 and 123.0 would be two ids. Returns the new types.
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
            cast = f"set data type {kind} using cast({text} as {kind})"
            rows(f"alter table {quoted(name)} alter {text} {cast}")
    return types


_CLOCK = "[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
_ZONE = "( ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?|[A-Za-z]+/[A-Za-z_/]+))?"
_ISO = f"[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}({_CLOCK}{_ZONE})?"
_DAY_AND_MONTH = "([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4})"
_OTHER = f"{_DAY_AND_MONTH}({_CLOCK}{_ZONE})?"
_DAY_FIRST, _MONTH_FIRST = r"\3-\2-\1", r"\3-\1-\2"
_CLOCK_PARTS = ("%H", "%I", "%-H", "%-I", "%c", "%X", "%M", "%S")
_ZONED = "timestamp with time zone"
_MOST = 0.8
"""Share of the values that a format must read; the others become null, and are counted."""


class Time(NamedTuple):
    """How a text is read as a time: its column, SQL that is null for no time, and its type."""

    column: str
    sql: str
    kind: str


def time_of_text(log: str, relation: str, source: LogSource, rows: Rows) -> Time | None:
    """Find how times are read that are text, or numbers such as 20260701; None for all others.

    Raises:
        LogError: The order of day and month is not clear, the values have no format in common, or
            the file gives a format for a column that is a time already.
    """
    if "ts" not in canonical_columns(log) or source.time_unit is not None:
        return None
    name, types = source.columns.get("ts", "ts"), column_types(rows, quoted(relation))
    column = next((c for c in (name, *types) if c in types and c.lower() == name.lower()), None)
    if column is None:
        return None
    is_text = types[column] == "VARCHAR" or types[column].startswith("ENUM(")
    text = f"trim(cast({quoted(column)} as varchar))"
    if source.ts_format is None:
        if not is_text:
            return None
        shape, value = _shape(relation, text, rows), text
        if shape.iso < _MOST * shape.values:
            value = _reordered(log, column, text, shape)
        elif shape.others:
            value = f"case when {_matches(text, _ISO)} then {text} end"
        kind = "date" if shape.clocks == 0 else "timestamp" if shape.zones == 0 else _ZONED
        return Time(column, f"try_cast({value} as {kind})", kind)
    if not is_text and types[column] not in _WHOLE:
        what = f"logs.{log}: column {column!r} is {types[column]}, so ts_format has no meaning"
        raise LogError(what, "remove it")
    return _formatted(log, relation, column, text, source.ts_format, rows)


class _Shape(NamedTuple):
    """How many texts look how; `day_first` and `month_first` are those that show their order."""

    values: int
    clocks: int
    zones: int
    iso: int
    others: int
    day_first: int
    month_first: int
    example: str


def _shape(relation: str, text: str, rows: Rows) -> _Shape:
    first, second = (f"cast(regexp_extract(v, '{_DAY_AND_MONTH}', {i}) as int)" for i in (1, 2))
    ((*counts, example),) = rows(f"""
    with texts as (select {text} as v from {quoted(relation)}),
    counted as (
      select v, {_matches("v", _ISO)} as is_iso, contains(v, ':') as has_clock,
        contains(v, ':') and regexp_matches(v, ':[0-9.,]+ ?[A-Za-z+-]') as has_zone
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
    return _Shape._make([*(int(str(n or 0)) for n in counts), str(example)])


def _matches(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, '{pattern}')"


def _reordered(log: str, column: str, text: str, shape: _Shape) -> str:
    """Write the text with its date in the order of ISO 8601."""
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
    """Write the format of the example, with day and month in an order."""
    separator = next(c for c in shape.example if c in "/.-")
    clock = ("", " %H:%M", " %H:%M:%S")[min(shape.example.count(":"), 2)]
    return order.replace("/", separator) + separator + "%Y" + clock


def _formatted(log: str, relation: str, column: str, text: str, format: str, rows: Rows) -> Time:
    """Read times by a format of the experiment file."""
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
    kind = "timestamp" if any(part in format for part in _CLOCK_PARTS) else "date"
    kind = _ZONED if "%z" in format or "%Z" in format else kind
    return Time(column, f"cast({value} as {kind})", kind)
