"""The queries of sources of metrics, over a few rows, against loops over them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tests.relations import Relation, answer

MINUTE = 60_000


class Shown(NamedTuple):
    """An impression."""

    unit_id: int
    in_period: bool
    day: str | None
    time_ms: int | None
    request_id: str | None
    item_id: str
    position: int | None
    category: str | None
    click: int


COLUMNS = (
    "unit_id bigint, in_period boolean, day date, time_ms bigint, request_id varchar, "
    "item_id varchar, position bigint, category varchar, click bigint"
)


def day_of(time_ms: int) -> str:
    """Days begin at an odd minute, so that no other cut of time falls on their ends."""
    return f"2024-03-0{1 + (time_ms - 37 * MINUTE) // (300 * MINUTE)}"


def shown(rows: int = 500) -> list[Shown]:
    """Impressions of few units, with much that is unknown."""
    rng = np.random.default_rng(6)
    impressions = []
    for number in range(rows):
        time_ms = int(rng.integers(40, 1200)) * MINUTE
        known = rng.random(4) > 0.1
        impressions.append(
            Shown(
                unit_id=int(rng.integers(1, 7)),
                in_period=bool(rng.random() < 0.7),
                day=day_of(time_ms) if known[0] else None,
                time_ms=time_ms if known[0] else None,
                request_id=f"r{rng.integers(30)}" if known[1] else None,
                item_id=f"i{number:03}",
                position=int(rng.integers(1, 9)) if known[2] else None,
                category="xyz"[rng.integers(3)] if known[3] else None,
                click=int(rng.random() < 0.4),
            )
        )
    return impressions


def grouped[T, K: Hashable](rows: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Rows by key."""
    groups: dict[K, list[T]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups
