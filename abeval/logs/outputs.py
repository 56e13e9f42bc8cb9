"""Keep the files that a run writes apart from those that it reads."""

import glob
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from abeval.engines.sources import list_log_files, list_logs
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.files import resolve_path


class RunInput(NamedTuple):
    """Name a file that a run reads, or with a `pattern` the files of a folder.

    `name` is what messages call it. `*` of a pattern matches folders too, so that too much is
    refused rather than too little.
    """

    name: str
    path: Path
    pattern: str = ""

    def would_have(self, file: Path) -> bool:
        """Tell whether the next run would read a file."""
        root, target = resolve_path(self.path), resolve_path(file)
        below = target.relative_to(root).as_posix() if target.is_relative_to(root) else ""
        return bool(below) and fnmatch(below, self.pattern.replace("**/", "*"))


def check_apart(reads: Sequence[RunInput], writes: Sequence[tuple[str, Path]]) -> None:
    """Raise if a run would write what it reads, or one file twice, also by links.

    Raises:
        ExperimentError: Also where the next run would read an output as input.
    """
    hint = "name another file or folder"
    for (first_name, first), (second_name, second) in combinations(writes, 2):
        if not _identify_file(first).isdisjoint(_identify_file(second)):
            raise ExperimentError(
                f"{first_name} and {second_name} would write the same file: {second}", hint
            )
    files = [read for read in reads if not read.pattern and not _is_device(read.path)]
    reads_by_mark = {mark: read for read in files for mark in _identify_file(read.path)}
    for name, file in writes:
        # Writing db.wal would also replace a part of the database db.
        marks = _identify_file(file) | _identify_file(
            Path(_COMPANION.sub("", str(resolve_path(file))))
        )
        replaced = next((reads_by_mark[mark] for mark in marks if mark in reads_by_mark), None)
        if replaced is not None:
            raise ExperimentError(f"{name} would replace {replaced.name}: {replaced.path}", hint)
        read = next((read for read in reads if read.pattern and read.would_have(file)), None)
        if read is not None:
            where = f"{file} is among the files of {read.path / read.pattern}"
            raise ExperimentError(
                f"{name} would be read as {read.name} by the next run: {where}",
                "write to a folder that holds no input",
            )


def list_reads(experiment: Experiment) -> list[RunInput]:
    """List the files that an experiment reads, now or at the next run."""
    reads = [
        RunInput(f"the included {file.name}", file)
        for file in _list_included_files(experiment.include, experiment.folder)
    ]
    for log, source in list_logs(experiment).items():
        name = f"the log {log}"
        reads += [RunInput(name, Path(f)) for f in list_log_files(log, source, experiment.folder)]
        for path in source.paths:
            # A glob or folder may hold more files by the next run.
            reads += find_matching_reads(name, experiment.folder, path)
    return reads


def _list_included_files(names: Iterable[str], folder: Path) -> Iterator[Path]:
    """List the files that experiment files include, directly or indirectly."""
    for name in names:
        yield folder / name
        entries = tomllib.loads((folder / name).read_text(encoding="utf-8-sig"))
        yield from _list_included_files(entries.get("include", ()), (folder / name).parent)


def find_matching_reads(name: str, folder: Path, path: str) -> Iterator[RunInput]:
    """Find what a path names: a file, the files of a folder, or of a glob."""
    if "://" in path or "\0" in path:
        return
    parts = Path(path).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    root, pattern = folder.joinpath(*parts[:fixed]), parts[fixed:]
    if pattern or os.path.isdir(root):  # noqa: PTH112 (Path fails on odd names)
        yield RunInput(name, root, "/".join(pattern) or "*")
    if not pattern or os.path.exists(folder / path):  # noqa: PTH110
        yield RunInput(name, folder / path)


def _identify_file(file: Path) -> set[object]:
    """Return what identifies a file: its real path in lower case, and its inode."""
    target = resolve_path(file)
    marks: set[object] = {str(target).casefold()}
    with suppress(OSError, ValueError):
        status = target.stat()
        marks.add((status.st_dev, status.st_ino))
    return marks


_COMPANION = re.compile(r"(\.wal|-wal|-shm|-journal)$")
"""Endings that DuckDB and SQLite add to a database's name for its other files."""


def _is_device(file: Path) -> bool:
    """Tell whether a file is a device or a pipe, which nothing replaces."""
    is_other = not (os.path.isfile(file) or os.path.isdir(file))  # noqa: PTH112, PTH113 (odd names)
    return is_other and os.path.exists(file)  # noqa: PTH110
