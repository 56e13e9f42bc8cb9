"""Do the statistics of a history hold: correlations without noise, and what was really gained?

    python -m benchmarks.calibration.history

Correlations: thirty experiments, true effects bivariate normal, an offline metric whose true
effects spread 1.73 times as far as its errors, an online one at several such ratios; the errors of
both independent, or shared by the same users; experiments of one size, or of very different ones.
Gains: fifty experiments with normal true effects, of which the significant ones are shipped.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abeval.stats import latent, shrinkage
from abeval.stats.arrays import Floats

OFFLINE = 1.73


class Pair(NamedTuple):
    """A world of two metrics.

    Attributes:
        correlation: Of true effects.
        online: Spread of true online effects over their standard error.
        shared: Correlation of the errors.
        experiments: How many there are.
        sizes: Standard deviation of the log of the errors' size between experiments.
    """

    correlation: float
    online: float
    shared: float = 0.0
    experiments: int = 30
    sizes: float = 0.0


class Correlations(NamedTuple):
    """What came out of a world: medians, and shares of intervals that hold the truth.

    Attributes:
        naive: Median correlation of the estimates.
        corrected: Median corrected correlation.
        covered: Intervals that hold the true correlation.
        width: Their median width.
        slope: Median slope, over the true one.
        slope_covered: Intervals that hold the true slope.
        chance: Mean stated probability that the effect of a next experiment is positive.
        positive: How often it is.
    """

    naive: float
    corrected: float
    covered: float
    width: float
    slope: float
    slope_covered: float
    chance: float
    positive: float


class Gain(NamedTuple):
    """A world of shipped experiments.

    Attributes:
        spread: Standard deviation of true effects.
        se: Standard error.
        experiments: How many there are.
        mean: Mean of true effects.
    """

    spread: float = 0.01
    se: float = 0.01
    experiments: int = 50
    mean: float = 0.0


class Gained(NamedTuple):
    """Sums over what was shipped, over all repetitions, and shares.

    Attributes:
        naive: Of the estimates, over that of true effects.
        shrunken: Of the shrunken ones, over that of true effects.
        covered: Intervals of the sum that hold the true sum, where something was shipped.
        sd: Median fitted standard deviation over the true one.
        prior_covered: Intervals of the standard deviation that hold the true one.
    """

    naive: float
    shrunken: float
    covered: float
    sd: float
    prior_covered: float


PAIRS = (
    *(Pair(0.8, online) for online in (0.5, 1.0, 2.0)),
    *(Pair(0.8, online, 0.5) for online in (0.5, 1.0, 2.0)),
    *(Pair(0.8, online, -0.5) for online in (0.5, 1.0, 2.0)),
    *(Pair(0.0, online, shared) for online in (0.5, 2.0) for shared in (0.0, 0.5)),
    *(Pair(r, 1.0) for r in (0.4, 0.97, -0.8)),
    *(Pair(0.8, online, 0.3, 30, 1.0) for online in (0.5, 1.0, 2.0)),
    *(Pair(r, online, 0.0, n) for n in (5, 8, 15, 60) for r in (0.0, 0.8) for online in (0.5, 2.0)),
)
GAINS = (
    *(Gain(), Gain(experiments=20), Gain(experiments=10), Gain(experiments=5)),
    *(Gain(spread=0.005), Gain(spread=0.02), Gain(mean=0.01), Gain(spread=0.002)),
)


def correlations(world: Pair, repetitions: int, seed: int = 1) -> Correlations:
    """Fit many histories of one world."""
    random = np.random.default_rng(seed)
    rows = np.array([_fitted(world, random) for _ in range(repetitions)])
    true_slope = world.correlation or 1.0
    medians, means = np.median(rows, axis=0), rows.mean(0)
    return Correlations(
        *(float(medians[0]), float(medians[1]), float(means[2]), float(medians[3])),
        *(float(medians[4] / true_slope), *map(float, means[5:])),
    )


def _fitted(world: Pair, random: np.random.Generator) -> Floats:
    x, x_se, y, y_se, _ = drawn(world, random, world.experiments)
    fitted = latent.fit(x, x_se, y, y_se, world.shared)
    found, slope = latent.correlation(fitted), latent.slope(fitted)
    ahead = drawn(world._replace(shared=0.0), random, 1)
    chance = latent.chance_positive(fitted, float(ahead[0][0]), float(ahead[1][0]))
    covered = found.low <= world.correlation <= found.high
    held = slope.low <= world.correlation <= slope.high
    numbers = found.naive, found.value, covered, found.high - found.low, slope.value, held
    return np.array([*numbers, chance, ahead[4][0] > 0], dtype=float)


def drawn(
    world: Pair, random: np.random.Generator, experiments: int
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Estimates on both metrics with their errors, and true effects on the second; spread 1."""
    true_x, other = random.standard_normal((2, experiments))
    true_y = world.correlation * true_x + np.sqrt(1 - world.correlation**2) * other
    size = np.exp(world.sizes * random.standard_normal(experiments))
    x_se, y_se = size / OFFLINE, size / world.online
    error_x, own = random.standard_normal((2, experiments))
    error_y = world.shared * error_x + np.sqrt(1 - world.shared**2) * own
    return true_x + x_se * error_x, x_se, true_y + y_se * error_y, y_se, true_y


def gains(world: Gain, repetitions: int, seed: int = 1) -> Gained:
    """Ship what is significantly better in many histories of one world, and add it up."""
    random = np.random.default_rng(seed)
    rows = np.array([_added(world, random) for _ in range(repetitions)])
    naive, shrunken, true = rows[:, :3].sum(0)
    shipped = rows[:, 3] > 0
    return Gained(
        float(naive / true) if shipped.any() else 1.0,
        float(shrunken / true) if shipped.any() else 1.0,
        float(rows[shipped, 4].mean()) if shipped.any() else 1.0,
        float(np.median(rows[:, 5]) / world.spread),
        float(rows[:, 6].mean()),
    )


def _added(world: Gain, random: np.random.Generator) -> Floats:
    true = world.mean + world.spread * random.standard_normal(world.experiments)
    ses = np.full(world.experiments, world.se)
    seen = true + ses * random.standard_normal(world.experiments)
    shipped = seen > 1.96 * ses
    total = shrinkage.total(seen, ses, shipped)
    prior = shrinkage.prior(seen, ses)
    truth = true[shipped].sum()
    covered = total.low <= truth <= total.high
    known = prior.sd_low <= world.spread <= prior.sd_high
    numbers = total.naive, total.value, truth, total.effects, covered, prior.sd, known
    return np.array(numbers, dtype=float)


def lines(repetitions: int) -> Iterator[str]:
    """One line a world."""
    yield " ".join((*Pair._fields, *Correlations._fields))
    for pair in PAIRS:
        yield _line(pair, correlations(pair, repetitions))
    yield " ".join((*Gain._fields, *Gained._fields))
    for gain in GAINS:
        yield _line(gain, gains(gain, repetitions))


def _line(world: tuple[float, ...], outcome: tuple[float, ...]) -> str:
    left = " ".join(f"{number:g}" for number in world)
    return f"{left}: {' '.join(f'{number:.3f}' for number in outcome)}"


def main(arguments: list[str] | None = None) -> None:
    """Print one line a world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    options = parser.parse_args(arguments)
    for line in lines(options.repetitions):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
