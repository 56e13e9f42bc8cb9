"""The queries of time, each on a few rows whose answer can be read off."""

from __future__ import annotations

import pandas as pd

from tests.time.relations import answer, rows_of

FIRST, SECOND, THIRD, FOURTH = (f"date '2027-03-0{day}'" for day in (1, 2, 3, 4))
ENTRY = "unit_id, variant, entry_day"
IMPRESSIONS = "unit_id, item_id, in_period, day"


def test_sums_of_a_sub_bucket_are_over_all_of_its_units() -> None:
    rows = answer(
        "time/bucket_sums", bucket_value="sub_bucket, y, x: (7, 2, 3), (7, 5, 10), (9, 1, 4)"
    )
    assert rows.to_numpy().tolist() == [[7, 2, 7, 13, 29, 56, 109], [9, 1, 1, 4, 1, 4, 16]]


def test_products_of_large_values_do_not_overflow() -> None:
    rows = answer("time/bucket_sums", bucket_value=f"sub_bucket, y, x: (1, {10**15}, {10**12})")
    assert rows.loc[0, ["y_y", "y_x", "x_x"]].tolist() == [1e30, 1e27, 1e24]


def test_units_of_a_cell_are_counted_by_variant_and_day_of_entry() -> None:
    cells = "unit_id, variant, entry_day, day"
    rows = (
        f"(1, 'a', {FIRST}, 3), (2, 'a', {FIRST}, 3), (2, 'a', {FIRST}, 4), (3, 'a', {SECOND}, 3),"
        f"(4, 'b', {FIRST}, 3)"
    )
    assert rows_of("time/cell_units", unit_cell=f"{cells}: {rows}") == {
        ("a", "2027-03-01", "3", "2"),
        ("a", "2027-03-01", "4", "1"),
        ("a", "2027-03-02", "3", "1"),
        ("b", "2027-03-01", "3", "1"),
    }


def test_products_of_two_days_are_summed_over_units() -> None:
    pairs = "variant, entry_day, day, later_day, p_1, p_2"
    rows = (
        f"('a', {FIRST}, {FIRST}, {SECOND}, 2, 3), ('a', {FIRST}, {FIRST}, {SECOND}, 4, 5),"
        f"('a', {FIRST}, {SECOND}, {SECOND}, 6, 7), ('a', {SECOND}, {SECOND}, {SECOND}, 8, 9),"
        f"('b', {FIRST}, {FIRST}, {SECOND}, 10, 11)"
    )
    assert rows_of("time/co_moments", day_pair=f"{pairs}: {rows}") == {
        ("a", "2027-03-01", "2027-03-01", "2027-03-02", "6", "8"),
        ("a", "2027-03-01", "2027-03-02", "2027-03-02", "6", "7"),
        ("a", "2027-03-02", "2027-03-02", "2027-03-02", "8", "9"),
        ("b", "2027-03-01", "2027-03-01", "2027-03-02", "10", "11"),
    }


def test_a_unit_that_is_shown_an_item_twice_in_a_window_reaches_it_once() -> None:
    shown = "variant, item_id, item_group, previous_day, day, units, impressions"
    rows = (
        # The day before lies before the window, or there is none: the units are new to it.
        f"('a', 5, 0, {FIRST}, {SECOND}, 10, 11), ('a', 5, 0, null, {THIRD}, 20, 22),"
        # The day before lies in the window.
        f"('a', 5, 0, {SECOND}, {THIRD}, 40, 44),"
        # Beyond the window, another group, another variant.
        f"('a', 5, 0, null, {FIRST}, 80, 88), ('a', 5, 0, null, {FOURTH}, 160, 166),"
        f"('a', 5, 1, {FIRST}, {THIRD}, 3, 4), ('b', 5, 0, {FIRST}, {THIRD}, 5, 6),"
        # Seen on the day before alone: units that reach nothing anew.
        f"('b', 6, 0, {SECOND}, {THIRD}, 7, 9)"
    )
    cut = f"first_day, last_day: ({SECOND}, {THIRD})"
    assert rows_of("time/cut_reach", shown_day=f"{shown}: {rows}", cut=cut) == {
        ("a", "5", "0", "30", "77"),
        ("a", "5", "1", "3", "4"),
        ("b", "5", "0", "5", "6"),
        ("b", "6", "0", "0", "9"),
    }


def units_of_a_window(by_entry: int) -> set[str]:
    """The units of the window from the second day to the third."""
    days = (
        f"(1, true, {FIRST}), (2, true, {SECOND}), (3, true, {THIRD}), (4, true, {FOURTH}),"
        f"(5, false, {SECOND}), (2, true, {THIRD}), (9, true, {THIRD})"
    )
    entries = (
        f"(1, 'a', {FIRST}), (2, 'a', {SECOND}), (3, 'a', {THIRD}), (4, 'a', {FOURTH}),"
        f"(5, 'a', {FOURTH}), (6, 'b', {THIRD}), (7, 'b', {FOURTH})"
    )
    units = "unit_id, first_ms, variant, crossover, sub_bucket, stretch, is_new, s_device, u_age, o"
    listed = ", ".join(f"({unit}, 0, 'a', false, 3, 0, true, 'tv', 8, 1)" for unit in range(1, 8))
    rows = answer(
        "time/cut_units",
        unit_day=f"unit_id, in_period, day: {days}",
        entry=f"{ENTRY}: {entries}",
        units=f"{units}: {listed}",
        cut=f"first_day, last_day, by_entry: ({SECOND}, {THIRD}, {by_entry})",
    )
    assert [*rows.columns] == units.replace(", o", "").split(", ")
    assert rows["unit_id"].is_unique
    return {str(unit) for unit in rows["unit_id"]}


def test_a_window_has_the_units_that_are_active_in_it() -> None:
    assert units_of_a_window(by_entry=0) == {"2", "3"}


def test_a_window_by_entry_has_the_units_that_entered_by_its_end_too() -> None:
    assert units_of_a_window(by_entry=1) == {"1", "2", "3", "6"}


def test_units_that_enter_are_counted_by_variant_and_day() -> None:
    rows = f"(1, 'a', {FIRST}), (2, 'a', {FIRST}), (3, 'b', {FIRST}), (4, 'a', {SECOND})"
    assert rows_of("time/entered", entry=f"{ENTRY}: {rows}") == {
        ("a", "2027-03-01", "2"),
        ("a", "2027-03-02", "1"),
        ("b", "2027-03-01", "1"),
    }


def test_gauc_of_a_day_pairs_clicks_of_a_unit_with_its_own_impressions_of_that_day() -> None:
    few = (
        f"(1, {FIRST}, 0.9, 1), (1, {FIRST}, 0.5, 0), (1, {FIRST}, 0.9, 0), (1, {FIRST}, 0.1, 1),"
        f"(1, {SECOND}, 0.2, 1), (1, {SECOND}, 0.8, 0), (2, {FIRST}, 0.7, 1), (2, {FIRST}, 0.6, 0),"
        # One class only.
        f"(3, {FIRST}, 0.3, 0), (3, {SECOND}, 0.4, 1), (3, {SECOND}, 0.5, 1)"
    )
    rows = rows_of("time/gauc_day", scored_day=f"unit_id, day, score, click: {few}")
    # Of four pairs one is won, one tied and two are lost.
    assert rows == {
        ("1", "True", "2027-03-01", "4", str(int(1.5e9))),
        ("1", "True", "2027-03-02", "2", "0"),
        ("2", "True", "2027-03-01", "2", str(int(2e9))),
    }


def test_gauc_of_a_day_of_many_pairs_counts_those_of_the_unit_and_the_day_alone() -> None:
    # 40 clicks at 2, of 60 others 30 below, 20 at 2 and 10 above; the other days have all below.
    first = [2] * 40 + [1] * 30 + [2] * 20 + [3] * 10
    other = [2] * 40 + [1] * 60
    days = [f"2027-03-0{day}" for day in (1, 2, 3) for _ in range(100)]
    clicks = ([1] * 40 + [0] * 60) * 3
    many = pd.DataFrame({"day": days, "score": [*first, *other, *other], "click": clicks})
    log = pd.concat([many.assign(unit_id=1), many.assign(unit_id=2, score=-many["score"])])
    listed = ", ".join(
        f"({row.unit_id}, date '{row.day}', {row.score}, {row.click})" for row in log.itertuples()
    )
    rows = rows_of("time/gauc_day", scored_day=f"unit_id, day, score, click: {listed}")
    won = (30 + 20 / 2) / 60
    assert {(unit, day, round(int(sums) / 1e9, 6)) for unit, _, day, _, sums in rows} == {
        ("1", "2027-03-01", round(100 * won, 6)),
        ("1", "2027-03-02", 100),
        ("1", "2027-03-03", 100),
        ("2", "2027-03-01", round(100 * (1 - won), 6)),
        ("2", "2027-03-02", 0),
        ("2", "2027-03-03", 0),
    }


def test_returns_are_counted_by_the_active_day_before() -> None:
    days = (
        f"(1, true, {FIRST}), (1, true, {THIRD}), (1, true, {FOURTH}), (2, true, {FIRST}),"
        f"(2, true, {THIRD}), (3, true, {THIRD}), (1, false, {SECOND}),"
        f"(3, true, cast(null as date)), (4, true, {FIRST})"
    )
    entries = f"(1, 'a', {FIRST}), (2, 'a', {FIRST}), (3, 'b', {SECOND})"
    assert rows_of(
        "time/returns", unit_day=f"unit_id, in_period, day: {days}", entry=f"{ENTRY}: {entries}"
    ) == {
        ("a", "2027-03-01", "", "2027-03-01", "2"),
        ("a", "2027-03-01", "2027-03-01", "2027-03-03", "2"),
        ("a", "2027-03-01", "2027-03-03", "2027-03-04", "1"),
        ("b", "2027-03-02", "", "2027-03-03", "1"),
    }


def test_who_was_shown_what_is_counted_by_the_day_before() -> None:
    rows = (
        f"(1, 5, true, {FIRST}), (1, 5, true, {FIRST}), (1, 5, true, {SECOND}),"
        f"(2, 5, true, {FIRST}), (3, 5, true, {FIRST}), (1, 6, true, {SECOND}),"
        # No row of the period, of an item and of a day; no analysed unit.
        f"(1, 5, false, {THIRD}), (1, null, true, {FIRST}), (1, 5, true, null),"
        f"(9, 5, true, {FIRST})"
    )
    assert rows_of(
        "time/shown_day",
        logged_impressions=f"{IMPRESSIONS}: {rows}",
        units="unit_id, variant, sub_bucket: (1, 'a', 13), (2, 'a', 23), (3, 'a', 14)",
        experiment="item_groups: (10)",
    ) == {
        ("a", "5", "3", "", "2027-03-01", "2", "3"),
        ("a", "5", "3", "2027-03-01", "2027-03-02", "1", "1"),
        ("a", "5", "4", "", "2027-03-01", "1", "1"),
        ("a", "6", "3", "", "2027-03-02", "1", "1"),
    }


def test_sums_of_an_hour_are_over_all_days_of_a_unit() -> None:
    counted = ", ".join(f"c_{number}" for number in (1, 2, 10))
    rows = (
        "(1, true, timestamp '2027-03-01 07:10:00', 1, 2, 3),"
        "(1, true, timestamp '2027-03-02 07:50:00', 1, 4, 5),"
        "(1, true, timestamp '2027-03-02 23:00:00', 1, 6, 7),"
        "(2, true, timestamp '2027-03-01 07:10:00', 1, 8, 9),"
        # Before the period, without a time, of a unit that is not analysed.
        "(1, false, timestamp '2027-02-28 07:10:00', 1, 2, 3), (1, true, null, 1, 2, 3),"
        "(3, true, timestamp '2027-03-01 07:10:00', 1, 2, 3)"
    )
    assert rows_of(
        "time/unit_hour",
        logged_impressions=f"unit_id, in_period, ts, {counted}: {rows}",
        entry=f"{ENTRY}: (1, 'a', {FIRST}), (2, 'b', {SECOND})",
    ) == {
        ("1", "a", "2027-03-01", "7", "2", "6", "8"),
        ("1", "a", "2027-03-01", "23", "1", "6", "7"),
        ("2", "b", "2027-03-02", "7", "1", "8", "9"),
    }


def test_sums_of_a_weekday_are_over_all_weeks_of_a_unit() -> None:
    days = "unit_id, variant, entry_day, day, c_days, c_1"
    rows = (
        f"(1, 'a', {FIRST}, {FIRST}, 1, 2), (1, 'a', {FIRST}, date '2027-03-08', 1, 5),"
        f"(1, 'a', {FIRST}, {SECOND}, 1, 7), (2, 'b', {SECOND}, {SECOND}, 1, 11)"
    )
    weekdays = f"date, weekday: ({FIRST}, 1), ({SECOND}, 2), (date '2027-03-08', 1)"
    assert rows_of("time/unit_weekday", placed_day=f"{days}: {rows}", weekday_of=weekdays) == {
        ("1", "a", "2027-03-01", "1", "2", "7"),
        ("1", "a", "2027-03-01", "2", "1", "7"),
        ("2", "b", "2027-03-02", "2", "1", "11"),
    }


def test_values_of_units_are_in_the_order_of_values() -> None:
    values = "y, x, y0, x0, is_new: (2, 1, 0, 0, 1), (1, 3, 0, 0, 0), (1, 2, 9, 9, 0)"
    rows = answer("time/unit_values", bucket_value=values)
    assert rows.to_numpy().tolist() == [[1, 2, 9, 9, 0], [1, 3, 0, 0, 0], [2, 1, 0, 0, 1]]
