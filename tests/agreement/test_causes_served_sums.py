"""Sums of served rows by side, group of units and state, against plain loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from scipy import stats

from tests.relations import answer, chance, near

NOW = 100


class Served(NamedTuple):
    """A row of `agreement_served`."""

    side: str
    cluster: int
    unit_id: str
    state: str
    position: int | None
    click: int
    own: float | None
    served_score: float | None
    apart: float | None
    time_ms: int
    feature_time: int | None
    learned: int
    treated: int | None
    timeout: float | None
    fallback: float | None
    empty: float | None
    latency: float | None
    stale: float | None
    model_version: str | None
    age_ms: int | None


SIDES = ("control", "variant")
FLAGS = ("timeout", "fallback", "empty")

SHIFTS = {
    "control": {0: 0.005, 1: -0.05, 2: 0.3, 3: 0.03},
    "variant": {0: 0.2, 1: 0.1, 2: -0.004, 3: -0.1},
}
"""Side → position → how far served scores are from the model's own; a null position is 0."""


def rows_served(count: int) -> list[Served]:
    """Rows whose served score is apart from the model's own by the shift of their position.

    What is added to a shift has both signs, so that its mean stays near the shift.
    """
    rng = chance(7)
    rows = []
    for i in range(count):
        side = rng.choice(SIDES)
        position = rng.choice([None, 0, 1, 2, 3])
        added = rng.choice([0.002, -0.002, 0.009, -0.009, 0.02, -0.02])
        distance = SHIFTS[side][position or 0] + added
        own, score = rng.choice([None, 0.5, 0.5]), rng.choice([None, 0.25, 0.25])
        rows.append(
            Served(
                side,
                rng.randrange(3),
                f"u{i % 40}",
                rng.choice(["plain", "plain", "plain", "late", "old", "failed"]),
                position,
                rng.randrange(2),
                own,
                score,
                None if own is None or score is None else distance,
                NOW,
                rng.choice([None, NOW - 1, NOW, NOW + 1]),
                rng.randrange(2),
                rng.choice([None, 0, 1]),
                rng.choice([None, 0.0, 0.5, 1.0]),
                rng.choice([None, 0.0, 0.5, 1.0]),
                rng.choice([None, 0.0, 0.5, 1.0]),
                rng.choice([None, 0.001, 20.5]),
                rng.choice([None, 0.0, 0.5, 1.0]),
                rng.choice([None, "a", "b"]),
                rng.choice([None, 5, 7]),
            )
        )
    return rows


ROWS = rows_served(300)


def shifts_of(rows: list[Served]) -> dict[str, dict[int, float]]:
    """Side → position → mean distance of plain rows, less the mean that is nearest to 0."""
    shifts = {}
    for side in {row.side for row in rows}:
        by_place: dict[int, list[float]] = {}
        for row in rows:
            if row.side == side and row.state == "plain" and row.apart is not None:
                by_place.setdefault(row.position or 0, []).append(row.apart)
        means = {place: fmean(values) for place, values in by_place.items()}
        nearest = min(sorted(means), key=lambda place: abs(means[place]))
        shifts[side] = {place: mean - means[nearest] for place, mean in means.items()}
    return shifts


def apart_twin(rows: list[Served]) -> dict[tuple[object, ...], Counter[str]]:
    shifts = shifts_of(rows)
    expected: dict[tuple[object, ...], Counter[str]] = {}
    for row in rows:
        own = expected.setdefault((row.side, row.cluster, row.state), Counter())
        known = row.apart is not None
        shift = shifts[row.side].get(row.position or 0, 0.0)
        own.update(
            impressions=1,
            clicks=row.click,
            compared=int(known),
            apart=int(row.apart is not None and abs(row.apart) > 0.01),
            unexplained=int(
                row.apart is not None and min(abs(row.apart), abs(row.apart - shift)) > 0.01
            ),
            unserved=int(row.own is not None and row.served_score is None),
        )
    return expected


def test_a_served_score_is_apart_by_itself_and_beyond_its_position() -> None:
    sums = answer("agreement/served_apart", agreement_served=ROWS).by_key("side cluster state")
    assert sums == apart_twin(ROWS)


def test_a_hundredth_is_not_apart_and_a_position_without_plain_rows_has_no_shift() -> None:
    base = ROWS[0]._replace(side="control", cluster=0, own=0.5, served_score=0.5)
    rows = [
        base._replace(state="plain", position=None, apart=0.0),
        base._replace(state="late", position=None, apart=0.01),
        base._replace(state="late", position=0, apart=-0.01),
        base._replace(state="late", position=0, apart=0.011),
        base._replace(state="old", position=9, apart=0.005),
        base._replace(state="old", position=9, apart=1.0),
    ]
    sums = answer("agreement/served_apart", agreement_served=rows).by_key("side cluster state")
    assert {key[2]: (row["apart"], row["unexplained"]) for key, row in sums.items()} == {
        "plain": (0, 0),
        "late": (1, 1),
        "old": (1, 1),
    }


def counted(
    rows: list[Served],
    key: Callable[[Served], tuple[object, ...]],
    counts: Callable[[Served], dict[str, int]],
) -> dict[tuple[object, ...], Counter[str]]:
    """The sums of some counts of each row, by a key."""
    sums: dict[tuple[object, ...], Counter[str]] = {}
    for row in rows:
        sums.setdefault(key(row), Counter()).update(counts(row))
    return sums


def group(row: Served) -> tuple[object, ...]:
    return row.side, row.cluster


def test_clicks_are_elsewhere_unless_the_treatment_is_known_to_act_here() -> None:
    expected = counted(
        ROWS,
        group,
        lambda r: {
            "impressions": 1,
            "here": r.click * (r.treated == 1),
            "elsewhere": r.click * (r.treated != 1),
        },
    )
    for key, sums in expected.items():
        sums["units"] = len({r.unit_id for r in ROWS if group(r) == key})
    assert answer("agreement/treated", agreement_served=ROWS).by_key("side cluster") == expected


def test_each_version_of_a_model_has_sums_of_how_its_rows_were_served() -> None:
    known = (*FLAGS, "stale", "latency")
    expected = counted(
        ROWS,
        lambda r: (r.side, r.cluster, r.model_version),
        lambda r: {
            "impressions": 1,
            "learned": r.learned,
            "feature_known": int(r.feature_time is not None),
            "late": int(r.feature_time is not None and r.feature_time > r.time_ms),
            **{f"{name}_known": int(getattr(r, name) is not None) for name in known},
            **{name: int((getattr(r, name) or 0) > 0) for name in (*FLAGS, "stale")},
            "latency_thousandths": round(1000 * (r.latency or 0)),
            "age_known": int(r.age_ms is not None),
            "age_ms": r.age_ms or 0,
            "healthy": int(r.state != "failed"),
            "healthy_clicks": r.click * (r.state != "failed"),
        },
    )
    sums = answer("agreement/served_sums", agreement_served=ROWS)
    assert sums.by_key("side cluster model_version") == expected


SHORT = (0.0, 1.0, -3.0, 2047.0, 2047 / 4096, 1025 / 2**15, -0.5)
"""At most 11 significant bits."""

LONG = (2049.0, 0.1, -1 / 3, 2049 / 4096, 4095.0)


def is_short(value: float) -> bool:
    """Whether 11 significant bits are enough for a value."""
    mantissa, _ = math.frexp(value)
    return (mantissa * 2**11).is_integer()


def products(one: Sequence[float], other: Sequence[float]) -> float:
    """Products of places, each twice the mean rank less its mean, added."""
    ranks = (2 * stats.rankdata(values) - len(values) - 1 for values in (one, other))
    return float(sum(a * b for a, b in zip(*ranks, strict=True)))


def valued(rows: list[Served]) -> dict[str, object]:
    pairs = sorted((row.own, row.served_score) for row in rows)
    own, served = zip(*pairs, strict=True)
    return {
        "compared": len(rows),
        "own_values": len(set(own)),
        "served_values": len(set(served)),
        "lowest": min(served),
        "highest": max(served),
        "floored": sum(a < min(served) and b == min(served) for a, b in pairs),
        "capped": sum(a > max(served) and b == max(served) for a, b in pairs),
        "inside": sum(min(served) < a < max(served) for a in own),
        "moved": sum(min(served) < a < max(served) and a != b for a, b in pairs),
        "own_most": max(Counter(own).values()),
        "served_most": max(Counter(served).values()),
        "falls": sum(a > b for a, b in pairwise(served)),
        "served_short": sum(map(is_short, served)),
        "own_short": sum(map(is_short, own)),
        "own_served": products(own, served),
        "own_own": products(own, own),
        "served_served": products(served, served),
    }


def test_served_values_are_counted_by_their_bits_copies_and_places() -> None:
    rng = chance(9)
    values = (None, *SHORT, *LONG)
    rows = [r._replace(own=rng.choice(values), served_score=rng.choice(values)) for r in ROWS]
    usable = [r for r in rows if r.state == "plain" and None not in (r.own, r.served_score)]
    expected = {(side,): valued([r for r in usable if r.side == side]) for side in SIDES}
    values_served = answer("agreement/served_values", agreement_served=rows).by_key("side")
    assert values_served == near(expected)
