"""Users and catalogue of a simulation.

`run.py` draws them from the plan: `visits.py` uses the users, `lists.py` both, `files.py` writes
the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, slots=True)
class Users:
    """One entry per user: activity, readiness to click, patience with items, and segments."""

    activity: Floats
    readiness: Floats
    patience: Floats
    favourite: Ints
    device: Ints
    country: Ints


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One entry per item, the most popular first.

    ``cumulative`` holds the popularity of group g of items (g, g + POOL, g + 2·POOL, …) as a
    distribution shifted by g, so that one search in the flat array draws from any group.
    """

    item_id: Ints
    category: Ints
    quality: Floats
    cumulative: Floats

    def draw_pools(self, rng: np.random.Generator, requests: int) -> Ints:
        """Candidates of each request: one item of every group, so that none is repeated."""
        group = np.arange(POOL)
        row = np.searchsorted(self.cumulative, rng.random((requests, POOL)) + group, side="right")
        per_group = len(self.item_id) // POOL
        rank = np.minimum(row - group * per_group, per_group - 1)
        items: Ints = rank * POOL + group
        return items


def draw_users(plan: Plan, rng: np.random.Generator) -> Users:
    """Heavy and light users; patience is independent of everything that a model can change."""
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
    """Items whose popularity follows Zipf's law."""
    n = plan.items
    popularity = np.arange(1, n + 1) ** -_POPULARITY_EXPONENT
    by_group = popularity.reshape(-1, POOL).T
    shares = np.cumsum(by_group, axis=1) / by_group.sum(axis=1, keepdims=True)
    return Catalogue(
        item_id=rng.permutation(n) + 1,
        category=_draw_categories(rng, n),
        quality=rng.normal(0, 0.5, n),
        cumulative=(shares + np.arange(POOL)[:, None]).ravel(),
    )


def _draw_categories(rng: np.random.Generator, n: int) -> Ints:
    weights = 1 / np.arange(2, len(CATEGORIES) + 2)
    return rng.choice(len(CATEGORIES), n, p=weights / weights.sum())
