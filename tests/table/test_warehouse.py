"""Sums in PostgreSQL and ClickHouse are those of the analysis of the log, to the last digit."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import abeval
from abeval.aggregates.collect import collect
from abeval.aggregates.sums import DAY, SUM_NAMES, WHOLE, Group, SumsRow
from abeval.api import LoadedExperiment
from abeval.cli.main import main
from abeval.engines.duckdb_connection import limit_time
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.metrics import find_metrics_by_name
from abeval.logs.run import open_run
from abeval.results.analysis import Result
from abeval.simulate import simulate
from abeval.table.connection import Warehouse, connect
from abeval.table.counts import Sums
from abeval.table.sums import aggregate_sums, parse_summaries
from abeval.table.warehouse import write_sums_statement, write_value_statement
from tests.engines.sessions import spark_session
from tests.sample import at_one_look

pytestmark = pytest.mark.whole

Load = Callable[[dict[str, pa.Table]], str]
"""Loads tables into a warehouse, and returns its URI."""


def postgresql_programs() -> Path | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    own = shutil.which("initdb")
    return Path(own).parent if own else folders[-1] if folders else None


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Load]:
    """A server of its own, in a temporary folder, with a Unix socket."""
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="no adbc-driver-postgresql")
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    # The server does not run as root, and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="abeval-pg-", dir="/tmp"))
    user = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        # Of pg_ctl, the server keeps what is open.
        command, where = [str(programs / program), "-D", str(folder / "data")], folder / "said"
        with where.open("w") as said:
            done = subprocess.run(  # noqa: S603
                [*command, *arguments], **user, stdout=said, stderr=said, cwd=folder, check=False
            )
        assert done.returncode == 0, where.read_text()

    uri = f"postgresql:///postgres?host={folder}&user=postgres"

    def load(tables: dict[str, pa.Table]) -> str:
        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            for name, table in tables.items():
                quoted = name.replace('"', '""')
                cursor.execute(f'drop table if exists "{quoted}" cascade')
                cursor.adbc_ingest(name, table, mode="create")
            connection.commit()
        return uri

    try:
        run("initdb", "-U", "postgres", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8", "-N")
        # A zone of its own, which no statement may depend on.
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off "
        run("pg_ctl", "-w", "-o", f"{options} -c timezone=Asia/Tokyo", "start")
        yield load
    finally:
        subprocess.run(  # noqa: S603
            [str(programs / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "stop"],
            **user,
            capture_output=True,
            cwd=folder,
            check=False,
        )
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Load:
    session = pytest.importorskip("chdb.session", reason="no chdb")
    folder = tmp_path_factory.mktemp("clickhouse")

    def load(tables: dict[str, pa.Table]) -> str:
        own = session.Session(str(folder / "data"))
        for number, (name, table) in enumerate(tables.items()):
            pq.write_table(table, folder / f"{number}.parquet")
            quoted = name.replace("\\", "\\\\").replace("`", "\\`")
            own.query(f"drop table if exists `{quoted}`")
            own.query(
                f"create table `{quoted}` engine = MergeTree order by tuple() as "
                f"select * from file('{folder}/{number}.parquet', Parquet)"
            )
        own.close()
        return f"chdb:{folder}/data"

    return load


def dbapi_of(uri: str) -> Any:
    """A connection that may write."""
    return pytest.importorskip("adbc_driver_postgresql.dbapi").connect(uri)


@contextmanager
def session_of(uri: str) -> Iterator[Any]:
    """ClickHouse in this process, which opens a folder once."""
    session = pytest.importorskip("chdb.session")
    own = session.Session(uri.removeprefix("chdb:"))
    try:
        yield own
    finally:
        own.close()


@pytest.fixture(params=["postgresql", "clickhouse"])
def load(request: pytest.FixtureRequest) -> Load:
    made: Load = request.getfixturevalue(request.param)
    return made


STAMP = pa.timestamp("us")
SINCE = datetime(2026, 10, 20)


def odd_logs(rows: int = 3_000) -> dict[str, pa.Table]:
    """Logs in which little is as it should be."""
    rng = np.random.default_rng(5)
    users = [*(f"u{number}" for number in range(250)), "o'neil", "ünï", "a\\b", "", "U1"]
    own = rng.integers(0, len(users), rows)
    # Over both changes of the clock, in Europe and in New York, with halves of milliseconds.
    spent = rng.integers(0, 16 * 86_400_000, rows) * 1_000 + rng.choice([0, 500, 999], rows)
    items = rng.integers(0, 6, rows)
    arm = np.array(["a", "b", "b2"])[own % 3]
    crosses = rng.random(rows) < 0.03
    price = np.round(rng.normal(0, 20, rows) * 8) / 16
    impressions = {
        "id": [None if rng.random() < 0.01 else n for n in range(rows)],
        "who": [None if rng.random() < 0.01 else users[n] for n in own],
        "arm": [
            None if rng.random() < 0.01 else "c" if rng.random() < 0.02 else "a" if odd else name
            for name, odd in zip(arm, crosses, strict=True)
        ],
        "at": [
            None if rng.random() < 0.01 else SINCE + timedelta(microseconds=int(us)) for us in spent
        ],
        "request": (own * 1_000 + spent // 3_600_000_000).tolist(),
        "item": items.tolist(),
        "clicked": (rng.random(rows) < 0.2).tolist(),
        "price": [None if rng.random() < 0.05 else x for x in price.tolist()],
        "amount": [Decimal(int(x)) / 100 for x in rng.integers(-500, 9_000, rows)],
        "count": pa.array(rng.integers(0, 5, rows).tolist(), pa.int16()),
        "device": rng.choice(["phone", "tv", "Tablet"], rows).tolist(),
    }
    log = pa.table({**impressions, "at": pa.array(impressions["at"], STAMP)})
    # Equal rows, and impressions of one unit at the same moment in two variants.
    moments = log.slice(100, 40)
    tied = moments.set_column(2, "arm", pa.array(["b"] * 40)).set_column(
        0, "id", pa.array(range(rows, rows + 40), pa.int64())
    )
    log = pa.concat_tables([log, log.slice(0, 60), tied])
    clicks = [n for n in range(rows) if rng.random() < 0.2]
    late = [timedelta(seconds=int(s)) for s in rng.integers(-600, 40_000, len(clicks))]
    times = [
        None if (t := impressions["at"][n]) is None else t + d
        for n, d in zip(clicks, late, strict=True)
    ]
    table = pa.table(
        {
            "id": [impressions["id"][n] if rng.random() < 0.98 else -n for n in clicks],
            "who": [impressions["who"][n] for n in clicks],
            "item": [int(items[n]) for n in clicks],
            "at": pa.array(times, STAMP),
            "dwell": [
                None if rng.random() < 0.1 else round(float(x), 4)
                for x in rng.exponential(20, len(clicks))
            ],
        }
    )
    exposed = [n for n in range(len(users)) if rng.random() < 0.7]
    exposures = {
        "who": [users[n] for n in exposed] + ["nobody", "u1", None],
        "arm": [None if rng.random() < 0.1 else ["a", "b", "b2"][n % 3] for n in exposed]
        + ["a", "a", "b"],
        "at": pa.array(
            [SINCE + timedelta(seconds=int(s)) for s in rng.integers(0, 12 * 86_400, len(exposed))]
            + [SINCE + timedelta(days=8), SINCE, SINCE],
            STAMP,
        ),
    }
    # Of so many, no unit holds a hundredth of the orders, which sums do not know.
    units = [f"p{n}" for n in range(2_400)]
    people = {
        "who": [*units, "p3", "p3", None],
        "arm": [["a", "b", "b2"][n % 3] for n in range(len(units))] + ["a", "b", "a"],
        "spent": [float(x) for x in np.round(rng.uniform(0, 30, len(units) + 3), 3)],
        "before": [float(x) for x in np.round(rng.exponential(30, len(units) + 3), 3)],
        "orders": rng.integers(0, 4, len(units) + 3).tolist(),
    }
    return {
        "shown": log,
        "clicks": pa.concat_tables([table, table.slice(0, 30)]),
        "exposures": pa.table(exposures),
        "people": pa.table(people),
    }


LOGS = odd_logs()
COLUMNS = {
    "variant": "arm",
    "ts": "at",
    "impression_id": "id",
    "request_id": "request",
    "item_id": "item",
}
SHOWN = {"table": "shown", "columns": {**COLUMNS, "click": "clicked"}}
UNCLICKED = {"table": "shown", "columns": COLUMNS}
BASE: dict[str, Any] = {
    "name": "odd",
    "unit": "who",
    "control": "a",
    "variants": {"a": {}, "b": {"of": ["b", "b2"]}},
    "timezone": "America/New_York",
    "period": {"start": "2026-10-26", "end": "2026-11-03"},
    "pre_period": {"start": "2026-10-21", "end": "2026-10-26"},
    "logs": {"impressions": SHOWN},
    "metrics": [
        {"name": "ctr"},
        *(
            {"name": f"{what}_per_user"}
            for what in ("clicks", "active_days", "sessions", "page_views")
        ),
        {"name": "session_length"},
        {"name": "paid", "value": "price", "resolution": 0.125},
        {"name": "coarse", "value": "price - 0.25", "resolution": 0.5},
        {"name": "share", "numerator": "amount * count", "denominator": "count"},
        {
            "name": "cases",
            "value": "case when device in ('tv', 'Tablet') and price / 3 > 1 then 2 end",
        },
    ],
}
DWELT = [
    {"name": name}
    for name in ("ctr", "dwell_per_user", "dwell_per_click", "long_click_rate", "sessions_per_user")
]
BY_ID = {
    "table": "clicks",
    "columns": {"ts": "at", "impression_id": "id"},
    "attribution_hours": 4.0,
}
BY_UNIT = {**BY_ID, "columns": {"ts": "at", "item_id": "item"}, "join": ["unit_id", "item_id"]}
ROWS = {"unit": "row", "pre_period": None, "metrics": [{"name": "ctr"}]}
PEOPLE = {
    "logs": {"units": {"table": "people", "columns": {"variant": "arm"}, "covariates": ["before"]}},
    "period": None,
    "pre_period": None,
    "metrics": [
        {"name": "spent", "missing": "zero"},
        {"name": "order", "numerator": "spent", "denominator": "orders", "missing": "zero"},
    ],
}
FEW = [m for m in BASE["metrics"] if m["name"] in ("ctr", "sessions_per_user", "share")]
"""Enough where a world is of its rows and units: `first` has every metric."""

CUPED = {"inference": {"adjust": "cuped"}}

WORLDS: dict[str, dict[str, Any]] = {
    "first": {},
    "cuped": CUPED,
    "excluded, by day in Berlin": {
        "cleaning": {"crossover": "exclude"},
        "timezone": "Europe/Berlin",
        "metrics": FEW,
    },
    "uneven, with duplicates": {
        "variants": {"a": {"weight": 0.9}, "b": {"weight": 0.1, "of": ["b", "b2"]}},
        "cleaning": {"duplicates": "keep"},
        "metrics": FEW,
    },
    "filtered": {
        "logs": {"impressions": {**SHOWN, "where": "Device <> 'tv' and price is not null"}},
        "metrics": FEW,
    },
    "clicks by id": {"logs": {"impressions": UNCLICKED, "clicks": BY_ID}, "metrics": DWELT},
    "clicks by unit": {"logs": {"impressions": UNCLICKED, "clicks": BY_UNIT}, "metrics": DWELT},
    "exposed": {
        "logs": {
            "impressions": SHOWN,
            "exposures": {"table": "exposures", "columns": {"variant": "arm", "ts": "at"}},
        },
        "metrics": FEW,
    },
    "no time": {
        "logs": {
            "impressions": {"table": "shown", "columns": {"variant": "arm", "click": "clicked"}}
        },
        "metrics": [{"name": "ctr"}, {"name": "paid", "value": "price"}],
        "period": None,
        "pre_period": None,
    },
    "rows": ROWS,
    "people": PEOPLE,
    "ties by rule": {"assignment": {"salt": "x"}, "metrics": FEW},
    "by rule alone": {
        "assignment": {"salt": "x"},
        "logs": {
            "impressions": {
                "table": "shown",
                "columns": {"ts": "at", "impression_id": "id", "click": "clicked"},
            }
        },
        "metrics": FEW[:1],
    },
}


def moments_of(
    loaded: LoadedExperiment, frames: dict[str, object]
) -> dict[tuple[str, str, str, Group], SumsRow]:
    """What the analysis of the log sums."""
    with open_run(loaded.experiment, {"logs": frames}) as run:
        rows = collect(run, find_metrics_by_name(loaded.experiment)).moments
    return {row[:4]: row for row in rows if row.slice in (WHOLE, DAY)}


def same_sums(
    loaded: LoadedExperiment,
    there: str | Warehouse,
    frames: dict[str, object],
    materializes: bool = True,
) -> int:
    """How many numbers of a warehouse are those of the log; each has to be."""
    warehouse = connect(there) if isinstance(there, str) else there
    try:
        made = write_sums_statement(
            loaded.experiment,
            warehouse._replace(materializes=warehouse.materializes and materializes),
        )
        rows = warehouse.ask(made.text)
    finally:
        warehouse.close()
    assert not made.refused
    experiment = loaded.experiment
    answer = Sums("it", parse_summaries(made.columns, rows, "it"))
    _, _, aggregates = aggregate_sums(experiment, find_metrics_by_name(experiment), answer)
    of_log = moments_of(loaded, frames)
    # Covariates of a table of units have sums of their own.
    adjusts = experiment.inference.adjust != "none" and not experiment.is_unit_table
    means = {metric.name for metric in find_metrics_by_name(experiment) if metric.kind == "mean"}
    numbers = 0
    for row in aggregates.moments:
        known = of_log.pop(row[:4])
        assert row.units == known.units
        numbers += 1
        # A warehouse sends sums alone: which units are heavy they do not say.
        assert not row.heavy
        for name, one, other in zip(SUM_NAMES, row.sums, known.sums, strict=True):
            is_past = {"y0", "x0", "z"} & {*name.split("_")}
            if (is_past and not adjusts) or (one is None and row.slice == DAY):
                continue
            # Of a mean, the denominator before is 1 in the log's sums, which nothing reads.
            if "x0" in name and row.metric in means:
                continue
            assert one == other, (row[:4], name)
            numbers += 1
    assert not of_log
    return numbers


def same_result(loaded: LoadedExperiment, uri: str, frames: dict[str, object]) -> None:
    by_log, by_sums = loaded.analyze(logs=frames), loaded.analyze(connect=uri)
    if {verdict.decision for verdict in by_log.verdicts} == {"do_not_trust"}:
        # A check of the rows, which sums do not have, may have failed.
        listed = [
            [replace(row, status="", reason=None) for row in result.scorecard]
            for result in (by_sums, by_log)
        ]
        assert listed[0] == listed[1]
    else:
        assert by_sums.verdicts == by_log.verdicts
        assert by_sums.scorecard == by_log.scorecard


QUICK = ("first", "people")


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(
    "world",
    [world if world in QUICK else pytest.param(world, marks=pytest.mark.whole) for world in WORLDS],
)
def test_sums_of_a_warehouse_are_those_of_the_log(world: str, load: Load) -> None:
    loaded = abeval.define({**BASE, **WORLDS[world]})
    names = {"impressions": "shown", "units": "people"}
    frames: dict[str, object] = {
        name: LOGS[names.get(name, name)] for name in loaded.experiment.logs.logs_by_name
    }
    uri = load({names.get(name, name): LOGS[names.get(name, name)] for name in frames})
    # Of older servers of ClickHouse a CTE is computed wherever it is read, which takes long.
    assert same_sums(loaded, uri, frames, materializes=world != "first") > 20
    # A result is made of the sums alone: of one world, and of logs of a recommender below.
    if world == "people":
        same_result(loaded, uri, frames)


DROP = "'; drop table people; --"


def test_hostile_names_of_a_warehouse_are_names(load: Load) -> None:
    table, columns, arms = (
        f'sh"ow.n\\`{DROP}',
        [f'w"ho{DROP}', "a\\rm`", "ä;t", "cl'ick ⚡"],
        [f"a{DROP}"],
    )
    arms += ['b"\\', "c;⚡`"]
    log = LOGS["shown"].select(["who", "arm", "at", "clicked"]).rename_columns(columns)
    named = dict(zip(["a", "b", "b2"], arms, strict=True))
    told = [named.get(name, name) for name in log[columns[1]].to_pylist()]
    log = log.set_column(1, columns[1], pa.array(told))
    listed = dict(zip(["variant", "ts", "click"], columns[1:], strict=True))
    quoted = '"' + table.replace('"', '""') + '"'
    loaded = abeval.define(
        {
            **BASE,
            "unit": columns[0],
            "control": arms[0],
            "variants": {arms[0]: {}, "b'": {"of": arms[1:]}},
            "logs": {"impressions": {"table": quoted, "columns": listed}},
            "metrics": [{"name": "ctr"}, {"name": "clicks_per_user"}],
        }
    )
    uri = load({table: log, "people": LOGS["people"]})
    assert same_sums(loaded, uri, {"impressions": log}) > 10
    # Nothing was dropped.
    people = abeval.define({**BASE, **PEOPLE})
    assert same_sums(people, uri, {"units": LOGS["people"]}) > 5


VALUED = ("ctr", "sessions_per_user", "share", "paid")


def check_values(
    loaded: LoadedExperiment, texts: dict[str, str], ask: Callable[[str], Any], result: Result
) -> None:
    """Each statement's values are those of an analysis of the log."""
    for name, text in texts.items():
        row = next(row for row in result.scorecard if row.metric == name)
        said = {str(one[0]): float(one[1]) for one in ask(text)}
        assert said == {
            loaded.experiment.control: pytest.approx(row.control, rel=1e-9),
            row.variant: pytest.approx(row.treatment, rel=1e-9),
        }, name


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("world", ["first", "exposed"])
def test_values_of_a_warehouse_are_those_of_the_log(world: str, load: Load) -> None:
    loaded = abeval.define({**BASE, **WORLDS[world]})
    frames: dict[str, object] = {
        name: LOGS["shown" if name == "impressions" else name]
        for name in loaded.experiment.logs.logs_by_name
    }
    known = {metric.name for metric in find_metrics_by_name(loaded.experiment)}
    with closing(connect(load(LOGS))) as warehouse:
        texts = {
            n: write_value_statement(loaded.experiment, n, warehouse) for n in VALUED if n in known
        }
        check_values(loaded, texts, warehouse.ask, loaded.analyze(logs=frames))


def test_values_in_spark_are_those_of_the_log(tmp_path: Path) -> None:
    pq.write_table(LOGS["shown"], tmp_path / "shown.parquet")
    shown = {**SHOWN, "path": "shown.parquet"}
    del shown["table"]
    loaded = abeval.define(tmp_path, **{**BASE, "logs": {"impressions": shown}})
    texts = {
        n: write_value_statement(loaded.experiment, n, Warehouse("spark")) for n in ("ctr", "share")
    }
    # Spark stands for Databricks, which names a table's columns itself.
    few = of_tables(loaded.replace(metrics=FEW))
    with spark_session() as session:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        rows = session.read.parquet(str(tmp_path / "shown.parquet"))
        rows.createOrReplaceTempView("impressions")
        check_values(loaded, texts, lambda sql: session.sql(sql).collect(), loaded.analyze())
        for dialect in ("spark", "databricks"):
            there = Warehouse(
                dialect,
                "describe table impressions",
                lambda sql: [
                    tuple(row)[: 2 if "describe" in sql else None]
                    for row in session.sql(sql).collect()
                ],
                lambda: None,
            )
            assert same_sums(few, there, {"impressions": LOGS["shown"]}) > 20


@pytest.mark.parametrize("metric", ["gauc", "dwell_p50"])
def test_a_value_that_is_more_than_sums_is_refused(metric: str) -> None:
    experiment = abeval.define(SAMPLE).experiment
    with pytest.raises(ExperimentError, match="it is more than sums of rows"):
        write_value_statement(experiment, metric, Warehouse("postgres"))


def test_the_sums_of_the_sample_are_written_for_its_plan_of_looks() -> None:
    experiment = abeval.load("sample_logs/experiment.toml").experiment
    made = write_sums_statement(experiment, Warehouse("duckdb"))
    assert "take inference.looks out of the file first" in made.text
    assert len(made.refused) == 9
    assert len(made.text.splitlines()) < 400


def of_tables(loaded: LoadedExperiment) -> LoadedExperiment:
    """The same experiment, whose logs are tables of their names."""
    logs = loaded.experiment.model_dump(exclude_unset=True)["logs"]
    return loaded.replace(
        logs={
            name: {**{k: v for k, v in log.items() if k != "path"}, "table": name}
            for name, log in logs.items()
        }
    )


def files_of(folder: Path) -> dict[str, pa.Table]:
    return {
        "impressions": pq.read_table(folder / "impressions"),
        "clicks": pq.read_table(folder / "clicks.parquet"),
        "items": pq.read_table(folder / "items.parquet"),
    }


ADDITIVE = (
    *("ctr", "dwell_per_user", "sessions_per_user", "clicks_per_user", "impressions_per_user"),
    *("page_views_per_user", "active_days_per_user", "dwell_per_click", "dwell_per_impression"),
    *("long_click_rate", "session_length", "q_ctr"),
)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(0, marks=pytest.mark.whole, id="sample"),
        pytest.param(1_000_000, marks=pytest.mark.slow, id="million"),
    ],
)
def test_logs_of_a_recommender_have_their_verdict_in_a_warehouse(
    rows: int, load: Load, tmp_path: Path
) -> None:
    folder = Path("sample_logs")
    if rows:
        folder = tmp_path
        simulate(folder, impressions=rows)
    sampled = at_one_look((folder / "experiment.toml").absolute()).replace(assignment=None)
    loaded, frames = of_tables(sampled), files_of(folder)
    uri = load(frames)
    chosen = [
        m
        for m in loaded.experiment.model_dump(exclude_unset=True)["metrics"]
        if m["name"] in ADDITIVE
    ]
    additive = loaded.replace(metrics=chosen)
    assert same_sums(additive, uri, dict(frames)) == 2256
    same_result(additive, uri, dict(frames))
    # What sums cannot give is refused by name, with the reason.
    result = loaded.analyze(connect=uri)
    assert "One statement has no sums of gauc: it is more than sums of rows." in result.notes
    assert {row.metric for row in result.scorecard if row.reason is None} == {*ADDITIVE}


def test_a_session_of_postgresql_only_reads(postgresql: Load) -> None:
    """A view may call what writes: nothing is written, no sequence goes on."""
    from adbc_driver_postgresql import dbapi

    uri = postgresql({"rows": pa.table({"a": [1, 2]})})
    with dbapi.connect(uri) as own, own.cursor() as cursor:
        cursor.execute("create sequence places")
        cursor.execute("create view counted as select nextval('places')::text as place")
        own.commit()
    for sql in ("select place from counted", "insert into rows values (3) returning a::text"):
        warehouse = connect(uri)
        with closing(warehouse), pytest.raises(QueryError, match="read-only transaction"):
            warehouse.ask(sql)
    with dbapi.connect(uri) as own, own.cursor() as cursor:
        cursor.execute("select last_value, is_called from places")
        assert cursor.fetchall() == [(1, False)]


@pytest.mark.slow
def test_ten_runs_leave_a_database_of_postgresql_as_it_was(
    postgresql: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = postgresql({"shown": LOGS["shown"]})
    with closing(dbapi_of(uri)) as connection, connection.cursor() as cursor:
        cursor.execute("drop schema if exists kept cascade")
        for sql in (
            "create schema kept",
            "create table kept.people (id serial primary key, name text)",
            "insert into kept.people (name) values ('a'), ('b')",
            "create view kept.drawn as select *, nextval('kept.people_id_seq') as place from shown",
        ):
            cursor.execute(sql)
        connection.commit()

    def facts_of() -> list[object]:
        """Sequences, relations with the numbers of their files, and rows."""
        asked = (
            "select * from kept.people_id_seq",
            "select oid::int8, relname::text, relfilenode::int8, relnatts from pg_class order by 1",
            "select md5(string_agg(s::text, '' order by s::text)), count(*) from shown s",
            "select md5(string_agg(s::text, '' order by s::text)), count(*) from kept.people s",
        )
        with closing(dbapi_of(uri)) as connection, connection.cursor() as cursor:
            facts: list[object] = []
            for sql in asked:
                cursor.execute(sql)
                facts += cursor.fetchall()
        return facts

    text = (
        'name = "x"\nunit = "who"\ncontrol = "a"\nvariants.a = {}\nvariants.b = {{}}\n'
        '[logs.impressions]\ntable = "{}"\ncolumns = {{variant = "arm", click = "clicked"}}\n'
        '[[metrics]]\nname = "{}"\nvalue = "{}"\n'
    ).replace("a = {}", "a = {{}}")
    runs = [("shown", "price"), ("kept.drawn", "place"), ("kept.none", "price")]
    before, codes = facts_of(), []
    for number in range(10):
        table, column = runs[number % 3]
        (tmp_path / "x.toml").write_text(text.format(table, column, column))
        monkeypatch.setattr(
            sys, "argv", ["abeval", "analyze", str(tmp_path / "x.toml"), "--connect", uri]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        codes.append(ended.value.code)
        assert facts_of() == before
    assert codes == [0, 2, 2] * 3 + [0]


TYPED = {
    "postgresql": """
        create schema own; create type kind as enum ('new', 'old');
        create table own.log as select
          (n % 400)::numeric(20, 0) as who,
          (case when n % 2 = 0 then 'a' else 'b' end)::char(3) as arm,
          '2026-10-25 00:30+02'::timestamptz + n * interval '7 minutes' as at,
          n % 5 = 0 as clicked, (n % 7)::numeric(9, 2) / 4 as price,
          (case when n % 3 = 0 then 'new' else 'old' end)::kind as kind, n % 11 = 0 as paid,
          '{}'::json as nothing
        from generate_series(1, 2000) n
    """,
    "clickhouse": """
        create database own;
        create table own.log engine = Log as select
          toUInt64(n % 400) as who, toLowCardinality(if(n % 2 = 0, 'a', 'b')) as arm,
          toDateTime('2026-10-24 22:30:00', 'Asia/Tokyo') + n * 420 + 9 * 3600 as at,
          n % 5 = 0 as clicked, toDecimal64(n % 7, 2) / 4 as price,
          cast(if(n % 3 = 0, 'new', 'old') as Enum8('new' = 1, 'old' = 2)) as kind,
          cast(n % 11 = 0 as Bool) as paid, [1] as nothing
        from (select number + 1 as n from numbers(2000))
    """,
}


def test_types_that_files_do_not_have(load: Load) -> None:
    """Numbers of any size, enums, padded text, booleans, and times in the zone of the session."""
    uri = load({})
    name = "postgresql" if uri.startswith("postgresql") else "clickhouse"
    if name == "postgresql":
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            for sql in TYPED[name].split(";"):
                cursor.execute(sql)
            connection.commit()
    else:
        with session_of(uri) as own:
            for sql in TYPED[name].split(";"):
                own.query(sql)
    numbers = np.arange(1, 2001)
    at = datetime(2026, 10, 24, 22, 30)
    log = pa.table(
        {
            "who": numbers % 400,
            "arm": np.where(numbers % 2 == 0, "a", "b"),
            "at": [at + timedelta(minutes=7 * int(n)) for n in numbers],
            "clicked": numbers % 5 == 0,
            "price": numbers % 7 / 4,
            "kind": np.where(numbers % 3 == 0, "new", "old"),
            "paid": numbers % 11 == 0,
        }
    )
    loaded = abeval.define(
        name="typed",
        unit="who",
        control="a",
        variants={"a": {}, "b": {}},
        timezone="Europe/Berlin",
        period={"start": "2026-10-25", "end": "2026-11-02"},
        logs={
            "impressions": {
                "table": "own.log",
                "columns": {"variant": "arm", "ts": "at", "click": "clicked"},
            }
        },
        metrics=[
            {"name": "ctr"},
            {"name": "price", "value": "price"},
            {"name": "paid", "value": "paid"},
            {"name": "new", "value": "case when kind = 'new' then price end"},
        ],
        trust={"aa_runs": 0},
        cleaning={"duplicates": "unchecked"},
    )
    assert same_sums(loaded, uri, {"impressions": log}) > 60


SLOW = {
    "postgres": "select pg_sleep(60)",
    "clickhouse": "select sum(cityHash64(a.number, b.number)) from numbers(1000000) a "
    "cross join numbers(1000000) b settings join_use_nulls = 1",
}


def test_a_query_that_does_not_end_is_ended_by_the_warehouse(load: Load) -> None:
    uri, begun = load({"shown": LOGS["shown"]}), monotonic()
    with closing(connect(uri)) as warehouse:
        with pytest.raises(QueryError, match=r"within the time limit of 0\.5 s"), limit_time(0.5):
            warehouse.ask(SLOW[warehouse.dialect])
        assert monotonic() - begun < 20
    with limit_time(60), closing(connect(uri)) as warehouse:
        assert [*map(str, warehouse.ask("select 7")[0])] == ["7"]


def test_the_command_line_limits_a_warehouse(
    postgresql: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = postgresql({"shown": LOGS["shown"]})
    with closing(dbapi_of(uri)) as connection, connection.cursor() as cursor:
        cursor.execute("drop view if exists slow")
        slow = "case when pg_sleep(0.1) is null then 0 else 1 end"
        cursor.execute(f"create view slow as select *, {slow} as waited from shown")
        connection.commit()
    text = (
        'name = "x"\nunit = "who"\ncontrol = "a"\nvariants.a = {}\nvariants.b = {}\n'
        '[logs.impressions]\ntable = "slow"\ncolumns = {variant = "arm", click = "clicked"}\n'
        '[[metrics]]\nname = "waited"\nvalue = "waited"\n'
    )
    (tmp_path / "x.toml").write_text(text)
    arguments = ["analyze", str(tmp_path / "x.toml"), "--connect", uri, "--time-limit", "1"]
    monkeypatch.setattr(sys, "argv", ["abeval", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "it was not done within the time limit of 1 s" in said
    with closing(dbapi_of(uri)) as connection, connection.cursor() as cursor:
        active = "from pg_stat_activity where state = 'active' and query like '%waited%'"
        cursor.execute(f"select count(*) {active} and pid <> pg_backend_pid()")
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_server_that_says_nothing_is_not_waited_for(scheme: str) -> None:
    if scheme == "postgresql":
        pytest.importorskip("adbc_driver_postgresql", reason="no adbc-driver-postgresql")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port, begun = silent.getsockname()[1], monotonic()
        with pytest.raises(QueryError, match=r"within the time limit of 0\.5 s"), limit_time(0.5):
            connect(f"{scheme}://ann@127.0.0.1:{port}/db")
        assert monotonic() - begun < 20


@pytest.mark.whole
def test_a_clickhouse_server_answers_by_http(clickhouse: Load) -> None:
    """A small server stands for it: what it gets is what ClickHouse's HTTP interface takes."""
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    uri, asked, paths = clickhouse({"shown": LOGS["shown"]}), [], []
    by_chdb = abeval.define({**BASE, "metrics": [{"name": "ctr"}]}).analyze(connect=uri)

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
            paths.append(self.path)
            asked.append((self.headers["X-ClickHouse-User"], self.headers["X-ClickHouse-Key"]))
            try:
                status, text = 200, str(own.query(sql))
            except RuntimeError as error:
                status, text = 500, str(error)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Server)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://ann:p%40ss@127.0.0.1:{server.server_port}"
    loaded = abeval.define({**BASE, "metrics": [{"name": "ctr"}]})
    with session_of(uri) as own:
        result = loaded.analyze(connect=address)
        assert {*paths} == {"/"}
        with limit_time(60):
            connect(address).ask("select 1")
        assert paths[-1] in ("/?max_execution_time=60.4", "/?max_execution_time=60.5")
        with pytest.raises(QueryError, match="no table 'shown2'"):
            abeval.define({**BASE, "logs": {"impressions": {**SHOWN, "table": "shown2"}}}).analyze(
                connect=address
            )
        with pytest.raises(QueryError, match=r"ClickHouse could not run a query: .*nothing"):
            connect(address).ask("select nothing")
        server.shutdown()
        server.server_close()
    assert result["ctr"].p_value == by_chdb["ctr"].p_value
    assert {*asked} == {("ann", "p@ss")}
    with pytest.raises(QueryError, match="ClickHouse does not answer"):
        connect(address).ask("select 1")


def test_a_number_that_does_not_fit_is_an_error(load: Load) -> None:
    uri = load({"shown": LOGS["shown"]})
    large = [{"name": "large", "value": "price * 1e15", "resolution": 1e-6}]
    with pytest.raises(QueryError, match="could not run a query"):
        abeval.define({**BASE, "metrics": large}).analyze(connect=uri)


FILES = {"impressions": {"path": "sample_logs/impressions/*.parquet", "columns": {"ts": "time"}}}
SAMPLE: dict[str, Any] = {
    **BASE,
    "unit": "user_id",
    "logs": FILES,
    "metrics": [{"name": "impressions_per_user"}],
}


@pytest.mark.slow
@pytest.mark.whole
def test_the_first_line_says_whether_tests_run_a_dialect() -> None:
    experiment = abeval.define(SAMPLE).experiment
    with pytest.raises(QueryError, match="dialect that is called 'trino'"):
        write_sums_statement(experiment, Warehouse("trino"))
    for dialect, end in {
        **dict.fromkeys(("duckdb", "postgres", "clickhouse"), ""),
        "spark": "; with spark.sql.session.timeZone = UTC",
    }.items():
        first, *_ = write_sums_statement(experiment, Warehouse(dialect)).text.splitlines()
        what = f"sums by metric, variant and day of {experiment.name!r}"
        assert first == f"-- {what}{end}; abeval's tests run it"
    for name in ("BigQuery", "Snowflake", "Databricks"):
        first, *_ = write_sums_statement(experiment, Warehouse(name.lower())).text.splitlines()
        assert first.startswith(f"-- untested on {name}: abeval's tests run it on ")


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            {"logs": {"impressions": SHOWN}},
            "columns of table 'shown' are not known here.*--connect",
        ),
        (
            {"logs": {"impressions": {**FILES["impressions"], "where": "upper(device) = 'TV'"}}},
            "UPPER",
        ),
        (
            {"logs": {"impressions": {**FILES["impressions"], "query": "from log"}}},
            "impressions.query",
        ),
        ({"cleaning": {"duplicate_key": ["user_id"]}}, "cleaning.duplicate_key"),
        (
            {"metrics": [{"name": "impressions_per_user", "cap": 0.9}]},
            "cap of impressions_per_user",
        ),
        ({"inference": {"resample": "bootstrap"}}, "inference.resample"),
        ({"metrics": [{"name": "gauc"}]}, "none of the metrics: gauc: it is more than sums"),
        ({"metrics": [{"name": "late", "value": "hour(ts)"}]}, "none of the metrics: late: .*ts"),
        ({"metrics": [{"name": "n", "value": "length(device)"}]}, r"n: .*`LENGTH\(device\)`"),
    ],
)
def test_what_one_statement_cannot_do_is_refused_by_name(
    entries: dict[str, Any], said: str
) -> None:
    with pytest.raises((ExperimentError, LogError), match=f"(?s){said}"):
        write_sums_statement(abeval.define({**SAMPLE, **entries}).experiment, Warehouse("postgres"))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("mysql://ann:secret@host/db", "no warehouse that abeval knows"),
        ("postgresql://ann:secret@127.0.0.1:1/db", "PostgreSQL could not"),
    ],
)
def test_a_warehouse_that_is_none_is_one_message(uri: str, said: str) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    with pytest.raises((ExperimentError, QueryError), match=said) as raised:
        abeval.define(SAMPLE).analyze(connect=uri)
    assert "secret" not in str(raised.value)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, uri, extra in (
        ("adbc_driver_postgresql", "postgresql:///x", "postgresql"),
        ("chdb", "chdb:", "clickhouse"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ExperimentError, match=rf'pip install "abeval-logs\[{extra}\]"'):
            connect(uri)


def test_the_command_prints_a_statement_whose_rows_it_judges(
    clickhouse: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = clickhouse({"shown": LOGS["shown"]})
    file = tmp_path / "experiment.toml"
    file.write_text(
        """
        name = "odd"
        unit = "who"
        control = "a"
        variants = { a = {}, b = { of = ["b", "b2"] } }
        period = { start = 2026-10-26, end = 2026-11-03 }
        [logs.impressions]
        table = "shown"
        columns = { variant = "arm", ts = "at", click = "clicked" }
        [[metrics]]
        name = "ctr"
        """
    )

    def said(*arguments: object) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["abeval", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        return out, err

    printed, _ = said("tools", "sql", "--sums", file, "--connect", uri)
    with session_of(uri) as own:
        (tmp_path / "sums.csv").write_text(str(own.query(f"{printed} format CSVWithNames")))
    by_file, _ = said("analyze", file, "--sums", tmp_path / "sums.csv")
    by_uri, counted = said("analyze", file, "--connect", uri)
    assert "rows of sums" in counted
    assert "bytes, left the warehouse" in counted
    assert by_file.partition("Notes")[0] == by_uri.partition("Notes")[0]
