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
from abeval.logs.audited import audited_units, audited_view, flags, places
from abeval.logs.mapping import map_columns
from abeval.logs.shape import LogShape
from abeval.logs.shaping import shape_of
from tests.relations import Row, answer, relation

NAMES = relation(
    "logged_id, unit_id, variant, cluster",
    ("one", 1, "a", 7),
    ("two", 2, "a", 7),
    ("three", 3, "b", 9),
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
    (-1, "before"),
    (0, "same"),
    (1, "second"),
    (1_000, "second"),
    (1_001, "minute"),
    (60_000, "minute"),
    (60_001, "hour"),
    (3_600_000, "hour"),
    (3_600_001, "longer"),
    (7_200_000, "longer"),
    (7_200_001, "late"),
]
"""Milliseconds from an impression to its click, and their class where two hours are in time."""

CLICKS = "copies, time_ms, key_1, key_2, key_3"
KEYS = "key_1, key_2, key_3, impressions, time_ms, unit_id, set_aside"


def delays(clicks: Sequence[tuple[int | None, ...]]) -> set[Row]:
    """Clicks on impressions at 5,000,000 ms."""
    return answer(
        "audit/click_delays",
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


def test_the_bounds_of_a_class_of_delays_are_of_the_shorter_one() -> None:
    """Each click has twice the copies of the one before it, so that a sum says whose it is."""
    clicks, counts = [], Counter[str]()
    for n, (delay, name) in enumerate(DELAYS):
        clicks.append((1 << n, None if delay is None else 5_000_000 + delay, 1, 1, 1))
        counts[name] += 1 << n
    assert delays(clicks) == {("a", 7, name, copies) for name, copies in counts.items()}


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
    assert delays(clicks) == {("a", 7, "same", 7), ("b", 9, "same", 5)}


def test_a_row_that_is_kept_is_taken_from_its_duplicates() -> None:
    copies = [("one", 1), ("one", 1), ("one", 1), ("one", -1), ("three", 1), ("nobody", 1)]
    rows = answer(
        "audit/duplicates",
        repeated_copies=relation("logged_id, copies", *copies),
        audited_names=NAMES,
    ).as_set()
    assert rows == {("a", 7, 2), ("b", 9, 1)}


AUDITED = "variant, cluster, hour, unit_id, request_id, position, f_0, f_1"


def test_flags_and_hours_are_counted_by_variant_and_group() -> None:
    rows = [
        ("a", 7, 100, 1, 1, 1, 1, 0),
        ("a", 7, 100, 1, 1, 2, 1, 1),
        ("a", 7, 101, 2, 1, 3, 1, 0),
        ("a", 7, None, 2, 1, 4, 0, 0),
        ("b", 9, 100, 3, 1, 5, 0, 1),
    ]
    audited = relation(AUDITED, *rows)
    assert answer("audit/flags", audited=audited).as_set() == {("a", 7, 4, 3, 1), ("b", 9, 1, 0, 1)}
    assert answer("audit/hours", audited=audited).as_set() == {
        ("a", 7, 100, 2),
        ("a", 7, 101, 1),
        ("b", 9, 100, 1),
    }


def listed(request: int | None, unit: int, *positions: int) -> list[tuple[int | str | None, ...]]:
    return [("a", 7, 100, unit, request, position, 0, 0) for position in positions]


def bits(*positions: int) -> int:
    return sum(1 << position for position in positions)


def test_a_list_has_its_ends_its_positions_and_its_holes() -> None:
    rows = [
        *listed(10, 1, 1, 2, 3),
        *listed(11, 1, 2, 5, 5),
        *listed(12, 3, 60, 62),
        *listed(12, 2, 61),
        *listed(13, 1, 4, 0, 63),
        *listed(14, 1, 0, 63),
        *listed(None, 1, 3),
    ]
    assert answer("audit/lists", audited=relation(AUDITED, *rows)).as_set() == {
        (10, 1, 1, 3, bits(1, 2, 3), 0),
        (11, 1, 2, 5, bits(2, 5), 2),
        (12, 2, 60, 62, bits(60, 61, 62), 0),
        (13, 1, 4, 4, bits(4), 0),
    }


LISTS = relation(
    "request_id, unit_id, first_place, last_place, places, holes",
    (10, 1, 1, 3, bits(1, 2, 3), 0),
    (11, 1, 1, 3, bits(1, 3), 1),
    (12, 2, 1, 3, bits(1, 3), 1),
    (13, 2, 2, 6, bits(2, 4, 6), 2),
    (14, 3, 1, 4, bits(1, 4), 2),
    (15, 99, 1, 4, bits(1, 4), 2),
)
"""Unit 99 is not analysed."""


def test_lists_and_their_holes_are_counted_by_first_and_last_position() -> None:
    rows = answer("audit/list_spans", audited_lists=LISTS, audited_units=UNITS).as_set()
    assert rows == {("a", 7, 1, 3, 3, 2), ("a", 7, 2, 6, 1, 2), ("b", 9, 1, 4, 1, 2)}


def test_a_position_inside_a_list_that_lacks_it_is_a_hole() -> None:
    rows = answer(
        "audit/list_holes", audited_lists=LISTS, audited_units=UNITS, list_places=places()
    ).as_set()
    assert rows == {
        ("a", 7, 2, 2),
        ("a", 7, 3, 1),
        ("a", 7, 5, 1),
        ("b", 9, 2, 1),
        ("b", 9, 3, 1),
    }


def test_positions_and_holes_of_a_segment_are_those_of_its_units_lists() -> None:
    cells = [(1, "a", 7, "web"), (2, "a", 7, "app"), (3, "b", 9, "web"), (4, "b", 9, "web")]
    rows = answer(
        "audit/list_cells",
        audited_lists=LISTS,
        audited_cells=relation("unit_id, variant, cluster, cell", *cells),
    ).as_set()
    assert rows == {("web", "a", 7, 6, 1), ("app", "a", 7, 8, 3), ("web", "b", 9, 4, 2)}


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


def test_a_unit_without_an_impression_of_the_period_is_silent() -> None:
    days = [(1, True), (1, True), (2, False), (3, True), (99, True)]
    rows = answer(
        "audit/silent_units",
        audited_units=UNITS,
        unit_day=relation("unit_id, in_period", *days),
    ).as_set()
    assert rows == {("a", 0, 7, 2, 1), ("b", 1, 9, 2, 1)}


def test_impressions_without_a_time_are_counted_among_those_of_their_group() -> None:
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
    assert rows == {("a", 7, 22, 9), ("b", 9, 6, 0)}


def weightiest(rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ten that lie farthest from the ratio of all, the larger numerators first."""
    all_y, all_x = (sum(column) for column in zip(*rows, strict=True))
    return sorted(rows, key=lambda row: (-abs(row[0] - all_y / all_x * row[1]), -row[0], row[1]))[
        :10
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
    engine.table("audited_units", audited_units(shape, 100))
    assert engine.rows("select count(*), max(unit_id) from audited_units") == [(100, 99)]
    engine.close()


def test_the_positions_of_a_list_are_those_whose_bits_a_signed_number_has() -> None:
    engine = DuckDBEngine()
    numbers = [place for (place,) in engine.rows(places())]
    engine.close()
    assert numbers == [place for place in range(1, 99) if 1 << place < 2**63]


IDS = {"user_id": "BIGINT", "variant": "VARCHAR"}


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"dwell": "DOUBLE", "click": "BIGINT"}, ["null dwell"]),
        ({"dwell": "DOUBLE"}, []),
        ({"click": "BIGINT"}, []),
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
    found = Counter(engine.rows(audited_view(chosen, has_lists=False)))
    engine.close()
    assert found == Counter(
        [
            ("a", 7, 479_999, 1),
            ("a", 7, 480_000, 0),
            ("b", 9, 481_000, 1),
            ("b", 9, 481_000, 0),
            ("b", 9, None, 0),
        ]
    )
