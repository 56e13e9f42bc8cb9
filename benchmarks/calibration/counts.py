"""Tables of counts from worlds without an effect: how often does an analysis reject, and decide?

    python -m benchmarks.calibration.counts --repetitions 2000

Users have lognormal activity and click rates of their own. Days have volumes and click rates that
both variants share. Where users return, every day has the same heavy ones: no test can tell that
from an effect by days alone, so the table is a draft until a person says that days are units.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.drafts.columns import measure_table
from abeval.drafts.counts import CallerNames, read_counts
from abeval.engines.duckdb import DuckDBEngine
from abeval.table.columns import TableOptions
from abeval.table.counts import sum_counts
from abeval.table.sums import judge_sums, make_sums_experiment

ALPHA = 0.05
EVEN, UNEVEN = (0.5, 0.5), (0.9, 0.1)
USERS = 2_000
"""Users of both variants; where they do not return, of each day."""

Generator = np.random.Generator


class Cell(NamedTuple):
    """Shares of the repetitions: with a p-value below alpha, and with a decision."""

    rejected: float
    decided: float


def successes(random: Generator, units: tuple[int, int], rate: float) -> pd.DataFrame:
    """Users of each variant, and how many converted."""
    counts = random.binomial(units, rate)
    return pd.DataFrame({"variant": ["a", "b"], "users": units, "conversions": counts})


def means(random: Generator, units: tuple[int, int]) -> pd.DataFrame:
    """Mean and standard deviation of what users spent."""
    spent = [random.lognormal(0, 1, n) for n in units]
    rows = {"mean": [one.mean() for one in spent], "sd": [one.std(ddof=1) for one in spent]}
    return pd.DataFrame({"variant": ["a", "b"], "n": units, **rows})


def by_day(
    random: Generator, days: int, shares: tuple[float, float], *, returning: bool
) -> pd.DataFrame:
    """Impressions and clicks of each day."""
    users, rows = _users(random, shares), []
    for day in range(days):
        if not returning:
            users = _users(random, shares)
        activity, rate, is_treated = users
        weekend = day % 7 > 4
        volume = np.exp(random.normal(0, 0.3) + 0.4 * weekend)
        mood = np.exp(random.normal(0, 0.2) - 0.3 * weekend)
        there = random.random(activity.size) < (0.3 if returning else 1.0)
        impressions = random.poisson(3 * activity * volume) * there
        clicks = random.binomial(impressions, np.minimum(rate * mood, 0.95))
        for name, arm in (("a", ~is_treated), ("b", is_treated)):
            date = pd.Timestamp("2026-01-05") + pd.Timedelta(days=day)
            rows.append((date.date(), name, int(impressions[arm].sum()), int(clicks[arm].sum())))
    return pd.DataFrame(rows, columns=["date", "variant", "impressions", "clicks"])


def _users(
    random: Generator, shares: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Activity, click rate and variant of each user."""
    activity = random.lognormal(0, 1, USERS)
    rate = np.minimum(0.05 * random.lognormal(0, 0.7, USERS), 0.9)
    return activity, rate, random.random(USERS) < shares[1]


class World(NamedTuple):
    """What the data are, the unit that a person names, the planned split, and a table."""

    data: str
    unit: str | None
    split: tuple[float, float]
    table: Callable[[Generator], pd.DataFrame]


def worlds() -> Iterator[World]:
    """Yield every world."""
    for units, split in (((2_000, 2_000), EVEN), ((1_800, 200), UNEVEN)):
        for rate in (0.005, 0.05):
            data = f"{units[0]:,}/{units[1]:,} users, {rate:.1%} convert"
            yield World(data, None, split, partial(successes, units=units, rate=rate))
    yield World("2,000/2,000 users, mean and sd", None, EVEN, partial(means, units=(2_000, 2_000)))
    for returning in (False, True):
        for split in (EVEN, UNEVEN):
            for days in (7, 14, 28):
                data = f"{days} days, {100 * split[0]:.0f}/{100 * split[1]:.0f}, users "
                data += "return" if returning else "of one day"
                table = partial(by_day, days=days, shares=split, returning=returning)
                yield World(data, None if returning else "day", split, table)


def cell(world: World, runs: int, seed: int = 0) -> Cell:
    """Analyse the tables of one world as a user does; the columns are recognised once."""
    random = np.random.default_rng([seed, *world.data.encode()])
    weights = dict(zip("ab", world.split, strict=True))
    with closing(DuckDBEngine()) as engine:
        engine.add_frame("counts", world.table(random))
        known = read_counts(engine, measure_table(engine, "counts"), CallerNames())
    if known is None:
        raise TypeError(f"no table of counts: {world.data}")
    results = []
    for _ in range(runs):
        frame = world.table(random)
        columns = [frame[name].astype(str) for name in frame]
        rows = [dict(zip(map(str, frame), row, strict=True)) for row in zip(*columns, strict=True)]
        sums = sum_counts(replace(known, rows=rows), world.unit or "", "counts")
        result = judge_sums(make_sums_experiment(sums, TableOptions(weights=weights)), sums)
        (row,), (verdict,) = result.scorecard, result.verdicts
        rejected = row.p_value is not None and row.p_value < ALPHA
        results.append((rejected, verdict.decision in ("ship", "do_not_ship")))
    return Cell(*np.mean(results, axis=0).tolist())


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.counts")
    parser.add_argument("--repetitions", type=int, default=2_000, help="tables per row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", default="", help="only those with this text in their name")
    options = parser.parse_args()
    sys.stdout.write("| table | unit | p < .05, % | decided, % |\n|---|---|--:|--:|\n")
    for world in (one for one in worlds() if options.world in one.data):
        one = cell(world, options.repetitions, options.seed)
        shares = " | ".join(f"{100 * share:.1f}" for share in one)
        sys.stdout.write(f"| {world.data} | {world.unit or 'not named'} | {shares} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
