"""Footers are read by one database of the process, which keeps nothing of the files."""

import os
import warnings
from pathlib import Path

import pandas as pd

from abeval.engines.sources import files_of
from abeval.logs.files import columns_of_files, rows_of_files


def write(folder: Path, rows: int, column: str = "x") -> None:
    pd.DataFrame({column: range(rows)}).to_parquet(folder / "log.parquet")


def known(folder: Path) -> tuple[int | None, list[str]]:
    """Rows and columns, as an analysis looks at them."""
    files = files_of("impressions", ["log.parquet"], folder)
    (columns,) = columns_of_files("impressions", files).values()
    return rows_of_files("impressions", files), list(columns)


def test_a_file_that_changed_within_its_time_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, 3)
    before = (tmp_path / "log.parquet").stat()
    assert known(tmp_path) == (3, ["x"])
    write(tmp_path, 3, "y")
    os.utime(tmp_path / "log.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (tmp_path / "log.parquet").stat().st_size == before.st_size
    assert known(tmp_path) == (3, ["y"])


def test_a_process_that_was_forked_reads_them_too(tmp_path: Path) -> None:
    write(tmp_path, 3)
    assert known(tmp_path) == (3, ["x"])
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, of which DuckDB has some.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if known(tmp_path) == (3, ["x"]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
