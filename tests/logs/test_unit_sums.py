"""The queries that sum a unit's rows and tell its days and segments, over a few rows."""

from __future__ import annotations

from tests.relations import answer, relation

FIRST, SECOND, THIRD = "2024-03-01", "2024-03-02", "2024-03-03"


class TestUnitsOfTheLog:
    CELLS = relation(
        "unit_id varchar, in_period boolean, day date, variant varchar, first_ms bigint, "
        "last_ms bigint, s_city varchar, c_1 bigint, c_10 bigint, set_aside varchar",
        ("u", True, FIRST, "a", 10, 20, "Rome", 3, 30, None),
        ("u", True, FIRST, "a", 5, 15, "Oslo", 4, 40, "null_time"),
        ("v", False, FIRST, "b", 1, 2, "Rome", 5, 50, None),
        ("w", True, FIRST, None, 1, 2, "Rome", 6, 60, "null_variant"),
    )

    def test_are_those_with_a_row_that_counts(self) -> None:
        assert answer("units/logged_units", "logged_id", logged_cells=self.CELLS) == [
            ("u",),
            ("v",),
        ]

    def test_or_that_were_exposed(self) -> None:
        exposed = relation("unit_id varchar", ("v",), ("x",))
        units = answer(
            "units/logged_and_exposed_units", "logged_id", logged_cells=self.CELLS, exposed=exposed
        )
        assert units == [("u",), ("v",), ("x",)]

    def test_get_numbers_in_the_order_of_their_names(self) -> None:
        units = relation("logged_id varchar", ("v",), ("x",), ("u",))
        names = answer("units/unit_names", "unit_id, logged_id", known_units=units)
        assert names == [(1, "u"), (2, "v"), (3, "x")]

    def test_have_cells_of_rows_that_count_under_their_number(self) -> None:
        cells = answer(
            "units/unit_cells",
            "unit_id, in_period, variant, first_ms, s_city, c_1, c_10",
            logged_cells=self.CELLS,
            unit_names=relation("unit_id bigint, logged_id varchar", (1, "u"), (2, "v")),
        )
        assert cells == [(1, True, "a", 10, "Rome", 3, 30), (2, False, "b", 1, "Rome", 5, 50)]

    def test_are_named_as_logged_where_they_are_analysed(self) -> None:
        names = relation("unit_id bigint, logged_id varchar", (1, "u"), (2, "v"))
        analysed = relation("unit_id bigint", (2,), (3,))
        assert answer(
            "units/analysed_names", "unit_id, logged_id", unit_names=names, units=analysed
        ) == [(2, "v")]


LOGGED = (
    "unit_id varchar, phase integer, day date, variant varchar, is_exposed boolean, "
    "s_city varchar, time_ms bigint, c_1 bigint, c_0 bigint"
)


def test_rows_of_a_unit_and_day_are_one_with_their_first_and_last_time() -> None:
    key = ("u", 3, FIRST, "a", True)
    logged = relation(
        LOGGED,
        (*key, "Rome", 20, 1, 5),
        (*key, "Rome", 10, 1, 6),
        (*key, "Rome", 15, 1, 7),
        (*key, "Oslo", 12, 1, 8),
    )
    sums = answer(
        "units/logged_sums",
        "unit_id, phase, variant, s_city, first_ms, last_ms, c_1, c_0",
        logged=logged,
    )
    assert sums == [("u", 3, "a", "Oslo", 12, 12, 1, 8), ("u", 3, "a", "Rome", 10, 20, 3, 18)]


def test_a_row_of_a_table_stays_a_row() -> None:
    logged = relation(LOGGED, ("u", 3, FIRST, "a", True, "Rome", 20, 1, 5))
    columns = "unit_id, variant, first_ms, last_ms, c_1, c_0"
    assert answer("units/logged_rows", columns, logged=logged) == [("u", "a", 20, 20, 1, 5)]


CELLS = (
    "unit_id bigint, in_period boolean, day date, first_ms bigint, last_ms bigint, "
    "variant varchar, c_1 bigint, c_0 bigint"
)


def test_a_day_of_a_unit_joins_its_variants_and_segments() -> None:
    cells = relation(
        CELLS,
        (1, True, FIRST, 30, 40, "a", 1, 10),
        (1, True, FIRST, 20, 35, "b", 2, 20),
        (1, True, FIRST, 25, 50, "c", 4, 40),
        (1, True, SECOND, 60, 60, "b", 8, 80),
        (1, False, FIRST, 1, 2, "a", 16, 160),
    )
    columns = (
        "unit_id, in_period, cast(day as varchar), first_ms, last_ms, variant_low, variant_high, "
        "c_days, c_1, c_0"
    )
    assert answer("units/unit_day", columns, unit_cells=cells) == [
        (1, False, FIRST, 1, 2, "a", "a", 1, 16, 160),
        (1, True, FIRST, 20, 50, "a", "c", 1, 7, 70),
        (1, True, SECOND, 60, 60, "b", "b", 1, 8, 80),
    ]


def test_a_row_of_a_table_of_units_is_of_no_day() -> None:
    cells = relation(CELLS, (1, True, None, None, None, "a", 1, 10))
    columns = "unit_id, in_period, day, variant_low, variant_high, c_days, c_1, c_0"
    rows = [(1, True, None, "a", "a", 0, 1, 10)]
    assert answer("units/unit_row", columns, unit_cells=cells) == rows
    assert answer("units/unit_day", columns, unit_cells=cells) == rows


DAYS = (
    "unit_id bigint, in_period boolean, day date, first_ms bigint, last_ms bigint, "
    "variant_low varchar, variant_high varchar, c_1 bigint"
)
UNIT_DAY = relation(
    DAYS,
    (1, True, SECOND, 30, 45, "b", "b", 1),
    (1, True, FIRST, 10, 20, "a", "b", 2),
    (1, False, FIRST, 1, 2, "c", "c", 4),
    (2, True, SECOND, 25, 60, "c", "d", 8),
    (2, True, THIRD, 70, 80, "a", "a", 16),
    (3, False, FIRST, 3, 4, "a", "a", 32),
    (4, True, SECOND, 12, 90, "a", "a", 64),
    (4, True, None, 5, 6, "a", "a", 128),
    (4, True, "2024-03-04", 92, 94, "a", "a", 512),
    (6, True, SECOND, 50, 55, "a", "a", 256),
)


def test_a_unit_is_seen_from_its_first_impression_of_the_period() -> None:
    columns = "unit_id, first_ms, cast(first_day as varchar), variant_low, variant_high"
    assert answer("units/seen_units", columns, unit_day=UNIT_DAY) == [
        (1, 10, FIRST, "a", "b"),
        (2, 25, SECOND, "a", "d"),
        (4, 5, SECOND, "a", "a"),
        (6, 50, SECOND, "a", "a"),
    ]


def test_a_day_with_analysed_units_counts_them_and_the_new_ones_among_them() -> None:
    days = answer(
        "units/days",
        "day, units, new_units, impressions, first_ms, last_ms",
        unit_day=UNIT_DAY,
        units=relation("unit_id bigint", (1,), (2,), (6,)),
        seen_units=relation(
            "unit_id bigint, first_day date",
            *((1, FIRST), (2, SECOND), (4, SECOND), (6, SECOND), (9, FIRST)),
        ),
    )
    assert days == [
        (FIRST, 1, 1, 2, 10, 20),
        (SECOND, 3, 2, 265, 12, 90),
        (THIRD, 1, 0, 16, 70, 80),
    ]


def test_a_unit_is_new_where_it_was_not_seen_before_the_period() -> None:
    stretched = (
        "unit_id bigint, first_ms bigint, variant varchar, crossover boolean, sub_bucket bigint, "
        "stretch bigint, set_aside varchar"
    )
    candidates = relation(
        stretched,
        (1, 10, "a", True, 7, 0, None),
        (2, 25, "b", False, 8, 1, None),
        (3, 3, "a", False, 9, 0, "no_variant"),
        (4, 5, "a", False, 9, 0, None),
    )
    columns = "unit_id, first_ms, variant, crossover, sub_bucket, stretch, is_new"
    units = [
        (1, 10, "a", True, 7, 0, 0),
        (2, 25, "b", False, 8, 1, 1),
        (4, 5, "a", False, 9, 0, 1),
    ]
    assert answer("units/units", columns, stretched=candidates, unit_day=UNIT_DAY) == units
    segmented = answer(
        "units/segmented_units",
        f"{columns}, s_city",
        stretched=candidates,
        unit_day=UNIT_DAY,
        first_segments=relation(
            "unit_id bigint, s_city varchar", (1, "Rome"), (2, None), (3, "Bern"), (5, "Cork")
        ),
    )
    cities = ("Rome", "", "")
    assert segmented == [(*unit, city) for unit, city in zip(units, cities, strict=True)]


def test_a_unit_without_a_row_in_the_table_of_units_has_empty_values() -> None:
    units = answer(
        "units/described_units",
        "unit_id, first_ms, variant, crossover, sub_bucket, stretch, is_new, s_city, u_age",
        listed_units=relation(
            "unit_id bigint, first_ms bigint, variant varchar, crossover boolean, "
            "sub_bucket bigint, stretch bigint, is_new integer",
            *((unit, 10, "a", False, 7, 0, 1) for unit in (1, 2, 3, 4)),
        ),
        described_rows=relation(
            "known_unit_id bigint, s_city varchar, u_age bigint, set_aside varchar",
            *((1, "Rome", 30, None), (2, None, None, None), (3, "Oslo", 40, "repeated_key")),
            *((5, "Bern", 50, None), (6, "Bern", 50, "repeated_key")),
        ),
    )
    unit = (10, "a", False, 7, 0, 1)
    assert units == [(1, *unit, "Rome", 30), *((n, *unit, "", 0) for n in (2, 3, 4))]


class TestSegments:
    CELLS = relation(
        "unit_id bigint, in_period boolean, first_ms bigint, last_ms bigint, s_city varchar",
        *((1, True, 10, 20, "Rome"), (1, True, 10, 15, "Oslo"), (1, True, 11, 30, "Bern")),
        *((1, False, 3, 7, "Cork"), (1, False, 4, 8, "Nice"), (1, False, 5, 8, "Metz")),
        *((1, False, 10, 6, "Bari"), (2, True, None, None, "Pisa"), (2, True, None, None, "Lodi")),
        *((3, False, 5, 9, "Rome"), (3, True, 6, 8, "Asti"), (4, True, 9, 20, "Como")),
    )

    def test_of_a_unit_are_those_of_its_first_impression(self) -> None:
        seen = relation("unit_id bigint, first_ms bigint", (1, 10), (2, None), (3, 6))
        cities = answer(
            "units/first_segments", "unit_id, s_city", seen_units=seen, unit_cells=self.CELLS
        )
        assert cities == [(1, "Oslo"), (2, "Lodi"), (3, "Asti")]

    def test_from_before_are_those_of_its_last_impression_then(self) -> None:
        cities = answer("units/earlier_segments", "unit_id, s_city", unit_cells=self.CELLS)
        assert cities == [(1, "Metz"), (3, "Rome")]

    def test_of_exposures_are_those_of_the_first_one(self) -> None:
        cities = answer(
            "units/exposure_segments",
            "unit_id, s_city",
            exposures=relation(
                "unit_id varchar, time_ms bigint, s_city varchar",
                *(("u", 10, "Rome"), ("u", 10, "Oslo"), ("u", 12, "Bern")),
                *(("v", None, "Pisa"), ("v", None, "Lodi"), ("w", 10, "Como")),
            ),
            exposed=relation("unit_id varchar, first_ms bigint", ("u", 10), ("v", None), ("w", 10)),
            unit_names=relation("unit_id bigint, logged_id varchar", (1, "u"), (2, "v")),
        )
        assert cities == [(1, "Oslo"), (2, "Lodi")]
