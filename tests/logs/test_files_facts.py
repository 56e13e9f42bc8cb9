"""What is said of the files of a log: their number, their rows, and those that differ."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pandas as pd
import pytest

from abeval.engines.sources import find_files
from abeval.errors import LogError
from abeval.experiment.sources import LogSource
from abeval.logs.files import (
    FileFacts,
    count_file_rows,
    describe_mixed_id,
    read_file_columns,
    read_file_facts,
    write_file_notes,
)
from abeval.logs.run import check_all_read
from tests.logs.small import small_log


def files(count: int) -> list[str]:
    return [f"logs/day-{number}.csv" for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "1 file without a byte: day-1.csv."),
        (2, "2 files without a byte: day-1.csv, day-2.csv."),
        (5, "5 files without a byte: day-1.csv, day-2.csv, day-3.csv, day-4.csv, day-5.csv."),
        (
            6,
            "6 files without a byte: day-1.csv, day-2.csv, day-3.csv, day-4.csv, day-5.csv and "
            "1 more.",
        ),
    ],
)
def test_up_to_five_files_are_named(count: int, named: str) -> None:
    notes = write_file_notes("clicks", FileFacts(empty=files(count)), ["click"], ["click"])
    assert [*notes] == [f"The clicks have {named}"]
    assert [*write_file_notes("clicks", FileFacts(), ["click"], ["click"])] == []


def test_the_type_of_most_files_comes_first() -> None:
    first, *others = files(3)
    by_type = {"text": [first], "number": others}
    facts = FileFacts(files(3), drift={"score": by_type})
    (note,) = write_file_notes("impressions", facts, [], ["Score", "click"])
    assert "is number in 2 of 3 files, but text in day-1.csv" in note


def test_a_column_that_files_lack_is_said_of_those_that_are_read() -> None:
    facts = FileFacts(files(3), lacking={"score": files(2)})
    (note,) = write_file_notes("impressions", facts, ["Score", "click"], [])
    assert note.startswith("2 of 3 files of the impressions lack the column 'Score'")


def test_an_id_is_mixed_if_some_files_have_it_as_text_and_some_as_a_number() -> None:
    first, second = files(2)
    text, whole, number = {"text": [first]}, {"whole number": [second]}, {"number": [first]}

    def mixed(*kinds: dict[str, list[str]], has_types: bool = True) -> str | None:
        drift = {"user": {kind: names for one in kinds for kind, names in one.items()}}
        return describe_mixed_id(FileFacts(files(2), drift=drift, has_types=has_types), "User")

    assert mixed(text, whole) == "text in day-1.csv, but a number in day-2.csv"
    assert mixed(text) is mixed(number, whole) is mixed(text, whole, has_types=False) is None
    assert (
        describe_mixed_id(FileFacts(files(2), drift={"user": {**text, **whole}}), "user")
        is not None
    )


def write(folder: Path, kind: str, parts: int) -> FileFacts:
    log = small_log(rows=20)
    for number in range(parts):
        own = log.iloc[number::parts].drop(columns=["click"] if number else [])
        if kind == "csv":
            own.to_csv(folder / f"{number}.csv", index=False)
        else:
            own.to_parquet(folder / f"{number}.parquet")
    return read_file_facts("impressions", LogSource.model_validate({"path": f"*.{kind}"}), folder)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_tell_their_rows_and_what_some_of_them_lack(
    tmp_path: Path, kind: str, parts: int
) -> None:
    facts = write(tmp_path, kind, parts)
    assert (len(facts.files), facts.rows) == (parts, 20)
    assert {name: len(own) for name, own in facts.lacking.items()} == (
        {"click": 1} if parts > 1 else {}
    )
    assert (facts.are_lines, facts.has_types) == ((True, False) if kind == "csv" else (False, True))


def test_a_log_of_tables_alone_has_no_files() -> None:
    source = LogSource.model_validate({"query": "select * from users"})
    assert read_file_facts("impressions", source, Path()) == FileFacts()


@pytest.mark.parametrize(
    ("rows", "facts", "refused"),
    [
        (40, FileFacts(), False),
        (40, FileFacts(rows=40), False),
        (39, FileFacts(rows=40), True),
        (41, FileFacts(rows=40), True),
        # A value of a text file may go on in the next line, so that lines are more than rows, or
        # lie in a list on one line.
        (40, FileFacts(rows=40, are_lines=True), False),
        (41, FileFacts(rows=40, are_lines=True), False),
        (39, FileFacts(rows=40, are_lines=True), True),
    ],
)
def test_fewer_rows_than_the_files_have_are_refused(
    rows: int, facts: FileFacts, refused: bool
) -> None:
    if not refused:
        check_all_read("impressions", rows, facts)
        return
    kind = "lines with data" if facts.are_lines else "rows"
    with pytest.raises(LogError, match=f"{rows} rows were read, but the files have 40 {kind}"):
        check_all_read("impressions", rows, facts)


def write_parquet(folder: Path, rows: int, column: str = "x") -> None:
    pd.DataFrame({column: range(rows)}).to_parquet(folder / "log.parquet")


def known(folder: Path) -> tuple[int | None, list[str]]:
    """Rows and columns, as an analysis looks at them."""
    files = find_files("impressions", LogSource(path="log.parquet"), folder)
    (columns,) = read_file_columns("impressions", files).values()
    return count_file_rows("impressions", files), list(columns)


def test_a_file_that_changed_within_its_time_is_read_again(tmp_path: Path) -> None:
    write_parquet(tmp_path, 3)
    before = (tmp_path / "log.parquet").stat()
    assert known(tmp_path) == (3, ["x"])
    write_parquet(tmp_path, 3, "y")
    os.utime(tmp_path / "log.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (tmp_path / "log.parquet").stat().st_size == before.st_size
    assert known(tmp_path) == (3, ["y"])


def test_a_process_that_was_forked_reads_them_too(tmp_path: Path) -> None:
    write_parquet(tmp_path, 3)
    assert known(tmp_path) == (3, ["x"])
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, of which DuckDB has some.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if known(tmp_path) == (3, ["x"]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
