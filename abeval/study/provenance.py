"""What a study was computed from and with: the experiment file, its inputs, the SQL, versions.

`run.py` calls it.
"""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomlkit

from abeval.engines.sources import files_of, files_of_log, logs_of
from abeval.engines.sql import query
from abeval.errors import LogError, masked
from abeval.experiment.model import Experiment
from abeval.experiment.sources import LogSource
from abeval.logs.files import rows_by_file
from abeval.logs.run import Inputs
from abeval.results.study import InputFile, Provenance
from abeval.version import __version__

_LIBRARIES = ("duckdb", "numpy", "scipy", "statsmodels", "pandas")
_BLOCK = 1 << 20


def provenance_of(experiment: Experiment, inputs: Inputs, queries: Iterable[str]) -> Provenance:
    """The experiment as a file, its inputs, its SQL and the versions.

    Args:
        experiment: As it was run.
        inputs: Frames of the caller, which have no file.
        queries: Names of the queries that ran.
    """
    frames = set(inputs.get("logs") or {})
    logs = {log: source for log, source in logs_of(experiment).items() if log not in frames}
    files = [
        _input(log, Path(file), experiment.folder, rows.get(file))
        for log, source in logs.items()
        for rows in (_rows_of(log, source, experiment.folder),)
        for file in dict.fromkeys(files_of_log(log, source, experiment.folder))
        if Path(file).is_file()
    ]
    libraries = ((name, version(name)) for name in _LIBRARIES)
    return Provenance(
        experiment=masked(experiment_text(experiment)),
        inputs=tuple(files),
        queries=tuple((name, query(name)) for name in sorted(set(queries))),
        versions=(("abeval", __version__), ("python", platform.python_version()), *libraries),
    )


def experiment_text(experiment: Experiment) -> str:
    """The experiment as TOML, with what it includes."""
    entries = experiment.model_dump(
        exclude_unset=True,
        exclude_none=True,
        exclude={"folder", "overrides", "include"},
    )
    return tomlkit.dumps(_plain(entries))


def _plain(value: Any) -> Any:  # noqa: ANN401 (a tree of entries)
    """Entries as TOML has them: tables, lists, text, numbers, dates."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str | date | time) else str(value)


def _rows_of(log: str, source: LogSource, folder: Path) -> Mapping[str, int | None]:
    """File of a log → its rows; none of a database."""
    if source.database is not None or not source.paths:
        return {}
    with suppress(LogError, OSError, ValueError):
        return rows_by_file(log, files_of(log, source.paths, folder, source.format))
    return {}


def _input(log: str, file: Path, folder: Path, rows: int | None) -> InputFile:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
    inside = file.is_relative_to(folder)
    path = file.relative_to(folder) if inside else file
    return InputFile(log, path.as_posix(), file.stat().st_size, digest.hexdigest(), rows)
