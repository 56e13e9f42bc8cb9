"""Few buyers among few units, whose values are known: as an analysis judges them.

    python -m benchmarks.calibration.few_buyers --repetitions 2000

The permutation of units (`stats.permuted_units`), beside the same choice by sums alone, which
judges cells, windows and logs of more units. A share of units buys for lognormal amounts, or all
have a Pareto value; an effect has more buyers, or larger baskets. `fewer, larger` has the same mean
by a third fewer buyers who spend half as much more.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.inference.comparison import Comparison, Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.stats.arrays import Floats
from abeval.stats.moments import Moments, Units

ALPHA = 0.05
METRIC = Metric("spent", "mean", "Σ spent / units")
SPLITS = ((300, 300), (1_600, 200), (2_000, 2_000), (10_000, 200))
BUYERS = {
    "5 % buyers, σ 1": (0.05, 1.0),
    "5 % buyers, σ 1.5": (0.05, 1.5),
    "1 % buyers, σ 1": (0.01, 1.0),
}
PARETO = "Pareto 2.5"
EFFECTS = {
    "nothing": (1.0, 1.0),
    "more buyers": (1.8, 1.0),
    "fewer buyers": (0.4, 1.0),
    "larger baskets": (1.0, 2.0),
    "smaller baskets": (1.0, 0.4),
    "fewer, larger": (2 / 3, 1.5),
    "more, smaller": (1.5, 2 / 3),
}
"""How many times as many buyers, and how many times as much each."""

Generator = np.random.Generator


class Cell(NamedTuple):
    """Results of one world, split and effect, as shares of repetitions.

    Attributes:
        refused: Without a p-value, by units and by sums alone.
        worse: Rejected with a lower treatment, by each.
        better: Rejected with a higher one.
        bounded: Lifts with both ends, by units.
        covered: Intervals of the difference that hold the true one, by units.
    """

    refused: tuple[float, float]
    worse: tuple[float, float]
    better: tuple[float, float]
    bounded: float
    covered: float


def values(random: Generator, world: str, units: int, effect: tuple[float, float]) -> Floats:
    """Values of units that an effect made."""
    more, larger = effect
    if world == PARETO:
        return np.asarray(more * larger * np.exp(random.standard_exponential(units) / 2.5))
    share, sigma = BUYERS[world]
    buys = random.random(units) < share * more
    return np.where(buys, larger * random.lognormal(0.0, sigma, units), 0.0)


def moments(y: Floats) -> Moments:
    """Moments of (y, 1) with the values of the units, as an analysis of few units has them."""
    rows, counts = np.unique(y, return_counts=True)
    each = Units(np.stack([rows, np.ones(rows.size)], axis=1), counts)
    return replace(Moments.with_third(y, np.ones(y.size)), each=each)


def cell(world: str, split: tuple[int, int], effect: str, runs: int, seed: int = 0) -> Cell:
    """Results of one cell."""
    random = np.random.default_rng([seed, *split, list(EFFECTS).index(effect), len(world)])
    truth = float(np.prod(EFFECTS[effect])) - 1
    mean = 2.5 / 1.5 if world == PARETO else BUYERS[world][0] * np.exp(BUYERS[world][1] ** 2 / 2)
    rows = []
    for _ in range(runs):
        pair = [
            values(random, world, n, e)
            for n, e in zip(split, ((1.0, 1.0), EFFECTS[effect]), strict=True)
        ]
        arms = [moments(y) for y in pair]
        by_units = compare_moments(METRIC, *arms, Rule(ALPHA))
        by_sums = compare_moments(METRIC, *(replace(arm, each=None) for arm in arms), Rule(ALPHA))
        found = by_units.effect
        covered = np.nan if found is None else float(found.low <= truth * mean <= found.high)
        bounded = by_units.lift is not None and by_units.lift.bounded
        rows.append([*_signs(by_units), *_signs(by_sums), float(bounded), covered])
    refused, worse, better, *others, bounded, covered = np.nanmean(rows, axis=0).tolist()
    return Cell((refused, others[0]), (worse, others[1]), (better, others[2]), bounded, covered)


def _signs(comparison: Comparison) -> tuple[float, float, float]:
    """Whether it is refused, worse, better."""
    effect = comparison.effect
    if effect is None:
        return 1.0, 0.0, 0.0
    rejected = effect.p_value < ALPHA
    return 0.0, float(rejected and effect.difference < 0), float(rejected and effect.difference > 0)


def markdown(
    worlds: list[str], splits: list[tuple[int, int]], effects: list[str], runs: int, seed: int
) -> Iterator[str]:
    """Lines of the table: by units, and by sums alone in parentheses."""
    yield (
        "| values | units | effect | refused, % | worse, % | better, % | lift bounded, % | "
        "difference covered, % |"
    )
    yield "|---|--:|---|--:|--:|--:|--:|--:|"
    for world in worlds:
        for split in splits:
            for effect in effects:
                if world == PARETO and effect in ("fewer, larger", "more, smaller"):
                    continue
                one = cell(world, split, effect, runs, seed)
                pairs = [f"{100 * a:.1f} ({100 * b:.1f})" for a, b in one[:3]]
                shares = [f"{100 * share:.1f}" for share in one[3:]]
                units = f"{split[0]:,}/{split[1]:,}"
                yield f"| {world} | {units} | {effect} | {' | '.join([*pairs, *shares])} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.few_buyers")
    worlds = [*BUYERS, PARETO]
    parser.add_argument("--repetitions", type=int, default=2_000, help="experiments per row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", action="append", choices=worlds, help="only this one")
    parser.add_argument("--split", type=int, choices=range(len(SPLITS)), help="only this one")
    parser.add_argument("--effect", action="append", choices=list(EFFECTS), help="only this one")
    options = parser.parse_args()
    splits = list(SPLITS) if options.split is None else [SPLITS[options.split]]
    effects = options.effect or list(EFFECTS)
    lines = markdown(options.world or worlds, splits, effects, options.repetitions, options.seed)
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
