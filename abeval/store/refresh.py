"""Makes `logged_sums` of stored parts, one for each input file, and computes those that lack."""

import os
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from abeval.engines import sources
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import ROW_UNIT, Experiment
from abeval.logs.shape import LogShape, component_name
from abeval.logs.sums import Step, Summed, Sums
from abeval.metrics import READS, Metric
from abeval.queries import query
from abeval.sql import literal, quoted
from abeval.store.definition import Definition, definition_of
from abeval.store.manifest import (
    DRAFT,
    PART,
    Entry,
    Input,
    fingerprint,
    is_whole,
    read_manifest,
    sha256_of,
    sweep,
    write_manifest,
)


@dataclass(frozen=True)
class Refresh:
    """What one run did to a store.

    Attributes:
        read: The files that were read, with the days of their rows.
        kept: The files whose parts were taken as they are.
        vanished: Files whose parts were dropped, because the log has them no more.
        broken: Files whose parts were there, but not as they had been written.
        trouble: Why the whole store was computed anew, None where it was believed.
    """

    read: Mapping[str, tuple[str, ...]]
    kept: tuple[str, ...]
    vanished: tuple[str, ...]
    broken: tuple[str, ...]
    trouble: str | None

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


def stored_sums(folder: Path) -> Sums:
    """The way to `logged_sums` that leads over a store.

    Args:
        folder: Of the store; made where it is not there.
    """

    def sums(
        experiment: Experiment,
        metrics: Sequence[Metric],
        shape: LogShape,
        engine: Engine,
        step: Step,
    ) -> Summed:
        if not isinstance(engine, DuckDBEngine):
            raise ExperimentError("the store does not work here: it needs the engine duckdb")
        files = _files(experiment)
        found = _refresh(folder, experiment, shape, engine, files, step)
        return Summed((*found.notes(), *_read_again(experiment, metrics, shape, files)))

    return sums


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
    folder: Path,
    experiment: Experiment,
    shape: LogShape,
    engine: DuckDBEngine,
    files: Sequence[str],
    step: Step,
) -> Refresh:
    step("store")
    manifest = read_manifest(folder, experiment.name)
    _make_folder(folder)
    wanted = definition_of(experiment, shape, engine)
    # Relative, so that logs and store may move together.
    names = {os.path.relpath(file, experiment.folder): file for file in files}
    states = {name: fingerprint(file) for name, file in names.items()}
    fitting = {
        name: entry
        for name, entry in manifest.parts.items()
        if name in states and _fits(entry, states[name], wanted)
    }
    whole = _whole(folder, fitting)
    parts = dict(whole)
    missing = [name for name in names if name not in whole]
    for done, name in enumerate(missing, start=1):
        step(f"reading new files: {done} of {len(missing)}")
        parts[name] = _part(folder, names[name], states[name], wanted, shape, engine)
        write_manifest(folder, experiment.name, parts)
    if missing:
        engine.add_log("raw_impressions", experiment.logs.impressions)
    else:
        write_manifest(folder, experiment.name, parts)
    sweep(folder, parts)
    step("units and days")
    listed = [parts[os.path.relpath(file, experiment.folder)] for file in files]
    engine.table("logged_sums", _together(folder, listed, shape, wanted))
    return Refresh(
        read={name: parts[name].days for name in missing},
        kept=tuple(whole),
        vanished=tuple(name for name in manifest.parts if name not in states),
        broken=tuple(name for name in fitting if name not in whole),
        trouble=manifest.trouble,
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(f"the store {folder} cannot be made: {error.strerror}") from error


def _fits(entry: Entry, state: Input, wanted: Definition) -> bool:
    has = entry.input == state and entry.definition == wanted.rows
    return has and set(wanted.components) <= set(entry.components)


def _whole(folder: Path, parts: Mapping[str, Entry]) -> dict[str, Entry]:
    """The parts that are as they were written."""
    with ThreadPoolExecutor() as pool:
        checked = pool.map(lambda entry: is_whole(folder, entry), parts.values())
        return {file: parts[file] for file, good in zip(parts, checked, strict=True) if good}


def _part(
    folder: Path,
    file: str,
    state: Input,
    wanted: Definition,
    shape: LogShape,
    engine: DuckDBEngine,
) -> Entry:
    """Sum one file: the views are left as they are, and read it in the place of the whole log."""
    engine.view("raw_impressions", _one_file(file, shape, engine))
    named = {component_name(i): _column(c) for i, c in enumerate(wanted.components)}
    renamed = ", ".join(f"{old} as {new}" for old, new in named.items())
    sql = f"select * rename ({renamed}) from (\n{query('units/logged_sums')}\n)"
    draft = folder / f"{DRAFT}{secrets.token_hex(8)}"
    engine.rows(f"copy (\n{sql}\n) to {literal(str(draft))} (format parquet)")
    if fingerprint(file) != state:
        raise LogError(f"{file} changed while it was read", "run again when it is written")
    digest = sha256_of(draft)
    part = f"{PART}{digest[:32]}.parquet"
    days = engine.rows(
        f"select distinct cast(day as varchar) from read_parquet({literal(str(draft))}) "
        "where day is not null order by 1"
    )
    draft.replace(folder / part)
    listed = tuple(str(day) for (day,) in days)
    return Entry(state, wanted.rows, wanted.components, part, digest, listed)


def _one_file(file: str, shape: LogShape, engine: DuckDBEngine) -> str:
    """A file with the columns and types that all files have together."""
    hive = "true" if sources.has_partitions([file]) else "false"
    read = f"read_parquet({literal(file)}, hive_partitioning = {hive}, hive_types_autocast = false)"
    own = {str(row[0]).lower(): row for row in engine.rows(f"describe from {read}")}
    columns = []
    for name, kind in shape.impressions.types.items():
        found = own.get(name.lower())
        if found is None:
            columns.append(f"cast(null as {kind}) as {quoted(name)}")
        elif str(found[1]) == kind:
            columns.append(f"{quoted(str(found[0]))} as {quoted(name)}")
        else:
            columns.append(f"cast({quoted(str(found[0]))} as {kind}) as {quoted(name)}")
    return f"select {', '.join(columns)} from {read}"


def _together(folder: Path, parts: Sequence[Entry], shape: LogShape, wanted: Definition) -> str:
    """All parts as one relation: whoever reads `logged_sums` adds up its rows."""
    files = ", ".join(literal(str(folder / part.file)) for part in parts)
    segments = [quoted(f"s_{name}") for name in shape.segments]
    sums = [f"{_column(c)} as {component_name(i)}" for i, c in enumerate(wanted.components)]
    columns = [*_CELL, *segments, "first_ms", "last_ms", *sums]
    return f"select {', '.join(columns)} from read_parquet([{files}], union_by_name = true)"


_CELL = ("unit_id", "phase", "day", "variant", "is_exposed")


def _column(component: str) -> str:
    """The name of a sum in a part, where its place among the metrics does not matter."""
    return f"sum_{component}"


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
