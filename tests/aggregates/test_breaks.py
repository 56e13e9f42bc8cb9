"""What is counted of each log around each day."""

from __future__ import annotations

from datetime import date

import numpy as np

from abeval.aggregates.audit_arrays import CLUSTERS, AuditedUnits
from abeval.aggregates.breaks import DailyRows, count_outcome_units, sum_days
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


def test_rows_are_counted_by_day_and_by_the_split_period_in_which_units_entered():
    rows = [(0, day, 10**day) for day in range(9)] + [(1, 0, 5), (2, 8, 7)]
    audits = sum_days(make_units([0, 0, 1], [0, 0, 1]), {"clicks": DailyRows(*np.array(rows).T)})
    first, second = audits["day:clicks:"]
    assert (first.split_period, second.split_period, first.value) == (0, 1, "")
    assert first.times.tolist() == second.times.tolist() == [*range(9)]
    assert first.rows.sum(axis=2).tolist() == [[10**day, 5 * (day == 0)] for day in range(9)]
    assert second.rows.sum(axis=2).tolist() == [[7 * (day == 8), 0] for day in range(9)]
    assert np.count_nonzero(first.rows, axis=2).max() == 1


def test_rows_are_counted_by_segment_and_a_log_of_one_day_is_not():
    units = make_units([0, 0, 1, 1], [0, 0, 1, 1])
    rows = np.array([(0, 0, 3), (1, 1, 5), (2, 0, 7), (3, 1, 9)])
    logs = {"clicks": DailyRows(*rows.T), "orders": DailyRows(*rows[:1].T)}
    audits = sum_days(units, logs)
    assert [*audits] == ["day:clicks:", "day:clicks:device"]
    cells = {
        (cell.split_period, cell.value): cell.rows.sum(axis=2)
        for cell in audits["day:clicks:device"]
    }
    assert cells[0, "phone"].tolist() == [[3, 0], [0, 5]]
    assert cells[1, "tablet"].tolist() == [[7, 0], [0, 9]]
    assert not cells[1, "phone"].any()
    assert not cells[0, "tablet"].any()


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
