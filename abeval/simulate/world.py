"""Plan a simulated log: size, dates, defects, users and catalogue."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.bounds import MAX_IMPRESSIONS, check_seed
from abeval.errors import ExperimentError

DEFAULT_IMPRESSIONS = 200_000
LEAST_IMPRESSIONS = 5_000
LIST_LENGTH = 20
_POOL = 40

PRE_START = date(2026, 9, 7)
START = date(2026, 9, 14)
END = date(2026, 9, 28)
LOOK = date(2026, 9, 21)
DAY_MS = 86_400_000
PRE_DAYS = (START - PRE_START).days
DAYS = (END - PRE_START).days
_PAST_IMPRESSIONS = 60_000

NAME = "sample"
VARIANTS = ("control", "treatment")
# Users are assigned by a hash of the experiment's name and their id. From this id on, the variants
# are nearly equal in size, whatever the number of users.
FIRST_USER = 20_000


DIRT = {
    "duplicate_impressions": 0.005,
    "null_score_impressions": 0.0005,
    "null_user_requests": 0.002,
    "crossover_users": 0.003,
    "orphan_clicks": 0.004,
    "late_clicks": 0.003,
    "duplicate_clicks": 0.004,
    "null_dwell_clicks": 0.005,
}
"""Rate of each kind of defect, as a share of the rows that can have it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A simulation, determined by its size, seed, name and start.

    `impressions` counts the impressions before duplicates are added, including the pre-period.
    `name` is the salt of the assignment, `start` the first day of the pre-period, and `noise` the
    standard deviation with which the candidate sees an item's appeal; the baseline's is 1.3.

    >>> plan = Plan(200_000)
    >>> plan.requests, plan.users, plan.items
    (10000, 3333, 2000)
    >>> Plan(20_000_000).users
    500000
    """

    impressions: int = DEFAULT_IMPRESSIONS
    seed: int = 7
    name: str = NAME
    start: date = PRE_START
    noise: float = 0.8

    requests_per_chunk: ClassVar[int] = 50_000

    def __post_init__(self) -> None:
        """Check the seed, and that the log is large enough for every kind of defect."""
        size = f"{self.impressions:,} impressions are too"
        if self.impressions < LEAST_IMPRESSIONS:
            raise ExperimentError(f"{size} few to simulate", f"use at least {LEAST_IMPRESSIONS:,}")
        if self.impressions > MAX_IMPRESSIONS:
            raise ExperimentError(f"{size} many to simulate", f"use at most {MAX_IMPRESSIONS:,}")
        check_seed(self.seed)

    def past(self, count: int) -> list[Plan]:
        """Plan smaller past experiments, one after the other.

        Their candidates see appeal from much better to much worse than the baseline, in an order
        drawn by the seed.

        >>> [(plan.name, plan.noise) for plan in Plan().past(3)]
        [('ranker_1', 0.5), ('ranker_2', 3.0), ('ranker_3', 1.22)]
        """
        noises = np.random.default_rng(self.seed).permutation(np.geomspace(*_NOISES, count))
        return [
            Plan(
                min(self.impressions, _PAST_IMPRESSIONS),
                self.seed + number,
                f"ranker_{number}",
                self.start - (count + 1 - number) * (END - PRE_START),
                round(float(noise), 2),
            )
            for number, noise in enumerate(noises, start=1)
        ]

    @property
    def requests(self) -> int:
        """Return the number of requests, each with a list of 20."""
        return self.impressions // LIST_LENGTH

    @property
    def users(self) -> int:
        """Return the number of users, with 3 requests each down to 2 in large logs."""
        decades = math.log10(self.impressions / DEFAULT_IMPRESSIONS)
        return round(self.requests / min(3.0, max(2.0, 3 - decades / 2)))

    @property
    def items(self) -> int:
        """Return the number of items, a multiple of the candidate pool."""
        return _POOL * min(2_500, max(10, self.impressions // 4_000))


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DEVICES = ("phone", "desktop", "tablet")
COUNTRIES = ("DE", "FR", "US", "BR", "IN")
CATEGORIES = (
    *("news", "music", "sports", "film", "games", "food"),
    *("travel", "science", "fashion", "health", "cars", "art"),
)

_DEVICE_SHARES = (0.62, 0.30, 0.08)
_COUNTRY_SHARES = (0.3, 0.2, 0.2, 0.15, 0.15)
_POPULARITY_EXPONENT = 1.0
_ACTIVITY_SPREAD = 0.9
_NOISES = (0.5, 3.0)


class Users(NamedTuple):
    """One entry per user: activity, readiness, patience and segments."""

    activity: Floats
    readiness: Floats
    patience: Floats
    favourite: Ints
    device: Ints
    country: Ints


class Catalogue(NamedTuple):
    """One entry per item, the most popular first.

    ``cumulative`` holds the popularity of group g of items (g, g + POOL, g + 2·POOL, …) as a
    distribution shifted by g, so that one search in the flat array draws from any group.
    """

    item_id: Ints
    category: Ints
    quality: Floats
    cumulative: Floats

    def draw_pools(self, rng: np.random.Generator, requests: int) -> Ints:
        """Draw each request's candidates: one item of every group."""
        group = np.arange(_POOL)
        row = np.searchsorted(self.cumulative, rng.random((requests, _POOL)) + group, side="right")
        per_group = len(self.item_id) // _POOL
        rank = np.minimum(row - group * per_group, per_group - 1)
        items: Ints = rank * _POOL + group
        return items


def draw_users(plan: Plan, rng: np.random.Generator) -> Users:
    """Draw heavy and light users; patience does not depend on the model."""
    n = plan.users
    return Users(
        activity=rng.lognormal(0, _ACTIVITY_SPREAD, n),
        readiness=rng.normal(0, 0.4, n),
        patience=rng.lognormal(-0.08, 0.4, n),
        favourite=_draw_categories(rng, n),
        device=rng.choice(len(DEVICES), n, p=_DEVICE_SHARES),
        country=rng.choice(len(COUNTRIES), n, p=_COUNTRY_SHARES),
    )


def draw_catalogue(plan: Plan, rng: np.random.Generator) -> Catalogue:
    """Draw items whose popularity follows Zipf's law."""
    n = plan.items
    popularity = np.arange(1, n + 1) ** -_POPULARITY_EXPONENT
    # Each group has popular and rare items alike.
    by_group = popularity.reshape(-1, _POOL).T
    shares = np.cumsum(by_group, axis=1) / by_group.sum(axis=1, keepdims=True)
    return Catalogue(
        item_id=rng.permutation(n) + 1,
        category=_draw_categories(rng, n),
        quality=rng.normal(0, 0.5, n),
        cumulative=(shares + np.arange(_POOL)[:, None]).ravel(),
    )


def _draw_categories(rng: np.random.Generator, n: int) -> Ints:
    weights = 1 / np.arange(2, len(CATEGORIES) + 2)
    return rng.choice(len(CATEGORIES), n, p=weights / weights.sum())
