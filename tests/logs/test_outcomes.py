"""Rows of outcome logs: which count, and how long after the exposure they came."""

from __future__ import annotations

from datetime import date

from tests.logs.queried import Value, answer, relation

DAY = date(2026, 3, 4)
NOON = 43_200_000
"""Unit 5, `five`, was exposed at noon of the day."""

OUTSIDE, NO_TIME, BEFORE, IN_PERIOD = range(4)

ROWS: dict[tuple[Value, ...], tuple[Value, ...]] = {
    ("five", 2, NOON, DAY, IN_PERIOD, 80): (2, 5, True, NOON, 0, 0, None, 80),
    ("five", 1, NOON - 1, DAY, IN_PERIOD, 81): (1, 5, True, NOON - 1, -1, 0, "before_exposure", 81),
    ("five", 1, NOON + 7, date(2026, 3, 6), IN_PERIOD, 82): (1, 5, True, NOON + 7, 7, 2, None, 82),
    ("five", 1, NOON - 9, date(2026, 3, 3), BEFORE, 83): (1, 5, False, NOON - 9, -9, -1, None, 83),
    ("five", 1, NOON, DAY, OUTSIDE, 84): (1, 5, False, NOON, 0, 0, "outside_period", 84),
    ("five", 1, None, None, NO_TIME, 85): (1, 5, False, None, None, None, "null_time", 85),
    (None, 1, NOON, DAY, IN_PERIOD, 86): (1, None, True, NOON, None, None, "null_unit", 86),
    ("six", 1, NOON, DAY, IN_PERIOD, 87): (
        1,
        None,
        True,
        NOON,
        None,
        None,
        "not_in_experiment",
        87,
    ),
    ("seven", 1, NOON, DAY, IN_PERIOD, 88): (
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
        "log/outcomes",
        outcome_log=relation("logged_id, copies, time_ms, day, phase, v_1", *ROWS),
        unit_names=relation("unit_id, logged_id", (5, "five"), (6, "six")),
        unit_entry=relation("unit_id, exposed_ms, entry_day", (5, NOON, DAY)),
    )
    assert rows == set(ROWS.values())


def test_copies_of_outcomes_are_counted_apart_from_the_rows() -> None:
    rows = relation(
        "copies, in_period, set_aside",
        (4, True, None),
        (3, True, None),
        (1, False, None),
        (2, True, "null_unit"),
    )
    assert answer("log/outcome_accounting", outcome_rows=rows) == {
        (None, True, 2, 5),
        (None, False, 1, 0),
        ("null_unit", True, 1, 1),
    }
