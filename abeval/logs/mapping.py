"""Map the columns of a log to canonical names, and check their types.

Canonical names are abeval's own, such as `unit_id`; a column that has one already needs no entry.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from abeval.engines.sources import name_relation
from abeval.engines.sql import FRACTION, NO_TYPE, WHOLE, cast_query, is_number
from abeval.errors import LogError
from abeval.experiment.problems import suggest_near_name
from abeval.experiment.sources import (
    IDS,
    OUTCOME,
    LogSource,
    list_canonical_columns,
)
from abeval.logs.files import FileFacts, Types, describe_files_with_type, describe_mixed_id

SERVED_FLAGS = ("timeout", "fallback", "stale")
"""Columns that say that a variant was not served as meant."""

EVENT_IDS = (
    *("event_id", "eventid", "event_uuid", "message_id", "messageid", "msg_id", "insert_id"),
    *("insertid", "$insert_id", "impression_uuid", "uuid", "guid", "hit_id", "dedup_id"),
    *("dedupe_id", "dedup_key", "idempotency_key"),
)
"""Names of columns that identify an event: their values repeat only with it."""

ORDER_IDS = ("order_id", "orderid", "transaction_id", "transactionid")
"""Names of columns that several rows may share, but that equal rows of one event do."""

CLICK_KEYS = ("key_1", "key_2", "key_3")
"""Columns that tie a click to its impression."""

_DELIVERY = re.compile(
    r"(^|.*[_\W])(received?|ingest\w*|loaded|inserted|arrived|processed|collect(ed|or)|sent|"
    r"upload(ed)?|server|host|batch|offset|partition|attempts?|retry|retries|sequence|seq|etl)"
    r"([_\W].*|$)|_?id|index|(row|record|log)_?(id|no|number|index)",
    re.IGNORECASE,
)
"""Names of columns about the delivery of a row, not about its event."""

_TEXT = re.compile(r"^(VARCHAR|UUID|ENUM\(.*\))$", re.DOTALL)
_NUMBERS = ("click", "dwell", "score", "position", "rank", "propensity", "grade", *SERVED_FLAGS)
_NAMES = ("variant", "category", "model")
_TYPE_HINT = (
    "map another column, or change the type where the log is written; one text value makes a whole "
    "column of a CSV or JSON file text"
)


@dataclass(frozen=True)
class LogColumns:
    """Hold the columns of one log, by its path below `logs` in the file.

    `mapped` is canonical name → the log's column; `source` is its entry in the experiment file.
    `has_seconds` is false where all times are whole minutes; `has_other_seconds` where those of all
    other columns are too.
    """

    log: str
    types: Mapping[str, str]
    mapped: Mapping[str, str]
    source: LogSource = field(default_factory=LogSource)
    has_seconds: bool = True
    has_other_seconds: bool = True

    def __contains__(self, canonical: str) -> bool:
        return canonical in self.mapped

    def find_type(self, canonical: str) -> str:
        """Return the type of a mapped column; empty where the log has none."""
        return self.types[self.mapped[canonical]] if canonical in self else ""

    @property
    def other_times(self) -> list[str]:
        """List the columns of timestamps besides the log's time."""
        return [
            column
            for column, kind in self.types.items()
            if kind.startswith("TIMESTAMP") and column != self.mapped.get("ts")
        ]

    def make_unused_name(self, name: str) -> str:
        """Make a name for a computed column that no column of the log has."""
        taken = {column.lower() for column in self.types}
        while name in taken:
            name += "_"
        return name

    @property
    def raw(self) -> str:
        """Name the relation of the log's rows."""
        return name_relation("raw", self.log)

    @property
    def may_have_days(self) -> bool:
        """Tell whether midnights of its times may be days: they have no zone."""
        kind = self.find_type("ts")
        is_zoned = "TZ" in kind or "ZONE" in kind or self.source.ts_zone is not None
        return kind.startswith("TIMESTAMP") and not is_zoned

    def is_text(self, canonical: str) -> bool:
        """Tell whether a mapped column holds text."""
        return _TEXT.match(self.find_type(canonical)) is not None

    @property
    def columns_hint(self) -> str:
        """Write the hint of an error about a column that the log does not have."""
        return f"the log has: {', '.join(self.types)}"


def make_missing_column_error(log: LogColumns, column: str, where: str = "") -> LogError:
    """Make the error of a column that the log does not have."""
    what = f"{where}the {log.log} have no column {column!r}{suggest_near_name(column, log.types)}"
    return LogError(what, log.columns_hint)


def tells_events_apart(log: LogColumns) -> bool:
    """Tell whether equal rows report one event.

    They do if the rows have an id, or a time to the second. In one minute a unit may do the same
    thing twice. A table of units has no events.
    """
    is_timed = log.has_other_seconds and bool(log.other_times)
    is_timed |= log.has_seconds and log.find_type("ts") not in ("", "DATE")
    has_id = any(column.lower() in (*EVENT_IDS, *ORDER_IDS) for column in log.types)
    has_id |= "impression_id" in log or "request_id" in log
    return log.log == "units" or is_timed or has_id


def list_compared_columns(log: LogColumns) -> list[str]:
    """List the columns in which two rows of one event are equal.

    Times other than the event's, and columns named like parts of a delivery, may differ. All
    columns are compared where a row does not say what it is of.
    """
    is_event = "ts" in log and log.find_type("ts") != "DATE" and log.has_seconds
    if log.log == "impressions":
        is_event &= "unit_id" in log and "item_id" in log
    if not is_event and log.log != "units":
        # In one second there may be several events, which nothing else tells apart.
        return [*log.types]

    def is_delivery(column: str, kind: str) -> bool:
        # `receivedAt` is matched like `received_at`.
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column)
        is_time = is_event and kind.startswith("TIMESTAMP")
        return is_time or _DELIVERY.fullmatch(spaced) is not None

    mapped = {*log.mapped.values()}
    return [c for c, kind in log.types.items() if c in mapped or not is_delivery(c, kind)]


def map_columns(
    log: str, source: LogSource, types: Types, unit: str | None, files: FileFacts | None = None
) -> LogColumns:
    """Find the canonical columns of a log: as mapped, else by their own names.

    `unit` is the column of the unit, None for a log without units.

    Raises:
        LogError: A mapped column does not exist, or has an unsuitable type.
    """
    file_columns = {**({} if unit is None else {"unit_id": unit}), **source.columns}
    default_columns = {
        name: name for name in list_canonical_columns(log) if name not in file_columns
    }
    if unit is None:
        default_columns.pop("unit_id", None)
    # Reversed, so that the first of columns that differ in case wins.
    by_lower = {column.lower(): column for column in [*types][::-1]}
    matched_columns = {
        name: column if column in types else by_lower.get(column.lower())
        for name, column in (default_columns | file_columns).items()
    }
    problems = [
        f"logs.{log}: no column {column!r} for {name}{suggest_near_name(column, types)}"
        for name, column in file_columns.items()
        if matched_columns[name] is None
    ]
    mapped = {
        name: column
        for name, column in matched_columns.items()
        # A text of the name of a flag, which nobody mapped, means something else.
        if column is not None
        and (name in file_columns or name not in SERVED_FLAGS or is_number(types[column]))
    }
    columns = LogColumns(log, types, mapped, source)
    if problems:
        raise LogError("\n".join(problems), columns.columns_hint)
    needed, why = "item_id", ""
    if log.startswith(OUTCOME):
        needed, why = "ts", ": an outcome counts from the unit's exposure on"
    if (log == "items" or why) and needed not in columns:
        hint = f'map it: columns = {{ {needed} = "..." }}; {columns.columns_hint}'
        raise LogError(f"logs.{log}: no column {needed}{why}", hint)
    facts = FileFacts() if files is None or source.query is not None else files
    _check_ids(columns, facts)
    _check_types(columns, facts)
    return columns


def _check_ids(columns: LogColumns, files: FileFacts) -> None:
    """Raise if an id is text in some files and a number in others."""
    # Requests and impressions of one file have no rows in others.
    for name in ("unit_id", "item_id"):
        column = columns.mapped.get(name)
        mixed = None if column is None else describe_mixed_id(files, column)
        if column is None or mixed is None:
            continue
        # Elsewhere the engine reads them as values of JSON.
        cast = (
            f"; or, where every id is a whole number, in [logs.{columns.log}]: "
            f"query = '{cast_query({column: 'bigint'})}'; else the same with varchar"
        )
        raise LogError(
            f"logs.{columns.log}: column {column!r} is {mixed}: 12 and '0012' would be two "
            "different ids",
            f"write it with one type{cast if columns.is_text(name) else ''}",
        )


def _check_types(columns: LogColumns, files: FileFacts) -> None:
    problems, types = [], columns.types
    for name, column in columns.mapped.items():
        problem = _type_problem(name, types[column], columns.source)
        if problem is not None:
            of_type = f"{types[column]}{describe_files_with_type(files, column, types[column])}"
            problems.append(f"logs.{columns.log}: column {column!r} is {of_type}, {problem}")
    if not problems:
        return
    wholes = (column for name, column in columns.mapped.items() if name in (*IDS, "ts"))
    decimal = next((c for c in wholes if FRACTION.match(types[c])), None)
    hint = _TYPE_HINT
    if decimal is None and all("time_unit" in problem for problem in problems):
        hint = f"write it in [logs.{columns.log}], or map another column"
    if decimal is not None:
        hint = (
            "pandas writes whole numbers with a null so; where every value is whole, write in "
            f"[logs.{columns.log}]: query = '{cast_query({decimal: 'bigint'})}'; or {hint}"
        )
    raise LogError("\n".join(problems), hint)


def _type_problem(canonical: str, kind: str, source: LogSource) -> str | None:
    """Say why a column cannot be of a type; None where it can."""
    # A column of nulls fits everywhere.
    if kind == NO_TYPE:
        return None
    if canonical == "ts":
        return _find_time_problem(kind, source)
    if canonical in IDS and not (WHOLE.match(kind) or _TEXT.match(kind)):
        why = ": 123 and 123.0 would be two different ids" if FRACTION.match(kind) else ""
        return f"but {canonical} must be a whole number or text{why}"
    if canonical in _NUMBERS and not is_number(kind):
        return f"but {canonical} must be a number"
    if canonical in _NAMES and not (_TEXT.match(kind) or is_number(kind)):
        return f"but {canonical} must be text or a number"
    return None


def _find_time_problem(kind: str, source: LogSource) -> str | None:
    is_timestamp = kind.startswith("TIMESTAMP")
    if source.ts_zone is not None and not is_timestamp:
        return "so ts_zone, which is for times of day without a zone, has no meaning: remove it"
    if source.ts_zone is not None and kind.startswith(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")):
        return "which has a zone, so ts_zone has no meaning: remove it"
    if is_timestamp or kind == "DATE":
        return "so time_unit has no meaning: remove it" if source.time_unit else None
    if not WHOLE.match(kind):
        return "but ts must be a timestamp, a date, or a whole number with time_unit"
    if source.time_unit is None:
        return (
            'so set its unit since 1970: time_unit = "s", "ms", "us" or "ns"; or, of dates such as '
            '20260914, ts_format = "%Y%m%d"'
        )
    return None


def name_raw_column(column: str) -> str:
    """Name a log's column in the views; no canonical name begins so."""
    return f"raw_{column}"
