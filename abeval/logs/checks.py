"""Refuse logs that do not fit the experiment; each error says how to mend it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.errors import AbevalError, ExperimentError, LogError, QueryError
from abeval.experiment.columns import CANONICAL_COLUMNS
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.experiment.segment_rules import of_impressions
from abeval.experiment.sources import OUTCOME
from abeval.logs import views
from abeval.logs.mapping import LogColumns, no_column
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric, event_terms, row_terms

USED = "used"
USED_BEFORE = "used_before_the_period"
"""Reasons in an account for rows that were not set aside: in the period, and before it."""


def check_frames(experiment: Experiment, frames: Mapping[str, object]) -> None:
    """Refuse frames that are not named like one of the experiment's logs."""
    outcomes = experiment.logs.events
    for name in frames:
        if name in experiment.tables or name in outcomes:
            continue
        if name not in CANONICAL_COLUMNS:
            hint = suggestion(name, [*CANONICAL_COLUMNS, *outcomes])
            raise LogError(f"no log is called {name!r}{hint}")
        if getattr(experiment.logs, name) is None:
            raise LogError(
                f"there is a frame for {name}, but the experiment file has no [logs.{name}]",
                f"add an empty [logs.{name}]; it may also map columns",
            )


def check_opened(experiment: Experiment, logs: Mapping[str, LogColumns]) -> None:
    """Check that the columns of the logs fit the experiment file."""
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
            raise no_column(impressions, column, "cleaning.duplicate_key: ")
    check_joinable(impressions, logs.get("items"), ["item_id"])
    for name, log in logs.items():
        if name in ("exposures", "units") or name.startswith(OUTCOME):
            check_joinable(impressions, log, ["unit_id"])


def check_schedule(changes: bool, has_time: bool, by_rule: bool) -> None:
    """Refuse a schedule of splits that these logs cannot follow.

    Args:
        changes: Whether the schedule changes the split.
        has_time: Whether the logs say when a unit entered.
        by_rule: Whether abeval computes the variants.
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


def check_outcomes(has_outcomes: bool, has_time: bool) -> None:
    """Refuse outcomes since exposure where no log says when a unit was exposed."""
    if has_outcomes and not has_time:
        raise LogError(
            "outcomes count from a unit's exposure on, but no log says when that was",
            "map ts of [logs.impressions], or of [logs.exposures]",
        )


def check_joinable(left: LogColumns, right: LogColumns | None, names: Sequence[str]) -> None:
    """Refuse ids that are text in one log and numbers in the other."""
    for name in names:
        if right is None or name not in left or name not in right:
            continue
        if left.is_text(name) != right.is_text(name):
            raise LogError(
                f"logs.{right.log}: column {right.mapped[name]!r} is {right.type_of(name)}, but in "
                f"logs.{left.log} {left.mapped[name]!r} is {left.type_of(name)}: they cannot be "
                "joined",
                "store the id with the same type in both logs",
            )


def check_positions(metrics: Sequence[Metric], shape: LogShape, engine: Engine) -> None:
    """Refuse positions below 1, after `first_position`, if a metric reads them."""
    if "position" not in shape.impressions or all("position" not in m.needs for m in metrics):
        return
    ((least,),) = engine.rows("select min(position) from seen")
    if least is not None and int(least) < 1:
        column = shape.impressions.mapped["position"]
        raise LogError(
            f"logs.impressions: positions must start at 1, but the smallest {column!r} is "
            f"{int(least)}",
            "set first_position = 0 in [logs.impressions] if positions count from 0; correct "
            "negative ones in the log",
        )


def check_clicks(shape: LogShape, engine: Engine) -> None:
    """Refuse a column of clicks that is neither 0 and 1 nor boolean, such as a count.

    It reads `kept_impressions`, before they are summed.
    """
    log = shape.impressions
    if "click" not in log or shape.clicks is not None or log.type_of("click") == "BOOLEAN":
        return
    column = log.mapped["click"]
    value = f"cast({quoted(column)} as double)"
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
        f"if it is a count, {first}, and give a metric with "
        f'numerator = "{count}" and denominator = "the column of impressions"',
    )


def nothing_left(
    shape: LogShape, accounts: Sequence[tuple[str, int]], timezone: str, engine: Engine
) -> LogError:
    """Return the error of logs whose impressions are all set aside, with the reasons."""
    counts = {reason: rows for reason, rows in accounts if rows}
    reasons = ", ".join(f"{reason} {rows:,}" for reason, rows in counts.items())
    return LogError(
        f"nothing is left to analyse: all {sum(counts.values()):,} {shape.impressions.log} are "
        f"set aside ({reasons})",
        _remedy(max(counts, key=lambda reason: counts[reason]), shape, timezone, engine),
    )


def _remedy(reason: str, shape: LogShape, timezone: str, engine: Engine) -> str:
    match reason:
        case "outside_period" | "used_before_the_period" | "not_in_experiment":
            ((first, last),) = engine.rows("select min(ts), max(ts) from seen")
            times = f"the log's times run from {first} to {last} ({timezone})"
            return f"{times}; check [period], timezone, and time_unit if the time is a number"
        case "not_compared" | "no_variant":
            rows = engine.rows("select distinct variant from seen order by variant limit 10")
            names = ", ".join(repr(name) for (name,) in rows if name is not None)
            return f"the log's variants are {names}; give [variants] these names"
        case "not_exposed":
            return (
                "no unit of the exposures is in the impressions: are the ids written the same "
                "way in both?"
            )
        case "crossover":
            return 'cleaning.crossover = "first" keeps units that were seen in two variants'
        case "tied_crossover":
            return (
                "every unit is in several variants, and no time says which was first: map ts, or "
                "set [assignment] salt, by which abeval computes the variant"
            )
    named = {"null_unit": "unit_id", "null_variant": "variant", "null_time": "ts"}.get(reason)
    if named is None:
        return f"check logs.{shape.impressions.log}.path and the mapping of its columns"
    log = shape.impressions
    return f"column {log.mapped[named]!r} of the {log.log} has no usable value"


class _Expression(NamedTuple):
    """An expression of the file.

    Attributes:
        where: The metric, segment or cut that has it.
        text: As it is written.
        column: SQL of a number over `logged`, which holds it.
        only: The logs' shape without any other expression.
    """

    where: str
    text: str
    column: str
    only: LogShape


def faulty_expression(
    experiment: Experiment,
    metrics: Sequence[Metric],
    shape: LogShape,
    engine: Engine,
    error: QueryError,
) -> AbevalError:
    """Return the error of a sum, with the metric, segment or cut whose expression causes it."""
    # An error with a hint, such as one about memory, already says what to do.
    if error.hint is not None or _fails("select count(*) from seen", engine):
        return error
    what = error.what.partition(" could not run a query: ")[2] or error.what
    expressions = _expressions(experiment, metrics, shape)
    # A wrong type, or a constant that cannot be computed, makes every query of all rows fail.
    if _fails("select count(*) from logged", engine):
        known = (e for e in expressions if _fails(_by_itself(experiment, e), engine))
    else:
        known = (e for e in expressions if _fails(_SUMS.format(column=e.column), engine))
    faulty = next(known, None)
    if faulty is None:
        return error
    what = f"{faulty.where}: {faulty.text!r} cannot be computed: {what}"
    return ExperimentError(what, _advice(what))


def _expressions(
    experiment: Experiment, metrics: Sequence[Metric], shape: LogShape
) -> Iterator[_Expression]:
    has, one = shape.needs_met(experiment.unit), {"1": shape.components["1"]}
    none = replace(shape, components=one, segments={}, cuts={}, events={})
    sql = {column: sql for sql, column in (*shape.components.items(), *shape.events.items())}
    for metric in (m for m in metrics if m.needs <= has):
        # Those that quantiles rank first: their sums wrap what the user wrote.
        ranked = ((term, shape.event) for term in event_terms(metric))
        summed = ((term, shape.component) for term in row_terms(metric))
        for term, column_of in (*ranked, *summed):
            for column in dict.fromkeys(column_of(term, v) for v in experiment.variants):
                only = replace(none, components={**one, sql[column]: column})
                yield _Expression(f"metric {metric.name!r}", term.expression, column, only)
    for name, text in of_impressions(experiment).items():
        only = replace(none, segments={name: shape.segments[name]})
        yield _Expression(f"segments.{name}", text, f"length({quoted(f's_{name}')})", only)
    for name, text in experiment.cuts.items():
        only = replace(none, cuts={name: shape.cuts[name]})
        yield _Expression(f"cuts.{name}", text, f"length({quoted(views.cut_name(name))})", only)


def _by_itself(experiment: Experiment, expression: _Expression) -> str:
    """Return SQL that fails if an expression cannot be computed for any row."""
    logged = views.logged_view(experiment, expression.only)
    return f"select count({expression.column}) from ({logged}) as logged"


_SUMS = """
select max(v) from (
  select cast(sum({column}) as bigint) as v from logged group by unit_id, in_period, day
) as sums
"""


def _fails(sql: str, engine: Engine) -> bool:
    try:
        engine.rows(sql)
    except QueryError:
        return True
    return False


def _advice(what: str) -> str:
    text = what.lower()
    if "division by zero" in text:
        return "write nullif(x, 0) for the divisor x"
    if "convert string" in text:
        return "try_cast(x as double) turns text that is not a number into null"
    if "out of range" in text or "overflow" in text:
        return (
            "sums must stay below 9.2e18 steps of `resolution` (1e-6 by default): divide the "
            "value, or set a coarser resolution"
        )
    return "check the types of its columns; the value must be a number (text in a segment or a cut)"
