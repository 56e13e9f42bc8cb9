"""Logs → canonical views, `unit_day` and `units`; later steps are queries over these.

`aggregates/collect.py`, `store/collect.py` and `time/open.py` hand it a `Run` and metrics; so do
`offline/replay.py` and `off_policy/log.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from abeval.assignment import SLOTS, SUB_BUCKETS, Assignment
from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.errors import LogError, QueryError
from abeval.experiment.model import Experiment
from abeval.experiment.segment_rules import known_from
from abeval.logs import checks, views
from abeval.logs.click_join import ClickJoin, click_join, join_notes, write_clicks
from abeval.logs.duplicates import find_duplicates, find_repeated_units
from abeval.logs.expected import write_expected_units
from abeval.logs.faults import faulty_expression
from abeval.logs.files import FileFacts, lacking_columns
from abeval.logs.mapping import LogColumns
from abeval.logs.opening import file_notes, open_logs
from abeval.logs.outcomes import Coverage, outcome_logs, write_outcomes
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, columns_read, has_one_row
from abeval.logs.shaping import shape_of
from abeval.logs.stretches import (
    ENTERED,
    Stretches,
    entered,
    planned_splits,
    stretched,
    stretches_of,
)
from abeval.logs.sums import Summed, Sums, one_pass
from abeval.logs.unit_segments import exposures_view, segments_view
from abeval.logs.unit_table import missing_note, write_unit_rows
from abeval.metrics.definition import Metric

Extra = Callable[[LogColumns], Sequence[str]]
"""Chooses columns of the impressions that the views keep."""


class Entries(NamedTuple):
    """When the analysed units entered.

    Attributes:
        counts: Units by scheduled split, hour and variant, with the columns `ENTERED`.
        stretches: Stretches of one split each; none where it did not change.
    """

    counts: pd.DataFrame
    stretches: Stretches


@dataclass(frozen=True)
class Prepared:
    """What is known after the logs were prepared.

    Attributes:
        shape: The logs' columns and the summed components.
        duplicates: Number of impression rows that repeat another, None if they were not counted.
        dropped: Number of those that are set aside: all, unless the file says to keep them.
        repeated: Number of rows that are set aside, because their unit has other rows too.
        summed: How the sums per unit and day were computed.
        entries: When the units entered, and how traffic was split then.
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
    entries: Entries
    covered: Mapping[str, Coverage | None]
    has_rule: bool
    files: FileFacts
    rows: int
    lacking: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def prepare(
    run: Run,
    metrics: Sequence[Metric],
    extra: Sequence[str] | Extra = (),
    sums: Sums = one_pass,
    cuts: Sequence[str] = (),
) -> Prepared:
    """Open the logs and create the canonical views and the tables `unit_day` and `units`.

    `impressions` is a table of the columns that metrics read besides the sums per unit and day. If
    they read none, it is a view, which reads the log again.

    Args:
        run: The experiment, its logs and an engine.
        metrics: What to compute.
        extra: Columns of the impressions that the views keep, under `own_name`; or what chooses
            them, once the log's columns are known.
        sums: Computes the sums per unit and day.
        cuts: Names of the cuts whose values, and the sums of whose rows, `impressions` keeps.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    experiment, engine, step = run.experiment, run.engine, run.step
    step("reading the logs")
    opened = open_logs(run, outcome_logs(experiment, metrics))
    logs = opened.columns
    checks.check_opened(experiment, logs)
    rows = experiment.logs.rows_name
    kept = extra(logs[rows]) if callable(extra) else extra
    shape = shape_of(experiment, metrics, logs, kept)
    files = opened.files[rows]
    lacking = lacking_columns(files, columns_read(experiment, metrics, shape))
    step("duplicates")
    duplicates = find_duplicates(engine, logs[rows], experiment.cleaning)
    repeated = find_repeated_units(engine, logs[rows]) if experiment.of_units else 0
    join = click_join(experiment, shape)
    try:
        _write_views(run, shape, join)
        step("units and days")
        checks.check_positions(metrics, shape, engine)
        summed = sums(run, metrics, shape)
        entries = place_units(run, shape, summed)
        with_rows = summed.has_rows
        _write_impressions(run, metrics if with_rows else [], shape, cuts if with_rows else ())
        if shape.outcomes and not _knows_entries(shape):
            raise LogError(
                "outcomes count from a unit's exposure on, but no log says when that was",
                "map ts of [logs.impressions], or of [logs.exposures]",
            )
        covered = write_outcomes(run, shape, metrics)
    except QueryError as error:
        raise faulty_expression(experiment, metrics, shape, engine, error) from error
    return Prepared(
        shape=shape,
        duplicates=duplicates,
        dropped=duplicates or 0 if experiment.cleaning.duplicates == "drop" else 0,
        repeated=repeated,
        summed=summed,
        entries=entries,
        covered=covered,
        has_rule=experiment.assignment_rule is not None and _names_variant(shape),
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


def place_units(run: Run, shape: LogShape, summed: Summed) -> Entries:
    """Create `unit_day` and `units` from `logged_sums`, and count when units entered."""
    engine = run.engine
    engine.view("logged_cells", views.cells_view(run.experiment, shape, closed=summed.closed))
    known = "logged_units" if shape.exposures is None else "logged_and_exposed_units"
    engine.view("known_units", query(f"units/{known}"))
    engine.table("unit_names", query("units/unit_names"))
    engine.view("unit_cells", query("units/unit_cells"))
    one_row = has_one_row(run.experiment, shape) and summed.has_rows
    engine.table("unit_day", query(f"units/unit_{'row' if one_row else 'day'}"))
    run.step("assignment")
    changes = len(planned_splits(run.experiment)) > 1
    by_rule = _placement(run.experiment, shape) != "placed_by_log"
    checks.check_schedule(changes, _knows_entries(shape), by_rule)
    _write_candidates(run.experiment, shape, engine)
    entries = _entries(run.experiment, shape, engine, summed)
    _write_units(run.experiment, shape, engine, entries.stretches)
    return entries


def _entries(experiment: Experiment, shape: LogShape, engine: Engine, summed: Summed) -> Entries:
    """When units entered; of some of the units only, stretches cannot be known."""
    if not _knows_entries(shape):
        return Entries(pd.DataFrame(columns=list(ENTERED)), ())
    counts = entered(experiment, engine)
    return Entries(counts, stretches_of(experiment, counts) if summed.all_units else ())


def _write_views(run: Run, shape: LogShape, join: ClickJoin) -> None:
    experiment, engine = run.experiment, run.engine
    logs = experiment.logs
    engine.view("experiment", views.experiment_view(experiment))
    engine.view("seen", views.seen_view(experiment, shape, engine, *join))
    if shape.items is not None:
        engine.table("items", views.items_view(shape.items))
    if shape.exposures is not None and logs.exposures is not None:
        engine.view("exposures", exposures_view(experiment, shape.exposures, engine))
        engine.table("exposed", query("log/exposed"))
    write_clicks(run, shape, join)
    engine.view("logged", views.logged_view(experiment, shape))


def _write_impressions(
    run: Run, metrics: Sequence[Metric], shape: LogShape, cuts: Sequence[str]
) -> None:
    engine = run.engine
    engine.view("analysed_names", query("units/analysed_names"))
    engine.view("logged_impressions", views.impressions_view(run.experiment, shape))
    read = _columns_read(metrics, shape, run.experiment.unit)
    if cuts:
        read = list(dict.fromkeys([*read, *views.cut_columns(shape, cuts)]))
    if read:
        run.step("impressions")
    create = engine.table if read else engine.view
    columns = ", ".join(["unit_id", *read]) if read else "*"
    create("impressions", f"select {columns} from logged_impressions")


def _columns_read(metrics: Sequence[Metric], shape: LogShape, unit: str) -> list[str]:
    """The columns of the impressions that metrics read besides the sums per unit and day."""
    has = shape.needs_met(unit)
    sources = dict.fromkeys(m.source for m in metrics if m.needs <= has)
    read = [column for source in sources for column in source.reads]
    scores = views.score_columns(shape) if any(source.scored for source in sources) else []
    return list(dict.fromkeys([*read, *scores, *views.event_columns(shape)]))


def _knows_entries(shape: LogShape) -> bool:
    """Whether the logs say when a unit entered."""
    return shape.has_time or (shape.exposures is not None and "ts" in shape.exposures)


def _write_candidates(experiment: Experiment, shape: LogShape, engine: Engine) -> None:
    engine.table("seen_units", query("units/seen_units"))
    engine.table("first_variant", query("units/first_variant"))
    weights = {name: variant.weight for name, variant in experiment.variants.items()}
    slots = Assignment(experiment.salt, weights).ranges
    excludes = "true" if experiment.cleaning.crossover == "exclude" else "false"
    engine.view("crossover_policy", f"select {excludes} as excludes")
    engine.view("variants", _values("variant", [(name,) for name in experiment.variants]))
    engine.view(
        "allocation",
        _values("variant, first_slot, end_slot", [(r.variant, r.start, r.stop) for r in slots]),
    )
    population = "exposed_units" if shape.exposures is not None else "active_units"
    engine.view("present_units", query(f"units/{population}"))
    engine.table("hashed_units", _hashed_units(experiment, engine))
    rule = experiment.assignment_rule
    if rule is not None:
        write_expected_units(rule, engine)
    engine.table("tie_variants", query(f"units/tied_by_{experiment.ties}"))
    engine.view("placed_units", query(f"units/{_placement(experiment, shape)}"))
    engine.table("candidates", query("units/candidates"))


def _write_units(
    experiment: Experiment, shape: LogShape, engine: Engine, stretches: Stretches
) -> None:
    engine.view("stretched", stretched(experiment, engine, stretches))
    if shape.segments:
        engine.table("entry_segments", query("units/first_segments"))
        engine.view("earlier_segments", query("units/earlier_segments"))
        if known_from(experiment, "exposure"):
            engine.view("exposure_segments", query("units/exposure_segments"))
        engine.table("first_segments", segments_view(experiment, shape))
    listed = query("units/segmented_units" if shape.segments else "units/units")
    if shape.table is not None:
        write_unit_rows(experiment, shape.table, engine)
        engine.view("listed_units", listed)
        listed = query("units/described_units")
    engine.table("units", listed)


def _hashed_units(experiment: Experiment, engine: Engine) -> str:
    """Each unit's slot and sub-bucket: hashed once per unit, not once per impression."""
    h60 = engine.hash60(experiment.salt, "cast(n.logged_id as varchar)")
    return f"""
    with hashed as (
      select p.*, {h60} as h60 from present_units p join unit_names n on p.unit_id = n.unit_id
    )
    select unit_id, first_ms, variant_low, variant_high, first_variant,
      h60 % {SLOTS} as slot,
      cast(floor(h60 / {SLOTS}) as bigint) % {SUB_BUCKETS} as sub_bucket
    from hashed
    """


def _placement(experiment: Experiment, shape: LogShape) -> str:
    """The query for a unit's variant."""
    as_assigned = experiment.cleaning.crossover == "as_assigned"
    rule = experiment.assignment
    if rule is None or not experiment.assigns or (_names_variant(shape) and not as_assigned):
        return "placed_by_log"
    return "placed_by_hash" if rule.is_plain else "placed_by_rule"


def _names_variant(shape: LogShape) -> bool:
    """Whether a log says which variant a unit was in."""
    by_exposure = shape.exposures is not None and "variant" in shape.exposures
    return shape.names_variant or by_exposure


def _values(columns: str, rows: Sequence[tuple[str | int, ...]]) -> str:
    listed = ", ".join(
        "(" + ", ".join(literal(v) if isinstance(v, str) else str(v) for v in row) + ")"
        for row in rows
    )
    return f"select * from (values {listed}) as v ({columns})"
