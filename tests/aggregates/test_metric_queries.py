"""The queries of sums of units, of cuts, quantiles, caps and the catalogue, over a few rows."""

from __future__ import annotations

from collections import Counter

import numpy as np

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
        "units/impression_events",
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
        "units/unit_events",
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
        "units/funnel_step",
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
    assert answer("units/cut_sums", "unit_id, value, c_0, c_1", cut_rows=cut_rows) == expected


def test_a_cut_counts_the_analysed_units_of_each_value() -> None:
    sizes = answer("units/cut_sizes", "value, variant, units", cut_sums=CUT_SUMS, units=UNITS)
    assert sizes == [("x", "a", 1), ("x", "b", 1), ("y", "a", 1), ("z", "a", 1)]


VALUES = {"a": [3, 3, 5, 9, 9, 9], "b": [5, 7]}
LEVELS = [
    ("a", 3, 2, 2, 5, 5),
    ("a", 5, 1, 5, 9, 9),
    ("a", 9, 3, 9, None, None),
    ("b", 5, 1, 1, 7, 3),
    ("b", 7, 1, 3, None, None),
]
LEVEL = "variant varchar, value bigint, events bigint, middle bigint, next_value bigint, "
LEVEL += "next_middle bigint"


def test_the_middle_of_a_value_counts_smaller_ones_twice() -> None:
    events = [(variant, value) for variant, own in VALUES.items() for value in own]
    levels = answer(
        "metric/quantile_levels",
        "variant, value, events, middle, next_value, next_middle",
        quantile_event=relation("variant varchar, value bigint", *events),
    )
    assert levels == LEVELS


def test_a_unit_counts_its_values_below_a_quantile_in_parts() -> None:
    events = [
        *(("a", 1, value) for value in (2, 3, 4, 5, 6)),
        *(("a", 3, value) for value in (5, 5, 9)),
        *(("b", 2, value) for value in (2, 3)),
    ]
    below = answer(
        "units/quantile_below",
        "unit_id, variant, stretch, number, t_below, t_events",
        units=UNITS,
        quantile_event=relation("variant varchar, unit_id bigint, value bigint", *events),
        quantile_step=relation(
            "step_variant varchar, number bigint, lower bigint, upper bigint, whole bigint, "
            "at_lower bigint, at_upper bigint",
            ("a", 0, 3, 5, 100, 70, 20),
            ("a", 1, 5, 6, 100, 60, 30),
            ("b", 0, 2, 3, 100, 80, 10),
        ),
    )
    assert below == [
        (1, "a", 0, "0", 100 + 70 + 20, 5),
        (1, "a", 0, "1", 300 + 60 + 30, 5),
        (2, "b", 0, "0", 80 + 10, 2),
        (3, "a", 1, "0", 40, 3),
        (3, "a", 1, "1", 120, 3),
        (5, "b", 1, "0", 0, 0),
    ]


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
        "metric/unit_aucs",
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


def test_units_fall_into_groups_by_their_sub_bucket() -> None:
    groups = answer(
        "catalogue/group_units",
        "variant, item_group, units",
        units=UNITS,
        experiment=relation("item_groups bigint", (4,)),
    )
    assert groups == [("a", 0, 1), ("a", 2, 1), ("b", 2, 1), ("b", 3, 1)]


def test_an_item_reaches_the_units_that_are_shown_it_in_the_period() -> None:
    rng = np.random.default_rng(3)
    shown: list[Row] = [
        (int(rng.integers(1, 6)), [None, "i", "j"][rng.integers(3)], bool(rng.random() < 0.6))
        for _ in range(60)
    ]
    placed = {row[0]: (str(row[1]), int(str(row[3])) % 2) for row in UNIT_ROWS}
    often = Counter(
        (*placed[unit], item, unit) for unit, item, now in shown if now and item and unit in placed
    )
    expected = {key[:3]: [0, 0] for key in often}
    for key, impressions in often.items():
        expected[key[:3]][0] += 1
        expected[key[:3]][1] += impressions
    reach = answer(
        "catalogue/reach",
        "variant, item_group, item_id, units, impressions",
        units=UNITS,
        experiment=relation("item_groups bigint", (2,)),
        impressions=relation("unit_id bigint, item_id varchar, in_period boolean", *shown),
    )
    assert reach == sorted((*key, *values) for key, values in expected.items())
