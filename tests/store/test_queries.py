"""The queries of closed days, each on a few rows whose answer can be read off."""

from __future__ import annotations

from tests.time.relations import answer, rows_of, texts

FIRST, SECOND, THIRD = (f"date '2027-03-0{day}'" for day in (1, 2, 3))
CLOSING = f"last_day: ({SECOND})"
NO_DAY = "cast(null as date)"


def test_rows_set_aside_are_counted_up_to_the_last_closed_day() -> None:
    cells = (
        f"('late', true, {FIRST}, 2), ('late', true, {SECOND}, 3), ('late', true, {THIRD}, 5),"
        f"('late', false, {NO_DAY}, 7), ('bot', true, {FIRST}, 11), (null, true, {FIRST}, 13),"
        f"(null, true, {THIRD}, 17)"
    )
    assert rows_of(
        "store/closed_aside",
        logged_cells=f"set_aside, in_period, day, c_1: {cells}",
        closing=CLOSING,
    ) == {("late", "True", "5"), ("late", "False", "7"), ("bot", "True", "11")}


UNIT_DAY = (
    "unit_id, in_period, day, first_ms, last_ms, first_day, c_days, variant_low, variant_high, "
    "c_1, c_10"
)


def test_closed_cells_add_up_the_days_of_a_unit_up_to_the_last_closed_one() -> None:
    days = (
        f"(1, true, {FIRST}, 10, 12, {FIRST}, 1, 'a', 'b', 3, 30),"
        f"(1, true, {SECOND}, 20, 29, {SECOND}, 1, 'b', 'c', 4, 40),"
        f"(1, true, {THIRD}, 5, 99, {FIRST}, 1, 'A', 'z', 5, 50),"
        f"(1, false, {NO_DAY}, 1, 2, {NO_DAY}, 0, 'a', 'a', 6, 60),"
        # Of a variant that no first impression tells: of one variant, of two, named by none.
        f"(2, true, {FIRST}, 10, 12, {FIRST}, 1, 'b', 'b', 1, 10),"
        f"(3, true, {FIRST}, 10, 12, {FIRST}, 1, 'a', 'b', 1, 10),"
        f"(4, true, {FIRST}, 10, 12, {FIRST}, 1, 'a', 'a', 1, 10),"
        f"(5, true, {THIRD}, 10, 12, {FIRST}, 1, 'a', 'a', 1, 10)"
    )
    names = ", ".join(f"({unit}, 'u{unit}')" for unit in range(1, 6))
    rows = answer(
        "store/closed_cells",
        unit_day=f"{UNIT_DAY}: {days}",
        closing=CLOSING,
        unit_names=f"unit_id, logged_id: {names}",
        first_variant="unit_id, first_variant: (1, 'c'), (4, 'a'), (5, 'b')",
        units="unit_id, variant: (1, 'c'), (2, 'b'), (5, 'b')",
        nameless_units="nameless_unit_id: (4)",
        closed_segments="segmented_unit_id, s_device: (1, 'tv'), (3, 'web')",
    )
    assert rows[["day", "set_aside"]].isna().all(axis=None)
    columns = [
        *("unit_id", "in_period", "variant", "placed", "s_device", "first_ms", "last_ms"),
        *("first_day", "closed_days", "variant_low", "variant_high", "c_1", "c_10"),
    ]
    assert {*rows.columns} == {*columns, "day", "set_aside"}
    first = "2027-03-01"
    assert texts(rows[columns]) == {
        ("u1", "True", "c", "c", "tv", "10", "29", first, "2", "a", "c", "7", "70"),
        ("u1", "False", "c", "c", "tv", "1", "2", "", "0", "a", "a", "6", "60"),
        ("u2", "True", "b", "b", "", "10", "12", first, "1", "b", "b", "1", "10"),
        ("u3", "True", "", "", "web", "10", "12", first, "1", "a", "b", "1", "10"),
        ("u4", "True", "", "", "", "10", "12", first, "1", "a", "a", "1", "10"),
    }


def test_units_have_moved_if_their_closed_days_were_counted_for_another_variant() -> None:
    cells = (
        "('u1', true, null, 'a'), ('u2', true, null, 'a'), ('u3', true, null, null),"
        "('u4', true, null, 'b'), ('u5', true, null, null),"
        # Before the period, and set aside.
        "('u6', false, null, 'a'), ('u7', true, 'late', 'a')"
    )
    names = ", ".join(f"('u{unit}', {unit})" for unit in range(1, 8))
    assert rows_of(
        "store/moved_units",
        closed_cells=f"unit_id, in_period, set_aside, placed: {cells}",
        unit_names=f"logged_id, unit_id: {names}",
        units="unit_id, variant: (1, 'a'), (2, 'b'), (3, 'b'), (6, 'b'), (7, 'b')",
    ) == {("u2", "2", "a", "b"), ("u3", "3", "", "b"), ("u4", "4", "b", "")}


def test_days_of_moved_units_are_those_of_the_period_that_count() -> None:
    cells = (
        f"('u2', {FIRST}, null, true, 1, 10), ('u2', {FIRST}, null, true, 2, 20),"
        f"('u2', {SECOND}, null, true, 3, 30), ('u4', {FIRST}, null, true, 4, 40),"
        f"('u2', {FIRST}, 'late', true, 5, 50), ('u2', {FIRST}, null, false, 6, 60),"
        f"('u1', {FIRST}, null, true, 7, 70)"
    )
    rows = answer(
        "store/moved_day",
        moved_cells=f"unit_id, day, set_aside, in_period, c_1, c_10: {cells}",
        moved_units="logged_id, unit_id, placed, variant: ('u2', 2, 'a', 'b'), ('u4', 4, 'b', 'a')",
    )
    assert [*rows.columns] == ["unit_id", "day", "placed", "variant", "c_days", "c_1", "c_10"]
    assert texts(rows) == {
        ("2", "2027-03-01", "a", "b", "1", "3", "30"),
        ("2", "2027-03-02", "a", "b", "1", "3", "30"),
        ("4", "2027-03-01", "b", "a", "1", "4", "40"),
    }


MOVED_DAY = "unit_id, day, placed, variant, c_days, c_1"
MOVED = (
    # From nowhere, to nowhere, from one to another.
    f"(1, {FIRST}, null, 'a', 1, 3), (1, {SECOND}, null, 'a', 1, 4), (2, {FIRST}, 'a', null, 1, 5),"
    f"(3, {FIRST}, 'a', 'b', 1, 6), (4, {FIRST}, null, 'b', 1, 7), (5, {FIRST}, null, 'b', 1, 8),"
    f"(6, {SECOND}, 'b', null, 1, 9), (7, {SECOND}, 'b', null, 1, 10)"
)


def test_counts_of_a_day_change_by_the_units_that_come_and_go() -> None:
    first_days = (
        f"(1, {FIRST}), (2, {FIRST}), (3, {FIRST}), (4, {FIRST}), (5, {SECOND}), (6, {SECOND}),"
        f"(7, {SECOND})"
    )
    assert rows_of(
        "store/moved_days",
        moved_day=f"{MOVED_DAY}: {MOVED}",
        seen_units=f"unit_id, first_day: {first_days}",
    ) == {
        ("2027-03-01", "2", "1", str(3 - 5 + 7 + 8)),
        ("2027-03-02", "-1", "-2", str(4 - 9 - 10)),
    }


def test_moved_units_are_taken_from_where_they_were_counted_and_added_where_they_are() -> None:
    assert rows_of("store/moved_from", moved_day=f"{MOVED_DAY}: {MOVED}") == {
        ("a", "2027-03-01", "1", "5"),
        ("a", "2027-03-01", "1", "6"),
        ("b", "2027-03-02", "1", "9"),
        ("b", "2027-03-02", "1", "10"),
    }
    assert rows_of("store/moved_to", moved_day=f"{MOVED_DAY}: {MOVED}") == {
        ("2027-03-01", "a", "1", "3"),
        ("2027-03-02", "a", "1", "4"),
        ("2027-03-01", "b", "1", "6"),
        ("2027-03-01", "b", "1", "7"),
        ("2027-03-01", "b", "1", "8"),
    }


def test_a_unit_is_nameless_if_no_row_of_its_first_moment_names_a_variant() -> None:
    cells = (
        "(1, 10, null, true), (1, 20, 'a', true), (2, 10, 'a', true), (2, 20, null, true),"
        "(3, 10, null, true), (3, 10, 'b', true), (4, 10, null, false), (4, 30, 'a', true),"
        "(5, 20, null, true), (5, 20, null, true)"
    )
    assert rows_of(
        "store/nameless_units",
        unit_cells=f"unit_id, first_ms, variant, in_period: {cells}",
        seen_units="unit_id, first_ms: (1, 10), (2, 10), (3, 10), (4, 30), (5, 20), (6, 10)",
    ) == {("1",), ("5",)}
