"""The waist: exact sums, mergeable moments, cells in order."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from abeval.aggregates.aggregates import (
    LEFT_OUT,
    MOMENT_COLUMNS,
    PRODUCTS,
    SEGMENT,
    VARIABLES,
    WHOLE,
    Aggregates,
)
from abeval.aggregates.collect import collect
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import chosen_metrics
from abeval.logs.run import Run
from tests.logs.small import analyze, small_log

ROOT = 2**53


def aggregate(log: pd.DataFrame, **entries: object) -> Aggregates:
    base = {
        "name": "waist",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {}},
        "metrics": [{"name": "ctr"}, {"name": "dwell_per_click"}],
    }
    experiment = parse_experiment({**base, **entries})
    engine = DuckDBEngine(experiment.engine)
    metrics = chosen_metrics(experiment)
    try:
        return collect(Run(experiment, engine, {"impressions": log}), metrics)
    finally:
        engine.close()


def sums(columns: dict[str, list[int]], variant: str = "a") -> dict[str, object]:
    """A row of moments of units given by their whole numbers."""
    values = {name: columns.get(name, [0] * len(columns["y"])) for name in VARIABLES}
    products = {
        f"{a}_{b}": str(sum(x * y for x, y in zip(values[a], values[b], strict=True)))
        for a, b in PRODUCTS
    }
    totals = {name: str(sum(own)) for name, own in values.items()}
    where = {"metric": "m", "slice": WHOLE, "cell": "", "variant": variant, "stretch": 0}
    return {**where, "units": len(values["y"]), **totals, **products}


@pytest.fixture(scope="module")
def small() -> Aggregates:
    return aggregate(small_log(), segments={"kind": "category"})


def test_sums_beyond_what_a_double_holds_are_exact(small: Aggregates) -> None:
    y, x = [ROOT + 1, ROOT + 3, ROOT + 8], [ROOT - 5, ROOT, ROOT + 2]
    frame = pd.DataFrame([sums({"y": y, "x": x})], columns=list(MOMENT_COLUMNS))
    moments = replace(small, moments=frame).of("m", WHOLE, "", (1.0, 1.0))[0]["a"]
    mean_y, mean_x = Fraction(sum(y), 3), Fraction(sum(x), 3)
    between = sum((b - mean_y) * (a - mean_x) for b, a in zip(y, x, strict=True)) / 2
    assert moments.covariance[0, 0] == pytest.approx(float(sum((b - mean_y) ** 2 for b in y) / 2))
    assert moments.covariance[0, 1] == pytest.approx(float(between), rel=1e-15)
    assert moments.mean[0] == float(mean_y)


def test_scales_say_what_a_counted_unit_is_worth(small: Aggregates) -> None:
    columns = {"y": [1, 5], "x": [2, 3], "y0": [1, 2], "x0": [4, 9]}
    frame = pd.DataFrame([sums(columns)], columns=list(MOMENT_COLUMNS))
    found = replace(small, moments=frame).of("m", WHOLE, "", (0.5, 0.1))[0]["a"]
    assert found.mean.tolist() == pytest.approx([1.5, 0.25, 0.75, 0.65, 0.0])
    expected = np.cov([[0.5, 2.5], [0.2, 0.3], [0.5, 1.0], [0.4, 0.9]])
    assert found.covariance[:4, :4] == pytest.approx(expected)


def test_the_engine_keeps_every_digit() -> None:
    """Each arm has two units, 2^53 + 1 and 2^53 + 3: a variance of 2, to the last digit."""
    rows = [
        {"user_id": 2 * unit + arm, "variant": "ab"[arm], "click": 0, "v": float(v)}
        for arm in (0, 1)
        for unit, extra in enumerate((1, 3))
        for v in (ROOT, extra + 4 * arm)
    ]
    metrics = [{"name": "v", "value": "v", "resolution": 1}]
    row = analyze(pd.DataFrame(rows), metrics=metrics)["v"]
    assert row.control == float(ROOT + 2)
    assert row.treatment == float(ROOT + 6)
    # Two degrees of freedom: t is 4.30265.
    half = (row.difference_high - row.difference_low) / 2
    assert half == pytest.approx(4.302652729749464 * math.sqrt(2 / 2 + 2 / 2), rel=1e-12)


def test_sums_depend_on_neither_order_nor_threads() -> None:
    log = small_log(rows=4000, units=300).assign(v=lambda f: np.sin(f.index) * 1e3)
    metrics = [{"name": "v", "value": "v"}, {"name": "q_ctr"}, {"name": "auc"}, {"name": "ndcg"}]
    first = aggregate(log, metrics=metrics, engine={"threads": 1}).moments
    for seed in (1, 2):
        again = aggregate(
            log.sample(frac=1, random_state=seed), metrics=metrics, engine={"threads": 4}
        )
        pd.testing.assert_frame_equal(first, again.moments)


def test_moments_of_disjoint_units_merge_to_those_of_all(small: Aggregates) -> None:
    log = small_log()
    parts = [aggregate(log[log.user_id % 3 == n]) for n in range(3)]
    for variant in "ab":
        arms = [part.of("ctr", WHOLE, "", (1.0, 1.0))[0][variant] for part in parts]
        merged = arms[0].merge(arms[1]).merge(arms[2])
        whole = small.of("ctr", WHOLE, "", (1.0, 1.0))[0][variant]
        assert merged.n == whole.n
        assert merged.mean == pytest.approx(whole.mean, rel=1e-14)
        assert merged.comoment == pytest.approx(whole.comoment, rel=1e-13, abs=1e-13)


def test_cells_are_in_order_and_only_of_their_slice(small: Aggregates) -> None:
    assert list(small.cells("ctr", SEGMENT + "kind")) == ["x", "y", "z"]
    assert list(small.cells("ctr", WHOLE)) == [""]
    assert list(small.cells("ctr", "day")) == []
    assert list(small.cells("nothing", WHOLE)) == []
    by_cell = [small.of("ctr", SEGMENT + "kind", cell, (1.0, 1.0))[0] for cell in "xyz"]
    for variant in "ab":
        whole = small.of("ctr", WHOLE, "", (1.0, 1.0))[0][variant]
        assert sum(arms[variant].n for arms in by_cell) == whole.n


def test_what_is_left_out_is_counted(small: Aggregates) -> None:
    untimed = small_log().assign(dwell=lambda f: f.dwell.where(f.index % 4 > 0))
    found = aggregate(untimed).sums("dwell_per_click", LEFT_OUT)
    counts = {variant: count for _, variant, count in found}
    lost = untimed[untimed.dwell.isna() & (untimed.click == 1)].groupby("variant").size()
    assert counts == lost.to_dict()
    assert {count for *_, count in small.sums("dwell_per_click", LEFT_OUT)} == {0}


def test_units_of_a_variant(small: Aggregates) -> None:
    sizes = small_log().groupby("variant").user_id.nunique()
    assert (small.units_of("a"), small.units_of("b"), small.units_of("c")) == (*sizes, 0)
