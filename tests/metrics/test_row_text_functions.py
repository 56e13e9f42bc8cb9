"""Functions of metrics, and resampling, through the whole analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import abeval
from abeval.assignment import Assignment
from abeval.errors import ExperimentError
from abeval.metrics.row_text import evaluate, find_function_problem, list_metric_names
from abeval.stats import resampling
from tests.aggregates.test_quantiles import visits
from tests.logs.small import analyze

CLICKS_PER_100 = {"name": "yield", "function": "100 * clicks_per_user / impressions_per_user"}


def by_bucket(log: pd.DataFrame) -> list[np.ndarray]:
    """Units, clicks and impressions of each of 256 groups of sub-buckets, by variant."""
    users = log.groupby("user_id").agg(
        variant=("variant", "first"), clicks=("click", "sum"), shown=("click", "size")
    )
    assignment = Assignment("small", {"a": 1.0, "b": 1.0})
    group = [assignment.assign(user).sub_bucket % 256 for user in users.index]
    table = users.assign(group=group, units=1)
    arms = []
    for variant in "ab":
        own = table[table.variant == variant].groupby("group")
        sums = own[["units", "clicks", "shown"]].sum().reindex(range(256), fill_value=0)
        arms.append(sums.to_numpy(float))
    there = (arms[0][:, 0] > 0) | (arms[1][:, 0] > 0)
    return [arm[there] for arm in arms]


METHODS = {
    "jackknife": (resampling.jackknife, "bucket_jackknife"),
    "bootstrap": (resampling.bootstrap, "poisson_bootstrap"),
    "permutation": (resampling.permutation, "bucket_permutation"),
}


@pytest.mark.parametrize("resample", METHODS)
def test_a_function_is_tested_on_sub_buckets(resample):
    log = visits()
    result = analyze(log, metrics=[CLICKS_PER_100], inference={"resample": resample})
    method, name = METHODS[resample]
    expected = method(*by_bucket(log), lambda s: 100 * s[..., 1] / s[..., 2]).effect
    row = result["yield"]
    assert (row.kind, row.role, row.method) == ("function", "goal", name)
    assert row.control == pytest.approx(100 * log[log.variant == "a"].click.mean(), rel=1e-12)
    assert row.difference == pytest.approx(expected.difference, rel=1e-9)
    assert row.difference_low == pytest.approx(expected.low, rel=1e-9)
    assert row.p_value == pytest.approx(expected.p_value, rel=1e-9)


def test_the_lift_and_the_difference_exclude_zero_together_and_agree_with_the_delta_method():
    log = visits(20_000, 2_000)
    result = analyze(log, metrics=[CLICKS_PER_100, "ctr"])
    row, delta = result["yield"], result["ctr"]
    assert (row.lift_low > 0) == (row.difference_low > 0)
    assert row.lift == pytest.approx(delta.lift, rel=1e-9)
    assert row.lift_high - row.lift_low == pytest.approx(delta.lift_high - delta.lift_low, rel=0.15)
    assert row.method == "bucket_jackknife"


def test_with_resample_means_and_ratios_are_resampled_too():
    log = visits()
    result = analyze(log, metrics=["ctr", "dwell_p50"], inference={"resample": "bootstrap"})
    expected = resampling.bootstrap(*by_bucket(log), lambda s: s[..., 1] / s[..., 2]).effect
    assert result["ctr"].p_value == pytest.approx(expected.p_value, rel=1e-9)
    assert result["dwell_p50"].method == "mid_quantile_t"


def test_a_function_may_name_metrics_that_are_not_in_the_scorecard_and_the_files_own():
    log = visits()
    own = {"name": "spent", "value": "price", "role": "diagnostic"}
    metric = {"name": "per_click", "function": "ln(spent / clicks_per_user)", "unit": "x"}
    result = analyze(log, metrics=[metric, own])
    row = result["per_click"]
    for variant, value in (("a", row.control), ("b", row.treatment)):
        arm = log[log.variant == variant]
        assert value == pytest.approx(np.log(arm.price.sum() / arm.click.sum()), rel=1e-6)
    assert [row.metric for row in result.scorecard] == ["per_click", "spent"]


def test_what_cannot_be_had_is_refused():
    log = visits()
    nobody = analyze(
        log.assign(click=0, dwell=0.0), metrics=[{"name": "x", "function": "1 / long_click_rate"}]
    )
    assert nobody["x"].reason in ("no_clicks", "empty_denominator")
    nothing = [{"name": "x", "function": "ctr / z"}, {"name": "z", "value": "zero"}]
    infinite = analyze(log.assign(zero=0), metrics=nothing)
    assert (infinite["x"].reason, infinite["x"].control) == ("not_finite", None)
    few = analyze(log[log.user_id < 6], metrics=[CLICKS_PER_100])
    assert few["yield"].reason == "too_few_units"


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ({"function": "sum(ctr)"}, "contains `SUM"),
        ({"function": "ctr +"}, "is not one expression"),
        ({"function": "ctr; drop table x"}, "is not one expression"),
        ({"function": "1 + 2"}, "names no metric"),
        ({"function": "'ctr'"}, "contains"),
        ({"function": "ctrr"}, "'ctrr' is not a metric; did you mean `ctr`"),
        ({"function": "gini"}, "'gini' is not a mean or a ratio"),
        ({"function": "x"}, "'x' is not a mean or a ratio"),
        ({"function": "ctr", "value": "click"}, "cannot be used with `function`"),
        ({"function": "ctr", "cap": 0.99}, "cannot be used with `function`"),
    ],
)
def test_mistakes_are_named(metric, message):
    with pytest.raises(ExperimentError, match=message):
        analyze(visits(), metrics=[{"name": "x", **metric}])


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"resample": "jackknife", "relative": "log_delta"}, 'choose "fieller" or "delta"'),
        ({"resample": "permutation", "looks": "always_valid"}, '"permutation" is for'),
    ],
)
def test_what_does_not_go_together_is_refused(entries, message):
    with pytest.raises(ExperimentError, match=message):
        analyze(visits(), metrics=["ctr"], inference=entries)


numbers = st.floats(0.1, 10)


@given(numbers, numbers, numbers)
def test_arithmetic_is_that_of_python(a, b, c):
    values = {"a": np.array(a), "b": np.array(b), "c": np.array(c)}
    cases = {
        "a + b * c": a + b * c,
        "-(a - b) / c": -(a - b) / c,
        "pow(a, 2) - sqrt(b)": a**2 - b**0.5,
        "abs(a - b) + 1.5e1": abs(a - b) + 15,
        "exp(ln(a))": a,
    }
    for text, expected in cases.items():
        assert find_function_problem(text) is None
        assert float(evaluate(text, values)) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert list_metric_names("a / b + a") == ["a", "b"]


def test_functions_have_no_windows_and_say_so():
    log = visits().assign(ts=pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(3000) % 3, "D"))
    loaded = abeval.define(
        name="x",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        cleaning={"duplicates": "unchecked"},
        metrics=[{"name": "ctr"}, CLICKS_PER_100],
    )
    frames = {"impressions": log}
    assert "function" in loaded.aa(runs=10, logs=frames).refused["yield"]
    assert "function" in dict(loaded.windows(logs=frames).refused)["yield"]


def test_a_metric_called_by_a_word_of_sql_can_be_resampled():
    """`map`, built in, ended in a traceback."""
    values = {"map": np.array([0.25, 0.5])}
    assert evaluate("map", values).tolist() == [0.25, 0.5]
    assert evaluate('"map" * 2', values).tolist() == [0.5, 1.0]
