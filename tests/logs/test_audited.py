"""What the audits count of a log, each query over a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from abeval.assignment import SUB_BUCKETS
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.audited import NO_HOUR, audited_units, audited_view, flags
from abeval.logs.mapping import map_columns
from abeval.logs.shape import LogShape
from abeval.logs.shaping import shape_of
from tests.relations import Row, answer, relation

NAMES = relation(
    "logged_id, unit_id, variant",
    ("one", 1, "a"),
    ("two", 2, "a"),
    ("three", 3, "b"),
)
UNITS = relation(
    "unit_id, variant, cluster, stretch",
    (1, "a", 7, 0),
    (2, "a", 7, 0),
    (3, "b", 9, 1),
    (4, "b", 9, 1),
)

DELAYS = [
    (None, "unknown"),
    (-1, "early"),
    (0, "same"),
    (1, ""),
    (7_200_000, ""),
    (7_200_001, "late"),
]
"""Milliseconds from an impression to its click, and what is odd about it with two hours in time."""

ODD = ("early", "same", "late", "unknown")

CLICKS = "copies, time_ms, key_1, key_2, key_3"
KEYS = "key_1, key_2, key_3, impressions, time_ms, unit_id, set_aside"


def delays(clicks: Sequence[tuple[int | None, ...]]) -> set[Row]:
    """Clicks on impressions at 5,000,000 ms."""
    return answer(
        "audit/clicks",
        click_log=relation(CLICKS, *clicks),
        clicked_keys=relation(
            KEYS,
            (1, 1, 1, 1, 5_000_000, "one", 0),
            (2, 1, 1, 1, 5_000_000, "three", 0),
            (1, 2, 1, 2, 5_000_000, "one", 0),
            (1, 1, 2, 1, 5_000_000, "one", 1),
            (3, 3, 3, 1, 5_000_000, "nobody", 0),
            (4, 4, 4, 2, 5_000_000, "one", 1),
        ),
        audited_names=NAMES,
        experiment=relation("attribution_ms", (7_200_000,)),
    ).as_set()


def test_what_is_odd_about_a_delay_begins_and_ends_at_its_bounds() -> None:
    """Each click has twice the copies of the one before it, so that a sum says whose it is."""
    clicks, counts = [], Counter[str]()
    for n, (delay, name) in enumerate(DELAYS):
        clicks.append((1 << n, None if delay is None else 5_000_000 + delay, 1, 1, 1))
        counts[name] += 1 << n
    ((unit, copies, *_, early, same, late, unknown),) = delays(clicks)
    assert (unit, copies) == (1, 2 ** len(DELAYS) - 1)
    assert dict(zip(ODD, (early, same, late, unknown), strict=True)) == {
        name: counts[name] for name in ODD
    }


def test_clicks_on_the_one_impression_of_their_key_are_counted_with_their_copies() -> None:
    same = 5_000_000
    clicks = [
        (3, same, 1, 1, 1),
        (4, same, 1, 1, 1),
        (5, same, 2, 1, 1),
        # Of two impressions, set aside, of a unit that is not analysed, both, and of none.
        (1, same, 1, 2, 1),
        (1, same, 1, 1, 2),
        (1, same, 3, 3, 3),
        (1, same, 4, 4, 4),
        (1, same, 5, 5, 5),
    ]
    assert {row[:5] for row in delays(clicks)} == {(1, 7, 2, 1, 1), (3, 5, 1, 1, 0)}


def test_a_click_comes_again_within_ten_seconds_of_one_on_the_same_impression() -> None:
    at = 5_000_000
    times = (at + 10_001, at, at + 10_000, at + 20_002)
    clicks = [*((1, time, 1, 1, 1) for time in times), (1, at, 2, 1, 1), (1, None, 1, 1, 1)]
    rows = {row[0]: row[1:5] for row in delays(clicks)}
    # After the first: 10 s later, 1 ms later, and 10.001 s later.
    assert rows == {1: (5, 5, 1, 2), 3: (1, 1, 1, 0)}


def test_a_row_that_is_kept_is_taken_from_its_duplicates() -> None:
    copies = [("one", 1), ("one", 1), ("one", 1), ("one", -1), ("three", 1), ("nobody", 1)]
    rows = answer(
        "audit/duplicates",
        repeated_copies=relation("logged_id, copies", *copies),
        audited_names=NAMES,
    ).as_set()
    assert rows == {(1, 2), (3, 1)}


AUDITED = "unit_id, time_ms, hour, request_id, position, item_id, f_0, f_1"


def test_impressions_and_flags_are_counted_by_unit_and_hour() -> None:
    rows = [
        (1, 0, 100, 1, 1, "x", 1, 0),
        (1, 0, 100, 1, 2, "x", 1, 1),
        (1, 0, 101, 1, 3, "x", 1, 0),
        (3, 0, 100, 1, 5, "x", 0, 1),
    ]
    audited = relation(AUDITED, *rows)
    assert answer("audit/unit_hours", audited=audited).as_set() == {
        (1, 100, 2, 2, 1),
        (1, 101, 1, 1, 0),
        (3, 100, 1, 0, 1),
    }


def listed(request: int | None, unit: int, *shown: tuple[int, str | None]) -> list[Row]:
    """Rows of a list, a millisecond apart."""
    return [
        (unit, 1_000 + n, 100, request, position, item, 0, 0)
        for n, (position, item) in enumerate(shown)
    ]


def bits(*positions: int) -> int:
    return sum(1 << position for position in positions)


ITEMS = relation("item_id, number", ("x", 1), ("y", 2), ("z", 3))


def lists_of(rows: list[Row]) -> dict[int, Row]:
    """Lists by unit."""
    audited = relation(AUDITED, *rows)
    found = answer("audit/lists", audited=audited, audited_items=ITEMS).as_set()
    return {row[0]: row[1:] for row in found}


def test_a_list_has_its_ends_and_its_positions() -> None:
    rows = [
        *listed(10, 1, (1, "x"), (2, "y"), (3, "z")),
        *listed(11, 2, (0, None), (5, None), (5, None)),
        *listed(12, 3, (62, "x"), (60, "x"), (63, "x"), (-1, "x")),
        *listed(13, 4, (63, "x")),
        *listed(None, 5, (3, "x")),
    ]
    found = {unit: row[:5] for unit, row in lists_of(rows).items()}
    assert found == {
        1: (1_000, 1, 3, bits(1, 2, 3), 3),
        2: (1_000, 0, 5, bits(0, 5), 3),
        3: (1_000, 60, 62, bits(60, 62), 2),
    }


def test_lists_of_other_items_or_of_another_order_have_other_sums() -> None:
    orders = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx", "xxz", "xyy", "xyz")
    rows = [
        row
        for unit, items in enumerate(orders)
        for row in listed(unit, unit, *((place, item) for place, item in enumerate(items, 1)))
    ]
    found = {unit: row[5:] for unit, row in lists_of(rows).items()}
    assert found[0] == found[8]
    assert len(set(found.values())) == len(orders) - 1


def test_items_are_numbered_once_and_times_of_a_unit_are_told_once() -> None:
    rows = [*listed(1, 1, (1, "b"), (2, "a"), (3, None)), *listed(2, 1, (1, "b"))]
    rows.append((1, None, NO_HOUR, 2, 2, "a", 0, 0))
    audited = relation(AUDITED, *rows)
    assert answer("audit/items", audited=audited).as_set() == {("a", 1), ("b", 2)}
    assert answer("audit/moments", audited=audited).as_set() == {
        (1, 1_000),
        (1, 1_001),
        (1, 1_002),
    }


def test_the_heavy_units_have_the_busiest_days_of_their_variant() -> None:
    days = [(unit, True, unit) for unit in range(200)]
    days += [(0, True, 1_000), (1, False, 1_000), (2, True, 150), (3, True, 50)]
    variants = [(unit, "a" if unit % 2 else "b") for unit in range(200)]
    rows = answer(
        "audit/heavy_units",
        unit_day=relation("unit_id, in_period, c_1", *days),
        units=relation("unit_id, variant", *variants),
    ).as_set()
    assert rows == {(unit,) for unit in (*range(73, 200, 2), *range(76, 200, 2), 0, 2)}


def test_units_that_the_rule_does_not_place_are_counted_too() -> None:
    rows = answer(
        "audit/seen_in",
        hashed_units=relation(
            "unit_id, variant_low, variant_high, first_variant",
            (1, "a", "a", "a"),
            (2, "a", "a", "a"),
            (3, "a", "b", "b"),
            (4, "b", "b", "b"),
        ),
        expected_variant=relation("unit_id, expected", (1, "a"), (2, "a"), (3, "a"), (5, "b")),
    ).as_set()
    assert rows == {("a", "a", "a", "a", 2), ("a", "b", "b", "a", 1), ("b", "b", "b", None, 1)}


CELLS = "unit_id, variant, day, set_aside, c_1"


def test_impressions_are_counted_by_day_and_reason() -> None:
    cells = relation(
        CELLS,
        (1, "a", "2026-03-01", None, 4),
        (2, "a", "2026-03-01", None, 5),
        (1, "b", "2026-03-01", None, 1),
        (1, "a", "2026-03-02", None, 6),
        (1, "a", "2026-03-01", "null_unit", 7),
        (1, None, "2026-03-01", "null_variant", 8),
        (1, "a", None, "null_time", 9),
    )
    assert answer("audit/set_aside", logged_cells=cells).as_set() == {
        ("a", "2026-03-01", "", 9),
        ("b", "2026-03-01", "", 1),
        ("a", "2026-03-02", "", 6),
        ("a", "2026-03-01", "null_unit", 7),
    }


def test_a_unit_with_an_impression_of_the_period_is_active() -> None:
    days = [(1, True), (1, True), (2, False), (3, True), (99, True)]
    rows = answer(
        "audit/active_units",
        audited_units=UNITS,
        unit_day=relation("unit_id, in_period", *days),
    ).as_set()
    assert rows == {(1,), (3,)}


def test_impressions_without_a_time_are_counted_among_those_of_their_unit() -> None:
    cells = relation(
        CELLS,
        ("one", "a", None, "null_time", 4),
        ("two", "a", None, "null_time", 5),
        ("one", "a", "2026-03-01", None, 10),
        ("one", "a", "2026-03-01", "outside_period", 3),
        ("three", "b", "2026-03-01", None, 6),
        ("nobody", "a", None, "null_time", 1),
    )
    rows = answer("audit/untimed", logged_cells=cells, audited_names=NAMES).as_set()
    assert rows == {(1, 17, 4), (2, 5, 5), (3, 6, 0)}


def weightiest(rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The twenty that lie farthest from the ratio of all, the larger numerators first."""
    all_y, all_x = (sum(column) for column in zip(*rows, strict=True))
    return sorted(rows, key=lambda row: (-abs(row[0] - all_y / all_x * row[1]), -row[0], row[1]))[
        :20
    ]


def test_the_units_that_weigh_most_lie_farthest_from_the_ratio_of_their_variant() -> None:
    random = np.random.default_rng(3)
    parts = {
        # By two, so that units lie as far above the ratio as others lie below it.
        ("ctr", "a"): [(2, 4), (0, 4), (4, 4), (0, 4), (2, 4), (4, 4), *[(1, 2)] * 8],
        ("ctr", "b"): [(int(y), int(x)) for y, x in random.integers(1, 30, (40, 2))],
        ("time", "a"): [(int(y), int(x)) for y, x in random.integers(1, 30, (12, 2))],
        # Of one impression in all there is a ratio, of none there is not.
        ("single", "a"): [(1, 1), (0, 0)],
    }
    rows = [(*key, *pair) for key, pairs in parts.items() for pair in pairs]
    rows += [("none", "a", 1, 0), ("none", "a", 0, 0)]
    values = relation("part, variant, y, x", *rows)
    assert answer("audit/influence", unit_value=values).as_set() == {
        (*key, place, str(y), str(x))
        for key, pairs in parts.items()
        for place, (y, x) in enumerate(weightiest(pairs), start=1)
    }


def experiment(**entries: Any) -> Experiment:
    base = {"name": "e", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    return parse_experiment({**base, "logs": {"impressions": {}}, **entries})


def shape_for(types: dict[str, str], **entries: Any) -> LogShape:
    own = experiment(**entries)
    log = map_columns("impressions", own.logs.rows, types, "user_id")
    return shape_of(own, [], {"impressions": log})


def test_a_unit_is_in_one_of_64_groups_of_the_same_number_of_sub_buckets() -> None:
    shape = shape_for({"user_id": "BIGINT", "variant": "VARCHAR"})
    engine = DuckDBEngine()
    columns = "i as unit_id, 'a' as variant, 0 as stretch, i as sub_bucket"
    engine.table("units", f"select {columns} from range({SUB_BUCKETS}) r(i)")
    engine.table("audited_units", audited_units(shape, SUB_BUCKETS))
    sizes = engine.rows("select count(*) from audited_units group by cluster")
    assert sizes == [(64,)] * 64
    engine.table("heavy_units", "select 99 as unit_id union all select 2_000")
    engine.table("audited_units", audited_units(shape, 100))
    assert engine.rows("select count(*), max(unit_id) from audited_units") == [(101, 2_000)]
    assert engine.rows("select unit_id from audited_units where cluster >= 64") == [(2_000,)]
    engine.close()


IDS = {"user_id": "BIGINT", "variant": "VARCHAR"}


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"dwell": "DOUBLE", "click": "BIGINT"}, ["null dwell", "click "]),
        ({"dwell": "DOUBLE"}, []),
        ({"click": "BIGINT"}, ["click "]),
        ({"request_id": "BIGINT", "category": "VARCHAR"}, ["null request_id", "null category"]),
        ({"timeout": "BOOLEAN", "stale": "BIGINT"}, ["served timeout", "served stale"]),
        # A text of this name says something else.
        ({"timeout": "BIGINT", "stale": "VARCHAR"}, ["served timeout"]),
        ({"score": "DOUBLE"}, ["null score"]),
    ],
)
def test_what_is_flagged_follows_from_the_columns(
    columns: dict[str, str], names: list[str]
) -> None:
    found = flags(experiment(), shape_for({**IDS, **columns}))
    assert [f"{flag.audit} {flag.name}" for flag in found] == names


MODELS: dict[str, Any] = {
    "models": {"old": {"score": "old"}, "new": {"score": "new"}},
    "variants": {"a": {"model": "old"}, "b": {"model": "new"}},
}


def test_a_score_is_missing_if_the_model_of_the_variant_has_none() -> None:
    types = {**IDS, "old": "DOUBLE", "new": "DOUBLE"}
    chosen = flags(experiment(**MODELS), shape_for(types, **MODELS))
    hour = 3_600_000
    rows = [
        ("one", 480_000 * hour - 1, None, 1.0, True, None),
        ("one", 480_000 * hour, 1.0, None, True, None),
        ("three", 481_000 * hour, 1.0, None, True, None),
        ("three", 481_000 * hour, None, 1.0, True, None),
        ("three", None, None, 1.0, True, None),
        ("three", 0, None, None, False, None),
        ("three", 0, None, None, True, "null_unit"),
        ("nobody", 0, None, None, True, None),
    ]
    engine = DuckDBEngine()
    seen = relation("unit_id, time_ms, score_1, score_2, in_period, set_aside", *rows)
    engine.table("seen", seen)
    engine.table("audited_names", NAMES)
    engine.table("audited", audited_view(chosen, has_lists=False))
    found = Counter(engine.rows("select unit_id, hour, f_0 from audited"))
    engine.close()
    assert found == Counter(
        [
            (1, 479_999, 1),
            (1, 480_000, 0),
            (3, 481_000, 1),
            (3, 481_000, 0),
            (3, NO_HOUR, 0),
        ]
    )
