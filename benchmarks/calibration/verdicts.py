"""How often verdicts on an effect over time, and daily looks, are right.

Verdicts are simulated in worlds with a known effect, daily looks in experiments without an effect
whose users return.
"""

from collections import Counter
from functools import partial

import numpy as np

from abeval.inference.comparison import Rule
from abeval.metrics.definition import INCREASE, Metric, RowTerm
from abeval.time.analysis import follow_metric
from abeval.time.peeking import follow, take_snapshots
from abeval.time.windows import Course, build_calendar_axis, compute_windows
from benchmarks.runner import Record, Table
from tests.worlds.days import (
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


def verdict_of(seed: int, world: World, days: int = DAYS, units: int = 8000) -> str:
    """Stability verdict on one simulated experiment of a world."""
    (result,) = follow_metric(time_sums(units_of(world, seed, units, days)), CTR)
    return "" if result.stability is None else result.stability.verdict


def measure_verdicts(world: World, repetitions: int, seed: int, days: int = DAYS) -> Record:
    """Count the verdicts in a world, an experiment a seed."""
    counts = Counter(verdict_of(seed + i, world, days) for i in range(repetitions))
    return {
        "truth": world.name,
        "right verdict": world.right,
        "right, %": counts[world.right] / repetitions,
        **{name: counts[name] for name in ("stable", "settling", "drifting", "too_early")},
    }


def looks_of(seed: int, metric: Metric, units: int = 3000) -> tuple[bool, bool, bool]:
    """Whether looks at an A/A experiment reject: always-valid, naive, on the last day only."""
    values = days_of(units_of(WORLDS[0], seed, units), per_unit=metric.kind == "mean")
    labels = [str(day) for day in range(DAYS)]
    axis = build_calendar_axis(
        values.sum_days(), "control", (tuple(range(DAYS)),), labels, frozenset()
    )
    windows = compute_windows(Course(metric, "treatment", axis), Rule(), ())
    held = follow(take_snapshots(metric, windows), 0.05)
    p_values = [snapshot.effect.p_value for snapshot, _, _ in held]
    always = min(look.p_value for _, look, _ in held) <= 0.05
    return always, min(p_values) <= 0.05, p_values[-1] <= 0.05


def measure_looks(metric: Metric, repetitions: int, seed: int) -> Record:
    """Measure the false-positive rates of daily looks."""
    looks = [looks_of(10_000 + seed + i, metric) for i in range(repetitions)]
    heads = ("always-valid, %", "naive, any day, %", "last day only, %")
    shares = dict(zip(heads, np.mean(looks, axis=0).tolist(), strict=True))
    return {"metric": metric.name, "experiments": repetitions, **shares}


TABLES = {
    "verdicts": Table(measure_verdicts, WORLDS, repetitions=400),
    "14 days": Table(partial(measure_verdicts, days=14), WORLDS, repetitions=400),
    "looks": Table(measure_looks, (CLICKS, CTR), repetitions=2_000, digits=2),
}
