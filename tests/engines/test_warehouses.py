"""Sums in PostgreSQL and ClickHouse are those of the analysis of the log, to the last digit."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import abeval
from abeval.aggregates.collect import collect
from abeval.aggregates.sums import DAY, MOMENT_COLUMNS, WHOLE
from abeval.api import LoadedExperiment
from abeval.cli.main import main
from abeval.engines.warehouse import connect
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.metrics import named_metrics
from abeval.logs.run import opened
from abeval.table.sums import of_experiment, summaries
from abeval.table.warehouse import sums_statement

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
    folder = Path(tempfile.mkdtemp(prefix="abeval-pg-", dir="/tmp"))  # noqa: S108
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
                cursor.execute(f"drop table if exists {name}")
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
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")
            own.query(f"drop table if exists {name}")
            own.query(
                f"create table {name} engine = MergeTree order by tuple() as "
                f"select * from file('{folder}/{name}.parquet', Parquet)"
            )
        own.close()
        return f"chdb:{folder}/data"

    return load


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
    people = {
        "who": [*users, "u3", "u3", None],
        "arm": [["a", "b", "b2"][n % 3] for n in range(len(users))] + ["a", "b", "a"],
        "spent": [float(x) for x in np.round(rng.exponential(30, len(users) + 3), 3)],
        "before": [float(x) for x in np.round(rng.exponential(30, len(users) + 3), 3)],
        "orders": rng.integers(0, 4, len(users) + 3).tolist(),
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
        {"name": "spent"},
        {"name": "order", "numerator": "spent", "denominator": "orders"},
    ],
}
CUPED = {"inference": {"adjust": "cuped"}}

WORLDS: dict[str, dict[str, Any]] = {
    "first": {},
    "cuped": CUPED,
    "excluded, by day in Berlin": {
        "cleaning": {"crossover": "exclude"},
        "timezone": "Europe/Berlin",
    },
    "uneven, with duplicates": {
        "variants": {"a": {"weight": 0.9}, "b": {"weight": 0.1, "of": ["b", "b2"]}},
        "cleaning": {"duplicates": "keep"},
    },
    "filtered": {
        "logs": {"impressions": {**SHOWN, "where": "Device <> 'tv' and price is not null"}}
    },
    "clicks by id": {"logs": {"impressions": UNCLICKED, "clicks": BY_ID}, "metrics": DWELT},
    "clicks by unit": {"logs": {"impressions": UNCLICKED, "clicks": BY_UNIT}, "metrics": DWELT},
    "exposed": {
        "logs": {
            "impressions": SHOWN,
            "exposures": {"table": "exposures", "columns": {"variant": "arm", "ts": "at"}},
        },
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
    "people before": {**PEOPLE, **CUPED},
}


def moments_of(loaded: LoadedExperiment, frames: dict[str, object]) -> dict[tuple[str, ...], Any]:
    """What the analysis of the log sums."""
    with opened(loaded.experiment, {"logs": frames}) as run:
        rows = collect(run, named_metrics(loaded.experiment)).moments
    return {tuple(map(str, row[:4])): row for row in rows if row[1] in (WHOLE, DAY)}


def same_sums(loaded: LoadedExperiment, uri: str, frames: dict[str, object]) -> int:
    """How many numbers of a warehouse are those of the log; each has to be."""
    warehouse = connect(uri)
    try:
        made = sums_statement(loaded.experiment, warehouse.dialect, warehouse.types)
        rows = warehouse.ask(made.text)
    finally:
        warehouse.close()
    assert not made.refused
    experiment = loaded.experiment
    _, aggregates = of_experiment(
        experiment, named_metrics(experiment), summaries(made.columns, rows, "it"), "it"
    )
    of_log, adjusts = moments_of(loaded, frames), experiment.inference.adjust != "none"
    numbers = 0
    for row in aggregates.moments:
        known = of_log.pop(tuple(map(str, row[:4])))
        for name, one, other in zip(MOMENT_COLUMNS[5:], row[5:], known[5:], strict=True):
            is_past = {"y0", "x0", "z"} & {*name.split("_")}
            if (is_past and not adjusts) or (one is None and row[1] == DAY):
                continue
            # Of a mean, the denominator before is 1 in the log's sums, and nothing reads it.
            if (
                is_past
                and "x0" in name
                and ("x0" not in made.columns and "sum_d" not in made.columns)
            ):
                continue
            assert str(one) == str(other), (row[:4], name)
            numbers += 1
    assert not [key for key in of_log if key[1] in (WHOLE, DAY)]
    return numbers


@pytest.mark.parametrize("world", WORLDS)
def test_sums_of_a_warehouse_are_those_of_the_log(world: str, load: Load) -> None:
    loaded = abeval.define({**BASE, **WORLDS[world]})
    names = {"impressions": "shown", "units": "people"}
    frames: dict[str, object] = {
        name: LOGS[names.get(name, name)] for name in loaded.experiment.logs.named
    }
    assert same_sums(loaded, load(LOGS), frames) > 30
