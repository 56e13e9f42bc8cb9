"""Prepare logs for an analysis: canonical views, log cells, assigned units.

A click names its impression by an id, or means the unit's last one of the item before it. Outcome
logs, such as orders, are joined to units.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from abeval.engines.builders import write_sub_bucket
from abeval.engines.sql import Engine, literal, query, quote
from abeval.errors import AbevalError, ExperimentError, LogError, QueryError
from abeval.experiment.model import Experiment
from abeval.experiment.sections import convert_to_datetime
from abeval.experiment.sources import OUTCOME, ROW_UNIT
from abeval.logs import checks, units, views
from abeval.logs.cells import LogCells, read_cells, sum_unit_days, write_hashed_cells
from abeval.logs.duplicates import Repeats, find_repeats
from abeval.logs.files import FileFacts, list_partial_columns
from abeval.logs.frame_cells import read_frame_cells
from abeval.logs.ids import COARSER_NAMES, find_coarser_ids
from abeval.logs.mapping import CLICK_KEYS, EVENT_IDS, LogColumns
from abeval.logs.placing import UnitAssignment, assign_units
from abeval.logs.run import Run, extract_reason, list_file_notes, open_logs
from abeval.logs.shape import LogSchema, build_schema, list_columns_read
from abeval.logs.unit_arrays import NO_LAST, UnitDays
from abeval.metrics.definition import Metric, list_event_terms, list_row_terms, list_row_values

_IDS = ("impression_id", "request_id", "item_id", "position")
_UNIT = "unit_id"


def choose_click_join(experiment: Experiment, schema: LogSchema) -> tuple[str, ...]:
    """Choose the columns that tie a click to its impression.

    With the unit among them several impressions fit, of which the last before the click is meant.
    """
    if schema.clicks is None or experiment.logs.clicks is None:
        return ()
    in_both = [n for n in (_UNIT, *_IDS) if n in schema.impressions and n in schema.clicks]
    if experiment.unit == ROW_UNIT:
        in_both = [name for name in in_both if name != _UNIT]
    chosen: list[str] = list(experiment.logs.clicks.join or [])
    missing = [name for name in chosen if name not in in_both]
    if missing:
        raise LogError(
            f"logs.clicks.join names {missing[0]!r}, which is not in both logs",
            f"both have: {', '.join(in_both) or 'none of ' + ', '.join((_UNIT, *_IDS))}",
        )
    join = tuple(chosen[: len(CLICK_KEYS)]) or _choose_natural_join(in_both)
    checks.check_joinable(schema.impressions, schema.clicks, join)
    for log in (schema.impressions, schema.clicks):
        # The last impression before a click is found by time.
        if _UNIT in join and "ts" not in log:
            raise LogError(
                f"clicks are tied to impressions by {' and '.join(join)}, and by time, but "
                f"logs.{log.log} has no ts",
                "map ts, or give both logs an impression_id",
            )
    return join


def _choose_natural_join(in_both: Sequence[str]) -> tuple[str, ...]:
    """Choose the columns that identify an impression, or come nearest to it."""
    if "impression_id" in in_both:
        return ("impression_id",)
    if {"request_id", "item_id"} <= set(in_both):
        return tuple(name for name in in_both if name not in ("impression_id", _UNIT))
    if {_UNIT, "item_id"} <= set(in_both):
        return (_UNIT, "item_id")
    raise LogError(
        "clicks cannot be joined to impressions: the logs share neither impression_id nor "
        "(request_id, item_id), nor (the unit, item_id) and times",
        "map the columns in logs.impressions.columns and logs.clicks.columns",
    )


def _write_clicks(run: Run, schema: LogSchema, join: Sequence[str]) -> None:
    """Create the tables of clicks: what became of each, and by impression."""
    source, engine = run.experiment.logs.clicks, run.engine
    if schema.clicks is None or source is None:
        return
    run.step("clicks")
    clicks = views.write_clicks_view(source, schema.clicks, engine, join)
    engine.table("untied_clicks" if _UNIT in join else "click_log", clicks)
    if _UNIT in join:
        engine.table("click_log", query("1_log/last_touch"))
    engine.table("clicked_keys", query("1_log/clicked_keys"))
    engine.table("click_fate", query("1_log/click_fate"))
    engine.table("attributed", query("1_log/attributed"))


def _write_join_notes(experiment: Experiment, join: Sequence[str]) -> tuple[str, ...]:
    """Say how clicks without an id of their impression were attributed."""
    if _UNIT not in join or experiment.logs.clicks is None:
        return ()
    hours = experiment.logs.clicks.attribution_hours
    other_columns = [name for name in join if name != _UNIT]
    same = f" with the same {' and '.join(other_columns)}" if other_columns else ""
    return (
        f"A click belongs to its unit's last impression{same} before it, at most {hours:g} hours "
        "earlier, because the logs share no id of the impression.",
    )


_HOUR_MS = 3_600_000


def _write_outcomes(
    run: Run, schema: LogSchema, metrics: Sequence[Metric], cells: LogCells
) -> Mapping[str, int | None]:
    """Create `outcomes_NAME` of each log; return the time that each covers."""
    if schema.outcomes and not schema.knows_entries:
        raise LogError(
            "outcomes count from a unit's exposure on, but no log says when that was",
            "map ts of [logs.impressions], or of [logs.exposures]",
        )
    experiment, engine = run.experiment, run.engine
    # No metric counts from the exposure on, so no outcome log is read.
    if not any(list_row_values(metric) for metric in metrics):
        return {}
    engine.view("unit_entry", views.write_entry_view(experiment, schema, engine))
    covered = {"impressions": _find_impression_coverage(experiment, schema, cells)}
    for name, outcome in schema.outcomes.items():
        run.step(name)
        engine.view("outcome_log", views.write_outcome_view(experiment, name, outcome, engine))
        engine.table(name_outcome_relation(name), query("3_rows/outcomes"))
        ((last,),) = engine.rows(f"select max(time_ms) from {name_outcome_relation(name)}")
        until = experiment.logs.events[name].until
        end = last if until is None else convert_to_epoch_ms(convert_to_datetime(until), experiment)
        covered[name] = find_covered_until(experiment, None if end is None else int(end))
    return covered


def name_outcome_relation(name: str) -> str:
    """Name the relation of the rows of an outcome log."""
    return f"outcomes_{name}"


def _find_impression_coverage(
    experiment: Experiment, schema: LogSchema, cells: LogCells
) -> int | None:
    times = cells.last_ms[cells.last_ms != NO_LAST]
    last = int(times.max()) if len(times) else None
    log = schema.impressions
    if last is not None and log.find_type("ts") == "DATE":
        # The day that it names ends when the local day does.
        day = datetime.fromtimestamp(last / 1000, UTC) + timedelta(days=1)
        last = convert_to_epoch_ms(day, experiment)
    return find_covered_until(experiment, last)


def find_covered_until(experiment: Experiment, last_ms: int | None) -> int | None:
    """Find the last millisecond that a log fully covers."""
    if last_ms is None:
        return None
    last = datetime.fromtimestamp(last_ms / 1000, ZoneInfo(experiment.timezone))
    end = datetime(last.year, last.month, last.day) + timedelta(days=1)
    if experiment.period is not None:
        end = min(end, experiment.period.bounds[1])
    end_ms = convert_to_epoch_ms(end, experiment)
    # A log that stops within an hour of midnight, or of the period's end, is taken to reach it.
    return end_ms if last_ms >= end_ms - _HOUR_MS else last_ms


def convert_to_epoch_ms(local: datetime, experiment: Experiment) -> int:
    """Convert a local time of the experiment to milliseconds since 1970 UTC."""
    return round(local.replace(tzinfo=ZoneInfo(experiment.timezone)).timestamp() * 1000)


Extra = Callable[[LogColumns], Sequence[str]]
"""Function that chooses columns of the impressions for the views to keep."""


@dataclass(frozen=True)
class Prepared:
    """Hold what is known once the logs are prepared.

    Attributes:
        covered: Log that units are judged by since their exposure → the time that it covers.
        rows: Number of impressions that were read; each is used or set aside.
        is_limited: Whether impressions of days outside of all periods were not read.
        lacking: The columns of the impressions that are read, but that some files lack.
    """

    schema: LogSchema
    repeats: Repeats
    cells: LogCells
    assignment: UnitAssignment
    variants: Sequence[str]
    covered: Mapping[str, int | None]
    files: FileFacts
    rows: int
    is_limited: bool = False
    lacking: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    @cached_property
    def days(self) -> UnitDays:
        """Return the sums of analysed units by day."""
        return sum_unit_days(self.cells, self.assignment.unit_index)


def prepare(
    run: Run,
    metrics: Sequence[Metric],
    extra: Sequence[str] | Extra = (),
    cuts: Sequence[str] = (),
    by_arrays: bool = False,
    units_read: bool = True,
) -> Prepared:
    """Open the logs, read their cells, and assign the units.

    Creates the canonical views, `units` and `unit_names`, and `impressions`: a table of the columns
    that metrics read besides the sums per unit and day; if they read none, a view of the log.

    The views keep the columns of the impressions that `extra` names or chooses; `impressions` keeps
    the values of `cuts` and the sums of their rows. With `by_arrays`, sources of single rows read
    the log themselves. `units_read` is whether queries read `units` and `impressions` also where no
    metric needs them.
    """
    experiment, engine = run.experiment, run.engine
    run.step("reading the logs")
    # Columns that are chosen once the log's are known need not be named anywhere.
    reads = None if extra else f"{experiment!r} {metrics!r} {EVENT_IDS} {COARSER_NAMES}"
    of_rows = {value.log for metric in metrics for value in list_row_values(metric)}
    outcomes = [OUTCOME + log for log in experiment.logs.events if log in of_rows]
    opened = open_logs(run, outcomes, reads)
    name = experiment.logs.rows_name
    log = opened.columns[name]
    checks.check_opened(experiment, opened.columns)
    kept = [*(extra(log) if callable(extra) else extra), *find_coarser_ids(experiment, log)]
    schema = build_schema(experiment, metrics, opened.columns, kept)
    # Only columns that this analysis reads matter: others may be missing.
    lacking = list_partial_columns(
        opened.files[name], list_columns_read(experiment, metrics, schema)
    )
    run.step("duplicates")
    repeats = find_repeats(engine, log, experiment.cleaning)
    join = choose_click_join(experiment, schema)
    try:
        write_views(run, schema, join)
        run.step("units and days")
        checks.check_positions(metrics, schema, experiment.logs.rows, engine)
        of_frame = read_frame_cells(run, schema, metrics)
        _write_cells(run, schema, are_read=of_frame is None)
        run.step("assignment")
        cells = _read_cells(run, schema) if of_frame is None else of_frame
        units.write_names(engine, schema)
        assignment = assign_units(run, schema, cells)
        read = _list_row_columns(experiment, metrics, schema, cuts, by_arrays, bool(extra))
        if units_read or read or schema.outcomes or schema.table is not None:
            assignment = _write_units(run, schema, assignment, read)
        covered = _write_outcomes(run, schema, metrics, cells)
    except QueryError as error:
        raise find_faulty_expression(run, metrics, schema, error) from error
    return Prepared(
        schema=schema,
        repeats=repeats,
        cells=cells,
        assignment=assignment,
        variants=[*experiment.variants],
        covered=covered,
        files=opened.files[name],
        rows=opened.rows[name],
        is_limited=name in opened.limited,
        lacking=lacking,
        notes=(
            *opened.notes,
            *_write_join_notes(experiment, join),
            *list_file_notes(opened, {name: lacking}),
            *(units.note_units_without_row(engine) if schema.table is not None else ()),
        ),
        questions=checks.write_zone_questions(
            {c.log: c.find_type("ts") for c in opened.columns.values() if not c.source.ts_zone}
        ),
    )


def _write_units(
    run: Run, schema: LogSchema, assignment: UnitAssignment, columns: Sequence[str]
) -> UnitAssignment:
    """Create `units` and `impressions`.

    `impressions` is a table of the `columns` that are read, or a view if there are none.
    """
    assignment = replace(assignment, units=units.write_units(run, schema, assignment.units))
    run.engine.view("logged_impressions", views.write_analysed_view(schema))
    if columns:
        run.step("impressions")
    # Several queries read the rows: the log is filtered once for all of them.
    create = run.engine.table if columns else run.engine.view
    chosen = ", ".join(["unit_id", *columns]) if columns else "*"
    create("impressions", f"select {chosen} from logged_impressions")
    return assignment


def write_views(run: Run, schema: LogSchema, join: Sequence[str]) -> None:
    """Create the views and tables up to `logged`, each after what it reads."""
    experiment, engine = run.experiment, run.engine
    engine.view("experiment", views.write_experiment_view(experiment))
    names = ", ".join(f"({literal(name)})" for name in experiment.variants)
    engine.view("variants", f"select * from (values {names}) as v (variant)")
    engine.view("periods", views.write_periods_view(experiment))
    engine.view("named_impressions", views.write_impressions_view(experiment, schema, engine, join))
    engine.view("seen" if experiment.switchback is None else "dated", query("1_log/seen"))
    if experiment.switchback is not None:
        engine.table("slots", query("1_log/slots"))
        engine.view("seen", query("1_log/switched"))
    if schema.items is not None:
        engine.table("items", views.write_items_view(schema.items))
    if schema.exposures is not None:
        engine.view("exposures", views.write_exposures_view(experiment, schema.exposures, engine))
        engine.table("exposed", query("1_log/exposed"))
    _write_clicks(run, schema, join)
    engine.view("logged", views.write_logged_view(experiment, schema))


_FEW = 100_000
"""Largest table of units to keep as cells instead of reading it in each query."""


def _write_cells(run: Run, schema: LogSchema, *, are_read: bool) -> None:
    """Create `logged_cells`: sums of a log, or the rows of a table of units.

    `are_read` is whether the cells are read of it.
    """
    engine, of_units = run.engine, run.experiment.is_unit_table
    checks.check_clicks(schema, engine)
    steps = write_sum_steps(run, schema, of_units)
    # A few rows are planned once; many would be in memory twice.
    is_few = are_read and engine.in_process and of_units and engine.count("raw_units") <= _FEW
    create = engine.view if of_units and not is_few else engine.table
    cells = write_hashed_cells(engine, schema, "dated_sums")
    create("logged_cells", engine.write_steps(steps, cells))


def write_sum_steps(run: Run, schema: LogSchema, are_units: bool) -> dict[str, str]:
    """Write the steps from `logged` to `dated_sums`.

    `dated_sums` are sums of the log with phase and hour. If `are_units`, each row of the log is a
    unit, and nothing is summed.
    """
    return {
        "logged_sums": query(f"2_units/logged_{'rows' if are_units else 'sums'}"),
        "timed_sums": views.write_sums_view(run.experiment, schema, run.engine),
        "dated_sums": query("2_units/dated_sums"),
    }


def _read_cells(run: Run, schema: LogSchema) -> LogCells:
    """Read the cells of the log."""
    experiment, engine = run.experiment, run.engine
    # Of a table of units, a draw of each row costs less in the pass than looking its unit up later.
    is_dealt = experiment.is_unit_table and experiment.trust.aa_runs
    bucket = write_sub_bucket(engine, experiment.salt, "unit_id") if is_dealt else None
    return read_cells(engine, schema, bucket)


def _list_row_columns(
    experiment: Experiment,
    metrics: Sequence[Metric],
    schema: LogSchema,
    cuts: Sequence[str],
    by_arrays: bool,
    keeps_extra: bool,
) -> list[str]:
    """List the impression columns read besides sums per unit and day."""
    has, read = schema.needs_met(experiment.unit), list[str]()
    # The query of an added metric reads all columns of the impressions, not this choice of them.
    computable = [m for m in metrics if m.needs <= has and m.source.sql is None]
    sources = dict.fromkeys(m.source for m in computable if m.source.reads)
    # Sums by cut read the rows themselves.
    if cuts or not by_arrays or not all(source.reads_rows for source in sources):
        scores = views.score_columns(schema) if any(source.scored for source in sources) else []
        read = [*(c for source in sources for c in source.reads), *scores, *schema.events.values()]
    if keeps_extra and (read or cuts):
        read += views.list_plain_columns(schema)
    if cuts:
        cut_columns = (quote(views.cut_name(name)) for name in cuts)
        read += ["in_period", *cut_columns, *schema.components.values()]
    return list(dict.fromkeys(read))


def find_faulty_expression(
    run: Run, metrics: Sequence[Metric], schema: LogSchema, error: QueryError
) -> AbevalError:
    """Find the text of the user that makes a sum fail, and make its error."""
    experiment, engine = run.experiment, run.engine
    # An error with a hint, such as one about memory, already says what to do.
    if error.hint is not None:
        return error
    for text, name in schema.blends.items():
        score_schema = replace(schema, scores={text: name})
        seen = views.write_impressions_view(experiment, score_schema, engine, ())
        if _fails(f"select max({name}) from ({seen}) as s", engine):
            models = [m for m, column in schema.model_scores.items() if column == name]
            return make_expression_error(f"models.{models[0]}.score: {text!r}", error)
    # The log itself cannot be read: no expression of a metric is at fault.
    if _fails("select count(*) from seen", engine):
        return error
    for where, text, column, only in _list_expressions(experiment, metrics, schema):
        # By itself: a wrong type makes every query of all expressions fail.
        logged = views.write_logged_view(experiment, only)
        sums = (
            f"select cast(sum({column}) as bigint) as v from ({logged}) as logged "
            "group by unit_id, in_period, day"
        )
        if _fails(f"select max(v) from ({sums}) as sums", engine):
            return make_expression_error(f"{where}: {text!r}", error)
    return error


# What to do where an expression cannot be computed, by the first pattern in what the engine says.
_EXPRESSION_HINTS = {
    "division by zero": "write nullif(x, 0) for the divisor x",
    "convert string '[-+]?[0-9.]*[0-9],[0-9]+'": (
        'if that is a decimal comma of a CSV file, write in [logs.*]: decimal = ","'
    ),
    "convert string": (
        "cast(replace(replace(x, '$', ''), ',', '') as double) reads $1,234.50; "
        "try_cast(x as double) turns text that is not a number into null"
    ),
    "out of range|overflow": (
        "sums must stay below 9.2e18 steps of `resolution` (1e-6 by default): divide the value, or "
        "set a coarser resolution"
    ),
    "": "check the types of its columns; the value must be a number (text in a segment or a cut)",
}


def make_expression_error(expression: str, error: QueryError) -> ExperimentError:
    """Make the error of an expression that the engine cannot compute."""
    what = f"{expression} cannot be computed: {extract_reason(error)}"
    hints = _EXPRESSION_HINTS.items()
    return ExperimentError(
        what, next(hint for pattern, hint in hints if re.search(pattern, what.lower()))
    )


def _list_expressions(
    experiment: Experiment, metrics: Sequence[Metric], schema: LogSchema
) -> Iterator[tuple[str, str, str, LogSchema]]:
    """List each expression: whose it is, its text, its SQL, and a minimal schema."""
    has, count_component = schema.needs_met(experiment.unit), {"1": schema.components["1"]}
    none = replace(schema, components=count_component, segments={}, cuts={}, events={})
    sql = {column: sql for sql, column in (*schema.components.items(), *schema.events.items())}
    for metric in (m for m in metrics if m.needs <= has):
        # Those that quantiles rank first: their sums wrap what the user wrote.
        ranked = ((term, schema.event) for term in list_event_terms(metric))
        summed = ((term, schema.component) for term in list_row_terms(metric))
        for term, column_of in (*ranked, *summed):
            for column in dict.fromkeys(column_of(term, v) for v in experiment.variants):
                only = replace(none, components={**count_component, sql[column]: column})
                yield f"metric {metric.name!r}", term.expression, column, only
    for name, text in experiment.row_segments.items():
        only = replace(none, segments={name: schema.segments[name]})
        where = name if "." in name else f"segments.{name}"
        yield where, text, f"length({quote(f's_{name}')})", only
    for name, text in experiment.cuts.items():
        only = replace(none, cuts={name: schema.cuts[name]})
        yield f"cuts.{name}", text, f"length({quote(views.cut_name(name))})", only


def _fails(sql: str, engine: Engine) -> bool:
    try:
        engine.rows(sql)
    except QueryError:
        return True
    return False
