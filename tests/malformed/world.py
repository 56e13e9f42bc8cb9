"""Write good files of every kind, small: what an input is put beside or in the place of."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.malformed import data

LOG = """
select
  i as impression_id, i // 5 as request_id, 'u' || (i // 5) as user_id, i % 37 as item_id,
  timestamp '2024-01-01' + interval (i * 600) second as ts,
  case when (i // 5) % 2 = 0 then 'a' else 'b' end as variant,
  cast(i % 5 + 1 as int) as position, cast(hash(i) % 7 = 0 as int) as click,
  (hash(i) % 50) * 1.0 as dwell, cast(hash(i * 7) % 1000 as double) / 1000 as score,
  cast(hash(i * 3) % 1000 as double) / 1000 as price, 0.2 as propensity
from range(400) t(i)
"""
"""Impressions."""

TABLE = """
select
  1000 + i as user_id, if(i % 2 = 0, 'a', 'b') as variant, cast(hash(i) % 3 as int) as click,
  cast(hash(i) % 5 + 3 as int) as views, cast(hash(i * 3) % 1000 as double) / 10 as price,
  timestamp '2024-01-01' + interval (i) hour as ts, if(hash(i + 7) % 2 = 0, 'de', 'fr') as country
from range(120) t(i)
"""
"""One row a user."""


def write_world(root: Path) -> None:
    """Write the files, and results of some commands on them."""
    import duckdb

    from abeval.cli.main import main

    (root / "out").mkdir(parents=True)
    os.chdir(root)
    with duckdb.connect() as con:
        con.execute(f"copy ({LOG}) to 'log.parquet'")
        for name in ("t.parquet", "t.csv", "t.json"):
            con.execute(f"copy ({TABLE}) to '{name}'")
    with duckdb.connect("t.duckdb") as con:
        con.execute(f"create table t as {TABLE}")
    for name, text in data.table("world.toml").items():
        Path(name).write_text(text, encoding="utf-8")
    for line in (
        "analyze e.toml --json r.json --report study.json",
        "replay e.toml --json replay.json",
        "history add r.json replay.json --history h.parquet",
    ):
        sys.argv = ["abeval", *line.split()]
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                raise RuntimeError(line) from None
    for name in ("o.json", "o.csv"):
        Path("out", name).write_text('{"old": "whole"}')
