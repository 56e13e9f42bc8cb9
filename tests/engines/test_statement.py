"""`abeval tools sql`: queries as they stand, translated, and with every view that they read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import abeval
from abeval.cli.main import main
from abeval.cli.reference import run_of
from abeval.engines.sql import query, query_names
from abeval.engines.statement import parsed, plain_statement, recorded, statement_text, transpiled
from abeval.errors import QueryError
from abeval.simulate import simulate

DIALECTS = ["spark", "databricks", "bigquery", "snowflake", "trino", "clickhouse", "postgres"]
NEEDS_EXPERIMENT = [name for name in query_names() if "columns(" in query(name)]

SHOWN = {"impressions": {"path": "impressions/*.parquet", "columns": {"ts": "time"}}}
USERS = {"path": "users.parquet", "columns": {"ts": "time"}}
"""A row of each user, which can be an exposure, an outcome, or all that is known of the user."""

CLICKED = {"metrics": [{"name": "clicked", "log": "clicks"}]}

NEEDS: dict[str, dict[str, Any]] = {
    "log/described_rows": {
        "logs": {**SHOWN, "units": {"path": "users.parquet"}},
        "metrics": [{"name": "seen", "log": "units", "value": "visits"}],
    },
    "log/outcomes": {
        "logs": {**SHOWN, "events": {"visits": USERS}},
        "metrics": [{"name": "visited", "log": "visits"}],
    },
    "log/repeated_keys": {"cleaning": {"duplicate_key": ["request_id", "item_id"]}},
    "units/cut_sums": {"cuts": {"place": "position"}},
    "units/exposure_segments": {
        "logs": {**SHOWN, "exposures": USERS},
        "metrics": [{"name": "impressions_per_user"}],
        "segments": {"device": {"value": "device", "known": "exposure"}},
    },
    "units/impression_events": CLICKED,
    "units/logged_rows": {
        "logs": {"units": {"path": "users.parquet"}},
        "metrics": [{"name": "visits"}],
        "variants": {"control": {}, "treatment": {}},
        "models": {},
        **dict.fromkeys(("period", "pre_period")),
    },
    "units/unit_events": CLICKED,
}
"""What an analysis runs a query for, where that of the sample does not run it."""


def sql(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["abeval", "tools", "sql", *map(str, arguments)])
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
    users = f"""
    select user_id, min(variant) as variant, min(device) as device, min(time) as time,
      count(*) as visits
    from '{made}/impressions/*.parquet'
    group by user_id
    """
    duckdb.sql(users).write_parquet(str(made / "users.parquet"))
    return made


@pytest.mark.whole
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_is_written_for_a_dialect_and_says_who_has_run_it(dialect: str) -> None:
    for name in query_names():
        if name in NEEDS_EXPERIMENT:
            with pytest.raises(QueryError, match="depend on the experiment"):
                plain_statement(name, dialect)
        else:
            check_statement(plain_statement(name, dialect), dialect)


def check_statement(text: str, dialect: str) -> None:
    """One query that the dialect can be read in, with nothing in it that only DuckDB says."""
    first = text.splitlines()[0]
    assert f"in the {dialect} dialect" in first
    assert ("NOT RUN" in first) == (dialect != "spark")
    tree, *more = [found for found in sqlglot.parse(text, dialect=dialect) if found is not None]
    assert not more
    assert isinstance(tree, exp.Query)
    assert tree.find(exp.Columns) is None
    assert [s.sql() for s in tree.find_all(exp.Select) if s.args.get("windows")] == []
    assert "group by all" not in text.lower()


def test_a_named_window_is_that_of_its_own_select() -> None:
    inner = "(select g, sum(q) over w as a from u window w as (order by z)) as t"
    outer = f"select sum(a) over (w order by a) as x, sum(a) over W as y from {inner}"
    text = f"{outer} window w as (partition by g)"
    said = transpiled(parsed(text), "postgres", lambda _: [])
    assert said == (
        "SELECT SUM(a) OVER (PARTITION BY g ORDER BY a) AS x, SUM(a) OVER (PARTITION BY g) AS y "
        "FROM (SELECT g, SUM(q) OVER (ORDER BY z) AS a FROM u) AS t"
    )


@pytest.mark.whole
@pytest.mark.parametrize("name", [n for n in NEEDS_EXPERIMENT if not n.startswith("sums/")])
def test_what_depends_on_the_experiment_is_written_for_every_dialect(
    name: str, folder: Path
) -> None:
    loaded = abeval.load(folder / "experiment.toml")
    experiment = loaded.replace(**NEEDS.get(name, {})).experiment
    made = recorded(experiment, name, run_of(experiment, name))
    for dialect in DIALECTS:
        check_statement(statement_text(experiment, name, dialect, made), dialect)


def test_units_that_the_impressions_do_not_place_are_no_statement(folder: Path) -> None:
    entries = NEEDS["units/exposure_segments"]
    experiment = abeval.load(folder / "experiment.toml").replace(**entries).experiment
    with pytest.raises(QueryError, match="cannot be written as SQL: the impressions alone"):
        recorded(experiment, "units/units", run_of(experiment, "units/units"))


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


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    [
        "units/logged_sums",
        "units/gauc",
        "units/sessions",
        "units/units",
        "audit/flags",
        "offline/hits",
    ],
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


def test_the_pass_reads_scores_only_for_a_metric_that_needs_them(folder: Path) -> None:
    loaded = abeval.load(folder / "experiment.toml")
    sums = {}
    for metric in ("ctr", "gauc"):
        chosen = loaded.replace(metrics=[{"name": metric}]).experiment
        made = recorded(chosen, "units/logged_sums", run_of(chosen, "units/logged_sums"))
        text = statement_text(chosen, "units/logged_sums", "duckdb", made)
        sums[metric] = len(list(sqlglot.parse_one(text, dialect="duckdb").find_all(exp.Sum)))
    assert sums["ctr"] == 3  # rows, clicks, and the copies of one click
    assert sums["gauc"] > sums["ctr"]


def test_the_logs_and_what_is_undefined_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "experiment.toml"
    arguments = ["units/logged_sums", "--experiment", file, "--dialect"]
    _, out, _ = sql(monkeypatch, capsys, *arguments, "mysql")
    assert "-- raw_impressions: impressions/*.parquet" in out
    assert "-- to be defined: abeval_epoch_ms" in out
    _, out, _ = sql(monkeypatch, capsys, *arguments, "bigquery")
    assert "to be defined" not in out
