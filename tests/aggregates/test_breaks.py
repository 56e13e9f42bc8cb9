"""What is counted of each log around each day."""

from __future__ import annotations

from datetime import date

import numpy as np

from abeval.aggregates.audit_arrays import CLUSTERS, AuditedUnits
from abeval.aggregates.breaks import DailyRows, count_breaks, count_outcome_units
from abeval.logs.unit_arrays import Labels
from tests.relations import answer, relation


def make_units(device: list[int], split_period: list[int]) -> AuditedUnits:
    """One unit of `a` and one of `b` for each entry, in turn."""
    number = np.arange(len(device))
    return AuditedUnits(
        number=number,
        variant=number % 2,
        variant_group=number % 2 * CLUSTERS + number % CLUSTERS,
        split_period=np.array(split_period),
        segments={"device": Labels(np.array(device, np.int32), ["phone", "tablet"])},
        variants=["a", "b"],
    )


def count(units: AuditedUnits, *rows: tuple[int, int, int]) -> dict[str, tuple[int, int]]:
    """Rows are (unit, day, rows); audit, cell and variant → rows after, and before."""
    unit, day, events = np.array(rows).T
    sums = count_breaks(units, {"clicks": DailyRows(unit, day, events)})
    return {
        f"{one.audit.removeprefix('break:')} {one.cell} {one.variant}": (
            one.sums.y,
            one.sums.x - one.sums.y,
        )
        for one in sums
    }


def test_rows_of_a_day_and_of_a_week_are_counted_against_the_week_before():
    """Nine days: the week before the ninth lacks the first, the week from the second the last."""
    rows = [(0, day, 10**day) for day in range(9)]
    counted = count(make_units([0, 0], [0, 0]), *rows)
    week = 111_111_1
    assert counted["clicks 0 1 1970-01-09  a"] == (10**8, 10 * week)
    assert counted["clicks 0 7 1970-01-02  a"] == (10 * week, 1)
    assert counted["clicks 0 7 1970-01-09  a"] == (10**8, 10 * week)
    assert "clicks 0 1 1970-01-01  a" not in counted


def test_a_day_stands_beside_the_seven_before_and_after_it():
    unit, day = np.zeros(10, np.int64), np.arange(10)
    shown = {"impressions": DailyRows(unit, day, 1 << day)}
    adjacent = {
        (row.audit, row.cell): (row.sums.y, row.sums.x)
        for row in count_breaks(make_units([0, 0], [0, 0]), shown)
        if row.audit.startswith("day_")
    }
    assert adjacent["day_before", "1970-01-09"] == (1 << 8, 0b11111110)
    assert adjacent["day_after", "1970-01-09"] == (1 << 8, 1 << 9)
    assert adjacent["day_after", "1970-01-02"] == (1 << 1, 0b111111100)
    days = {audit: {cell for name, cell in adjacent if name == audit} for audit, _ in adjacent}
    assert days["day_before"] - days["day_after"] == {"1970-01-10"}
    assert "1970-01-01" not in days["day_before"]


def test_units_are_counted_by_segment_and_by_the_split_period_in_which_they_entered():
    units = make_units([0, 0, 1, 1], [0, 0, 1, 1])
    counted = count(units, (0, 0, 3), (1, 1, 5), (2, 0, 7), (3, 1, 9))
    assert counted["clicks 0 1 1970-01-02  a"] == (0, 3)
    assert counted["clicks 1 1 1970-01-02  a"] == (0, 7)
    assert counted["clicks:device 0 7 1970-01-02 phone b"] == (5, 0)
    assert counted["clicks:device 1 7 1970-01-02 tablet b"] == (9, 0)


def test_units_with_an_outcome_are_counted_once():
    daily = DailyRows(np.array([0, 0, 2]), np.array([1, 2, 1]), np.array([5, 1, 1]))
    shares = count_outcome_units(make_units([0] * 4, [0] * 4), {"orders": daily})
    assert [(one.cell, one.variant, one.y, one.x) for one in shares] == [
        ("orders", "a", 2, 2),
        ("orders", "b", 0, 2),
    ]


def test_outcomes_are_counted_by_unit_and_local_day_if_they_count():
    rows = relation(
        "unit_id, in_period, day, set_aside, v_3, v_none",
        (1, True, date(1970, 1, 3), None, 5, 0),
        (1, True, date(1970, 1, 3), None, None, 0),
        (1, True, date(1970, 1, 4), None, 7, 0),
        (1, True, date(1970, 1, 4), "before_exposure", 9, 0),
        (2, False, date(1970, 1, 1), None, 9, 0),
    )
    counted = answer("audit/outcome_days", outcome_values=rows).as_set()
    assert counted == {(1, 2, 2, 5, 0), (1, 3, 1, 7, 0)}
