"""abeval against the scan of the same columns, and against others, from the same Parquet files.

    python benchmarks/analysis.py DIR [--impressions 20000000] [--runs 5] [--without pandas]

Makes a log with one row an impression (the click and its dwell on it) in DIR where there is none.
Every side is a whole process, start and imports included, and sides take turns. `additive` is CTR,
dwell per user and clicks per user with daily effects, a segment, CUPED, SRM and the JSON written;
`everything` adds sessions, GAUC, AUC, quantiles, list metrics, diversity, coverage, Gini and
entropy, and 10,000 A/A replays of every metric that has them. Peak memory is the largest resident
set of the process. polars, pandas and tea-tasting (`pip install polars tea-tasting
"ibis-framework[duckdb]"`) compute the additive part; tea-tasting has no days and no segments.
"""

import argparse
import multiprocessing
import sys
import tempfile
from pathlib import Path

import duckdb
from process import in_turns, medians, run

HERE = Path(__file__).parent
ABEVAL = [sys.executable, "-m", "abeval"]
FLOORS = {"additive": "floor_additive", "everything": "floor_everything"}
OTHERS = ("polars", "tea_tasting", "pandas")

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


def make(directory: Path, impressions: int) -> None:
    """Simulate, and put each impression's click and dwell on its row."""
    with tempfile.TemporaryDirectory(dir=directory.parent) as made:
        run([*ABEVAL, "tools", "simulate", f"{made}/log", "--impressions", str(impressions)])
        (directory / "impressions").mkdir(parents=True)
        connection = duckdb.connect()
        connection.execute(
            "create table clicked as select impression_id, min(dwell_ms) as dwell_ms, 1 as click "
            f"from '{made}/log/clicks.parquet' group by impression_id"
        )
        for part in sorted(Path(made, "log", "impressions").glob("*.parquet")):
            connection.execute(
                "copy (select i.*, coalesce(c.click, 0) as click, c.dwell_ms "
                f"from '{part}' i left join clicked c using (impression_id) "
                f"order by time, impression_id) to '{directory}/impressions/{part.name}'"
            )
        Path(made, "log", "items.parquet").rename(directory / "items.parquet")


def write_experiments(directory: Path) -> None:
    """One experiment file for each of the two analyses."""
    for name, metrics in METRICS.items():
        listed = "\n".join(f'[[metrics]]\nname = "{metric}"' for metric in metrics)
        (directory / f"{name}.toml").write_text(f"{HEAD}{EXTRA[name]}{listed}\n")


def commands(directory: Path, without: list[str]) -> dict[str, list[str]]:
    """Name of each side and its command."""
    sides = {
        floor: [sys.executable, str(HERE / "sides.py"), floor, str(directory)]
        for floor in FLOORS.values()
    }
    for name in METRICS:
        output = ["--profile", "--json", str(directory / f"{name}.json")]
        sides[name] = [*ABEVAL, "analyze", str(directory / f"{name}.toml"), *output]
    for name in OTHERS:
        if name not in without:
            sides[name] = [sys.executable, str(HERE / "sides.py"), name, str(directory)]
    return sides


def main() -> None:
    """Run every side in turns, print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--impressions", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--without", nargs="*", default=[], choices=OTHERS)
    given = parser.parse_args()
    directory = given.directory.resolve()
    if not (directory / "impressions").exists():
        # In a process of its own: a child's peak memory starts from what its parent holds.
        maker = multiprocessing.Process(target=make, args=(directory, given.impressions))
        maker.start()
        maker.join()
    write_experiments(directory)
    costs = in_turns(commands(directory, given.without), given.runs)
    seconds = medians(costs)
    for name, found in costs.items():
        peak = max(c.megabytes for c in found)
        floor = seconds[FLOORS["everything" if "everything" in name else "additive"]]
        beside = f"{seconds[name] / seconds['additive']:6.2f} x additive" if name in OTHERS else ""
        cost = f"{name:18s}{seconds[name]:8.2f} s{peak:8.0f} MB"
        print(f"{cost}{seconds[name] / floor:7.1f} x floor {beside}")
    for name in METRICS:
        print(name, costs[name][-1].errors, sep="\n")


if __name__ == "__main__":
    main()
