"""Calibration of what a row can detect: how often a true effect of that size is found.

    python -m benchmarks.calibration.detectable
    python -m benchmarks.calibration.detectable --experiments 2000

The smallest effect that the scorecard names (`mde`) is read from experiments without one. New ones
then have it in one goal of the first variant, and their scorecard is read: found is a goal that is
better after its family, held a guardrail without a loss that keeps a margin of that size. Under
looks this look counts, not an earlier one.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from abeval.experiment.load import parse_experiment
from abeval.inference.comparison import Rule
from abeval.inference.looks import AlwaysValidLooks, Looks, PlannedLooks
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.scorecard import build_rows
from abeval.metrics.definition import Margin, Metric
from abeval.results import Row as ScoreRow
from abeval.stats.moments import Moments

UNITS = 2_000
"""Of each variant."""

_READ = 20
"""Experiments without an effect, whose mean says what can be seen."""

HALFWAY = PlannedLooks((0.25, 0.5), (0.5, 1.0), "obrien_fleming", total_looks=4)
LAST = PlannedLooks((0.25, 0.5, 0.75, 1.0), (0.25, 0.5, 0.75, 1.0), "obrien_fleming", total_looks=4)


class World(NamedTuple):
    """An experiment without effects."""

    goals: int = 1
    variants: int = 1
    looks: Looks | None = None
    family: str = "holm"


WORLDS: Mapping[str, World] = {
    "fixed": World(),
    "fixed, two goals": World(goals=2),
    "fixed, three variants": World(variants=3),
    "fixed, three variants, Dunnett": World(variants=3, family="dunnett"),
    "planned looks, the second of four": World(looks=HALFWAY),
    "planned looks, the last of four": World(looks=LAST),
    "planned looks, the second, two goals": World(goals=2, looks=HALFWAY),
    "always valid": World(looks=AlwaysValidLooks(UNITS, UNITS)),
    "always valid, halfway to the planned units": World(
        looks=AlwaysValidLooks(UNITS, UNITS, 4 * UNITS)
    ),
    "always valid, three variants": World(variants=3, looks=AlwaysValidLooks(UNITS, UNITS)),
}


class Row(NamedTuple):
    """A world, what its scorecard could see, and how often that is found."""

    world: str
    mde: float
    found: float
    margin: float
    held: float


def row(world: str, experiments: int, seed: int = 0) -> Row:
    """One world."""
    rng = np.random.default_rng([seed, list(WORLDS).index(world), 41])
    nothing = [judged(rng, WORLDS[world], 0.0, 0.05) for _ in range(_READ)]
    mde, margin = (
        float(np.mean([one[name, "v0"].mde for one in nothing])) for name in ("goal0", "guarded")
    )
    found = held = 0
    for _ in range(experiments):
        result = judged(rng, WORLDS[world], mde, margin)
        found += result["goal0", "v0"].status == "better"
        held += result["guarded", "v0"].status in ("non_inferior", "better")
    return Row(world, mde, found / experiments, margin, held / experiments)


def judged(
    rng: np.random.Generator, world: World, effect: float, margin: float
) -> Mapping[tuple[str, str], ScoreRow]:
    """The scorecard of one experiment; the effect is on the first goal of the first variant."""
    names = [f"v{i}" for i in range(world.variants)]
    metrics = [Metric(f"goal{i}", "mean", "…", role="goal") for i in range(world.goals)]
    metrics.append(
        Metric("guarded", "mean", "…", role="guardrail", margin=Margin(margin, relative=True))
    )
    experiment = parse_experiment(
        {
            "name": "detectable",
            "unit": "user_id",
            "control": "control",
            "variants": {name: {} for name in ("control", *names)},
            "logs": {"impressions": {"path": "none.parquet"}},
            "metrics": [{"name": metric.name, "value": "1"} for metric in metrics],
            "inference": {"family": world.family},
        }
    )
    rule = Rule(looks=world.looks)
    comparisons = {}
    for metric in metrics:
        control = moments(rng, 0.0)
        for name in names:
            moved = effect if (metric.name, name) == ("goal0", "v0") else 0.0
            treatment = moments(rng, moved)
            comparisons[metric.name, name] = compare_moments(metric, control, treatment, rule)
    rows = build_rows(experiment, metrics, comparisons)
    return {(row.metric, row.variant): row for row in rows}


def moments(rng: np.random.Generator, effect: float) -> Moments:
    """Clicks of users who differ in how active they are."""
    active = rng.gamma(2.0, 0.5, UNITS)
    return Moments.of(rng.poisson(3 * active * (1 + effect)), np.ones(UNITS))


def table(experiments: int) -> Iterator[str]:
    """Lines of the table in Markdown."""
    yield "| world | could see, % | found, % | margin, % | held, % |"
    yield "|---|--:|--:|--:|--:|"
    for world in WORLDS:
        one = row(world, experiments)
        yield (
            f"| {world} | {100 * one.mde:.1f} | {100 * one.found:.1f} | "
            f"{100 * one.margin:.1f} | {100 * one.held:.1f} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.detectable")
    parser.add_argument("--experiments", type=int, default=400)
    for line in table(parser.parse_args().experiments):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
