"""Aggregates over a store: new files are read; the sums of the others are kept.

`pipeline.py` calls it, in place of `aggregates/collect.py`, where the user names a store; the
`Aggregates` go to `inference/judge.py`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.collect import gathered, shown
from abeval.aggregates.spreads import spread_metrics
from abeval.engines import sources
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.files import held
from abeval.logs.accounting import check_all_counted, check_some_left, check_total_left
from abeval.logs.files import file_facts, lacking_columns
from abeval.logs.placing import place_units
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, columns_read
from abeval.logs.stretches import stretches_of
from abeval.logs.sums import Summed
from abeval.metrics.definition import Metric
from abeval.store.change import with_change
from abeval.store.closing import Closing
from abeval.store.definition import definition_of
from abeval.store.manifest import LOCK, Entry, read_manifest
from abeval.store.parts import Parts
from abeval.store.refresh import refresh
from abeval.store.scheme import has_totals, prefers_totals, replays_add_up
from abeval.store.state import analysis_digest
from abeval.store.totals import Totals, load_units_before, load_units_now, read_totals, write_totals


@dataclass(frozen=True, kw_only=True)
class Stored(Summed):
    """`logged_sums` from a store, and what completes its aggregates.

    Attributes:
        parts: The store.
        entries: The parts of the log.
        may_total: Whether the next run may carry totals on.
        totals: Previous totals; None if `logged_sums` has all units.
        closing: Carries closed days on; None with totals, and if days cannot be closed.
    """

    parts: Parts
    entries: Sequence[Entry]
    may_total: bool
    totals: Totals | None = None
    closing: Closing | None = None


def collect_stored(folder: Path, run: Run, metrics: Sequence[Metric]) -> Aggregates:
    """Aggregate the logs of an experiment as `aggregates.collect` does, over the store of a folder.

    The folder is made if it is missing, and locked during the run.

    Raises:
        ExperimentError: The sums of these logs cannot be stored, the folder is no store, or another
            run uses it.
    """
    if not isinstance(run.engine, DuckDBEngine):
        raise ExperimentError("the store does not work here: it needs the engine duckdb")
    files = _files(run.experiment)
    # Refuses a folder that is no store, before the lock is written into it.
    read_manifest(folder, run.experiment.name)
    collected = partial(_collected, folder, files, run.engine, run, metrics)
    with _made(folder), held(folder / LOCK, str(folder)):
        aggregates, carried = collected(carries=True)
        if carried and stretches_of(run.experiment, aggregates.entered):
            # What was carried on has no stretches, so all parts are added up again.
            aggregates, _ = collected(carries=False)
    return shown(run.experiment, aggregates)


def _collected(
    folder: Path,
    files: Sequence[str],
    engine: DuckDBEngine,
    run: Run,
    metrics: Sequence[Metric],
    carries: bool,
) -> tuple[Aggregates, bool]:
    """Aggregates over the store, and whether sums of the previous run were carried on.

    Args:
        folder: Of the store.
        files: The input files.
        engine: The engine of the run.
        run: The experiment and its engine.
        metrics: The metrics of the scorecard.
        carries: Whether totals and closed days may be carried on, from the previous run to this
            one and to the next.
    """
    sums = partial(_load, folder, files, engine, carries)
    read = [*metrics, *spread_metrics(metrics)]
    prepared = prepare(run, read, sums=sums, cuts=tuple(run.experiment.cuts))
    check_some_left(run.experiment, prepared, run.engine)
    aggregates = gathered(run, metrics, prepared)
    stored = prepared.summed
    if not isinstance(stored, Stored):
        raise TypeError("these are not the sums of a store")
    aggregates = _complete(stored, run, metrics, prepared, aggregates)
    check_all_counted(prepared, aggregates.accounts)
    closing = stored.closing
    carried = stored.totals is not None or (
        closing is not None and closing.refreshed.state is not None
    )
    # Totals and closed days are of all units together: they do not tell stretches apart.
    if not stretches_of(run.experiment, aggregates.entered):
        _keep(stored, run.experiment, aggregates)
    return aggregates, carried


def _load(
    folder: Path,
    files: Sequence[str],
    engine: DuckDBEngine,
    carries: bool,
    run: Run,
    metrics: Sequence[Metric],
    shape: LogShape,
) -> Stored:
    """Make `logged_sums` of units with new rows, of open days, or of all parts."""
    experiment = run.experiment
    run.step("store")
    wanted = definition_of(experiment, shape, engine)
    parts = Parts(folder, wanted, shape, engine, analysis_digest(experiment, wanted))
    read_again = _read_again(experiment, metrics, shape, files)
    merges = carries and not read_again and len(set(files)) == len(files)
    # Totals of changed units do not tell which files their rows were in before.
    facts = file_facts("impressions", experiment.logs.rows, experiment.folder)
    whole = not lacking_columns(facts, columns_read(experiment, metrics, shape))
    may_total = merges and whole and has_totals(experiment, metrics)
    totals = _previous_totals(parts, experiment, len(files)) if may_total else None
    closes = merges and shape.has_time and totals is None
    refreshed = refresh(parts, experiment, files, run.step, closes)
    stored = Stored(
        notes=(*refreshed.notes(), *read_again),
        parts=parts,
        entries=[refreshed.entries[os.path.relpath(file, experiment.folder)] for file in files],
        may_total=may_total,
    )
    run.step("units and days")
    if totals is not None and totals.hold_for(stored.entries):
        touched = load_units_now(parts, stored.entries, totals)
        # All of them may leave; with too few units left, replays need the units themselves.
        if replays_add_up(experiment, totals.analysed - touched):
            note = (
                f"Sums of units: {touched:,} units with rows in new files were added up again; "
                "those of all other units were reused."
            )
            return replace(stored, notes=(*stored.notes, note), all_units=False, totals=totals)
    closing = Closing(parts, experiment, stored.entries, refreshed)
    return replace(stored, closed=closing.load(), closing=closing if closes else None)


def _complete(
    stored: Stored,
    run: Run,
    metrics: Sequence[Metric],
    prepared: Prepared,
    aggregates: Aggregates,
) -> Aggregates:
    """Aggregates of all units and days, from those of `logged_sums`."""
    if stored.totals is not None:
        load_units_before(stored.parts)
        entries = place_units(run, prepared.shape, prepared.summed)
        before = gathered(run, metrics, replace(prepared, entries=entries))
        aggregates = with_change(stored.totals.aggregates, before, aggregates)
        check_total_left(run.experiment, prepared, run.engine, aggregates.accounts)
    elif stored.closing is not None:
        aggregates = stored.closing.with_closed_days(aggregates, metrics)
    return aggregates


def _previous_totals(parts: Parts, experiment: Experiment, files: int) -> Totals | None:
    """Totals of the previous run, if it is cheaper to carry them on."""
    totals = read_totals(parts.folder, experiment, parts.analysis)
    if totals is None:
        return None
    old = totals.old(read_manifest(parts.folder, experiment.name).parts.values())
    return totals if prefers_totals(experiment, totals, old, files - len(old)) else None


def _keep(stored: Stored, experiment: Experiment, aggregates: Aggregates) -> None:
    """Keep what the next run carries on: totals where they are cheaper, otherwise closed days."""
    totals = Totals(frozenset(entry.file for entry in stored.entries), aggregates)
    if stored.may_total and prefers_totals(experiment, totals, stored.entries, 1):
        write_totals(stored.parts, experiment, totals)
    elif stored.closing is not None:
        stored.closing.close(aggregates)


def _files(experiment: Experiment) -> list[str]:
    """The input files; a file that two paths match is there twice, as in the log.

    Raises:
        ExperimentError: They are not local Parquet files, whose changes are cheap to detect.
    """
    source = experiment.logs.rows
    files = sources.files_of("impressions", source.paths, experiment.folder, source.format)
    if files.kind != "parquet" or not files.are_local:
        raise ExperimentError(
            "the store does not work here: the impressions are not local Parquet files",
            "write them as Parquet, such as one file a day",
        )
    return list(files.read)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder of a store, made if it is missing; a run that fails leaves no empty one."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(f"the store {folder} cannot be created: {error.strerror}") from error
    try:
        yield
    finally:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def _read_again(
    experiment: Experiment, metrics: Sequence[Metric], shape: LogShape, files: Sequence[str]
) -> tuple[str, ...]:
    """A note on what reads every file again, none if nothing does."""
    has = shape.needs_met(experiment.unit)
    names = [m.name for m in metrics if m.needs <= has and m.source.reads]
    if any("position" in m.needs and m.needs <= has for m in metrics):
        names.append("the check that positions count from 1")
    if experiment.cleaning.duplicates != "unchecked":
        names.append("counting duplicates")
    names += [f"the cut {name}" for name in experiment.cuts]
    if not names:
        return ()
    size = sum(Path(file).stat().st_size for file in files) / 1e6
    return (
        f"All {len(files)} files ({size:,.1f} MB) were still read for: {', '.join(names)}. They "
        "need the rows, not only sums per unit and day.",
    )
