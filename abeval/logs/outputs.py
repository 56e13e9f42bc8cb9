"""Outputs that would replace an input, each other, or be read as a log: refused before any work.

`cli/options.py` hands it what a command writes, `pipeline.py` what a call writes.
"""

import glob
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from abeval.engines.inputs import files_of_log, logs_of
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.experiment.sources import LogSource
from abeval.files import real


class Output(NamedTuple):
    """A file or a folder that a run writes.

    Attributes:
        name: Of the option or the argument that names it.
        path: Where it is.
        holds: Of a folder: names of files that are written into it; empty for a file.
    """

    name: str
    path: Path
    holds: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """The files that are written, links followed."""
        names = self.holds or ("",)
        return [real(self.path / name) for name in names]


_OTHER = "name another file or folder"


def check_named(name: str, path: str | Path) -> None:
    """Refuse an empty name, which would mean the working directory.

    Raises:
        ExperimentError: It is empty.

    Example:
        >>> check_named("store", "")
        Traceback (most recent call last):
        abeval.errors.ExperimentError: store: the name is empty
          hint: name a file or a folder; `.` is the working directory
    """
    if not str(path):
        raise ExperimentError(
            f"{name}: the name is empty", "name a file or a folder; `.` is the working directory"
        )


def check_outputs(
    experiment: Experiment, outputs: Sequence[Output], inputs: Mapping[str, Path]
) -> None:
    """Refuse outputs that would destroy an input or each other.

    Args:
        experiment: Its logs are inputs.
        outputs: What the run writes.
        inputs: Other files that the run reads, by what they are.

    Raises:
        ExperimentError: Two outputs are one file, or an output is an input, through links too, or
            would be read as part of a log by the next run.
    """
    for first, second in combinations(outputs, 2):
        if real(first.path) == real(second.path) or set(first.files) & set(second.files):
            what = f"{first.name} and {second.name} would write the same file: {second.path}"
            raise ExperimentError(what, _OTHER)
    logs = logs_of(experiment)
    named = {real(path): what for what, path in inputs.items()}
    for log, source in logs.items():
        files = files_of_log(log, source, experiment.folder)
        named |= {real(file): f"the log {log}" for file in files if "\0" not in file}
    for output in outputs:
        for file in output.files:
            if file in named:
                what = f"{output.name} would replace {named[file]}: {output.path}"
                raise ExperimentError(what, _OTHER)
            for log, source in logs.items():
                _check_unread(output, file, log, source, experiment.folder)


def _check_unread(output: Output, file: Path, log: str, source: LogSource, folder: Path) -> None:
    """Refuse a file that the next run would read as a part of a log."""
    for path in source.paths:
        is_local = "://" not in path and "\0" not in path
        if is_local and _reads(folder, path, file):
            where = f"{output.path} is among the files of logs.{log}.path ({path})"
            raise ExperimentError(
                f"{output.name} would be read as the log {log} by the next run: {where}",
                "write to a folder that holds no log",
            )


def _reads(folder: Path, path: str, file: Path) -> bool:
    """Whether the path of a log names a file: itself, its folder, or by a glob.

    Example:
        >>> _reads(Path("/x"), "day=*/*.parquet", Path("/x/day=1/a.parquet"))
        True
        >>> _reads(Path("/x"), "*.parquet", Path("/x/day=1/a.parquet"))
        False
    """
    parts = Path(path).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    root, pattern = real(folder.joinpath(*parts[:fixed])), parts[fixed:]
    if not file.is_relative_to(root):
        return False
    below = file.relative_to(root).parts
    return (not pattern and root.is_dir()) or _fits(below, pattern)


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or (bool(parts) and _fits(parts[1:], pattern))
    return (
        bool(parts)
        and fnmatchcase(os.path.normcase(parts[0]), os.path.normcase(pattern[0]))
        and _fits(parts[1:], pattern[1:])
    )
