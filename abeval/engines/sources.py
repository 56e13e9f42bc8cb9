"""The files of logs, their kind, and the names of logs as relations of an engine."""

import csv
import glob
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from abeval.errors import LogError
from abeval.experiment.sources import OUTCOME
from abeval.files import real

if TYPE_CHECKING:
    from abeval.experiment.model import Experiment
    from abeval.experiment.sources import LogSource

_KINDS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}
_COMPRESSED = (".gz", ".zst")
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Files:
    """The files of a log: `parquet`, `csv` or `json`; URLs too, in the order of paths, then names.

    `empty` are text files without a byte, which hold no row; `variants` are file → the variant of
    its rows, where paths say it.
    """

    kind: str
    read: Sequence[str]
    empty: Sequence[str] = ()
    variants: Mapping[str, str] = field(default_factory=dict)

    @property
    def are_local(self) -> bool:
        """Tell whether all of them are files of this machine."""
        return not any("://" in file for file in self.read)


def files_of(log: str, paths: Sequence[str], folder: Path, format: str = "auto") -> Files:
    """List the files of a log: each path is a file, a folder, or else a glob.

    Of a folder, these are all files in it, at any depth, except those that engines hide: names that
    begin with `_` or `.`. A glob reads hidden folders only where it names them.

    Raises:
        LogError: A path has no file, the formats are mixed or unknown, all files are empty, or one
            that cannot be empty.
    """
    if not paths:
        raise LogError(
            f"no path or table for {log}",
            f"give logs.{log}.path or .table, or pass a frame from Python",
        )
    files = [file for path in paths for file in _matching(log, path, folder)]
    kind = _kind_of(log, files, format)
    empty = [file for file in files if "://" not in file and not Path(file).stat().st_size]
    broken = [file for file in empty if kind == "parquet" or file.lower().endswith(_COMPRESSED)]
    read = [file for file in files if file not in set(empty)]
    if broken or not read:
        raise LogError(
            f"{log}: {[*broken, *empty][0]} is empty",
            "the file may be incomplete: write it again, or remove it",
        )
    return Files(kind, read, empty)


def files_by_variant(log: str, source: "LogSource", folder: Path) -> Files:
    """List the files of a log, with their variants where its paths say them."""
    files = files_of(log, source.paths, folder, source.format)
    variants: dict[str, str] = {}
    for variant, paths in source.paths_of_variants.items():
        for file in (file for path in paths for file in _matching(log, path, folder)):
            if variants.setdefault(file, variant) != variant:
                what = f"{log}: {file} is of the variants {variants[file]!r} and {variant!r}"
                raise LogError(what, f"give each variant files of its own in logs.{log}.path")
    return replace(files, variants=variants)


def _matching(log: str, path: str, folder: Path) -> list[str]:
    if "://" in path:
        return [path]
    full = folder / path
    try:
        if full.is_file():
            return [str(full)]
        if full.exists() and not full.is_dir():
            what = f"{log}: {full} is a device or a pipe, but a log is read more than once"
            raise LogError(what, "write its rows to a file")
        files = _below(full) if full.is_dir() else _globbed(path, folder)
    except OSError as error:
        raise LogError(f"{log}: {full} cannot be read: {error.strerror}") from error
    if not files:
        hint = f"check logs.{log}.path; relative paths start at the experiment file"
        raise LogError(f"no file of {log} matches {full}", hint)
    return sorted(files)


def _below(folder: Path) -> list[str]:
    """List the files of a folder at any depth; a folder that is linked again is read once."""
    files, seen = list[str](), set[Path]()

    def fail(error: OSError) -> None:
        raise error

    for here, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        place = real(here)
        folders[:] = [] if place in seen else [name for name in folders if not _is_hidden(name)]
        if place not in seen:
            seen.add(place)
            paths = [Path(here) / name for name in names if name[0] not in "_."]
            for path in paths:
                if path.is_symlink() and not path.exists():
                    raise LogError(f"{path} is a link to nothing", "remove it, or restore the file")
            files += [str(path) for path in paths if path.is_file()]
    return files


def _globbed(path: str, folder: Path) -> list[str]:
    pattern = os.path.join(glob.escape(str(folder)), path)  # noqa: PTH118 (globs are not paths)
    named = [part for part in Path(path).parts if _is_hidden(part)]
    start = len(Path(path).parents[-1].parts) if Path(path).is_absolute() else len(folder.parts)
    return [
        file
        for file in glob.glob(pattern, recursive=True)  # noqa: PTH207
        if Path(file).is_file()
        and all(
            any(fnmatchcase(part, name) for name in named)
            for part in Path(file).parts[start:-1]
            if _is_hidden(part)
        )
    ]


def _is_hidden(folder: str) -> bool:
    """Tell whether engines hide a folder; `_day=2026-09-14` is a partition."""
    return folder.startswith(".") or (folder.startswith("_") and "=" not in folder)


def _kind_of(log: str, files: Sequence[str], format: str) -> str:
    """Return `parquet`, `csv` or `json`: the format, or if it is `auto`, by the files' names."""
    if format != "auto":
        return format
    by_kind: dict[str | None, str] = {}
    for file in files:
        by_kind.setdefault(_kind(file), file)
    if len(by_kind) != 1 or None in by_kind:
        examples = ", ".join(Path(file).name for file in by_kind.values())
        raise LogError(
            f"{log} are files of unknown or mixed formats, such as {examples}",
            f"set logs.{log}.format to parquet, csv or json, or narrow the path",
        )
    return str(by_kind.popitem()[0])


def _kind(file: str) -> str | None:
    suffixes = [suffix.lower() for suffix in Path(file).suffixes]
    is_compressed = suffixes[-1:] and suffixes[-1] in _COMPRESSED
    kind = _KINDS.get((["", *suffixes[:-1]] if is_compressed else ["", *suffixes])[-1])
    return None if is_compressed and kind == "parquet" else kind


def exact(file: str) -> str:
    """Name a file for readers that take names for globs, where it has such characters.

    Raises:
        LogError: It also has a backslash, which no glob of DuckDB can name.

    Example:
        >>> exact("part[1].parquet"), exact("logs/a.parquet")
        ('part[[]1].parquet', 'logs/a.parquet')
    """
    if "://" in file or not glob.has_magic(file):
        return file
    if "\\" in Path(file).as_posix():
        raise LogError(f"{file} has a backslash and one of *, ? and [ in its name", "rename it")
    return glob.escape(Path(file).as_posix())


def partitions(files: Sequence[str]) -> set[str]:
    """Find the columns that names of folders hold, such as `day` of `day=2026-09-14`."""
    folders = {part for file in files for part in Path(file).parts[:-1] if "=" in part}
    return {folder.partition("=")[0] for folder in folders}


def is_table(file: Path) -> bool:
    """Tell whether a file is a table by its name."""
    return _kind(str(file)) is not None


def check_split(log: str, columns: Sequence[str], files: Sequence[str]) -> None:
    """Refuse a CSV log whose lines differ in their fields, which is read as one column."""
    delimiter = next((d for d in _DELIMITERS if len(columns) == 1 and d in columns[0]), None)
    if delimiter is None:
        return
    ragged = (line for file in files if (line := _ragged_line(file, delimiter)))
    raise LogError(
        f"{log}: {next(ragged, files[0])}, so the lines cannot be split into columns",
        "correct the line, or quote fields that contain the delimiter",
    )


def _ragged_line(file: str, delimiter: str) -> str | None:
    opened = suppress(OSError, csv.Error)
    with opened, Path(file).open(newline="", encoding="utf-8", errors="replace") as lines:
        rows = csv.reader(lines, delimiter=delimiter)
        width = len(next(rows))
        for row in rows:
            if row and len(row) != width:
                place = f"{file}, line {rows.line_num}"
                return f"{place}: {len(row)} fields, but the header has {width}"
    return None


def logs_of(experiment: "Experiment") -> "Mapping[str, LogSource]":
    """Return the logs and tables that an experiment has, by name."""
    return {**experiment.logs.named, **experiment.tables}


def files_of_log(log: str, source: "LogSource", folder: Path) -> list[str]:
    """List the files of a log that are there; the run itself says if there are none."""
    if source.database is not None:
        return [str(folder / source.database)]
    with suppress(LogError, OSError, ValueError):
        if source.paths:
            files = files_of(log, source.paths, folder, source.format)
            return [*files.read, *files.empty]
    return []


def files_of_experiment(experiment: "Experiment") -> list[str]:
    """List the files of all logs."""
    logs = logs_of(experiment).items()
    return [file for log, source in logs for file in files_of_log(log, source, experiment.folder)]


def spelled(paths: Sequence[str]) -> list[str]:
    """Return each path, and as readers that take names for globs have to be given it."""
    return list(dict.fromkeys(name for path in paths for name in (path, glob.escape(path))))


def log_name(relation: str) -> str:
    """Return the path of a log in the experiment file below `logs`, or the name of a table.

    Example:
        >>> log_name("raw_clicks"), log_name("log_events_orders")
        ('clicks', 'events.orders')
    """
    if relation.startswith("table_"):
        return relation.removeprefix("table_")
    name = relation.removeprefix("raw_").removeprefix("log_")
    outcome = OUTCOME.replace(".", "_")
    return OUTCOME + name.removeprefix(outcome) if name.startswith(outcome) else name


def relation_of(prefix: str, log: str) -> str:
    """Name the relation of a log in some form, by the path of the log in the file."""
    return f"{prefix}_{log.replace('.', '_')}"
