"""True effects of many experiments on two metrics, and what they are measured to be."""

from typing import NamedTuple

import numpy as np

from abeval.stats.records import Floats


class Pair(NamedTuple):
    """A world of two metrics.

    Attributes:
        correlation: Of true effects, before they are made skewed.
        online: Spread of true online effects over their standard error.
        experiments: How many there are.
        sizes: Standard deviation of the log of the errors' size between experiments.
        shape: How true effects are distributed: `normal`, `null`, `heavy`, `apart` or `skewed`.
        offline: As `online`.
    """

    correlation: float
    online: float
    experiments: int = 30
    sizes: float = 0.0
    shape: str = "normal"
    offline: float = 1.73


def drawn(
    world: Pair, random: np.random.Generator, experiments: int
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Estimates on both metrics with their errors, and true effects on the second; spread 1."""
    true_x, true_y = _true(world, random, experiments)
    size = np.exp(world.sizes * random.standard_normal(experiments))
    x_se, y_se = size / world.offline, size / world.online
    error_x, error_y = random.standard_normal((2, experiments))
    return true_x + x_se * error_x, x_se, true_y + y_se * error_y, y_se, true_y


def _true(world: Pair, random: np.random.Generator, experiments: int) -> Floats:
    """True effects on both metrics, shape (2, experiments): mean 0, standard deviation 1."""
    pair = random.standard_normal((2, experiments))
    if world.shape == "apart":
        pair = random.standard_t(3, (2, experiments)) / np.sqrt(3)
    pair[1] = world.correlation * pair[0] + np.sqrt(1 - world.correlation**2) * pair[1]
    if world.shape == "null":
        pair *= 2 * (random.random(experiments) < 0.25)
    if world.shape == "heavy":
        pair /= np.sqrt(random.chisquare(3, experiments))
    if world.shape == "skewed":
        spread = np.exp(SKEW**2)
        pair = (np.exp(SKEW * pair) - np.sqrt(spread)) / np.sqrt(spread * (spread - 1))
    return pair


SKEW = 0.75
"""Standard deviation of the log of lognormal effects."""
