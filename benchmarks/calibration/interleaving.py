"""Interleaved lists of known rankers: level, sign, users beside an A/B test, biased drafts.

The click model is that of `abeval tools simulate --design interleaving`: position bias, and users
with 1 to 200 lists, each drafted by `abeval.interleave`.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abeval.assignment.interleaving import Drafted, Method
from abeval.simulate.interleaved import (
    Draft,
    Queries,
    draw_queries,
    draw_sizes,
    make_draft,
    show,
)
from abeval.stats.interleaving import (
    check_symmetry,
    plan_preference_units,
    plan_test_units,
    preference,
)
from abeval.stats.means import estimate_ratio
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from benchmarks.runner import Record, Table

Floats = NDArray[np.float64]

METHODS: tuple[Method, ...] = ("team_draft", "balanced", "probabilistic", "optimized")
SEEDS, USERS, REQUESTS = 500, 45, 10
QUANTILES = 1.959964 + 0.841621


def mirrored(own: Queries) -> Queries:
    """Let each query come again with its lists given to the other ranker."""
    lists = np.concatenate([own.lists, own.lists[:, ::-1]])
    return Queries(np.concatenate([own.attraction, own.attraction]), lists)


def even(own: Queries) -> Queries:
    """Make all items as attractive."""
    return own._replace(attraction=np.full_like(own.attraction, 0.2))


def world(seed: int, noise: tuple[float, float]) -> Queries:
    """Draw the queries of a seed."""
    return draw_queries(seed, noise, REQUESTS)


@dataclass(frozen=True)
class Log:
    """What users did: credit by user of A and of B, clicks, and their first places."""

    a: Floats
    b: Floats
    clicks: Floats
    first_a: Floats
    first_b: Floats


def log(seed: int, own: Queries, draft: Draft, users: int = USERS) -> Log:
    """Sum by user what lists are worth."""
    lists = show(seed, own, draft, users)
    sides = [np.maximum(sign * lists.credit, 0) for sign in (-1, 1)]
    sums = [(side * lists.click).sum(axis=1) for side in sides] + [lists.click.sum(axis=1)]
    firsts = [side[:, 0] > 0 for side in sides]
    return Log(*(np.bincount(lists.user, one, users).astype(float) for one in (*sums, *firsts)))


def forced(share: float, seed: int) -> Draft:
    """Draft by teams, but let the second ranker begin in a share of the other's lists."""
    rng, draft = np.random.default_rng(seed), make_draft("team_draft", "s")

    def faulty(lists: Mapping[str, Sequence[Hashable]], request: str) -> Sequence[Drafted]:
        shown = draft(lists, request)
        if shown[0].team == "old" and rng.random() < share:
            tries = (draft(lists, f"{request}-{n}") for n in range(99))
            return next(one for one in tries if one[0].team == "new")
        return shown

    return faulty


def outcome(seed: int, own: Queries, method: Method, users: int = USERS) -> tuple[float, float]:
    """Return the preference and its p-value; 0 and 1 where it is refused."""
    one = log(seed, own, make_draft(method, "s"), users)
    try:
        found = preference(one.a, one.b)
    except Refusal:
        return 0.0, 1.0
    return found.value, found.p_value


def level(method: Method, by_place: bool, seeds: int = SEEDS) -> float:
    """Return how often equal rankers are told apart at 5 %.

    They are equal because each request comes with its lists given to either; or because users click
    by place alone, whatever the lists.
    """
    equal = even if by_place else mirrored
    worlds = (equal(world(seed, (1.0, 1.0))) for seed in range(seeds))
    p_values = [outcome(seed, own, method)[1] for seed, own in enumerate(worlds)]
    return float(np.mean(np.array(p_values) <= 0.05))


def heavy_level(users: int, tail: float, seeds: int = 4 * SEEDS) -> float:
    """Return how often rankers are told apart that users prefer for themselves, but not on average.

    Users have lists by a Pareto tail, 1 to 400; clicks of a list are credited to either ranker.
    """
    rng, told = np.random.default_rng([users, round(10 * tail)]), 0
    for _ in range(seeds):
        lists = np.minimum(1 + 2 * rng.pareto(tail, users), 400).astype(np.int64)
        taste = np.exp(rng.normal(0, 0.8, users) / 2)
        try:
            found = preference(rng.poisson(0.37 * lists / taste), rng.poisson(0.37 * lists * taste))
        except Refusal:
            continue
        told += found.p_value <= 0.05
    return told / seeds


def signs(method: Method, seeds: int = SEEDS) -> tuple[int, int]:
    """Count significant preferences, and those with the sign of the true A/B difference."""
    rng, significant, right = np.random.default_rng(7), 0, 0
    for seed in range(seeds):
        own = world(10_000 + seed, (1.0, float(rng.choice([0.3, 0.6, 1.5, 2.0]))))
        value, p_value = outcome(seed, own, method)
        if p_value <= 0.05:
            significant += 1
            right += (value > 0) == (own.lift > 0)
    return significant, right


def users_needed(
    method: Method, noise: float, users: int = 1_000
) -> tuple[float, float, float, float]:
    """Return the true lift, and the users that find it with 80 %.

    By interleaving, by an A/B test of clicks per list, which needs fewer users than that of clicks
    per user, and by the latter as `abeval power` says it.
    """
    own = world(3, (1.0, noise))
    one = log(3, own, make_draft(method, "s"), users)
    seen = preference(one.a, one.b)
    arms = [estimate_ratio(_clicks(side, own.alone(side))) for side in (0, 1)]
    difference = float(own.alone(1).sum() - own.alone(0).sum()) / len(own.lists)
    per_unit = sum(arm.variance * arm.units for arm in arms)
    planned = plan_test_units(one.clicks, seen.value)
    return (
        own.lift,
        plan_preference_units(seen),
        2 * per_unit * (QUANTILES / difference) ** 2,
        planned,
    )


def _clicks(seed: int, chances: Floats, users: int = 20_000) -> Moments:
    """Return clicks and lists of users of whom one ranker has every list."""
    rng = np.random.default_rng(seed)
    sizes, ready = draw_sizes(rng, users), rng.gamma(2.0, 0.5, users)
    user = np.repeat(np.arange(users), sizes)
    shown = chances[rng.integers(0, len(chances), len(user))]
    clicked = (rng.random(shown.shape) < ready[user, None] * shown).sum(axis=1)
    return Moments.of(np.bincount(user, clicked, users), sizes)


def power(method: Method, noise: float, users: int, runs: int = 200) -> float:
    """Return how often so many users find a preference."""
    own = world(3, (1.0, noise))
    return float(np.mean([outcome(s, own, method, users)[1] <= 0.05 for s in range(runs)]))


def found(share: float, seeds: int = 200) -> float:
    """Return how often first places are found uneven at the budget of one of four families."""
    told = 0
    for seed in range(seeds):
        one = log(seed, world(seed, (1.0, 1.0)), forced(share, seed))
        told += check_symmetry(one.first_b - one.first_a) <= 0.003
    return told / seeds


def measure_method(method: Method, repetitions: int, seed: int) -> Record:
    """Measure the level of a method, and the sign of its significant preferences."""
    significant, right = signs(method, repetitions)
    return {
        "method": method,
        "equal rankers, %": level(method, by_place=False, seeds=repetitions),
        "clicks by place alone, %": level(method, by_place=True, seeds=repetitions),
        "significant": significant,
        "of these, right sign, %": right / significant if significant else math.nan,
    }


def measure_heavy(cell: tuple[int, float], repetitions: int, seed: int) -> Record:
    """Measure how often equal rankers are told apart by users of a Pareto tail."""
    told = heavy_level(*cell, repetitions)
    return {"users": cell[0], "tail": cell[1], "equal rankers told apart, %": told}


def measure_users(cell: tuple[Method, float], repetitions: int, seed: int) -> Record:
    """Measure how many users a preference takes, beside an A/B test, and if so many find it."""
    method, noise = cell
    lift, few, many, planned = users_needed(method, noise)
    return {
        "method": method,
        "true lift": f"{lift:+.1%}",
        "interleaving": round(few),
        "A/B of clicks per list": round(many),
        "times fewer users": round(many / few),
        "A/B of clicks per user, by `power`": round(planned),
        "so many users find it, %": power(method, noise, round(few), repetitions),
    }


def measure_forced(share: float, repetitions: int, seed: int) -> Record:
    """Measure how often lists that are forced to begin with B are found by first places."""
    return {"lists forced to begin with B": f"{share:.0%}", "found, %": found(share, repetitions)}


HEAVY = [(users, tail) for users in (150, 300, 2_000) for tail in (1.2, 2.0, 3.0)]
TABLES = {
    "methods": Table(measure_method, METHODS, repetitions=500),
    "heavy users": Table(measure_heavy, HEAVY, repetitions=2_000),
    "users": Table(measure_users, [(m, n) for m in METHODS for n in (0.9, 0.8)], repetitions=200),
    "forced": Table(measure_forced, (0.0, 0.1, 0.2), repetitions=200),
}
