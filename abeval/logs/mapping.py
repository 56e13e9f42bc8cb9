"""The columns of a log by their canonical names: checks of their types, and the SQL of each.

`opening.py` and the offline logs (`offline/candidates/`) give it a log's entry in the file and the
columns of the engine; the views are written from what comes back.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, quoted
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import near_miss
from abeval.experiment.sources import (
    IDS,
    OUTCOME,
    OWN_TABLE,
    ROW_UNIT,
    ClickLog,
    ImpressionLog,
    LogSource,
    canonical_columns,
)
from abeval.logs.files import FileFacts, mixed_id, with_type

SERVED_FLAGS = ("timeout", "fallback", "stale")
"""Columns of the impressions that say that the variant was not served as it was meant."""

CLICK_KEYS = ("key_1", "key_2", "key_3")
"""Columns that tie a click to its impression."""

_WHOLE = re.compile(r"^(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|DECIMAL\(\d+,0\))$")
_FRACTION = re.compile(r"^(FLOAT|DOUBLE|DECIMAL.*)$")
_TEXT = re.compile(r"^(VARCHAR|UUID|ENUM\(.*\))$", re.DOTALL)
_NOTHING = '"NULL"'
"""The type of a column that is null in every row."""

_NUMBERS = ("click", "dwell", "score", "position", "rank", "propensity", "grade", *SERVED_FLAGS)
_NAMES = ("variant", "category", "model", "stage")
_TYPE_HINT = (
    "map another column, or change the type where the log is written; one text value makes a whole "
    "column of a CSV or JSON file text"
)

_NO_CAST = ("INTEGER", "BIGINT")
"""Types that need no cast to double; narrower ones cannot hold the bounds of the values."""

_SECONDS = (-62_104_060_800, 253_370_764_799)
"""The years 2 to 9998; a time outside them is no time, for not every day there is a date."""

_TIMES = {
    "s": (*_SECONDS, "* 1000"),
    "ms": (*(bound * 1_000 for bound in _SECONDS), "* 1"),
    "us": (*(bound * 1_000_000 for bound in _SECONDS), "// 1000"),
    "ns": (-9_200_000_000_000_000_000, 9_200_000_000_000_000_000, "// 1000000"),
}
"""Unit of a time that is a number → the least, the largest, and what makes milliseconds of it."""


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
        """The type of a mapped column; empty where the log has none."""
        return self.types[self.mapped[canonical]] if canonical in self else ""

    def unused(self, name: str) -> str:
        """A name for a computed column that no column of the log has."""
        taken = {column.lower() for column in self.types}
        while name in taken:
            name += "_"
        return name

    def is_text(self, canonical: str) -> bool:
        """Whether a mapped column holds text."""
        return _TEXT.match(self.type_of(canonical)) is not None

    @property
    def listed(self) -> str:
        """The hint of an error that names a column which the log does not have."""
        return f"the log has: {', '.join(self.types)}"


def no_column(log: LogColumns, column: str, where: str = "") -> LogError:
    """The error of a column that the impressions do not have."""
    what = f"{where}the {log.log} have no column {column!r}{near_miss(column, log.types)}"
    return LogError(what, log.listed)


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
    others = {name: _find(name, types) for name in canonical_columns(log) if name not in chosen}
    if unit is None:
        others.pop("unit_id", None)
    mapped = {
        name: column
        for name, column in {**others, **chosen}.items()
        # A text of the name of a flag, which nobody mapped, means something else.
        if column is not None
        and (name in chosen or name not in SERVED_FLAGS or is_number(types[column]))
    }
    columns = LogColumns(log, types, mapped)
    if problems:
        raise LogError("\n".join(problems), columns.listed)
    needed, why = "item_id", ""
    if log.startswith(OUTCOME):
        needed, why = "ts", ": an outcome counts from the unit's exposure on"
    if (log == "items" or why) and needed not in columns:
        hint = f'map it: columns = {{ {needed} = "..." }}; {columns.listed}'
        raise LogError(f"logs.{log}: no column {needed}{why}", hint)
    facts = FileFacts() if files is None or source.query is not None else files
    _check_ids(columns, facts)
    _check_types(columns, source, facts)
    return columns


def _find(name: str, types: Mapping[str, str]) -> str | None:
    if name in types:
        return name
    return next((column for column in types if column.lower() == name.lower()), None)


def _check_ids(columns: LogColumns, files: FileFacts) -> None:
    """Refuse ids that are text in some files and numbers in others: one could be two ids."""
    # Requests and impressions of one file have no rows in others.
    for name in ("unit_id", "item_id"):
        column = columns.mapped.get(name)
        mixed = None if column is None else mixed_id(files, column)
        if column is None or mixed is None:
            continue
        # Elsewhere the engine reads them as values of JSON.
        cast = (
            f"; or, where every id is a whole number, in [logs.{columns.log}]: "
            f"query = '{cast_query(column, 'bigint')}'; else the same with varchar"
        )
        raise LogError(
            f"logs.{columns.log}: column {column!r} is {mixed}: 12 and '0012' would be two "
            "different ids",
            f"write it with one type{cast if columns.is_text(name) else ''}",
        )


def _check_types(columns: LogColumns, source: LogSource, files: FileFacts) -> None:
    problems = []
    for name, column in columns.mapped.items():
        kind = columns.types[column]
        problem = _type_problem(name, kind, source)
        if problem is not None:
            of_type = f"{kind}{with_type(files, column, kind)}"
            problems.append(f"logs.{columns.log}: column {column!r} is {of_type}, {problem}")
    if not problems:
        return
    of_ids = (column for name, column in columns.mapped.items() if name in IDS)
    decimal = next((c for c in of_ids if _FRACTION.match(columns.types[c])), None)
    hint = _TYPE_HINT
    if decimal is not None:
        hint = (
            "pandas writes whole numbers with a null so; where every id is whole, write in "
            f"[logs.{columns.log}]: query = '{cast_query(decimal, 'bigint')}'; or {hint}"
        )
    raise LogError("\n".join(problems), hint)


def cast_query(column: str, kind: str) -> str:
    """The `query` of a log that gives a column another type.

    Example:
        >>> cast_query("user_id", "bigint")
        'select * replace (cast("user_id" as bigint) as "user_id") from log'
    """
    name = quoted(column)
    return f"select * replace (cast({name} as {kind}) as {name}) from {OWN_TABLE}"


def is_number(kind: str) -> bool:
    """Whether a column of this type can be summed."""
    return any(r.match(kind) for r in (_WHOLE, _FRACTION)) or kind in ("BOOLEAN", _NOTHING)


def _type_problem(canonical: str, kind: str, source: LogSource) -> str | None:
    """Why a column cannot be of a type; None where it can."""
    if kind == _NOTHING:
        return None
    if canonical == "ts":
        return _time_problem(kind, source)
    if canonical in IDS and not (_WHOLE.match(kind) or _TEXT.match(kind)):
        why = ": 123 and 123.0 would be two different ids" if _FRACTION.match(kind) else ""
        return f"but {canonical} must be a whole number or text{why}"
    if canonical in _NUMBERS and not is_number(kind):
        return f"but {canonical} must be a number"
    if canonical in _NAMES and not (_TEXT.match(kind) or is_number(kind)):
        return f"but {canonical} must be text or a number"
    return None


def _time_problem(kind: str, source: LogSource) -> str | None:
    is_timestamp = kind.startswith("TIMESTAMP")
    if source.ts_zone is not None and not is_timestamp:
        return "so ts_zone, which is for times of day without a zone, has no meaning: remove it"
    if source.ts_zone is not None and kind.startswith(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")):
        return "which has a zone, so ts_zone has no meaning: remove it"
    if is_timestamp or kind == "DATE":
        return "so time_unit has no meaning: remove it" if source.time_unit else None
    if not _WHOLE.match(kind):
        return "but ts must be a timestamp, a date, or a whole number with time_unit"
    if source.time_unit is None:
        return 'so set its unit since 1970: time_unit = "s", "ms", "us" or "ns"'
    return None


def column(log: LogColumns, name: str) -> str:
    """A canonical column as the log has it, null where it has none."""
    return quoted(log.mapped[name]) if name in log else "cast(null as bigint)"


def cast(log: LogColumns, name: str, kind: str) -> str:
    """A canonical column cast to a type, null where the log has none."""
    return f"cast({quoted(log.mapped[name]) if name in log else 'null'} as {kind})"


def unit(experiment: Experiment, log: LogColumns) -> str:
    """The id of the unit; where each row is a unit, that of the impression or a row number."""
    if experiment.unit != ROW_UNIT:
        return column(log, "unit_id")
    return column(log, "impression_id") if "impression_id" in log else "row_number() over ()"


def variant_of(experiment: Experiment, own: str) -> str:
    """The variant that an arm of the log belongs to; arms of no variant keep their names."""
    joined = {name: arms.of for name, arms in experiment.variants.items() if arms.of is not None}
    # An arm that has the name of a variant, but is not one of those that it joins.
    cases = {name: f"{name} (not joined)" for name in joined}
    cases |= {arm: name for name, arms in joined.items() for arm in arms}
    listed = " ".join(f"when {literal(a)} then {literal(name)}" for a, name in cases.items())
    return f"case {own} {listed} else {own} end" if cases else own


def time_ms(log: LogColumns, source: LogSource, engine: Engine, time: str | None = None) -> str:
    """The time in milliseconds since 1970 (of another SQL than the column, if given)."""
    if "ts" not in log:
        return "cast(null as bigint)"
    value = time or quoted(log.mapped["ts"])
    if source.time_unit is None:
        stamp = _timestamp(log, value)
        if source.ts_zone is not None:
            stamp = engine.utc_time(stamp, source.ts_zone)
        return engine.epoch_ms(stamp)
    # A number too large to be a time becomes null, so that it does not stop the run.
    first, last, scale = _TIMES[source.time_unit]
    return f"case when {value} between {first} and {last} then cast({value} as bigint) end {scale}"


def _timestamp(log: LogColumns, value: str) -> str:
    """A time as a timestamp without a zone."""
    if log.type_of("ts") == "TIMESTAMPTZ_NS":
        # DuckDB has no cast from this type to a timestamp without a zone.
        value = f"cast({value} as timestamp with time zone)"
    return f"cast({value} as timestamp)"


def time_of_impression(experiment: Experiment, log: LogColumns) -> str:
    """The time as the log has it, null outside the years 2 to 9998.

    With a [period] such times lie outside of it, and need no look.
    """
    value = column(log, "ts")
    if experiment.period is not None or not log.type_of("ts").startswith(("TIMESTAMP", "DATE")):
        return value
    time = _timestamp(log, value)
    return (
        f"case when {time} >= timestamp '0002-01-01' and {time} < timestamp '9999-01-01' "
        f"then {value} end"
    )


def local_time(experiment: Experiment, log: LogColumns, source: LogSource, engine: Engine) -> str:
    """The local timestamp; one that is local already needs no conversion, which is much faster."""
    kind = log.type_of("ts")
    # A DATE is a day of the experiment's time zone already.
    zone = "UTC" if kind == "DATE" else experiment.timezone
    if zone == (source.ts_zone or "UTC") and source.time_unit is None and kind == "TIMESTAMP":
        return "own_ts"
    return engine.local_time("time_ms", zone)


def copies(log: LogColumns) -> str:
    """The column of `distinct_rows` that counts equal rows."""
    return quoted(log.unused("copies"))


def distinct_rows(log: LogColumns, rows: str, drop: bool = True) -> str:
    """Equal rows of a relation once, with their number; each row by itself unless they drop."""
    if not drop:
        return f"select *, 1 as {copies(log)} from {rows}"
    every = ", ".join(map(quoted, log.types))
    return f"select {every}, count(*) as {copies(log)} from {rows} group by {every}"


def own_name(column: str) -> str:
    """The name of a log's own column in the views, which no canonical column has."""
    return f"raw_{column}"


def own_columns(log: LogColumns, names: Sequence[str]) -> list[str]:
    """Columns of the log's own; decimals and 32-bit floats as doubles, alike on all engines."""
    kinds = {column.lower(): kind for column, kind in log.types.items()}
    listed = []
    for name in names:
        kind = kinds.get(name.lower(), "")
        is_fraction = kind == "FLOAT" or (kind.startswith("DECIMAL") and not kind.endswith(",0)"))
        value = f"cast({quoted(name)} as double)" if is_fraction else quoted(name)
        listed.append(f"{value} as {quoted(own_name(name))}")
    return listed


def position(log: LogColumns, source: ImpressionLog) -> str:
    """The position, counted from 1."""
    if "position" not in log:
        return "cast(null as bigint)"
    value = quoted(log.mapped["position"])
    whole = f"case when abs({value}) < 1e15 then cast({value} as bigint) end"
    return f"{whole} + {1 - source.first_position}"


def click(log: LogColumns) -> str:
    """1 for a clicked impression, else 0."""
    if "click" not in log:
        return "0"
    value = quoted(log.mapped["click"])
    if log.type_of("click") in _NO_CAST:
        return f"case when {value} > 0 then 1 else 0 end"
    # Some engines order NaN above every number; it is not a click.
    value = f"cast({value} as double)"
    return f"case when {value} > 0 and {value} < 1e300 then 1 else 0 end"


def dwell_ms(log: LogColumns, source: ImpressionLog | ClickLog) -> str:
    """Whole milliseconds; a negative dwell is unknown."""
    if "dwell" not in log:
        return "cast(null as bigint)"
    factor, dwell = 1000 if source.dwell_unit == "s" else 1, quoted(log.mapped["dwell"])
    if log.type_of("dwell") in _NO_CAST:
        known = f"{dwell} between 0 and {10**15 // factor}"
        value = f"cast({dwell} as bigint)" + (f" * {factor}" if factor > 1 else "")
    else:
        scaled = f"cast({dwell} as double) * {factor}"
        known, value = f"{scaled} between 0 and 1e15", f"cast(round({scaled}) as bigint)"
    return f"case when {known} then {value} end"


def score(name: str) -> str:
    """A score as a finite double, or null."""
    value = f"cast({quoted(name)} as double)"
    return f"case when abs({value}) < 1e300 then {value} end"


def click_keys(log: LogColumns, join: Sequence[str], last: str = "0") -> list[str]:
    """The columns that tie a click to its impression, always three; unused ones are zero.

    Args:
        log: The impressions, or the clicks.
        join: Canonical names of the columns.
        last: SQL in place of the last unused one.
    """
    used = [column(log, name) for name in join]
    unused = ["0", "0", last][len(used) :]
    return [f"{sql} as {key}" for sql, key in zip([*used, *unused], CLICK_KEYS, strict=True)]
