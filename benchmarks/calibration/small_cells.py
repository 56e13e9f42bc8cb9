"""Calibration of the tests of one effect, and of one lift, over many cells of few units.

    python -m benchmarks.calibration.small_cells

A/A tests. Each is judged as chi-square, which takes errors for known; by F with each variant's own
errors, as cells are that Welch's test judges; and by F with pooled errors, as cells are that the
test of skewed values or of few successes judges.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import heterogeneity
from abeval.stats.effects import compare
from abeval.stats.heterogeneity import pool_variances
from abeval.stats.records import Estimate, Floats
from benchmarks.calibration.logs import Split

ALPHA = 0.05

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
Pair = tuple[Estimate, Estimate]


class World(NamedTuple):
    """Cells, units of each in both variants, and values, shape (cells, units)."""

    name: str
    cells: int
    split: Split
    values: Draw


def normal(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Values around 10."""
    return random.normal(10, 3, shape)


def counts(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Counts of users who differ, 5 on average."""
    return random.poisson(random.gamma(1, 5, shape)).astype(float)


def share_of(rate: float) -> Draw:
    """Values of 0 and 1."""
    return lambda random, shape: (random.random(shape) < rate).astype(float)


WORLDS = (
    World("normal", 100, Split(5, 5), normal),
    World("normal", 40, Split(30, 30), normal),
    World("normal", 100, Split(30, 30), normal),
    World("normal", 100, Split(100, 100), normal),
    World("counts", 100, Split(5, 5), counts),
    World("counts", 100, Split(30, 30), counts),
    World("counts", 40, Split(270, 30), counts),
    World("counts", 100, Split(270, 30), counts),
    World("counts", 40, Split(900, 100), counts),
    World("a fifth are 1", 40, Split(270, 30), share_of(0.2)),
    World("1 in 20 is 1", 40, Split(100, 100), share_of(0.05)),
    World("1 in 20 is 1", 40, Split(270, 30), share_of(0.05)),
)


def cells_of(world: World, random: np.random.Generator) -> list[Pair]:
    """Control and treatment of each cell in which the values vary."""
    arms = [
        [
            Estimate(float(mean), float(variance) / n, n, n - 1.0)
            for mean, variance in zip(values.mean(axis=1), values.var(axis=1, ddof=1), strict=True)
        ]
        for n in world.split
        for values in [world.values(random, (world.cells, n))]
    ]
    return [(c, t) for c, t in zip(*arms, strict=True) if c.variance + t.variance > 0]


def _known(pair: Pair) -> Pair:
    control, treatment = (one._replace(df=np.inf) for one in pair)
    return control, treatment


def p_values(cells: Sequence[Pair]) -> tuple[float, float]:
    """Of one difference and of one lift in all cells."""
    effects = [compare(*pair) for pair in cells]
    columns = ([getattr(one, name) for one in effects] for name in ("difference", "se", "df"))
    return (
        heterogeneity.cochran(*columns).p_value,
        heterogeneity.lifts([c for c, _ in cells], [t for _, t in cells]).p_value,
    )


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.small_cells")
    parser.add_argument("--repetitions", type=int, default=1000)
    repetitions, write = parser.parse_args().repetitions, sys.stdout.write
    names = [
        f"{test}, {how}" for how in ("χ²", "F", "F, pooled") for test in ("difference", "lift")
    ]
    write(f"| values | cells | units of each | {' | '.join(names)} |\n|---|--:|--:|{'--:|' * 6}\n")
    for world in WORLDS:
        random = np.random.default_rng(0)
        rejected = np.zeros(6)
        for _ in range(repetitions):
            cells = cells_of(world, random)
            judged = (
                [_known(pair) for pair in cells],
                cells,
                [pool_variances(*pair) for pair in cells],
            )
            rejected += [p <= ALPHA for pairs in judged for p in p_values(pairs)]
        shares = " | ".join(f"{100 * one / repetitions:.1f}" for one in rejected)
        write(f"| {world.name} | {world.cells} | {world.split} | {shares} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
