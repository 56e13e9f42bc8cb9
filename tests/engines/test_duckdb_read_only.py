"""After 48 runs over databases in files, their folders are as they were: names, bytes, times."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pytest

from abeval.cli.main import main

pytestmark = pytest.mark.whole

ROWS = [(f"u{i}", "ab"[i % 2], i * 37 % 11, i * 0.5) for i in range(400)]
TABLE = "create table people (user_id text, variant text, clicks integer, revenue double)"


def sqlite_file(folder: Path) -> Path:
    """A database with a sequence, as `autoincrement` keeps one."""
    database = sqlite3.connect(folder / "a.sqlite")
    database.execute("create table counted (id integer primary key autoincrement, x)")
    database.execute("insert into counted (x) values (1)")
    database.execute(TABLE)
    database.executemany("insert into people values (?, ?, ?, ?)", ROWS)
    database.commit()
    database.close()
    return folder / "a.sqlite"


def sqlite_with_log(folder: Path) -> Path:
    """A database whose rows are in its log, as a program leaves it that is still running."""
    source = folder.parent / "running.sqlite"
    database = sqlite3.connect(source)
    database.execute("pragma journal_mode = wal")
    database.execute(TABLE)
    database.executemany("insert into people values (?, ?, ?, ?)", ROWS)
    database.commit()
    for end in ("", "-wal", "-shm"):
        shutil.copyfile(f"{source}{end}", folder / f"a.sqlite{end}")
    database.close()
    return folder / "a.sqlite"


def duckdb_file(folder: Path) -> Path:
    with duckdb.connect(str(folder / "a.duckdb")) as connection:
        connection.execute("create sequence numbers; select nextval('numbers')")
        connection.execute(TABLE)
        connection.executemany("insert into people values (?, ?, ?, ?)", ROWS)
    return folder / "a.duckdb"


def duckdb_with_log(folder: Path) -> Path:
    """A database whose last rows are in its log."""
    source = folder.parent / "running.duckdb"
    connection = duckdb.connect(str(source))
    connection.execute("pragma disable_checkpoint_on_shutdown")
    connection.execute(TABLE)
    connection.execute("checkpoint")
    connection.executemany("insert into people values (?, ?, ?, ?)", ROWS)
    connection.close()
    for end in ("", ".wal"):
        shutil.copyfile(f"{source}{end}", folder / f"a.duckdb{end}")
    assert (folder / "a.duckdb.wal").stat().st_size > 0
    return folder / "a.duckdb"


def facts_of(folder: Path) -> Mapping[str, object]:
    """What is in a folder: each file's bytes, times of writing, rights and place, and its own."""
    facts = {
        str(file): (
            file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest(),
            (status := file.stat()).st_mtime_ns,
            status.st_ctime_ns,
            status.st_mode,
            status.st_ino,
        )
        for file in sorted((folder, *folder.rglob("*")))
    }
    return facts


NAMED = ("--unit", "user_id", "--variant", "variant", "--metric", "revenue", "--read")
COMMANDS = (
    ("analyze", "FILE", *NAMED, "table=people"),
    ("analyze", "FILE", *NAMED, "table=people", "--checks"),
    ("analyze", "FILE", *NAMED, "table=people", "--report", "OUT.html", "--json", "OUT.json"),
    ("analyze", "FILE", *NAMED, "table=people", "--memory-limit", "500MB"),
    ("analyze", "FILE", *NAMED, "table=none"),
    ("init", "FILE", "--read", "table=people", "--output", "OUT.toml"),
    ("analyze", "OUT.toml", "--report", "OUT2.json"),
    ("power", "OUT.toml", "--mde", "5%"),
    ("aa", "OUT.toml", "--runs", "40"),
    ("analyze", "FILE", *NAMED, "table=people", "--json", "FILE"),
    ("analyze", "FILE", *NAMED, "table=people", "--json", "FILE-wal"),
    ("analyze", "FILE", *NAMED, "table=people", "--json", "FILE.wal"),
)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("write", [sqlite_file, sqlite_with_log, duckdb_file, duckdb_with_log])
def test_a_database_and_its_folder_are_as_they_were(
    write: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    file = write(folder)
    before, codes = facts_of(folder), []
    for command in COMMANDS:
        places = [w.replace("FILE", str(file)).replace("OUT", f"{tmp_path}/out") for w in command]
        monkeypatch.setattr(sys, "argv", ["abeval", *places])
        with pytest.raises(SystemExit) as ended:
            main()
        codes.append(ended.value.code)
        assert facts_of(folder) == before, command
    assert codes == [0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 2, 2]
