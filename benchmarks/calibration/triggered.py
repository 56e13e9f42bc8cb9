"""Calibration of the effect on all traffic, where only some users are exposed.

Uneven users, of whom active ones are exposed more often, on any day, through the whole analysis.
"""

import abeval
from benchmarks.runner import Record, Table
from tests.worlds.triggered import World, analyze_world

SOUND = (
    World(),
    World(rate=0.05, users=8_000),
    World(rate=0.8, shape=1.5, lift=0.2),
    World(days=28, lift=-0.15),
    World(shown=0.2, lift=0.1),
    World(shown=-0.15, treated=0.2),
    World(lift=0.0),
)
BROKEN = (
    World(hurt=-0.25),
    World(hurt=0.25, rate=0.1),
    World(wider=1.3),
    World(wider=0.7, lift=0.0),
    World(heavier=True),
    World(heavier=True, rate=0.1),
)


def measure_coverage(world: World, repetitions: int, seed: int) -> Record:
    """Count how often intervals cover the true lift of all traffic, and false alarms."""
    truth, covered, warned = world.site_lifts, dict.fromkeys(world.site_lifts, 0), 0
    for i in range(seed, seed + repetitions):
        result = analyze_world(world, i)
        warned += _warns(result)
        for row in result.scorecard:
            low, high = row.site_lift_low, row.site_lift_high
            covered[row.metric] += (
                low is not None and high is not None and low <= truth[row.metric] <= high
            )
    shares = {f"{name} covered, %": count / repetitions for name, count in covered.items()}
    return {"world": _describe(world), **shares, "untriggered warns": warned}


def measure_alarms(world: World, repetitions: int, seed: int) -> Record:
    """Count how often a broken trigger is found."""
    results = [analyze_world(world, i) for i in range(seed, seed + repetitions)]
    found = sum(_warns(result) for result in results)
    shipped = sum(result.verdicts[0].decision == "ship" for result in results)
    return {"world": _describe(world), "found, %": found / repetitions, "ships": shipped}


def _warns(result: abeval.Result) -> bool:
    return any(c.name == "untriggered" and c.status in ("warn", "fail") for c in result.trust)


def _describe(world: World) -> str:
    defaults = World()
    changed = {n: v for n, v in world._asdict().items() if v != getattr(defaults, n)}
    return ", ".join(f"{name} {value}" for name, value in changed.items()) or "plain"


TABLES = {
    "site-wide lift": Table(measure_coverage, SOUND, repetitions=500),
    "broken triggers": Table(measure_alarms, BROKEN, repetitions=100),
}
