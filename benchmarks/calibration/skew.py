"""Levels of means at uneven splits, as an analysis judges them, beside Welch's test.

Each cell draws the units of both variants anew and judges them as the analysis does (`at_once.py`);
Welch's test is what would run instead. Half of the power is of a gain, half of a loss, of 2.8
standard errors; values with an effect are those without, each so many times as large.
"""

import math

import numpy as np

from abeval.metrics.definition import Metric
from abeval.stats.records import Floats
from benchmarks.calibration.at_once import Flags, arm, covers, covers_difference, judge, welch
from benchmarks.runner import Record, Table
from tests.worlds.skewed import SCALED, WORLDS

SHARES = (0.5, 0.2, 0.1, 0.01)
UNITS = (100, 200, 1_000, 3_000, 10_000)
MOST_DRAWS = 6e8
"""Values drawn for a cell; cells of many units have fewer repetitions."""

METRIC = Metric("value", "mean", "Σ value / units")
POWER_AT = 2.8


def measure_cell(cell: tuple[str, float, int], repetitions: int, seed: int) -> Record:
    """Judge A/A tests of a world, a share of units in treatment and its units; then of effects.

    Levels are of tests with an answer; coverage of those that another than the exact test answers;
    power is of gains and losses that are rejected in their direction.
    """
    (name, share, units), runs = cell, repetitions
    world, others = WORLDS[name], round(units * (1 - share) / share)
    random = np.random.default_rng([seed, list(WORLDS).index(name), round(1000 * share), units])
    if name == "Pareto 2.5":
        runs = max(100, min(runs, int(MOST_DRAWS / (units + others))))
    control = arm(world.draw(random, runs, others, 1.0), others)
    treatment = arm(world.draw(random, runs, units, 1.0), units)
    null, before = judge(control, treatment), welch(control, treatment).sign
    answered = null.sides.sign[~null.refused]
    effect = POWER_AT * world.sd * math.sqrt(1 / units + 1 / others) / world.mean
    half, found = runs // 2, list[tuple[Floats | Flags, ...]]()
    for side, lift, part in ((1, effect, slice(half)), (-1, -min(effect, 0.9), slice(half, None))):
        whole = control.part(part)
        if name in SCALED:
            moved = treatment.part(part).times(1 + lift)
        else:
            moved = arm(world.draw(random, whole.total.size, units, 1 + lift), units)
        judged = judge(whole, moved)
        found.append(
            (
                judged.sides.sign == side,
                welch(whole, moved).sign == side,
                covers(whole, moved, lift, judged),
                covers_difference(whole, moved, lift * world.mean, judged),
            )
        )
    power, welch_power, *covered = (np.concatenate(one) for one in zip(*found, strict=True))
    rejected = _mean(answered != 0)
    shares = {
        "Welch rejects, %": _mean(before != 0),
        "Welch more often on a side, %": _side(before),
        "refused, %": _mean(null.refused),
        "skewed test, %": _mean(null.permuted),
        "exact test, %": _mean(null.exact),
        "rejected, %": rejected,
        "± error": f"{100 * math.sqrt(rejected * (1 - rejected) / max(answered.size, 1)):.2f}",
        "more often on a side, %": _side(answered),
        "coverage of a lift, %": _mean(covered[0][~np.isnan(covered[0])]),
        "of a difference, %": _mean(covered[1][~np.isnan(covered[1])]),
        "power, %": _mean(power),
        "Welch's power, %": _mean(welch_power),
    }
    split = f"{100 - 100 * share:g}/{100 * share:g}"
    head = {"values": name, "split": split, "units, smaller": units}
    return {**head, **shares, "repetitions": runs}


def _mean(values: Floats | Flags) -> float:
    return float(np.mean(values)) if values.size else math.nan


def _side(signs: Floats) -> float:
    return max(_mean(signs > 0), _mean(signs < 0))


CELLS = [(world, share, units) for world in WORLDS for share in SHARES for units in UNITS]
TABLES = {"levels": Table(measure_cell, CELLS, repetitions=10_000)}
