"""Of partitions, tables of data lakes and remote files only days around the periods are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from fsspec.implementations.memory import MemoryFileSystem
from pyiceberg.catalog.memory import InMemoryCatalog

import abeval
from abeval.errors import LogError
from abeval.results.analysis import Result

FIRST, DAYS, ROWS = "2026-01-20", 40, 24_000
PERIODS: dict[str, Any] = {
    "period": {"start": "2026-02-10", "end": "2026-02-12"},
    "pre_period": {"start": "2026-02-08", "end": "2026-02-10"},
    "inference": {"adjust": "cuped"},
}
"""Four days, with one before and two after them (clicks may come late): 7 or 8 of 40."""


@cache
def days_of_rows() -> list[pa.Table]:
    """Forty days of impressions, and some without a time."""
    rng = np.random.default_rng(1)
    days = []
    for day in range(DAYS):
        at = pd.Timestamp(FIRST) + pd.Timedelta(days=day)
        user = rng.integers(0, 4_000, ROWS)
        rows = pd.DataFrame(
            {
                "user_id": user,
                "ts": at + pd.to_timedelta(rng.integers(0, 86_399, ROWS), unit="s"),
                "group": np.where(user % 2, "new", "control"),
                "click": rng.integers(0, 2, ROWS),
                "price": rng.normal(size=ROWS),
                "day": str(at.date()),
            }
        )
        rows["ts"] = rows["ts"].astype("datetime64[us]")
        # A row without a time may be of any day, and is counted as such.
        if day in (3, 22):
            rows.loc[:2, "ts"] = pd.NaT
        days.append(pa.Table.from_pandas(rows, preserve_index=False))
    return days


def bytes_read() -> int:
    """What this process has read, from the disk or its cache."""
    counts = Path("/proc/self/io").read_text().split()
    return int(counts[counts.index("rchar:") + 1])


def hive(folder: Path, days: slice = slice(None), part: str = "day=") -> str:
    for rows in days_of_rows()[days]:
        name = folder / "log" / f"{part}{rows['day'][0]}" / "rows.parquet"
        name.parent.mkdir(parents=True)
        pq.write_table(rows.drop_columns("day"), name)
    return "log/*/*.parquet"


def delta(folder: Path) -> str:
    write_deltalake(folder / "log", pa.concat_tables(days_of_rows()), partition_by=["day"])
    return "log"


def iceberg(folder: Path) -> str:
    catalog = InMemoryCatalog("test", warehouse=folder.as_uri())
    try:
        catalog.create_namespace("logs")
        table = catalog.create_table("logs.log", schema=days_of_rows()[0].schema)
        # A file of two days at once: each append takes as long as an analysis.
        for first in range(0, DAYS, 2):
            table.append(pa.concat_tables(days_of_rows()[first : first + 2]))
    finally:
        catalog.engine.dispose()
    return "logs/log"


def analyze(
    folder: Path,
    path: str,
    entries: Any = PERIODS,
    query: str | None = None,
    outside: float = 0.5,
    **how: Any,
) -> Result:
    log: dict[str, Any] = {"path": path, "columns": {"variant": "group"}}
    loaded = abeval.define(
        folder,
        name="x",
        unit="user_id",
        control="control",
        variants={"control": {}, "new": {}},
        logs={"impressions": log if query is None else {**log, "query": query}},
        metrics=[{"name": "ctr"}, {"name": "paid", "value": "price"}],
        trust={"aa_runs": 0, "outside_period": outside},
        **entries,
    )
    return loaded.analyze(**how)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The analysis of one file, of which every row is read."""
    folder = tmp_path_factory.mktemp("whole")
    pq.write_table(pa.concat_tables(days_of_rows()), folder / "log.parquet")
    # It would not be trusted: most rows are of no period.
    result = analyze(folder, "log.parquet", outside=1)
    assert not [note for note in result.notes if "are read" in note]
    return result


def check_same(result: Result, whole: Result) -> None:
    assert result.scorecard == whole.scorecard
    assert result.verdicts == whole.verdicts
    said = [note for note in result.notes if "are read" in note]
    assert said == [
        "Of the impressions only rows from 2026-02-06 to before 2026-02-14, or without a time, "
        "are read: no other is of a period."
    ]


def read_by(folder: Path, path: str) -> tuple[int, Result]:
    """How many bytes an analysis reads, and what it says."""
    before = bytes_read()
    result = analyze(folder, path)
    return bytes_read() - before, result


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize("write", [delta, iceberg])
def test_only_files_of_a_lake_around_the_periods_are_read(
    write: Callable[[Path], str], tmp_path: Path, whole: Result
) -> None:
    path = write(tmp_path)
    size = sum(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
    read, result = read_by(tmp_path, path)
    check_same(result, whole)
    assert read < size / 2


@pytest.mark.slow
@pytest.mark.whole
def test_only_partitions_around_the_periods_are_read(tmp_path: Path, whole: Result) -> None:
    read, result = read_by(tmp_path, hive(tmp_path))
    check_same(result, whole)
    # Each pass over the log reads these partitions only; without names of partitions all.
    of_every_file, _ = read_by(tmp_path / "plain", hive(tmp_path / "plain", part=""))
    assert read < of_every_file / 2


def test_a_query_that_makes_the_time_reads_every_day(tmp_path: Path) -> None:
    path = hive(tmp_path, slice(6))
    later = "select * replace (ts + interval 19 day as ts) from log"
    result = analyze(tmp_path, path, query=later)
    assert not [note for note in result.notes if "are read:" in note]
    assert sum(account.read for account in result.accounting) == 6 * ROWS


def test_a_period_without_a_row_is_named(tmp_path: Path) -> None:
    path = hive(tmp_path, slice(10, 13))
    period = {"period": {"start": "2025-02-10", "end": "2025-02-14"}}
    with pytest.raises(LogError, match="the impressions have no rows") as refused:
        analyze(tmp_path, path, period)
    assert "[period]: rows of other days are not read" in str(refused.value.hint)


class Counted(MemoryFileSystem):
    """Files at addresses, which are in memory, and how many bytes of them were read."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    cachable = False
    read = 0

    def _open(self, path: str, mode: str = "rb", **how: Any) -> Any:
        file = super()._open(path, mode, **how)
        return CountedFile(file.getvalue()) if mode == "rb" else file

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("counted:/")))


class CountedFile(BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size)
        Counted.read += len(part)
        return part


@pytest.mark.slow
@pytest.mark.whole
def test_only_remote_files_around_the_periods_are_read(tmp_path: Path, whole: Result) -> None:
    hive(tmp_path)
    files, reads = Counted(), []
    for file in tmp_path.rglob("*.parquet"):
        files.pipe(f"/{file.relative_to(tmp_path).as_posix()}", file.read_bytes())
    periods = {"start": "2026-01-21", "end": "2026-02-27"}
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        for entries in (PERIODS, {"period": periods}):
            before = Counted.read
            result = analyze(tmp_path, "counted://log/*/*.parquet", entries, connection=connection)
            reads.append(Counted.read - before)
            if entries is PERIODS:
                check_same(result, whole)
    assert 0 < reads[0] < reads[1] / 2
