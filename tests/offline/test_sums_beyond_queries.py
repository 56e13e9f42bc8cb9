"""Novelty, diversity, similarity and coverage of lists: queries against plain loops."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from tests.relations import Keyed, Relations, answer, chance, near


class Top(NamedTuple):
    """A row of `top_items`."""

    request_id: int
    unit_id: str
    item_id: int
    category: str | None
    grade: float | None
    place: int


class Cutoff(NamedTuple):
    """A row of `cutoffs`."""

    k: int


class Popularity(NamedTuple):
    """A row of `popularity`."""

    item_id: int
    interactions: int
    users: int
    popularity_place: int


class HistorySize(NamedTuple):
    """The row of `history_size`."""

    interactions: float
    users: float
    items: int


class Choice(NamedTuple):
    """A row of `history`."""

    unit_id: int
    item_id: int


class Dimension(NamedTuple):
    """A row of `item_dimensions`."""

    item_id: int
    dimension: int
    value: float


class Unit(NamedTuple):
    """A row of `traffic`."""

    unit_id: str
    traffic: str
    unit_group: int


class Request(NamedTuple):
    """A row of `requests`."""

    request_id: int
    listed: int


class Shown(NamedTuple):
    """A row of `shown_items`."""

    unit_id: int
    item_id: int
    click: int


CUTOFFS = [Cutoff(1), Cutoff(2), Cutoff(5)]
UNITS = ("u", "v", "w")


def top_items(count: int) -> list[Top]:
    """Lists of one to five of nine items, in part without a category; their units are mixed."""
    rng = chance(1)
    rows = []
    for request in range(count):
        for place, item in enumerate(rng.sample(range(9), rng.randint(1, 5)), 1):
            category = (None, "x", "y", "x", "y", None, "x", "z", "z")[item]
            grade = rng.choice([None, 0.0, 0.5, 1.0, 2.0])
            rows.append(Top(request, rng.choice(UNITS), item, category, grade, place))
    return rows


TOP = top_items(40)


def lists(k: int) -> dict[int, list[Top]]:
    """Request → its first items."""
    first = defaultdict(list)
    for row in TOP:
        if row.place <= k:
            first[row.request_id].append(row)
    return dict(first)


def first_unit(rows: list[Top]) -> str:
    """The unit to which a list belongs."""
    return min(row.unit_id for row in rows)


def beyond(known: dict[int, Popularity], size: HistorySize) -> Keyed:
    """Means over the items of each list."""
    expected = {}
    for k in (1, 2, 5):
        for request, own in lists(k).items():
            values = defaultdict(list)
            for row in own:
                past = known.get(row.item_id, Popularity(row.item_id, 0, 0, size.items + 1))
                rise = max((past.popularity_place - row.place) / size.items, 0)
                values["self_information"].append(
                    math.log2(size.interactions / max(past.interactions, 1))
                )
                values["miuf"].append(math.log2(size.users / max(past.users, 1)))
                values["popularity"].append(past.interactions)
                values["serendipity"].append(rise if (row.grade or 0) > 0 else 0)
            means = {f"v_{name}": fmean(of) for name, of in values.items()}
            expected[request, k] = {"unit_id": first_unit(own), "v_lists": 1.0, **means}
    return expected


def test_novelty_popularity_and_surprise_are_means_over_the_first_items() -> None:
    popularity = [Popularity(item, 9 - item, 7 - item, item + 1) for item in range(6)]
    size = HistorySize(40.0, 11.0, 6)
    rows = answer(
        "offline/beyond_values",
        top_items=TOP,
        cutoffs=CUTOFFS,
        popularity=popularity,
        history_size=[size],
    ).by_key("request_id k")
    assert rows == near(beyond({p.item_id: p for p in popularity}, size))


def unlike(kinds: list[str | None]) -> float:
    """The share of pairs of two kinds."""
    return fmean(a != b for a, b in combinations(kinds, 2))


def test_categories_differ_in_a_share_of_the_pairs_of_a_list() -> None:
    expected = {}
    for k in (1, 2, 5):
        for request, own in lists(k).items():
            kept = [row for row in own if row.category is not None]
            kinds = [row.category for row in kept]
            if kept:
                expected[request, k] = {
                    "unit_id": first_unit(kept),
                    "v_categorised_lists": float(len(kinds) >= 2),
                    "v_ild": unlike(kinds) if len(kinds) >= 2 else 0.0,
                }
    rows = answer("offline/category_values", top_items=TOP, cutoffs=CUTOFFS).by_key("request_id k")
    assert rows == near(expected)


def vectors() -> dict[int, list[float]]:
    """Vectors of length one of most items, in three dimensions, some of them 0."""
    rng = chance(2)
    made = {}
    for item in range(7):
        vector = [rng.uniform(-1, 1), rng.choice([0.0, rng.uniform(-1, 1)]), rng.uniform(-1, 1)]
        length = math.hypot(*vector)
        made[item] = [value / length for value in vector]
    return made


VECTORS = vectors()


def dimensions() -> list[Dimension]:
    """Without the rows of values that are 0."""
    return [
        Dimension(item, number, value)
        for item, vector in VECTORS.items()
        for number, value in enumerate(vector)
        if value
    ]


def cosine(one: int, other: int) -> float:
    return sum(a * b for a, b in zip(VECTORS[one], VECTORS[other], strict=True))


def test_vectors_differ_by_one_less_the_mean_cosine_of_two_items() -> None:
    expected = {}
    for k in (1, 2, 5):
        for request, own in lists(k).items():
            kept = [row for row in own if row.item_id in VECTORS]
            if kept:
                cosines = [cosine(a.item_id, b.item_id) for a, b in combinations(kept, 2)]
                expected[request, k] = {
                    "unit_id": first_unit(kept),
                    "v_vector_lists": float(len(kept) >= 2),
                    "v_ild_vectors": 1 - fmean(cosines) if cosines else 0.0,
                }
    tables: Relations = {"top_items": TOP, "cutoffs": CUTOFFS, "item_dimensions": dimensions()}
    assert answer("offline/vector_values", **tables).by_key("request_id k") == near(expected, 1e-7)


def test_an_item_is_as_similar_as_the_clicked_item_that_is_nearest_to_it() -> None:
    rng = chance(3)
    shown = [
        Shown(unit, item, int(rng.random() < 0.4))
        for unit in range(8)
        for item in rng.sample((0, 1, 2, 3, 7, 8), 5)
    ]
    shown += [Shown(8, 4, 0), Shown(8, 5, 1), Shown(8, 6, 1)]
    expected = {}
    for row in shown:
        clicked = [r.item_id for r in shown if r.unit_id == row.unit_id and r.click]
        known = [cosine(row.item_id, item) for item in clicked if {item, row.item_id} <= {*VECTORS}]
        if known:
            expected[row.unit_id, row.item_id] = {"similarity": max(0.0, *known)}
    tables: Relations = {"shown_items": shown, "vectors": dimensions()}
    assert answer("offline/similar_items", **tables).by_key("unit_id item_id") == near(expected)


def test_an_item_is_in_lists_of_its_traffic_that_weigh_less_the_longer_they_are() -> None:
    traffic = [Unit("u", "a", 0), Unit("v", "a", 1), Unit("w", "b", 0)]
    of = {unit.unit_id: unit for unit in traffic}
    lengths = defaultdict(list)
    units = defaultdict(set)
    for k in (1, 2, 5):
        for own in lists(k).values():
            for row in own:
                unit = of[row.unit_id]
                key = unit.traffic, k, row.item_id, unit.unit_group
                units[key].add(row.unit_id)
                lengths[key].append(len(own))
    expected = {
        key: {
            "lists": len(of_lists),
            "units": len(units[key]),
            "weight": sum(1 / math.sqrt(n) for n in of_lists),
            "squared_weight": sum(1 / n for n in of_lists),
        }
        for key, of_lists in lengths.items()
    }
    rows = answer(
        "offline/listed_items",
        top_items=TOP,
        requests=[Request(request, len(own)) for request, own in lists(5).items()],
        traffic=traffic,
        cutoffs=CUTOFFS,
    ).by_key("traffic k item_id unit_group")
    assert rows == near(expected, 1e-8)


def test_an_item_is_the_more_popular_the_more_often_it_was_chosen() -> None:
    rng = chance(4)
    history = [Choice(rng.randrange(5), rng.randrange(8)) for _ in range(40)]
    often = Counter(choice.item_id for choice in history)
    order = sorted(often, key=lambda item: (-often[item], item))
    expected = {
        (item,): {
            "interactions": often[item],
            "users": len({c.unit_id for c in history if c.item_id == item}),
            "popularity_place": place,
        }
        for place, item in enumerate(order, 1)
    }
    assert answer("offline/popularity", history=history).by_key("item_id") == expected
