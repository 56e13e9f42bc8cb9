"""Draw requests, the lists that models rank for them, and clicks."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import Assignment
from abeval.simulate import world
from abeval.simulate.world import LIST_LENGTH, Catalogue, Floats, Ints, Plan, Users

Bools = NDArray[np.bool_]

# Monday to Sunday, and midnight to 23 o'clock.
_WEEK = np.array([1.0, 0.96, 0.94, 0.97, 1.04, 1.25, 1.22])
_HOURS = np.array([3, 2, 1, 1, 1, 1, 2, 4, 5, 5, 5, 5, 6, 6, 5, 5, 5, 6, 7, 8, 9, 9, 7, 5])
_MEAN_REQUESTS = 1.25
_MEAN_GAP_MS = 180_000
# Below the 30 minutes that end a session.
_LONGEST_GAP_MS = 1_500_000
_MEDIAN_LATENCY_MS = 80
_NONE = -1


class Requests(NamedTuple):
    """One entry per request, in time order (ms since the start of the pre-period).

    ``latency`` is in ms; ``variant`` is -1 in the pre-period; ``anonymous`` requests are logged
    without a user id; ``crossover`` requests belong to users who saw both variants.
    """

    user: Ints
    at: Ints
    device: Ints
    country: Ints
    latency: Ints
    variant: Ints
    anonymous: Bools
    crossover: Bools

    @property
    def is_test(self) -> Bools:
        """Tell which requests are in the test period."""
        tested: Bools = self.variant != _NONE
        return tested

    def part(self, rows: slice) -> Requests:
        """Return some of the requests."""
        return Requests._make(column[rows] for column in self)


def draw_requests(
    plan: Plan, users: Users, rng: np.random.Generator, serving: np.random.Generator
) -> Requests:
    """Draw all requests of a log; `serving` draws their latency."""
    user, at, device = _draw_visits(plan, users, rng)
    assigned = assign_variants(plan.users, plan.name)
    variant = np.where(at >= world.PRE_DAYS * world.DAY_MS, assigned[user], _NONE)
    crossover = _cross_over(plan, user, at, variant, rng)
    anonymous = np.zeros(plan.requests, dtype=bool)
    lost = max(1, round(plan.requests * world.DIRT["null_user_requests"]))
    anonymous[rng.choice(np.flatnonzero(~crossover), lost, replace=False)] = True
    latency = serving.lognormal(np.log(_MEDIAN_LATENCY_MS), 0.4, plan.requests).astype(np.int64)
    country = users.country[user]
    return Requests(user, at, device, country, latency, variant, anonymous, crossover)


def _name_user(user: int) -> str:
    """Return the id in the log of a user with this index.

    >>> _name_user(123)
    'u0020123'
    """
    return f"u{world.FIRST_USER + user:07d}"


def assign_variants(users: int, salt: str = world.NAME) -> Ints:
    """Return the index of the variant that each user's hash assigns."""
    split = Assignment(salt, dict.fromkeys(world.VARIANTS, 0.5))
    names = split.assign_many(map(_name_user, range(users))).variant
    return (names == world.VARIANTS[1]).to_numpy().astype(np.int64)


def _draw_visits(plan: Plan, users: Users, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    sizes = _draw_session_sizes(plan.requests, rng)
    n = len(sizes)
    user = _draw_visitors(users, n, rng)
    # Nine sessions in ten are on the user's usual device.
    usual = rng.random(n) < 0.9
    device = np.where(usual, users.device[user], rng.integers(0, len(world.DEVICES), n))
    start, after = _draw_session_starts(n, rng), _draw_offsets(sizes, rng)
    session = np.repeat(np.arange(n), sizes)
    # A session that would end after the log starts earlier.
    over = start + after[np.cumsum(sizes) - 1] - (world.DAYS * world.DAY_MS - 60_000)
    at = np.repeat(start - np.maximum(over, 0), sizes) + after
    order = np.argsort(at, kind="stable")
    return user[session][order], at[order], device[session][order]


def _draw_visitors(users: Users, sessions: int, rng: np.random.Generator) -> Ints:
    """Draw the user of each session; each user has at least one."""
    first = np.arange(len(users.activity))[:sessions]
    cumulative = np.cumsum(users.activity)
    draws = rng.random(sessions - len(first)) * cumulative[-1]
    return np.concatenate([first, np.searchsorted(cumulative, draws, side="right")])


def _draw_session_sizes(requests: int, rng: np.random.Generator) -> Ints:
    # One draw per request is always enough; the last session is cut to the number of requests.
    sizes = rng.geometric(1 / _MEAN_REQUESTS, requests)
    total = np.cumsum(sizes)
    last = int(np.searchsorted(total, requests))
    sizes[last] -= total[last] - requests
    return sizes[: last + 1]


def _draw_session_starts(n: int, rng: np.random.Generator) -> Ints:
    by_day = np.tile(_WEEK, world.DAYS // 7)
    day = rng.choice(world.DAYS, n, p=by_day / by_day.sum())
    hour = rng.choice(24, n, p=_HOURS / _HOURS.sum())
    start: Ints = day * world.DAY_MS + hour * 3_600_000 + rng.integers(0, 3_600_000, n)
    return start


def _draw_offsets(sizes: Ints, rng: np.random.Generator) -> Ints:
    """Draw times since the first request of a session."""
    gaps = 15_000 + rng.exponential(_MEAN_GAP_MS, int(sizes.sum())).astype(np.int64)
    total = np.cumsum(np.minimum(gaps, _LONGEST_GAP_MS))
    first = np.cumsum(sizes) - sizes
    offsets: Ints = total - np.repeat(total[first], sizes)
    return offsets


def _cross_over(plan: Plan, user: Ints, at: Ints, variant: Ints, rng: np.random.Generator) -> Bools:
    """Change the last ``variant`` of some users, in place; flag all their requests."""
    tested = np.flatnonzero(variant != _NONE)
    # By user and time, to find the last visit of each user.
    order = tested[np.lexsort((at[tested], user[tested]))]
    last = order[np.append(user[order][1:] != user[order][:-1], True)]
    first_at = np.full(plan.users, -1)
    first_at[user[order][::-1]] = at[order][::-1]
    # Only users who come twice can see both variants.
    returning = last[at[last] > first_at[user[last]]]
    count = min(len(returning), max(2, round(plan.users * world.DIRT["crossover_users"])))
    chosen = rng.choice(returning, count, replace=False)
    variant[chosen] = 1 - variant[chosen]
    flags = np.zeros(plan.users, dtype=bool)
    flags[user[chosen]] = True
    return flags[user]


_Number = TypeVar("_Number", np.float64, np.int64)

_POSITION_BIAS = np.arange(1, LIST_LENGTH + 1) ** -0.6

_MEAN_APPEAL = -1.82
_APPEAL_SPREAD = 0.98
_TASTE_SPREAD = 0.7
_FAVOURITE = 0.8
_DEVICE_EFFECT = np.array([0.05, 0.0, -0.15])
# Noise in the ranking, so that position is not a function of the score.
_EXPLORATION = 0.5
_SCORE_DIGITS = 5


class _Model(NamedTuple):
    """A ranking model that sees an item's appeal with noise."""

    noise: float
    exposure: float

    def estimate_appeal(self, appeal: Floats, rng: np.random.Generator) -> Floats:
        """Return the expected appeal, from a noisy observation of the appeal."""
        # The share of the observation's variance that is signal.
        trust = _APPEAL_SPREAD**2 / (_APPEAL_SPREAD**2 + self.noise**2)
        view = appeal + self.noise * rng.standard_normal(appeal.shape)
        return _MEAN_APPEAL + trust * (view - _MEAN_APPEAL)

    def score(self, estimated: Floats) -> Floats:
        """Return click probabilities, shrunk towards one half by uncertainty."""
        trust = _APPEAL_SPREAD**2 / (_APPEAL_SPREAD**2 + self.noise**2)
        unseen = _APPEAL_SPREAD**2 * (1 - trust)
        # Mean of a sigmoid over a normal, approximated (MacKay 1992).
        chance = self.exposure * _sigmoid(estimated / np.sqrt(1 + np.pi / 8 * unseen))
        return np.round(chance, _SCORE_DIGITS)


BASELINE = _Model(noise=1.3, exposure=0.36)
_CANDIDATE_EXPOSURE = 0.38


class ServedLists(NamedTuple):
    """Served lists and clicks, and the clicks expected of each model."""

    item: Ints
    score_baseline: Floats
    score_candidate: Floats
    clicked: Bools
    expected_clicks: tuple[float, float]


def serve(
    plan: Plan, catalogue: Catalogue, users: Users, requests: Requests, rng: np.random.Generator
) -> ServedLists:
    """Draw lists and clicks of some requests."""
    pool = catalogue.draw_pools(rng, len(requests.user))
    appeal = _draw_appeal(catalogue, users, requests, pool, rng)
    candidate = _Model(plan.noise, _CANDIDATE_EXPOSURE)
    estimated = BASELINE.estimate_appeal(appeal, rng), candidate.estimate_appeal(appeal, rng)
    lists = _rank(estimated[0], rng), _rank(estimated[1], rng)
    served = np.where(requests.variant[:, None] == 1, lists[1], lists[0])
    chance = _compute_click_chance(appeal, served)
    counts = requests.is_test & ~requests.anonymous
    return ServedLists(
        item=catalogue.item_id[_pick(pool, served)],
        score_baseline=BASELINE.score(_pick(estimated[0], served)),
        score_candidate=candidate.score(_pick(estimated[1], served)),
        clicked=(rng.random(chance.shape) < chance) & ~requests.anonymous[:, None],
        expected_clicks=(
            _sum_expected_clicks(appeal, lists[0], counts),
            _sum_expected_clicks(appeal, lists[1], counts),
        ),
    )


def _draw_appeal(
    catalogue: Catalogue, users: Users, requests: Requests, pool: Ints, rng: np.random.Generator
) -> Floats:
    """Draw the appeal of every candidate item to the request's user, as a logit."""
    per_request = users.readiness[requests.user] + _DEVICE_EFFECT[requests.device]
    match = catalogue.category[pool] == users.favourite[requests.user][:, None]
    taste = _TASTE_SPREAD * rng.standard_normal(pool.shape)
    level = _MEAN_APPEAL - 0.1 * _FAVOURITE + per_request[:, None]
    appeal: Floats = level + catalogue.quality[pool] + _FAVOURITE * match + taste
    return appeal


def _rank(appeal: Floats, rng: np.random.Generator) -> Ints:
    key = appeal + _EXPLORATION * rng.standard_normal(appeal.shape)
    return np.argsort(-key, axis=1)[:, :LIST_LENGTH]


def _pick(values: NDArray[_Number], chosen: Ints) -> NDArray[_Number]:
    return np.take_along_axis(values, chosen, axis=1)


def _compute_click_chance(appeal: Floats, chosen: Ints) -> Floats:
    return _POSITION_BIAS * _sigmoid(_pick(appeal, chosen))


def _sum_expected_clicks(appeal: Floats, chosen: Ints, counts: Bools) -> float:
    return float(_compute_click_chance(appeal[counts], chosen[counts]).sum())


def _sigmoid(logit: Floats) -> Floats:
    return 1 / (1 + np.exp(-logit))
