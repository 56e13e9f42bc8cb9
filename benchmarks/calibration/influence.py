"""How often honest values of few buyers look like a bot to the check `influence`.

    python -m benchmarks.calibration.influence

One variant of each world: a share of the units buys, for a lognormal or Pareto amount. For
comparison: how often the largest makes 30 and 70 % of the variance. Draws with too few buyers,
which the check does not look at, count as none of these.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from abeval.experiment.sections import TrustOptions
from abeval.inference.trust.influence import Population, count_units_apart, find_outlier_group
from abeval.stats.influence import Unit
from abeval.stats.moments import Moments
from abeval.stats.records import Floats

UNITS = (
    (1_000, 0.003),
    (1_000, 0.01),
    (1_000, 0.02),
    (1_000, 0.03),
    (3_000, 0.03),
    (10_000, 0.03),
    (1_000, 0.3),
    (10_000, 0.3),
)
AMOUNTS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "lognormal 1": lambda random, n: random.lognormal(0, 1, n),
    "lognormal 1.5": lambda random, n: random.lognormal(0, 1.5, n),
    "lognormal 2": lambda random, n: random.lognormal(0, 2, n),
    "Pareto 2.5": lambda random, n: random.pareto(2.5, n) + 1,
    "Pareto 1.5": lambda random, n: random.pareto(1.5, n) + 1,
}


class Cell(NamedTuple):
    """One world: shares of the repetitions.

    Attributes:
        units: Units of the variant.
        buyers: Share of them that buys.
        amount: Distribution of what they pay.
        warned: The check warns.
        failed: It fails.
        much: The largest makes 30 % of the variance.
        most: The largest makes 70 % of the variance.
    """

    units: int
    buyers: float
    amount: str
    warned: float
    failed: float
    much: float
    most: float


def cells(repetitions: int, seed: int = 1) -> Iterator[Cell]:
    """Every world."""
    random, limits = np.random.default_rng(seed), TrustOptions()
    for units, buyers in UNITS:
        for amount, draw in AMOUNTS.items():
            looks = [_look(random, units, buyers, draw) for _ in range(repetitions)]
            shares, times = np.array(looks).T
            at_least = times >= limits.influence_warn, times >= limits.influence_fail
            counts = (*at_least, shares >= 0.3, shares >= 0.7)
            yield Cell(units, buyers, amount, *(float(np.mean(c)) for c in counts))


def _look(
    random: np.random.Generator,
    units: int,
    buyers: float,
    draw: Callable[[np.random.Generator, int], Floats],
) -> tuple[float, float]:
    value, deviations = _drawn(random, units, buyers, draw)
    others = _drawn(random, units, buyers, draw)[1][:20].tolist()
    top = [Unit(float(y), 1.0) for y in value[:20]]
    squares = float(deviations @ deviations)
    valued = count_units_apart(Moments.of(value, np.ones(units)), top)
    one = find_outlier_group(
        deviations[:20].tolist(), others, Population(units, 2 * units, valued, squares)
    )
    return (0.0, 0.0) if one is None else (float(deviations[0]) ** 2 / squares, one.times)


def _drawn(
    random: np.random.Generator,
    units: int,
    buyers: float,
    draw: Callable[[np.random.Generator, int], Floats],
) -> tuple[Floats, Floats]:
    """Values of a variant and how far they are from their mean, the farthest first."""
    buys = random.random(units) < buyers
    value = np.zeros(units)
    value[buys] = draw(random, int(buys.sum()))
    deviations = np.abs(value - value.mean())
    order = np.argsort(-deviations)
    return value[order], deviations[order]


def main(arguments: list[str] | None = None) -> None:
    """Print one line a world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2_000)
    options = parser.parse_args(arguments)
    sys.stdout.write("units buyers amount warned failed 30% 70%\n")
    for cell in cells(options.repetitions):
        numbers = " ".join(f"{number:.4f}" for number in cell[3:])
        sys.stdout.write(f"{cell.units} {cell.buyers} {cell.amount}: {numbers}\n")


if __name__ == "__main__":
    main()
