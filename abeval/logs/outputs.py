"""Files that a run reads and files that it writes, kept apart before any work."""

import glob
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from abeval.engines.sources import files_of_log, logs_of
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.files import real


class Place(NamedTuple):
    """A file, or files of a folder, that a run reads or writes; `name` is its option or what it is.

    `holds` are globs of the files in a folder that are meant; empty for a file.
    """

    name: str
    path: Path
    holds: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """Return the file; of a folder, one for each glob."""
        names = (name.replace("**", "0").translate(_ANY) for name in self.holds)
        return [self.path / name for name in names] if self.holds else [self.path]

    def has(self, file: Path) -> bool:
        """Tell whether a file is meant, by whatever name.

        Example:
            >>> Place("--out", Path("kept"), ("part-*.parquet",)).has(Path("kept/part-1.parquet"))
            True
        """
        if not self.holds:
            return not _marks(self.path).isdisjoint(_marks(file))
        root, target = real(self.path), real(file)
        if not target.is_relative_to(root):
            return False
        below = target.relative_to(root).parts
        return any(_fits(below, Path(pattern).parts) for pattern in self.holds)


_ANY = str.maketrans("*?", "00")
_OTHER = "name another file or folder"


def check_apart(reads: Sequence[Place], writes: Sequence[Place]) -> None:
    """Refuse to write what is read, or one file twice, through links too.

    Raises:
        ExperimentError: Also where the next run would read an output as input.
    """
    for first, second in combinations(writes, 2):
        same = not _marks(first.path).isdisjoint(_marks(second.path))
        if same or any(map(first.has, second.files)) or any(map(second.has, first.files)):
            what = f"{first.name} and {second.name} would write the same file: {second.path}"
            raise ExperimentError(what, _OTHER)
    folders = [read for read in reads if read.holds]
    files = [read for read in reads if not read.holds and not _is_device(read.path)]
    named = {mark: read for read in files for mark in _marks(read.path)}
    for write in writes:
        marks = (mark for file in write.files for mark in _marks(file))
        replaced = [named[mark] for mark in marks if mark in named]
        if write.holds:
            replaced += [read for read in files if write.has(read.path)]
        if replaced:
            what = f"{write.name} would replace {replaced[0].name}: {replaced[0].path}"
            raise ExperimentError(what, _OTHER)
        read = next((read for read in folders if any(map(read.has, write.files))), None)
        if read is not None:
            where = f"{write.path} is among the files of {read.path / read.holds[0]}"
            raise ExperimentError(
                f"{write.name} would be read as {read.name} by the next run: {where}",
                "write to a folder that holds no input",
            )


def reads_of(experiment: Experiment) -> list[Place]:
    """List the files that an experiment names: of its logs, now or at the next run; included."""
    reads = [
        Place(f"the included {file.name}", file)
        for file in _included(experiment.include, experiment.folder)
    ]
    for log, source in logs_of(experiment).items():
        name = f"the log {log}"
        reads += [Place(name, Path(f)) for f in files_of_log(log, source, experiment.folder)]
        for path in source.paths:
            # A database may have a write-ahead log.
            for one in (path, f"{path}.wal", f"{path}-wal"):
                reads += matched(name, experiment.folder, one)
    return reads


def _included(names: Iterable[str], folder: Path) -> Iterator[Path]:
    """List files that experiment files include, and what these include; each was read before."""
    for name in names:
        yield folder / name
        entries = tomllib.loads((folder / name).read_text(encoding="utf-8-sig"))
        yield from _included(entries.get("include", ()), (folder / name).parent)


def matched(name: str, folder: Path, path: str) -> Iterator[Place]:
    """Find what a path names: a file, all files of a folder, or those that fit a glob."""
    if "://" in path or "\0" in path:
        return
    parts = Path(path).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    root, pattern = folder.joinpath(*parts[:fixed]), parts[fixed:]
    if pattern or os.path.isdir(root):  # noqa: PTH112 (Path fails on odd names)
        yield Place(name, root, ("/".join(pattern) or "**",))
    if not pattern or os.path.exists(folder / path):  # noqa: PTH110
        yield Place(name, folder / path)


def _marks(file: Path) -> set[object]:
    """Return what a file is known by: where its path leads, in any case, and its number on disk."""
    target = real(file)
    marks: set[object] = {str(target).casefold()}
    with suppress(OSError, ValueError):
        status = target.stat()
        marks.add((status.st_dev, status.st_ino))
    return marks


def _is_device(file: Path) -> bool:
    """Tell whether a file is a device or a pipe, which nothing replaces."""
    with suppress(OSError, ValueError):
        mode = file.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether the parts of a path fit those of a glob.

    Example:
        >>> _fits(("day=1", "a.parquet"), ("day=*", "*.parquet"))
        True
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or (bool(parts) and _fits(parts[1:], pattern))
    return (
        bool(parts)
        and fnmatchcase(os.path.normcase(parts[0]), os.path.normcase(pattern[0]))
        and _fits(parts[1:], pattern[1:])
    )
