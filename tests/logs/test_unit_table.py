"""Rows of the table of units beside a log: which are joined to an analysed unit."""

from __future__ import annotations

from tests.relations import answer, relation


def test_a_row_of_the_table_counts_if_its_unit_is_analysed_and_has_no_other() -> None:
    rows = answer(
        "log/described_rows",
        unit_log=relation(
            "logged_id, copies, s_, u_0, v_0, v_1",
            ("five", 3, "", 0, 0, 15),
            ("six", 1, "", 0, 0, 16),
            ("seven", 1, "", 0, 0, 17),
            ("eight", 1, "", 0, 0, 18),
            ("eight", 1, "", 0, 0, 19),
            (None, 1, "", 0, 0, 20),
            (None, 1, "", 0, 0, 21),
        ),
        unit_names=relation("unit_id, logged_id", (5, "five"), (8, "eight")),
    ).as_set()
    assert rows == {
        (5, 3, None, "", 0, 0, 15),
        (None, 1, "not_in_experiment", "", 0, 0, 16),
        (None, 1, "not_in_experiment", "", 0, 0, 17),
        (8, 1, "repeated_unit", "", 0, 0, 18),
        (8, 1, "repeated_unit", "", 0, 0, 19),
        (None, 1, "null_unit", "", 0, 0, 20),
        (None, 1, "null_unit", "", 0, 0, 21),
    }


def test_copies_of_rows_of_the_table_are_counted_apart_from_the_rows() -> None:
    rows = relation("copies, set_aside", (4, None), (3, None), (1, "null_unit"))
    assert answer("log/unit_accounting", described_rows=rows).as_set() == {
        (None, 2, 5),
        ("null_unit", 1, 0),
    }
