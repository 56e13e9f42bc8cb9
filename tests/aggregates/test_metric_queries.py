"""The queries of sums of units, of cuts, quantiles, caps and the catalogue, over a few rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from tests.relations import Row, answer, relation

UNIT_ROWS: list[Row] = [
    (1, "a", 0, 10, 0),
    (2, "b", 0, 11, 1),
    (3, "a", 1, 12, 0),
    (5, "b", 1, 30, 1),
]
UNITS = relation(
    "unit_id bigint, variant varchar, stretch bigint, sub_bucket bigint, is_new bigint",
    *UNIT_ROWS,
)


def test_rows_of_a_log_count_once_their_unit_was_in_the_experiment() -> None:
    events = answer(
        "3_rows/impression_events",
        "unit_id, in_period, time_ms, since_ms, age, v_1",
        impressions=relation(
            "unit_id bigint, in_period boolean, day date, time_ms bigint, v_1 bigint",
            (1, True, "2024-03-03", 700, 9),
            (1, False, "2024-02-28", 100, 8),
            (2, True, None, None, 7),
        ),
        unit_entry=relation(
            "unit_id bigint, first_ms bigint, entry_day date", (1, 400, "2024-03-01")
        ),
    )
    assert events == [(1, False, 100, -300, -2, 8), (1, True, 700, 300, 2, 9)]


def test_rows_of_a_unit_are_added_up_as_their_names_say() -> None:
    sums = answer(
        "4_metrics/unit_events",
        "unit_id, in_period, c_1, c_2, c_3",
        unit_event=relation(
            "unit_id bigint, in_period boolean, sum_1 bigint, max_2 bigint, distinct_3 varchar",
            *((1, True, 4, 4, "x"), (1, True, 5, 9, "x"), (1, True, None, 2, "y")),
            *((1, True, 1, None, None), (1, False, 2, 3, "z"), (2, True, None, None, None)),
        ),
    )
    assert sums == [(1, False, 2, 3, 1), (1, True, 10, 9, 2), (2, True, None, None, 0)]


def test_a_step_of_a_funnel_counts_from_the_time_of_the_step_before() -> None:
    columns = "unit_id bigint, in_period boolean, time_ms bigint"
    before: list[Row] = [(1, True, 50), (2, True, 50), (3, True, 50), (4, False, 50)]
    events: list[Row] = [
        *((1, True, 49), (1, True, 50), (1, True, 60)),
        *((2, True, 49), (3, False, 70), (4, False, 90), (4, False, 80), (5, True, 99)),
    ]
    reached = answer(
        "4_metrics/funnel_step",
        "unit_id, in_period, time_ms",
        step_before=relation(columns, *before),
        step_event=relation(columns, *events),
    )
    assert reached == [(1, True, 50), (4, False, 80)]


CUT_SUMS = relation(
    "unit_id bigint, value varchar, c_0 bigint, c_1 bigint",
    (1, "x", 1, 10),
    (1, "y", 2, 20),
    (1, "z", 4, 40),
    (2, "x", 8, 80),
    (4, "x", 16, 160),
)


def test_a_value_of_a_cut_has_the_sums_of_its_impressions() -> None:
    rows: list[Row] = [(1, "x", 1, 3), (1, "x", 1, 4), (1, "y", 1, 5), (2, "x", 1, 6)]
    cut_rows = relation("unit_id bigint, value varchar, c_0 bigint, c_1 bigint", *rows)
    expected = [(1, "x", 2, 7), (1, "y", 1, 5), (2, "x", 1, 6)]
    assert answer("4_metrics/cut_sums", "unit_id, value, c_0, c_1", cut_rows=cut_rows) == expected


def test_a_cut_counts_the_analysed_units_of_each_value() -> None:
    sizes = answer("4_metrics/cut_sizes", "value, variant, units", cut_sums=CUT_SUMS, units=UNITS)
    assert sizes == [("x", "a", 1), ("x", "b", 1), ("y", "a", 1), ("z", "a", 1)]


def test_a_unit_has_each_of_its_values_of_a_day_once() -> None:
    rows: list[Row] = [(1, 7, 5), (1, 7, 5), (1, 8, 5), (1, 7, 3), (2, None, 5), (2, None, 5)]
    values = answer(
        "4_metrics/quantile",
        "unit_id, day, value, events",
        valued=relation("unit_id bigint, day bigint, value bigint", *rows),
    )
    assert values == [(1, 7, 3, 1), (1, 7, 5, 2), (1, 8, 5, 1), (2, None, 5, 2)]


def test_units_are_counted_by_what_became_of_their_auc() -> None:
    units: list[Row] = [
        # AUC × impressions × 1e9, impressions, those left out, clicks left out.
        *(("a", 0, 4, 0, 0), ("a", 199_999_999, 4, 0, 0), ("a", 200_000_000, 4, 0, 0)),
        *(
            ("a", 4_000_000_000, 4, 0, 0),
            ("a", 1_900_000_000, 2, 0, 0),
            ("b", 500_000_000, 1, 0, 0),
        ),
        *(("a", 0, 0, 0, 0), ("a", 0, 0, 1, 0), ("a", 0, 0, 1, 1), ("a", 0, 0, 2, 0)),
        *(("a", 0, 0, 2, 0), ("a", 0, 0, 2, 2), ("a", 0, 0, 3, 3), ("b", 0, 0, 1, 1)),
    ]
    aucs = answer(
        "4_metrics/unit_aucs",
        "variant, fate, bin, units, impressions, left_out_clicks",
        gauc_unit=relation(
            "variant varchar, t_weighted_auc bigint, t_impressions bigint, "
            "t_left_out_impressions bigint, t_left_out_clicks bigint",
            *units,
        ),
    )
    assert aucs == [
        *(("a", "judged", 0, 2, 8, 0), ("a", "judged", 1, 1, 4, 0)),
        ("a", "judged", 19, 2, 6, 0),
        *(("a", "no_click", -1, 2, 4, 0), ("a", "no_score", -1, 1, 0, 0)),
        *(("a", "only_clicks", -1, 2, 5, 5), ("a", "single_impression", -1, 2, 2, 1)),
        *(("b", "judged", 10, 1, 1, 0), ("b", "single_impression", -1, 1, 1, 1)),
    ]


SHOWN_COLUMNS = "unit_group bigint, unit_id bigint, item bigint, day bigint"


def shown_rows() -> list[tuple[int, int, int, int | None]]:
    """Impressions of two groups of units on four days; some have no day."""
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, [6, 3, 5], (80, 3)).tolist()
    return [(unit % 2, unit, item, day or None) for unit, item, day in drawn]


def reached(rows: Sequence[tuple[int, int, int, int | None]]) -> list[Row]:
    """Group and item, with the units that met and how often."""
    units: dict[tuple[int, int], list[int]] = defaultdict(list)
    for group, unit, item, _ in rows:
        units[group, item].append(unit)
    return sorted((*key, len({*own}), len(own)) for key, own in units.items())


def test_an_item_reaches_the_units_that_are_shown_it() -> None:
    rows = shown_rows()
    reach = answer(
        "4_metrics/reach",
        "unit_group, item, units, impressions",
        shown_rows=relation(SHOWN_COLUMNS, *rows),
    )
    assert reach == reached(rows)


@pytest.mark.parametrize(("first", "last"), [(1, 4), (2, 3), (4, 4), (1, 1)])
def test_in_a_window_an_item_reaches_each_unit_once(first: int, last: int) -> None:
    rows = shown_rows()
    columns = "unit_group, item, day, day_before, units, impressions"
    days = answer("4_metrics/item_days", columns, shown_rows=relation(SHOWN_COLUMNS, *rows))
    kinds = ", ".join(f"{name} bigint" for name in columns.split(", "))
    reach: dict[Row, np.ndarray] = defaultdict(lambda: np.zeros(2, dtype=int))
    for day in range(first, last + 1):
        for group, item, *counts in answer(
            "4_metrics/day_reach",
            "unit_group, item, units, impressions",
            item_days=relation(kinds, *days),
            reach_day=relation("first_day bigint, day bigint", (first, day)),
        ):
            reach[group, item] += counts
    assert sorted((*key, *counts.tolist()) for key, counts in reach.items()) == reached(
        [row for row in rows if row[3] and first <= row[3] <= last]
    )
