"""Accounts of the rows of the logs: the sums of their cells, and what they add up to."""

from __future__ import annotations

from tests.logs.queried import answer, relation


def test_impressions_are_summed_over_the_cells_of_a_reason_and_a_phase() -> None:
    cells = relation(
        "set_aside, in_period, c_1",
        (None, True, 30),
        (None, True, 12),
        (None, False, 5),
        ("null_unit", True, 2),
    )
    assert answer("log/impression_accounting", logged_cells=cells) == {
        (None, True, 42),
        (None, False, 5),
        ("null_unit", True, 2),
    }
