"""The way to `logged_sums` that leads over a store: what is read, and what stands for the rest."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from abeval.aggregates.aggregates import Aggregates
from abeval.engines import sources
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError
from abeval.experiment.model import ROW_UNIT, Experiment
from abeval.logs.shape import LogShape
from abeval.logs.sums import Step, Summed, Sums
from abeval.metrics.definition import Metric
from abeval.store.closing import CLOSED_CELLS, Closing, load_open
from abeval.store.definition import definition_of
from abeval.store.lock import held
from abeval.store.manifest import Entry, read_manifest
from abeval.store.parts import Parts
from abeval.store.refresh import refresh
from abeval.store.state import state_definition
from abeval.store.totals import (
    Totals,
    add_up_by_units,
    find_touched,
    load_touched,
    read_totals,
    replays_add_up,
    will_do,
    write_totals,
)


def check_storable(experiment: Experiment, frames: Mapping[str, object]) -> None:
    """Refuse what does not add up file by file, before anything is read.

    Raises:
        ExperimentError: With the reason, and what to do.
    """
    for refused, why, mend in (
        (
            "impressions" in frames or experiment.logs.impressions.table is not None,
            "the impressions are a frame or a table",
            "write them as Parquet files, such as one a day",
        ),
        (
            experiment.engine.name != "duckdb",
            "it needs the engine duckdb",
            "leave [engine] name out, or analyse without a store",
        ),
        (
            experiment.cleaning.duplicates == "drop",
            "a duplicate may lie in another file, which only reading all files again can tell",
            "drop duplicates where the files are written, and set cleaning.duplicates to "
            '"unchecked" ("keep" counts them, and reads all files for it)',
        ),
        (
            experiment.logs.clicks is not None,
            "a click of a log of its own may change an impression of any file",
            "write `click` and `dwell` into the impressions, and a file anew when clicks come late",
        ),
        (
            experiment.unit == ROW_UNIT,
            "every row is a unit of its own, so that nothing adds up",
            "name the unit that was randomised",
        ),
    ):
        if refused:
            raise ExperimentError(f"the store does not work here: {why}", mend)


@contextmanager
def stored_sums(folder: Path) -> Iterator[Sums]:
    """The way to `logged_sums` that leads over a store, which is kept to this run meanwhile.

    Args:
        folder: Of the store; made where it is not there.
    """
    with ExitStack() as until_the_end:
        yield partial(_sums, folder, until_the_end)


def _sums(
    folder: Path,
    until_the_end: ExitStack,
    experiment: Experiment,
    metrics: Sequence[Metric],
    shape: LogShape,
    engine: Engine,
    step: Step,
) -> Summed:
    if not isinstance(engine, DuckDBEngine):
        raise ExperimentError("the store does not work here: it needs the engine duckdb")
    files = _files(experiment)
    step("store")
    manifest = read_manifest(folder, experiment.name)
    _make_folder(folder)
    until_the_end.enter_context(held(folder))
    wanted = definition_of(experiment, shape, engine)
    parts = Parts(folder, wanted, shape, engine, state_definition(experiment, wanted))
    again = _read_again(experiment, metrics, shape, files)
    merges = not again and len(set(files)) == len(files)
    adds_up = merges and add_up_by_units(experiment, metrics)
    totals = _totals(parts, experiment, manifest.parts.values(), len(files)) if adds_up else None
    closes = merges and shape.has_time and totals is None
    found = refresh(parts, experiment, files, step, closes)
    listed = [found.entries[os.path.relpath(file, experiment.folder)] for file in files]
    step("units and days")
    keep = partial(_keep, parts, experiment, listed) if adds_up else None
    notes = (*found.notes(), *again)
    if totals is not None and totals.stand_for(listed):
        units = find_touched(parts, listed, totals)
        # All of them may leave, and with too few units left the replays would deal out units.
        if replays_add_up(experiment, totals.analysed - units):
            touched = load_touched(parts, listed, totals, units)
            return Summed((*notes, touched.note), earlier=touched.earlier, keep=keep)
    load_open(parts, listed, found.state)
    closing = Closing(parts, experiment, listed, found.state, found.known, found.rewritten, adds_up)
    return Summed(
        notes=notes,
        closed=None if found.state is None else CLOSED_CELLS,
        settle=closing.settle if closes else None,
        keep=keep,
    )


def _totals(
    parts: Parts, experiment: Experiment, entries: Iterable[Entry], files: int
) -> Totals | None:
    """Totals to go on from, where units with new rows are few enough."""
    totals = read_totals(parts.folder, experiment, parts.analysis)
    if totals is None:
        return None
    old = [entry for entry in entries if entry.file in totals.parts]
    more = files - len(old)
    return totals if will_do(experiment, totals.units, totals.analysed, old, more) else None


def _keep(
    parts: Parts, experiment: Experiment, entries: Sequence[Entry], aggregates: Aggregates
) -> None:
    analysed = int(aggregates.units["units"].sum())
    if will_do(experiment, aggregates.facts["units"], analysed, entries, 1):
        write_totals(parts.folder, experiment, parts.analysis, entries, aggregates)


def _files(experiment: Experiment) -> list[str]:
    """The input files; one that two paths name is there twice, as it is in the log.

    Raises:
        ExperimentError: They have no fingerprint that is cheap and to be trusted.
    """
    source = experiment.logs.impressions
    files = sources.files_of("impressions", source.paths, experiment.folder)
    kind = sources.kind_of("impressions", files, source.format)
    if kind != "parquet" or any("://" in file for file in files):
        raise ExperimentError(
            "the store does not work here: the impressions are not local Parquet files",
            "write them as Parquet, such as one file a day",
        )
    return files


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(f"the store {folder} cannot be made: {error.strerror}") from error


def _read_again(
    experiment: Experiment, metrics: Sequence[Metric], shape: LogShape, files: Sequence[str]
) -> tuple[str, ...]:
    """What still reads every file, and how much that is."""
    has = shape.needs_met(experiment.unit)
    names = [m.name for m in metrics if m.needs <= has and m.source.reads]
    if any("position" in m.needs and m.needs <= has for m in metrics):
        names.append("the check that positions count from 1")
    if experiment.cleaning.duplicates != "unchecked":
        names.append("counting duplicates")
    if not names:
        return ()
    size = sum(Path(file).stat().st_size for file in files) / 1e6
    return (
        f"Read over all {len(files)} files ({size:,.1f} MB) all the same, because no sums per unit "
        f"and day replace their rows: {', '.join(names)}.",
    )
