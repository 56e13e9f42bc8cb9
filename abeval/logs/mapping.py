"""Which column of a log is what, and whether its type can be that."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from abeval.errors import LogError
from abeval.experiment.consistency import CANONICAL_COLUMNS
from abeval.experiment.model import LogSource
from abeval.experiment.problems import suggestion

_NUMBER = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL.*|BOOLEAN)$")
_WHOLE = re.compile(r"^U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)$")
_TIME = re.compile(r"^(TIMESTAMP.*|DATE)$")
_FLOATING = re.compile(r"^(FLOAT|DOUBLE)$")


@dataclass(frozen=True)
class LogColumns:
    """The columns of one log.

    Attributes:
        log: Its name in the experiment file.
        types: Every column of the log and its type.
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


def map_columns(
    log: str, source: LogSource, types: Mapping[str, str], unit: str | None
) -> LogColumns:
    """Find the canonical columns of a log: as the file maps them, else by their own names.

    Args:
        log: `impressions`, `clicks`, `items` or `exposures`.
        source: The log's entry in the experiment file.
        types: The log's columns and types.
        unit: The column of the unit where the log has one, else None.

    Raises:
        LogError: A column is not there, or its type cannot be what it is mapped to.
    """
    wanted = {**({"unit_id": unit} if unit is not None else {}), **source.columns}
    found = {name: _find(column, types) for name, column in wanted.items()}
    problems = [
        f"logs.{log}: no column {wanted[name]!r} for {name}{suggestion(wanted[name], types)}"
        for name, column in found.items()
        if column is None
    ]
    if problems:
        raise LogError("\n".join(problems), f"the log has: {', '.join(types)}")
    defaults = {name: _find(name, types) for name in CANONICAL_COLUMNS[log] if name not in found}
    if unit is None:
        defaults.pop("unit_id", None)
    mapped = {name: column for name, column in {**defaults, **found}.items() if column is not None}
    columns = LogColumns(log, types, mapped)
    _check_types(columns, source)
    return columns


def _find(name: str, types: Mapping[str, str]) -> str | None:
    if name in types:
        return name
    return next((column for column in types if column.lower() == name.lower()), None)


def _check_types(columns: LogColumns, source: LogSource) -> None:
    problems = [
        f"logs.{columns.log}: column {column!r} is {columns.types[column]}, {problem}"
        for name, column in columns.mapped.items()
        if (problem := _type_problem(name, columns.types[column], source)) is not None
    ]
    if problems:
        raise LogError("\n".join(problems))


def _type_problem(canonical: str, kind: str, source: LogSource) -> str | None:
    match canonical:
        case "unit_id" | "item_id" | "impression_id" | "request_id" if _FLOATING.match(kind):
            return f"but {canonical} must be a whole number or text: 123 and 123.0 would be two of them"
        case "ts" if _WHOLE.match(kind) and source.time_unit is None:
            return "so say what it counts since 1970: time_unit = \"s\", \"ms\", \"us\" or \"ns\""
        case "ts" if not (_TIME.match(kind) or _WHOLE.match(kind)):
            return "but ts must be a timestamp, a date, or a whole number with time_unit"
        case "click" | "dwell" | "score" | "position" if not _NUMBER.match(kind):
            return f"but {canonical} must be a number"
    return None
