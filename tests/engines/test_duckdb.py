"""The engine alone: its options, the caller's connection, Ctrl-C, and what it says of errors."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from abeval.api import LoadedExperiment, define
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import LogError, QueryError
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import LogSource

LOG = """
select
  i as impression_id, i // 10 as user_id,
  case when i // 10 % 2 = 0 then 'a' else 'b' end as variant,
  cast(hash(i) % 5 = 0 as int) as click
from range(1000) t(i)
"""


@pytest.fixture
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine()
    yield made
    made.close()


@pytest.fixture
def caller() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of somebody's own, with tables of our names and settings of its own."""
    with duckdb.connect() as con:
        for statement in (
            f"create table impressions as {LOG}",
            "create view served as select * from impressions",
            "create schema logs",
            f"create table logs.units as {LOG}",
            f"create temp table seen as {LOG}",
            "create temp macro abeval_hash60(a, b) as 7",
            "set timezone = 'Europe/Berlin'",
        ):
            con.execute(statement).fetchall()
        yield con


def experiment(table: str) -> LoadedExperiment:
    return define(
        name="t",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {"table": table}},
        metrics=[{"name": "ctr"}],
    )


def state(con: duckdb.DuckDBPyConnection) -> list[object]:
    """Everything of a connection that a run could have changed."""
    return [
        con.execute(sql).fetchall()
        for sql in (
            "select database_name from duckdb_databases() order by all",
            "select database_name, table_name, estimated_size from duckdb_tables() order by all",
            "select database_name, view_name from duckdb_views() where not internal order by all",
            "select function_name from duckdb_functions() where not internal order by all",
            "select current_database(), current_schema(), current_setting('timezone')",
        )
    ]


@pytest.mark.parametrize(
    "table",
    [
        "impressions",
        "IMPRESSIONS",
        "served",
        "main.impressions",
        "memory.main.impressions",
        "logs.units",
        "seen",
        "registered",
    ],
)
def test_the_callers_tables_keep_their_names_and_contents(
    table: str, caller: duckdb.DuckDBPyConnection
) -> None:
    caller.register("registered", caller.execute(LOG).df())
    before = state(caller)
    row = experiment(table).analyze(connection=caller)["ctr"]
    assert (row.units_control, row.units) == (50, 50)
    assert state(caller) == before
    assert caller.execute("select count(*) from impressions").fetchall() == [(1000,)]


def test_two_runs_on_one_connection_do_not_meet(caller: duckdb.DuckDBPyConnection) -> None:
    first, second = DuckDBEngine(connection=caller), DuckDBEngine(connection=caller)
    first.table("units", "select 1 as n")
    second.table("units", "select 2 as n")
    assert (first.rows("from units"), second.rows("from units")) == ([(1,)], [(2,)])
    first.close()
    assert second.rows("from units") == [(2,)]
    second.close()


def test_the_connection_is_left_clean_after_an_error(caller: duckdb.DuckDBPyConnection) -> None:
    before = state(caller)
    with pytest.raises(
        LogError, match=r"there is no table 'impresions'; did you mean `impressions`"
    ):
        experiment("impresions").analyze(connection=caller)
    assert state(caller) == before


def test_a_closed_connection_is_refused() -> None:
    con = duckdb.connect()
    con.close()
    with pytest.raises(QueryError, match="the connection cannot be used"):
        DuckDBEngine(connection=con)


def test_a_database_file_that_the_caller_has_open_is_read_there(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "x.duckdb") as con:
        con.execute(f"create table log as {LOG}").fetchall()
        made = DuckDBEngine(folder=tmp_path, connection=con)
        made.add_log("raw_impressions", LogSource(table="log", path="x.duckdb"))
        assert made.rows("select count(*) from raw_impressions") == [(1000,)]
        made.close()
        assert con.execute("select count(*) from log").fetchall() == [(1000,)]


def test_databases_of_one_name_in_two_folders_are_two(engine: DuckDBEngine, tmp_path: Path) -> None:
    files = [tmp_path / str(n) / "log.duckdb" for n in (1, 2)]
    for n, file in enumerate(files, start=1):
        file.parent.mkdir()
        with duckdb.connect(file) as con:
            con.execute(f"create table log as select {n} as n").fetchall()
    sources = [LogSource(table="log", path=str(file)) for file in files]
    engine.confine(sources)
    for n, source in enumerate(sources, start=1):
        engine.add_log(f"raw_{n}", source)
    assert engine.rows('select * from raw_1 union all select * from "raw_2"') == [(1,), (2,)]


def test_the_callers_options_are_used_and_duckdb_has_half_of_the_memory() -> None:
    made = DuckDBEngine(EngineOptions(memory_limit="123MiB", threads=3))
    settings = "select current_setting('memory_limit'), current_setting('threads')"
    assert made.rows(settings) == [("61.5 MiB", 3)]
    made.close()


@pytest.mark.whole
def test_what_does_not_fit_into_memory_spills_to_the_folder_named(tmp_path: Path) -> None:
    options = EngineOptions(memory_limit="60MB", threads=1, temp_directory=str(tmp_path / "spill"))
    made = DuckDBEngine(options)
    made.table("big", "select i, md5(cast(i as varchar)) as m from range(3000000) t(i)")
    assert any((tmp_path / "spill").iterdir())
    assert made.rows("select count(*) from big") == [(3_000_000,)]
    made.close()
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_temporary_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QueryError, match="temporary folder") as caught:
        DuckDBEngine(EngineOptions(memory_limit="1GB", temp_directory=str(tmp_path / "file")))
    assert "temp_directory" in str(caught.value.hint)


def test_a_query_that_wants_too_much_memory_says_what_to_raise() -> None:
    made = DuckDBEngine(EngineOptions(memory_limit="1MB", threads=1))
    with pytest.raises(QueryError, match="ran out of memory") as caught:
        made.rows("select count(distinct md5(cast(i as varchar))) from range(1000000) t(i)")
    assert caught.value.hint is not None
    assert "memory_limit" in caught.value.hint
    assert "SET " not in str(caught.value)
    made.close()


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("selec 1", "syntax error at or near"),
        ("select x", 'Referenced column "x"'),
        ("select timestamp '2024-01-01' * 1000", "No function matches"),
        ("select cast('a' as int)", "Could not convert string 'a' to INT32"),
    ],
)
def test_errors_come_without_listings(engine: DuckDBEngine, sql: str, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.rows(sql)
    assert str(caught.value).startswith(f"DuckDB could not run a query: {says}")
    assert "\n" not in str(caught.value)
    assert not re.search("TINYINT|You might|Candidate", str(caught.value))


def test_an_error_that_shows_only_while_reading_is_one_too(engine: DuckDBEngine) -> None:
    engine.view(
        "v",
        "select cast(case when i < 900000 then '1' else 'x' end as int) as n "
        "from range(1000000) t(i)",
    )
    for ask in (engine.rows, engine.frame):
        with pytest.raises(QueryError, match="Could not convert string 'x'"):
            ask("select * from v")
    with pytest.raises(QueryError, match="Could not convert string 'x'"):
        engine.table("t", "select * from v")


def test_names_are_quoted(engine: DuckDBEngine) -> None:
    name = 'a"; drop table b; --'
    engine.table("b", "select 1 as n")
    engine.table(name, "select 2 as n")
    assert engine.columns(name) == {"n": "INTEGER"}
    assert engine.rows("from b") == [(1,)]


def test_odd_paths_are_paths(engine: DuckDBEngine, tmp_path: Path) -> None:
    folder = tmp_path / "it's ünder"
    folder.mkdir()
    pd.DataFrame({"n": [1, 2]}).to_csv(folder / "a'b.csv", index=False)
    engine.add_log("raw_items", LogSource(path=str(folder / "a'b.csv")))
    assert engine.rows("select sum(n) from raw_items") == [(3,)]


def test_partitions_become_columns_and_files_may_differ_in_columns(
    engine: DuckDBEngine, tmp_path: Path
) -> None:
    for day, columns in (("2024-01-01", "1 as n"), ("2024-01-02", "2 as n, 'x' as extra")):
        (tmp_path / f"day={day}").mkdir()
        with duckdb.connect() as con:
            file = tmp_path / f"day={day}" / "a.parquet"
            con.execute(f"copy (select {columns}) to '{file}' (format parquet)").fetchall()
    engine.add_log("raw_items", LogSource(path=str(tmp_path)))
    found = engine.rows("select n, extra, cast(day as varchar) from raw_items order by n")
    assert found == [(1, None, "2024-01-01"), (2, "x", "2024-01-02")]


def test_columns_may_be_called_like_those_that_duckdb_adds(
    engine: DuckDBEngine, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    pd.DataFrame({"file_row_number": ["x"], "filename": ["y"], "file_index": ["z"]}).to_parquet(
        file
    )
    engine.add_log("raw_items", LogSource(path=str(file)))
    assert engine.rows("select file_row_number, filename, file_index from raw_items") == [
        ("x", "y", "z")
    ]


@pytest.mark.parametrize("frame", [[1, 2], {"a": [1]}, "impressions", None])
def test_what_is_no_frame_is_refused(engine: DuckDBEngine, frame: object) -> None:
    with pytest.raises(LogError, match=r"items: .* is not a frame"):
        engine.add_frame("raw_items", frame)


def test_a_frame_that_cannot_be_read_is_a_fault_of_the_log(engine: DuckDBEngine) -> None:
    with pytest.raises(LogError, match="items: the frame has no columns"):
        engine.add_frame("raw_items", pd.DataFrame(index=[0, 1]))
    with pytest.raises(LogError, match="items: column 'x' of the frame is complex128") as caught:
        engine.add_frame("raw_items", pd.DataFrame({"x": [1j]}))
    assert "cast it" in str(caught.value.hint)


def test_frames_of_unknown_logs_are_refused(caller: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(LogError, match="no log is called 'impression'; did you mean `impressions`"):
        experiment("impressions").analyze(
            connection=caller, logs={"impression": pd.DataFrame({"a": [1]})}
        )


INTERRUPTED = """
import signal
from abeval.engines.duckdb import DuckDBEngine
# A test run in the background hands its children a SIGINT that is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
engine, slow = DuckDBEngine(), "select sum(hash(i) % 7) as n from range(100000000000) t(i)"
print("ready", flush=True)
try:
    engine.CALL
except KeyboardInterrupt:
    print("stopped", engine.rows("select 1"))
    engine.close()
"""


@pytest.mark.whole
@pytest.mark.parametrize("call", ["rows(slow)", "frame(slow)", "table('t', slow)"])
def test_ctrl_c_stops_a_query_as_it_stops_python(call: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED.replace("CALL", call)]
    with subprocess.Popen(  # noqa: S603 (our own command)
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        try:
            assert run.communicate(timeout=20) == ("stopped [(1,)]\n", "")
        finally:
            run.kill()


def test_a_reversed_frame_is_read_like_any_other() -> None:
    engine = DuckDBEngine()
    try:
        engine.add_frame(
            "raw_impressions", pd.DataFrame({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]})[::-1]
        )
        assert engine.rows("select sum(x), sum(y) from raw_impressions") == [(6, 4.5)]
    finally:
        engine.close()


class TestSpareTables:
    """A table that was looked at is not read again by the log of the same rows."""

    @pytest.mark.parametrize("ids", ["7, 8", "7.0, 8.0", "u7, u8", "7, 8x"])
    def test_a_log_of_the_same_rows_takes_it_over(self, engine, tmp_path, ids):
        file = tmp_path / "units.csv"
        file.write_text("id,group,y\n" + "".join(f"{i},a,1\n" for i in ids.split(", ")))
        source = LogSource(path=str(file), columns={"variant": "group"}).map_unit("id")
        engine.add_log("log_units", source)
        engine.add_log("looked_at", source)
        engine.spare("looked_at")
        engine.add_log("raw_units", source)
        assert engine.columns("raw_units") == engine.columns("log_units")
        assert engine.rows("from raw_units") == engine.rows("from log_units")
        with pytest.raises(QueryError, match="looked_at"):
            engine.rows("from looked_at")

    def test_it_is_taken_once_and_only_by_the_same_reading(self, engine, tmp_path):
        file = tmp_path / "units.csv"
        file.write_text("id,group,other\n1,a,7\n")
        source = LogSource(path=str(file), columns={"variant": "group"}).map_unit("id")
        engine.add_log("looked_at", source)
        engine.spare("looked_at")
        # Names of variants are text, so this one is read in another way.
        engine.add_log("raw_units", source.model_copy(update={"columns": {"variant": "other"}}))
        assert engine.rows("select other from raw_units") == [("7",)]
        engine.add_log("raw_clicks", source)
        engine.add_log("raw_items", source)
        rows = "select id, other from raw_clicks join raw_items using (id, other)"
        assert engine.rows(rows) == [(1, 7)]

    def test_a_frame_is_copied_once(self, engine):
        frame, source = pd.DataFrame({"id": [1, 2], "group": ["a", "b"]}), LogSource()
        engine.add_frame("looked_at", frame, source)
        engine.spare("looked_at")
        engine.add_frame("raw_units", frame.copy(), source)
        assert engine.rows("from looked_at") == engine.rows("from raw_units")
        engine.add_frame("raw_units", frame, source)
        assert engine.rows("from raw_units") == [(1, "a"), (2, "b")]
        with pytest.raises(QueryError, match="looked_at"):
            engine.rows("from looked_at")


def test_a_small_log_takes_one_thread_and_a_frame_that_may_be_large_takes_all(
    tmp_path: Path,
) -> None:
    all_threads = duckdb.connect().execute("select current_setting('threads')").fetchone()
    file = tmp_path / "impressions.parquet"
    duckdb.execute(f"copy ({LOG}) to '{file}'")
    threads = []
    for source in (LogSource(path=str(file)), LogSource()):
        engine = DuckDBEngine()
        engine.confine([source])
        threads += engine.rows("select current_setting('threads')")
        engine.close()
    assert threads == [(1,), all_threads]


def test_rows_of_a_view_are_counted_as_they_are_now(engine: DuckDBEngine) -> None:
    engine.table("numbers", "select 1 as n")
    engine.view("seen", "select n from numbers")
    assert engine.count("seen") == 1
    engine.table("numbers", "select 'one' as n from range(5)")
    assert (engine.count("numbers"), engine.count("seen")) == (5, 5)
    assert engine.columns("seen") == {"n": "VARCHAR"}


def test_an_engine_may_be_closed_twice(caller: duckdb.DuckDBPyConnection) -> None:
    engine = DuckDBEngine(connection=caller)
    engine.close()
    engine.close()
    assert caller.execute("select current_database()").fetchall() == [("memory",)]


def test_steps_that_one_query_reads_are_no_relations() -> None:
    engine = DuckDBEngine()
    steps = {"ones": "-- grain: one row\nselect 1 as n", "twos": "select n + n as n from ones"}
    assert engine.rows(engine.write_steps(steps, "select * from twos -- of ones\n")) == [(2,)]
    assert engine.write_steps({}, "select 1") == "select 1"
    with pytest.raises(QueryError, match="ones"):
        engine.rows("select * from ones")
    engine.close()
