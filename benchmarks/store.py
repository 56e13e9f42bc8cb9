"""Daily refreshes over the aggregate store against full runs, as engine time.

    python benchmarks/store.py [--impressions 20000000] [--units 500000] [--visit 20] [--long 90]
        [--scheme both|totals|closed|parts]

Writes a log with one file a day into a temporary folder. Engine time is that from the call to the
first statistic: reading, summing, and the queries of every metric. All metrics merge by day. Units
come in visits of so many impressions: with `--visit 1` they come back almost every day.
`--scheme` switches off closed days, totals of units, or both, to see what each saves.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import duckdb

import abeval
from abeval.store import scheme
from abeval.store.closing import Closing

DAYS = 14
METRICS = [
    "ctr",
    "clicks_per_user",
    "impressions_per_user",
    "dwell_per_user",
    "active_days_per_user",
]
LOG = """
copy (
  with drawn as (
    select i, hash(i // {visit}, {day}) % {units} as user_id
    from range({rows}) r(i)
  )
  select 'u' || lpad(cast(user_id as varchar), 8, '0') as user_id,
    case when user_id % 2 = 0 then 'control' else 'treatment' end as variant,
    timestamp '2026-01-01' + to_days({day}) + to_seconds(cast(random() * 86399 as bigint)) as ts,
    cast(random() * 100000 as bigint) as item_id,
    case when random() < 0.1 then 1 else 0 end as click, random() * 90 as dwell,
    list_value('phone', 'tablet', 'desktop')[1 + cast(user_id % 3 as int)] as device
  from drawn
) to '{file}' (format parquet, compression zstd)
"""


def write_days(folder: Path, days: int, rows: int, units: int, visit: int) -> None:
    """One file a day."""
    folder.mkdir()
    with duckdb.connect() as connection:
        connection.execute("select setseed(0.5)")
        for day in range(days):
            file = folder / f"{day:03}.parquet"
            connection.execute(LOG.format(units=units, rows=rows, visit=visit, day=day, file=file))


def experiment(folder: Path, known: list[str]) -> abeval.LoadedExperiment:
    """The analysis of a folder's log; A/A replays are statistics, and are left out."""
    return abeval.define(
        folder,
        name="daily",
        unit="user_id",
        control="control",
        variants={"control": {}, "treatment": {}},
        logs={"impressions": {"path": "log/*.parquet"}},
        period={"start": "2026-01-01", "end": "2027-01-01"},
        cleaning={"duplicates": "unchecked"},
        segments={"device": "device"},
        metrics=[{"name": name} for name in known],
        trust={"aa_runs": 0},
    )


class Spent(NamedTuple):
    """Seconds on the clock, and seconds of processors."""

    clock: float
    cores: float

    def __add__(self, other: tuple[float, ...]) -> "Spent":
        """Both together."""
        return Spent(self.clock + other[0], self.cores + other[1])


def engine_seconds(loaded: abeval.LoadedExperiment, store: Path | None) -> dict[str, Spent]:
    """What each step up to the first statistic takes."""
    spent: dict[str, Spent] = {}
    began, name = _moment(), "starting"

    def step(new: str) -> None:
        nonlocal began, name
        moment = _moment()
        took = Spent(moment.clock - began.clock, moment.cores - began.cores)
        spent[name] = spent.get(name, Spent(0.0, 0.0)) + took
        began, name = moment, new.split(":")[0]

    loaded.analyze(store=store, step=step)
    return spent


def _moment() -> Spent:
    return Spent(time.perf_counter(), time.process_time())


def warm(source: Path) -> None:
    """Import what an analysis imports, outside the clock."""
    one = {"path": str(min(source.iterdir()))}
    engine_seconds(experiment(source, METRICS).replace(logs={"impressions": one}), None)


def refreshes(folder: Path, source: Path, first: int, last: int) -> list[dict[str, Spent]]:
    """Days `first` to `last` arrive one at a time, those before them at once."""
    (folder / "log").mkdir(parents=True)
    files = sorted(source.iterdir())[:last]
    runs = []
    loaded = experiment(folder, METRICS)
    warm(source)
    for place, file in enumerate(files, start=1):
        (folder / "log" / file.name).hardlink_to(file)
        if place == first - 1:
            engine_seconds(loaded, folder / "store")
        elif place >= first:
            runs.append(engine_seconds(loaded, folder / "store"))
    return runs


def table(title: str, full: dict[str, Spent], runs: list[dict[str, Spent]]) -> None:
    """Totals, their ratio, and what each step cost."""
    nothing = Spent(0.0, 0.0)
    stored = {name: sum((r.get(name, nothing) for r in runs), nothing) for r in runs for name in r}
    one, all_runs = (sum(steps.values(), nothing) for steps in (full, stored))
    print(f"\n{title}: {all_runs.clock / one.clock:.3f} of a full run by the clock,", end=" ")
    print(f"{all_runs.cores / one.cores:.3f} by processors; load {os.getloadavg()[0]:.1f}")
    print(f"  {'step':24} {'full':>8} {'(cores)':>8} {'store':>8} {'(cores)':>8}  seconds")
    steps = dict.fromkeys((*full, *stored))
    for name in steps:
        _line(name, full.get(name, nothing), stored.get(name, nothing))
    _line("all", one, all_runs)


def _line(name: str, full: Spent, stored: Spent) -> None:
    print(
        f"  {name:24} {full.clock:8.2f} {full.cores:8.2f} {stored.clock:8.2f} {stored.cores:8.2f}"
    )


def leave(name: str) -> None:
    """Leave the store one of its schemes, or none (`parts`)."""
    if name in ("parts", "closed"):
        scheme.FEWEST_UNITS = sys.maxsize
    if name in ("parts", "totals"):
        Closing.close = lambda *_: None


def main() -> None:
    """Write the log, run both comparisons, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--impressions", type=int, default=20_000_000, help="in fourteen days")
    parser.add_argument("--units", type=int, default=500_000)
    parser.add_argument("--visit", type=int, default=20, help="impressions of a unit at a time")
    parser.add_argument("--long", type=int, default=90, help="days before the one more")
    parser.add_argument("--scheme", choices=("both", "totals", "closed", "parts"), default="both")
    options = parser.parse_args()
    leave(options.scheme)
    print(f"{options.impressions:,} impressions in {DAYS} days, {options.units:,} units", end=", ")
    print(f"{options.visit} impressions a visit", end="; ")
    print(f"{os.cpu_count()} cores; DuckDB {duckdb.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        days, rows = Path(folder) / "days", options.impressions // DAYS
        write_days(days, options.long + 1, rows, options.units, options.visit)
        for title, first, last in (
            (f"{DAYS} daily refreshes", 1, DAYS),
            (f"one more day on top of {options.long}", options.long + 1, options.long + 1),
        ):
            place = Path(folder) / f"until-{last}"
            runs = refreshes(place, days, first, last)
            table(title, engine_seconds(experiment(place, METRICS), None), runs)
        size = sum(file.stat().st_size for file in (place / "store").rglob("*")) / 1e6
        log = sum(file.stat().st_size for file in days.iterdir()) / 1e6
        print(f"\nthe store of {options.long + 1} days holds {size:,.0f} MB, the log {log:,.0f} MB")


if __name__ == "__main__":
    main()
