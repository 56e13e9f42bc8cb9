"""The whole analysis of a simulated log against DuckDB's own scan of the columns it uses.

    python benchmarks/whole_analysis.py DIR [--impressions 20000000] [--runs 1]

Simulates into DIR where it holds no log yet. Each side is timed as a whole process, imports
included; peak memory is the largest resident set of the process. What each step cost is from
`abeval analyze --profile`.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SCAN = """
import duckdb, sys
read = "read_parquet('{}/impressions/*.parquet')".format(sys.argv[1])
columns = ["impression_id", "request_id", "user_id", "item_id", "time", "variant", "position",
           "device", "score_baseline", "score_candidate"]
aggregates = ", ".join(f"max({c})" for c in columns)
print(duckdb.sql(f"select {aggregates} from {read}").fetchall())
print(duckdb.sql("select max(impression_id), max(time), max(dwell_ms) "
                 "from read_parquet('{}/clicks.parquet')".format(sys.argv[1])).fetchall())
"""


class Cost(NamedTuple):
    """What one process took."""

    seconds: float
    megabytes: float
    errors: str


def run(*command: str) -> Cost:
    """Run a command; its standard error is kept."""
    with tempfile.TemporaryFile("w+") as errors, Path(os.devnull).open("w") as nothing:
        began = time.perf_counter()
        actions = [
            (os.POSIX_SPAWN_DUP2, nothing.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
        ]
        child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
        _, status, usage = os.wait4(child, 0)
        seconds = time.perf_counter() - began
        errors.seek(0)
        text = errors.read()
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{text}")
    return Cost(seconds, usage.ru_maxrss / 1024, text)


def main() -> None:
    """Simulate where needed, run both sides, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--impressions", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=1)
    given = parser.parse_args()
    abeval = [sys.executable, "-m", "abeval.cli"]
    experiment = given.directory / "experiment.toml"
    if not experiment.exists():
        run(*abeval, "simulate", str(given.directory), "--impressions", str(given.impressions))
    output = str(given.directory / "result.json")
    scans, analyses = [], []
    for _ in range(given.runs):
        scans.append(run(sys.executable, "-c", SCAN, str(given.directory)))
        analyses.append(run(*abeval, "analyze", str(experiment), "--profile", "--json", output))
    scan = statistics.median(cost.seconds for cost in scans)
    whole = statistics.median(cost.seconds for cost in analyses)
    print(f"runs: {given.runs} (medians); cores: {os.cpu_count()}; log: {given.directory}")
    print(f"scan of the used columns  {scan:7.2f} s  {max(c.megabytes for c in scans):7.0f} MB")
    print(f"whole analysis            {whole:7.2f} s  {max(c.megabytes for c in analyses):7.0f} MB")
    print(f"ratio                     {whole / scan:7.1f}")
    print(analyses[-1].errors)


if __name__ == "__main__":
    main()
