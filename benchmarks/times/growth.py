"""How an analysis grows with its metrics and its variants.

`abeval analyze` runs with 10 to 400 metrics in 2 variants, and with 10 metrics in 2 to 100
variants: half of the metrics are totals per unit, half ratios.
"""

from pathlib import Path

import duckdb

from benchmarks.times import analysis
from benchmarks.timing import ABEVAL

SIZE = 1_000_000
METRICS, VARIANTS = (10, 50, 100, 400), (2, 10, 50, 100)


def write_log(folder: Path, size: int) -> None:
    """Write a log for each number of variants, units shared out by their hash."""
    analysis.write_log(folder, size)
    for variants in VARIANTS:
        duckdb.sql(
            f"copy (select * replace ('v' || hash(user_id) % {variants} as variant) "
            f"from '{folder}/impressions/*.parquet') to '{folder}/log_{variants}.parquet'"
        )


def list_commands(folder: Path) -> dict[str, list[str]]:
    """List an analysis of each size, whose files are written."""
    commands = {}
    sizes = [(m, VARIANTS[0]) for m in METRICS] + [(METRICS[0], v) for v in VARIANTS[1:]]
    for metrics, variants in sizes:
        name = f"{metrics} metrics, {variants} variants"
        file = folder / f"{metrics}_{variants}.toml"
        file.write_text(write_experiment(f"log_{variants}.parquet", metrics, variants))
        output = ["--json", f"{file.stem}.json"]
        commands[name] = [*ABEVAL, "analyze", file.name, *output]
    return commands


def write_experiment(log: str, metrics: int, variants: int) -> str:
    """Write the experiment file; every metric sums an expression of its own."""
    lines = [
        *('name = "growth"', 'unit = "user_id"', 'control = "v0"', "[logs.impressions]"),
        *(f'path = "{log}"', 'columns = { ts = "time", dwell = "dwell_ms" }', 'dwell_unit = "ms"'),
        *("[cleaning]", 'duplicates = "unchecked"'),
        *("[period]", "start = 2026-09-14", "end = 2026-09-28"),
        *("[pre_period]", "start = 2026-09-07", "end = 2026-09-14"),
        *("[segments]", 'device = "device"', "[inference]", 'adjust = "none"'),
        *(f"[variants.v{i}]" for i in range(variants)),
    ]
    for i in range(metrics):
        longer = f"least(dwell, {i + 1})"
        kind = f'numerator = "{longer}"\ndenominator = "click"' if i % 2 else f'value = "{longer}"'
        lines += ["[[metrics]]", f'name = "m{i}"', kind]
    return "\n".join(lines) + "\n"
