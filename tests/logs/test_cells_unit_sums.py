"""The sums of units by day, their days and segments, from a few cells of a log."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.engines.duckdb import DuckDBEngine
from abeval.logs.accounting import list_days
from abeval.logs.cells import BEFORE, NO_TIME, OUTSIDE, sum_unit_days
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.unit_arrays import NO_DAY
from abeval.logs.units import find_segments
from tests.logs.cells import DAY, Exposed, Shown, SmallLog, plan, small_log
from tests.relations import answer, relation

FIRST, SECOND, THIRD = "1970-01-01", "1970-01-02", "1970-01-03"

LOGGED = (
    "unit_id varchar, phase integer, hour_ts bigint, variant varchar, is_exposed boolean, "
    "s_city varchar, own_ts bigint, c_1 bigint, c_0 bigint"
)


def test_rows_of_a_unit_and_hour_are_one_with_their_first_and_last_time() -> None:
    key = ("u", 3, 7, "a", True)
    logged = relation(
        LOGGED,
        (*key, "Rome", 20, 1, 5),
        (*key, "Rome", 10, 1, 6),
        (*key, "Rome", 15, 1, 7),
        (*key, "Oslo", 12, 1, 8),
    )
    sums = answer(
        "2_units/logged_sums",
        "unit_id, variant, s_city, first_ts, last_ts, c_1, c_0",
        logged=logged,
    )
    assert sums == [("u", "a", "Oslo", 12, 12, 1, 8), ("u", "a", "Rome", 10, 20, 3, 18)]


def test_a_row_of_a_table_stays_a_row() -> None:
    logged = relation(LOGGED, ("u", 3, None, "a", True, "Rome", 20, 1, 5))
    columns = "unit_id, variant, first_ts, last_ts, c_1, c_0"
    assert answer("2_units/logged_rows", columns, logged=logged) == [("u", "a", 20, 20, 1, 5)]


SEPTEMBER, CLOCKS_CHANGE = datetime(2026, 9, 14), datetime(2026, 10, 25)
HOURS = st.integers(-40 * 60, 60 * 60).map(lambda minutes: timedelta(minutes=minutes))


@pytest.mark.slow
@pytest.mark.whole
@settings(max_examples=40)
@given(
    st.lists(HOURS, min_size=1, max_size=30, unique=True),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.sampled_from([timedelta(0), timedelta(hours=10, minutes=7, seconds=13)]),
    st.sampled_from([(SEPTEMBER, None), (SEPTEMBER, "Asia/Kolkata"), (CLOCKS_CHANGE, None)]),
)
def test_cells_have_the_local_hours_and_the_phases_of_their_rows(
    since: list[timedelta], zone: str, begins: timedelta, when: tuple[datetime, str | None]
) -> None:
    """Whether hours are counted of UTC or of a zone, and where a period begins within an hour."""
    day, own_zone = when
    period = {"start": day + begins, "end": day + timedelta(days=2)}
    times = [day + one for one in since]
    source = {} if own_zone is None else {"ts_zone": own_zone}
    experiment = plan(timezone=zone, period=period, logs={"impressions": source})
    frame = pd.DataFrame({"user_id": "u", "ts": times, "variant": "a"})
    with closing(DuckDBEngine()) as engine:
        cells = prepare(Run(experiment, engine, {"impressions": frame}), []).cells
    expected, hours = Counter[int](), Counter[int]()
    for time in times:
        zoned = time.replace(tzinfo=ZoneInfo(own_zone or "UTC")).astimezone(ZoneInfo(zone))
        local = zoned.replace(tzinfo=None)
        if period["start"] <= local < period["end"]:
            expected[(local - datetime(1970, 1, 1)) // timedelta(hours=1)] += 1
    inside, rows = cells.in_period, cells.sums["c_1"]
    for hour, count in zip(cells.hour[inside].tolist(), rows[inside].tolist(), strict=True):
        hours[hour] += count
    assert hours == expected
    assert cells.sums["c_1"].sum() == len(times)
    assert (cells.first_ms <= cells.last_ms).all()


def test_cells_are_read_with_the_units_together_and_the_nameless_apart() -> None:
    shown = [
        *(Shown("v", "a", 10, impressions=2), Shown("u", "a", 3, impressions=4)),
        *(Shown("v", "b", 20, impressions=8), Shown(None, "a", 10, impressions=16)),
        Shown(None, "c", 10, impressions=32),
    ]
    with small_log(shown) as log:
        cells = log.cells
        units = log.units(cells.hashes)
        assert sorted(units) == ["u", "v"]
        assert cells.hashes.tolist() == sorted(cells.hashes.tolist())
        rows = zip(
            cells.unit.tolist(), cells.kind.tolist(), cells.sums["c_1"].tolist(), strict=True
        )
        assert sorted((units[unit], cells.kinds[kind].variant, n) for unit, kind, n in rows) == [
            *(("u", "a", 4), ("v", "a", 2), ("v", "b", 8))
        ]
        assert cells.unit.tolist() == sorted(cells.unit.tolist())
        nameless = zip(cells.kinds, cells.nameless, strict=True)
        assert {kind.variant: count for kind, count in nameless} == {"a": 16, "b": 0, "c": 32}


def days_by_unit(log: SmallLog, *units: str) -> list[tuple[object, ...]]:
    """Unit, phase, day, and the sums."""
    days = sum_unit_days(log.cells, log.unit_of(*units))
    names = ("c_days", "c_1", "c_2")
    columns = [days.in_period, days.day, *(days.columns[name] for name in names)]
    rows = zip(days.unit.tolist(), *(one.tolist() for one in columns), strict=True)
    return [(units[unit], *row) for unit, *row in rows]


def test_a_day_of_a_unit_joins_its_variants_segments_and_hours() -> None:
    at = DAY // 2
    shown = [
        Shown("u", "a", at + 30, at + 40, impressions=1, clicks=10),
        Shown("u", "b", at + 20, at + 35, impressions=2, clicks=20, city="Rome"),
        Shown("u", "c", 25, at + 50, impressions=4, clicks=40),
        Shown("u", "b", DAY, impressions=8, clicks=80),
        Shown("u", "a", 1, 2, phase=BEFORE, impressions=16, clicks=160),
        Shown("v", "a", 5, impressions=32),
        # Rows that do not count, and a unit that is not asked for.
        *(Shown("u", "a", 7, phase=OUTSIDE), Shown("u", "a", 7, is_exposed=False)),
        Shown("w", "a", 7),
    ]
    with small_log(shown) as log:
        assert days_by_unit(log, "u", "v") == [
            ("u", False, 0, 1, 16, 160),
            ("u", True, 0, 1, 7, 70),
            ("u", True, 1, 1, 8, 80),
            ("v", True, 0, 1, 32, 0),
        ]


def test_a_row_without_a_time_is_of_no_day() -> None:
    with small_log([Shown("u", "a", clicks=3), Shown("u", "a", clicks=4)]) as log:
        ((unit, in_period, day, days, rows, clicks),) = days_by_unit(log, "u")
    assert (unit, in_period, day) == ("u", True, NO_DAY)
    assert (days, rows, clicks) == (0, 2, 7)


def test_a_day_with_analysed_units_counts_them_and_the_new_ones_among_them() -> None:
    shown = [
        *(Shown("u1", "a", DAY + 30, DAY + 45), Shown("u1", "a", 10, 20, impressions=2)),
        Shown("u1", "a", 1, phase=BEFORE, impressions=4),
        *(Shown("u2", "b", DAY + 25, impressions=8), Shown("u2", "b", 2 * DAY, impressions=16)),
        # Of no variant of the file: its times count, its impressions do not; its own day is none.
        *(Shown("u4", "c", DAY + 12, DAY + 90), Shown("u4", "c", 3 * DAY)),
        *(Shown("u6", "a", DAY + 50, impressions=256), Shown("u6", "a", None, phase=NO_TIME)),
    ]
    with small_log(shown) as log:
        assert list_days(log.prepared()) == [
            (FIRST, 1, 1, 2, 10, 20),
            (SECOND, 3, 2, 265, DAY + 12, DAY + 90),
            (THIRD, 1, 0, 16, 2 * DAY, 2 * DAY),
        ]


CITIES = [
    *(Shown("u1", "a", 10, city="Rome"), Shown("u1", "b", 10, city="Oslo")),
    *(Shown("u1", "a", 11, city="Bern"), Shown("u1", "a", 3, 7, BEFORE, "Cork")),
    *(Shown("u1", "a", 4, 8, BEFORE, "Nice"), Shown("u1", "b", 5, 8, BEFORE, "Metz")),
    *(Shown("u1", "a", 1, 6, BEFORE, "Bari"), Shown("u2", "a", None, city="Pisa")),
    *(Shown("u2", "b", None, city="Lodi"), Shown("u3", "a", 5, 9, BEFORE, "Rome")),
    *(Shown("u3", "a", 6, 8, city="Asti"), Shown("u4", "a", 9, 20, city="Como")),
]


def cities(log: SmallLog, *units: str) -> dict[str, str]:
    """The city of each unit, in an order of its own."""
    hashes = log.cells.hashes
    names = [name for name in log.units(hashes) if name in units]
    own = hashes[[name in units for name in log.units(hashes)]]
    unit_of = log.unit_of(*names)
    run = log.run
    one = find_segments(run, log.shape, log.cells, own, unit_of)["city"]
    return dict(zip(names, (one.names[code] for code in one.code.tolist()), strict=True))


class TestSegments:
    def test_of_a_unit_are_those_of_its_first_impression(self) -> None:
        with small_log(CITIES) as log:
            assert cities(log, "u1", "u2", "u3") == {"u1": "Oslo", "u2": "Lodi", "u3": "Asti"}

    def test_from_before_are_those_of_its_last_impression_then(self) -> None:
        dates = {
            "period": {"start": "2026-01-08", "end": "2026-01-09"},
            "pre_period": {"start": "2026-01-01", "end": "2026-01-08"},
        }
        before = {"city": {"value": "city", "known": "before"}}
        with small_log(CITIES, segments=before, **dates) as log:
            assert cities(log, "u1", "u3", "u4") == {"u1": "Metz", "u3": "Rome", "u4": ""}

    def test_of_exposures_are_those_of_the_first_one(self) -> None:
        rows = (
            *(("u", 10, "Rome"), ("u", 10, "Oslo"), ("u", 12, "Bern")),
            *(("v", None, "Pisa"), ("v", None, "Lodi"), ("w", 10, None), ("x", 10, "Como")),
        )
        exposures = [Exposed(unit, "a", time, city) for unit, time, city in rows]
        known = {"city": {"value": "city", "known": "exposure"}}
        shown = [Shown(unit, "a", 20, city="Nice") for unit in "uvwz"]
        with small_log(shown, exposures, segments=known) as log:
            assert cities(log, "u", "v", "w", "z") == {"u": "Oslo", "v": "Lodi", "w": "", "z": ""}
