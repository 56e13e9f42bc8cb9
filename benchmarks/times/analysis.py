"""Analyses of a log of one row an impression, beside the scan of the columns that they read.

`additive` is CTR, dwell per user and clicks per user with daily effects, a segment, CUPED, SRM and
the JSON written; `everything` adds sessions, GAUC, AUC, quantiles, list metrics, diversity,
coverage, Gini and entropy, and 10,000 A/A replays of every metric that has them.
"""

import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.timing import ABEVAL, run_command

SIZE = 20_000_000
COLUMNS = {
    "additive": ("user_id", "time", "variant", "device", "click", "dwell_ms"),
    "everything": ("request_id", "item_id", "position", "score_baseline", "score_candidate"),
}
FLOOR = """
import duckdb
print(duckdb.sql("select {columns} from read_parquet('impressions/*.parquet')").fetchall()[0][:1])
"""
HEAD = """
name = "benchmark"
unit = "user_id"
control = "control"
[period]
start = 2026-09-14
end = 2026-09-28
[pre_period]
start = 2026-09-07
end = 2026-09-14
[variants.control]
model = "baseline"
[variants.treatment]
model = "candidate"
[models.baseline]
score = "score_baseline"
[models.candidate]
score = "score_candidate"
[logs.impressions]
path = "impressions/*.parquet"
columns = { ts = "time", dwell = "dwell_ms" }
dwell_unit = "ms"
[cleaning]
duplicates = "unchecked"
[segments]
device = "device"
[inference]
adjust = "cuped"
"""

METRICS = {
    "additive": ["ctr", "dwell_per_user", "clicks_per_user"],
    "everything": [
        *("ctr", "dwell_per_user", "clicks_per_user", "impressions_per_user"),
        *("page_views_per_user", "active_days_per_user", "dwell_per_click", "dwell_per_impression"),
        *("long_click_rate", "sessions_per_user", "session_length", "gauc", "auc", "q_ctr"),
        *("dwell_p50", "dwell_p90", "ndcg", "mrr", "map", "category_diversity"),
        *("coverage", "gini", "entropy"),
    ],
}
EXTRA = {
    "additive": "[trust]\naa_runs = 0\n",
    "everything": '[trust]\naa_runs = 10000\n[logs.items]\npath = "items.parquet"\n',
}


def write_log(folder: Path, size: int) -> None:
    """Simulate so many impressions, and put each one's click and dwell on its row."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        simulate = [*ABEVAL, "tools", "simulate", f"{made}/log"]
        run_command([*simulate, "--impressions", str(size)], folder)
        (folder / "impressions").mkdir()
        connection = duckdb.connect()
        connection.execute(
            "create table clicked as select impression_id, min(dwell_ms) as dwell_ms, 1 as click "
            f"from '{made}/log/clicks.parquet' group by impression_id"
        )
        for part in sorted(Path(made, "log", "impressions").glob("*.parquet")):
            connection.execute(
                "copy (select i.*, coalesce(c.click, 0) as click, c.dwell_ms "
                f"from '{part}' i left join clicked c using (impression_id) "
                f"order by time, impression_id) to '{folder}/impressions/{part.name}'"
            )
        Path(made, "log", "items.parquet").rename(folder / "items.parquet")


def list_commands(folder: Path) -> dict[str, list[str]]:
    """List both analyses, whose files are written, and the floor of each."""
    sides: dict[str, list[str]] = {}
    columns: tuple[str, ...] = ()
    for name, metrics in METRICS.items():
        listed = "\n".join(f'[[metrics]]\nname = "{metric}"' for metric in metrics)
        (folder / f"{name}.toml").write_text(f"{HEAD}{EXTRA[name]}{listed}\n")
        columns = (*columns, *COLUMNS[name])
        scan = FLOOR.format(columns=", ".join(f"max({column})" for column in columns))
        sides[f"floor of {name}"] = [sys.executable, "-c", scan]
        sides[name] = [*ABEVAL, "analyze", f"{name}.toml", "--json", f"{name}.json"]
    return sides
