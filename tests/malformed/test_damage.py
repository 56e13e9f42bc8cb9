"""Damaged files: refused in one message, or the right numbers; a few of `damage.py`."""

from __future__ import annotations

import pytest

from tests.malformed.damage import CANNOT_TELL, DAMAGES, WRITERS, Record, run, write_table

pytestmark = pytest.mark.whole

FORMATS = ("csv", "csv.gz", "csv.zst", "jsonl", "parquet", "duckdb", "sqlite", "xlsx")


@pytest.mark.slow
def test_what_is_damaged_is_refused_or_read_right() -> None:
    records = [*run(FORMATS, 1, ("bit", "exchanged pages"))]
    assert len(records) == 16
    assert [record for record in records if not record.is_fine] == []
    refused = {record.format for record in records if record.end == "refused"}
    assert refused >= {"csv.gz", "csv.zst", "duckdb", "sqlite", "xlsx"}


def test_other_numbers_are_fine_only_where_the_format_cannot_tell() -> None:
    ends = {
        (name, damage): Record(name, damage, 0, "other numbers", "").is_fine
        for name in WRITERS
        for damage in DAMAGES
    }
    assert {pair for pair, is_fine in ends.items() if is_fine} == {
        (name, damage) for name, reasons in CANNOT_TELL.items() for damage in reasons
    }
    fault = Record("csv", "bit", 0, "fault: exit code 1", "error: DuckDB")
    assert "1 files, 1 not fine\n- csv, bit 0: fault: exit code 1" in write_table([fault])
