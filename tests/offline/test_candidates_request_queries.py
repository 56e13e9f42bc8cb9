"""Requests, their relevant items and what is compared: queries against plain loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from tests.relations import Keyed, answer, chance


class Item(NamedTuple):
    """A row of `model_items`."""

    request_id: int
    unit_id: str
    item_id: int
    score: float | None
    grade: float | None


class ModelRequest(NamedTuple):
    """A row of `model_requests`, and of `requests`."""

    model: str
    unit_id: str
    request_id: int
    items: int
    listed: int
    relevant: int


class Listed(NamedTuple):
    """A row of `listed_rows`."""

    request_id: int
    item_id: int
    score: float | None
    tie: int | None


class Judgement(NamedTuple):
    """A row of `replay_rows`."""

    unit_id: str
    request_id: int
    item_id: int
    grade: float | None


class Key(NamedTuple):
    """A row of `truth_keys`."""

    unit_id: str
    request_id: int
    whose: str


class Truth(NamedTuple):
    """A row of `truth_log`."""

    whose: str
    item_id: int
    grade: float


class Value(NamedTuple):
    """A row of `wanted_values`."""

    unit_id: str
    k: int
    v_one: float
    v_other: float | None


def test_a_request_counts_its_items_and_belongs_to_the_first_of_its_units() -> None:
    rng = chance(1)
    rows = [
        Item(
            rng.randrange(8),
            rng.choice("uv"),
            number,
            rng.choice([None, 0.0, 0.5]),
            rng.choice([None, -1.0, 0.0, 0.5, 1.0, 3.0]),
        )
        for number in range(60)
    ]
    expected = {}
    for request in range(8):
        own = [r for r in rows if r.request_id == request]
        hits = [r for r in own if r.grade is not None and r.grade > 0]
        expected[request,] = {
            "unit_id": min(r.unit_id for r in own),
            "items": len(own),
            "listed": sum(r.score is not None for r in own),
            "largest_grade": max(r.grade for r in own if r.grade is not None),
            "least_score": min((r.score for r in hits if r.score is not None), default=None),
            "relevant": len(hits),
            "listed_relevant": sum(r.score is not None for r in hits),
        }
    assert answer("offline/requests", model_items=rows).by_key("request_id") == expected


def model_requests() -> list[ModelRequest]:
    """Requests of three models, in part without a score or a relevant item."""
    rng = chance(2)
    rows = []
    for request in range(40):
        unit = f"u{rng.randrange(9)}"
        relevant = rng.randrange(3)
        for model in "abc":
            items = rng.randrange(1, 4)
            listed = rng.choice([0, items, min(items, 1)]) if request % 4 else 1 + request % 8
            rows.append(ModelRequest(model, unit, request, items, listed, relevant))
    return rows


REQUESTS = [*model_requests(), ModelRequest("b", "unscored", 99, 2, 0, 1)]


def test_coverage_counts_the_requests_and_units_with_a_score() -> None:
    expected = {}
    for model in "abc":
        own = [r for r in REQUESTS if r.model == model]
        expected[model,] = {
            "requests": len(own),
            "listed": sum(r.listed > 0 for r in own),
            "rows": sum(r.items for r in own),
            "unscored": sum(r.items - r.listed for r in own),
            "units": len({r.unit_id for r in own}),
            "scored_units": len({r.unit_id for r in own if r.listed > 0}),
        }
    assert answer("offline/coverage", model_requests=REQUESTS).by_key("model") == expected


def test_a_request_is_not_compared_if_some_models_score_it_and_others_do_not() -> None:
    by_request = defaultdict(list)
    for row in REQUESTS:
        by_request[row.request_id].append(row.listed > 0)
    apart: Keyed = {(r,): {} for r, scored in by_request.items() if any(scored) and not all(scored)}
    assert answer("offline/uncompared", model_requests=REQUESTS).by_key("request_id") == apart


def test_a_unit_counts_its_requests_with_scores_and_relevant_items() -> None:
    own = [r for r in REQUESTS if r.model == "a"]
    expected: dict[tuple[str], Counter[str]] = defaultdict(Counter)
    for row in own:
        expected[row.unit_id,].update(
            requests=1,
            relevant=int(row.relevant > 0),
            listed=int(row.listed > 0),
            listed_relevant=int(row.listed > 0 and row.relevant > 0),
        )
    assert answer("offline/unit_requests", requests=own).by_key("unit_id") == expected


def judged(listed: list[Listed], truth: list[Judgement]) -> Keyed:
    """Every item that is listed or judged, of the requests of the truth."""
    expected = {}
    for request in {r.request_id for r in truth}:
        shown = {r.item_id: r for r in listed if r.request_id == request}
        known = {r.item_id: r for r in truth if r.request_id == request}
        for item in {*shown, *known}:
            row = shown.get(item, Listed(request, item, None, None))
            grade = known[item].grade if item in known else None
            expected[request, item] = {
                "unit_id": min(r.unit_id for r in known.values()),
                "score": row.score,
                "tie": row.tie,
                "grade": grade or 0.0,
                "judged": int(grade is not None),
            }
    return expected


def test_an_item_is_judged_that_is_listed_or_relevant_in_a_known_request() -> None:
    rng = chance(3)
    listed = [
        Listed(request, item, rng.choice([None, 0.25, 0.5]), item)
        for request in range(6)
        for item in rng.sample(range(6), 4)
    ]
    truth = [
        Judgement(rng.choice("uv"), request, item, rng.choice([None, -1.0, 0.0, 1.0, 2.0]))
        for request in range(2, 8)
        for item in rng.sample(range(6), 3)
    ]
    rows = answer("offline/judged", listed_rows=listed, replay_rows=truth)
    assert rows.by_key("request_id item_id") == judged(listed, truth)


class Asked(NamedTuple):
    """A row of `kept_rows`."""

    unit_id: int
    request_id: str | None


class Id(NamedTuple):
    """A row of `item_ids`."""

    item_id: int | None


def test_requests_of_two_units_with_one_id_have_two_numbers() -> None:
    asked = [Asked(2, "b"), Asked(1, "b"), Asked(1, "a"), Asked(3, "10"), Asked(4, "9")]
    asked += [Asked(1, "b"), Asked(1, None)]
    rows = answer("offline/request_numbers", kept_rows=asked).by_key("unit_id request_id")
    order = [(3, "10"), (4, "9"), (1, "a"), (1, "b"), (2, "b")]
    assert rows == {key: {"number": number} for number, key in enumerate(order, 1)}


def test_items_are_numbered_in_the_order_of_their_ids_and_of_their_texts() -> None:
    rows = answer("offline/item_numbers", item_ids=[Id(9), Id(10), Id(9), Id(None), Id(1)])
    assert rows.by_key("item_id") == {
        (1,): {"number": 1, "text_place": 1},
        (9,): {"number": 2, "text_place": 3},
        (10,): {"number": 3, "text_place": 2},
    }


def test_values_of_a_unit_are_added_in_whole_multiples() -> None:
    values = [
        Value("u", 1, 0.1, 0.5),
        Value("u", 1, 0.2, None),
        Value("u", 2, 1 / 3, 0.25),
        Value("v", 1, -2.0, None),
    ]
    assert answer("offline/unit_values", wanted_values=values).by_key("unit_id k") == {
        ("u", 1): {"v_one": 3e11, "v_other": 5e11},
        ("u", 2): {"v_one": 333_333_333_333.0, "v_other": 2.5e11},
        ("v", 1): {"v_one": -2e12, "v_other": None},
    }
