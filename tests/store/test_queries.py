"""The queries of closed days, each on a few rows whose answer can be read off."""

from __future__ import annotations

from datetime import date

from tests.relations import answer, relation

FIRST, SECOND, THIRD = (date(2027, 3, day) for day in (1, 2, 3))
CLOSING = relation("last_day", (SECOND,))


def test_rows_set_aside_are_counted_up_to_the_last_closed_day() -> None:
    cells = relation(
        "set_aside, in_period, day, c_1",
        *(("late", True, FIRST, 2), ("late", True, SECOND, 3), ("late", True, THIRD, 5)),
        *(("late", False, None, 7), ("bot", True, FIRST, 11), (None, True, FIRST, 13)),
        (None, True, THIRD, 17),
    )
    assert answer("store/closed_aside", logged_cells=cells, closing=CLOSING).as_set() == {
        ("late", True, 5),
        ("late", False, 7),
        ("bot", True, 11),
    }


UNIT_DAY = (
    "unit_id, in_period, day, first_ms, last_ms, first_day, c_days, variant_low, variant_high, "
    "c_1, c_10"
)


def test_closed_cells_add_up_the_days_of_a_unit_up_to_the_last_closed_one() -> None:
    days = relation(
        UNIT_DAY,
        (1, True, FIRST, 10, 12, FIRST, 1, "a", "b", 3, 30),
        (1, True, SECOND, 20, 29, SECOND, 1, "b", "c", 4, 40),
        (1, True, THIRD, 5, 99, FIRST, 1, "A", "z", 5, 50),
        (1, False, None, 1, 2, None, 0, "a", "a", 6, 60),
        # Of a variant that no first impression tells: of one variant, of two, named by none.
        (2, True, FIRST, 10, 12, FIRST, 1, "b", "b", 1, 10),
        (3, True, FIRST, 10, 12, FIRST, 1, "a", "b", 1, 10),
        (4, True, FIRST, 10, 12, FIRST, 1, "a", "a", 1, 10),
        (5, True, THIRD, 10, 12, FIRST, 1, "a", "a", 1, 10),
    )
    names = relation("unit_id, logged_id", *((unit, f"u{unit}") for unit in range(1, 6)))
    rows = answer(
        "store/closed_cells",
        unit_day=days,
        closing=CLOSING,
        unit_names=names,
        first_variant=relation("unit_id, first_variant", (1, "c"), (4, "a"), (5, "b")),
        units=relation("unit_id, variant", (1, "c"), (2, "b"), (5, "b")),
        nameless_units=relation("nameless_unit_id", (4,)),
        closed_segments=relation("segmented_unit_id, s_device", (1, "tv"), (3, "web")),
    )
    assert rows.columns == [
        *("day", "set_aside", "unit_id", "variant", "in_period", "first_ms", "last_ms"),
        *("first_day", "closed_days", "variant_low", "variant_high", "c_1", "c_10"),
        *("s_device", "placed"),
    ]
    assert rows.as_set() == {
        (None, None, "u1", "c", True, 10, 29, FIRST, 2, "a", "c", 7, 70, "tv", "c"),
        (None, None, "u1", "c", False, 1, 2, None, 0, "a", "a", 6, 60, "tv", "c"),
        (None, None, "u2", "b", True, 10, 12, FIRST, 1, "b", "b", 1, 10, None, "b"),
        (None, None, "u3", None, True, 10, 12, FIRST, 1, "a", "b", 1, 10, "web", None),
        (None, None, "u4", None, True, 10, 12, FIRST, 1, "a", "a", 1, 10, None, None),
    }


def test_units_have_moved_if_their_closed_days_were_counted_for_another_variant() -> None:
    cells = relation(
        "unit_id, in_period, set_aside, placed",
        *(("u1", True, None, "a"), ("u2", True, None, "a"), ("u3", True, None, None)),
        *(("u4", True, None, "b"), ("u5", True, None, None)),
        # Before the period, and set aside.
        *(("u6", False, None, "a"), ("u7", True, "late", "a")),
    )
    names = relation("logged_id, unit_id", *((f"u{unit}", unit) for unit in range(1, 8)))
    assert answer(
        "store/moved_units",
        closed_cells=cells,
        unit_names=names,
        units=relation("unit_id, variant", (1, "a"), (2, "b"), (3, "b"), (6, "b"), (7, "b")),
    ).as_set() == {("u2", 2, "a", "b"), ("u3", 3, None, "b"), ("u4", 4, "b", None)}


def test_days_of_moved_units_are_those_of_the_period_that_count() -> None:
    cells = relation(
        "unit_id, day, set_aside, in_period, c_1, c_10",
        *(("u2", FIRST, None, True, 1, 10), ("u2", FIRST, None, True, 2, 20)),
        *(("u2", SECOND, None, True, 3, 30), ("u4", FIRST, None, True, 4, 40)),
        *(("u2", FIRST, "late", True, 5, 50), ("u2", FIRST, None, False, 6, 60)),
        ("u1", FIRST, None, True, 7, 70),
    )
    rows = answer(
        "store/moved_day",
        moved_cells=cells,
        moved_units=relation(
            "logged_id, unit_id, placed, variant", ("u2", 2, "a", "b"), ("u4", 4, "b", "a")
        ),
    )
    assert rows.columns == ["unit_id", "day", "placed", "variant", "c_days", "c_1", "c_10"]
    assert rows.as_set() == {
        (2, FIRST, "a", "b", 1, 3, 30),
        (2, SECOND, "a", "b", 1, 3, 30),
        (4, FIRST, "b", "a", 1, 4, 40),
    }


MOVED = relation(
    "unit_id, day, placed, variant, c_days, c_1",
    # From nowhere, to nowhere, from one to another.
    *((1, FIRST, None, "a", 1, 3), (1, SECOND, None, "a", 1, 4), (2, FIRST, "a", None, 1, 5)),
    *((3, FIRST, "a", "b", 1, 6), (4, FIRST, None, "b", 1, 7), (5, FIRST, None, "b", 1, 8)),
    *((6, SECOND, "b", None, 1, 9), (7, SECOND, "b", None, 1, 10)),
)


def test_counts_of_a_day_change_by_the_units_that_come_and_go() -> None:
    first_days = relation(
        "unit_id, first_day",
        *((1, FIRST), (2, FIRST), (3, FIRST), (4, FIRST), (5, SECOND), (6, SECOND)),
        (7, SECOND),
    )
    assert answer("store/moved_days", moved_day=MOVED, seen_units=first_days).as_set() == {
        ("2027-03-01", 2, 1, 3 - 5 + 7 + 8),
        ("2027-03-02", -1, -2, 4 - 9 - 10),
    }


def test_moved_units_are_taken_from_where_they_were_counted_and_added_where_they_are() -> None:
    assert answer("store/moved_from", moved_day=MOVED).as_set() == {
        ("a", FIRST, 1, 5),
        ("a", FIRST, 1, 6),
        ("b", SECOND, 1, 9),
        ("b", SECOND, 1, 10),
    }
    assert answer("store/moved_to", moved_day=MOVED).as_set() == {
        (FIRST, "a", 1, 3),
        (SECOND, "a", 1, 4),
        (FIRST, "b", 1, 6),
        (FIRST, "b", 1, 7),
        (FIRST, "b", 1, 8),
    }


def test_a_unit_is_nameless_if_no_row_of_its_first_moment_names_a_variant() -> None:
    cells = relation(
        "unit_id, first_ms, variant, in_period",
        *((1, 10, None, True), (1, 20, "a", True), (2, 10, "a", True), (2, 20, None, True)),
        *((3, 10, None, True), (3, 10, "b", True), (4, 10, None, False), (4, 30, "a", True)),
        *((5, 20, None, True), (5, 20, None, True)),
    )
    assert answer(
        "store/nameless_units",
        unit_cells=cells,
        seen_units=relation(
            "unit_id, first_ms", (1, 10), (2, 10), (3, 10), (4, 30), (5, 20), (6, 10)
        ),
    ).as_set() == {(1,), (5,)}
