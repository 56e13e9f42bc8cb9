"""Times with a zone, and every type of DuckDB, on an install of the declared dependencies alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from tests.declared import ROOT, declared
from tests.logs.small import PERIOD, small_log

RUN = """
import json, sys
from tests.declared import block_others
block_others()
from pathlib import Path
import abeval
answers = []
for entries in json.loads(Path(sys.argv[1]).read_text()):
    try:
        result = abeval.define(Path(sys.argv[1]).parent, **entries).analyze()
        row = result["ctr"]
        account = result.accounting[0]
        answers.append([row.control, row.treatment, account.read, dict(account.set_aside)])
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
print(json.dumps(answers))
"""

TYPES = "select distinct type_name from duckdb_types()"


def log_files(folder: Path) -> dict[str, dict[str, str]]:
    """The same rows under `plain`, and with each way to write a time with a zone."""
    log = small_log()
    log.to_csv(folder / "plain.csv", index=False)
    sources = {"plain": {"path": "plain.csv"}}
    for suffix, minutes in {"Z": 0, "+05:30": 330}.items():
        local = log["ts"] + pd.Timedelta(minutes=minutes)
        written = log.assign(ts=local.dt.strftime("%Y-%m-%dT%H:%M:%S") + suffix)
        written.to_csv(folder / f"{minutes}.csv", index=False)
        written.to_json(folder / f"{minutes}.jsonl", orient="records", lines=True)
        sources[f"CSV {suffix}"] = {"path": f"{minutes}.csv"}
        sources[f"JSON {suffix}"] = {"path": f"{minutes}.jsonl"}
    with duckdb.connect(folder / "zoned.duckdb") as con:
        con.execute("set timezone = 'America/New_York'")
        known = {str(name).upper() for (name,) in con.execute(TYPES).fetchall()}
        for kind in {"TIMESTAMPTZ", "TIMESTAMPTZ_NS"} & known:
            con.execute(
                f"create table {kind} as "
                f"select * replace (cast(timezone('UTC', ts) as {kind}) as ts) from log"
            )
            con.execute(f"copy {kind} to '{folder / kind}.parquet' (format parquet)")
            sources[f"Parquet {kind}"] = {"path": f"{kind}.parquet"}
            sources[f"table {kind}"] = {"table": kind, "path": "zoned.duckdb"}
    return sources


def every_type(folder: Path, copies: int) -> dict[str, dict[str, str]]:
    """The same rows with a column of each type of DuckDB, and each row several times."""
    with duckdb.connect(folder / f"types_{copies}.duckdb") as con:
        con.execute(
            f"create table log as select l.*, t.*, "
            f"from (select *, row_number() over () % 3 as n "
            f"from read_csv('{folder / 'plain.csv'}')) l "
            f"join (select *, row_number() over () % 3 as m from test_all_types()) t on n = m "
            f"cross join range({copies})"
        )
        # Parquet has no struct without fields.
        con.execute(
            f"copy (select * exclude empty_struct from log) "
            f"to '{folder / f'types_{copies}.parquet'}' (format parquet)"
        )
    return {
        f"Parquet of all types, {copies} times": {"path": f"types_{copies}.parquet"},
        f"table of all types, {copies} times": {
            "table": "log",
            "path": f"types_{copies}.duckdb",
        },
    }


def outcomes(folder: Path, sources: Mapping[str, object]) -> dict[str, object]:
    """CTR of both variants and the account of the rows, of each log, without other packages."""
    base = {
        "name": "t",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "timezone": "Asia/Kolkata",
        "period": PERIOD,
        "metrics": [{"name": "ctr"}, {"name": "active_days_per_user"}],
        "trust": {"aa_runs": 0},
        "engine": {"threads": 1},
    }
    entries = [{**base, "logs": {"impressions": source}} for source in sources.values()]
    (folder / "runs.json").write_text(json.dumps(entries))
    run = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-c", RUN, str(folder / "runs.json")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return dict(zip(sources, json.loads(run.stdout), strict=True))


def test_pytz_is_not_declared() -> None:
    """With pandas 2, which depends on it, the test below shows less."""
    assert ("pytz" in declared()) == (int(pd.__version__.partition(".")[0]) < 3)


@pytest.mark.whole
def test_zones_and_every_type_are_read_on_a_fresh_install(tmp_path: Path) -> None:
    """Also where rows repeat, and are compared in all their columns."""
    sources = {**log_files(tmp_path), **every_type(tmp_path, 1), **every_type(tmp_path, 2)}
    found = outcomes(tmp_path, sources)
    plain = found["plain"]
    assert isinstance(plain, list), plain
    control, treatment, rows, set_aside = plain
    assert rows == len(small_log())
    twice = [control, treatment, 2 * rows, {**set_aside, "duplicate": rows}]
    expected = {name: twice if name.endswith("2 times") else plain for name in sources}
    assert found == expected
