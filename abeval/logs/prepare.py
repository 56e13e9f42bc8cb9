"""Logs → canonical views, cells and placed units, and relations that later queries read.

`aggregates/collect.py` and `time/open.py` hand it a `Run` and metrics; so do
`offline/replay.py` and `off_policy/log.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from abeval.engines.builders import sub_bucket_sql
from abeval.engines.sql import query
from abeval.errors import QueryError
from abeval.experiment.model import Experiment
from abeval.logs import checks, views
from abeval.logs.cells import Cells, Summed, Sums, days_of_units, one_pass, read_cells
from abeval.logs.duplicates import find_repeats
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
from abeval.logs.placing import Placed, knows_entries, names_variant, place_units
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
from abeval.logs.views import exposures_view
from abeval.metrics.definition import Metric, Source

Extra = Callable[[LogColumns], Sequence[str]]
"""Chooses columns of the impressions that the views keep."""


@dataclass(frozen=True)
class Prepared:
    """What is known after the logs were prepared.

    Attributes:
        shape: The logs' columns and the summed components.
        duplicates: Number of impression rows that repeat another, None if they were not counted.
        dropped: Number of those that are set aside: all, unless the file says to keep them.
        repeated: Number of rows that are set aside, because their unit has other rows too.
        summed: How the sums per unit and day were computed.
        cells: The cells of the log.
        placed: The analysed units, and why others are set aside.
        variants: Those of the experiment.
        covered: Log that units are judged by since their exposure → up to when it is whole.
        files: What is to be known of the files of the impressions.
        rows: Number of impressions that were read; each is used or set aside.
        lacking: The columns of the impressions that are read, but that some files lack.
        notes: What a reader of the result must know of the files.
        has_rule: Whether the log names variants that a rule of assignment gives as well.
    """

    shape: LogShape
    duplicates: int | None
    dropped: int
    repeated: int
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
    logs = opened.columns
    checks.check_opened(experiment, logs)
    rows = experiment.logs.rows_name
    kept = extra(logs[rows]) if callable(extra) else extra
    shape = shape_of(experiment, metrics, logs, kept)
    files = opened.files[rows]
    lacking = lacking_columns(files, columns_read(experiment, metrics, shape))
    run.step("duplicates")
    repeats = find_repeats(engine, logs[rows], experiment.cleaning)
    join = click_join(experiment, shape)
    try:
        written = _write(
            *(run, metrics, shape, join, sums, cuts, by_arrays),
            units_read=units_read or bool(lacking),
            has_extra=bool(extra),
        )
    except QueryError as error:
        raise faulty_expression(experiment, metrics, shape, engine, error) from error
    return Prepared(
        shape=shape,
        duplicates=repeats.duplicates,
        dropped=repeats.dropped,
        repeated=repeats.units,
        summed=written.summed,
        cells=written.cells,
        placed=written.placed,
        variants=[*experiment.variants],
        covered=written.covered,
        has_rule=experiment.assignment_rule is not None and names_variant(shape),
        files=files,
        rows=opened.rows[rows],
        lacking=lacking,
        notes=(
            *opened.notes,
            *join_notes(experiment, join),
            *file_notes(opened, {rows: lacking}),
            *(missing_note(engine) if shape.table is not None else ()),
        ),
    )


class _Written(NamedTuple):
    """What is known once views and tables are there; as in `Prepared`."""

    summed: Summed
    cells: Cells
    placed: Placed
    covered: Mapping[str, Coverage | None]


def _write(
    run: Run,
    metrics: Sequence[Metric],
    shape: LogShape,
    join: Sequence[str],
    sums: Sums,
    cuts: Sequence[str],
    by_arrays: frozenset[Source],
    units_read: bool,
    has_extra: bool,
) -> _Written:
    """Create the views and tables, in the order in which one reads another."""
    _write_views(run, shape, join)
    run.step("units and days")
    checks.check_positions(metrics, shape, run.engine)
    summed = sums(run, metrics, shape)
    run.step("assignment")
    run.engine.view("logged_cells", views.logged_cells(run.experiment, shape))
    run.engine.view("variants", views.variants_view(run.experiment))
    # Of a table of units, a draw of each row costs less in the pass than looking its unit up later.
    is_dealt = run.experiment.of_units and run.experiment.trust.aa_runs
    bucket = sub_bucket_sql(run.engine, run.experiment.salt, "unit_id") if is_dealt else None
    cells = read_cells(run.engine, shape, _compared(run.experiment, shape), bucket)
    write_names(run.engine, shape)
    placed = place_units(run, shape, cells)
    with_rows = summed.has_rows
    # Sums by cut read the rows themselves.
    spared = frozenset[Source]() if cuts else by_arrays
    read = _columns_read(metrics, shape, run.experiment.unit, spared) if with_rows else []
    if has_extra and (read or cuts):
        read = list(dict.fromkeys([*read, *views.plain_columns(shape)]))
    if units_read or read or cuts or shape.outcomes or shape.table is not None:
        placed = _described(run, shape, placed)
        _write_impressions(run, read, shape, cuts if with_rows else ())
    checks.check_outcomes(bool(shape.outcomes), knows_entries(shape))
    return _Written(summed, cells, placed, write_outcomes(run, shape, metrics, cells))


def _compared(experiment: Experiment, shape: LogShape) -> list[str] | None:
    """The variants whose impressions count, None where the impressions do not say who is in one."""
    if not shape.names_variant or experiment.assigns or shape.exposures is not None:
        return None
    return [*experiment.variants]


def _described(run: Run, shape: LogShape, placed: Placed) -> Placed:
    """The units with what the table of units says of them; they are written for queries, too."""
    units = placed.units
    write_unit_names(run.engine, units)
    if shape.table is not None:
        units = write_unit_rows(run.experiment, shape.table, run.engine, units)
    write_units(run.engine, run.experiment, units)
    return replace(placed, units=units)


def _write_views(run: Run, shape: LogShape, join: Sequence[str]) -> None:
    experiment, engine = run.experiment, run.engine
    engine.view("experiment", views.experiment_view(experiment))
    engine.view("seen", views.seen_view(experiment, shape, engine, join))
    if shape.items is not None:
        engine.table("items", views.items_view(shape.items))
    if shape.exposures is not None:
        engine.view("exposures", exposures_view(experiment, shape.exposures, engine))
        engine.table("exposed", query("log/exposed"))
    write_clicks(run, shape, join)
    engine.view("logged", views.logged_view(experiment, shape))


def _write_impressions(
    run: Run, columns: Sequence[str], shape: LogShape, cuts: Sequence[str]
) -> None:
    engine = run.engine
    engine.view("logged_impressions", views.impressions_view(run.experiment, shape))
    read = list(dict.fromkeys([*columns, *(views.cut_columns(shape, cuts) if cuts else ())]))
    if read:
        run.step("impressions")
    create = engine.table if read else engine.view
    columns = ", ".join(["unit_id", *read]) if read else "*"
    create("impressions", f"select {columns} from logged_impressions")


def _columns_read(
    metrics: Sequence[Metric], shape: LogShape, unit: str, by_arrays: frozenset[Source]
) -> list[str]:
    """The columns of the impressions that metrics read besides the sums per unit and day.

    None where nothing but `by_arrays` reads them.
    """
    has = shape.needs_met(unit)
    sources = dict.fromkeys(m.source for m in metrics if m.needs <= has and m.source.reads)
    if by_arrays.issuperset(sources):
        return []
    read = [column for source in sources for column in source.reads]
    scores = views.score_columns(shape) if any(source.scored for source in sources) else []
    return list(dict.fromkeys([*read, *scores, *shape.events.values()]))
