"""Print how often verdicts and looks are right: `python -m benchmarks.calibration.verdicts`.

Verdicts are judged on simulated worlds whose truth is known, daily looks on experiments without an
effect whose users return. Seeded; the answer does not depend on the number of processes.
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

from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.inference.comparison import Rule
from abeval.metrics.definition import INCREASE, Metric, RowTerm
from abeval.time.analysis import Timeline, daily_snapshots, metric_over_time
from abeval.time.axes import Course, calendar
from abeval.time.peeking import follow
from benchmarks.calibration.worlds import DAYS, WORLDS, World, sums_of, time_sums, units_of

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
    """The verdicts in one world."""

    world: World
    counts: Counter[str]

    @property
    def right(self) -> float:
        """Share of right verdicts."""
        return self.counts[self.world.right] / self.counts.total()


@dataclass(frozen=True)
class Looked:
    """How often daily looks at nothing found something.

    Attributes:
        metric: What was looked at.
        experiments: How many.
        always_valid: Share in which the always-valid test declared on some day.
        naive: Share in which a fixed-horizon p-value below alpha was seen on some day.
        last_day: Share in which the last day's was.
    """

    metric: str
    experiments: int
    always_valid: float
    naive: float
    last_day: float


def experiment_of(alpha: float = 0.05) -> Experiment:
    """The experiment that the simulated units are in."""
    return parse_experiment(
        {
            "name": "simulated",
            "unit": "user_id",
            "control": "control",
            "alpha": alpha,
            "variants": {"control": {}, "treatment": {}},
            "logs": {"impressions": {"path": "none.parquet"}},
        }
    )


def verdict_of(seed: int, world: str, days: int = DAYS, units: int = 8000) -> str:
    """The stability verdict on one simulated experiment in the world of that name."""
    timeline = Timeline(experiment_of(), time_sums(units_of(_NAMED[world], seed, units, days)))
    return metric_over_time(timeline, CTR, "treatment").stability.verdict


def verdicts(world: World, seeds: Sequence[int], days: int = DAYS) -> Verdicts:
    """The verdicts over seeds."""
    return Verdicts(world, Counter(verdict_of(seed, world.name, days) for seed in seeds))


def looks_of(seed: int, units: int = 3000) -> list[tuple[bool, bool, bool]]:
    """Whether looks at nothing found something: always-valid, naive, on the last day alone.

    One triple for clicks per user, and one for the click rate.
    """
    made = units_of(WORLDS[0], seed, units)
    found = []
    for metric in (CLICKS, CTR):
        sums = sums_of(made, per_unit=metric.kind == "mean")
        labels = [str(day) for day in range(DAYS)]
        axis = calendar(sums, "control", (tuple(range(DAYS)),), labels, frozenset())
        path = follow(daily_snapshots(Course(metric, "treatment", axis), Rule()), 0.05)
        p_values = [snapshot.effect.p_value for snapshot in path.snapshots]
        always = min(look.p_value for look in path.looks) <= 0.05
        found.append((always, min(p_values) <= 0.05, p_values[-1] <= 0.05))
    return found


def peeking(seeds: Sequence[int]) -> list[Looked]:
    """How often daily looks find something where nothing is."""
    return _looked([looks_of(seed) for seed in seeds])


def _looked(found: Sequence[list[tuple[bool, bool, bool]]]) -> list[Looked]:
    size = len(found)
    return [
        Looked(
            metric.name,
            size,
            *(sum(flags[place][k] for flags in found) / size for k in range(3)),
        )
        for place, metric in enumerate((CLICKS, CTR))
    ]


def calibrate(
    seeds: int, experiments: int, days: int, processes: int | None
) -> tuple[list[Verdicts], list[Looked]]:
    """Every world, and the looks, on all cores."""
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
        looked = list(workers.map(looks_of, range(10_000, 10_000 + experiments), chunksize=20))
    return worlds, _looked(looked) if looked else []


def main() -> None:
    """Run both studies and print their tables in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.verdicts")
    parser.add_argument("--seeds", type=int, default=400, help="per world")
    parser.add_argument("--experiments", type=int, default=2000, help="looked at every day")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--processes", type=int, default=None, help="all cores by default")
    asked = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    worlds, looked = calibrate(asked.seeds, asked.experiments, asked.days, asked.processes)
    sys.stdout.write(markdown(worlds, looked))


def markdown(worlds: Sequence[Verdicts], looked: Sequence[Looked]) -> str:
    """The tables of the documentation."""
    names = ("stable", "settling", "drifting", "too_early")
    rows = ["| truth | right verdict | right, % | " + " | ".join(names) + " |"]
    rows.append("|---|---|--:|" + "--:|" * len(names))
    for found in worlds:
        counts = " | ".join(str(found.counts[name]) for name in names)
        rows.append(f"| {found.world.name} | {found.world.right} | {found.right:.1%} | {counts} |")
    rows += ["", "| metric | experiments | always-valid | naive, any day | last day only |"]
    rows.append("|---|--:|--:|--:|--:|")
    for one in looked:
        shares = f"{one.always_valid:.2%} | {one.naive:.1%} | {one.last_day:.1%}"
        rows.append(f"| {one.metric} | {one.experiments:,} | {shares} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
