"""Levels where means are equal and spreads are not: how the test of skewed values was chosen.

The treatment has fewer buyers who spend more, or more who spend less, with the same mean. Beside
Welch's test and the test of the analysis, what it might be made of: the permutation test by its
moments alone, Hall's transformation (1992) and Johnson's modified t (1978) by each variant's own
moments. Power is that of a gain and of a loss of 2.8 standard errors where nothing else differs.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from abeval.inference.special_tests import MOST
from benchmarks.calibration.at_once import (
    Arm,
    Sides,
    arm,
    by_moments,
    by_splits,
    hall,
    johnson,
    welch,
)
from benchmarks.calibration.skew import POWER_AT
from benchmarks.runner import Record, Table
from tests.worlds.skewed import BUYERS, Draw, buyers, dense

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


def measure_spread(
    cell: tuple[str, tuple[int, int]], repetitions: int, seed: int
) -> Iterator[Record]:
    """Measure the level of each test, worse + better, and the power of a gain and of a loss."""
    world, sizes = cell
    random = np.random.default_rng([seed, list(WORLDS).index(world), *sizes])
    draws = zip(WORLDS[world], sizes, strict=True)
    control, treatment = (arm(draw(random, repetitions, n, 1.0), n) for draw, n in draws)
    answered = np.abs(by_splits(control, treatment)[1]) <= MOST
    levels = {}
    for name, test in TESTS.items():
        sign = test(control, treatment).sign[answered]
        worse, better = 100 * (sign < 0).mean(), 100 * (sign > 0).mean()
        levels[name] = f"{worse + better:.1f} ({worse:.1f} + {better:.1f})"
    units = {"units": f"{sizes[0]:,}/{sizes[1]:,}"}
    head = f"skewness ≤ {MOST}, %"
    yield {"treatment": world, **units, head: f"{100 * answered.mean():.0f}", **levels}
    if not world.startswith("the same"):
        return
    mean, variance = control.mean.mean(), float((control.square / sizes[0]).mean())
    effect = POWER_AT * math.sqrt(variance * (1 / sizes[0] + 1 / sizes[1])) / mean
    power = {}
    for name, test in TESTS.items():
        gain, loss = (
            test(control, treatment.times(1 + e)).sign for e in (effect, -min(effect, 0.9))
        )
        power[name] = f"{100 * (gain > 0).mean():.0f}, {100 * (loss < 0).mean():.0f}"
    yield {"treatment": "… power of a gain, of a loss", **units, head: "", **power}


CELLS = [(world, sizes) for world in WORLDS for sizes in SIZES]
TABLES = {"levels": Table(measure_spread, CELLS, repetitions=2_000)}
