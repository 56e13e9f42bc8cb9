"""The files of a log, and their kind.

It gets the paths of a log's entry in the experiment file. The engines read the files that it lists;
`store/collect.py` keeps sums per file.
"""

import csv
import glob
import os
from collections.abc import Sequence
from pathlib import Path

from abeval.errors import LogError

_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_DELIMITERS = ",;\t|"


def files_of(log: str, paths: Sequence[str], folder: Path) -> list[str]:
    """The files and URLs of a log, in the order of the paths, then of the names.

    Raises:
        LogError: A path has no file, or all its files are empty.
    """
    if not paths:
        raise LogError(
            f"no path or table for {log}",
            f"give logs.{log}.path or .table, or pass a frame from Python",
        )
    return [file for path in paths for file in _matching(log, path, folder)]


def _matching(log: str, path: str, folder: Path) -> list[str]:
    if "://" in path:
        return [path]
    full = os.path.join(folder, path)  # noqa: PTH118 (globs are not paths)
    where, hint = full, f"check logs.{log}.path; relative paths start at the experiment file"
    if Path(full).is_dir():
        full = os.path.join(full, "**", "[!_.]*.*")  # noqa: PTH118
    files = sorted(f for f in glob.glob(full, recursive=True) if Path(f).is_file())  # noqa: PTH207
    if not files:
        raise LogError(f"no file of {log} matches {where}", hint)
    filled = [file for file in files if Path(file).stat().st_size]
    if not filled:
        raise LogError(f"{log}: {files[0]} is empty", "the file may be incomplete: write it again")
    return filled


def kind_of(log: str, files: Sequence[str], format: str) -> str:
    """`parquet`, `csv` or `json`: the format, or if that is `auto`, by the names of the files."""
    if format != "auto":
        return format
    kinds = {_kind(Path(file)) for file in files}
    if len(kinds) != 1 or None in kinds:
        suffixes = sorted({Path(f).suffix or f for f in files})
        raise LogError(
            f"{log} are files of unknown or mixed formats: {', '.join(suffixes)}",
            f"set logs.{log}.format to parquet, csv or json, or narrow the path",
        )
    return str(kinds.pop())


def _kind(file: Path) -> str | None:
    return _KINDS.get("".join(file.suffixes[-2:]), _KINDS.get(file.suffix))


def is_table(file: Path) -> bool:
    """Whether a file is a table by its name.

    Example:
        >>> is_table(Path("users.csv")), is_table(Path("experiment.toml"))
        (True, False)
    """
    return _kind(file) is not None


def has_partitions(files: Sequence[str]) -> bool:
    """Whether there are folders such as `day=2026-09-14`, whose names hold a column."""
    return any("=" in part for file in files for part in Path(file).parts[:-1])


def check_split(log: str, columns: Sequence[str], files: Sequence[str]) -> None:
    """Refuse a CSV log whose lines have different numbers of fields, which is read as one column.

    Raises:
        LogError: The only column is a whole header line.
    """
    delimiter = next((d for d in _DELIMITERS if len(columns) == 1 and d in columns[0]), None)
    if delimiter is None:
        return
    ragged = (line for file in files if (line := _ragged_line(file, delimiter)))
    raise LogError(
        f"{log}: {next(ragged, files[0])}, so the lines cannot be split into columns",
        "correct the line, or quote fields that contain the delimiter",
    )


def _ragged_line(file: str, delimiter: str) -> str | None:
    try:
        with Path(file).open(newline="", encoding="utf-8", errors="replace") as lines:
            rows = csv.reader(lines, delimiter=delimiter)
            width = len(next(rows))
            for row in rows:
                if row and len(row) != width:
                    return (
                        f"{file}, line {rows.line_num}: {len(row)} fields, but the header has "
                        f"{width}"
                    )
    except (OSError, csv.Error):
        return None
    return None
