"""Add defects to a simulated log, and note what is true of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from abeval.simulate.visits import BASELINE, Requests
from abeval.simulate.world import DAY_MS, DAYS, DIRT, LIST_LENGTH, PRE_DAYS, Ints, Plan

_HOUR_MS = DAY_MS // 24


class RowDirt(NamedTuple):
    """Indices of impressions logged twice, and of those without scores."""

    duplicates: Ints
    unscored: Ints


class Clicks(NamedTuple):
    """One entry per click; ``dwell`` −1 is null, negative impressions are orphans."""

    impression: Ints
    at: Ints
    dwell: Ints

    @classmethod
    def concatenate(cls, parts: Sequence[Clicks]) -> Clicks:
        """Join the clicks of all parts, in order."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def take(self, rows: Ints) -> Clicks:
        """Return the clicks at these indices."""
        return Clicks(*(column[rows] for column in self))


class _DirtyClicks(NamedTuple):
    """All clicks in time order, and the impressions of each kind of defect."""

    clicks: Clicks
    late: Ints
    orphans: Ints
    duplicates: Ints
    null_dwell: Ints


def draw_row_dirt(requests: Requests, rng: np.random.Generator) -> RowDirt:
    """Draw impressions to duplicate, and impressions to lose their scores."""
    n = len(requests.user) * LIST_LENGTH
    twice, unscored = _count(n, "duplicate_impressions"), _count(n, "null_score_impressions")
    # Anonymous requests are rare: 10 % more draws than needed replace those that hit one.
    drawn = rng.choice(n, (twice + unscored) * 11 // 10 + 20, replace=False)
    drawn = drawn[~requests.anonymous[drawn // LIST_LENGTH]]
    return RowDirt(np.sort(drawn[:twice]), np.sort(drawn[twice : twice + unscored]))


def add_dirt_to_clicks(
    requests: Requests, rows: RowDirt, clean: Clicks, rng: np.random.Generator
) -> _DirtyClicks:
    """Add late, orphan and duplicate clicks, and remove some dwell times."""
    n = len(clean.at)
    twice, null = _count(n, "duplicate_clicks"), _count(n, "null_dwell_clicks")
    chosen = rng.choice(n, twice + null, replace=False)
    duplicates, null_dwell = chosen[:twice], chosen[twice:]
    clean.dwell[null_dwell] = -1
    late = _draw_late_clicks(requests, rows, clean, rng)
    count = _count(n, "orphan_clicks")
    at = rng.integers(PRE_DAYS * DAY_MS, DAYS * DAY_MS, count)
    orphans = Clicks(-1 - np.arange(count), at, draw_dwell(np.ones(count), rng))
    dirty = Clicks.concatenate([clean, clean.take(duplicates), late, orphans])
    return _DirtyClicks(
        clicks=dirty.take(np.lexsort((dirty.impression, dirty.at))),
        late=late.impression,
        orphans=orphans.impression,
        duplicates=clean.impression[duplicates],
        null_dwell=clean.impression[null_dwell],
    )


def draw_dwell(patience: np.ndarray, rng: np.random.Generator) -> Ints:
    """Draw dwell times in ms, one per click, longer for patient users."""
    return (200 + patience * rng.lognormal(np.log(18_000), 1.0, len(patience))).astype(np.int64)


def _count(rows: int, kind: str) -> int:
    """Count the rows with a kind of defect, at least two.

    Therefore, small logs have every kind too.
    """
    return max(2, round(rows * DIRT[kind]))


def _draw_late_clicks(
    requests: Requests, rows: RowDirt, clean: Clicks, rng: np.random.Generator
) -> Clicks:
    """Draw clicks that come 24 to 72 hours late, on unclicked impressions."""
    tested = np.flatnonzero(requests.is_test & ~requests.anonymous)
    # Clicks come up to 72 hours later, and must still be in the log.
    tested = tested[requests.at[tested] < (DAYS - 3) * DAY_MS]
    count = _count(len(clean.at), "late_clicks")
    drawn = rng.choice(tested, 2 * count + 20)
    free = np.unique(drawn * LIST_LENGTH + rng.integers(0, LIST_LENGTH, len(drawn)))
    free = free[~np.isin(free, clean.impression) & ~np.isin(free, rows.duplicates)]
    chosen = rng.choice(free, count, replace=False)
    late = rng.integers(24 * _HOUR_MS + 60_000, 72 * _HOUR_MS, count)
    dwell = draw_dwell(np.ones(count), rng)
    return Clicks(chosen, requests.at[chosen // LIST_LENGTH] + late, dwell)


_SCHEMA = 1

# The candidate only changes which items are clicked: visits do not depend on the variant, and the
# dwell time of a click depends only on the user's patience.
_MOVED = ("ctr", "clicks_per_user", "dwell_per_user", "dwell_per_impression")
_UNMOVED = (
    *("dwell_per_click", "long_click_rate", "impressions_per_user", "page_views_per_user"),
    *("sessions_per_user", "active_days_per_user", "session_length"),
)


class Truth(NamedTuple):
    """The true values that an analysis of the simulated log should reproduce.

    Attributes:
        expected: expected CTR, by variant, if it had served all requests of the test period.
        rows: rows of each file, and numbers of users and requests; ``…_test`` are those of the
            test period, where a click belongs to the period of its impression.
        noise: standard deviation with which each model sees an item's appeal, a logit.
        dirt: rows of each kind of defect in the whole log (users for ``crossover_users``).
        dirt_test: the same for impressions of the test period and clicks on them.
    """

    schema: int
    seed: int
    impressions: int
    lift: Mapping[str, float]
    expected: Mapping[str, Mapping[str, float]]
    rows: Mapping[str, int]
    dirt: Mapping[str, int]
    dirt_test: Mapping[str, int]
    noise: Mapping[str, float]

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(self._asdict(), indent=2) + "\n", encoding="utf-8")


def build_truth(
    plan: Plan,
    requests: Requests,
    rows: RowDirt,
    clicks: _DirtyClicks,
    expected_clicks: tuple[float, float],
) -> Truth:
    """Build the truth of the generated log."""
    impressions = LIST_LENGTH * int((requests.is_test & ~requests.anonymous).sum())
    control, treatment = expected_clicks
    return Truth(
        schema=_SCHEMA,
        seed=plan.seed,
        impressions=plan.requests * LIST_LENGTH,
        lift=dict.fromkeys(_MOVED, treatment / control - 1) | dict.fromkeys(_UNMOVED, 0.0),
        expected={"ctr": {"control": control / impressions, "treatment": treatment / impressions}},
        rows=_count_rows(plan, requests, rows, clicks.clicks),
        dirt=_count_dirt(requests, rows, clicks, np.ones_like(requests.is_test)),
        dirt_test=_count_dirt(requests, rows, clicks, requests.is_test),
        noise={"baseline": BASELINE.noise, "candidate": plan.noise},
    )


def _count_those(requests: np.ndarray, impressions: Ints) -> int:
    """Count the impressions that belong to some of the requests."""
    return int(requests[impressions // LIST_LENGTH].sum())


def _count_rows(plan: Plan, requests: Requests, rows: RowDirt, clicks: Clicks) -> dict[str, int]:
    tested = requests.is_test & ~requests.anonymous
    clicked = clicks.impression[clicks.impression >= 0]
    learned = ~requests.is_test & ~requests.anonymous
    exposed = np.stack([requests.user[tested], requests.variant[tested]])
    return {
        "impressions": plan.requests * LIST_LENGTH + len(rows.duplicates),
        "clicks": len(clicks.at),
        "items": plan.items,
        "exposures": np.unique(exposed, axis=1).shape[1],
        "training": LIST_LENGTH * int(learned.sum()) - _count_those(learned, rows.unscored),
        "requests": plan.requests,
        "users": len(np.unique(requests.user[~requests.anonymous])),
        "impressions_test": LIST_LENGTH * int(requests.is_test.sum())
        + _count_those(requests.is_test, rows.duplicates),
        "clicks_test": _count_those(requests.is_test, clicked),
        "users_test": len(np.unique(requests.user[tested])),
    }


def _count_dirt(
    requests: Requests, rows: RowDirt, clicks: _DirtyClicks, period: np.ndarray
) -> dict[str, int]:
    return {
        "duplicate_impressions": _count_those(period, rows.duplicates),
        "null_user_impressions": LIST_LENGTH * int((requests.anonymous & period).sum()),
        "null_score_impressions": _count_those(period, rows.unscored),
        "crossover_users": len(np.unique(requests.user[requests.crossover])),
        "orphan_clicks": len(clicks.orphans),
        "late_clicks": _count_those(period, clicks.late),
        "duplicate_clicks": _count_those(period, clicks.duplicates),
        "null_dwell_clicks": _count_those(period, clicks.null_dwell),
    }
