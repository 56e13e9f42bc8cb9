"""How rows were served: side, state, distance of scores; against a plain loop."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

from tests.relations import Keyed, Relations, answer, chance, near

DAY = 86_400_000


class Impression(NamedTuple):
    """A row of `agreement_rows`."""

    variant: str
    unit_id: str
    cluster: int
    day: str | None
    time_ms: int
    position: int | None
    click: int
    baseline: float | None
    candidate: float | None
    served_score: float | None
    timeout: float | None
    fallback: float | None
    stale: float | None
    empty: float | None
    latency: float | None
    model_version: str | None
    model_time: int | None
    feature_time: int | None
    item_id: int | None
    treated: int | None
    request_id: int | None
    category: str | None


class Side(NamedTuple):
    """A row of `agreement_sides`."""

    variant: str
    side: str


class Key(NamedTuple):
    """A row of `training_keys`."""

    unit_id: str
    item_id: str
    time_ms: int


SIDES = [Side("old", "control"), Side("new", "variant")]
NOW = 100 * DAY
SCORES = (-0.5, 0.0, 0.2, 0.5, 0.9, 1.0, 1.5, 2.0, None)
PLAIN = Impression(
    *("old", "u", 0, "2022-04-01", NOW, 1, 0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0, "v"),
    *(NOW - 5, NOW - 1, 1, None, 4, "news"),
)


def impressions(count: int) -> list[Impression]:
    """Rows of three variants; every unit is its own row."""
    rng = chance(5)

    def flag() -> float | None:
        return rng.choice([None, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0])

    return [
        PLAIN._replace(
            variant=rng.choice(["old", "new", "third"]),
            unit_id=f"u{i}",
            time_ms=NOW + rng.randrange(3),
            click=rng.randrange(2),
            baseline=rng.choice(SCORES),
            candidate=rng.choice(SCORES),
            served_score=rng.choice(SCORES),
            timeout=flag(),
            fallback=flag(),
            stale=flag(),
            empty=flag(),
            model_time=rng.choice([None, NOW - 5 * DAY, NOW - 2 * DAY, NOW - 7]),
            feature_time=rng.choice([None, NOW, NOW + 1, NOW + 2, NOW - 10]),
            item_id=rng.choice([None, 1, 2]),
        )
        for i in range(count)
    ]


def is_set(flag: float | None) -> bool:
    return flag is not None and flag > 0


def state(row: Impression, usual: float | None) -> str:
    if is_set(row.timeout) or is_set(row.fallback) or is_set(row.empty):
        return "failed"
    if row.feature_time is not None and row.feature_time > row.time_ms:
        return "late"
    if is_set(row.stale):
        return "old"
    if usual is None or row.model_time is None:
        return "plain"
    return "old" if row.time_ms - row.model_time > usual + DAY else "plain"


def apart(served: float | None, own: float | None) -> float | None:
    """In log odds where both are probabilities."""
    if served is None or own is None:
        return None
    if 0 < served < 1 and 0 < own < 1:
        return math.log(served / (1 - served)) - math.log(own / (1 - own))
    return served - own


def served(rows: list[Impression], keys: list[Key]) -> Keyed:
    sides = dict(SIDES)
    ages = [
        r.time_ms - r.model_time
        for r in rows
        if r.model_time is not None and sides.get(r.variant) == "control"
    ]
    usual = fmean(ages) if ages else None
    expected = {}
    for row in rows:
        if row.variant not in sides:
            continue
        own = row.baseline if row.variant == "old" else row.candidate
        expected[row.unit_id,] = {
            **{name: value for name, value in row._asdict().items() if name in KEPT},
            "side": sides[row.variant],
            "own": own,
            "learned": int(Key(row.unit_id, str(row.item_id), row.time_ms) in keys),
            "age_ms": None if row.model_time is None else row.time_ms - row.model_time,
            "state": state(row, usual),
            "apart": apart(row.served_score, own),
        }
    return expected


KEPT = (
    *(
        "variant",
        "cluster",
        "day",
        "position",
        "click",
        "served_score",
        "timeout",
        "fallback",
        "stale",
    ),
    *("empty", "latency", "model_version", "feature_time", "time_ms", "treated", "baseline"),
    *("candidate", "request_id", "item_id", "category"),
)


def served_rows(rows: list[Impression], keys: list[Key]) -> Keyed:
    tables: Relations = {"agreement_rows": rows, "agreement_sides": SIDES, "training_keys": keys}
    return answer("agreement/served_rows", **tables).by_key("unit_id")


def test_rows_are_of_one_side_with_its_own_score_and_a_state() -> None:
    rows = impressions(200)
    rng = chance(6)
    keys = [
        Key(r.unit_id, str(r.item_id or 3), r.time_ms + rng.choice([0, 0, 0, 1]))
        for r in rng.sample(rows, 100)
    ]
    assert served_rows(rows, keys) == near(served(rows, keys))


def test_a_model_is_old_if_it_is_more_than_a_day_older_than_controls_are_on_average() -> None:
    control = [PLAIN._replace(unit_id=f"c{i}", model_time=NOW - 10 * i) for i in range(3)]
    ages = {"day": DAY + 10, "more": DAY + 11, "unknown": None}
    variant = [
        PLAIN._replace(variant="new", unit_id=name, model_time=None if age is None else NOW - age)
        for name, age in ages.items()
    ]
    rows = served_rows([*control, *variant], [Key("nobody", "1", NOW)])
    assert {name: rows[name,]["state"] for name in ages} == {
        "day": "plain",
        "more": "old",
        "unknown": "plain",
    }


def test_without_the_age_of_controls_model_none_is_old() -> None:
    control = PLAIN._replace(model_time=None)
    variant = PLAIN._replace(variant="new", unit_id="v", model_time=NOW - 9 * DAY)
    rows = served_rows([control, variant], [Key("nobody", "1", NOW)])
    assert rows["v",]["state"] == "plain"
