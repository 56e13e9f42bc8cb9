"""Calibration of the effect on all traffic, where only some users are exposed.

Uneven users, of whom active ones are exposed more often, on any day: the formulas over sums of
users, and the whole analysis over logs.
"""

import numpy as np

import abeval
from abeval.stats.dilution import dilute_mean, dilute_ratio, measure_rest
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.effects import compare, fieller
from abeval.stats.means import estimate_mean, estimate_ratio
from abeval.stats.moments import Moments
from abeval.stats.records import Lift
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


def compute_lifts(world: World, seed: int) -> dict[str, Lift]:
    """Compute the lift of clicks, and of their rate, on all traffic."""
    users = world.draw_users(seed)
    (y0, y1), (x0, x1) = users.clicks, users.seen
    a, b = (
        Moments.of(y1[users.exposed & arm], x1[users.exposed & arm])
        for arm in (~users.treated, users.treated)
    )
    never, later = ~users.exposed, users.exposed & (x0 > 0)
    rest = measure_rest(
        Moments.of(y0[never], x0[never]), Moments.of(y0[later], x0[later]), a.n + b.n
    )
    control, treatment = estimate_mean(a.pick(0)), estimate_mean(b.pick(0))
    effect = compare(control, treatment)
    variance = control.variance
    shifted = [arm.shift(*rest.means.tolist()) for arm in (a, b)]
    ratio = fieller(estimate_ratio(shifted[0]), estimate_ratio(shifted[1]))
    return {
        "clicks_per_user": dilute_mean(effect, control.value, variance, -variance, rest),
        "ctr": dilute_ratio(ratio, shifted[0], shifted[1], rest, two_sided_quantile(0.05)),
    }


def measure_formulas(world: World, repetitions: int, seed: int) -> Record:
    """Count how often the formulas' intervals cover, miss below, and what units would say."""
    truth, every = world.site_lifts, range(seed, seed + repetitions)
    lifts = [compute_lifts(world, i) for i in every]
    record: dict[str, object] = {"world": _describe(world)}
    for name in ("clicks_per_user", "ctr"):
        ends = np.array([(of_world[name].low, of_world[name].high) for of_world in lifts])
        is_above, is_below = ends[:, 0] > truth[name], ends[:, 1] < truth[name]
        record[f"{name} covered, %"] = 1 - float((is_above | is_below).mean())
        record[f"{name} below / above the interval, %"] = (
            f"{100 * is_above.mean():.1f} / {100 * is_below.mean():.1f}"
        )
    return record


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
    "formulas": Table(measure_formulas, SOUND, repetitions=4_000),
    "site-wide lift": Table(measure_coverage, SOUND, repetitions=72),
    "broken triggers": Table(measure_alarms, BROKEN, repetitions=40),
}
