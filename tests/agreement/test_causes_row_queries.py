"""Sums over the rows of an agreement: days, positions, items; against plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import pytest

from tests.relations import Keyed, answer, chance

SCORES = (-0.5, 0.0, 0.125, 0.5, 0.75, 1.0, 1.5, 2.0, None)
"""Probabilities, both ends of them, what is none, and an unknown one."""


class Impression(NamedTuple):
    """A row of `agreement_served`."""

    side: str
    variant: str
    cluster: int
    day: date | None
    position: float | None
    item_id: int | None
    click: int
    baseline: float | None
    candidate: float | None


def impressions(seed: int, count: int, items: int) -> list[Impression]:
    """Rows of both sides; item 0 is rare."""
    rng = chance(seed)
    return [
        Impression(
            *rng.choice([("control", "old"), ("variant", "new")]),
            rng.randrange(4),
            rng.choice([date(2022, 4, 1), date(2022, 4, 2), None]),
            rng.choice([0.0, 1.0, 2.0, None]),
            rng.choice([None, *range(1, items)]) if rng.random() < 0.9 else 0,
            int(rng.random() < 0.4),
            rng.choice(SCORES),
            rng.choice(SCORES),
        )
        for _ in range(count)
    ]


def beside_clicks(rows: list[Impression], name: str) -> dict[str, float | None]:
    """Clicks and scores of the rows whose score is a probability."""
    usable = [(r.click, s) for r in rows if (s := getattr(r, name)) is not None and 0 <= s <= 1]
    clicks, nanos = sum(c for c, _ in usable), float(sum(round(1e9 * s) for _, s in usable))
    return (
        {f"{name}_clicks": clicks, f"{name}_nanos": nanos}
        if usable
        else dict.fromkeys((f"{name}_clicks", f"{name}_nanos"))
    )


def summed(rows: list[Impression], keys: Sequence[tuple[object, ...] | None]) -> Keyed:
    groups = {key: [r for r, k in zip(rows, keys, strict=True) if k == key] for key in keys if key}
    return {
        key: {
            "impressions": len(of),
            "clicks": sum(r.click for r in of),
            **beside_clicks(of, "baseline"),
            **beside_clicks(of, "candidate"),
        }
        for key, of in groups.items()
    }


def test_a_day_sums_the_scores_that_are_probabilities() -> None:
    rows = impressions(1, 150, 9)
    keys = [None if r.day is None else (r.variant, str(r.day), r.cluster) for r in rows]
    days = answer("agreement/days", agreement_served=rows).by_key("variant day cluster")
    assert days == summed(rows, keys)


def test_a_position_sums_the_scores_that_are_probabilities() -> None:
    rows = impressions(2, 150, 9)
    keys = [None if r.position is None else (r.variant, r.cluster, int(r.position)) for r in rows]
    positions = answer("agreement/positions", agreement_served=rows)
    assert positions.by_key("variant cluster position") == summed(rows, keys)


def test_an_item_is_unsupported_if_the_odd_groups_of_control_never_showed_it() -> None:
    rows = impressions(3, 120, 40)
    shown = [r for r in rows if r.item_id is not None]
    reference = {r.item_id for r in shown if r.variant == "old" and r.cluster % 2 == 1}
    expected: dict[tuple[object, ...], Counter[str]] = {}
    for row in shown:
        if row.variant == "old" and row.cluster % 2 == 1:
            continue
        own = expected.setdefault((row.side, row.cluster), Counter())
        own.update(impressions=1, clicks=row.click)
        if row.item_id not in reference:
            own.update(unsupported=1, unsupported_clicks=row.click)
        else:
            own.update(unsupported=0, unsupported_clicks=0)
    support = answer("agreement/support", agreement_served=rows)
    assert support.by_key("side cluster") == expected


def test_weights_make_controls_items_as_frequent_as_the_variants() -> None:
    rows = impressions(4, 120, 20)
    of = {
        name: Counter(r.item_id for r in rows if r.variant == name and r.item_id is not None)
        for name in ("old", "new")
    }
    weights = [of["new"][item] / n for item, n in of["old"].items() for _ in range(n)]
    expected = {
        "control_rows": len(weights),
        "weight": pytest.approx(sum(weights)),
        "squared_weight": pytest.approx(sum(w * w for w in weights)),
    }
    sums = answer("agreement/weights", agreement_served=rows).by_key("")
    assert sums == {(): expected}
