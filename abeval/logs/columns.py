"""Write SQL of the columns of one log under canonical names."""

from collections.abc import Sequence

from abeval.engines.sql import Engine, literal, quote
from abeval.experiment.model import Experiment
from abeval.experiment.problems import NOT_JOINED
from abeval.experiment.sources import ClickLog, ImpressionLog
from abeval.logs.mapping import (
    CLICK_KEYS,
    LogColumns,
    list_compared_columns,
    name_raw_column,
)

_NO_CAST = ("INTEGER", "BIGINT")
"""Types to compare without a cast; narrower ones cannot hold the bounds."""

_SECONDS = (-62_104_060_800, 253_370_764_799)
"""Valid times, of the years 2 to 9998: dates beyond may not exist."""

_TIMES = {
    "s": (*_SECONDS, "* 1000"),
    "ms": (*(bound * 1_000 for bound in _SECONDS), "* 1"),
    "us": (*(bound * 1_000_000 for bound in _SECONDS), "// 1000"),
    "ns": (-9_200_000_000_000_000_000, 9_200_000_000_000_000_000, "// 1000000"),
}
"""Unit of a numeric time → its least and largest value, and SQL for milliseconds."""


def write_column(log: LogColumns, name: str) -> str:
    """Write a canonical column as the log has it, null where it has none."""
    return quote(log.mapped[name]) if name in log else "cast(null as bigint)"


def write_cast(log: LogColumns, name: str, kind: str) -> str:
    """Write a canonical column cast to a type, null where the log has none."""
    return f"cast({quote(log.mapped[name]) if name in log else 'null'} as {kind})"


def write_variant(experiment: Experiment, arm_sql: str) -> str:
    """Write the variant that an arm of the log belongs to."""
    joined = {name: arms.of for name, arms in experiment.variants.items() if arms.of is not None}
    # An arm that has the name of a variant, but is not one of those that it joins.
    cases = {name: name + NOT_JOINED for name in joined}
    cases |= {arm: name for name, arms in joined.items() for arm in arms}
    cases_sql = " ".join(f"when {literal(a)} then {literal(name)}" for a, name in cases.items())
    # Arms of no variant keep their names, and are set aside by these.
    return f"case {arm_sql} {cases_sql} else {arm_sql} end" if cases else arm_sql


def write_time_ms(log: LogColumns, engine: Engine, time: str | None = None) -> str:
    """Write the time in milliseconds since 1970.

    `time` is SQL to use in place of the column.
    """
    if "ts" not in log:
        return "cast(null as bigint)"
    value, source = time or quote(log.mapped["ts"]), log.source
    if source.time_unit is None:
        stamp = write_timestamp(log, value)
        if source.ts_zone is not None:
            stamp = engine.utc_time(stamp, source.ts_zone)
        return engine.epoch_ms(stamp)
    # A number too large to be a time becomes null, so that it does not stop the run.
    first, last, scale = _TIMES[source.time_unit]
    return f"case when {value} between {first} and {last} then cast({value} as bigint) end {scale}"


def write_timestamp(log: LogColumns, value: str) -> str:
    """Write a time as a timestamp without a zone."""
    if log.find_type("ts") == "TIMESTAMPTZ_NS":
        # DuckDB has no cast from this type to a timestamp without a zone.
        value = f"cast({value} as timestamp with time zone)"
    return f"cast({value} as timestamp)"


def write_valid_time(experiment: Experiment, log: LogColumns) -> str:
    """Write the SQL of the log's time, with null for times that cannot be shifted.

    Without `[period]` a time before the year 2 or after 9998 is null, because a time zone would
    move it out of the calendar; numbers of seconds or milliseconds are not checked. With
    `[period]` such rows are outside of it anyhow, so nothing is checked.
    """
    value = write_column(log, "ts")
    if experiment.period is not None or not log.find_type("ts").startswith(("TIMESTAMP", "DATE")):
        return value
    time = write_timestamp(log, value)
    return (
        f"case when {time} >= timestamp '0002-01-01' and {time} < timestamp '9999-01-01' "
        f"then {value} end"
    )


def write_own_columns(log: LogColumns, names: Sequence[str]) -> list[str]:
    """Write the log's own columns; decimals and short floats become doubles."""
    kinds = {column.lower(): kind for column, kind in log.types.items()}
    selected = []
    for name in names:
        kind = kinds.get(name.lower(), "")
        # Engines differ in their arithmetic of decimals and short floats.
        is_fraction = kind == "FLOAT" or (kind.startswith("DECIMAL") and not kind.endswith(",0)"))
        value = f"cast({quote(name)} as double)" if is_fraction else quote(name)
        selected.append(f"{value} as {quote(name_raw_column(name))}")
    return selected


def write_click(log: LogColumns) -> str:
    """Write 1 for a clicked impression, else 0."""
    if "click" not in log:
        return "0"
    value = quote(log.mapped["click"])
    if log.find_type("click") in _NO_CAST:
        return f"case when {value} > 0 then 1 else 0 end"
    # Some engines order NaN above every number; it is not a click.
    value = f"cast({value} as double)"
    return f"case when {value} > 0 and {value} < 1e300 then 1 else 0 end"


def write_score(sql: str) -> str:
    """Write a score as a finite double, or null."""
    value = f"cast({sql} as double)"
    return f"case when abs({value}) < 1e300 then {value} end"


def write_position(log: LogColumns, source: ImpressionLog) -> str:
    """Write the position, counted from 1."""
    if "position" not in log:
        return "cast(null as bigint)"
    value = quote(log.mapped["position"])
    whole_number = f"case when abs({value}) < 1e15 then cast({value} as bigint) end"
    return f"{whole_number} + {1 - source.first_position}"


def write_dwell_ms(log: LogColumns, source: ImpressionLog | ClickLog) -> str:
    """Write the dwell in whole milliseconds; a negative one is unknown."""
    if "dwell" not in log:
        return "cast(null as bigint)"
    factor, dwell = 1000 if source.dwell_unit == "s" else 1, quote(log.mapped["dwell"])
    if log.find_type("dwell") in _NO_CAST:
        is_valid = f"{dwell} between 0 and {10**15 // factor}"
        value = f"cast({dwell} as bigint)" + (f" * {factor}" if factor > 1 else "")
    else:
        scaled = f"cast({dwell} as double) * {factor}"
        is_valid, value = f"{scaled} between 0 and 1e15", f"cast(round({scaled}) as bigint)"
    return f"case when {is_valid} then {value} end"


def write_click_keys(log: LogColumns, join: Sequence[str], last: str = "0") -> list[str]:
    """Write the three columns that tie a click to its impression.

    Unused ones are 0, or `last`.
    """
    used = [write_column(log, name) for name in join]
    unused = ["0", "0", last][len(used) :]
    return [f"{sql} as {key}" for sql, key in zip([*used, *unused], CLICK_KEYS, strict=True)]


def name_copies_column(log: LogColumns) -> str:
    """Name the column that counts the copies of a row."""
    return quote(log.make_unused_name("copies"))


def write_distinct_rows(log: LogColumns, rows: str, drop: bool = True) -> str:
    """Write rows of one event once, with the number of their copies."""
    if not drop:
        return f"select *, 1 as {name_copies_column(log)} from {rows}"
    same = list_compared_columns(log)
    columns = [quote(c) if c in same else f"min({quote(c)}) as {quote(c)}" for c in log.types]
    return (
        f"select {', '.join(columns)}, count(*) as {name_copies_column(log)} from {rows} "
        f"group by {', '.join(map(quote, same))}"
    )
