"""Levels of means at uneven splits, as an analysis judges them, beside Welch's test.

    python -m benchmarks.calibration.skew --repetitions 10000

Each cell draws the units of both variants anew and judges them as the analysis does (`at_once.py`);
Welch's test is what would run instead. Half of the power is of a gain, half of a loss, of 2.8
standard errors; values with an effect are those without, each so many times as large.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments
from abeval.stats.records import Floats
from benchmarks.calibration.at_once import Flags, arm, covers, covers_difference, judge, welch

SHARES = (0.5, 0.2, 0.1, 0.01)
UNITS = (100, 200, 1_000, 3_000, 10_000)
BUYERS = 0.03
MOST_DRAWS = 6e8
"""Values drawn for a cell; cells of many units have fewer repetitions."""

AT_ONCE = 4_000_000
METRIC = Metric("value", "mean", "Σ value / units")
POWER_AT = 2.8

Generator = np.random.Generator
Draw = Callable[[Generator, int, int, float], Floats]
"""Σy, Σy² and Σy³ of so many experiments with so many units whose values are so many times those
of control, shape (experiments, 3)."""


def _powers(values: Floats) -> Floats:
    return np.stack([values.sum(axis=-1), (values**2).sum(axis=-1), (values**3).sum(axis=-1)], -1)


def dense(values: Callable[[Generator, tuple[int, int]], Floats]) -> Draw:
    """Draws every unit."""

    def draw(random: Generator, runs: int, units: int, times: float) -> Floats:
        some = max(1, AT_ONCE // units)
        parts = [
            _powers(times * values(random, (min(some, runs - done), units)))
            for done in range(0, runs, some)
        ]
        return np.concatenate(parts)

    return draw


def _normal(random: Generator, runs: int, units: int, times: float) -> Floats:
    """Around 1; `times` is the mean. Sums of normal values, drawn as such."""
    mean = times + random.normal(0, 1 / math.sqrt(units), runs)
    square = random.chisquare(units - 1, runs)
    cube = random.normal(0, math.sqrt(6 * units), runs)
    total = units * mean
    squares = square + units * mean**2
    return np.stack([total, squares, cube + 3 * mean * squares - 2 * units * mean**3], axis=1)


def buyers(sigma: float, share: float = BUYERS, price: float = 1.0) -> Draw:
    """Draws the buyers, and what each spends: lognormal, so many times `price`."""

    def some(random: Generator, runs: int, units: int, times: float) -> Floats:
        counts = random.binomial(units, share, runs)
        spent = times * price * np.exp(sigma * random.standard_normal(int(counts.sum())))
        who = np.repeat(np.arange(runs), counts)
        return np.stack([np.bincount(who, spent**power, runs) for power in (1, 2, 3)], axis=1)

    def draw(random: Generator, runs: int, units: int, times: float) -> Floats:
        at_once = max(1, round(AT_ONCE / units / share))
        parts = [
            some(random, min(at_once, runs - done), units, times)
            for done in range(0, runs, at_once)
        ]
        return np.concatenate(parts)

    return draw


def _converted(rate: float) -> Draw:
    def draw(random: Generator, runs: int, units: int, times: float) -> Floats:
        successes = random.binomial(units, min(rate * times, 1.0), runs).astype(float)
        return np.stack([successes] * 3, axis=1)

    return draw


class World(NamedTuple):
    """Values of units: how they are drawn, and their mean and standard deviation in control."""

    draw: Draw
    mean: float
    sd: float


def _spent(sigma: float) -> World:
    mean = BUYERS * math.exp(sigma**2 / 2)
    return World(buyers(sigma), mean, math.sqrt(BUYERS * math.exp(2 * sigma**2) - mean**2))


def _rate(rate: float) -> World:
    return World(_converted(rate), rate, math.sqrt(rate * (1 - rate)))


def _pareto(random: Generator, shape: tuple[int, int]) -> Floats:
    return np.asarray(np.exp(random.standard_exponential(shape) / 2.5))


WORLDS = {
    "3 % buyers, lognormal σ 1": _spent(1.0),
    "3 % buyers, lognormal σ 1.5": _spent(1.5),
    "conversion .3 %": _rate(0.003),
    "conversion 3 %": _rate(0.03),
    "conversion 30 %": _rate(0.3),
    "Pareto 2.5": World(dense(_pareto), 2.5 / 1.5, math.sqrt(2.5 / 1.5**2 / 0.5)),
    "normal": World(_normal, 1.0, 1.0),
}
SCALED = ("3 % buyers, lognormal σ 1", "3 % buyers, lognormal σ 1.5", "Pareto 2.5")
"""Worlds whose values with an effect are those without, times a number."""


class Cell(NamedTuple):
    """Results of one cell, as shares.

    Attributes:
        world: Name of the values.
        share: Of units in the smaller variant, the treatment.
        units: Of the smaller variant.
        runs: A/A tests.
        welch: A/A tests that Welch's test rejects.
        welch_side: The larger of its two one-sided shares.
        refused: A/A tests without an answer.
        permuted: A/A tests that the test of skewed values answers.
        exact: A/A tests that the exact test answers.
        rejected: A/A tests that are rejected, of those with an answer.
        error: Monte Carlo standard error of that.
        side: The larger of the two one-sided shares, of those with an answer.
        covered: Intervals of the lift that cover a true gain or loss, of those with an answer by
            another than the exact test.
        covered_difference: The same of the difference.
        power: Of tests with a true effect, those rejected in its direction.
        welch_power: The same of Welch's test.
    """

    world: str
    share: float
    units: int
    runs: int
    welch: float
    welch_side: float
    refused: float
    permuted: float
    exact: float
    rejected: float
    error: float
    side: float
    covered: float
    covered_difference: float
    power: float
    welch_power: float


def cells(
    runs: int,
    seed: int = 0,
    worlds: Sequence[str] = tuple(WORLDS),
    shares: Sequence[float] = SHARES,
    sizes: Sequence[int] = UNITS,
) -> Iterator[Cell]:
    """Results of every world, split and size."""
    for name in worlds:
        for share in shares:
            for units in sizes:
                yield cell(name, share, units, runs, seed)


def cell(name: str, share: float, units: int, runs: int, seed: int = 0) -> Cell:
    """Results of one cell.

    Args:
        name: A world.
        share: Of units in treatment.
        units: Of the treatment.
        runs: A/A tests, and as many with a gain or a loss.
        seed: Of the values.
    """
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
    return Cell(
        name,
        share,
        units,
        runs,
        _mean(before != 0),
        _side(before),
        _mean(null.refused),
        _mean(null.permuted),
        _mean(null.exact),
        rejected,
        math.sqrt(rejected * (1 - rejected) / answered.size) if answered.size else math.nan,
        _side(answered),
        _mean(covered[0][~np.isnan(covered[0])]),
        _mean(covered[1][~np.isnan(covered[1])]),
        _mean(power),
        _mean(welch_power),
    )


def _mean(values: Floats | Flags) -> float:
    return float(np.mean(values)) if values.size else math.nan


def _side(signs: Floats) -> float:
    return max(_mean(signs > 0), _mean(signs < 0))


def moments(sums: Floats, units: int) -> Moments:
    """Moments of (y, 1) over units, from Σy, Σy² and Σy³."""
    total, square, cube = (float(value) for value in sums)
    mean = total / units
    centred = square - total * mean
    third = cube - 3 * mean * square + 2 * total * mean * mean
    comoment, thirds = np.zeros((2, 2)), np.zeros((2, 2, 2))
    comoment[0, 0] = centred if centred > 1e-12 * square else 0.0
    thirds[0, 0, 0] = third
    return Moments(units, np.array([mean, 1.0]), comoment, third=thirds)


def markdown(rows: Iterator[Cell]) -> Iterator[str]:
    """Lines of the table for the documentation."""
    names = [
        *("values", "split", "units, smaller", "Welch rejects, %", "more often on a side, %"),
        *("refused, %", "skewed test, %", "exact test, %", "rejected, %", "± error"),
        *(
            "more often on a side, %",
            "coverage of a lift, %",
            "of a difference, %",
            "power, %",
            "Welch's power, %",
        ),
        "repetitions",
    ]
    yield f"| {' | '.join(names)} |"
    yield f"|---|---|{'--:|' * 14}"
    for row in rows:
        split = f"{100 - 100 * row.share:g}/{100 * row.share:g}"
        digits = [2 if name == "error" else 1 for name in Cell._fields[4:]]
        pairs = zip(row[4:], digits, strict=True)
        shares = " | ".join("" if math.isnan(v) else f"{100 * v:.{d}f}" for v, d in pairs)
        yield f"| {row.world} | {split} | {row.units:,} | {shares} | {row.runs:,} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.skew")
    parser.add_argument("--repetitions", type=int, default=10_000, help="A/A tests per row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", action="append", choices=list(WORLDS), help="only this one")
    parser.add_argument("--share", type=float, choices=SHARES, help="only this share of units")
    parser.add_argument("--units", type=int, choices=UNITS, help="only so many in the smaller arm")
    options = parser.parse_args()
    chosen = options.world or list(WORLDS)
    shares = [options.share] if options.share else SHARES
    units = [options.units] if options.units else UNITS
    for line in markdown(cells(options.repetitions, options.seed, chosen, shares, units)):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
