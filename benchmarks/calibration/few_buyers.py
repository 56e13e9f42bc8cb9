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

from abeval.inference import special_tests
from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.stats import means
from abeval.stats.moments import Moments, Units
from abeval.stats.records import Floats
from abeval.stats.split_moments import at

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
        bounded: Lifts with both ends, by units, of those that are computed.
        covered: Intervals of the difference that hold the true one, of the same.
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


def cell(
    world: str, split: tuple[int, int], effect: str, runs: int, intervals: int, seed: int = 0
) -> Cell:
    """Results of one cell; whole comparisons with intervals for some of the runs."""
    random = np.random.default_rng([seed, *split, list(EFFECTS).index(effect), len(world)])
    truth = float(np.prod(EFFECTS[effect])) - 1
    mean = 2.5 / 1.5 if world == PARETO else BUYERS[world][0] * np.exp(BUYERS[world][1] ** 2 / 2)
    rows, ends = list[list[float]](), list[tuple[float, float]]()
    for run in range(runs):
        pair = zip(split, ((1.0, 1.0), EFFECTS[effect]), strict=True)
        control, treatment = (moments(values(random, world, n, e)) for n, e in pair)
        sums = replace(control, each=None), replace(treatment, each=None)
        rows.append([*signs(control, treatment), *signs(*sums)])
        if run < intervals:
            whole = compare_moments(METRIC, control, treatment, Rule(ALPHA))
            found, lift = whole.effect, whole.lift
            rejected = found is not None and found.p_value < ALPHA
            if rejected != any(rows[-1][1:3]):
                raise RuntimeError("the p-value is not that of the analysis")
            if found is not None:
                holds = found.low <= truth * mean <= found.high
                ends.append((float(lift is not None and lift.bounded), float(holds)))
    refused, worse, better, *others = np.mean(rows, axis=0).tolist()
    bounded, covered = np.mean(ends, axis=0).tolist() if ends else (np.nan, np.nan)
    return Cell((refused, others[0]), (worse, others[1]), (better, others[2]), bounded, covered)


def signs(control: Moments, treatment: Moments) -> tuple[float, float, float]:
    """Whether an experiment is refused, worse, better: `compare_moments` without its intervals."""
    arms = control.pick(0), treatment.pick(0)
    compared = special_tests.by_moments(METRIC, *arms)
    if not (control.comoment[0, 0] or treatment.comoment[0, 0]):
        return 1.0, 0.0, 0.0
    if compared is None:
        effect = means.welch(*arms)
        rejected = effect.p_value < ALPHA
        return (
            0.0,
            float(rejected and effect.difference < 0),
            float(rejected and effect.difference > 0),
        )
    try:
        special_tests.check_holds(compared)
    except special_tests.TooSkewed:
        return 1.0, 0.0, 0.0
    test = at(compared, 1.0 if compared.scaled else 0.0)
    return 0.0, float(test.lower[0] < ALPHA / 2), float(test.upper[0] < ALPHA / 2)


def markdown(
    worlds: list[str],
    splits: list[tuple[int, int]],
    effects: list[str],
    options: argparse.Namespace,
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
                runs, intervals = options.repetitions, options.intervals
                one = cell(world, split, effect, runs, intervals, options.seed)
                pairs = [f"{100 * a:.1f} ({100 * b:.1f})" for a, b in one[:3]]
                shares = [f"{100 * share:.1f}" for share in one[3:]]
                units = f"{split[0]:,}/{split[1]:,}"
                yield f"| {world} | {units} | {effect} | {' | '.join([*pairs, *shares])} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.few_buyers")
    worlds = [*BUYERS, PARETO]
    parser.add_argument("--repetitions", type=int, default=2_000, help="experiments per row")
    parser.add_argument("--intervals", type=int, default=100, help="of them with intervals")
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
