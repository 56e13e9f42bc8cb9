"""What the audits count of a log, each query over a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from abeval.aggregates.audits import PARTS, Sample, list_flags, show_audited
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.mapping import map_columns
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema, build_schema
from tests.relations import Row, answer, relation

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
KEYS = "key_1, key_2, key_3, impressions, time_ms, unit_hash, set_aside"


def delays(clicks: Sequence[tuple[int | None, ...]]) -> set[Row]:
    """Clicks on impressions at 5,000,000 ms."""
    return answer(
        "audit/clicks",
        click_log=relation(CLICKS, *clicks),
        audited_keys=relation(
            KEYS,
            (1, 1, 1, 1, 5_000_000, 1, 0),
            (2, 1, 1, 1, 5_000_000, 3, 0),
            (1, 2, 1, 2, 5_000_000, 1, 0),
            (1, 1, 2, 1, 5_000_000, 1, 1),
            (3, 3, 3, 1, 5_000_000, 9, 0),
            (4, 4, 4, 2, 5_000_000, 1, 1),
        ),
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
        # Of two impressions, set aside, of another unit, both, and of none.
        (1, same, 1, 2, 1),
        (1, same, 1, 1, 2),
        (1, same, 3, 3, 3),
        (1, same, 4, 4, 4),
        (1, same, 5, 5, 5),
    ]
    assert {row[:4] for row in delays(clicks)} == {*((1, 7, 2, 1), (3, 5, 1, 0), (9, 1, 1, 0))}


def test_a_click_comes_again_within_ten_seconds_of_one_on_the_same_impression() -> None:
    at = 5_000_000
    times = (at + 10_001, at, at + 10_000, at + 20_002)
    clicks = [*((1, time, 1, 1, 1) for time in times), (1, at, 2, 1, 1), (1, None, 1, 1, 1)]
    rows = {row[0]: row[1:4] for row in delays(clicks)}
    # After the first: 10 s later, 1 ms later, and 10.001 s later.
    assert rows == {1: (5, 5, 2), 3: (1, 1, 0)}


@pytest.mark.parametrize(("grain", "early"), [(1, 1), (1_000, 0), (60_000, 0), (86_400_000, 0)])
def test_a_click_that_is_written_to_the_minute_is_not_before_its_impression(
    grain: int, early: int
) -> None:
    """A sound log had half of its clicks early; a whole grain before is early in any case."""
    shown = 90_005_500
    floored = [(shown + 400) // grain * grain - (grain == 1) * 401]
    lone = [(1, time, 1, 1, 1) for time in (*floored, floored[0] - grain)]
    clicks = relation(CLICKS, *lone, *((1, day * 86_400_000, 7, 7, 7) for day in range(2)))
    if grain < 86_400_000:
        clicks = relation(CLICKS, *lone)
    ((*_, early_clicks, _, _, _),) = answer(
        "audit/clicks",
        click_log=clicks,
        audited_keys=relation(KEYS, (1, 1, 1, 1, shown, 1, 0)),
        experiment=relation("attribution_ms", (7_200_000,)),
    ).as_set()
    assert early_clicks == 1 + early


def test_repeated_rows_of_clicked_impressions_are_counted_by_themselves() -> None:
    kept = [(1, 0, 2), (1, 1, 1), (3, 0, 1)]
    copies = relation("unit_hash, click, copies", *kept)
    assert answer("audit/duplicates", repeated_copies=copies).as_set() == {(1, 3, 1), (3, 1, 0)}


AUDITED = "unit_hash, time_ms, request_id, position, item, f_0, f_1"


def test_flags_and_impressions_are_counted_by_unit() -> None:
    rows = [
        (1, 0, 1, 1, 5, 1, 0),
        (1, 0, 1, 2, 5, 1, 1),
        (1, 7, 1, 3, 5, 1, 0),
        (3, 0, 1, 5, 5, 0, 1),
    ]
    audited = relation(AUDITED, *rows)
    assert answer("audit/flags", audited=audited).as_set() == {(1, 3, 3, 1), (3, 1, 0, 1)}


def listed(request: int | None, unit: int, *shown: tuple[int, str | None]) -> list[Row]:
    """Rows of a list, a millisecond apart."""
    return [
        (unit, 1_000 + n, request, position, item and ord(item), 0, 0)
        for n, (position, item) in enumerate(shown)
    ]


def bits(*positions: int) -> int:
    return sum(1 << position for position in positions)


def lists_of(rows: list[Row]) -> dict[int, Row]:
    """Lists by unit."""
    audited = relation(AUDITED, *rows)
    found = answer("audit/lists", audited=audited).as_set()
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


def test_times_of_a_unit_are_told_once() -> None:
    rows = [*listed(1, 1, (1, "b"), (2, "a"), (3, None)), *listed(2, 1, (1, "b"))]
    rows.append((1, None, 2, 2, 5, 0, 0))
    audited = relation(AUDITED, *rows)
    assert answer("audit/moments", audited=audited).as_set() == {
        (1, 1_000),
        (1, 1_001),
        (1, 1_002),
    }


CELLS = "unit_id, variant, hour, set_aside, c_1"


def test_impressions_without_a_unit_are_counted_by_hour() -> None:
    cells = relation(
        CELLS,
        (1, "a", 20513, None, 4),
        (2, "a", 20513, None, 5),
        (1, "b", 20513, None, 1),
        (1, "a", 20514, None, 6),
        (1, "a", 20513, "null_unit", 7),
        (1, None, 20513, "null_variant", 8),
        (1, "a", None, "null_time", 9),
    )
    assert answer("audit/set_aside", logged_cells=cells).as_set() == {
        ("a", 20513, 7, 16),
        ("b", 20513, 0, 1),
        ("a", 20514, 0, 6),
    }


def experiment(**entries: Any) -> Experiment:
    base = {"name": "e", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    return parse_experiment({**base, "logs": {"impressions": {}}, **entries})


def shape_for(types: dict[str, str], **entries: Any) -> LogSchema:
    own = experiment(**entries)
    log = map_columns("impressions", own.logs.rows, types, "user_id")
    return build_schema(own, [], {"impressions": log})


HOUR = 3_600_000
ROWS = ((5, 0), (6, HOUR - 1), (PARTS + 5, HOUR), (6, 2 * HOUR), (5, 2 * HOUR + 1), (7, None))


@pytest.mark.parametrize("kind", [None, "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])
@pytest.mark.parametrize(
    ("sample", "places"),
    [
        (Sample(), {0, 1, 2, 3, 4, 5}),
        (Sample([(0, HOUR - 1)]), {0, 1}),
        (Sample([(1, HOUR), (2 * HOUR, 2 * HOUR)]), {1, 2, 3}),
        (Sample([(0, 2 * HOUR)], hashes=[5, PARTS + 5]), {0, 2}),
        (Sample(parts=6), {0, 2, 4}),
    ],
)
def test_a_sample_has_the_rows_of_its_times_of_its_parts_or_of_single_units(
    sample: Sample, places: set[int], kind: str | None
) -> None:
    rows = ((place, *row) for place, row in enumerate(ROWS))
    ts = f"cast(epoch_ms(time_ms) as {kind or 'timestamp'}) as own_ts"
    with closing(DuckDBEngine()) as engine:
        engine.table("r", relation("place, unit_hash, time_ms", *rows))
        chosen = f"select place from (select *, {ts} from r) where {sample.has('unit_hash', kind)}"
        assert {place for (place,) in engine.rows(chosen)} == places


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
    found = list_flags(experiment(), shape_for({**IDS, **columns}), frozenset())
    assert [f"{flag.audit} {flag.name}" for flag in found] == names


MODELS: dict[str, Any] = {
    "models": {"old": {"score": "old"}, "new": {"score": "new"}},
    "variants": {"a": {"model": "old"}, "b": {"model": "new"}},
}


def test_a_score_is_missing_if_the_model_of_the_variant_has_none() -> None:
    types = {**IDS, "old": "DOUBLE", "new": "DOUBLE"}
    chosen = list_flags(experiment(**MODELS), shape_for(types, **MODELS), frozenset())
    assert [(flag.name, flag.variants) for flag in chosen] == [("score", ["a"]), ("score", ["b"])]
    same = {**MODELS, "variants": {"a": {"model": "old"}, "b": {"model": "old"}}}
    (flag,) = list_flags(experiment(**same), shape_for(types, **same), frozenset())
    assert flag.variants == ["a", "b"]
    rows = [
        ("one", 5, None, 1.0, True, None),
        ("one", 6, 1.0, None, True, None),
        ("one", None, None, None, True, None),
        ("one", 0, None, None, False, None),
        ("one", 0, None, None, True, "null_unit"),
    ]
    with closing(DuckDBEngine()) as engine:
        columns = "unit_id, time_ms, score_1, score_2, in_period, set_aside"
        engine.table("seen", relation(columns, *rows))
        run = Run(experiment(**MODELS), engine)
        shape = shape_for(types, **MODELS)
        show_audited(run, shape, Sample(), chosen, has_lists=False)
        flagged = Counter(engine.rows("select time_ms, f_0, f_2 from audited"))
    assert flagged == Counter([(5, 1, 0), (6, 0, 1), (None, 1, 1)])
