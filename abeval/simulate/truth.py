"""The truth of a simulated log, as written to ``truth.json``.

`run.py` hands it requests, defects, clicks and expected clicks; users compare an analysis with what
it writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from abeval.simulate.dirt import DirtyClicks, RowDirt
from abeval.simulate.visits import Requests
from abeval.simulate.world import LIST_LENGTH, Ints, Plan

SCHEMA = 1

# The candidate only changes which items are clicked: visits do not depend on the variant, and the
# dwell time of a click depends only on the user's patience.
MOVED = ("ctr", "clicks_per_user", "dwell_per_user", "dwell_per_impression")
UNMOVED = (
    *("dwell_per_click", "long_click_rate", "impressions_per_user", "page_views_per_user"),
    *("sessions_per_user", "active_days_per_user", "session_length"),
)


@dataclass(frozen=True, slots=True)
class Truth:
    """The true values that an analysis of the simulated log should reproduce.

    Attributes:
        schema: version of this record.
        seed: seed of the simulation.
        impressions: number of impressions before duplicates were added.
        lift: true relative lift of treatment over control, by metric.
        expected: expected CTR, by variant, if it had served all requests of the test period.
        rows: rows of each file, and numbers of users and requests; ``…_test`` are those of the
            test period, where a click belongs to the period of its impression.
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

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def truth_of(
    plan: Plan,
    requests: Requests,
    rows: RowDirt,
    clicks: DirtyClicks,
    expected_clicks: tuple[float, float],
) -> Truth:
    """The truth of the generated log."""
    shown = LIST_LENGTH * int((requests.in_test & ~requests.anonymous).sum())
    control, treatment = expected_clicks
    return Truth(
        schema=SCHEMA,
        seed=plan.seed,
        impressions=plan.requests * LIST_LENGTH,
        lift=dict.fromkeys(MOVED, treatment / control - 1) | dict.fromkeys(UNMOVED, 0.0),
        expected={"ctr": {"control": control / shown, "treatment": treatment / shown}},
        rows=_rows(plan, requests, rows, clicks),
        dirt=_dirt(requests, rows, clicks, np.ones_like(requests.in_test)),
        dirt_test=_dirt(requests, rows, clicks, requests.in_test),
    )


def _rows(plan: Plan, requests: Requests, rows: RowDirt, clicks: DirtyClicks) -> dict[str, int]:
    tested = requests.in_test & ~requests.anonymous
    on_impression = clicks.clicks.impression[clicks.clicks.impression >= 0]
    clicks_test = int(requests.in_test[on_impression // LIST_LENGTH].sum())
    duplicates_test = int(requests.in_test[rows.duplicates // LIST_LENGTH].sum())
    return {
        "impressions": plan.requests * LIST_LENGTH + len(rows.duplicates),
        "clicks": len(clicks.clicks.at),
        "items": plan.items,
        "requests": plan.requests,
        "users": len(np.unique(requests.user[~requests.anonymous])),
        "impressions_test": LIST_LENGTH * int(requests.in_test.sum()) + duplicates_test,
        "clicks_test": clicks_test,
        "users_test": len(np.unique(requests.user[tested])),
    }


def _dirt(
    requests: Requests, rows: RowDirt, clicks: DirtyClicks, period: np.ndarray
) -> dict[str, int]:
    def count(impressions: Ints) -> int:
        return int(period[impressions // LIST_LENGTH].sum())

    return {
        "duplicate_impressions": count(rows.duplicates),
        "null_user_impressions": LIST_LENGTH * int((requests.anonymous & period).sum()),
        "null_score_impressions": count(rows.unscored),
        "crossover_users": len(np.unique(requests.user[requests.crossover])),
        "orphan_clicks": len(clicks.orphans),
        "late_clicks": count(clicks.late),
        "duplicate_clicks": count(clicks.duplicates),
        "null_dwell_clicks": count(clicks.null_dwell),
    }
