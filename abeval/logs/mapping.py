"""The columns of a log by their canonical names, with checks of their types.

`prepare.py` and the offline logs (`offline/candidates/`) give it a log's entry in the file and the
columns of the engine; the views are written from what comes back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.experiment.columns import IDS, canonical_columns
from abeval.experiment.problems import near_miss
from abeval.experiment.sources import OWN_TABLE, LogSource
from abeval.logs.files import FileFacts, mixed_id, with_type

_WHOLE = re.compile(r"^(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|DECIMAL\(\d+,0\))$")
_FRACTION = re.compile(r"^(FLOAT|DOUBLE|DECIMAL.*)$")
_TIME = re.compile(r"^(TIMESTAMP.*|DATE)$")
_ZONED = re.compile(r"^TIMESTAMP(TZ| WITH TIME ZONE)")
_TEXT = re.compile(r"^(VARCHAR|UUID|ENUM\(.*\))$", re.DOTALL)
SERVED_FLAGS = ("timeout", "fallback", "stale")
"""Columns of the impressions that say that the variant was not served as it was meant."""

_NOTHING = '"NULL"'
"""The type of a column that is null in every row."""


@dataclass(frozen=True)
class LogColumns:
    """The columns of one log.

    Attributes:
        log: The name of the log in the experiment file.
        types: The type of every column of the log.
        mapped: Canonical name → the log's own column.
    """

    log: str
    types: Mapping[str, str]
    mapped: Mapping[str, str]

    def __contains__(self, canonical: str) -> bool:
        return canonical in self.mapped

    def type_of(self, canonical: str) -> str:
        """The type of a mapped column."""
        return self.types[self.mapped[canonical]]

    def unused(self, name: str) -> str:
        """A name for a computed column that no column of the log has."""
        taken = {column.lower() for column in self.types}
        while name in taken:
            name += "_"
        return name

    def is_text(self, canonical: str) -> bool:
        """Whether a mapped column holds text."""
        return _TEXT.match(self.type_of(canonical)) is not None


def no_column(log: LogColumns, column: str, where: str = "") -> LogError:
    """The error of a column that the impressions do not have."""
    what = f"{where}the {log.log} have no column {column!r}{near_miss(column, log.types)}"
    return LogError(what, f"the log has: {', '.join(log.types)}")


def map_columns(
    log: str,
    source: LogSource,
    types: Mapping[str, str],
    unit: str | None,
    files: FileFacts | None = None,
) -> LogColumns:
    """The canonical columns of a log: as the experiment file maps them, else by their own names.

    Args:
        log: `impressions`, `clicks`, `items`, `exposures`, or `events.NAME` of an outcome log.
        source: The log's entry in the experiment file.
        types: The type of every column of the log.
        unit: The column of the unit, None for a log without units.
        files: What is to be known of its files, if it is read from files.

    Raises:
        LogError: A mapped column does not exist, or has an unsuitable type.
    """
    named = {**({"unit_id": unit} if unit is not None else {}), **source.columns}
    chosen = {name: _find(column, types) for name, column in named.items()}
    problems = [
        f"logs.{log}: no column {named[name]!r} for {name}{near_miss(named[name], types)}"
        for name, column in chosen.items()
        if column is None
    ]
    if problems:
        raise LogError("\n".join(problems), f"the log has: {', '.join(types)}")
    defaults = {name: _find(name, types) for name in canonical_columns(log) if name not in chosen}
    if unit is None:
        defaults.pop("unit_id", None)
    for flag in SERVED_FLAGS:
        # A text of this name, which nobody mapped, means something else.
        if (column := defaults.get(flag)) is not None and not is_number(types[column]):
            defaults.pop(flag)
    mapped = {name: column for name, column in {**defaults, **chosen}.items() if column is not None}
    columns = LogColumns(log, types, mapped)
    if log == "items" and "item_id" not in columns:
        raise LogError(
            "logs.items: no column item_id",
            'map it: columns = { item_id = "..." }; the log has: ' + ", ".join(types),
        )
    facts = FileFacts() if files is None or source.query is not None else files
    _check_ids(columns, facts)
    _check_types(columns, source, facts)
    return columns


def _find(name: str, types: Mapping[str, str]) -> str | None:
    if name in types:
        return name
    return next((column for column in types if column.lower() == name.lower()), None)


def _check_types(columns: LogColumns, source: LogSource, files: FileFacts) -> None:
    problems = [
        f"logs.{columns.log}: column {column!r} is {columns.types[column]}"
        f"{with_type(files, column, columns.types[column])}, {problem}"
        for name, column in columns.mapped.items()
        if (problem := _type_problem(name, columns.types[column], source)) is not None
    ]
    if not problems:
        return
    decimal = [c for n, c in columns.mapped.items() if _is_decimal_id(n, columns.types[c])]
    hint = f"{_cast_hint(columns.log, decimal[0])}; or {_TYPE_HINT}" if decimal else _TYPE_HINT
    raise LogError("\n".join(problems), hint)


def _is_decimal_id(canonical: str, kind: str) -> bool:
    return canonical in IDS and _FRACTION.match(kind) is not None


def _cast_hint(log: str, column: str) -> str:
    return (
        "pandas writes whole numbers with a null so; where every id is whole, write in "
        f"[logs.{log}]: query = '{cast_query(column, 'bigint')}'"
    )


def _check_ids(columns: LogColumns, files: FileFacts) -> None:
    """Refuse ids that are text in some files and numbers in others: one could be two ids."""
    # Requests and impressions of one file have no rows in others.
    for name in ("unit_id", "item_id"):
        column = columns.mapped.get(name)
        mixed = None if column is None else mixed_id(files, column)
        if column is not None and mixed is not None:
            raise LogError(
                f"logs.{columns.log}: column {column!r} is {mixed}: 12 and '0012' would be two "
                "different ids",
                f"write it with one type{_or_cast(columns, column)}",
            )


def _or_cast(columns: LogColumns, column: str) -> str:
    """How to cast ids of several types; nothing where the engine reads them as values of JSON."""
    if _TEXT.match(columns.types[column]) is None:
        return ""
    return (
        f"; or, where every id is a whole number, in [logs.{columns.log}]: "
        f"query = '{cast_query(column, 'bigint')}'; else the same with varchar"
    )


def cast_query(column: str, kind: str) -> str:
    """The `query` of a log that gives a column another type.

    Example:
        >>> cast_query("user_id", "bigint")
        'select * replace (cast("user_id" as bigint) as "user_id") from log'
    """
    name = quoted(column)
    return f"select * replace (cast({name} as {kind}) as {name}) from {OWN_TABLE}"


_TYPE_HINT = (
    "map another column, or change the type where the log is written; one text value makes a whole "
    "column of a CSV or JSON file text"
)


def is_number(kind: str) -> bool:
    """Whether a column of this type can be summed."""
    return any(r.match(kind) for r in (_WHOLE, _FRACTION)) or kind in ("BOOLEAN", _NOTHING)


def _type_problem(canonical: str, kind: str, source: LogSource) -> str | None:
    if kind == _NOTHING:
        return None
    match canonical:
        case name if name in IDS:
            return _id_problem(canonical, kind)
        case "ts":
            return _time_problem(kind, source)
        case (
            "click"
            | "dwell"
            | "score"
            | "position"
            | "rank"
            | "propensity"
            | "grade"
            | "timeout"
            | "fallback"
            | "stale"
        ) if not is_number(kind):
            return f"but {canonical} must be a number"
        case "variant" | "category" | "model" | "stage" if not (
            _TEXT.match(kind) or is_number(kind)
        ):
            return f"but {canonical} must be text or a number"
    return None


def _id_problem(canonical: str, kind: str) -> str | None:
    if _WHOLE.match(kind) or _TEXT.match(kind):
        return None
    why = ": 123 and 123.0 would be two different ids" if _FRACTION.match(kind) else ""
    return f"but {canonical} must be a whole number or text{why}"


def _time_problem(kind: str, source: LogSource) -> str | None:
    if source.ts_zone is not None and not kind.startswith("TIMESTAMP"):
        return "so ts_zone, which is for times of day without a zone, has no meaning: remove it"
    if source.ts_zone is not None and _ZONED.match(kind):
        return "which has a zone, so ts_zone has no meaning: remove it"
    if _TIME.match(kind):
        return "so time_unit has no meaning: remove it" if source.time_unit else None
    if not _WHOLE.match(kind):
        return "but ts must be a timestamp, a date, or a whole number with time_unit"
    if source.time_unit is None:
        return 'so set its unit since 1970: time_unit = "s", "ms", "us" or "ns"'
    return None
