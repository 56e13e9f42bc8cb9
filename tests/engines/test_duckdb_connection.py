"""Connections to databases: what a stranger's file cannot read, and that queries have an end."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.duckdb_connection import extract_message, limit_time, open_database
from abeval.engines.sources import find_files
from abeval.errors import AbevalError, LogError, QueryError
from abeval.experiment.sources import LogSource
from abeval.files import restrict_reading
from abeval.server import Tools
from tests.cli.test_cli import call
from tests.cli.test_outputs import EXPERIMENT

ROOT = Path(__file__).parents[2]
WORDS = "swordfish-7c1"
HIDDEN = "name-of-a-hidden-file"

SELECT = (
    "select i as user_id, case when i % 2 = 0 then 'a' else ({}) end as variant, i % 7 as click "
    "from range(200) t(i)"
)
VALUES = {
    "text": "select content from read_text('{there}/secret.txt')",
    "texts": "select min(content) from read_text(['{there}/secret.txt'])",
    "csv": "select min(words) from read_csv('{there}/secret.csv')",
    "csv_glob": "select min(words) from read_csv('{there}/*.csv')",
    "csv_path": "select min(words) from '{there}/secret.csv'",
    "csv_header": "select min(Columns::varchar) from sniff_csv('{there}/secret.csv')",
    "blob": "select content::varchar from read_blob('{there}/secret.txt')",
    "names": "select max(file) from glob('{there}/name*')",
    "json": "select min(words) from read_json('{there}/secret.json')",
    "json_objects": "select min(json::varchar) from read_json_objects('{there}/secret.json')",
    "json_lines": "select min(json::varchar) from read_ndjson_objects('{there}/secret.json')",
    "parquet": "select min(words) from read_parquet('{there}/secret.parquet')",
    "parquet_footer": "select min(stats_max_value) from parquet_metadata('{there}/secret.parquet')",
    "parquet_notes": "select min(decode(value)) from parquet_kv_metadata('{there}/secret.parquet')",
    "common_table": "with s as materialized (from read_text('{there}/secret.txt')) "
    "select content from s",
    "union": "select max(c) from (select '' as c union all "
    "select content from read_text('{there}/secret.txt'))",
    "query": "select content from query('from read_text(''{there}/secret.txt'')')",
    "lateral": "select max(s.content) from range(1) r(i), lateral (select content, r.i "
    "from read_text('{there}/secret.txt')) s",
    "nested_view": "select content from inner_view",
    "macro": "select secret()",
    "table_macro": "select content from secrets()",
    "other_database": "select words from other.main.t",
    "address": "select content from later('https://127.0.0.1:9/{there}/secret.txt')",
    "bucket": "select content from later('s3://bucket/secret.txt')",
    "sqlite": "select content from sqlite_scan('{there}/secret.sqlite', 't')",
    "stored_secrets": "select coalesce(max(secret_string), 'b') from duckdb_secrets()",
}
"""What a view computes a variant by."""

BEFORE = (
    "create view inner_view as from read_text('{there}/secret.txt')",
    "create macro secret() as (select content from read_text('{there}/secret.txt'))",
    "create macro secrets() as table from read_text('{there}/secret.txt')",
    "create macro later(file) as table select 'b' as content",
    "create macro sqlite_scan(file, name) as table select 'b' as content",
    # DuckDB lets neither defaults nor generated columns have queries, nor such a macro change.
    "create macro word() as current_setting('home_directory') || 'b'",
    "attach '{there}/other.duckdb' as other",
)
AFTER = (
    "create or replace macro later(file) as table from read_text(file)",
    "drop macro table sqlite_scan",
)
_ROWS = "insert into v (user_id, click) select i, i % 7 from range(200) t(i)"
TABLES = {
    "default": f"create table v (user_id int, click int, variant text default word()); {_ROWS}",
    "generated": "create table v (user_id int, click int, "
    f"variant text generated always as (word() || user_id % 2)); {_ROWS}",
    "history": "create view abeval_history as from read_text('{there}/secret.txt')",
    "history_generated": "create table abeval_history (metric text default word(), "
    "experiment text generated always as (word() || metric))",
}
SQLITE = {
    "sqlite_function": "create view v as select readfile('{there}/secret.txt') as variant, "
    "i as user_id, i % 7 as click from t",
    "sqlite_extension": "create view v as select load_extension('{there}/secret.txt') as variant, "
    "i as user_id, i % 7 as click from t",
    "sqlite_tokenizer": "create view v as select fts3_tokenizer('simple') as variant, "
    "i as user_id, i % 7 as click from t",
    "sqlite_trigger": "create trigger v after insert on t begin select readfile('{there}'); end",
    "sqlite_virtual": "insert into sqlite_master values ('table', 'v', 'v', 0, "
    "'create virtual table v using csv(filename=''{there}/secret.csv'')')",
}
ALL = [*VALUES, *TABLES, *SQLITE]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder that nobody names."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "secret.txt").write_text(WORDS)
    (there / "secret.csv").write_text(f"words\n{WORDS}\n")
    (there / "secret.json").write_text(f'{{"words": "{WORDS}"}}\n')
    (there / f"{HIDDEN}.txt").touch()
    with duckdb.connect(str(there / "other.duckdb")) as other:
        other.execute(f"create table t as select '{WORDS}' as words")
        noted = f"(format parquet, kv_metadata {{note: '{WORDS}'}})"
        other.execute(f"copy t to '{there}/secret.parquet' {noted}")
    with sqlite3.connect(there / "secret.sqlite") as database:
        database.execute("create table t (content)")
        database.execute("insert into t values (?)", [WORDS])
    database.close()
    return there


def hostile(name: str, here: Path, there: Path) -> Path:
    """A database whose relation `v`, or history, would read what is there."""
    if name in SQLITE:
        with sqlite3.connect(here / "v.sqlite") as written:
            written.execute("create table t (i)")
            written.executemany("insert into t values (?)", [(i,) for i in range(200)])
            written.execute("pragma writable_schema = on")
            written.execute(SQLITE[name].format(there=there))
        written.close()
        return here / "v.sqlite"
    view = f"create view v as {SELECT.format(VALUES.get(name, ''))}"
    with duckdb.connect(str(here / "v.duckdb")) as database:
        for sql in (*BEFORE, TABLES.get(name, view), *AFTER):
            database.execute(sql.format(there=there))
        if name != "nested_view":
            database.execute("drop view inner_view")
    return here / "v.duckdb"


def _written(folder: Path) -> str:
    return "".join(
        file.read_text(errors="replace")
        for file in folder.iterdir()
        if file.suffix in (".toml", ".html", ".json", ".txt")
    )


def _asked(here: Path, file: Path) -> str:
    """What an assistant gets to know of a file."""
    tools, answers = Tools([here]), []
    for ask in (
        lambda: tools.read_log_columns([file.name]),
        lambda: tools.analyze(file.name, "variant", "user_id"),
        lambda: tools.explain(file.name, "b", "variant", "user_id"),
        lambda: tools.analyze("e.toml"),
        lambda: tools.history(file.name),
    ):
        with restrict_reading([here]):
            try:
                answers.append(ask())
            except AbevalError as error:
                answers.append(str(error))
    return "".join(answers)


@pytest.mark.first_cases(4)
@pytest.mark.whole
@pytest.mark.parametrize("name", ALL)
def test_no_database_shows_what_is_in_another_file(
    name: str,
    tmp_path: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    file = hostile(name, here, there)
    before = file.read_bytes()
    source = EXPERIMENT.replace('path = "PATH"', f'path = "{file.name}"')
    (here / "e.toml").write_text(f'{source}logs.impressions.table = "v"\n')
    monkeypatch.chdir(here)
    table = (file, "--variant", "variant", "--unit", "user_id", "--report", "t.html")
    for command in (
        ("init", file, "--output", "drafted.toml"),
        ("analyze", *table, "--json", "t.json", "--all"),
        ("analyze", "e.toml", "--report", "e.html", "--all"),
        ("history", "report", file),
    ):
        assert call(monkeypatch, *command) in (0, 2)
    said = "".join(capfd.readouterr()) + _written(here) + _asked(here, file)
    assert WORDS not in said
    assert HIDDEN not in said
    assert file.read_bytes() == before


@pytest.mark.slow
@pytest.mark.whole
def test_the_views_of_that_test_do_read_other_files(tmp_path: Path, there: Path) -> None:
    """Where nothing confines the connection that opens their database."""
    read = set[str]()
    for name in VALUES:
        (tmp_path / name).mkdir()
        file = hostile(name, tmp_path / name, there)
        with duckdb.connect(str(file), read_only=True) as database:
            try:
                values = str(database.execute("select variant from v").fetchall())
            except duckdb.Error:
                continue
        read |= {name} if WORDS in values or HIDDEN in values else set()
    assert {*VALUES} - read == {
        *("csv_header", "other_database", "address", "bucket", "sqlite", "stored_secrets"),
    }


def test_one_module_connects_to_duckdb() -> None:
    opening = {
        file.relative_to(ROOT / "abeval").as_posix()
        for file in (ROOT / "abeval").rglob("*.py")
        if "duckdb.connect(" in file.read_text(encoding="utf-8")
    }
    assert opening == {"engines/duckdb_connection.py"}


def test_a_database_opens_nothing_but_what_is_named(tmp_path: Path, there: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n7\n")
    with open_database(files=[str(tmp_path / "a.csv")]) as opened:
        assert opened.execute(f"from '{tmp_path}/a.csv'").fetchall() == [(7,)]
        for sql in (f"from '{there}/secret.csv'", "set threads = 1", "load httpfs"):
            with pytest.raises(duckdb.Error):
                opened.execute(sql)


def test_an_engine_that_nobody_confined_confines_itself_to_its_first_log(
    tmp_path: Path, there: Path
) -> None:
    file = hostile("text", tmp_path, there)
    for first in (
        lambda engine: engine.add_log("raw_log", LogSource(path=str(file), table="t")),
        lambda engine: engine.tables_in(find_files("log", LogSource(path=str(file)), Path())),
    ):
        engine = DuckDBEngine()
        try:
            with suppress(LogError):
                first(engine)
            with pytest.raises(QueryError, match="disabled by configuration"):
                engine.rows(f"from read_text('{there}/secret.txt')")
        finally:
            engine.close()


SLOW = "(select sum(a.i * b.i) from range(10000000) a(i), range(10000000) b(i))"


def endless(file: Path) -> Path:
    """A database whose view does not end."""
    if file.suffix == ".sqlite":
        database = sqlite3.connect(file)
        database.execute(
            "create view v as with recursive r(i) as (select 1 union all select i + 1 from r) "
            "select i as user_id, 'a' as variant, 1 as click from r where i < 0"
        )
        database.close()
        return file
    with duckdb.connect(str(file)) as written:
        view = SELECT.format("'b'")
        written.execute(f"create view v as {view} where i < {SLOW}")
    return file


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize("name", ["v.duckdb", "v.sqlite"])
def test_a_view_that_does_not_end_is_ended(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = endless(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for command in (
        ("init", file, "--output", "drafted.toml"),
        ("analyze", file, "--variant", "variant"),
    ):
        begun = time.monotonic()
        assert call(monkeypatch, *command, "--time-limit", 1) == 2
        assert time.monotonic() - begun < 30
        said = capfd.readouterr().err
        assert "it was not done within the time limit of 1 s" in said
        assert "--time-limit" in said


def test_what_ends_in_time_is_not_changed(tmp_path: Path) -> None:
    with open_database() as opened:
        with limit_time(60):
            assert opened.execute("select 1").fetchall() == [(1,)]
        with pytest.raises(ZeroDivisionError), limit_time(60):
            1 / 0  # noqa: B018
        with pytest.raises(QueryError, match=r"time limit of 0\.2 s"), limit_time(0.2):
            opened.execute(f"select {SLOW}").fetchall()
        assert opened.execute("select 2").fetchall() == [(2,)]


def test_what_a_frame_lacks_is_said_without_the_words_of_duckdb() -> None:
    said = (
        "Invalid Input Error: reading the schema of the object registered as 'abeval_frame' "
        "failed: "
        "InvalidInputException: Invalid Input Error: Failed to cast value: no such cast"
    )
    assert (
        extract_message(duckdb.InvalidInputException(said)) == "Failed to cast value: no such cast"
    )
