"""Interleaved lists of known rankers: level, sign, users beside an A/B test, biased drafts.

A click model with position bias (Craswell et al. 2008): a user looks at place k with chance
k^-0.7, and clicks what they look at by its attractiveness times their own readiness. Rankers sort
by attractiveness with noise; the less noise, the better. Users have 1 to 200 lists, and every list
is drafted by `abeval.interleave`.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import sqrt
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from abeval.assignment.interleaving import Method, interleave
from abeval.stats.interleaving import preference, symmetry, units_needed
from abeval.stats.means import estimate_ratio
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]

LENGTH, ITEMS, MOST_LISTS = 6, 20, 200
METHODS: tuple[Method, ...] = ("team_draft", "balanced", "probabilistic", "optimized")
SEEDS, USERS, REQUESTS = 500, 45, 10
LOOKS = np.arange(1, LENGTH + 1) ** -0.7
QUANTILES = 1.959964 + 0.841621


@dataclass(frozen=True)
class World:
    """Requests: the attractiveness of their items, and the lists of A and B, best first."""

    attraction: Floats
    lists: NDArray[np.int64]

    def alone(self, side: int) -> Floats:
        """Return the chance of a click by request and place if one ranker had every list."""
        return np.take_along_axis(self.attraction, self.lists[:, side], axis=1) * LOOKS

    @property
    def lift(self) -> float:
        """Return the true lift of clicks in an A/B test of B against A."""
        return float(self.alone(1).sum() / self.alone(0).sum() - 1)


def world(
    seed: int, noise: tuple[float, float], mirrored: bool = False, even: bool = False
) -> World:
    """Draw requests; mirrored, each comes again with its lists given to the other ranker.

    With `even` clicks, all items are as attractive.
    """
    rng = np.random.default_rng(seed)
    attraction = rng.beta(1.0, 4.0, (REQUESTS, ITEMS))
    spread = np.array(noise)[:, None] * rng.standard_normal((REQUESTS, 2, ITEMS))
    lists = np.argsort(-(np.log(attraction)[:, None] + spread), axis=2)[:, :, :LENGTH]
    if mirrored:
        attraction = np.concatenate([attraction, attraction])
        lists = np.concatenate([lists, lists[:, ::-1]])
    return World(np.full_like(attraction, 0.2) if even else attraction, lists)


@dataclass(frozen=True)
class Log:
    """What users did: credit by user of A and of B, and their first places."""

    a: Floats
    b: Floats
    first_a: Floats
    first_b: Floats


def log(seed: int, own: World, method: Method, users: int = USERS, forced: float = 0.0) -> Log:
    """Show lists to users, who click; a share of the lists is forced to begin with B."""
    rng = np.random.default_rng(seed)
    sizes, ready = _sizes(rng, users), rng.gamma(2.0, 0.5, users)
    user = np.repeat(np.arange(users), sizes)
    request = rng.integers(0, len(own.lists), len(user))
    named = [dict(zip("AB", pair.tolist(), strict=True)) for pair in own.lists]
    item = np.zeros((len(user), LENGTH), dtype=np.int64)
    # Below 0 for A; places that a list does not fill are worth nothing.
    worth = np.zeros((len(user), LENGTH))
    for row, number in enumerate(request.tolist()):
        draft = partial(interleave, named[number], method, salt="s", length=LENGTH)
        shown = draft(request_id=f"{seed}-{row}")
        if forced and shown[0].team == "A" and rng.random() < forced:
            tries = (draft(request_id=f"{seed}-{row}-{n}") for n in range(99))
            shown = next(one for one in tries if one[0].team == "B")
        for place, one in enumerate(shown):
            item[row, place] = int(str(one.item))
            worth[row, place] = _SIGNS[one.team] * one.credit
    chance = ready[user, None] * LOOKS * own.attraction[request[:, None], item]
    clicked = rng.random(item.shape) < chance
    sums = (np.maximum(sign * worth * clicked, 0).sum(axis=1) for sign in (-1, 1))
    firsts = (sign * worth[:, 0] > 0 for sign in (-1, 1))
    return Log(*(np.bincount(user, one, users).astype(float) for one in (*sums, *firsts)))


_SIGNS = {"A": -1, "B": 1, None: 0}


def _sizes(rng: np.random.Generator, users: int) -> NDArray[np.int64]:
    """Draw the lists of each user: 1 to 200, of most users few."""
    return np.exp(rng.uniform(0, np.log(MOST_LISTS), users)).astype(np.int64)


def outcome(seed: int, own: World, method: Method, users: int = USERS) -> tuple[float, float]:
    """Return the preference and its p-value; 0 and 1 where it is refused."""
    one = log(seed, own, method, users)
    try:
        found = preference(one.a, one.b)
    except Refusal:
        return 0.0, 1.0
    return found.value, found.p_value


def level(method: Method, even: bool, seeds: int = SEEDS) -> float:
    """Return how often equal rankers are told apart at 5 %.

    They are equal because each request comes with its lists given to either; or, with even clicks,
    because users click by place alone, whatever the lists.
    """
    worlds = (world(seed, (1.0, 1.0), mirrored=not even, even=even) for seed in range(seeds))
    p_values = [outcome(seed, own, method)[1] for seed, own in enumerate(worlds)]
    return float(np.mean(np.array(p_values) <= 0.05))


def signs(method: Method, seeds: int = SEEDS // 2) -> tuple[int, int]:
    """Count significant preferences, and those with the sign of the true A/B difference."""
    rng, significant, right = np.random.default_rng(7), 0, 0
    for seed in range(seeds):
        own = world(10_000 + seed, (1.0, float(rng.choice([0.3, 0.6, 1.5, 2.0]))))
        value, p_value = outcome(seed, own, method)
        if p_value <= 0.05:
            significant += 1
            right += (value > 0) == (own.lift > 0)
    return significant, right


def users_needed(method: Method, noise: float, users: int = 1_000) -> tuple[float, float, float]:
    """Return the true lift, and the users that find it with 80 % by interleaving and by an A/B.

    The A/B test is that of clicks per list, which needs fewer users than that of clicks per user.
    """
    own = world(3, (1.0, noise))
    one = log(3, own, method, users)
    few = units_needed(preference(one.a, one.b))
    arms = [estimate_ratio(_clicks(side, own.alone(side))) for side in (0, 1)]
    difference = float(own.alone(1).sum() - own.alone(0).sum()) / len(own.lists)
    per_unit = sum(arm.variance * arm.units for arm in arms)
    return own.lift, few, 2 * per_unit * (QUANTILES / difference) ** 2


def _clicks(seed: int, chances: Floats, users: int = 20_000) -> Moments:
    """Return clicks and lists of users of whom one ranker has every list."""
    rng = np.random.default_rng(seed)
    sizes, ready = _sizes(rng, users), rng.gamma(2.0, 0.5, users)
    user = np.repeat(np.arange(users), sizes)
    shown = chances[rng.integers(0, len(chances), len(user))]
    clicked = (rng.random(shown.shape) < ready[user, None] * shown).sum(axis=1)
    return Moments.of(np.bincount(user, clicked, users), sizes)


def power(method: Method, noise: float, users: int, runs: int = 200) -> float:
    """Return how often so many users find a preference."""
    own = world(3, (1.0, noise))
    return float(np.mean([outcome(s, own, method, users)[1] <= 0.05 for s in range(runs)]))


def found(forced: float, seeds: int = 200) -> float:
    """Return how often first places are found uneven at the budget of one of four families."""
    told = 0
    for seed in range(seeds):
        one = log(seed, world(seed, (1.0, 1.0)), "team_draft", forced=forced)
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
    yield "| method | true lift | interleaving | A/B of clicks per list | times fewer users |"
    yield "|---|--:|--:|--:|--:|"
    for method in METHODS:
        for noise in (0.9, 0.8):
            lift, few, many = users_needed(method, noise)
            yield f"| {method} | {lift:+.1%} | {few:,.0f} | {many:,.0f} | {many / few:,.0f} |"
    yield ""
    lift, few, _ = users_needed("team_draft", 0.9)
    share = power("team_draft", 0.9, round(few))
    yield f"With {few:,.0f} users a team draft finds a preference in {share:.0%} of 200 runs"
    yield f"where the lift is {lift:+.1%}."
    yield ""
    yield "| lists forced to begin with B | found by first places |"
    yield "|---|--:|"
    for forced in (0.0, 0.1, 0.2):
        yield f"| {forced:.0%} | {found(forced):.1%} |"


def main() -> None:
    """Print the tables as they are computed."""
    for line in lines():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
