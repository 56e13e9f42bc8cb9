"""How many rows the files of a log have by themselves, whatever an engine read of them.

`logs/files.py` asks it before a log is analysed, `study/provenance.py` for the page. Of Parquet the
footers tell, of text the lines.
"""

from collections.abc import Iterator
from pathlib import Path

from abeval.engines.duckdb_errors import log_errors
from abeval.engines.footers import reader
from abeval.engines.sources import Files, exact
from abeval.engines.sql import literal

_FEW_BYTES = 64_000_000
"""Of text files in sum, so that counting their lines takes some tenths of a second."""


def rows_of_files(log: str, files: Files) -> int | None:
    """The number of rows of the files of a log, None if that is not cheap to know.

    A line of text is at least one row, where no row has several lines: without quotes in CSV, and
    if each line of JSON is an object.

    Raises:
        LogError: A file cannot be read.
    """
    if not files.are_local:
        return None
    if files.kind == "parquet":
        return sum(_of_footers(log, files))
    counts = _of_text(files)
    return None if None in counts else sum(n for n in counts if n is not None)


def rows_by_file(log: str, files: Files) -> dict[str, int | None]:
    """File → its rows, None where `rows_of_files` would not know them.

    Raises:
        LogError: A file cannot be read.
    """
    if not files.are_local:
        return {}
    counts = _of_footers(log, files) if files.kind == "parquet" else _of_text(files)
    return {**dict.fromkeys(files.empty, 0), **dict(zip(files.read, counts, strict=True))}


def _of_text(files: Files) -> list[int | None]:
    if sum(Path(file).stat().st_size for file in files.read) > _FEW_BYTES:
        return [None for _ in files.read]
    count = _of_csv if files.kind == "csv" else _of_json
    return [count(Path(file)) for file in files.read]


def _of_footers(log: str, files: Files) -> list[int]:
    """Rows of each file; a file that is read twice is there twice."""
    listed = ", ".join(literal(exact(file)) for file in files.read)
    what = f"{log} cannot be read from {Path(files.read[0]).parent}"
    with log_errors(what, "check that the files are complete"), reader() as connection:
        read = f"select file_name, num_rows from parquet_file_metadata([{listed}])"
        rows = dict(connection.execute(read).fetchall())
    return [int(rows[file]) for file in files.read]


def _of_csv(file: Path) -> int | None:
    """Lines below the header; None where a row may have several."""
    lines = 0
    for line in _lines(file):
        if b'"' in line:
            return None
        lines += 1
    return max(lines - 1, 0) if _is_plain(file) else None


def _of_json(file: Path) -> int | None:
    """Lines, if each is an object."""
    lines = 0
    for line in _lines(file):
        if not (line.startswith(b"{") and line.endswith(b"}")):
            return None
        lines += 1
    return lines if _is_plain(file) else None


def _lines(file: Path) -> Iterator[bytes]:
    """The lines of a file, without blanks at their ends; no empty one."""
    with file.open("rb") as content:
        for line in content:
            if text := line.strip():
                yield text


def _is_plain(file: Path) -> bool:
    """Whether a file is not compressed, by its name."""
    return file.suffix.lower() not in (".gz", ".zst")
