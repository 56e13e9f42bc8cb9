"""Calibration of what a row can detect: how often a true effect of that size is found.

The smallest effect that the scorecard names (`mde`) is read from experiments without one. New ones
then have it in one goal of the first variant, and their scorecard is read: found is a goal that is
better after its family, held a guardrail without a loss that keeps a margin of that size. Under
looks this look counts, not an earlier one.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from abeval.inference.comparison import Rule
from abeval.inference.looks import AlwaysValidLooks, Looks, PlannedLooks
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.scorecard import build_rows
from abeval.results.effects import Row as ScoreRow
from abeval.stats.moments import Moments
from benchmarks.runner import Record, Table
from tests.worlds.experiments import list_metrics, parse_metrics

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


def measure_world(name: str, repetitions: int, seed: int = 0) -> Record:
    """Measure what the scorecard of a world can see, and how often that is found."""
    world, rng = WORLDS[name], np.random.default_rng([seed, list(WORLDS).index(name), 41])
    nothing = [judged(rng, world, 0.0, 0.05) for _ in range(_READ)]
    mde, margin = (
        float(np.mean([rows[metric, "v0"].mde for rows in nothing]))
        for metric in ("goal0", "guarded")
    )
    found = held = 0
    for _ in range(repetitions):
        result = judged(rng, world, mde, margin)
        found += result["goal0", "v0"].status == "better"
        held += result["guarded", "v0"].status in ("non_inferior", "better")
    shares = {"found, %": found / repetitions, "margin, %": margin, "held, %": held / repetitions}
    return {"world": name, "could see, %": mde, **shares}


def judged(
    rng: np.random.Generator, world: World, effect: float, margin: float
) -> Mapping[tuple[str, str], ScoreRow]:
    """The scorecard of one experiment; the effect is on the first goal of the first variant."""
    names = [f"v{i}" for i in range(world.variants)]
    goals = [f"goal{i}" for i in range(world.goals)]
    metrics = list_metrics(goals, ["guarded"], margin)
    experiment = parse_metrics(
        metrics,
        control="control",
        variants={name: {} for name in ("control", *names)},
        inference={"family": world.family},
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


TABLES = {"effects": Table(measure_world, tuple(WORLDS), repetitions=600)}
