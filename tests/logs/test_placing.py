"""The queries that give each unit its variant, and count units that get none, over a few rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd
import pytest

from tests.logs.small import analyze, small_log
from tests.relations import Row, answer, relation

FIRST, SECOND = "2024-03-01", "2024-03-02"


class TestFirstVariant:
    def of(self, *cells: Row) -> Sequence[Row]:
        """The first variant of units that are seen from the time 10 on, or of unknown time."""
        units = {cell[0]: 10 for cell in cells if cell[2] is not None}
        return answer(
            "units/first_variant",
            "unit_id, first_variant",
            seen_units=relation(
                "unit_id bigint, first_ms bigint, variant_low varchar, variant_high varchar",
                *((u, units.get(u), "a", "a" if u == 9 else "b") for u in {c[0] for c in cells}),
            ),
            unit_cells=relation(
                "unit_id bigint, variant varchar, first_ms bigint, in_period boolean", *cells
            ),
        )

    def test_is_that_of_the_first_time(self) -> None:
        assert self.of((1, "b", 10, True), (1, "a", 11, True)) == [(1, "b")]

    def test_is_unknown_where_the_first_times_are_equal(self) -> None:
        assert self.of((1, "b", 10, True), (1, "a", 10, True)) == [(1, None)]

    def test_is_unknown_where_a_time_is_missing(self) -> None:
        assert self.of((1, "b", 10, True), (1, "a", None, True)) == [(1, None)]
        assert self.of((1, "b", None, True), (1, "a", None, True)) == [(1, None)]
        assert self.of((1, "b", 10, True), (1, "b", None, True), (1, "a", 20, True)) == [(1, "b")]

    def test_is_unknown_where_the_first_row_names_none(self) -> None:
        cells: list[Row] = [(1, "b", 10, True), (1, None, 10, True), (1, "a", 20, True)]
        assert self.of(*cells) == [(1, None)]

    def test_does_not_follow_from_what_was_before_the_period(self) -> None:
        assert self.of((1, "a", 10, False), (1, "b", 10, True), (1, "a", 12, True)) == [(1, "b")]

    def test_is_asked_only_of_units_in_several_variants(self) -> None:
        assert self.of((9, "a", 10, True)) == []


SEEN = relation(
    "unit_id bigint, first_ms bigint, variant_low varchar, variant_high varchar",
    *((1, 10, "a", "b"), (2, 20, "a", "a"), (3, 30, "b", "b")),
)
FIRSTS = relation("unit_id bigint, first_variant varchar", (1, "b"))


def test_without_exposures_every_active_unit_may_be_analysed() -> None:
    columns = "unit_id, first_ms, variant_low, variant_high, first_variant"
    active = answer("units/active_units", columns, seen_units=SEEN, first_variant=FIRSTS)
    assert active == [(1, 10, "a", "b", "b"), (2, 20, "a", "a", None), (3, 30, "b", "b", None)]


def test_exposures_name_the_variants_or_else_the_impressions_do() -> None:
    exposed = answer(
        "units/exposed_units",
        "unit_id, first_ms, variant_low, variant_high, first_variant",
        exposed=relation(
            "unit_id varchar, first_ms bigint, variant_low varchar, variant_high varchar, "
            "first_variant varchar",
            ("u1", 1, None, None, None),
            ("u2", 2, "a", "b", "a"),
            ("u4", 4, None, None, None),
            ("u5", 5, "b", "b", "b"),
        ),
        unit_names=relation(
            "unit_id bigint, logged_id varchar", *((n, f"u{n}") for n in (1, 2, 3, 4, 5))
        ),
        seen_units=SEEN,
        first_variant=relation("unit_id bigint, first_variant varchar", (1, "b"), (2, "b")),
    )
    assert exposed == [
        *((1, 1, "a", "b", "b"), (2, 2, "a", "b", "a")),
        *((4, 4, None, None, None), (5, 5, "b", "b", "b")),
    ]


HASHED = relation(
    "unit_id bigint, first_ms bigint, sub_bucket bigint, slot bigint, variant_low varchar, "
    "variant_high varchar, first_variant varchar",
    (1, 10, 0, 0, "a", "a", None),
    (2, 20, 1, 49, "a", "b", "b"),
    (3, 30, 2, 50, "a", "b", None),
    (4, 40, 3, 99, None, None, None),
    (5, 50, 4, 100, "a", "b", None),
    (6, 60, 5, 49, "a", "b", None),
)
ALLOCATION = relation(
    "variant varchar, first_slot bigint, end_slot bigint", ("a", 0, 50), ("b", 50, 100)
)
EXPECTED = relation(
    "unit_id bigint, expected varchar", *((1, "b"), (2, "a"), (3, None), (4, "a"), (5, "b"))
)
PLACED = "unit_id, first_ms, sub_bucket, variant, crossover, tied"


def test_a_variant_owns_its_slots_but_for_the_end() -> None:
    placed = answer("units/placed_by_hash", PLACED, hashed_units=HASHED, allocation=ALLOCATION)
    assert placed == [
        (1, 10, 0, "a", False, False),
        (2, 20, 1, "a", True, False),
        (3, 30, 2, "b", True, False),
        (4, 40, 3, "b", False, False),
        (6, 60, 5, "a", True, False),
    ]


def test_a_rule_places_a_unit_whatever_the_log_shows() -> None:
    placed = answer("units/placed_by_rule", PLACED, hashed_units=HASHED, expected_units=EXPECTED)
    assert placed == [
        (1, 10, 0, "b", False, False),
        (2, 20, 1, "a", True, False),
        (3, 30, 2, None, True, False),
        (4, 40, 3, "a", False, False),
        (5, 50, 4, "b", True, False),
    ]


def test_the_log_places_a_unit_in_the_variant_seen_first() -> None:
    ties = relation("unit_id bigint, variant varchar", (2, "a"), (3, "b"), (1, "b"))
    placed = answer("units/placed_by_log", PLACED, hashed_units=HASHED, tie_variants=ties)
    assert placed == [
        (1, 10, 0, "a", False, False),
        (2, 20, 1, "b", True, False),
        (3, 30, 2, "b", True, True),
        (4, 40, 3, None, False, False),
        (5, 50, 4, None, True, True),
        (6, 60, 5, None, True, True),
    ]


def test_only_a_tie_is_broken_by_weight_by_the_rule_or_by_nothing() -> None:
    columns, hashed = "unit_id, variant", HASHED
    by_weight = answer("units/tied_by_weight", columns, hashed_units=hashed, allocation=ALLOCATION)
    assert by_weight == [(3, "b"), (6, "a")]
    by_rule = answer("units/tied_by_rule", columns, hashed_units=hashed, expected_units=EXPECTED)
    assert by_rule == [(3, None), (5, "b")]
    assert answer("units/tied_by_none", columns, hashed_units=hashed) == []


@pytest.mark.parametrize("excludes", [False, True])
def test_a_candidate_is_set_aside_for_one_reason(excludes: bool) -> None:
    placed: list[Row] = [
        (1, 10, "a", False, False, 0),
        (2, 20, "a", True, False, 1),
        (3, 30, None, True, True, 2),
        (4, 40, "c", False, False, 3),
        (5, 50, None, False, False, 4),
        (6, 60, "b", True, True, 5),
    ]
    columns = (
        "unit_id bigint, first_ms bigint, variant varchar, crossover boolean, tied boolean, "
        "sub_bucket bigint"
    )
    candidates = answer(
        "units/candidates",
        "unit_id, first_ms, variant, crossover, tied, sub_bucket, set_aside",
        placed_units=relation(columns, *placed),
        variants=relation("variant varchar", ("a",), ("b",)),
        crossover_policy=relation("excludes boolean", (excludes,)),
    )
    crossed = "crossover" if excludes else None
    reasons = [None, crossed, crossed or "tied_crossover", "no_variant", "no_variant", crossed]
    assert candidates == [(*row, reason) for row, reason in zip(placed, reasons, strict=True)]


CANDIDATES = relation(
    "unit_id bigint, variant varchar, crossover boolean, tied boolean, set_aside varchar",
    (1, "a", False, False, None),
    (2, "b", True, True, None),
    (3, None, True, True, "tied_crossover"),
    (4, "c", False, False, "no_variant"),
    (5, None, False, False, "no_variant"),
    (6, "d", True, False, "no_variant"),
)


def test_crossovers_and_ties_are_counted() -> None:
    counts = answer("units/crossovers", "units, crossovers, tied, tied_out", candidates=CANDIDATES)
    assert counts == [(6, 3, 2, 1)]


ASIDE = relation(
    "unit_id bigint, in_period boolean, day date, c_1 bigint",
    *((1, True, FIRST, 1), (3, True, FIRST, 2), (3, True, SECOND, 4), (3, False, FIRST, 8)),
    *((4, True, FIRST, 16), (4, True, SECOND, 32), (5, True, FIRST, 64), (6, True, FIRST, 128)),
    *((6, False, FIRST, 256), (9, True, FIRST, 512)),
)


def test_units_that_are_not_analysed_are_counted_by_reason_and_phase() -> None:
    reasons = answer(
        "units/set_aside_units",
        "reason, in_period, units, impressions",
        unit_day=ASIDE,
        candidates=CANDIDATES,
    )
    assert reasons == [
        ("no_variant", False, 1, 256),
        ("no_variant", True, 3, 16 + 32 + 64 + 128),
        ("not_in_experiment", True, 1, 512),
        ("tied_crossover", False, 1, 8),
        ("tied_crossover", True, 1, 6),
    ]


def test_variants_that_nobody_names_are_counted_by_impressions() -> None:
    cells = relation(
        "variant varchar, c_1 bigint, set_aside varchar",
        *(("d", 3, "not_compared"), ("e", 5, "not_compared"), ("e", 7, "not_compared")),
        *(("a", 9, None), (None, 2, "not_compared"), ("f", 9, "null_unit")),
    )
    columns = "variant, impressions"
    others = answer(
        "units/other_variants",
        columns,
        logged_cells=cells,
        unit_day=ASIDE,
        candidates=CANDIDATES,
    )
    assert others == [("c", 48), ("d", 131), ("e", 12)]


def test_the_variants_that_nobody_names_are_shown_with_the_most_impressions_first() -> None:
    arms = [variant for arm in range(12) for variant in [f"arm {arm:02}"] * (arm + 1)]
    log = pd.concat([small_log(), small_log(len(arms)).assign(variant=arms)], ignore_index=True)
    result = analyze(log, cleaning={"duplicates": "unchecked"})
    (note,) = (note for note in result.notes if "not compared" in note)
    assert re.findall(r"arm \d\d", note)[:3] == ["arm 11", "arm 10", "arm 09"]


def test_units_are_counted_by_day_and_by_logged_and_expected_variant() -> None:
    counts = answer(
        "units/expected_variants",
        "day, logged, expected, units",
        hashed_units=HASHED,
        variants=relation("variant varchar", ("a",), ("b",), ("c",)),
        expected_units=relation(
            "unit_id bigint, expected varchar",
            *((unit, "a") for unit in (1, 2, 3, 4, 5)),
        ),
        seen_units=relation("unit_id bigint, first_day date", (1, FIRST), (3, FIRST)),
    )
    assert counts == [(FIRST, "a", "a", 1), (None, "b", "a", 1)]
