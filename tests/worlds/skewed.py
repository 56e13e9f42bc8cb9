"""Skewed values of units: the sums of many experiments at once."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abeval.stats.moments import Moments
from abeval.stats.records import Floats

BUYERS = 0.03
AT_ONCE = 4_000_000
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
