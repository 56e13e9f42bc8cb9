"""SQL of each canonical column, from the columns that a log has.

`views.py` calls it with the columns that `mapping.py` matched, and puts the SQL into the views.
"""

from collections.abc import Sequence

from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT, ClickLog, ImpressionLog, LogSource
from abeval.logs.mapping import LogColumns

CLICK_KEYS = ("key_1", "key_2", "key_3")
"""Columns that tie a click to its impression."""

_INTEGERS = ("INTEGER", "BIGINT")
"""Types that need no cast to double; narrower ones cannot hold the bounds of the values."""

_SECONDS = (-62_104_060_800, 253_370_764_799)
"""The years 2 to 9998; a time outside them is no time, for not every day there is a date."""

_KNOWN = {
    "s": _SECONDS,
    "ms": tuple(bound * 1_000 for bound in _SECONDS),
    "us": tuple(bound * 1_000_000 for bound in _SECONDS),
    "ns": (-9_200_000_000_000_000_000, 9_200_000_000_000_000_000),
}
_TO_MILLISECONDS = {"s": "* 1000", "ms": "* 1", "us": "// 1000", "ns": "// 1000000"}


def column(log: LogColumns, name: str) -> str:
    """A canonical column as the log has it, null where it has none."""
    return quoted(log.mapped[name]) if name in log else "cast(null as bigint)"


def cast(log: LogColumns, name: str, kind: str) -> str:
    """A canonical column cast to a type, null where the log has none."""
    value = quoted(log.mapped[name]) if name in log else "null"
    return f"cast({value} as {kind})"


def unit(experiment: Experiment, log: LogColumns) -> str:
    """The id of the unit; where each row is a unit, that of the impression or a row number."""
    if experiment.unit != ROW_UNIT:
        return column(log, "unit_id")
    return column(log, "impression_id") if "impression_id" in log else "row_number() over ()"


def variant(experiment: Experiment, log: LogColumns) -> str:
    """The variant, which may join several arms of the log; null where the log has none."""
    return variant_of(experiment, cast(log, "variant", "varchar"))


def variant_of(experiment: Experiment, own: str) -> str:
    """The variant that an arm of the log belongs to; arms of no variant keep their names."""
    joined = {name: arms.of for name, arms in experiment.variants.items() if arms.of is not None}
    cases = {arm: name for name, arms in joined.items() for arm in arms}
    # An arm that has the name of a variant, but is not one of those that it joins.
    cases |= {name: f"{name} (not joined)" for name in joined if name not in cases}
    if not cases:
        return own
    listed = " ".join(f"when {literal(a)} then {literal(name)}" for a, name in cases.items())
    return f"case {own} {listed} else {own} end"


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
    first, last = _KNOWN[source.time_unit]
    whole = f"case when {value} between {first} and {last} then cast({value} as bigint) end"
    return f"{whole} {_TO_MILLISECONDS[source.time_unit]}"


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
    kind = log.type_of("ts") if "ts" in log else ""
    if experiment.period is not None or not kind.startswith(("TIMESTAMP", "DATE")):
        return value
    time = _timestamp(log, value)
    return (
        f"case when {time} >= timestamp '0002-01-01' and {time} < timestamp '9999-01-01' "
        f"then {value} end"
    )


def local_time(
    experiment: Experiment, log: LogColumns, source: ImpressionLog, engine: Engine
) -> str:
    """The local timestamp; one that is local already needs no conversion, which is much faster."""
    kind = log.type_of("ts") if "ts" in log else None
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
    every = ", ".join(quoted(column) for column in log.types)
    return f"select {every}, count(*) as {copies(log)} from {rows} group by {every}"


def own_column(log: LogColumns, name: str) -> str:
    """A column of the log's own; decimals and 32-bit floats as doubles, alike on all engines."""
    kind = next((t for column, t in log.types.items() if column.lower() == name.lower()), "")
    is_fraction = kind == "FLOAT" or (kind.startswith("DECIMAL") and not kind.endswith(",0)"))
    return f"cast({quoted(name)} as double)" if is_fraction else quoted(name)


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
    if log.type_of("click") in _INTEGERS:
        return f"case when {value} > 0 then 1 else 0 end"
    # Some engines order NaN above every number; it is not a click.
    value = f"cast({value} as double)"
    return f"case when {value} > 0 and {value} < 1e300 then 1 else 0 end"


def dwell_ms(log: LogColumns, source: ImpressionLog | ClickLog) -> str:
    """Whole milliseconds; a negative dwell is unknown."""
    if "dwell" not in log:
        return "cast(null as bigint)"
    factor = 1000 if source.dwell_unit == "s" else 1
    dwell = quoted(log.mapped["dwell"])
    if log.type_of("dwell") in _INTEGERS:
        whole = f"cast({dwell} as bigint)" + (f" * {factor}" if factor > 1 else "")
        return f"case when {dwell} between 0 and {10**15 // factor} then {whole} end"
    value = f"cast({dwell} as double) * {factor}"
    return f"case when {value} between 0 and 1e15 then cast(round({value}) as bigint) end"


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
    padded = used + ["0"] * (len(CLICK_KEYS) - len(used))
    if len(used) < len(CLICK_KEYS):
        padded[-1] = last
    return [f"{padded[i]} as {key}" for i, key in enumerate(CLICK_KEYS)]
