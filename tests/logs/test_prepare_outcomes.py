"""Rows of outcome logs: which count, and how long after the exposure they came."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import LogError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.prepare import find_covered_until
from abeval.results.analysis import Result
from tests.logs.small import aside, values
from tests.relations import Value, answer, relation

DAY = date(2026, 3, 4)
NOON = 43_200_000
"""Unit 5, `five`, was exposed at noon of the day."""

ROWS: dict[tuple[Value, ...], tuple[Value, ...]] = {
    ("five", 2, NOON, DAY, 80): (2, 5, True, NOON, 0, 0, None, 80),
    ("five", 1, NOON - 1, DAY, 81): (1, 5, True, NOON - 1, -1, 0, "before_exposure", 81),
    ("five", 1, NOON + 7, date(2026, 3, 6), 82): (1, 5, True, NOON + 7, 7, 2, None, 82),
    ("five", 1, NOON - 9, date(2026, 3, 3), 83): (1, 5, False, NOON - 9, -9, -1, None, 83),
    ("five", 1, NOON, date(2026, 3, 9), 84): (1, 5, False, NOON, 0, 5, "outside_period", 84),
    ("five", 1, None, None, 85): (1, 5, False, None, None, None, "null_time", 85),
    (None, 1, NOON, DAY, 86): (1, None, True, NOON, None, None, "null_unit", 86),
    ("six", 1, NOON, DAY, 87): (
        1,
        None,
        True,
        NOON,
        None,
        None,
        "not_in_experiment",
        87,
    ),
    ("seven", 1, NOON, DAY, 88): (
        1,
        None,
        True,
        NOON,
        None,
        None,
        "not_in_experiment",
        88,
    ),
}
"""A row of the log → what the query says of it."""


def test_a_row_counts_from_the_moment_of_the_exposure_on() -> None:
    """Unit 6 has a name, but is not analysed; `seven` is no unit of the log."""
    rows = answer(
        "3_rows/outcomes",
        outcome_log=relation("logged_id, copies, time_ms, ts timestamp, v_1", *ROWS),
        periods=relation(
            "period_start, period_end, before_start, before_end",
            (date(2026, 3, 4), date(2026, 3, 7), date(2026, 3, 1), date(2026, 3, 4)),
        ),
        unit_names=relation("unit_id, logged_id", (5, "five"), (6, "six")),
        unit_entry=relation("unit_id, exposed_ms, entry_day", (5, NOON, DAY)),
    ).as_set()
    days = [ts for _, _, _, ts, _ in ROWS]
    expected = {(*row[:4], day, *row[4:]) for row, day in zip(ROWS.values(), days, strict=True)}
    assert rows == expected


def test_copies_of_outcomes_are_counted_apart_from_the_rows() -> None:
    rows = relation(
        "copies, in_period, set_aside",
        (4, True, None),
        (3, True, None),
        (1, False, None),
        (2, True, "null_unit"),
    )
    assert answer("audit/outcome_accounting", outcome_rows=rows).as_set() == {
        (None, True, 2, 5),
        (None, False, 1, 0),
        ("null_unit", True, 1, 1),
    }


def plan(**entries: Any) -> Experiment:
    base = {"name": "e", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    return parse_experiment({**base, "logs": {"impressions": {}}, **entries})


def utc_ms(time: str) -> int:
    return int(pd.Timestamp(time).timestamp() * 1000)


@pytest.mark.parametrize(
    ("last", "whole_until", "entries"),
    [
        # New York is five hours behind in February.
        ("2026-02-10 12:00", "2026-02-10 12:00", {}),
        ("2026-02-11 04:00", "2026-02-11 05:00", {}),
        ("2026-02-11 03:59:59.999", "2026-02-11 03:59:59.999", {}),
        ("2026-02-11 04:59", "2026-02-11 05:00", {}),
        ("2026-02-11 05:00", "2026-02-11 05:00", {}),
        (
            "2026-02-10 12:30",
            "2026-02-10 13:00",
            {"period": {"start": "2026-02-01", "end": "2026-02-10T08:00:00"}},
        ),
        (
            "2026-02-10 12:30",
            "2026-02-10 12:30",
            {"period": {"start": "2026-02-01", "end": "2026-02-20"}},
        ),
    ],
)
def test_a_log_that_ends_within_the_last_hour_of_a_day_has_the_day(
    last: str, whole_until: str, entries: dict[str, Any]
) -> None:
    covered = find_covered_until(plan(timezone="America/New_York", **entries), utc_ms(last))
    assert covered == utc_ms(whole_until)


def test_a_log_without_a_row_is_whole_up_to_no_time() -> None:
    assert find_covered_until(plan(), None) is None


ORDERS = {"columns": {"unit_id": "customer", "ts": "at"}}
OUTCOMES: list[dict[str, Any]] = [
    {"name": "ctr"},
    {"name": "revenue", "log": "orders", "value": "amount"},
    {"name": "kinds", "log": "orders", "per_unit": "count_distinct", "value": "kind"},
    {"name": "size", "log": "units", "value": "size"},
]


def visits(time: str = "2026-02-10 09:00", units: int = 4) -> pd.DataFrame:
    """One impression of each unit, in turn of `a` and `b`."""
    unit = np.arange(units)
    ts = pd.Series([pd.Timestamp(time)] * units).astype("datetime64[ms]")
    variant = np.where(unit % 2 == 0, "a", "b")
    return pd.DataFrame({"user_id": unit, "variant": variant, "ts": ts, "click": unit % 2})


def orders(*rows: tuple[int | None, str, float, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["customer", "at", "amount", "kind"])
    at = pd.to_datetime(frame["at"], format="ISO8601").astype("datetime64[ms]")
    return frame.assign(at=at, customer=frame["customer"].astype("Int64"))


def analyzed(
    shown: pd.DataFrame, bought: pd.DataFrame, metrics: Any = OUTCOMES, **entries: Any
) -> Result:
    logs = {"impressions": {}, "units": {"covariates": ["size"]}, "events": {"orders": ORDERS}}
    sizes = pd.DataFrame({"user_id": range(4), "size": [1.0, 2.0, 3.0, 4.0]})
    loaded = abeval.define(
        name="e",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs=logs,
        metrics=metrics,
        engine={"threads": 1},
        **entries,
    )
    return loaded.analyze(logs={"impressions": shown, "orders": bought, "units": sizes})


def test_outcomes_of_logs_and_of_the_table_of_units_are_summed_by_unit() -> None:
    bought = orders(
        (0, "2026-02-10 09:00", 5.0, "book"),
        (0, "2026-02-10 08:59:59.999", 90.0, "early"),
        (0, "2026-02-11 09:00", 2.0, "book"),
        (1, "2026-02-10 10:00", 3.0, "book"),
        (1, "2026-02-10 11:00", 4.0, "pen"),
        (1, "2026-02-10 11:00", 4.0, "pen"),
        (None, "2026-02-10 11:00", 4.0, "pen"),
        (77, "2026-02-10 11:00", 4.0, "pen"),
    )
    result = analyzed(visits(), bought)
    assert values(result) == {
        "ctr": (0.0, 1.0),
        "revenue": (3.5, 3.5),
        "kinds": (0.5, 1.0),
        "size": (2.0, 3.0),
    }
    assert aside(result, "orders") == {
        "used": 4,
        "before_exposure": 1,
        "duplicate": 1,
        "not_in_experiment": 1,
        "null_unit": 1,
    }
    kept = analyzed(visits(), bought, cleaning={"duplicates": "keep"})
    assert values(kept)["revenue"] == (3.5, 5.5)


@pytest.mark.parametrize("are_midnights", [True, False])
def test_orders_of_a_day_are_not_before_its_exposure(are_midnights: bool) -> None:
    """Nor are equal ones sent twice: nothing but a time of the day would tell."""
    bought = orders(*[(1, "2026-02-10", 4.0, "pen")] * 3)
    bought = bought if are_midnights else bought.assign(at=bought["at"].dt.date)
    revenue = [metric for metric in OUTCOMES if metric["name"] == "revenue"]
    days = analyzed(visits(), bought, revenue)
    assert values(days)["revenue"] == (0.0, 6.0)
    assert aside(days, "orders") == {"used": 3}
    said = "All times of the orders are midnights: they are days."
    assert (said in days.notes) == are_midnights


def test_midnights_beside_other_times_are_days_too() -> None:
    """Two sources, of which one writes dates."""
    bought = orders(
        (1, "2026-02-10", 4.0, "pen"),
        (1, "2026-02-10 10:00:01", 4.0, "pen"),
        (1, "2026-02-10 08:00:01", 4.0, "pen"),
        (1, "2026-02-09", 4.0, "pen"),
    )
    revenue = [metric for metric in OUTCOMES if metric["name"] == "revenue"]
    result = analyzed(visits(), bought, revenue)
    assert aside(result, "orders") == {"used": 2, "before_exposure": 2}
    assert values(result)["revenue"] == (0.0, 4.0)


def test_many_equal_orders_are_warned_of() -> None:
    """Lines of one order look like an order that was sent twice."""
    lines = orders(*[(unit, f"2026-02-10 1{unit}:00:07", 4.0, "pen") for unit in range(4)] * 2)
    revenue = [metric for metric in OUTCOMES if metric["name"] == "revenue"]
    result = analyzed(visits(), lines, revenue)
    (check,) = (c for c in result.trust if c.name == "outcome_duplicates:orders")
    assert check.status == "warn"
    assert check.message.startswith("4 of 8 rows of orders are equal to another")
    assert values(result)["revenue"] == (4.0, 4.0)
    kept = analyzed(visits(), lines, revenue, cleaning={"duplicates": "keep"})
    assert values(kept)["revenue"] == (8.0, 8.0)


def test_outcomes_need_a_time_of_the_exposure() -> None:
    with pytest.raises(LogError, match="no log says when that was"):
        analyzed(visits().drop(columns="ts"), orders((0, "2026-02-10 09:00", 5.0, "book")))


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Tokyo"])
def test_a_log_of_dates_is_whole_up_to_the_end_of_its_last_local_day(zone: str) -> None:
    """Of the two days with impressions, windows of 24 hours from either day on have closed."""
    shown = visits()
    shown["ts"] = [date(2026, 2, 10), date(2026, 2, 10), date(2026, 2, 11), date(2026, 2, 11)]
    for hours, units in ((24, 2), (25, 1)):
        window = {"name": "clicked", "log": "clicks", "within": f"{hours} hours"}
        row = analyzed(shown, orders(), [window], timezone=zone)["clicked"]
        assert (row.units_control, row.units) == (units, units)


def test_days_and_windows_of_outcomes_are_local() -> None:
    """Units came at 22:00 of the 10th and at 21:00 of the 12th in New York."""
    shown = visits("2026-02-11 03:00")
    shown.loc[2:, "ts"] = pd.Timestamp("2026-02-13 02:00")
    bought = orders(
        (0, "2026-02-12 04:59", 1.0, "on the 11th"),
        (1, "2026-02-12 05:00", 1.0, "on the 12th"),
        (2, "2026-02-14 00:00", 1.0, "on the 13th"),
    )
    metrics = [
        {"name": "day_1", "log": "orders", "retention": 1},
        {"name": "clicked", "log": "clicks", "within": "24 hours"},
    ]
    result = analyzed(shown, bought, metrics, timezone="America/New_York")
    assert values(result) == {"day_1": (1.0, 0.0), "clicked": (0.0, 1.0)}
    # The impressions end with the later units.
    assert (result["clicked"].units_control, result["clicked"].units) == (1, 1)
