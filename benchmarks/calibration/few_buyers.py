"""Few buyers among few units: as an analysis judges them.

A share of units buys for lognormal amounts, or all have a Pareto value; an effect has more buyers,
or larger baskets. `fewer, larger` has the same mean by a third fewer buyers who spend half as much
more.
"""

import numpy as np

from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments
from abeval.stats.records import Floats
from benchmarks.runner import Record, Table

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


def values(random: Generator, world: str, units: int, effect: tuple[float, float]) -> Floats:
    """Values of units that an effect made."""
    more, larger = effect
    if world == PARETO:
        return np.asarray(more * larger * np.exp(random.standard_exponential(units) / 2.5))
    share, sigma = BUYERS[world]
    buys = random.random(units) < share * more
    return np.where(buys, larger * random.lognormal(0.0, sigma, units), 0.0)


def measure_cell(cell: tuple[str, tuple[int, int], str], repetitions: int, seed: int) -> Record:
    """Judge the experiments of a world, split and effect as an analysis does.

    The share of bounded lifts and of covered differences are those of the experiments with an
    answer.
    """
    world, split, effect = cell
    random = np.random.default_rng([seed, *split, list(EFFECTS).index(effect), len(world)])
    mean = 2.5 / 1.5 if world == PARETO else BUYERS[world][0] * np.exp(BUYERS[world][1] ** 2 / 2)
    truth = (float(np.prod(EFFECTS[effect])) - 1) * mean
    rows = list[list[float]]()
    for _ in range(repetitions):
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
    heads = ("refused, %", "worse, %", "better, %", "lift bounded, %", "difference covered, %")
    shares = dict(zip(heads, np.nanmean(rows, axis=0).tolist(), strict=True))
    return {"values": world, "units": f"{split[0]:,}/{split[1]:,}", "effect": effect, **shares}


CELLS = [
    (world, split, effect)
    for world in (*BUYERS, PARETO)
    for split in SPLITS
    for effect in EFFECTS
    if world != PARETO or effect not in ("fewer, larger", "more, smaller")
]
TABLES = {"buyers": Table(measure_cell, CELLS, repetitions=2_000)}
