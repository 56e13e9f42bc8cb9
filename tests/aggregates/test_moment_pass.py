"""Sums of units over arrays, against the queries that define them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.aggregates import extremes, slice_sums
from abeval.aggregates.collect import collect
from abeval.aggregates.kernels.exact import exact_sums
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.queries import query
from abeval.experiment.metrics import named_metrics
from abeval.logs.run import Run
from abeval.table.options import TableOptions
from abeval.table.read import read_table

PRODUCTS = [(0,), (1,), (0, 0), (0, 1), (0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]
SIZES = st.sampled_from([1, 10**3, 10**6, 2**31, 10**10, 10**13, 2**47])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), SIZES, SIZES, st.integers(1, 40_000))
def test_sums_of_products_are_those_of_whole_numbers(seed, first, second, rows):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(-size, size + 1, rows) for size in (first, second)]
    sums = exact_sums(columns, PRODUCTS)
    exact = [column.astype(object) for column in columns]
    assert sums == {p: int(np.prod([exact[i] for i in p], axis=0).sum()) for p in PRODUCTS}


def test_values_that_are_too_large_are_left_to_the_queries():
    assert exact_sums([np.full(100, 2**62)], [(0, 0, 0)]) is None
    assert exact_sums([np.full(100, 2**62)], [(0, 0)]) == {(0, 0): 100 * 2**124}


def units_table(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    before = rng.exponential(30.0, rows)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "arm": rng.choice(["a", "b", "c"], rows),
            "place": rng.choice(["x", "y"], rows),
            "bought": rng.integers(0, 2, rows),
            "spent": np.round(before + rng.exponential(9.0, rows), 2),
            "exact": before + rng.normal(size=rows),
            "clicks": rng.integers(0, 4, rows),
            "views": rng.integers(1, 9, rows),
            "before": before,
        }
    )


def aggregates_of(frame: pd.DataFrame):
    options = TableOptions(
        variant="arm",
        unit="id",
        metrics=["bought", "spent", "exact", "ctr = clicks / views"],
        covariates=["before"],
        segments=["place"],
    )
    experiment, engine = read_table(frame, options)
    try:
        return collect(Run(experiment, engine, {"units": frame}), named_metrics(experiment))
    finally:
        engine.close()


@pytest.mark.parametrize("factor", [1, 10_000_000])
def test_moments_and_extremes_are_those_of_the_queries(monkeypatch, factor):
    frame = units_table()
    frame["exact"] *= factor
    by_arrays = aggregates_of(frame)
    monkeypatch.setattr(slice_sums, "sums_by_arrays", lambda *_: None)
    monkeypatch.setattr(extremes, "extremes_by_arrays", lambda *_: None)
    by_queries = aggregates_of(frame)
    ours, theirs = (sorted(tuple(map(str, r)) for r in a.moments) for a in (by_arrays, by_queries))
    assert len(theirs) > 40
    assert ours == theirs
    assert by_arrays.extremes == by_queries.extremes


def test_a_row_a_unit_adds_up_to_what_groups_do():
    engine = DuckDBEngine()
    engine.table(
        "unit_cells",
        "select i as unit_id, true as in_period, cast(null as date) as day, "
        "'a' as variant, cast(null as bigint) as first_ms, cast(null as bigint) as last_ms, "
        "cast(1 as bigint) as c_1, cast(i * 7 as bigint) as c_2 from range(5) r(i)",
    )
    engine.table("units", "select i as unit_id, 'a' as variant, 1 as is_new from range(4) r(i)")
    for name in ("day", "row"):
        engine.table(f"by_{name}", query(f"units/unit_{name}"))
        engine.view("unit_day", f"select * from by_{name}")
        engine.table(f"seen_{name}", query(f"units/seen_{'units' if name == 'day' else 'rows'}"))
        engine.view("source_day", f"select * from by_{name}")
        total = "unit_total" if name == "day" else "row_total"
        engine.table(f"total_{name}", query(f"units/{total}"))
    for relation in ("by", "seen", "total"):
        ours, theirs = (
            engine.frame(f"select * from {relation}_{name} order by unit_id")
            for name in ("row", "day")
        )
        pd.testing.assert_frame_equal(ours, theirs[list(ours.columns)])
    engine.close()


def test_decimals_of_a_table_are_its_resolution():
    frame = units_table(500)
    options = TableOptions(variant="arm", unit="id", metrics=["spent", "exact", "bought"])
    experiment, engine = read_table(frame, options)
    engine.close()
    steps = {m.name: m.resolution for m in experiment.metrics}
    assert steps["spent"] == 0.01
    assert steps["exact"] < 1e-9
    assert steps["bought"] == 1
