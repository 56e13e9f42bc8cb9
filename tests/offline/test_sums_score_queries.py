"""Metrics of the scores themselves: pairs, errors, calibration; queries against plain loops."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
import pytest

from abeval.engines.sql import query
from tests.offline import slow
from tests.relations import Keyed, Relations, answer, chance

TINY = 2.220446049250313e-16


class Scored(NamedTuple):
    """A row of `scored_rows`."""

    unit_id: str
    score: float
    click: int
    grade: float


class UnitPairs(NamedTuple):
    """A row of `unit_pairs`."""

    unit_id: int
    n: int
    p: int
    won_halves: int
    tied: int


class Half(NamedTuple):
    """A row of `bits`."""

    half: int


class Threshold(NamedTuple):
    """The row of `threshold`."""

    threshold: float | None


class TrafficRow(NamedTuple):
    """A row of `traffic_rows`."""

    traffic: str
    unit_group: int
    unit_id: int
    request_id: int
    item_id: int
    score: float
    click: int


class Bins(NamedTuple):
    """The row of `bin_count`."""

    bins: int


def scored(count: int) -> list[Scored]:
    """Rows of units with clicks, without any, and with nothing else; many scores are tied."""
    rng = chance(1)
    rows = []
    for _ in range(count):
        unit = rng.choice(["none", "all", "few", "some", "many"])
        rate = {"none": 0, "all": 1, "few": 0.1, "some": 0.5, "many": 0.8}[unit]
        click = int(rng.random() < rate)
        grade = rng.choice([0.5, 1.0, 2.0, 3.0, 4.5, 7.0]) if click else 0.0
        score = rng.choice([-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
        rows.append(Scored(unit, score, click, grade))
    return rows


SCORED = scored(140)
UNITS = sorted({row.unit_id for row in SCORED})


def of_unit(unit: str) -> list[Scored]:
    return [row for row in SCORED if row.unit_id == unit]


def test_a_clicked_row_wins_against_the_unclicked_ones_below_it() -> None:
    expected = {}
    for unit in UNITS:
        own = of_unit(unit)
        won, _, tied = slow.pairs([(r.score, float(r.click)) for r in own])
        clicks = sum(r.click for r in own)
        counts = {"n": len(own), "p": clicks, "won_halves": 2 * won + tied, "tied": tied}
        expected[unit,] = counts
    pairs = answer(
        "offline/pairs",
        scored_rows=SCORED,
        scored_sizes="select unit_id, count(*) as n from scored_rows group by unit_id",
        ranked_items="select unit_id, unit_id as request_id, score, grade, null as item_id, "
        "null as tie, null as category from scored_rows",
        ranked=query("offline/places"),
        ranked_clicks="select unit_id, above, share from ranked where grade > 0",
    )
    assert pairs.by_key("unit_id") == expected


def test_every_two_rows_of_unlike_relevance_are_a_pair() -> None:
    expected = {}
    for unit in UNITS:
        won, lost, tied = slow.pairs([(r.score, r.grade) for r in of_unit(unit)])
        expected[unit,] = {
            "graded": won + lost + tied,
            "won_graded": won + tied / 2,
            "concordant": won,
            "ordered": won + lost,
        }
    bits = [Half(1), Half(2), Half(4)]
    pairs = answer("offline/graded_pairs", scored_rows=SCORED, bits=bits)
    assert pairs.by_key("unit_id") == expected


def test_a_unit_of_one_class_has_no_auc() -> None:
    rows = [
        UnitPairs(1, 5, 2, 9, 1),
        UnitPairs(2, 4, 1, 4, 0),
        UnitPairs(3, 4, 3, 1, 1),
        UnitPairs(4, 3, 0, 0, 0),
        UnitPairs(5, 2, 2, 0, 0),
        UnitPairs(6, 2, 1, 2, 0),
    ]
    expected = {}
    for unit, n, p, won_halves, tied in rows:
        pairs = p * (n - p)
        both, auc = int(pairs > 0), won_halves / (2 * pairs) if pairs else None
        expected[unit,] = {
            "impressions": both * n,
            "clicks": both * p,
            "units": both,
            "pairs": pairs,
            "all_impressions": n,
            "all_clicks": p,
            "single_class_units": 1 - both,
            "v_auc_impressions": round(1e9 * n * (auc or 0)),
            "v_auc_clicks": round(1e9 * p * (auc or 0)),
            "v_auc_units": round(1e9 * (auc or 0)),
            "v_auc_impressions_half": round(1e9 * n * (0.5 if auc is None else auc)),
            "won_pairs": won_halves / 2,
            "graded": pairs,
            "won_graded": won_halves / 2,
            "concordant": (won_halves - tied) / 2,
            "ordered": pairs - tied,
        }
    assert answer("offline/pair_values", unit_pairs=rows).by_key("unit_id") == expected


def point_values(rows: list[Scored], threshold: float | None) -> Counter[str]:
    sums: Counter[str] = Counter()
    for row in rows:
        p = max(min(row.score, 1 - TINY), TINY)
        yes = int(threshold is not None and row.score >= threshold)
        sums.update(
            rows=1,
            clicks=row.click,
            predicted_positive=yes,
            true_positive=yes * row.click,
            twice_true_positive=2 * yes * row.click,
            both_positive=yes + row.click,
            v_log_loss=round(-1e9 * math.log(p if row.click else 1 - p)),
            v_log_likelihood=-round(-1e9 * math.log(p if row.click else 1 - p)),
            v_predicted=round(1e9 * row.score),
            v_squared_error=round(1e9 * (p - row.click) ** 2),
            v_absolute_residual=round(1e9 * abs(row.score - row.grade)),
            v_squared_residual=round(1e9 * (row.score - row.grade) ** 2),
        )
    return sums


@pytest.mark.parametrize("threshold", [0.5, None])
def test_errors_of_scores_are_added_per_unit(threshold: float | None) -> None:
    tables: Relations = {"scored_rows": SCORED, "threshold": [Threshold(threshold)]}
    expected = {(unit,): point_values(of_unit(unit), threshold) for unit in UNITS}
    assert answer("offline/point_values", **tables).by_key("unit_id") == expected


def traffic_rows(count: int) -> list[TrafficRow]:
    """Rows of two variants; scores are tied, and some are 0 or 1."""
    rng = chance(2)
    return [
        TrafficRow(
            rng.choice("ab"),
            rng.randrange(3),
            rng.randrange(2),
            rng.randrange(3),
            item,
            rng.choice([0.0, 0.2, 0.25, 0.5, 0.7, 0.99, 1.0]),
            rng.randrange(2),
        )
        for item in range(count)
    ]


def curve(rows: list[TrafficRow], bins: int) -> Keyed:
    sums: dict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
    for traffic in "ab":
        own = sorted(
            (r for r in rows if r.traffic == traffic),
            key=lambda r: (r.score, *r[3:5], r.unit_group, r.click),
        )
        equal = np.array_split(np.arange(len(own)), bins)
        mass = {place: number for number, places in enumerate(equal) for place in places}
        for place, row in enumerate(own):
            width = min(int(row.score * bins), bins - 1)
            for kind, number in (("width", width), ("mass", mass[place])):
                sums[traffic, kind, number, row.unit_group].update(
                    rows=1, clicks=row.click, predicted=round(1e9 * row.score)
                )
    return dict(sums)


@pytest.mark.parametrize(("count", "bins"), [(60, 4), (61, 7), (6, 10)])
def test_a_curve_has_bins_of_equal_width_and_of_equal_counts(count: int, bins: int) -> None:
    rows = traffic_rows(count)
    bars = answer("offline/calibration", traffic_rows=rows, bin_count=[Bins(bins)])
    assert bars.by_key("traffic kind bin unit_group") == curve(rows, bins)
