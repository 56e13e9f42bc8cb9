"""Visits of users: sessions of one or more requests, with daily and weekly rhythms.

`run.py` hands it the plan and the users of `world.py`, and hands its requests to the other modules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import Assignment
from abeval.simulate.world import (
    DAY_MS,
    DAYS,
    DEVICES,
    FIRST_USER,
    NAME,
    PRE_DAYS,
    VARIANTS,
    Ints,
    Plan,
    Users,
)

Bools = NDArray[np.bool_]

# Monday to Sunday, and midnight to 23 o'clock.
_WEEK = np.array([1.0, 0.96, 0.94, 0.97, 1.04, 1.25, 1.22])
_HOURS = np.array([3, 2, 1, 1, 1, 1, 2, 4, 5, 5, 5, 5, 6, 6, 5, 5, 5, 6, 7, 8, 9, 9, 7, 5])
_MEAN_REQUESTS = 1.25
_MEAN_GAP_MS = 180_000
# Below the 30 minutes that end a session.
_LONGEST_GAP_MS = 1_500_000
_NONE = -1


@dataclass(frozen=True, slots=True)
class Requests:
    """One entry per request, in time order (ms since the start of the pre-period).

    ``variant`` is -1 in the pre-period; ``anonymous`` requests are logged without a user id;
    ``crossover`` requests belong to users who saw both variants.
    """

    user: Ints
    at: Ints
    device: Ints
    variant: Ints
    anonymous: Bools
    crossover: Bools

    @property
    def in_test(self) -> Bools:
        """Whether a request is in the test period."""
        tested: Bools = self.variant != _NONE
        return tested

    def __getitem__(self, part: slice) -> Requests:
        """A slice of the requests."""
        return Requests(
            self.user[part],
            self.at[part],
            self.device[part],
            self.variant[part],
            self.anonymous[part],
            self.crossover[part],
        )


def draw_requests(plan: Plan, users: Users, rng: np.random.Generator) -> Requests:
    """All requests of a log."""
    user, at, device = _draw_visits(plan, users, rng)
    variant = np.where(at >= PRE_DAYS * DAY_MS, assigned_variants(plan.users)[user], _NONE)
    crossover = _cross_over(plan, user, at, variant, rng)
    anonymous = _lose_users(plan, crossover, rng)
    return Requests(user, at, device, variant, anonymous, crossover)


def user_name(user: int) -> str:
    """Id in the log of a user with this index.

    >>> user_name(123)
    'u0020123'
    """
    return f"u{FIRST_USER + user:07d}"


def assigned_variants(users: int) -> Ints:
    """Index of the variant that each user's hash assigns."""
    split = Assignment(NAME, dict.fromkeys(VARIANTS, 0.5))
    names = split.assign_many(map(user_name, range(users))).variant
    return (names == VARIANTS[1]).to_numpy().astype(np.int64)


def _draw_visits(plan: Plan, users: Users, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    sizes = _session_sizes(plan.requests, rng)
    n = len(sizes)
    user = _visitors(users, n, rng)
    usual = rng.random(n) < 0.9
    device = np.where(usual, users.device[user], rng.integers(0, len(DEVICES), n))
    start, after = _session_starts(n, rng), _offsets(sizes, rng)
    session = np.repeat(np.arange(n), sizes)
    at = _inside_period(start, after, sizes)
    order = np.argsort(at, kind="stable")
    return user[session][order], at[order], device[session][order]


def _visitors(users: Users, sessions: int, rng: np.random.Generator) -> Ints:
    """The user of each session: one session for every user, more for active users."""
    first = np.arange(len(users.activity))[:sessions]
    cumulative = np.cumsum(users.activity)
    draws = rng.random(sessions - len(first)) * cumulative[-1]
    return np.concatenate([first, np.searchsorted(cumulative, draws, side="right")])


def _session_sizes(requests: int, rng: np.random.Generator) -> Ints:
    # One draw per request is always enough; the last session is cut to the number of requests.
    sizes = rng.geometric(1 / _MEAN_REQUESTS, requests)
    total = np.cumsum(sizes)
    last = int(np.searchsorted(total, requests))
    sizes[last] -= total[last] - requests
    return sizes[: last + 1]


def _session_starts(n: int, rng: np.random.Generator) -> Ints:
    by_day = np.tile(_WEEK, DAYS // 7)
    day = rng.choice(DAYS, n, p=by_day / by_day.sum())
    hour = rng.choice(24, n, p=_HOURS / _HOURS.sum())
    start: Ints = day * DAY_MS + hour * 3_600_000 + rng.integers(0, 3_600_000, n)
    return start


def _offsets(sizes: Ints, rng: np.random.Generator) -> Ints:
    """Time from the first request of the session to each request."""
    gaps = 15_000 + rng.exponential(_MEAN_GAP_MS, int(sizes.sum())).astype(np.int64)
    total = np.cumsum(np.minimum(gaps, _LONGEST_GAP_MS))
    first = np.cumsum(sizes) - sizes
    offsets: Ints = total - np.repeat(total[first], sizes)
    return offsets


def _inside_period(start: Ints, after: Ints, sizes: Ints) -> Ints:
    # A session that would end after the log starts earlier.
    over = start + after[np.cumsum(sizes) - 1] - (DAYS * DAY_MS - 60_000)
    at: Ints = np.repeat(start - np.maximum(over, 0), sizes) + after
    return at


def _cross_over(plan: Plan, user: Ints, at: Ints, variant: Ints, rng: np.random.Generator) -> Bools:
    """Change the last ``variant`` of some users, in place; flag all their requests."""
    tested = np.flatnonzero(variant != _NONE)
    order = tested[np.lexsort((at[tested], user[tested]))]
    last = order[np.append(user[order][1:] != user[order][:-1], True)]
    first_at = np.full(plan.users, -1)
    first_at[user[order][::-1]] = at[order][::-1]
    returning = last[at[last] > first_at[user[last]]]
    count = min(len(returning), max(2, round(plan.users * plan.dirt.crossover_users)))
    chosen = rng.choice(returning, count, replace=False)
    variant[chosen] = 1 - variant[chosen]
    flags = np.zeros(plan.users, dtype=bool)
    flags[user[chosen]] = True
    return flags[user]


def _lose_users(plan: Plan, crossover: Bools, rng: np.random.Generator) -> Bools:
    lost = np.zeros(plan.requests, dtype=bool)
    count = max(1, round(plan.requests * plan.dirt.null_user_requests))
    lost[rng.choice(np.flatnonzero(~crossover), count, replace=False)] = True
    return lost
