"""Levels where means are equal and spreads are not: how the test of skewed values was chosen.

    python -m benchmarks.calibration.spread --repetitions 4000

The treatment has fewer buyers who spend more, or more who spend less, with the same mean. Beside
Welch's test and the test of the analysis, what it might be made of: the permutation test by its
moments alone, Hall's transformation (1992) and Johnson's modified t (1978) by each variant's own
moments. Power is that of a gain and of a loss of 2.8 standard errors where nothing else differs.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from abeval.inference.special_tests import MOST
from benchmarks.calibration.at_once import (
    Arm,
    Flags,
    Sides,
    arm,
    by_moments,
    by_splits,
    hall,
    johnson,
    welch,
)
from benchmarks.calibration.skew import BUYERS, POWER_AT, Draw, buyers, dense

SIZES = ((800, 200), (9_000, 1_000), (27_000, 3_000), (297_000, 3_000))
TESTS: dict[str, Callable[[Arm, Arm], Sides]] = {
    "Welch": welch,
    "permutation alone": lambda control, treatment: by_splits(control, treatment)[0],
    "Hall alone": hall,
    "Johnson alone": johnson,
    "as it is": lambda control, treatment: by_moments(control, treatment)[0],
}


def _gamma(shape: float) -> Draw:
    return dense(lambda random, size: random.gamma(shape, 1 / shape, size))


WORLDS: dict[str, tuple[Draw, Draw]] = {
    f"{name}, lognormal σ {sigma:g}": (
        buyers(sigma),
        buyers(sigma, BUYERS * times, 1 / times),
    )
    for sigma in (1.0, 1.5)
    for name, times in (
        ("the same", 1.0),
        ("a tenth fewer buyers", 0.9),
        ("a third fewer buyers", 2 / 3),
        ("half as many more buyers", 1.5),
    )
} | {
    "gamma .25, gamma .5": (_gamma(0.25), _gamma(0.5)),
    "gamma .5, gamma .25": (_gamma(0.5), _gamma(0.25)),
}


class Cell(NamedTuple):
    """One world and size: shares of A/A tests that each test rejects, and power of both signs."""

    world: str
    sizes: tuple[int, int]
    answered: float
    rejected: list[tuple[float, float]]
    power: list[tuple[float, float]]


def cell(world: str, sizes: tuple[int, int], runs: int, seed: int = 0) -> Cell:
    """Results of one world and size; both sides of each test, of experiments with an answer."""
    random = np.random.default_rng([seed, list(WORLDS).index(world), *sizes])
    draws = zip(WORLDS[world], sizes, strict=True)
    control, treatment = (arm(draw(random, runs, n, 1.0), n) for draw, n in draws)
    answered = np.abs(by_splits(control, treatment)[1]) <= MOST
    rejected = [_sides(test(control, treatment), answered) for test in TESTS.values()]
    power = []
    if world.startswith("the same"):
        mean, variance = control.mean.mean(), float((control.square / sizes[0]).mean())
        effect = POWER_AT * math.sqrt(variance * (1 / sizes[0] + 1 / sizes[1])) / mean
        moved = [treatment.times(1 + lift) for lift in (effect, -min(effect, 0.9))]
        for test in TESTS.values():
            gain, loss = (test(control, one).sign for one in moved)
            power.append((float((gain > 0).mean()), float((loss < 0).mean())))
    return Cell(world, sizes, float(answered.mean()), rejected, power)


def _sides(sides: Sides, answered: Flags) -> tuple[float, float]:
    sign = sides.sign[answered]
    return float((sign < 0).mean()), float((sign > 0).mean())


def markdown(cells: Iterator[Cell]) -> Iterator[str]:
    """Lines of the table: worse + better in %, and power of a gain and of a loss."""
    yield f"| treatment | units | skewness ≤ {MOST}, % | {' | '.join(TESTS)} |"
    yield f"|---|--:|--:|{'--:|' * len(TESTS)}"
    for one in cells:
        units = f"{one.sizes[0]:,}/{one.sizes[1]:,}"
        levels = [f"{100 * (a + b):.1f} ({100 * a:.1f} + {100 * b:.1f})" for a, b in one.rejected]
        answered = f"{100 * one.answered:.0f}"
        yield f"| {one.world} | {units} | {answered} | {' | '.join(levels)} |"
        if one.power:
            power = [f"{100 * gain:.0f}, {100 * loss:.0f}" for gain, loss in one.power]
            yield f"| … power of a gain, of a loss | {units} |  | {' | '.join(power)} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.spread")
    parser.add_argument("--repetitions", type=int, default=4_000, help="A/A tests per row")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table = (cell(w, s, options.repetitions, options.seed) for w in WORLDS for s in SIZES)
    for line in markdown(table):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
