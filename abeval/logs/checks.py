"""Refuse logs that do not fit the experiment; each error says how to mend it."""

from collections.abc import Mapping, Sequence

from abeval.engines.sql import Engine, quote
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggest_name
from abeval.experiment.sources import CANONICAL_COLUMNS, OUTCOME, ImpressionLog
from abeval.logs.columns import write_position
from abeval.logs.mapping import LogColumns, make_missing_column_error
from abeval.logs.shape import LogSchema
from abeval.metrics.definition import Metric

USED = "used"
USED_BEFORE = "used_before_the_period"
"""Reasons of rows that were used: in the period, and before it."""

# What to do where all rows are set aside, by the reason of most of them.
_SET_ASIDE_HINTS = {
    "not_exposed": (
        "no unit of the exposures is in the impressions: are the ids written the same way in both?"
    ),
    "repeated_unit": (
        "every unit has several rows that differ: make one row of each, such as its sums, or draft "
        "an experiment of such rows (abeval init, abeval.draft)"
    ),
    "crossover": '[cleaning] crossover = "first" keeps units that were seen in two variants',
    "tied_crossover": (
        "every unit is in several variants, and no time says which was first: map ts, or set "
        "[assignment] salt, by which abeval computes the variant"
    ),
}


def check_frames(experiment: Experiment, frames: Mapping[str, object]) -> None:
    """Raise if a frame is not named like one of the experiment's logs."""
    outcomes = experiment.logs.events
    for name in frames:
        if name in experiment.tables or name in outcomes:
            continue
        if name not in CANONICAL_COLUMNS:
            hint = suggest_name(name, [*CANONICAL_COLUMNS, *outcomes])
            raise LogError(f"no log is called {name!r}{hint}")
        if getattr(experiment.logs, name) is None:
            what = f"there is a frame for {name}, but the experiment file has no [logs.{name}]"
            raise LogError(what, f"add an empty [logs.{name}]; it may also map columns")


def check_opened(experiment: Experiment, logs: Mapping[str, LogColumns]) -> None:
    """Raise if the columns of the logs do not fit the experiment file."""
    impressions = logs[experiment.logs.rows_name]
    placing = (impressions, logs.get("exposures", impressions))
    if not experiment.assigns and not any("variant" in log for log in placing):
        raise LogError(
            "the variant of a unit is unknown: the log has no column `variant`",
            'map it (columns = { variant = "..." }), or set [assignment] salt, so that abeval '
            "computes it",
        )
    if experiment.period is not None and "ts" not in impressions:
        raise LogError(
            "[period] needs the time of each impression, but the log has no column `ts`",
            'map it (columns = { ts = "..." }), or remove [period] to use every row',
        )
    for column in experiment.cleaning.duplicate_key or ():
        if column not in impressions.types:
            raise make_missing_column_error(impressions, column, "cleaning.duplicate_key: ")
    check_joinable(impressions, logs.get("items"), ["item_id"])
    for name, log in logs.items():
        if name in ("exposures", "units") or name.startswith(OUTCOME):
            check_joinable(impressions, log, ["unit_id"])


def write_zone_questions(kinds: Mapping[str, str]) -> tuple[str, ...]:
    """Write a question for each log whose times have no zone, if another log's have.

    `kinds` is log → the type of its times, of logs for which nobody said the zone.

    Example:
        >>> kinds = {"impressions": "TIMESTAMP WITH TIME ZONE", "clicks": "TIMESTAMP"}
        >>> len(write_zone_questions(kinds))
        1
    """
    zoned = [log for log, kind in kinds.items() if "TIMESTAMPTZ" in kind or "ZONE" in kind]
    bare = [log for log, kind in kinds.items() if kind[:9] == "TIMESTAMP" and log not in zoned]
    return tuple(
        f"zone: the times of {log} have no zone, and those of {zoned[0]} have one: in which zone "
        f'are they? Write [logs.{log}] ts_zone = "UTC", or a zone such as "America/New_York"'
        for log in bare
        if zoned
    )


def check_schedule(changes: bool, has_time: bool, by_rule: bool) -> None:
    """Raise if these logs cannot follow a schedule of splits.

    Splits that change need times of entry, and variants that abeval does not compute (`by_rule`).
    """
    if changes and not has_time:
        raise LogError(
            "[[assignment.splits]] need the time at which a unit entered, but the log has no "
            "column `ts`",
            'map it (columns = { ts = "..." }), or remove the splits',
        )
    if changes and by_rule:
        raise LogError(
            "[[assignment.splits]] need the variant in the log: by a rule, other weights would "
            "move units that came before to another variant",
            "map the column `variant` of the impressions or the exposures",
        )


def check_joinable(left: LogColumns, right: LogColumns | None, names: Sequence[str]) -> None:
    """Raise if ids are text in one log and numbers in the other."""
    for name in names:
        if right is None or name not in left or name not in right:
            continue
        # A join would need a cast, by which '0012' and 12 may become one id.
        if left.is_text(name) != right.is_text(name):
            raise LogError(
                f"logs.{right.log}: column {right.mapped[name]!r} is {right.find_type(name)}, but "
                f"in logs.{left.log} {left.mapped[name]!r} is {left.find_type(name)}: they cannot "
                "be joined",
                "store the id with the same type in both logs",
            )


def check_positions(
    metrics: Sequence[Metric], schema: LogSchema, source: ImpressionLog, engine: Engine
) -> None:
    """Raise if a metric reads positions and some are below 1."""
    if "position" not in schema.impressions or all("position" not in m.needs for m in metrics):
        return
    position = write_position(schema.impressions, source)
    # The log itself is read faster than what is kept of it, in which repeated rows do not count.
    for rows in (schema.impressions.raw, "kept_impressions"):
        ((least,),) = engine.rows(f"select min({position}) from {rows}")
        if least is None or int(least) >= 1:
            return
    column = schema.impressions.mapped["position"]
    raise LogError(
        "logs.impressions: positions must start at 1, but the smallest "
        f"{column!r} is {int(least or 0)}",
        "set first_position = 0 in [logs.impressions] if positions count from 0; correct "
        "negative ones in the log",
    )


def check_clicks(schema: LogSchema, engine: Engine) -> None:
    """Raise if the click column is neither boolean nor 0 and 1, such as a count.

    It reads `kept_impressions`, before they are summed.
    """
    log = schema.impressions
    if "click" not in log or schema.clicks is not None or log.find_type("click") == "BOOLEAN":
        return
    column = log.mapped["click"]
    value = f"cast({quote(column)} as double)"
    # NaN and infinity count as no click, so they are no reason to stop.
    odd = f"abs({value}) < 1e300 and {value} not in (0, 1)"
    ((rows, low, high),) = engine.rows(
        f"select count(*), min({value}), max({value}) from kept_impressions where {odd}"
    )
    if not rows:
        return
    first = "rename it" if column.lower() == "click" else "remove it from `columns`"
    count = "clicks" if column.lower() == "click" else column
    raise LogError(
        f"logs.impressions: a click is 0 or 1, but {rows:,} values of column {column!r} are "
        f"neither (from {low:g} to {high:g})",
        f'if it is a count, {first}, and give a metric with numerator = "{count}" and '
        'denominator = "the column of impressions"',
    )


def make_nothing_left_error(
    schema: LogSchema, row_counts: Sequence[tuple[str, int]], timezone: str, engine: Engine
) -> LogError:
    """Make the error of logs whose impressions are all set aside."""
    counts = {reason: rows for reason, rows in row_counts if rows}
    reasons = ", ".join(f"{reason} {rows:,}" for reason, rows in counts.items())
    # The most frequent reason is the one to mend first.
    remedy = _find_remedy(max(counts, key=lambda reason: counts[reason]), schema, timezone, engine)
    return LogError(
        f"nothing is left to analyse: all {sum(counts.values()):,} {schema.impressions.log} are "
        f"set aside ({reasons})",
        remedy,
    )


def _find_remedy(reason: str, schema: LogSchema, timezone: str, engine: Engine) -> str:
    match reason:
        case "outside_period" | "used_before_the_period" | "not_in_experiment":
            ((first, last),) = engine.rows("select min(ts), max(ts) from seen")
            times = f"the log's times run from {first} to {last} ({timezone})"
            return f"{times}; check [period], timezone, and time_unit if the time is a number"
        case "not_compared" | "no_variant":
            rows = engine.rows("select distinct variant from seen order by variant limit 10")
            names = ", ".join(repr(name) for (name,) in rows if name is not None)
            return f"the log's variants are {names}; give [variants] these names"
    if (remedy := _SET_ASIDE_HINTS.get(reason)) is not None:
        return remedy
    canonical = {"null_unit": "unit_id", "null_variant": "variant", "null_time": "ts"}.get(reason)
    if canonical is None:
        return f"check logs.{schema.impressions.log}.path and the mapping of its columns"
    log = schema.impressions
    nothing = f"column {log.mapped[canonical]!r} of the {log.log} has no usable value"
    if canonical == "ts" and log.source.time_unit is not None:
        return f'{nothing} with time_unit = "{log.source.time_unit}": is it another unit?'
    return nothing
