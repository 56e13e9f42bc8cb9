"""Analyses of impressions that a query makes as they are read, and what a billion would take."""

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.runner import Record
from benchmarks.timing import Cost, list_records

SIZE = 0
MILLIONS = (1, 3, 10, 30, 100)
ANALYSIS = """
import sys
import abeval
import duckdb
rows = int(sys.argv[1])
connection = duckdb.connect(config={{"threads": 2}})
connection.execute(f'''
create view shown as
select hash(i // 10) % {{rows // 50}} as user_id,
  case when hash(i // 10) % {{rows // 50}} % 2 = 0 then 'control' else 'new' end as variant,
  timestamp '2026-09-14'
    + to_seconds(cast(hash(i // 10, 7) % 1209500 as bigint) + i % 10 * 9) as ts,
  cast(hash(i, 3) % 10 = 0 as integer) as click
from range({{rows}}) as t(i)''')
abeval.define(
    name="generated", unit="user_id", control="control", variants={{"control": {{}}, "new": {{}}}},
    period={{"start": "2026-09-14", "end": "2026-09-28"}},
    logs={{"impressions": {{"table": "shown"}}}},
    cleaning={{"duplicates": "unchecked"}}, trust={{"aa_runs": 0}}, metrics={metrics},
).analyze(connection=connection)
"""
METRICS = ("ctr", "clicks_per_user", "impressions_per_user", "active_days_per_user")


def write_log(folder: Path, size: int) -> None:
    """Write nothing: each process makes its rows."""


def list_commands(_: Path) -> dict[str, list[str]]:
    """List an analysis of each number of rows: visits of ten rows, fifty rows a unit."""
    code = ANALYSIS.format(metrics=[{"name": metric} for metric in METRICS])
    return {f"{n} M": [sys.executable, "-c", code, str(n * 1_000_000)] for n in MILLIONS}


def list_summary(costs: Mapping[str, Sequence[Cost]]) -> Iterator[Record]:
    """List the costs, and the exponent of the processor's time with what it says of a billion."""
    yield from list_records(costs)
    points = {
        float(name.split()[0]): statistics.median(cost.cores for cost in found)
        for name, found in costs.items()
    }
    if len(points) > 1:
        logs = [[math.log(number) for number in numbers] for numbers in (points, points.values())]
        slope, start = statistics.linear_regression(*logs)
        billion = math.exp(start + slope * math.log(1000))
        said = f"by the exponent {slope:.2f}"
        cost = {"seconds": "", "of processors": f"{billion:.0f}", "peak MB": "", "says": said}
        yield {"side": "1 billion", **cost}
