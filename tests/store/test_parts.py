"""Whether a part can be used as it is, and which parts are damaged."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from abeval.engines.duckdb import DuckDBEngine
from abeval.store.definition import Definition
from abeval.store.manifest import Entry, Input
from abeval.store.parts import Parts

SOURCE = Input(9, 7, "f0")
ENTRY = Entry(SOURCE, "rows", ("c0", "c1"), "part-0.parquet", "s0", (), True, 5)
NOTHING: Any = None


def parts(folder: Path, *components: str, rows: str = "rows", engine: Any = NOTHING) -> Parts:
    return Parts(folder, Definition(rows, components), NOTHING, engine, "analysis")


def test_a_part_fits_its_unchanged_file_if_it_has_every_sum(tmp_path: Path) -> None:
    assert parts(tmp_path, "c1", "c0").fits(ENTRY, SOURCE)
    assert parts(tmp_path, "c1").fits(ENTRY, SOURCE)
    assert parts(tmp_path).fits(ENTRY, SOURCE)
    assert not parts(tmp_path, "c1", "c2").fits(ENTRY, SOURCE)
    assert not parts(tmp_path, "c1", rows="other").fits(ENTRY, SOURCE)
    for change in ({"size": 8}, {"mtime_ns": 8}, {"footer": "f1"}):
        assert not parts(tmp_path, "c1").fits(ENTRY, replace(SOURCE, **change))


def test_parts_are_broken_if_they_are_not_the_bytes_that_were_written(tmp_path: Path) -> None:
    entries = []
    for number in range(4):
        file = f"part-{number}.parquet"
        content = file.encode()
        (tmp_path / file).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        entries.append(replace(ENTRY, file=file, sha256=digest))
    assert parts(tmp_path).broken(entries) == []
    (tmp_path / "part-1.parquet").write_bytes(b"other")
    (tmp_path / "part-3.parquet").unlink()
    assert parts(tmp_path).broken(entries) == [entries[1], entries[3]]


def test_a_file_of_the_store_is_named_by_its_content(tmp_path: Path) -> None:
    engine = DuckDBEngine()
    try:
        store = parts(tmp_path, engine=engine)
        file, digest, count = store.write("select 7 as n union all select 8", "part-")
        assert store.write("select 7 as n union all select 8", "part-") == (file, digest, count)
    finally:
        engine.close()
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert hashlib.sha256((tmp_path / file).read_bytes()).hexdigest() == digest
    assert (file, count) == (f"part-{digest[:32]}.parquet", 2)
    assert pd.read_parquet(tmp_path / file)["n"].tolist() == [7, 8]


def test_a_run_that_cannot_write_leaves_no_draft(tmp_path: Path) -> None:
    engine = DuckDBEngine()
    try:
        with pytest.raises(Exception, match="nowhere"):
            parts(tmp_path, engine=engine).write("select * from nowhere", "part-")
    finally:
        engine.close()
    assert not [*tmp_path.iterdir()]
