"""How an analysis grows with rows, units, items, metrics, variants, days and segments.

Each of them takes three sizes, a factor of four apart, while the others stay. Days are those of
`abeval windows`, everything else of `abeval analyze`. The exponent p of `a + b n^p` follows from
the differences of neighbours, without the cost of starting.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

from benchmarks.runner import Record
from benchmarks.timing import ABEVAL, Cost

SIZE = 200_000
FACTOR, STEPS, HARDLY = 4, 3, 1.3
COLUMNS = 16
USUAL = {"units": 20_000, "items": 4_000, "metrics": 8, "variants": 2, "days": 14, "segments": 1}
"""Sizes of what does not grow; there are `SIZE` rows."""

FIRST = {"rows": SIZE, "units": 5_000, "items": 2_000, "metrics": 10, "variants": 2}
FIRST |= {"days": 7, "segments": 1}
"""The smallest size of what grows."""

LOG = """
copy (
  with rows as (
    select i, i // 5 as request, cast(hash(i // 5) % {units} as bigint) as unit
    from range({rows}) r(i)
  )
  select
    unit as user_id, request as request_id, i % 5 + 1 as position,
    cast({items} * power(hash(i, 1) / power(2, 64), 2) as bigint) as item_id,
    timestamp '2026-01-01' + to_seconds(hash(request, 2) % ({days} * 86400)) as ts,
    'v' || hash(unit, 3) % {variants} as variant,
    case when hash(i, 4) % 10 = 0 then 1 else 0 end as click, hash(i, 5) % 100 as amount,
    hash(i, 6) % 1000000 / 1e6 as score,
    {segments}
  from rows order by ts
) to '{file}'
"""
BUILT_IN = ("ctr", "clicks_per_user", "sessions_per_user", "gauc", "ndcg", "coverage", "gini")
"""Metrics of single rows and of items; those that metrics grow with sum an expression each."""


def list_sizes(rows: int) -> Iterator[tuple[str, dict[str, int]]]:
    """List the names and the sizes of all sides."""
    for grows, first in (FIRST | {"rows": rows}).items():
        for step in range(STEPS):
            size = first * FACTOR**step
            yield f"{grows} {size}", {"rows": rows, **USUAL, grows: size}


def write_log(folder: Path, size: int) -> None:
    """Write a log for each side whose rows, units, items, variants or days differ."""
    segments = ", ".join(f"'g' || hash(unit, {10 + i}) % 4 as s{i}" for i in range(COLUMNS))
    for _, sizes in list_sizes(size):
        file = _name_log(folder, sizes)
        if not file.exists():
            duckdb.sql(LOG.format(**{**sizes, "segments": segments, "file": file}))


def _name_log(folder: Path, sizes: Mapping[str, int]) -> Path:
    names = ("rows", "units", "items", "variants", "days")
    return folder / f"log_{'_'.join(str(sizes[name]) for name in names)}.parquet"


def list_commands(folder: Path) -> dict[str, list[str]]:
    """List an analysis of each size, whose files are written."""
    commands = {}
    rows = min(int(file.name.split("_")[1]) for file in folder.glob("log_*.parquet"))
    for name, sizes in list_sizes(rows):
        file = folder / f"{name.replace(' ', '_')}.toml"
        file.write_text(write_experiment(_name_log(folder, sizes).name, sizes, name))
        command = "windows" if name.startswith("days") else "analyze"
        commands[name] = [*ABEVAL, command, file.name, "--json", f"{file.stem}.json"]
    return commands


def write_experiment(log: str, sizes: Mapping[str, int], name: str) -> str:
    """Write the experiment file: built-in metrics, or as many sums as there are metrics."""
    lines = [
        *('name = "growth"', 'unit = "user_id"', 'control = "v0"', "[logs.impressions]"),
        *(f'path = "{log}"', "[cleaning]", 'duplicates = "unchecked"', "[models.m]"),
        *('score = "score"', "[segments]", *(f's{i} = "s{i}"' for i in range(sizes["segments"]))),
        *(f'[variants.v{i}]\nmodel = "m"' for i in range(sizes["variants"])),
    ]
    if not name.startswith("metrics"):
        return "\n".join([*lines, *(f'[[metrics]]\nname = "{m}"' for m in BUILT_IN)]) + "\n"
    for i in range(sizes["metrics"]):
        least = f"least(amount, {i + 1})"
        kind = f'numerator = "{least}"\ndenominator = "click"' if i % 2 else f'value = "{least}"'
        lines.append(f'[[metrics]]\nname = "m{i}"\n{kind}')
    return "\n".join(lines) + "\n"


def list_summary(costs: Mapping[str, Sequence[Cost]]) -> Iterator[Record]:
    """List by what grows the seconds of processors of its sizes, and the exponent."""
    seconds = {
        name: statistics.median(cost.cores for cost in found) for name, found in costs.items()
    }
    for grows in dict.fromkeys(name.split()[0] for name in seconds):
        sizes = [name for name in seconds if name.startswith(f"{grows} ")]
        if len(sizes) == STEPS:
            first, second, third = (seconds[name] for name in sizes)
            rise = (third - second) / max(second - first, 1e-3)
            # Of differences that are noise, no exponent follows.
            has_grown = third > HARDLY * first and rise > 0
            yield {
                "grows": grows,
                "sizes": ", ".join(f"{int(name.split()[1]):,}" for name in sizes),
                "seconds of processors": f"{first:.2f}, {second:.2f}, {third:.2f}",
                "exponent": f"{math.log(rise, FACTOR):.2f}" if has_grown else "hardly grows",
            }
