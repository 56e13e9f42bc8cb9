"""Fingerprints of input files, and what a folder must hold to be a store."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from abeval.errors import ExperimentError, LogError
from abeval.store.manifest import (
    Entry,
    Input,
    fingerprint,
    has_twins,
    is_whole,
    read_manifest,
    sweep,
    write_manifest,
)

PART = Entry(
    input=Input(size=9, mtime_ns=7, footer="f0"),
    definition="d0",
    components=("c0", "c1"),
    file="part-0.parquet",
    sha256="s0",
    days=("2024-03-01", "2024-03-02"),
    has_others=True,
    rows=5,
)
TEXT = """{
 "format": 3,
 "experiment": "daily",
 "parts": {
  "log/day.parquet": {
   "input": {
    "size": 9,
    "mtime_ns": 7,
    "footer": "f0"
   },
   "definition": "d0",
   "components": [
    "c0",
    "c1"
   ],
   "file": "part-0.parquet",
   "sha256": "s0",
   "days": [
    "2024-03-01",
    "2024-03-02"
   ],
   "has_others": true,
   "rows": 5
  }
 }
}
"""


def parquet(folder: Path, rows: bytes, footer: bytes, length: int | None = None) -> Path:
    """A file that is laid out as Parquet is: rows, footer, the length of the footer, `PAR1`."""
    size = len(footer) if length is None else length
    file = folder / "day.parquet"
    file.write_bytes(rows + footer + size.to_bytes(4, "little") + b"PAR1")
    return file


def footer_of(file: Path) -> str:
    return fingerprint(str(file)).footer


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("rows", [b"PAR1 and rows", b""])
def test_a_fingerprint_is_of_the_size_the_time_and_the_whole_footer(
    tmp_path: Path, rows: bytes
) -> None:
    file = parquet(tmp_path, rows, b"a schema, row groups")
    os.utime(file, ns=(5, 1_700_000_000_000_000_123))
    size = len(rows) + len(b"a schema, row groups") + 8
    expected = Input(size, 1_700_000_000_000_000_123, sha256(b"a schema, row groups"))
    assert fingerprint(str(file)) == expected


def test_a_file_of_an_empty_footer_alone_is_complete(tmp_path: Path) -> None:
    assert footer_of(parquet(tmp_path, b"", b"")) == sha256(b"")


def test_a_footer_that_says_it_is_longer_than_its_file_is_all_of_it(tmp_path: Path) -> None:
    file = parquet(tmp_path, b"", b"short", length=1_000)
    assert footer_of(file) == sha256(file.read_bytes())


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"1234567", b"rows and more, no end", b"PAR1 ro"]
)
def test_half_a_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "day.parquet"
    file.write_bytes(content)
    with pytest.raises(LogError, match="is not a complete Parquet file"):
        fingerprint(str(file))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot be read: No such file"):
        fingerprint(str(tmp_path / "day.parquet"))


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    parts = {"log/b.parquet": PART, "log/a.parquet": replace(PART, has_others=False, days=())}
    write_manifest(tmp_path, "daily", parts)
    manifest = read_manifest(tmp_path, "daily")
    assert manifest.parts == parts
    assert manifest.trouble is None


def test_a_manifest_is_written_as_stores_have_it(tmp_path: Path) -> None:
    write_manifest(tmp_path, "daily", {"log/day.parquet": PART})
    assert (tmp_path / "manifest.json").read_text() == TEXT


@pytest.mark.parametrize(
    "damage",
    [
        {"input": [9, 7, "f0"]},
        {"input": {"size": 9}},
        {"components": "c0"},
        {"days": {"2024-03-01": 1}},
        {"rows": "many"},
        # A part lies in the store itself, under a name of its own.
        {"file": "../part-0.parquet"},
        {"file": "part-0/of/another.parquet"},
        {"file": "day.parquet"},
    ],
)
def test_an_entry_of_another_kind_is_not_believed(tmp_path: Path, damage: dict[str, Any]) -> None:
    whole = json.loads(TEXT)
    whole["parts"]["log/day.parquet"] |= damage
    (tmp_path / "manifest.json").write_text(json.dumps(whole))
    manifest = read_manifest(tmp_path, "daily")
    assert (manifest.parts, manifest.trouble) == ({}, "manifest.json cannot be read")


def test_a_folder_is_a_store_if_nothing_else_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    assert read_manifest(folder, "daily").trouble is None
    folder.mkdir()
    assert read_manifest(folder, "daily").trouble is None
    (folder / "lock").touch()
    assert read_manifest(folder, "daily").trouble is None
    for name in ("part-0.parquet", "draft-0", "totals", "state.json", ".abeval-0"):
        (folder / name).touch()
        assert read_manifest(folder, "daily").trouble == "the first run did not finish"
    (folder / "notes.txt").touch()
    with pytest.raises(ExperimentError, match=r"it contains notes\.txt but no manifest\.json"):
        read_manifest(folder, "daily")
    with pytest.raises(ExperimentError, match=r"notes\.txt is a file, but a store is a folder"):
        read_manifest(folder / "notes.txt", "daily")


def test_two_files_of_one_part_are_twins() -> None:
    other = replace(PART, file="part-1.parquet")
    assert not has_twins([])
    assert not has_twins([PART, other])
    assert has_twins([PART, other, replace(PART, rows=6)])


def test_a_file_is_whole_while_its_bytes_are_those_that_were_written(tmp_path: Path) -> None:
    file = tmp_path / "part-0.parquet"
    assert not is_whole(file, sha256(b"rows"))
    file.write_bytes(b"rows")
    assert is_whole(file, sha256(b"rows"))
    file.write_bytes(b"rowt")
    assert not is_whole(file, sha256(b"rows"))


KEPT = (
    *("part-0.parquet", "manifest.json", "state.json", "lock", "closed-0.parquet"),
    *("part-of-my-notes.txt", "draft-of-my-notes"),
)


def test_parts_of_no_file_and_drafts_are_swept(tmp_path: Path) -> None:
    for name in (*KEPT, f"part-{'1' * 32}.parquet", f"draft-{'0' * 16}"):
        (tmp_path / name).touch()
    sweep(tmp_path, {"log/day.parquet": PART})
    assert {path.name for path in tmp_path.iterdir()} == {*KEPT}


def test_a_draft_that_is_removed_meanwhile_stops_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*listed(path), path / f"draft-{'f' * 16}"])
    draft = tmp_path / f"draft-{'0' * 16}"
    draft.touch()
    sweep(tmp_path, {})
    assert not draft.exists()
