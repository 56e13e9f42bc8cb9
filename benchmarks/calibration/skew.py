"""Levels of means at uneven splits, as an analysis judges them, beside Welch's test.

    python -m benchmarks.calibration.skew --repetitions 10000

Each cell draws the units of both variants anew, and `compare_moments` judges them; Welch's test is
what would run instead. Half of the power is of a gain, half of a loss, of 2.8 standard errors.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from abeval.inference.comparison import Comparison, Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.stats import means
from abeval.stats.arrays import Floats
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

ALPHA = 0.05
SHARES = (0.5, 0.2, 0.1, 0.01)
UNITS = (100, 200, 1_000, 3_000, 10_000)
BUYERS = 0.03
MOST_DRAWS = 4e8
"""Values drawn for a cell; cells of many units have fewer repetitions."""

AT_ONCE = 4_000_000
METRIC = Metric("value", "mean", "Σ value / units")
POWER_AT = 2.8

Generator = np.random.Generator
Draw = Callable[[Generator, int, int, float], Floats]
"""Σy, Σy² and Σy³ of so many experiments with so many units whose values are so many times those
of control, shape (experiments, 3)."""


def _powers(values: Floats) -> Floats:
    return np.stack([(values**power).sum(axis=-1) for power in (1, 2, 3)], axis=-1)


def _dense(values: Callable[[Generator, tuple[int, int]], Floats]) -> Draw:
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


def _buyers(sigma: float) -> Draw:
    def some(random: Generator, runs: int, units: int, times: float) -> Floats:
        counts = random.binomial(units, BUYERS, runs)
        spent = times * random.lognormal(0, sigma, int(counts.sum()))
        ends = np.cumsum(counts)
        return np.array(
            [_powers(spent[end - n : end]) for n, end in zip(counts, ends, strict=True)]
        )

    def draw(random: Generator, runs: int, units: int, times: float) -> Floats:
        at_once = max(1, round(AT_ONCE / units / BUYERS))
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
    return World(_buyers(sigma), mean, math.sqrt(BUYERS * math.exp(2 * sigma**2) - mean**2))


def _rate(rate: float) -> World:
    return World(_converted(rate), rate, math.sqrt(rate * (1 - rate)))


def _pareto(random: Generator, shape: tuple[int, int]) -> Floats:
    return random.pareto(2.5, shape) + 1


WORLDS = {
    "3 % buyers, lognormal σ 1": _spent(1.0),
    "3 % buyers, lognormal σ 1.5": _spent(1.5),
    "conversion .3 %": _rate(0.003),
    "conversion 3 %": _rate(0.03),
    "Pareto 2.5": World(_dense(_pareto), 2.5 / 1.5, math.sqrt(2.5 / 1.5**2 / 0.5)),
    "conversion 30 %": _rate(0.3),
    "normal": World(_normal, 1.0, 1.0),
}


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
        permuted: A/A tests that the permutation test answers.
        rejected: A/A tests that are rejected, of those with an answer.
        side: The larger of the two one-sided shares, of those with an answer.
        covered: Intervals that cover a true gain or loss, of those with an answer.
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
    rejected: float
    side: float
    covered: float
    power: float
    welch_power: float


class Verdict(NamedTuple):
    """One experiment: the sign of what Welch's test and the analysis reject, and the interval."""

    welch: int
    sign: float
    permuted: bool
    covered: float


def cells(runs: int, seed: int = 0) -> Iterator[Cell]:
    """Results of every world, split and size."""
    for name in WORLDS:
        for share in SHARES:
            for units in UNITS:
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
    null = _verdicts(world, random, (others, units), runs, 0.0)
    effect = POWER_AT * world.sd * math.sqrt(1 / units + 1 / others) / world.mean
    loss = -min(effect, 0.9)
    gains = _verdicts(world, random, (others, units), runs // 2, effect)
    losses = _verdicts(world, random, (others, units), runs // 2, loss)
    answered = [v for v in null if not math.isnan(v.sign)]
    signs = np.array([v.sign for v in answered] or [math.nan])
    welch = np.array([v.welch for v in null])
    both = [(v, 1) for v in gains] + [(v, -1) for v in losses]
    return Cell(
        name,
        share,
        units,
        runs,
        float((welch != 0).mean()),
        _side(welch),
        1 - len(answered) / len(null),
        sum(v.permuted for v in null) / len(null),
        float((signs != 0).mean()) if answered else math.nan,
        _side(signs) if answered else math.nan,
        _mean([v.covered for v, _ in both if not math.isnan(v.covered)]),
        sum(v.sign == sign for v, sign in both) / len(both),
        sum(v.welch == sign for v, sign in both) / len(both),
    )


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _side(signs: Floats) -> float:
    return float(max((signs > 0).mean(), (signs < 0).mean()))


def _verdicts(
    world: World, random: Generator, sizes: tuple[int, int], runs: int, lift: float
) -> list[Verdict]:
    control = world.draw(random, runs, sizes[0], 1.0)
    treatment = world.draw(random, runs, sizes[1], 1 + lift)
    pairs = zip(control, treatment, strict=True)
    return [
        verdict(moments(c, sizes[0]), moments(t, sizes[1]), world.mean * lift) for c, t in pairs
    ]


def verdict(control: Moments, treatment: Moments, difference: float) -> Verdict:
    """Decisions of Welch's test and of the analysis."""
    result = compare_moments(METRIC, control, treatment, Rule(ALPHA))
    try:
        welch = means.welch(control, treatment, ALPHA)
        welch_sign = int(np.sign(welch.statistic)) if welch.p_value < ALPHA else 0
    except Refusal:
        welch_sign = 0
    return Verdict(welch_sign, *_decided(result, difference))


def _decided(result: Comparison, difference: float) -> tuple[float, bool, float]:
    effect = result.effect
    if effect is None:
        return math.nan, False, math.nan
    sign = float(np.sign(effect.difference)) if effect.p_value < ALPHA else 0.0
    covered = effect.low - 1e-12 <= difference <= effect.high + 1e-12
    return sign, result.permuted is not None, float(covered)


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
        *("refused, %", "permuted, %", "rejected, %", "more often on a side, %"),
        *("coverage of an effect, %", "power, %", "Welch's power, %", "repetitions"),
    ]
    yield f"| {' | '.join(names)} |"
    yield f"|---|---|{'--:|' * 11}"
    for row in rows:
        split = f"{100 - 100 * row.share:g}/{100 * row.share:g}"
        shares = " | ".join("" if math.isnan(v) else f"{100 * v:.1f}" for v in row[4:])
        yield f"| {row.world} | {split} | {row.units:,} | {shares} | {row.runs:,} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.skew")
    parser.add_argument("--repetitions", type=int, default=10_000, help="A/A tests per row")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for line in markdown(cells(options.repetitions, options.seed)):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
