"""Calibration of the tests of one effect, and of one lift, over many cells of few units.

A/A tests. Each is judged as chi-square, which takes errors for known; by F with each variant's own
errors, as cells are that Welch's test judges; and by F with pooled errors, as cells are that the
test of skewed values or of few successes judges.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import heterogeneity
from abeval.stats.effects import compare
from abeval.stats.heterogeneity import pool_variances
from abeval.stats.records import Estimate, Floats
from benchmarks.runner import Record, Table
from tests.worlds.users import Split

ALPHA = 0.05
HOW = ("χ²", "F", "F, pooled")

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


def draw_cells(world: World, random: np.random.Generator) -> list[Pair]:
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


def measure_world(world: World, repetitions: int, seed: int) -> Record:
    """Measure how often each test rejects in a world."""
    random = np.random.default_rng(seed)
    rejected = np.zeros(6)
    for _ in range(repetitions):
        cells = draw_cells(world, random)
        judged = (
            [_known(pair) for pair in cells],
            cells,
            [pool_variances(*pair) for pair in cells],
        )
        rejected += [p <= ALPHA for pairs in judged for p in p_values(pairs)]
    heads = [f"{test}, {how}, %" for how in HOW for test in ("difference", "lift")]
    shares = dict(zip(heads, (rejected / repetitions).tolist(), strict=True))
    cells_of_units = {"cells": world.cells, "units of each": f"{world.split}"}
    return {"values": world.name, **cells_of_units, **shares}


TABLES = {"cells": Table(measure_world, WORLDS, repetitions=600)}
