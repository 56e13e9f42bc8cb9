"""What windows cost, and whether those by units agree with those by sub-buckets.

    python benchmarks/windows.py DIR [--impressions 20000000]

Simulates 14 days into DIR where it holds no log yet. Prints the time of the pass that makes
`unit_day`, of the windows of every additive metric, and of GAUC by day against GAUC over the whole.
Then every window of every sum over impressions is worked out again from sums by sub-bucket: values
must be equal, and standard errors within what 4,096 sub-buckets allow: with B in each of two
variants the error of a standard error is about 1 / (2 sqrt(B)), .8 %.
"""

import argparse
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import abeval
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Cell
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.experiment.metrics import chosen_metrics
from abeval.experiment.model import Experiment
from abeval.logs.run import Run
from abeval.metrics.definition import Metric, scales
from abeval.metrics.sources import GAUC, UNIT_DAY
from abeval.results.windows import WindowRow
from abeval.simulate import simulate
from abeval.stats.distributions import two_sided_quantile
from abeval.steps import silent
from abeval.time.analysis import Timeline, time_result
from abeval.time.open import OpenLogs, open_logs
from abeval.time.time_sums import sums_of

Floats = NDArray[np.float64]
B = 4096
WIDTHS = (3, 7)
OF_THE_PASS = ("logged_sums", "unit_names", "unit_day")
"""The one pass over the log, and what brings its cells down to units and days."""

OF_WINDOWS = (
    "placed_day",
    query("time/co_moments"),
    query("time/returns"),
    query("time/entered"),
    "entry",
)


CUBE = """
with buckets as (select unit_id as id, sub_bucket from units),
active as (
  select
    sub_bucket, day, {y} as y, {x} as x,
    lag(day) over (partition by unit_id order by day) as previous_day
  from placed_day
  join buckets on unit_id = id
  where variant = {variant}
)
select
  sub_bucket, cast(day as varchar) as day, cast(previous_day as varchar) as previous_day,
  count(*) as units, cast(sum(y) as double) as y, cast(sum(x) as double) as x
from active
group by sub_bucket, day, previous_day
"""


class Timed(DuckDBEngine):
    """DuckDB, with what each table and query took."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment.engine, experiment.folder, None)
        self.seconds: Counter[str] = Counter()

    def table(self, name: str, sql: str) -> None:
        """Time it under its name."""
        began = time.perf_counter()
        super().table(name, sql)
        self.seconds[name] += time.perf_counter() - began

    def frame(self, sql: str) -> pd.DataFrame:
        """Time it under its text."""
        began = time.perf_counter()
        frame = super().frame(sql)
        self.seconds[sql] += time.perf_counter() - began
        return frame

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Time it under its text."""
        began = time.perf_counter()
        rows = super().rows(sql)
        self.seconds[sql] += time.perf_counter() - began
        return rows


class Agreement(NamedTuple):
    """One window by sub-buckets against the same by units."""

    metric: str
    value_error: float
    se_ratio: float


def main() -> None:
    """Simulate where needed, analyse, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--impressions", type=int, default=20_000_000)
    options = parser.parse_args()
    if not (options.directory / "experiment.toml").exists():
        simulate(options.directory, impressions=options.impressions)
    print(f"load before {os.getloadavg()[0]:.2f}; cores {os.cpu_count()}; log {options.directory}")
    experiment = abeval.load(options.directory / "experiment.toml").experiment
    chosen = chosen_metrics(experiment)
    additive(experiment, [m for m in chosen if m.source.daily])
    gauc(experiment, [m for m in chosen if m.source is GAUC])


def additive(experiment: Experiment, metrics: Sequence[Metric]) -> None:
    """Cost and agreement of the windows of metrics that add up over days."""
    engine = Timed(experiment)
    # Sums over impressions come last, so that their unit-days are there to be summed again.
    ordered = sorted(metrics, key=lambda metric: metric.source is UNIT_DAY)
    logs = open_logs(Run(experiment, engine), ordered)
    sums = sums_of(logs, silent)
    began = time.perf_counter()
    result = time_result(Timeline(experiment, sums, WIDTHS), ordered)
    judged = time.perf_counter() - began
    cost(engine, judged, len(ordered), len(result.windows))
    plain = [m for m in ordered if m.source is UNIT_DAY]
    rows = [row for row in result.windows if row.axis == "calendar" and row.p_value is not None]
    agree([one for m in plain for one in agreements(logs, sums.days, m, rows)])
    engine.close()


def cost(engine: Timed, judged: float, metrics: int, windows: int) -> None:
    """The pass over the log against everything that windows add to it."""
    pass_over_log = sum(engine.seconds[name] for name in OF_THE_PASS)
    queries = sum(engine.seconds[name] for name in OF_WINDOWS)
    whole = queries + judged
    print(f"unit_day pass                                   {pass_over_log:7.2f} s")
    print(f"queries of all windows, {metrics} additive metrics      {queries:7.2f} s")
    print(f"{windows:,} windows, verdicts and looks from them    {judged:7.2f} s")
    print(f"windows against the pass                        {whole / pass_over_log:7.2f}")


def gauc(experiment: Experiment, metrics: Sequence[Metric]) -> None:
    """GAUC by day against GAUC over the whole, each with what makes its input."""
    engine = Timed(experiment)
    logs = open_logs(Run(experiment, engine), metrics)
    began = time.perf_counter()
    logs.queries.load(GAUC)
    whole = time.perf_counter() - began
    sums_of(logs, silent)
    daily = engine.seconds["scored_day"] + engine.seconds["gauc_day"]
    print(f"GAUC over the whole                             {whole:7.2f} s")
    print(f"GAUC by day                                     {daily:7.2f} s")
    engine.close()


def agree(windows: Sequence[Agreement]) -> None:
    """Print how far windows by sub-buckets are from those by units."""
    ratios = np.array([one.se_ratio for one in windows])
    allowed = 4 / (2 * np.sqrt(B))
    outside = int(np.sum(np.abs(ratios - 1) > allowed))
    worst = max(one.value_error for one in windows)
    print(f"windows compared                                {len(windows):7,}")
    print(f"largest relative difference of values           {worst:7.0e}")
    print(f"standard error, sub-buckets / units: mean       {ratios.mean():7.4f}")
    print(f"    smallest and largest                        {ratios.min():7.4f} {ratios.max():.4f}")
    print(f"    beyond four errors, {allowed:.3f}                   {outside:7,}")


class Cube(NamedTuple):
    """One variant by sub-bucket, shape (B, days), and its units by last active day before."""

    y: Floats
    x: Floats
    entered: Floats
    returns: Floats

    def window(self, metric: Metric, first: int, last: int, entered: bool) -> tuple[float, float]:
        """Value and standard error of a window, the sub-buckets taken for the units."""
        y = self.y[:, first : last + 1].sum(axis=1)
        if metric.per is not None:
            x = self.x[:, first : last + 1].sum(axis=1)
        elif entered:
            x = self.entered[:, : last + 1].sum(axis=1)
        else:
            x = self.returns[:, : first + 1, first : last + 1].sum(axis=(1, 2))
        value = y.sum() / x.sum()
        return value, np.sqrt(B / (B - 1) * np.sum((y - value * x) ** 2)) / x.sum()


def agreements(
    logs: OpenLogs, days: Sequence[str], metric: Metric, rows: Sequence[WindowRow]
) -> list[Agreement]:
    """Every window of one metric both ways."""
    experiment = logs.queries.experiment
    cubes = {name: cube(logs, days, metric, name) for name in experiment.variants}
    scale = scales(metric)[0] / scales(metric)[1]
    quantile = two_sided_quantile(experiment.alpha)
    windows = []
    for row in (row for row in rows if row.metric == metric.name):
        span = days.index(row.start), days.index(row.end)
        control, treatment = (
            cubes[name].window(metric, *span, row.kind == "cumulative")
            for name in (experiment.control, row.variant)
        )
        errors = control[0] * scale / row.control - 1, treatment[0] * scale / row.treatment - 1
        of_units = (row.difference_high - row.difference_low) / 2 / quantile
        ratio = float(np.hypot(control[1], treatment[1])) * scale / of_units
        windows.append(Agreement(metric.name, max(map(abs, errors)), ratio))
    return windows


def cube(logs: OpenLogs, days: Sequence[str], metric: Metric, variant: str) -> Cube:
    """The sums of one metric in one variant."""
    y_sql, x_sql = logs.queries.both(metric, "c_")
    place = {day: i for i, day in enumerate(days)}
    frame = logs.queries.engine.frame(CUBE.format(y=y_sql, x=x_sql, variant=literal(variant)))
    bucket = frame["sub_bucket"].to_numpy()
    day = frame["day"].map(place).to_numpy()
    before = frame["previous_day"].map(place).fillna(-1).to_numpy(dtype=int) + 1
    size = B, len(days)
    sums = Cube(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros((B, size[1] + 1, size[1])))
    np.add.at(sums.y, (bucket, day), frame["y"].to_numpy(float))
    np.add.at(sums.x, (bucket, day), frame["x"].to_numpy(float))
    np.add.at(sums.returns, (bucket, before, day), frame["units"].to_numpy(float))
    # Without an exposures log a unit enters on its first active day.
    sums.entered[:] = sums.returns[:, 0]
    return sums


if __name__ == "__main__":
    main()
