"""Values of units, from a few days of them: totals, days, caps, sub-buckets, extremes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from abeval.aggregates.source_values import SourceValues, sum_days_by_unit, sum_metrics_by_day
from abeval.assignment import SUB_BUCKETS
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.experiment.model import Experiment
from abeval.logs.mapping import map_columns
from abeval.logs.shape import build_schema
from abeval.logs.unit_arrays import NO_DAY, UnitDays, Units
from abeval.metrics.definition import Metric
from tests.logs.cells import plan
from tests.relations import Row as Values


def experiment(cap: float | None = None) -> Experiment:
    """Impressions and a column `y`; the metric `y` may be capped."""
    capped = {} if cap is None else {"cap": cap}
    return plan(
        metrics=[
            {"name": "y", "value": "y", "resolution": 1, **capped},
            {"name": "rate", "numerator": "y", "denominator": "x", "resolution": 1, **capped},
        ]
    )


def units_of(variants: Sequence[int]) -> Units:
    """Units of these variants, all new."""
    size = len(variants)
    return Units(
        hash=np.arange(size),
        variant=np.array(variants, dtype=np.int8),
        split_period=np.zeros(size, dtype=np.int16),
        is_new=np.ones(size, dtype=np.int8),
        first_ms=np.zeros(size, dtype=np.int64),
        segments={},
        covariates={},
        crosses=np.zeros(size, dtype=bool),
    )


def values_of(
    pairs: Sequence[tuple[int, int]],
    variants: Sequence[int] | None = None,
    cap: float | None = None,
) -> tuple[SourceValues, Mapping[str, Metric]]:
    """(y, x) of each unit, of the variant `a` or of others."""
    own = experiment(cap)
    types = {"user_id": "BIGINT", "variant": "VARCHAR", "y": "BIGINT", "x": "BIGINT"}
    metrics = {metric.name: metric for metric in list_scorecard_metrics(own)}
    log = map_columns("impressions", own.logs.rows, types, "user_id")
    shape = build_schema(own, [*metrics.values()], {"impressions": log})
    zeros = np.zeros(len(pairs), dtype=np.int64)
    now = {f"c_{n}": zeros for n in range(1, len(shape.components) + 1)}
    ratio = metrics["rate"]
    assert ratio.value is not None
    assert ratio.per is not None
    for place, term in enumerate((ratio.value, ratio.per)):
        now[shape.component(term, "a")] = np.array([pair[place] for pair in pairs], dtype=np.int64)
    before = dict.fromkeys(now, zeros)
    of_units = units_of([0] * len(pairs) if variants is None else variants)
    return SourceValues(own, shape, of_units, now, before), metrics


def days_of(*rows: Values) -> UnitDays:
    """Unit, whether in the period, day and a value."""
    unit, in_period, day, value = (np.array(column) for column in zip(*rows, strict=True))
    return UnitDays(unit.astype(np.int32), in_period, day.astype(np.int32), {"c_1": value})


def test_a_unit_has_its_sums_of_the_period_and_of_before_or_zeros() -> None:
    days = days_of(
        *((0, False, 1, 10), (0, False, 2, 11), (0, True, 3, 3), (0, True, 4, 4)),
        *((2, False, 1, 7), (3, True, NO_DAY, 1)),
    )
    assert sum_days_by_unit(days, True, 5)["c_1"].tolist() == [7, 0, 0, 1, 0]
    assert sum_days_by_unit(days, False, 5)["c_1"].tolist() == [21, 0, 7, 0, 0]
    # One row of each unit: nothing is to be added.
    assert sum_days_by_unit(days_of((0, True, 3, 5), (1, True, 3, 6)), True, 2)["c_1"].tolist() == [
        5,
        6,
    ]


def test_an_active_day_of_a_unit_has_the_sums_of_its_source_or_zeros() -> None:
    of, metrics = values_of([(0, 0)] * 3, [0, 1, 0])
    component = of.schema.component(metrics["rate"].value, "a")  # type: ignore[arg-type]
    active = days_of(
        *((0, True, 0, 1), (0, True, 1, 1), (1, True, 0, 1), (1, True, NO_DAY, 1)),
        (2, False, 0, 1),
    )
    own = days_of((0, False, 1, 6), (0, True, 0, 5), (1, True, 1, 7))
    columns = dict.fromkeys(of.now, np.zeros(3, dtype=np.int64))
    own = own._replace(columns={**columns, component: own.columns["c_1"]})
    rows = sum_metrics_by_day(of, own, [metrics["y"]], active)
    assert [(row.cell, row.group.variant, row.units, row.sum("y")) for row in rows] == [
        *(("1970-01-01", "a", 1, 5), ("1970-01-01", "b", 1, 0)),
        ("1970-01-02", "a", 1, 0),
    ]


@pytest.mark.parametrize("level", [0.51, 0.6, 0.75, 0.99])
def test_a_cap_is_the_value_at_its_rank_or_the_next(level: float) -> None:
    y, x = [50, 10, 30, 20, 40], [3, 1, 2, 2, 9]
    of, metrics = values_of([*zip(y, x, strict=True)], cap=level)
    at = math.ceil(level * 4)
    assert of.caps(metrics["rate"]) == (sorted(y)[at], sorted(x)[at])
    assert of.caps(metrics["y"]) == (sorted(y)[at], None)
    judged = of.scorecard_terms(metrics["y"])
    assert np.asarray(judged.y).tolist() == [min(one, sorted(y)[at]) for one in y]


def weightiest(rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The twenty that lie farthest from the ratio of all, the larger numerators first."""
    all_y, all_x = (sum(column) for column in zip(*rows, strict=True))
    return sorted(rows, key=lambda row: (-abs(row[0] - all_y / all_x * row[1]), -row[0], row[1]))[
        :20
    ]


def test_the_units_that_weigh_most_lie_farthest_from_the_ratio_of_their_variant() -> None:
    random = np.random.default_rng(3)
    draws = [(int(y), int(x)) for y, x in random.integers(1, 30, (52, 2))]
    parts = {
        # By two, so that units lie as far above the ratio as others lie below it.
        "ties": ([(2, 4), (0, 4), (4, 4), (0, 4), (2, 4), (4, 4), *[(1, 2)] * 8], draws[:40]),
        "few": (draws[40:], draws[:3]),
        # Of one impression in all there is a ratio, of none there is not.
        "single": ([(1, 1), (0, 0)], [(1, 0), (0, 0)]),
    }
    for a, b in parts.values():
        of, metrics = values_of([*a, *b], [0] * len(a) + [1] * len(b))
        expected = {
            ("rate", variant): weightiest(pairs)
            for variant, pairs in (("a", a), ("b", b))
            if sum(x for _, x in pairs)
        }
        assert of.extremes(metrics["rate"]) == expected


def test_sums_of_a_sub_bucket_are_over_all_of_its_units() -> None:
    large = 10**15, 10**12
    of, metrics = values_of([(2, 3), (1, 4), (5, 10), large])
    sums = of.sum_buckets(metrics["rate"], np.array([7, 9, 7, 11]))
    assert sums.units.shape == (SUB_BUCKETS,)
    assert {place: sums.sums[place].tolist() for place in np.flatnonzero(sums.units).tolist()} == {
        7: [7, 13, 29, 56, 109],
        9: [1, 4, 1, 4, 16],
        11: [1e15, 1e12, 1e30, 1e27, 1e24],
    }
    assert sums.units[[7, 9, 11]].tolist() == [2, 1, 1]


def test_sums_of_a_mean_count_each_unit_once() -> None:
    of, metrics = values_of([(2, 3), (1, 4), (5, 10)])
    sums = of.sum_buckets(metrics["y"], np.array([7, 9, 7]))
    assert sums.units[[7, 9]].tolist() == [2, 1]
    assert sums.sums[[7, 9]].tolist() == [[7, 2, 29, 7, 2], [1, 1, 1, 1, 1]]


def test_the_order_of_units_follows_from_their_values() -> None:
    """So that a draw by position depends on the values, and not on the order of the log."""
    rows = [(y % 7, y + 1) for y in range(40)]
    of, metrics = values_of(rows)
    sums = of.sum_buckets(metrics["rate"], None)
    assert sorted(map(tuple, sums.sums[:, :2].tolist())) == sorted(rows)
    assert sums.units.tolist() == [1] * 40
    of, metrics = values_of(rows[::-1])
    assert of.sum_buckets(metrics["rate"], None).sums.tolist() == sums.sums.tolist()
    of, metrics = values_of([(7 * y, x) for y, x in rows])
    assert of.sum_buckets(metrics["rate"], None).sums[:, 1].tolist() != sums.sums[:, 1].tolist()
