"""The queries of time, each on a few rows whose answer can be read off."""

from __future__ import annotations

from datetime import date

from tests.relations import Row, answer, relation

FIRST, SECOND, THIRD, FOURTH = (date(2027, 3, day) for day in (1, 2, 3, 4))


def test_a_unit_that_is_shown_an_item_twice_in_a_window_reaches_it_once() -> None:
    rows = relation(
        "variant, item_id, item_group, previous_day, day, units, impressions",
        # The day before lies before the window, or there is none: the units are new to it.
        *(("a", 5, 0, FIRST, SECOND, 10, 11), ("a", 5, 0, None, THIRD, 20, 22)),
        # The day before lies in the window.
        ("a", 5, 0, SECOND, THIRD, 40, 44),
        # Beyond the window, another group, another variant.
        *(("a", 5, 0, None, FIRST, 80, 88), ("a", 5, 0, None, FOURTH, 160, 166)),
        *(("a", 5, 1, FIRST, THIRD, 3, 4), ("b", 5, 0, FIRST, THIRD, 5, 6)),
        # Seen on the day before alone: units that reach nothing anew.
        ("b", 6, 0, SECOND, THIRD, 7, 9),
    )
    cut = relation("first_day, last_day", (SECOND, THIRD))
    assert answer("time/cut_reach", shown_day=rows, cut=cut).as_set() == {
        ("a", 5, 0, 30, 77),
        ("a", 5, 1, 3, 4),
        ("b", 5, 0, 5, 6),
        ("b", 6, 0, 0, 9),
    }


def test_a_window_has_the_units_that_are_chosen() -> None:
    units = "unit_id, first_ms, variant, crossover, sub_bucket, stretch, is_new, s_device, u_age, o"
    listed: list[Row] = [(unit, 0, "a", False, 3, 0, True, "tv", 8, 1) for unit in range(1, 8)]
    chosen = relation("chosen_unit_id", (2,), (6,))
    rows = answer("time/cut_units", units=relation(units, *listed), chosen_unit=chosen)
    assert rows.columns == units.replace(", o", "").split(", ")
    assert {unit for (unit,) in rows.by_key("unit_id")} == {2, 6}


def test_gauc_of_a_day_pairs_clicks_of_a_unit_with_its_own_impressions_of_that_day() -> None:
    few = relation(
        "unit_id, day, score, click",
        *((1, FIRST, 0.9, 1), (1, FIRST, 0.5, 0), (1, FIRST, 0.9, 0), (1, FIRST, 0.1, 1)),
        *((1, SECOND, 0.2, 1), (1, SECOND, 0.8, 0), (2, FIRST, 0.7, 1), (2, FIRST, 0.6, 0)),
        # One class only.
        *((3, FIRST, 0.3, 0), (3, SECOND, 0.4, 1), (3, SECOND, 0.5, 1)),
    )
    rows = answer("time/gauc_day", scored_day=few).as_set()
    # Of four pairs one is won, one tied and two are lost.
    assert rows == {
        (1, True, FIRST, 4, 1.5e9),
        (1, True, SECOND, 2, 0),
        (2, True, FIRST, 2, 2e9),
    }


def test_gauc_of_a_day_of_many_pairs_counts_those_of_the_unit_and_the_day_alone() -> None:
    # 40 clicks at 2, of 60 others 30 below, 20 at 2 and 10 above; the other days have all below.
    first = [2] * 40 + [1] * 30 + [2] * 20 + [3] * 10
    other = [2] * 40 + [1] * 60
    days = [day for day in (FIRST, SECOND, THIRD) for _ in range(100)]
    clicks = ([1] * 40 + [0] * 60) * 3
    many = [*zip(days, [*first, *other, *other], clicks, strict=True)]
    log: list[Row] = [(1, *row) for row in many]
    log += [(2, day, -score, click) for day, score, click in many]
    scored = relation("unit_id, day, score, click", *log)
    rows = answer("time/gauc_day", scored_day=scored).by_key("unit_id day")
    won = (30 + 20 / 2) / 60
    assert {(*key, round(row["c_weighted_auc"] / 1e9, 6)) for key, row in rows.items()} == {
        (1, FIRST, round(100 * won, 6)),
        (1, SECOND, 100),
        (1, THIRD, 100),
        (2, FIRST, round(100 * (1 - won), 6)),
        (2, SECOND, 0),
        (2, THIRD, 0),
    }


def test_who_was_shown_what_is_counted_by_the_day_before() -> None:
    rows = relation(
        "unit_id, item_id, in_period, day",
        *((1, 5, True, FIRST), (1, 5, True, FIRST), (1, 5, True, SECOND)),
        *((2, 5, True, FIRST), (3, 5, True, FIRST), (1, 6, True, SECOND)),
        # No row of the period, of an item and of a day; no analysed unit.
        *((1, 5, False, THIRD), (1, None, True, FIRST), (1, 5, True, None)),
        (9, 5, True, FIRST),
    )
    assert answer(
        "time/shown_day",
        logged_impressions=rows,
        units=relation("unit_id, variant, sub_bucket", (1, "a", 13), (2, "a", 23), (3, "a", 14)),
        experiment=relation("item_groups", (10,)),
    ).as_set() == {
        ("a", 5, 3, None, FIRST, 2, 3),
        ("a", 5, 3, FIRST, SECOND, 1, 1),
        ("a", 5, 4, None, FIRST, 1, 1),
        ("a", 6, 3, None, SECOND, 1, 1),
    }
