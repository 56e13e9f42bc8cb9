"""Prepare logs for an analysis: canonical views, cells, placed units, and what queries read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from abeval.engines.builders import sub_bucket_sql
from abeval.engines.protocol import Engine
from abeval.engines.sql import query, quoted
from abeval.errors import AbevalError, ExperimentError, QueryError
from abeval.experiment.model import Experiment
from abeval.logs import checks, views
from abeval.logs.cells import Cells, Summed, Sums, days_of_units, one_pass, read_cells
from abeval.logs.duplicates import Repeats, find_repeats
from abeval.logs.files import FileFacts, lacking_columns
from abeval.logs.joins import (
    Coverage,
    click_join,
    join_notes,
    outcome_logs,
    write_clicks,
    write_outcomes,
)
from abeval.logs.mapping import LogColumns
from abeval.logs.placing import Placed, place_units
from abeval.logs.run import Run, file_notes, open_logs
from abeval.logs.shape import LogShape, columns_read, shape_of
from abeval.logs.unit_arrays import UnitDays
from abeval.logs.units import (
    missing_note,
    write_names,
    write_unit_names,
    write_unit_rows,
    write_units,
)
from abeval.metrics.definition import Metric, Source, event_terms, row_terms

Extra = Callable[[LogColumns], Sequence[str]]
"""Chooses columns of the impressions that the views keep."""


@dataclass(frozen=True)
class Prepared:
    """What is known after the logs were prepared.

    Attributes:
        shape: The logs' columns and the summed components.
        repeats: Rows that are set aside because they repeat another.
        summed: How the sums per unit and day were computed.
        cells: The cells of the log.
        placed: The analysed units, and why others are set aside.
        variants: Those of the experiment.
        covered: Log that units are judged by since their exposure → up to when it is whole.
        has_rule: Whether the log names variants that a rule of assignment gives as well.
        files: What is to be known of the files of the impressions.
        rows: Number of impressions that were read; each is used or set aside.
        lacking: The columns of the impressions that are read, but that some files lack.
        notes: What a reader of the result must know of the files.
    """

    shape: LogShape
    repeats: Repeats
    summed: Summed
    cells: Cells
    placed: Placed
    variants: Sequence[str]
    covered: Mapping[str, Coverage | None]
    has_rule: bool
    files: FileFacts
    rows: int
    lacking: Sequence[str] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def days(self) -> UnitDays:
        """The sums of analysed units by day."""
        return days_of_units(self.cells, self.placed.unit_of)


def prepare(
    run: Run,
    metrics: Sequence[Metric],
    extra: Sequence[str] | Extra = (),
    sums: Sums = one_pass,
    cuts: Sequence[str] = (),
    by_arrays: frozenset[Source] = frozenset(),
    units_read: bool = True,
) -> Prepared:
    """Open the logs, read their cells, and place the units.

    Relations: the canonical views, `units` and `unit_names`, and `impressions`: a table of the
    columns that metrics read besides the sums per unit and day. If they read none, it is a view,
    which reads the log again.

    Args:
        run: The experiment, its logs and an engine.
        metrics: What to compute.
        extra: Columns of the impressions that the views keep, under `own_name`; or what chooses
            them, once the log's columns are known.
        sums: Computes the sums per unit and day.
        cuts: Names of the cuts whose values, and the sums of whose rows, `impressions` keeps.
        by_arrays: Sources that read the log themselves, not `impressions`.
        units_read: Whether queries read `units` and `impressions` also where no metric needs them.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    experiment, engine = run.experiment, run.engine
    run.step("reading the logs")
    # Columns that are chosen once the log's are known need not be named anywhere.
    reads = None if extra else f"{experiment!r} {metrics!r}"
    opened = open_logs(run, outcome_logs(experiment, metrics), reads)
    logs, rows = opened.columns, experiment.logs.rows_name
    checks.check_opened(experiment, logs)
    shape = shape_of(experiment, metrics, logs, extra(logs[rows]) if callable(extra) else extra)
    lacking = lacking_columns(opened.files[rows], columns_read(experiment, metrics, shape))
    run.step("duplicates")
    repeats = find_repeats(engine, logs[rows], experiment.cleaning)
    join = click_join(experiment, shape)
    try:
        _write_views(run, shape, join)
        run.step("units and days")
        checks.check_positions(metrics, shape, engine)
        summed = sums(run, metrics, shape)
        run.step("assignment")
        cells, placed = _placed(run, shape)
        # Sums by cut read the rows themselves.
        spared = frozenset[Source]() if cuts else by_arrays
        read = _read_besides(metrics, shape, experiment.unit, spared) if summed.has_rows else []
        if extra and (read or cuts):
            read += views.plain_columns(shape)
        others = read or cuts or shape.outcomes or shape.table is not None
        if units_read or lacking or others:
            placed = _described(run, shape, placed)
            if cuts and summed.has_rows:
                read += views.cut_columns(shape, cuts)
            _write_impressions(run, shape, list(dict.fromkeys(read)))
        checks.check_outcomes(bool(shape.outcomes), shape.knows_entries)
        covered = write_outcomes(run, shape, metrics, cells)
    except QueryError as error:
        raise faulty_expression(experiment, metrics, shape, engine, error) from error
    return Prepared(
        shape=shape,
        repeats=repeats,
        summed=summed,
        cells=cells,
        placed=placed,
        variants=[*experiment.variants],
        covered=covered,
        has_rule=experiment.assignment_rule is not None and shape.tells_variant,
        files=opened.files[rows],
        rows=opened.rows[rows],
        lacking=lacking,
        notes=(
            *opened.notes,
            *join_notes(experiment, join),
            *file_notes(opened, {rows: lacking}),
            *(missing_note(engine) if shape.table is not None else ()),
        ),
    )


def _write_views(run: Run, shape: LogShape, join: Sequence[str]) -> None:
    """Create the views and tables up to `logged`, in the order in which one reads another."""
    experiment, engine = run.experiment, run.engine
    engine.view("experiment", views.experiment_view(experiment))
    engine.view("seen", views.seen_view(experiment, shape, engine, join))
    if shape.items is not None:
        engine.table("items", views.items_view(shape.items))
    if shape.exposures is not None:
        engine.view("exposures", views.exposures_view(experiment, shape.exposures, engine))
        engine.table("exposed", query("log/exposed"))
    write_clicks(run, shape, join)
    engine.view("logged", views.logged_view(experiment, shape))


def _placed(run: Run, shape: LogShape) -> tuple[Cells, Placed]:
    """Read the cells of the log, and place its units."""
    experiment, engine = run.experiment, run.engine
    engine.view("logged_cells", views.logged_cells(experiment, shape))
    engine.view("variants", views.variants_view(experiment))
    # Of a table of units, a draw of each row costs less in the pass than looking its unit up later.
    is_dealt = experiment.of_units and experiment.trust.aa_runs
    bucket = sub_bucket_sql(engine, experiment.salt, "unit_id") if is_dealt else None
    by_log = shape.names_variant and not experiment.assigns and shape.exposures is None
    cells = read_cells(engine, shape, [*experiment.variants] if by_log else None, bucket)
    write_names(engine, shape)
    return cells, place_units(run, shape, cells)


def _described(run: Run, shape: LogShape, placed: Placed) -> Placed:
    """Write the units for queries, with what the table of units says of them."""
    units = placed.units
    write_unit_names(run.engine, units)
    if shape.table is not None:
        units = write_unit_rows(run, shape.table, units)
    write_units(run, units)
    return replace(placed, units=units)


def _write_impressions(run: Run, shape: LogShape, read: Sequence[str]) -> None:
    """Create `impressions`, a table of the columns that are read; a view where none are."""
    run.engine.view("logged_impressions", views.impressions_view(shape))
    if read:
        run.step("impressions")
    create = run.engine.table if read else run.engine.view
    columns = ", ".join(["unit_id", *read]) if read else "*"
    create("impressions", f"select {columns} from logged_impressions")


def _read_besides(
    metrics: Sequence[Metric], shape: LogShape, unit: str, by_arrays: frozenset[Source]
) -> list[str]:
    """List the columns of the impressions that metrics read besides the sums per unit and day.

    None where nothing but `by_arrays` reads them.
    """
    has = shape.needs_met(unit)
    sources = dict.fromkeys(m.source for m in metrics if m.needs <= has and m.source.reads)
    if by_arrays.issuperset(sources):
        return []
    read = [column for source in sources for column in source.reads]
    scores = views.score_columns(shape) if any(source.scored for source in sources) else []
    return [*read, *scores, *shape.events.values()]


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
    for name, text in experiment.row_segments.items():
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
