"""Few buyers among few units: as an analysis judges them.

    python -m benchmarks.calibration.few_buyers --repetitions 2000

A share of units buys for lognormal amounts, or all have a Pareto value; an effect has more buyers,
or larger baskets. `fewer, larger` has the same mean by a third fewer buyers who spend half as much
more.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments
from abeval.stats.records import Floats

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
        refused: Without a p-value.
        worse: Rejected with a lower treatment.
        better: Rejected with a higher one.
        bounded: Lifts with both ends, of those that are computed.
        covered: Intervals of the difference that hold the true one, of the same.
    """

    refused: float
    worse: float
    better: float
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


def cell(world: str, split: tuple[int, int], effect: str, runs: int, seed: int = 0) -> Cell:
    """Judge the experiments of one cell as an analysis does."""
    random = np.random.default_rng([seed, *split, list(EFFECTS).index(effect), len(world)])
    mean = 2.5 / 1.5 if world == PARETO else BUYERS[world][0] * np.exp(BUYERS[world][1] ** 2 / 2)
    truth = (float(np.prod(EFFECTS[effect])) - 1) * mean
    rows = list[list[float]]()
    for _ in range(runs):
        pair = zip(split, ((1.0, 1.0), EFFECTS[effect]), strict=True)
        control, treatment = (
            Moments.build_with_third(values(random, world, n, e), np.ones(n)) for n, e in pair
        )
        judged = compare_moments(METRIC, control, treatment, Rule(ALPHA))
        test, lift = judged.effect, judged.lift
        if test is None:
            rows.append([1.0, 0.0, 0.0, np.nan, np.nan])
            continue
        rejected, is_lower = test.p_value < ALPHA, test.difference < 0
        ends = lift is not None and lift.bounded, test.low <= truth <= test.high
        rows.append([0.0, *map(float, (rejected and is_lower, rejected and not is_lower, *ends))])
    return Cell(*np.nanmean(rows, axis=0).tolist())


def markdown(
    worlds: list[str],
    splits: list[tuple[int, int]],
    effects: list[str],
    options: argparse.Namespace,
) -> Iterator[str]:
    """Lines of the table."""
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
                one = cell(world, split, effect, options.repetitions, options.seed)
                shares = [f"{100 * share:.1f}" for share in one]
                units = f"{split[0]:,}/{split[1]:,}"
                yield f"| {world} | {units} | {effect} | {' | '.join(shares)} |"


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
    for line in markdown(options.world or worlds, splits, effects, options):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
