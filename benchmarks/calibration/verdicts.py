"""How often verdicts and looks are right: `python -m benchmarks.calibration.verdicts`.

Verdicts are simulated in worlds with a known effect, daily looks in experiments without an effect
whose users return. Results depend on the seeds only, not on the number of processes.
"""

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from abeval.inference.comparison import Rule
from abeval.metrics.definition import INCREASE, Metric, RowTerm
from abeval.time.analysis import follow_metric
from abeval.time.peeking import follow, take_snapshots
from abeval.time.windows import Course, calendar, compute_windows
from benchmarks.calibration.worlds import (
    DAYS,
    WORLDS,
    World,
    days_of,
    time_sums,
    units_of,
)

CTR = Metric(
    "ctr",
    "ratio",
    "Σ clicks / Σ impressions",
    direction=INCREASE,
    value=RowTerm("click"),
    per=RowTerm("1"),
)
CLICKS = Metric("clicks_per_user", "mean", "Σ clicks / units", value=RowTerm("click"))

_NAMED = {world.name: world for world in WORLDS}


@dataclass(frozen=True)
class Verdicts:
    """Counts of the verdicts in one world."""

    world: World
    counts: Counter[str]

    @property
    def right(self) -> float:
        """Share of right verdicts."""
        return self.counts[self.world.right] / self.counts.total()


@dataclass(frozen=True)
class PeekingRates:
    """False-positive rates of daily looks.

    Attributes:
        metric: Name of the metric.
        experiments: Number of experiments.
        always_valid: Share in which the always-valid test rejected on some day.
        naive: Share in which the fixed-horizon p-value was below alpha on some day.
        last_day: Share in which it was below alpha on the last day.
    """

    metric: str
    experiments: int
    always_valid: float
    naive: float
    last_day: float


def verdict_of(seed: int, world: str, days: int = DAYS, units: int = 8000) -> str:
    """Stability verdict on one simulated experiment in the world of this name."""
    (result,) = follow_metric(time_sums(units_of(_NAMED[world], seed, units, days)), CTR)
    return "" if result.stability is None else result.stability.verdict


def verdicts(world: World, seeds: Sequence[int], days: int = DAYS) -> Verdicts:
    """Verdicts in a world, one experiment per seed."""
    return Verdicts(world, Counter(verdict_of(seed, world.name, days) for seed in seeds))


def looks_of(seed: int, units: int = 3000) -> list[tuple[bool, bool, bool]]:
    """Whether looks at an A/A experiment reject: always-valid, naive, on the last day only.

    One triple for clicks per user, and one for the click rate.
    """
    simulated = units_of(WORLDS[0], seed, units)
    rejected = []
    for metric in (CLICKS, CTR):
        by_day = days_of(simulated, per_unit=metric.kind == "mean")
        labels = [str(day) for day in range(DAYS)]
        axis = calendar(by_day.sum_days(), "control", (tuple(range(DAYS)),), labels, frozenset())
        windows = compute_windows(Course(metric, "treatment", axis), Rule(), ())
        held = follow(take_snapshots(metric, windows), 0.05)
        p_values = [snapshot.effect.p_value for snapshot, _, _ in held]
        always = min(look.p_value for _, look, _ in held) <= 0.05
        rejected.append((always, min(p_values) <= 0.05, p_values[-1] <= 0.05))
    return rejected


def peeking(seeds: Sequence[int]) -> list[PeekingRates]:
    """False-positive rates of daily looks."""
    return _rates([looks_of(seed) for seed in seeds])


def _rates(rejected: Sequence[list[tuple[bool, bool, bool]]]) -> list[PeekingRates]:
    n = len(rejected)
    return [
        PeekingRates(
            metric.name, n, *(sum(flags[i][k] for flags in rejected) / n for k in range(3))
        )
        for i, metric in enumerate((CLICKS, CTR))
    ]


def calibrate(
    seeds: int, experiments: int, days: int, processes: int | None
) -> tuple[list[Verdicts], list[PeekingRates]]:
    """Verdicts in all worlds, and daily looks, in parallel processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=context) as workers:
        worlds = [
            Verdicts(
                world,
                Counter(
                    workers.map(
                        partial(verdict_of, world=world.name, days=days), range(seeds), chunksize=10
                    )
                ),
            )
            for world in WORLDS
        ]
        rejected = list(workers.map(looks_of, range(10_000, 10_000 + experiments), chunksize=20))
    return worlds, _rates(rejected) if rejected else []


def main() -> None:
    """Run both studies and print their tables in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.verdicts")
    parser.add_argument("--seeds", type=int, default=400, help="per world")
    parser.add_argument("--experiments", type=int, default=2000, help="looked at every day")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--processes", type=int, default=None, help="all cores by default")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    results = calibrate(options.seeds, options.experiments, options.days, options.processes)
    sys.stdout.write(markdown(*results))


def markdown(worlds: Sequence[Verdicts], peeking: Sequence[PeekingRates]) -> str:
    """Tables for the documentation."""
    names = ("stable", "settling", "drifting", "too_early")
    rows = ["| truth | right verdict | right, % | " + " | ".join(names) + " |"]
    rows.append("|---|---|--:|" + "--:|" * len(names))
    for result in worlds:
        world, counts = result.world, " | ".join(str(result.counts[name]) for name in names)
        rows.append(f"| {world.name} | {world.right} | {result.right:.1%} | {counts} |")
    rows += ["", "| metric | experiments | always-valid | naive, any day | last day only |"]
    rows.append("|---|--:|--:|--:|--:|")
    for rates in peeking:
        shares = f"{rates.always_valid:.2%} | {rates.naive:.1%} | {rates.last_day:.1%}"
        rows.append(f"| {rates.metric} | {rates.experiments:,} | {shares} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
