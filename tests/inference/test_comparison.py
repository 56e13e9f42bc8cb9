"""One metric in one variant: an effect, or the reason why there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.errors import ExperimentError
from abeval.inference.comparison import Reason, Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments
from tests.leave_one_out import ratio_of, t_test
from tests.logs.small import analyze, small_log

MEAN = Metric("m", "mean", "Σ y / units")
RATIO = Metric("r", "ratio", "Σ y / Σ x")
AUC = Metric("auc", "auc", "…")


def moments(y: list[float], x: list[float] | None = None) -> Moments:
    ones = [1.0] * len(y) if x is None else x
    return Moments.of(y, ones, [0.0] * len(y), ones, [1.0] * len(y))


@pytest.mark.parametrize(
    ("metric", "control", "treatment", "reason"),
    [
        (MEAN, None, moments([1, 2]), "no_units"),
        (MEAN, moments([1, 2]), None, "no_units"),
        (MEAN, moments([]), moments([1, 2]), "no_units"),
        (MEAN, moments([1]), moments([1, 2]), "too_few_units"),
        (MEAN, moments([1, 2]), moments([1]), "too_few_units"),
        (MEAN, moments([3, 3]), moments([3, 3]), "zero_variance"),
        (MEAN, moments([3, 3]), moments([4, 4]), "zero_variance"),
        (RATIO, moments([0, 0], [0, 0]), moments([1, 2], [3, 3]), "empty_denominator"),
        (RATIO, moments([1, 2], [3, 3]), moments([0, 0], [0, 0]), "empty_denominator"),
        (RATIO, moments([1, 2], [2, 4]), moments([1, 3], [2, 6]), "zero_variance"),
    ],
)
def test_refusals(
    metric: Metric, control: Moments | None, treatment: Moments | None, reason: Reason
) -> None:
    found = compare_moments(metric, control, treatment, Rule())
    assert found.reason == reason
    assert (found.effect, found.lift) == (None, None)
    assert found.units_control == (0 if control is None else control.n)
    assert found.units == (0 if treatment is None else treatment.n)


def test_values_are_shown_though_the_effect_is_refused() -> None:
    found = compare_moments(MEAN, moments([5]), moments([1, 2]), Rule())
    assert (found.control, found.treatment) == (5, 1.5)


def test_a_lift_over_nothing_is_refused_and_the_difference_is_not() -> None:
    found = compare_moments(MEAN, moments([-1, 1]), moments([1, 2, 4]), Rule())
    assert (found.lift, found.reason) == (None, "control_near_zero")
    assert found.effect is not None
    assert found.effect.difference == pytest.approx(7 / 3)


def test_a_control_that_might_be_zero_leaves_the_lift_without_bounds() -> None:
    found = compare_moments(MEAN, moments([-1, 1.5, 2]), moments([1, 2, 4]), Rule())
    assert found.reason == "lift_unbounded"
    assert found.lift is not None
    assert not found.lift.bounded
    assert found.lift.value == pytest.approx((7 / 3 - 2.5 / 3) / (2.5 / 3))


def test_means_are_compared_by_welch() -> None:
    a, b = [1.0, 2, 3, 4, 9], [3.0, 4, 5, 9]
    found = compare_moments(MEAN, moments(a), moments(b), Rule(alpha=0.1)).effect
    assert found is not None
    theirs = stats.ttest_ind(b, a, equal_var=False)
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-12)
    interval = theirs.confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-12)
    assert found.method == "welch_t"


def test_ratios_are_compared_by_residuals_of_units() -> None:
    random = np.random.default_rng(3)
    x = random.integers(1, 9, (2, 50)).astype(float)
    y = random.binomial(x.astype(int), 0.4).astype(float)
    found = compare_moments(RATIO, moments(y[0], x[0]), moments(y[1], x[1]), Rule()).effect
    assert found is not None
    known = [ratio_of(b, a) for a, b in zip(x, y, strict=True)]
    assert (found.se, found.df, found.p_value) == pytest.approx(t_test(*known), rel=1e-9)
    assert found.difference == pytest.approx(y[1].sum() / x[1].sum() - y[0].sum() / x[0].sum())
    assert found.method == "jackknife_t"


@pytest.mark.parametrize(
    ("metric", "method"), [(MEAN, "welch_t"), (RATIO, "jackknife_t"), (AUC, "influence_t")]
)
def test_methods_are_named(metric: Metric, method: str) -> None:
    arms = moments([1, 2, 4], [2, 3, 9]), moments([2, 3, 9], [3, 4, 5])
    found = compare_moments(metric, *arms, Rule()).effect
    assert found is not None
    assert found.method == method


def test_raw_signs_are_kept() -> None:
    found = compare_moments(MEAN, moments([-4, -6, -5]), moments([-2, -3, -4]), Rule())
    assert found.effect is not None
    assert found.lift is not None
    assert found.effect.difference == pytest.approx(2)
    assert found.lift.value == pytest.approx(0.4)


def test_reasons_of_a_whole_log() -> None:
    log = small_log()
    silent = analyze(log.assign(click=0), metrics=["ctr", "gauc", "impressions_per_user"])
    assert silent["ctr"].reason == "no_clicks"
    assert silent["gauc"].reason == "no_clicks"
    assert silent["impressions_per_user"].difference is not None
    unscored = analyze(log.assign(score=float("nan")), metrics=["auc", "q_ctr", "ctr"])
    assert unscored["auc"].reason == "no_scores"
    assert unscored["q_ctr"].reason == "no_scores"
    assert unscored["ctr"].reason is None


def test_a_variant_that_nobody_saw() -> None:
    found = analyze(small_log(), variants={"a": {}, "b": {}, "c": {"weight": 0}})
    row = found["ctr", "c"]
    assert (row.reason, row.units, row.treatment, row.status) == (
        "no_units",
        0,
        None,
        "too_little_data",
    )
    assert found["ctr", "b"].difference is not None


def test_impressions_whose_own_value_is_no_number_are_counted() -> None:
    log = small_log().assign(price=1.5, cost=2.0)
    log.loc[:4, "price"] = float("nan")
    log.loc[5:6, "price"] = float("inf")
    log.loc[7, "cost"] = float("-inf")
    metrics = [{"name": "m", "numerator": "price", "denominator": "cost"}]
    counts: dict[str, int] = {}
    for item in analyze(log, metrics=metrics).left_out:
        assert item.as_zero
        counts[item.what] = counts.get(item.what, 0) + item.count
    assert counts == {
        "impressions whose price is null, NaN or infinite": 7,
        "impressions whose cost is null, NaN or infinite": 1,
    }


def test_a_mean_has_0_for_no_number_and_a_quantile_leaves_it_out(tmp_path: Path) -> None:
    log = small_log().assign(revenue=1.0)
    log.loc[:9, "revenue"] = None
    mean = {"name": "mean", "value": "revenue"}
    found = analyze(log, metrics=[mean, {**mean, "name": "median", "quantile": 0.5}])
    own = log[log.variant == "a"]
    assert found["mean"].control == pytest.approx(own.revenue.sum() / own.user_id.nunique())
    assert {(i.metric, i.as_zero) for i in found.left_out} == {("mean", True), ("median", False)}
    text = str(found)
    assert "mean has 0 for impressions whose revenue is null" in text
    assert "median leaves out impressions whose revenue is null" in text
    found.report(tmp_path / "report.html")
    assert "counted as 0" in (tmp_path / "report.html").read_text()


def test_sums_that_overflow_name_their_metric() -> None:
    log = small_log().assign(huge=1e9)
    metrics = ["ctr", {"name": "big", "value": "huge * 1e5"}]
    with pytest.raises(ExperimentError, match=r"metric 'big'.*cannot be computed"):
        analyze(pd.concat([log] * 40), metrics=metrics, cleaning={"duplicates": "unchecked"})


def test_units_that_differ_by_rounding_alone_have_no_variance() -> None:
    log = small_log().assign(third=1 / 3)
    own = {"name": "thirds", "numerator": "third * position", "denominator": "position"}
    row = analyze(log, metrics=[own])["thirds"]
    assert (row.reason, row.difference) == ("zero_variance", None)
    assert row.control == pytest.approx(1 / 3, rel=1e-5)
    counts = analyze(log, metrics=[{"name": "c", "value": "click", "resolution": 1.0}])["c"]
    assert counts.reason is None


def heavy_table() -> pd.DataFrame:
    """A user in treatment has a fifth of its views, and clicks at another rate."""
    random = np.random.default_rng(7)
    views = random.integers(1, 9, 600)
    clicks = random.binomial(views, 0.3)
    views[1], clicks[1] = 340, 95
    variant = np.where(np.arange(600) % 2 == 1, "b", "a")
    return pd.DataFrame({"user": np.arange(600), "variant": variant, "y": clicks, "x": views})


def test_a_ratio_that_few_units_decide_says_so() -> None:
    table = heavy_table()
    metrics = ["mean = y", "rate = y / x"]
    found = abeval.analyze(table, unit="user", variant="variant", control="a", metrics=metrics)
    row, of_units = found["rate"], found["mean"]
    assert (row.few_units_decide, of_units.few_units_decide) == (True, False)
    assert found.to_dict()["scorecard"][1]["few_units_decide"] is True
    assert row.method == "jackknife_t"
    arms = [table[table.variant == name] for name in "ab"]
    _, _, p_value = t_test(*(ratio_of(arm.y, arm.x) for arm in arms))
    assert row.p_value == pytest.approx(p_value, rel=1e-9)
    share = 340 / arms[1].x.sum()
    assert any(f"one unit holds {share:.0%} of the denominator" in note for note in found.notes)
    # The replays have the same test.
    (replayed,) = (one for one in found.aa if one.metric == "rate")
    assert replayed.rejection_low < 0.05


def test_sums_know_no_single_unit() -> None:
    rows = []
    for name, arm in heavy_table().groupby("variant"):
        y, x = arm.y.astype(int), arm.x.astype(int)
        sums = {"sum_y": y.sum(), "sum_yy": (y * y).sum(), "sum_x": x.sum()}
        more = {"sum_xx": (x * x).sum(), "sum_xy": (x * y).sum()}
        rows.append({"metric": "rate", "variant": name, "n": len(arm)} | sums | more)
    found = abeval.analyze_sums(pd.DataFrame(rows), control="a")
    assert found["rate"].method == "delta_t"
    assert not found["rate"].few_units_decide
