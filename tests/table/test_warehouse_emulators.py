"""Statements for Snowflake and BigQuery: parsed in their dialects, and run on emulators.

An emulator has a DuckDB inside, and says little of speed or limits; of names, types, times and
whole numbers it says what the warehouse would.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from sqlglot import exp

import abeval
from abeval.table.connection import Warehouse
from abeval.table.warehouse import write_sums_statement, write_value_statement
from tests.table.test_warehouse import BASE, LOGS, WORLDS, same_sums

pytestmark = pytest.mark.whole

Load = Callable[[dict[str, pa.Table]], Warehouse]

TABLES = {
    # Their DuckDB reserves `at`, which neither warehouse does.
    name: log.rename_columns(["moment" if c == "at" else c for c in log.column_names])
    for name, log in LOGS.items()
}


def columns_of(log: pa.Table, kinds: dict[str, str]) -> str:
    return ", ".join(f"{c.name} {kinds.get(str(c.type), kinds['decimal'])}" for c in log.schema)


@pytest.fixture(scope="module")
def snowflake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    fakesnow = pytest.importorskip("fakesnow", reason="no fakesnow: pip install fakesnow")
    kinds = {
        **{"int16": "bigint", "int64": "bigint", "double": "double", "bool": "boolean"},
        **{"string": "varchar", "timestamp[us]": "timestamp_ntz", "decimal": "number(20, 2)"},
    }
    file = tmp_path_factory.mktemp("snowflake") / "rows.parquet"
    catalog = (
        "select column_name, data_type from information_schema.columns "
        "where table_name = upper({table}) order by ordinal_position"
    )
    with fakesnow.patch():
        from snowflake import connector

        cursor = connector.connect(database="db", schema="logs").cursor()

        def load(tables: dict[str, pa.Table]) -> Warehouse:
            for name, log in tables.items():
                cursor.execute(f"create or replace table {name} ({columns_of(log, kinds)})")
                pq.write_table(log, file)
                cursor._duck_conn.execute(f"insert into db.logs.{name} select * from '{file}'")
            ask = lambda sql: cursor.execute(sql).fetchall()  # noqa: E731
            return Warehouse("snowflake", catalog, ask, lambda: None)

        yield load


@pytest.fixture(scope="module")
def bigquery() -> Iterator[Load]:
    """An emulator of its own, which needs older packages than abeval: a command elsewhere."""
    command = shutil.which("bqemulator")
    if command is None:
        pytest.skip("no command bqemulator: pip install bqemulator, in an environment of its own")
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            ports.append(probe.getsockname()[1])
    options = ["--rest-port", str(ports[0]), "--grpc-port", str(ports[1]), "--project", "p"]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen([command, "start", *options], stdout=quiet, stderr=quiet)  # noqa: S603

    def post(path: str, body: object) -> Any:
        url = f"http://localhost:{ports[0]}/bigquery/v2/projects/p/{path}"
        kind = {"Content-Type": "application/json"}
        try:
            with urlopen(Request(url, json.dumps(body).encode(), kind)) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise AssertionError(error.read().decode()[:2000]) from error

    def ask(sql: str) -> list[list[str | None]]:
        said = post("queries", {"query": sql, "useLegacySql": False, "maxResults": 100_000})
        assert not said.get("errors"), said["errors"]
        return [[cell["v"] for cell in row["f"]] for row in said.get("rows", [])]

    kinds = {
        **{"int16": "int64", "int64": "int64", "double": "float64", "bool": "bool"},
        **{"string": "string", "timestamp[us]": "datetime", "decimal": "numeric"},
    }

    def write(value: object) -> object:
        if isinstance(value, datetime):
            return value.isoformat()
        return str(value) if isinstance(value, Decimal) else value

    def load(tables: dict[str, pa.Table]) -> Warehouse:
        for name, log in tables.items():
            ask(f"create or replace table logs.{name} ({columns_of(log, kinds)})")
            rows = [
                {"json": {c: write(value) for c, value in row.items() if value is not None}}
                for row in log.to_pylist()
            ]
            said = post(f"datasets/logs/tables/{name}/insertAll", {"rows": rows})
            assert not said["insertErrors"]
        catalog = (
            "select column_name, data_type from logs.INFORMATION_SCHEMA.COLUMNS "
            "where table_name = {table} order by ordinal_position"
        )
        return Warehouse("bigquery", catalog, ask, lambda: None)

    try:
        for _ in range(60):
            with suppress(OSError), socket.create_connection(("localhost", ports[0]), timeout=1):
                break
            if server.poll() is not None:
                pytest.skip("bqemulator does not start: it needs DuckDB's extension `spatial`")
            time.sleep(1)
        post("datasets", {"datasetReference": {"projectId": "p", "datasetId": "logs"}})
        yield load
    finally:
        server.terminate()
        server.wait(60)


SMALL = [
    {"name": name}
    for name in ("ctr", "clicks_per_user", "active_days_per_user", "page_views_per_user")
]
"""Metrics whose products of three fit into 64 bits, as which fakesnow keeps NUMBER(38, 0)."""


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("world", ["first", "cuped", "clicks by id", "exposed", "no time"])
def test_sums_of_snowflake_are_those_of_the_log(world: str, snowflake: Load) -> None:
    metrics = (
        {} if world == "clicks by id" else {"metrics": SMALL[: 1 if world == "no time" else 4]}
    )
    check_sums({**BASE, **WORLDS[world], **metrics}, snowflake, "")


@pytest.mark.parametrize("world", [*WORLDS])
def test_sums_of_bigquery_are_those_of_the_log(world: str, bigquery: Load) -> None:
    check_sums({**BASE, **WORLDS[world]}, bigquery, "logs.")


def check_sums(entries: dict[str, Any], load: Load, schema: str) -> None:
    text = json.dumps(entries).replace('"at"', '"moment"')
    loaded = abeval.define(json.loads(text.replace('"table": "', f'"table": "{schema}')))
    names = {"impressions": "shown", "units": "people"}
    frames: dict[str, Any] = {
        name: TABLES[names.get(name, name)] for name in loaded.experiment.logs.logs_by_name
    }
    there = load({names.get(name, name): frame for name, frame in frames.items()})
    assert same_sums(loaded, there, frames) >= 20


@cache
def refused_of_the_sample() -> Mapping[str, str]:
    """Metrics of the sample that PostgreSQL cannot have in one statement, and why."""
    experiment = abeval.load("sample_logs/experiment.toml").experiment
    return write_sums_statement(experiment, Warehouse("postgres")).refused


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "databricks"])
def test_every_statement_of_the_sample_is_one_query_of_its_dialect(dialect: str) -> None:
    experiment = abeval.load("sample_logs/experiment.toml").experiment
    made = write_sums_statement(experiment, Warehouse(dialect))
    assert made.refused == refused_of_the_sample()
    names = [one.name for one in experiment.metrics if one.name not in made.refused]
    texts = [write_value_statement(experiment, name, Warehouse(dialect)) for name in names]
    assert len(texts) > 10
    for text in (made.text, *texts):
        (tree,) = (found for found in sqlglot.parse(text, dialect=dialect) if found is not None)
        assert isinstance(tree, exp.Query)
        # What the dialect does not know is a function without a class.
        unknown = {call.name.lower() for call in tree.find_all(exp.Anonymous)}
        assert not {name for name in unknown if name.startswith("abeval_")}
        # DuckDB's function, which an emulator on DuckDB knows too.
        assert not re.search(r"\btimezone\(", text, re.IGNORECASE)


def test_names_of_snowflake_are_quoted_only_where_they_must_be(tmp_path: Path) -> None:
    log = LOGS["shown"].rename_columns(
        [
            "rows" if name == "price" else "Kind" if name == "device" else name
            for name in LOGS["shown"].column_names
        ]
    )
    pq.write_table(log, tmp_path / "shown.parquet")
    entries = {
        **BASE,
        "logs": {
            "impressions": {
                "path": "shown.parquet",
                "columns": BASE["logs"]["impressions"]["columns"],
            }
        },
        "metrics": [{"name": "paid", "value": 'case when "Kind" = \'tv\' then "rows" end'}],
    }
    text = write_sums_statement(
        abeval.define(tmp_path, **entries).experiment, Warehouse("snowflake")
    ).text
    assert set(text.split('"')[1::2]) == {"rows"}
