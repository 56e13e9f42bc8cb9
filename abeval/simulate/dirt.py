"""Which rows get dirty. No row is dirty in two ways, so that every kind can be counted exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abeval.simulate.plan import DAY_MS, DAYS, LIST_LENGTH, PRE_DAYS, Plan
from abeval.simulate.visits import Requests
from abeval.simulate.world import Ints

_HOUR_MS = DAY_MS // 24


@dataclass(frozen=True, slots=True)
class RowDirt:
    """Impressions (by index, sorted) that are logged twice, or lost their scores."""

    duplicates: Ints
    unscored: Ints


@dataclass(frozen=True, slots=True)
class Clicks:
    """One entry a click; ``dwell`` -1 is null. Impression index -1, -2, … has no impression."""

    impression: Ints
    at: Ints
    dwell: Ints

    @classmethod
    def joined(cls, parts: Sequence[Clicks]) -> Clicks:
        """All of them, one after the other."""
        return cls(
            np.concatenate([part.impression for part in parts]),
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.dwell for part in parts]),
        )

    def take(self, rows: Ints) -> Clicks:
        """The clicks at these places."""
        return Clicks(self.impression[rows], self.at[rows], self.dwell[rows])


@dataclass(frozen=True, slots=True)
class DirtyClicks:
    """All clicks of a log in order of time, and the impression index of those dirty in a way."""

    clicks: Clicks
    late: Ints
    orphans: Ints
    duplicates: Ints
    null_dwell: Ints


def draw_row_dirt(plan: Plan, requests: Requests, rng: np.random.Generator) -> RowDirt:
    """Impressions to duplicate or to strip of their scores, never those without a user."""
    n = len(requests.user) * LIST_LENGTH
    twice = max(2, round(n * plan.dirt.duplicate_impressions))
    unscored = max(2, round(n * plan.dirt.null_score_impressions))
    # Anonymous requests are rare; a tenth more than needed covers those that fall on them.
    drawn = rng.choice(n, (twice + unscored) * 11 // 10 + 20, replace=False)
    drawn = drawn[~requests.anonymous[drawn // LIST_LENGTH]]
    return RowDirt(np.sort(drawn[:twice]), np.sort(drawn[twice : twice + unscored]))


def soil_clicks(
    plan: Plan, requests: Requests, rows: RowDirt, clean: Clicks, rng: np.random.Generator
) -> DirtyClicks:
    """Add late, orphan and duplicate clicks to the clean ones, and lose some dwell times."""
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
    """Milliseconds that clicked items are looked at, for as patient users as these."""
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
    """Clicks 24 to 72 hours late, on impressions of the test period that nobody clicked in time.

    Only where they still come before the period's end, so that lateness is all that sets them
    aside.
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
