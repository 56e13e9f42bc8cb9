"""How an analysis grows with its metrics and its variants.

    python benchmarks/growth.py DIR [--impressions 1000000] [--rounds 3] [--adjust cuped]

Makes a log with one row an impression in DIR where there is none, and from it one for each number
of variants. `abeval analyze` runs on it with 10 to 400 metrics in 2 variants, and with 10 metrics
in 2 to 100 variants: half of the metrics are totals per unit, half ratios. Every run is a process
of its own; prints medians of seconds and of seconds of processors, and the largest peak of memory.
"""

import argparse
import multiprocessing
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
from analysis import make
from process import in_turns

METRICS, VARIANTS = (10, 50, 100, 400), (2, 10, 50, 100)
FEW_METRICS, FEW_VARIANTS = METRICS[0], VARIANTS[0]


def main() -> None:
    """Make what is missing, run every size in turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--adjust", choices=["none", "cuped"], default="none")
    options = parser.parse_args()
    folder = options.directory.resolve()
    if not (folder / "impressions").exists():
        aside(make, folder, options.impressions)
    commands = {}
    sizes = [(m, FEW_VARIANTS) for m in METRICS] + [(FEW_METRICS, v) for v in VARIANTS[1:]]
    for metrics, variants in sizes:
        log, file = folder / f"log_{variants}.parquet", folder / f"{metrics}_{variants}.toml"
        if not log.exists():
            aside(write_log, folder, log, variants)
        file.write_text(experiment(log.name, metrics, variants, options.adjust))
        command = [sys.executable, "-m", "abeval", "analyze", str(file)]
        commands[f"{metrics} metrics, {variants} variants"] = [
            *(*command, "--json", str(file.with_suffix(".json"))),
        ]
    costs = in_turns(commands, options.rounds)
    for name, of_size in costs.items():
        seconds = statistics.median(cost.seconds for cost in of_size)
        cores = statistics.median(cost.cores for cost in of_size)
        peak = max(cost.megabytes for cost in of_size)
        print(f"{name:26s}{seconds:8.2f} s{cores:8.2f} s of processors{peak:8.0f} MB")


def aside(work: Callable[..., None], *arguments: object) -> None:
    """Work in a process of its own: a child's peak memory starts from what its parent holds."""
    process = multiprocessing.Process(target=work, args=arguments)
    process.start()
    process.join()


def write_log(folder: Path, log: Path, variants: int) -> None:
    """The log with so many variants, units shared out by their hash."""
    duckdb.sql(
        f"copy (select * replace ('v' || hash(user_id) % {variants} as variant) "
        f"from '{folder}/impressions/*.parquet') to '{log}'"
    )


def experiment(log: str, metrics: int, variants: int, adjust: str) -> str:
    """The experiment file; every metric sums an expression of its own."""
    lines = [
        *('name = "growth"', 'unit = "user_id"', 'control = "v0"', "[logs.impressions]"),
        *(f'path = "{log}"', 'columns = { ts = "time", dwell = "dwell_ms" }', 'dwell_unit = "ms"'),
        *("[cleaning]", 'duplicates = "unchecked"'),
        *("[period]", "start = 2026-09-14", "end = 2026-09-28"),
        *("[pre_period]", "start = 2026-09-07", "end = 2026-09-14"),
        *("[segments]", 'device = "device"', "[inference]", f'adjust = "{adjust}"'),
        *(f"[variants.v{i}]" for i in range(variants)),
    ]
    for i in range(metrics):
        longer = f"least(dwell, {i + 1})"
        kind = f'numerator = "{longer}"\ndenominator = "click"' if i % 2 else f'value = "{longer}"'
        lines += ["[[metrics]]", f'name = "m{i}"', kind]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
