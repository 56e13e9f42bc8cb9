"""The waist: exact sums, mergeable moments, cells in order."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.collect import collect
from abeval.aggregates.sums import (
    LEFT_OUT,
    SEGMENT,
    SUM_NAMES,
    VARIABLES,
    WHOLE,
    Group,
    SumsRow,
)
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.logs.run import Run
from abeval.stats.moments import Moments
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
    metrics = list_scorecard_metrics(experiment)
    try:
        return collect(Run(experiment, engine, {"impressions": log}), metrics)
    finally:
        engine.close()


def row_of(columns: dict[str, list[int]]) -> SumsRow:
    """The sums of units given by their whole numbers."""
    values = {name: columns.get(name, [0] * len(columns["y"])) for name in VARIABLES}
    factors = ([values[name] for name in names.split("_")] for names in SUM_NAMES)
    sums = [sum(map(math.prod, zip(*own, strict=True))) for own in factors]
    return SumsRow("m", WHOLE, "", Group("a", 0), len(columns["y"]), sums)


@pytest.fixture(scope="module")
def small() -> Aggregates:
    return aggregate(small_log(), segments={"kind": "category"})


def test_sums_beyond_what_a_double_holds_are_exact(small: Aggregates) -> None:
    y, x = [ROOT + 1, ROOT + 3, ROOT + 8], [ROOT - 5, ROOT, ROOT + 2]
    rows = [row_of({"y": y, "x": x})]
    moments = replace(small, moments=rows).find_moments("m", WHOLE, "", (1.0, 1.0))[0]["a"]
    mean_y, mean_x = Fraction(sum(y), 3), Fraction(sum(x), 3)
    between = sum((b - mean_y) * (a - mean_x) for b, a in zip(y, x, strict=True)) / 2
    assert moments.covariance[0, 0] == pytest.approx(float(sum((b - mean_y) ** 2 for b in y) / 2))
    assert moments.covariance[0, 1] == pytest.approx(float(between), rel=1e-15)
    assert moments.mean[0] == float(mean_y)


def test_scales_say_what_a_counted_unit_is_worth(small: Aggregates) -> None:
    columns = {"y": [1, 5], "x": [2, 3], "y0": [1, 2], "x0": [4, 9]}
    found = replace(small, moments=[row_of(columns)]).find_moments("m", WHOLE, "", (0.5, 0.1))[0][
        "a"
    ]
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
    # With two degrees of freedom. SciPy before 1.17 has this quantile to 1e-11 only.
    half = (row.difference_high - row.difference_low) / 2
    assert half == pytest.approx(t.ppf(0.975, 2) * math.sqrt(2 / 2 + 2 / 2), rel=1e-12)


def test_sums_depend_on_neither_order_nor_threads() -> None:
    log = small_log(rows=4000, units=300).assign(v=lambda f: np.sin(f.index) * 1e3)
    metrics = [{"name": "v", "value": "v"}, {"name": "q_ctr"}, {"name": "auc"}, {"name": "ndcg"}]
    first = aggregate(log, metrics=metrics, engine={"threads": 1}).moments
    for seed in (1, 2):
        again = aggregate(
            log.sample(frac=1, random_state=seed), metrics=metrics, engine={"threads": 4}
        )
        assert again.moments == first


def _variables(log: pd.DataFrame, cut: str) -> dict[str, Moments]:
    """Moments of clicks and impressions now and before and of newness, unit by unit."""
    log = log.assign(now=log.ts >= cut, shown=1)
    by_unit = (
        log.pivot_table(
            index=["user_id"], columns="now", values=["click", "shown"], aggfunc="sum", fill_value=0
        )
        .set_axis(["y0", "y", "x0", "x"], axis=1)
        .query("x > 0")
        .assign(z=lambda units: (units.x0 == 0).astype(int))
        .join(log[log.now].sort_values("ts").groupby("user_id").variant.first())
    )
    return {
        str(variant): Moments.build_with_third(*(units[v] for v in VARIABLES))
        for variant, units in by_unit.groupby("variant")
    }


def test_third_moments_are_those_of_the_units() -> None:
    log = small_log(rows=4000, units=300)
    dates = {"period": {"start": "2024-03-02", "end": "2024-03-04"}}
    dates["pre_period"] = {"start": "2024-03-01", "end": "2024-03-02"}
    metrics = [{"name": "ctr"}, {"name": "clicks_per_user"}]
    found = aggregate(log, metrics=metrics, segments={"kind": "category"}, **dates)
    expected = _variables(log, "2024-03-02")
    one = np.eye(5)
    one[[1, 3]] = 0
    for variant, moments in expected.items():
        ratio = found.find_moments("ctr", WHOLE, "", (1.0, 1.0))[0][variant]
        assert ratio.third == pytest.approx(moments.third, rel=1e-9, abs=1e-6)
        mean = found.find_moments("clicks_per_user", WHOLE, "", (1.0, 1.0))[0][variant]
        without = np.einsum("ia,jb,kc,abc", one, one, one, moments.third)
        assert mean.third == pytest.approx(without, rel=1e-9, abs=1e-6)
        for metric, wanted in (("ctr", ratio.third), ("clicks_per_user", mean.third)):
            cells = [
                found.find_moments(metric, SEGMENT + "kind", cell, (1.0, 1.0))[0][variant]
                for cell in found.cells(metric, SEGMENT + "kind")
            ]
            together = cells[0].merge(cells[1]).merge(cells[2]).third
            assert together[:2, :2, :2] == pytest.approx(wanted[:2, :2, :2], rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("before", [False, True])
def test_cubes_beyond_128_bits_are_exact(before: bool) -> None:
    """Baskets of half a million at six decimals: their cubes are 1e35 and more."""
    random = np.random.default_rng(5)
    log = small_log(rows=4000, units=300)
    log["basket"] = random.integers(1, 500_000, len(log)).astype(float)
    metrics = [
        {"name": "mean", "value": "basket"},
        {"name": "ratio", "numerator": "basket", "denominator": "click"},
    ]
    dates = {"period": {"start": "2024-03-01" if not before else "2024-03-02", "end": "2024-03-04"}}
    if before:
        dates["pre_period"] = {"start": "2024-03-01", "end": "2024-03-02"}
    fine = aggregate(log, metrics=metrics, **dates)
    whole = [{**metric, "resolution": 1.0} for metric in metrics]
    coarse = aggregate(log, metrics=whole, **dates)
    assert max(row.sum("y", "y", "y") for row in fine.moments) > 10**38
    for name in ("mean", "ratio"):
        for variant in "ab":
            x = 1e-6 if name == "ratio" else 1.0
            exact = fine.find_moments(name, WHOLE, "", (1e-6, x))[0][variant].third
            assert exact == pytest.approx(
                coarse.find_moments(name, WHOLE, "", (1.0, 1.0))[0][variant].third,
                rel=1e-12,
                abs=1e-6,
            )


def test_moments_of_disjoint_units_merge_to_those_of_all(small: Aggregates) -> None:
    log = small_log()
    parts = [aggregate(log[log.user_id % 3 == n]) for n in range(3)]
    for variant in "ab":
        arms = [part.find_moments("ctr", WHOLE, "", (1.0, 1.0))[0][variant] for part in parts]
        merged = arms[0].merge(arms[1]).merge(arms[2])
        whole = small.find_moments("ctr", WHOLE, "", (1.0, 1.0))[0][variant]
        assert merged.n == whole.n
        assert merged.mean == pytest.approx(whole.mean, rel=1e-14)
        assert merged.comoment == pytest.approx(whole.comoment, rel=1e-13, abs=1e-13)
        assert merged.third == pytest.approx(whole.third, rel=1e-12, abs=1e-10)


def test_cells_are_in_order_and_only_of_their_slice(small: Aggregates) -> None:
    assert list(small.cells("ctr", SEGMENT + "kind")) == ["x", "y", "z"]
    assert list(small.cells("ctr", WHOLE)) == [""]
    assert list(small.cells("ctr", "day")) == []
    assert list(small.cells("nothing", WHOLE)) == []
    by_cell = [small.find_moments("ctr", SEGMENT + "kind", cell, (1.0, 1.0))[0] for cell in "xyz"]
    for variant in "ab":
        whole = small.find_moments("ctr", WHOLE, "", (1.0, 1.0))[0][variant]
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
    assert (small.count_units("a"), small.count_units("b"), small.count_units("c")) == (*sizes, 0)
