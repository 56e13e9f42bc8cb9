"""Orders of lists, and what training data have; against plain loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from tests.relations import Keyed, answer, chance


class Row(NamedTuple):
    """A row of `agreement_served`."""

    side: str
    cluster: int
    unit_id: str
    request_id: int | None
    item_id: int | None
    category: str | None
    position: int | None
    state: str
    treated: int | None
    click: int
    own: float | None
    served_score: float | None
    candidate: float | None
    learned: int = 0


class Trained(NamedTuple):
    """A row of `training_items`."""

    item_id: str
    policy: str | None
    trained: int


SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, None)


def served(seed: int, count: int, *, logged: bool = True) -> list[Row]:
    """Rows of lists with gaps, tied positions and tied scores; some of them failed or untreated."""
    rng = chance(seed)
    return [
        Row(
            rng.choice(["control", "variant"]),
            (unit := rng.randrange(12)) % 4,
            f"u{unit}",
            rng.choice([1, 2, 3, None]),
            rng.choice([*range(9), None]),
            rng.choice(["a", "b", None]),
            rng.choice([*range(1, 8), None]),
            rng.choice(["plain", "plain", "late", "old", "failed"]),
            rng.choice([1, 1, 1, 0, None]),
            int(rng.random() < 0.4),
            rng.choice(SCORES),
            rng.choice(SCORES) if logged else None,
            rng.choice(SCORES),
            int(rng.random() < 0.2),
        )
        for _ in range(count)
    ]


def list_order(rows: list[Row], score: str) -> Keyed:
    lists = defaultdict(list)
    for row in rows:
        known = None not in (row.request_id, row.position, getattr(row, score))
        # An own score that learned the click is not the one that ordered the list.
        known = known and (row.served_score is not None or not row.learned)
        if known and row.state in ("plain", "late") and row.treated != 0:
            lists[row.side, row.cluster, row.unit_id, row.request_id].append(row)
    counts: dict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
    for (side, cluster, *_), own in lists.items():
        shown = sorted(own, key=lambda r: (r.position, -getattr(r, score), r.click))
        best = sorted(own, key=lambda r: (-getattr(r, score), r.position, r.click))
        for place, row in enumerate(shown, start=1):
            rank = next(i for i, other in enumerate(best, start=1) if other is row)
            sums = Counter(impressions=1, clicks=row.click)
            counts[side, cluster, min(rank, 20), min(place, 20)] += sums
    names = ("impressions", "clicks")
    return {key: {name: own[name] for name in names} for key, own in counts.items()}


def apart(rows: list[Row]) -> list[Row]:
    """Rows of which no two have all that their place in a list follows from."""
    lists = {(r.side, r.unit_id, r.request_id, r.position, r.click): r for r in rows}
    return list(lists.values())


def test_rows_have_the_rank_of_their_served_score() -> None:
    rows = apart(served(1, 300))
    by_key = answer("agreement/list_order", agreement_served=rows).by_key(
        "side cluster score_rank place"
    )
    assert by_key == list_order(rows, "served_score")
    assert sum(own["impressions"] for (_, _, rank, place), own in by_key.items() if rank != place)


def test_without_served_scores_the_order_is_that_of_the_models_own() -> None:
    rows = apart(served(2, 300, logged=False))
    by_key = answer("agreement/list_order", agreement_served=rows).by_key(
        "side cluster score_rank place"
    )
    assert by_key == list_order(rows, "own")


def test_places_from_the_twentieth_on_are_one() -> None:
    plain = Row("variant", 0, "u", 1, 1, None, 1, "plain", None, 0, 0.5, None, 0.5)
    rows = [plain._replace(position=i, own=i / 100) for i in range(1, 31)]
    deepest = answer("agreement/list_order", agreement_served=rows).by_key(
        "side cluster score_rank place"
    )
    assert max(place for *_, place in deepest) == max(rank for _, _, rank, _ in deepest) == 20
    assert sum(own["impressions"] for own in deepest.values()) == 30


def test_items_with_fewer_than_ten_rows_of_training_are_hardly_learned() -> None:
    rows = served(3, 400)
    trained = [Trained("1", "old", 6), Trained("1", None, 4), Trained("2", "old", 9)]
    counts = answer(
        "agreement/learned_items", agreement_served=rows, training_items=trained
    ).by_key("side cluster tenth")
    read = [
        r
        for r in rows
        if r.state != "failed" and r.treated != 0 and None not in (r.item_id, r.candidate)
    ]
    for side in ("control", "variant"):
        own = [r for r in read if r.side == side]
        unlearned = [r for r in own if r.item_id != 1]
        sums: Counter[str] = Counter()
        for key, row in counts.items():
            sums.update(row if key[0] == side else {})
        assert sums == {
            "impressions": len(own),
            "clicks": sum(r.click for r in own),
            "unlearned": len(unlearned),
            "unlearned_clicks": sum(r.click for r in unlearned),
        }
    policies = answer("agreement/training_policies", training_items=trained).as_set()
    assert policies == {("old", 15), ("unknown", 4)}
