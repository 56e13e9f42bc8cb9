"""The files that an experiment names, which a confined engine may open.

`logs/run.py` and `statement.py` confine an engine to them; `logs/outputs.py` refuses to write
them.
"""

import glob
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from abeval.engines import sources
from abeval.errors import LogError

if TYPE_CHECKING:
    from abeval.experiment.model import Experiment
    from abeval.experiment.sources import LogSource


def logs_of(experiment: "Experiment") -> "Mapping[str, LogSource]":
    """The logs and tables that an experiment has, by name."""
    return {**experiment.logs.named, **experiment.tables}


def files_of_log(log: str, source: "LogSource", folder: Path) -> list[str]:
    """The files of a log that are there; the run itself says if there are none."""
    if source.database is not None:
        return [str(folder / source.database)]
    with suppress(LogError, OSError, ValueError):
        if source.paths:
            files = sources.files_of(log, source.paths, folder, source.format)
            return [*files.read, *files.empty]
    return []


def files_of_experiment(experiment: "Experiment") -> list[str]:
    """The files of all logs."""
    logs = logs_of(experiment).items()
    return [file for log, source in logs for file in files_of_log(log, source, experiment.folder)]


def spelled(paths: Sequence[str]) -> list[str]:
    """Each path, and as readers that take names for globs have to be given it.

    Example:
        >>> spelled(["a.parquet", "b[1].parquet"])
        ['a.parquet', 'b[1].parquet', 'b[[]1].parquet']
    """
    return list(dict.fromkeys(name for path in paths for name in (path, glob.escape(path))))
