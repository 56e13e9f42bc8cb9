"""Interleaved lists of known rankers: level, sign, users beside an A/B test, biased drafts.

The click model is that of `abeval tools simulate --design interleaving`: position bias, and users
with 1 to 200 lists, each drafted by `abeval.interleave`.
"""

import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import sqrt
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from abeval.assignment.interleaving import Drafted, Method
from abeval.simulate.interleaved import (
    LENGTH,
    MOST_LISTS,
    Draft,
    Queries,
    draw_queries,
    draw_sizes,
    make_draft,
    show,
)
from abeval.stats.interleaving import preference, symmetry, units_in_test, units_needed
from abeval.stats.means import estimate_ratio
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

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
    planned = units_in_test(one.clicks, seen.value)
    return own.lift, units_needed(seen), 2 * per_unit * (QUANTILES / difference) ** 2, planned


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
        told += symmetry(one.first_b - one.first_a) <= 0.003
    return told / seeds


def _row(method: Method) -> str:
    significant, right = signs(method)
    return (
        f"| {method} | {level(method, False):.1%} | {level(method, True):.1%} "
        f"| {significant} | {right / significant:.1%} |"
    )


def lines() -> Iterator[str]:
    """Write the tables."""
    yield f"{SEEDS} seeds each, {USERS} users of 1 to {MOST_LISTS} lists of {LENGTH}; level 5 %,"
    yield f"± 3 SE = {300 * sqrt(0.05 * 0.95 / SEEDS):.1f} points."
    yield ""
    yield "| method | equal rankers | clicks by place alone | significant | of these, right sign |"
    yield "|---|--:|--:|--:|--:|"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        yield from workers.map(_row, METHODS)
    yield ""
    yield f"Users with lists by a Pareto tail and tastes of their own, {4 * SEEDS:,} seeds each."
    yield ""
    yield "| users | tail | equal rankers told apart |"
    yield "|--:|--:|--:|"
    for users in (150, 300, 2_000):
        for tail in (1.2, 2.0, 3.0):
            yield f"| {users:,} | {tail} | {heavy_level(users, tail):.1%} |"
    yield ""
    yield (
        "| method | true lift | interleaving | A/B of clicks per list | times fewer users "
        "| A/B of clicks per user, by `power` |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    for method in METHODS:
        for noise in (0.9, 0.8):
            lift, few, many, planned = users_needed(method, noise)
            sizes = f"{few:,.0f} | {many:,.0f} | {many / few:,.0f} | {planned:,.0f}"
            yield f"| {method} | {lift:+.1%} | {sizes} |"
    yield ""
    lift, few, *_ = users_needed("team_draft", 0.9)
    share = power("team_draft", 0.9, round(few))
    yield f"With {few:,.0f} users a team draft finds a preference in {share:.0%} of 200 runs"
    yield f"where the lift is {lift:+.1%}."
    yield ""
    yield "| lists forced to begin with B | found by first places |"
    yield "|---|--:|"
    for share in (0.0, 0.1, 0.2):
        yield f"| {share:.0%} | {found(share):.1%} |"


def main() -> None:
    """Print the tables as they are computed."""
    for line in lines():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
