"""Makes `logged_sums` of stored parts, one for each input file, and computes those that lack."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from abeval.engines import sources
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError
from abeval.experiment.model import ROW_UNIT, Experiment
from abeval.logs.shape import LogShape
from abeval.logs.sums import Step, Summed, Sums
from abeval.metrics import READS, Metric
from abeval.store.closing import CLOSED_CELLS, Closing, load_open
from abeval.store.definition import definition_of
from abeval.store.lock import held
from abeval.store.manifest import (
    STATE,
    Entry,
    fingerprint,
    read_manifest,
    sweep,
    write_manifest,
)
from abeval.store.parts import Parts
from abeval.store.state import State, read_state, state_definition, why_not


@dataclass(frozen=True)
class Refresh:
    """What one run did to a store.

    Attributes:
        read: The files that were read, with the days of their rows.
        kept: The files whose parts were taken as they are.
        vanished: Files whose parts were dropped, because the log has them no more.
        broken: Files whose parts were there, but not as they had been written.
        trouble: Why the whole store was computed anew, None where it was believed.
        entries: The part of each file that the log has.
        state: Closed days that are carried on, None where all days are added up from parts.
        known: The parts that there were in the run before.
        anew: Why closed days are not carried on, None where they are or where there are none.
        rewritten: Whether a file of the log is another than it was.
    """

    read: Mapping[str, tuple[str, ...]]
    kept: tuple[str, ...]
    vanished: tuple[str, ...]
    broken: tuple[str, ...]
    trouble: str | None
    entries: Mapping[str, Entry]
    state: State | None
    known: Collection[str]
    anew: str | None
    rewritten: bool

    def notes(self) -> tuple[str, ...]:
        """In words, for whoever reads the result."""
        days = sorted({day for found in self.read.values() for day in found})
        span = "" if not days else f" (days {_ranges(days)})"
        said = [
            f"Aggregate store: {len(self.read)} of {len(self.read) + len(self.kept)} files of the "
            f"impressions were read{span}, {len(self.kept)} were kept."
        ]
        if self.trouble is not None:
            said.append(f"The store was computed anew: {self.trouble}.")
        if self.vanished:
            said.append(f"Files that the log has no more were dropped: {_names(self.vanished)}.")
        if self.broken:
            said.append(f"Damaged parts of the store were computed anew: {_names(self.broken)}.")
        if self.state is not None:
            parts = self.entries.values()
            later = sorted({d for part in parts for d in part.days if d > self.state.last_day})
            said.append(
                f"State of units: {self.state.closed_days(parts)} closed days were carried on, "
                f"{len(later)} added up{f' ({_ranges(later)})' if later else ''}."
            )
        if self.anew is not None:
            said.append(f"State of units: all days were added up anew, because {self.anew}.")
        return tuple(said)


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
    read_manifest(folder, experiment.name)
    _make_folder(folder)
    until_the_end.enter_context(held(folder))
    parts = Parts(folder, definition_of(experiment, shape, engine), shape, engine)
    again = _read_again(experiment, metrics, shape, files)
    closes = shape.has_time and not again and len(set(files)) == len(files)
    found = _refresh(parts, experiment, files, step, closes)
    step("units and days")
    listed = [found.entries[os.path.relpath(file, experiment.folder)] for file in files]
    load_open(parts, listed, found.state)
    closing = Closing(parts, experiment, listed, found.state, found.known, found.rewritten)
    return Summed(
        notes=(*found.notes(), *again),
        closed=None if found.state is None else CLOSED_CELLS,
        settle=closing.settle if closes else None,
    )


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


def _refresh(
    parts: Parts,
    experiment: Experiment,
    files: Sequence[str],
    step: Step,
    closes: bool,
) -> Refresh:
    """Make the parts that lack, and see whether closed days can be carried on."""
    folder = parts.folder
    manifest = read_manifest(folder, experiment.name)
    # Relative, so that logs and store may move together.
    names = {os.path.relpath(file, experiment.folder): file for file in files}
    states = {name: fingerprint(file) for name, file in names.items()}
    entries = {
        name: entry
        for name, entry in manifest.parts.items()
        if name in states and parts.fits(entry, states[name])
    }
    state = read_state(folder) if closes else None
    wanted = state_definition(experiment, parts.wanted)
    anew = None if state is None else why_not(state, list(entries.values()), wanted)
    carried = state if anew is None else None
    opened = [e for e in entries.values() if carried is None or carried.open_part(e)]
    damaged = parts.broken(opened)
    broken = tuple(name for name, entry in entries.items() if entry in damaged)
    kept = {name: entry for name, entry in entries.items() if name not in broken}
    found = dict(kept)
    missing = [name for name in names if name not in kept]
    for done, name in enumerate(missing, start=1):
        step(f"reading new files: {done} of {len(missing)}")
        found[name] = parts.make(names[name], states[name])
        write_manifest(folder, experiment.name, found)
    if not missing:
        write_manifest(folder, experiment.name, found)
    sweep(folder, found)
    done_now = Refresh(
        read={name: found[name].days for name in missing},
        kept=tuple(kept),
        vanished=tuple(name for name in manifest.parts if name not in states),
        broken=broken,
        trouble=manifest.trouble,
        entries=found,
        state=carried,
        known=() if state is None else state.known,
        anew=anew,
        rewritten=any(
            name in states and entry.input != states[name] for name, entry in manifest.parts.items()
        ),
    )
    late = None if carried is None else why_not(carried, list(found.values()), wanted)
    if late is None:
        return done_now
    # Without its state every part counts, and is looked at.
    (folder / STATE).unlink()
    rest = _refresh(parts, experiment, files, step, closes=False)
    return replace(
        done_now,
        read={**done_now.read, **rest.read},
        kept=tuple(name for name in done_now.kept if name not in rest.read),
        broken=(*done_now.broken, *rest.broken),
        entries=rest.entries,
        state=None,
        anew=late,
    )


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
    names = [m.name for m in metrics if m.needs <= has and m.source in READS]
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


def _ranges(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _names(files: Sequence[str]) -> str:
    shown = [Path(file).name for file in files[:5]]
    return ", ".join(shown) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
