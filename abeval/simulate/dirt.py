"""Defects of a simulated log. No row has two, so that every kind can be counted exactly.

`run.py` hands it the plan, the requests and the clean clicks; what comes back goes to `files.py`
and `truth.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abeval.simulate.visits import Requests
from abeval.simulate.world import DAY_MS, DAYS, LIST_LENGTH, PRE_DAYS, Ints, Plan

_HOUR_MS = DAY_MS // 24


@dataclass(frozen=True, slots=True)
class RowDirt:
    """Sorted indices of the impressions that are logged twice, and of those without scores."""

    duplicates: Ints
    unscored: Ints


@dataclass(frozen=True, slots=True)
class Clicks:
    """One entry per click. ``dwell`` -1 is null; impression indices below 0 do not exist."""

    impression: Ints
    at: Ints
    dwell: Ints

    @classmethod
    def joined(cls, parts: Sequence[Clicks]) -> Clicks:
        """The clicks of all parts, in order."""
        return cls(
            np.concatenate([part.impression for part in parts]),
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.dwell for part in parts]),
        )

    def take(self, rows: Ints) -> Clicks:
        """The clicks at these indices."""
        return Clicks(self.impression[rows], self.at[rows], self.dwell[rows])


@dataclass(frozen=True, slots=True)
class DirtyClicks:
    """All clicks of a log in time order, and the impression indices of those with each defect."""

    clicks: Clicks
    late: Ints
    orphans: Ints
    duplicates: Ints
    null_dwell: Ints


def draw_row_dirt(plan: Plan, requests: Requests, rng: np.random.Generator) -> RowDirt:
    """Impressions to duplicate and impressions to lose their scores, all with a user id."""
    n = len(requests.user) * LIST_LENGTH
    twice = max(2, round(n * plan.dirt.duplicate_impressions))
    unscored = max(2, round(n * plan.dirt.null_score_impressions))
    # Anonymous requests are rare: 10 % more draws than needed replace those that hit one.
    drawn = rng.choice(n, (twice + unscored) * 11 // 10 + 20, replace=False)
    drawn = drawn[~requests.anonymous[drawn // LIST_LENGTH]]
    return RowDirt(np.sort(drawn[:twice]), np.sort(drawn[twice : twice + unscored]))


def add_dirt_to_clicks(
    plan: Plan, requests: Requests, rows: RowDirt, clean: Clicks, rng: np.random.Generator
) -> DirtyClicks:
    """The clean clicks with late, orphan and duplicate ones added, and some dwell times removed."""
    duplicates, null_dwell = _pick_clicks(plan, len(clean.at), rng)
    clean.dwell[null_dwell] = -1
    late = _late_clicks(plan, requests, rows, clean, rng)
    orphans = _orphan_clicks(_count(clean, plan.dirt.orphan_clicks), rng)
    dirty = Clicks.joined([clean, clean.take(duplicates), late, orphans])
    return DirtyClicks(
        clicks=dirty.take(np.lexsort((dirty.impression, dirty.at))),
        late=late.impression,
        orphans=orphans.impression,
        duplicates=clean.impression[duplicates],
        null_dwell=clean.impression[null_dwell],
    )


def draw_dwell(patience: np.ndarray, rng: np.random.Generator) -> Ints:
    """Dwell times in ms, one per click, longer for patient users."""
    return (200 + patience * rng.lognormal(np.log(18_000), 1.0, len(patience))).astype(np.int64)


def _count(clicks: Clicks, share: float) -> int:
    return max(2, round(len(clicks.at) * share))


def _pick_clicks(plan: Plan, n: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    twice = max(2, round(n * plan.dirt.duplicate_clicks))
    null = max(2, round(n * plan.dirt.null_dwell_clicks))
    chosen = rng.choice(n, twice + null, replace=False)
    return chosen[:twice], chosen[twice:]


def _late_clicks(
    plan: Plan, requests: Requests, rows: RowDirt, clean: Clicks, rng: np.random.Generator
) -> Clicks:
    """Clicks 24 to 72 hours late, on impressions of the test period without another click.

    All of them happen before the end of the period, so that lateness is the only reason to exclude
    them.
    """
    tested = np.flatnonzero(requests.in_test & ~requests.anonymous)
    tested = tested[requests.at[tested] < (DAYS - 3) * DAY_MS]
    drawn = rng.choice(tested, 2 * (count := _count(clean, plan.dirt.late_clicks)) + 20)
    free = np.unique(drawn * LIST_LENGTH + rng.integers(0, LIST_LENGTH, len(drawn)))
    free = free[~np.isin(free, clean.impression) & ~np.isin(free, rows.duplicates)]
    chosen = rng.choice(free, count, replace=False)
    late = rng.integers(24 * _HOUR_MS + 60_000, 72 * _HOUR_MS, count)
    dwell = draw_dwell(np.ones(count), rng)
    return Clicks(chosen, requests.at[chosen // LIST_LENGTH] + late, dwell)


def _orphan_clicks(count: int, rng: np.random.Generator) -> Clicks:
    at = rng.integers(PRE_DAYS * DAY_MS, DAYS * DAY_MS, count)
    return Clicks(-1 - np.arange(count), at, draw_dwell(np.ones(count), rng))
