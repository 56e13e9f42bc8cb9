"""The queries of sources of metrics, over a few rows, against loops over them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest

from tests.relations import Row, answer, relation

MINUTE = 60_000
GAP = 7 * MINUTE


class Shown(NamedTuple):
    """An impression."""

    unit_id: int
    in_period: bool
    day: date | None
    time_ms: int | None
    request_id: str | None
    item_id: str
    position: int | None
    category: str | None
    click: int


def day_of(time_ms: int) -> date:
    """Days of five hours that begin at an odd minute."""
    return date(2024, 3, 2 + (time_ms - 37 * MINUTE) // (300 * MINUTE))


@pytest.fixture(scope="module")
def shown() -> list[Shown]:
    """Impressions of few units, with much that is unknown."""
    rng = np.random.default_rng(6)
    impressions = []
    for number in range(500):
        time_ms = int(rng.integers(0, 1200)) * MINUTE
        of_time, of_request, of_position, of_category = rng.random(4) > 0.1
        impressions.append(
            Shown(
                unit_id=int(rng.integers(1, 7)),
                in_period=bool(rng.random() < 0.7),
                day=day_of(time_ms) if of_time else None,
                time_ms=time_ms if of_time else None,
                request_id=f"r{rng.integers(40)}" if of_request else None,
                item_id=f"i{number:03}",
                position=int(rng.integers(1, 9)) if of_position else None,
                category="xyz"[rng.integers(3)] if of_category else None,
                click=int(rng.random() < 0.4),
            )
        )
    return impressions


def grouped(rows: Iterable[Shown], *names: str) -> dict[Row, list[Shown]]:
    """Impressions by some of their fields."""
    groups: dict[Row, list[Shown]] = defaultdict(list)
    for row in rows:
        groups[tuple(getattr(row, name) for name in names)].append(row)
    return groups


def lists_of(rows: Iterable[Shown]) -> dict[Row, list[Shown]]:
    """Served lists: of each unit and phase, the impressions of one request."""
    of_requests = [row for row in rows if row.request_id is not None]
    return grouped(of_requests, "unit_id", "in_period", "request_id")


def first_day(rows: Sequence[Shown]) -> date | None:
    return min((row.day for row in rows if row.day is not None), default=None)


def added(parts: Iterable[tuple[Row, Sequence[int]]]) -> list[Row]:
    """Sums by key, as rows, in the order of a query's answer."""
    totals: dict[Row, list[int]] = {}
    for key, values in parts:
        total = totals.get(key, [0] * len(values))
        totals[key] = [a + b for a, b in zip(total, values, strict=True)]
    rows = [(*key, *total) for key, total in totals.items()]
    return sorted(rows, key=lambda row: [(cell is None, cell) for cell in row])


def daily(name: str, columns: str, rows: Sequence[Shown], **others: str) -> list[Row]:
    """What a query says of each unit, phase and day."""
    return answer(name, f"unit_id, in_period, day, {columns}", metric_rows=rows, **others)


def test_lists_count_on_the_day_of_their_first_impression(shown: list[Shown]) -> None:
    expected = added(
        ((unit, phase, first_day(rows)), (1,)) for (unit, phase, _), rows in lists_of(shown).items()
    )
    assert daily("4_metrics/page_views", "c_page_views", shown) == expected


def test_a_session_ends_with_a_pause_longer_than_the_gap(shown: list[Shown]) -> None:
    parts: list[tuple[Row, tuple[int, int]]] = []
    timed = [row for row in shown if row.time_ms is not None]
    pauses = set()
    for (unit, phase), rows in grouped(timed, "unit_id", "in_period").items():
        times = sorted(row.time_ms for row in rows if row.time_ms is not None)
        start = last = times[0]
        for time_ms in [*times[1:], math.inf]:
            pauses.add(time_ms - last)
            if time_ms - last > GAP:
                parts.append(((unit, phase, day_of(start)), (1, last - start)))
                start = int(time_ms) if time_ms < math.inf else 0
            last = int(time_ms) if time_ms < math.inf else 0
    assert {GAP, GAP + MINUTE} <= pauses
    gap = relation("session_gap_ms bigint", (GAP,))
    sessions = daily("4_metrics/sessions", "c_sessions, c_session_ms", shown, experiment=gap)
    assert sessions == added(parts)


def test_the_ranking_of_a_list_is_that_of_its_clicked_places(shown: list[Shown]) -> None:
    clicked = [row for row in shown if row.click and row.position is not None]
    parts = []
    for (unit, phase, _), rows in lists_of(clicked).items():
        places = sorted(row.position for row in rows if row.position is not None)
        hits = range(1, len(places) + 1)
        gains, ideal = (math.fsum(1 / math.log2(1 + k) for k in at) for at in (places, hits))
        precision = math.fsum(hit / place for hit, place in zip(hits, places, strict=True))
        values = gains / ideal, 1 / places[0], precision / len(places)
        parts.append(
            ((unit, phase, first_day(rows)), (1, *(round(1e9 * value) for value in values)))
        )
    ranking = daily("4_metrics/served_ranking", "c_clicked_lists, c_ndcg, c_mrr, c_map", shown)
    for row, expected in zip(ranking, added(parts), strict=True):
        assert row[:4] == expected[:4]
        # Terms are rounded to 1e-12 before they are added.
        assert row[4:] == pytest.approx(expected[4:], abs=5)


def test_the_diversity_of_a_list_is_the_share_of_its_pairs_that_differ(shown: list[Shown]) -> None:
    parts = []
    for (unit, phase, _), rows in lists_of(shown).items():
        known = [row.category for row in rows if row.category is not None]
        unequal = [a != b for a, b in combinations(known, 2)]
        if unequal:
            share = round(1e9 * sum(unequal) / len(unequal))
            values = (1, share, 0, len(rows) - len(known))
        else:
            values = (0, 0, 1, len(rows))
        parts.append(((unit, phase, first_day(rows)), values))
    columns = "c_lists, c_diversity, c_left_out_lists, c_left_out_impressions"
    assert daily("4_metrics/category_diversity", columns, shown) == added(parts)


class Scored(NamedTuple):
    """A scored impression."""

    variant: str
    unit_id: int
    score: float
    click: int
    day: int | None = None


def scored() -> list[Scored]:
    """Scores of two variants with ties, and of some where one class, or a unit, is alone."""
    rng = np.random.default_rng(4)
    rows = [
        Scored("ab"[unit % 2], unit, float(rng.integers(0, 9)) / 8, int(rng.random() < 0.4))
        for unit in rng.integers(1, 13, 150).tolist()
    ]
    few = [
        *(Scored("clicked", 21, score, 1) for score in (0.5, 0.5, 0.75)),
        *(Scored("passed", 22, score, 0) for score in (0.5, 0.25)),
        *(Scored("once", unit, score, int(unit == 23)) for unit, score in ((23, 0.5), (24, 0.25))),
    ]
    return [*rows, *few]


def won(positives: Sequence[Scored], negatives: Sequence[Scored]) -> float:
    """Pairs in which the clicked row has the larger score; ties are halves."""
    pairs = [(p.score, n.score) for p, n in product(positives, negatives)]
    return sum((p > n) + (p == n) / 2 for p, n in pairs)


def apart(rows: Iterable[Scored]) -> tuple[list[Scored], list[Scored]]:
    both: tuple[list[Scored], list[Scored]] = ([], [])
    for row in rows:
        both[1 - row.click].append(row)
    return both


def over_scores(name: str, columns: str) -> list[Row]:
    return answer(name, columns, scored=scored())


def test_a_unit_adds_its_part_to_the_auc_of_its_variant() -> None:
    expected = []
    for variant in ("a", "b", "once"):
        rows = [row for row in scored() if row.variant == variant]
        positives, negatives = apart(rows)
        pairs = len(positives) * len(negatives)
        auc = won(positives, negatives) / pairs
        units = {row.unit_id for row in rows}
        for unit in units:
            own, beaten = apart(row for row in rows if row.unit_id == unit)
            share = (won(own, negatives) + won(positives, beaten)) / pairs
            part = share - auc * (len(own) / len(positives) + len(beaten) / len(negatives))
            expected.append((unit, True, 1, round(1e9 * (auc + len(units) * part))))
    columns = "unit_id, in_period, c_scored_units, c_auc"
    for row, other in zip(over_scores("4_metrics/auc", columns), sorted(expected), strict=True):
        assert row[:3] == other[:3]
        assert row[3] == pytest.approx(other[3], abs=1)


def test_a_unit_with_one_class_has_no_auc_and_is_counted() -> None:
    expected: list[Row] = []
    for unit in {row.unit_id for row in scored()}:
        rows = [row for row in scored() if row.unit_id == unit]
        positives, negatives = apart(rows)
        if positives and negatives:
            auc = won(positives, negatives) / len(positives) / len(negatives)
            expected.append((unit, len(rows), round(1e9 * len(rows) * auc), 0, 0, 0))
        else:
            expected.append((unit, 0, 0, 1, len(rows), len(positives)))
    assert {row[3] for row in expected} == {0, 1}
    columns = (
        "unit_id, c_impressions, c_weighted_auc, "
        "c_left_out_units, c_left_out_impressions, c_left_out_clicks"
    )
    for row, other in zip(over_scores("4_metrics/gauc", columns), sorted(expected), strict=True):
        assert (row[:2], row[3:]) == (other[:2], other[3:])
        assert row[2] == pytest.approx(other[2], rel=1e-8, abs=0)


def test_a_day_of_a_unit_has_the_auc_of_its_own_scores() -> None:
    rows = [row._replace(day=place % 3) for place, row in enumerate(scored())]
    columns = "c_impressions, c_weighted_auc, c_left_out_units, c_left_out_impressions"
    by_day = answer("4_metrics/gauc", f"day, unit_id, {columns}", scored=rows)
    for day in range(3):
        own = [row._replace(day=None) for row in rows if row.day == day]
        alone = answer("4_metrics/gauc", f"unit_id, {columns}", scored=own)
        assert [row[1:] for row in by_day if row[0] == day] == alone
