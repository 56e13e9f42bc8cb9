"""Places and values of ranked lists by queries, against sorted lists and the slow definitions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate
from typing import Any, NamedTuple

from abeval.engines.sql import query
from abeval.offline.metrics import RANKING, OfflineMetric
from abeval.offline.sums import write_metric_value
from tests.offline import slow
from tests.relations import Keyed, answer, chance, near

SAME = 1e-14
"""Terms of the first place are exact, so that its values are."""


class Item(NamedTuple):
    """A row of `model_items`."""

    request_id: int
    unit_id: str
    item_id: int
    score: float | None
    tie: int | None
    grade: float | None
    category: str


class Place(NamedTuple):
    """A row of `places`: a relevant item."""

    request_id: int
    unit_id: str
    place: int | None
    grade: float


class Request(NamedTuple):
    """A row of `requests`."""

    request_id: int
    listed: int


class Cutoff(NamedTuple):
    """A row of `cutoffs`."""

    k: int
    full_ideal: float | None


class Discount(NamedTuple):
    """A row of `discounts`."""

    place: int
    total: float


def cutoff(k: int) -> Cutoff:
    return Cutoff(k, float(sum(round(1e12 / math.log2(1 + i)) for i in range(1, k + 1))))


CUTOFFS = [cutoff(k) for k in (1, 2, 3, 5, 40)]


def items(count: int) -> list[Item]:
    """Items of six requests; few scores and ties differ. A request may have rows of two units."""
    rng = chance(1)
    return [
        Item(
            rng.randrange(6),
            rng.choice(["u", "v"]),
            number,
            rng.choice([None, 0.25, 0.5, 0.75]),
            rng.choice([None, 1, 2]),
            # Unlike, so that a grade names its item.
            rng.choice([None, 0.0, -1.0, (number + 1) / 64]),
            rng.choice("xy"),
        )
        for number in range(count)
    ]


ITEMS = items(120)


def listed(request: int) -> list[Item]:
    """The items with a score, the best first: by score, then tie, none last, then id."""
    own = [r for r in ITEMS if r.request_id == request and r.score is not None]
    return sorted(
        own, key=lambda r: (r.score, r.tie is not None, r.tie or 0, r.item_id), reverse=True
    )


def count_above(item: Item, or_equal: bool) -> int:
    """How many items of the request have a larger score, or an equal one; none is the least."""
    own = [(r.score is not None, r.score or 0.0) for r in ITEMS if r.request_id == item.request_id]
    at = (item.score is not None, item.score or 0.0)
    return sum(other > at or (or_equal and other == at) for other in own)


def places() -> Keyed:
    order = {request: [r.item_id for r in listed(request)] for request in range(6)}
    size = Counter(r.request_id for r in ITEMS)
    return {
        (r.request_id, r.item_id): {
            "unit_id": r.unit_id,
            "category": r.category,
            "grade": r.grade,
            "place": None if r.score is None else 1 + order[r.request_id].index(r.item_id),
            "above": count_above(r, or_equal=False),
            "share": count_above(r, or_equal=True) / size[r.request_id],
        }
        for r in ITEMS
    }


def test_a_place_is_by_score_then_tie_then_item() -> None:
    assert answer("offline/places", ranked_items=ITEMS).by_key("request_id item_id") == places()


class Ranked(NamedTuple):
    """A list of grades, the best score first, and the grades of items that are not listed."""

    grades: list[float]
    unlisted: list[float]


def ranked_lists(count: int) -> list[Ranked]:
    """Lists with a relevant item, in part long, in part without any that is listed."""
    rng = chance(2)
    lists = []
    for number in range(count):
        grades = rng.choices([0.0, 0.0, 1.0, 2.0, 4.0], k=rng.choice([1, 2, 4, 6, 12]))
        lists.append(Ranked(grades, rng.choices([1.0, 3.0, 2.0], k=number % 4)))
    only_elsewhere = Ranked([0.0, 0.0], [2.0, 1.0])
    return [r for r in lists if any([*r.grades, *r.unlisted])] + [only_elsewhere]


LISTS = ranked_lists(40)


def relevant_places() -> list[Place]:
    """Every request has a relevant item of the unit `u`, most have some of `v` too."""
    rows = []
    for request, (grades, unlisted) in enumerate(LISTS):
        at: list[int | None] = [place for place, grade in enumerate(grades, 1) if grade > 0]
        relevant = [grade for grade in grades if grade > 0] + unlisted
        at += [None] * len(unlisted)
        units = ["u", *"v" * len(at)]
        rows += [Place(request, *row) for row in zip(units, at, relevant, strict=False)]
    return rows


VALUES = {d.column: d for d in RANKING if d.family == "list"}


def values(k: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The slow values of every list at one cut-off, as the table of metrics names them."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for request, (grades, unlisted) in enumerate(LISTS):
        slowly = slow.list_metrics(grades, unlisted, k)
        rows[request, k] = {"unit_id": "u"}
        for name, definition in VALUES.items():
            metric = OfflineMetric(definition, None if definition.cut == "none" else k)
            rows[request, k][f"v_{name}"] = float(slowly[metric.id])
    return rows


def test_values_of_lists_are_those_of_the_definitions_at_every_cutoff() -> None:
    requests = [Request(i, len(r.grades)) for i, r in enumerate(LISTS)]
    rows = answer(
        "offline/list_values",
        ", ".join(["request_id", "unit_id", "k", *map(write_metric_value, VALUES.values())]),
        places=relevant_places(),
        requests=requests,
        cutoffs=CUTOFFS,
        hits=query("offline/hits"),
    ).by_key("request_id k")
    assert {key: row for key, row in rows.items() if key[1] == 1} == near(values(1), SAME)
    for k in (2, 3, 5, 40):
        assert {key: row for key, row in rows.items() if key[1] == k} == near(values(k))


def tied_lists(count: int) -> list[list[Item]]:
    """Short lists with few scores: every order of the ties is tried. One item has no score."""
    rng = chance(3)
    return [
        [
            Item(
                request,
                "vu"[number == 0],
                number,
                None if number == 6 else rng.choice([0.25, 0.5, 0.75]),
                number,
                rng.choice([None, 0.0, 1.0, 2.0, 0.5]) if number < 5 else rng.choice([0.0, 1.0]),
                "x",
            )
            for number in range(rng.choice([4, 6, 7]))
        ]
        for request in range(count)
    ]


def test_ndcg_with_ties_is_its_mean_over_every_order_of_equal_scores() -> None:
    lists = [own for own in tied_lists(12) if any((r.grade or 0) > 0 for r in own)]
    expected = {}
    for own in lists:
        scored = [(r.score, r.grade or 0.0) for r in own if r.score is not None]
        for k in (1, 3, 7):
            value = slow.averaged_over_ties(scored, k)
            expected[own[0].request_id, k] = {"unit_id": "u", "v_ndcg_lin_ties": value}
    totals = accumulate((1 / math.log2(1 + i) for i in range(1, 8)), initial=0.0)
    rows = answer(
        "offline/tied_values",
        model_items=[item for own in lists for item in own],
        ranked_items="select * from model_items",
        cutoffs=[cutoff(k) for k in (1, 3, 7)],
        discounts=[Discount(place, total) for place, total in enumerate(totals)],
        places=query("offline/places"),
        hits=query("offline/hits"),
    ).by_key("request_id k")
    assert rows == near(expected, 1e-11)
    first = {key: row for key, row in expected.items() if key[1] == 1}
    assert {key: row for key, row in rows.items() if key[1] == 1} == near(first, SAME)
