"""`abeval sql`: queries as they stand, translated, and with every view that they read."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pytest
import sqlglot

from abeval.cli import main
from abeval.queries import query, query_names
from abeval.simulate import simulate

NEEDS_EXPERIMENT = [name for name in query_names() if "columns(" in query(name)]


def sql(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["abeval", "sql", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("logs")
    simulate(made, impressions=5_000)
    return made


@pytest.mark.parametrize("dialect", ["spark", "bigquery", "snowflake", "trino", "clickhouse"])
def test_a_query_is_translated_and_says_who_has_run_it(
    dialect: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = sql(monkeypatch, capsys, "units/gauc", "--dialect", dialect)
    first = out.splitlines()[0]
    assert code == 0
    assert ("NOT RUN" in first) == (dialect != "spark")
    assert dialect in first
    assert sqlglot.parse_one(out, dialect=dialect).find(sqlglot.exp.Select) is not None


def test_a_query_whose_columns_depend_on_the_experiment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = sql(monkeypatch, capsys, NEEDS_EXPERIMENT[0], "--dialect", "spark")
    assert code == 2
    assert "--experiment FILE" in err


@pytest.mark.parametrize(
    "arguments", [["units/gauc", "--dialect", "klingon"], ["units/gaucc", "--dialect", "spark"]]
)
def test_unknown_names_are_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = sql(monkeypatch, capsys, *arguments)
    assert code == 2
    assert "is called" in err


@pytest.mark.parametrize(
    "name",
    ["units/unit_day", "units/gauc", "units/sessions", "time/placed_unit_day", "offline/hits"],
)
def test_a_whole_statement_runs_on_nothing_but_the_logs(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = folder / "experiment.toml"
    code, out, _ = sql(monkeypatch, capsys, name, "--experiment", file)
    assert code == 0
    with duckdb.connect() as con:
        con.execute("set timezone = 'UTC'")
        for log, path in (
            ("impressions", "impressions/*.parquet"),
            ("clicks", "clicks.parquet"),
            ("items", "items.parquet"),
        ):
            con.execute(f"create view raw_{log} as from read_parquet('{folder / path}')")
        rows = con.execute(out).fetchall()
    assert len(rows) > 10


def test_the_logs_and_what_is_undefined_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "experiment.toml"
    arguments = ["units/unit_day", "--experiment", file, "--dialect"]
    _, out, _ = sql(monkeypatch, capsys, *arguments, "clickhouse")
    assert "-- raw_impressions: impressions/*.parquet" in out
    assert "-- to be defined: abeval_epoch_ms" in out
    _, out, _ = sql(monkeypatch, capsys, *arguments, "bigquery")
    assert "to be defined" not in out
