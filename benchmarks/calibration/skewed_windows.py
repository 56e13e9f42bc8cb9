"""Levels of windows over skewed values at uneven splits, as `abeval windows` judges them.

A/A experiments of two weeks whose units come back and seldom buy. Each kind of window is judged by
the sums over pairs of days and what the days and the whole say of third moments; Welch's test is
what judged them before.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from abeval.inference.comparison import Arms, Comparison, Rule
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments
from abeval.stats.records import Bools, Floats, Integers
from abeval.time.daily_table import Span
from abeval.time.windows import (
    Course,
    ThirdMoments,
    build_calendar_axis,
    build_entry_axis,
    find_skewness_inputs,
)
from benchmarks.runner import Record, Table
from tests.worlds.days import Arm, metric_days
from tests.worlds.users import Split

DAYS = 14
RULE = Rule()
METRIC = Metric("revenue_per_user", "mean", "Σ revenue / units")
SPLITS = (Split(9_000, 1_000), Split(27_000, 3_000), Split(5_000, 5_000))
WINDOWS: Mapping[str, tuple[bool, Span, bool]] = {
    "one day": (False, (9, 9), False),
    "three days": (False, (7, 9), False),
    "seven days": (False, (7, 13), False),
    "all up to day 5": (False, (0, 4), True),
    "all": (False, (0, DAYS - 1), True),
    "fourth day since entry": (True, (3, 3), False),
    "first week since entry": (True, (0, 6), True),
}
"""Whether by days since entry, the days, and whether units count from entry on."""


class Units(NamedTuple):
    """One variant: day of entry, active days, and cents spent by day."""

    entry: Integers
    active: Bools
    spent: Integers


def units_of(rng: np.random.Generator, units: int) -> Units:
    """Units that enter over the first week, come back, and buy on 2 % of their days."""
    entry = rng.integers(0, 7, units)
    day = np.arange(DAYS)
    returns = rng.random((units, DAYS)) < rng.beta(1.5, 2.5, units)[:, None]
    active = (day == entry[:, None]) | ((day > entry[:, None]) & returns)
    buys = active & (rng.random((units, DAYS)) < 0.02)
    spent = np.zeros((units, DAYS), dtype=np.int64)
    spent[buys] = np.rint(100 * rng.lognormal(2, 1, int(buys.sum())))
    return Units(entry, active, spent)


def courses(control: Units, treatment: Units, known: bool = True) -> tuple[Course, Course]:
    """The metric by day and by days since entry."""
    arms = {"a": control, "b": treatment}
    labels = tuple(str(day) for day in range(DAYS))
    by_day = metric_days(
        {
            n: Arm(one.entry, one.active, one.spent, one.active.astype(np.int64))
            for n, one in arms.items()
        },
        True,
    )
    strata = ((*range(DAYS),),)
    axis = build_calendar_axis(by_day.sum_days(), "a", strata, labels, frozenset())
    what = None
    if known:
        what = find_skewness_inputs(METRIC, _thirds(arms, labels), Arms("a", "b"), labels)
    return Course(METRIC, "b", axis, what), Course(
        METRIC, "b", build_entry_axis(by_day, "a", strata), what
    )


def _thirds(arms: Mapping[str, Units], labels: tuple[str, ...]) -> ThirdMoments:
    def moments(values: Floats) -> Moments:
        return Moments.build_with_third(values, np.ones(len(values)))

    days = {
        label: {name: moments(one.spent[one.active[:, d], d]) for name, one in arms.items()}
        for d, label in enumerate(labels)
    }
    return ThirdMoments(days, {name: moments(one.spent.sum(axis=1)) for name, one in arms.items()})


def judged(control: Units, treatment: Units) -> dict[str, tuple[Comparison, Comparison]]:
    """Window → as it is judged, and by Welch's test."""
    both = courses(control, treatment), courses(control, treatment, known=False)
    windows = {}
    for name, (by_age, span, entered) in WINDOWS.items():
        now, before = (one[by_age].effect(span, RULE, entered) for one in both)
        windows[name] = now, before
    return windows


def measure_split(split: Split, repetitions: int, seed: int) -> Iterator[Record]:
    """Measure how many A/A experiments reject in each window, of those with an answer."""
    rng = np.random.default_rng([seed, 29, *split])
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in WINDOWS}
    for _ in range(repetitions):
        both = judged(units_of(rng, split.control), units_of(rng, split.treatment))
        for name, (now, before) in both.items():
            seen[name].append((_sign(now), _sign(before)))
    for name, pairs in seen.items():
        now, before = np.array(pairs).T
        answered = now[~np.isnan(now)]
        sides = float(np.mean(answered > 0)), float(np.mean(answered < 0))
        yield {
            "split": f"{split}",
            "window": name,
            "Welch rejects, %": float(np.nanmean(before != 0)),
            "refused, %": 1 - answered.size / repetitions,
            "rejected, %": sum(sides),
            "more often on a side, %": max(sides),
        }


def _sign(one: Comparison) -> float:
    """−1 or 1 where the test rejects, 0 where not, NaN where there is none."""
    if one.effect is None:
        return float("nan")
    return float(np.sign(one.effect.difference)) if one.effect.p_value < RULE.alpha else 0.0


TABLES = {"windows": Table(measure_split, SPLITS)}
