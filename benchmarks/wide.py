"""A wide CSV of one row a unit: the whole process of abeval beside tea-tasting's.

    python benchmarks/wide.py DIR --peer PYTHON [--rows 5000000] [--rounds 5]

Makes the table in DIR where there is none: a unit, a variant, seven columns of outcomes and of
values before, and twelve that nobody asks for. PYTHON is an interpreter with tea-tasting, pandas,
Polars and Ibis (`ibis-framework[duckdb]`). All compute three means, one of them adjusted by CUPED,
a share and a ratio, of the same file; abeval also looks at the columns, counts repeated units,
checks the split, replays A/A tests and decides. Every command is a process of its own, in turns.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import duckdb
from process import in_turns, medians

MEANS = ("orders", "revenue", "minutes")
UNUSED = 12

PEER = """
import sys
import tea_tasting as tt
{read}
experiment = tt.Experiment(
    orders=tt.Mean("orders"), revenue=tt.Mean("revenue"),
    minutes=tt.Mean("minutes", covariate="minutes_before"),
    converted=tt.Mean("converted"), ctr=tt.RatioOfMeans("clicks", "views"),
)
result = experiment.analyze(data, control="a")
for name, one in result.items():
    print(name, one.pvalue)
"""
READERS = {
    "tea-tasting, Polars": "import polars\ndata = polars.read_csv(sys.argv[1])",
    "tea-tasting, pandas": "import pandas\ndata = pandas.read_csv(sys.argv[1], engine='pyarrow')",
    "tea-tasting, DuckDB": "import ibis\ndata = ibis.duckdb.connect().read_csv(sys.argv[1])",
}


def table(file: Path, rows: int) -> None:
    """Write the table; values are decimals as exports have them."""
    unused = ", ".join(f"round(1000 * random(), 3) as other_{i}" for i in range(UNUSED))
    duckdb.sql(
        f"""
        copy (
          select
            i + 100000000 as unit, case when random() < 0.5 then 'a' else 'b' end as variant,
            cast(floor(-2 * ln(1 - random())) as integer) as orders,
            round(-20 * ln(1 - random()), 2) as revenue,
            round(before + 10 * random(), 3) as minutes, round(before, 3) as minutes_before,
            cast(random() < 0.1 as integer) as converted,
            cast(floor(5 * random()) as integer) as clicks,
            cast(5 + floor(20 * random()) as integer) as views, {unused}
          from (select i, 60 * random() as before from range({rows}) t (i))
        ) to '{file}' (header)
        """
    )


def commands(file: Path, peer: str) -> dict[str, list[str]]:
    """The command of abeval, and of the peer by each reader."""
    metrics = [*MEANS, "converted", "ctr=clicks/views"]
    flags = [flag for metric in metrics for flag in ("--metric", metric)]
    own = [sys.executable, "-m", "abeval", "analyze", str(file), "--unit", "unit"]
    own += ["--variant", "variant", *flags, "--covariate", "minutes_before"]
    peers = {
        name: [peer, "-c", PEER.format(read=read), str(file)] for name, read in READERS.items()
    }
    return {"abeval": [*own, "--json", str(file.with_suffix(".json"))], **peers}


def check_equal(file: Path, printed: str) -> str:
    """The largest difference of p-values; of means without CUPED and of the ratio."""
    result = json.loads(file.with_suffix(".json").read_text())
    own = {row["metric"]: row for row in result["scorecard"]}
    plain = {one["metric"]: one["p_value"] for one in result["adjustments"]}
    theirs = dict(re.findall(r"(\w+) (\S+)", printed))
    gaps = {
        name: abs(plain.get(name, own[name]["p_value"]) - float(theirs[name]))
        for name in ("orders", "revenue", "converted", "ctr")
    }
    gaps["minutes"] = abs(own["minutes"]["p_value"] - float(theirs["minutes"]))
    return ", ".join(f"{name} {gap:.1e}" for name, gap in gaps.items())


def main() -> None:
    """Time them in turns, and print medians."""
    parser = argparse.ArgumentParser(prog="python benchmarks/wide.py")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--peer", required=True, help="a Python with tea-tasting")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    file = options.directory / f"wide_{options.rows}.csv"
    if not file.exists():
        table(file, options.rows)
    print(f"{options.rows:,} rows, {file.stat().st_size / 1e6:,.0f} MB")
    costs = in_turns(commands(file, options.peer), options.rounds)
    for name, seconds in medians(costs).items():
        cores = sorted(c.cores for c in costs[name])[len(costs[name]) // 2]
        most = max(c.megabytes for c in costs[name])
        print(f"{name:22} {seconds:6.2f} s, {cores:6.2f} s of processors, {most:,.0f} MB")
    for name in READERS:
        print(f"p-values of {name} less ours: {check_equal(file, costs[name][0].printed)}")


if __name__ == "__main__":
    main()
