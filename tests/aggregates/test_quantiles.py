"""Quantiles over impressions, through the whole analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.stats import effects, quantiles, relative
from tests.logs.small import analyze, small_log


def visits(rows: int = 3000, units: int = 150, seed: int = 8) -> pd.DataFrame:
    """Users differ in how long they stay, so that their clicks are alike."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, units, rows)
    taste = rng.gamma(3.0, 5.0, units)[user]
    seconds = np.round(rng.exponential(taste), 3)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 0, "a", "b"),
            "click": (rng.random(rows) < 0.4).astype(int),
            "dwell": np.where(rng.random(rows) < 0.05, np.nan, seconds),
            "price": np.where(
                rng.random(rows) < 0.1, np.nan, np.round(taste * rng.random(rows), 2)
            ),
        }
    )


def expected(log, column, level):
    """The effect by the array functions, every unit of the variant counted."""
    arms = []
    for variant in "ab":
        own = log[log.variant == variant]
        known = own[own[column].notna()]
        everyone = own.user_id.unique()
        independent = quantiles.iid(known[column], level)
        below = known.assign(below=known[column] <= independent.value).groupby("user_id").below
        counts = below.agg(["sum", "count"]).reindex(everyone, fill_value=0)
        moments = quantiles.Moments.of(counts["sum"], counts["count"])
        arms.append(quantiles.inflate(independent, moments, level))
    return effects.compare(*arms, 0.05, "quantile_t"), relative.fieller(*arms)


@pytest.mark.parametrize(("name", "level"), [("dwell_p50", 0.5), ("dwell_p90", 0.9)])
def test_dwell_quantiles_are_those_of_the_statistics(name, level):
    log = visits()
    row = analyze(log, metrics=[name, "ctr"])[name]
    clicks = log.assign(dwell=log.dwell.where(log.click == 1))
    effect, lift = expected(clicks, "dwell", level)
    assert (row.kind, row.method, row.reason) == ("quantile", "quantile_t", None)
    assert (row.units_control, row.units) == (75, 75)
    assert row.control == pytest.approx(effect.control, rel=1e-9)
    assert row.difference_low == pytest.approx(effect.low, rel=1e-9)
    assert row.p_value == pytest.approx(effect.p_value, rel=1e-9)
    assert (row.lift, row.lift_high) == pytest.approx((lift.value, lift.high), rel=1e-9)


def test_several_quantiles_of_several_values_at_once():
    log = visits()
    metrics = [
        {"name": "price_p10", "value": "price", "quantile": 0.1},
        {"name": "dwell_p90"},
        {"name": "price_p75", "value": "price", "quantile": 0.75, "direction": "decrease"},
    ]
    result = analyze(log, metrics=metrics)
    for name, level in (("price_p10", 0.1), ("price_p75", 0.75)):
        effect, _ = expected(log, "price", level)
        assert result[name].treatment == pytest.approx(effect.treatment, rel=1e-9)
        assert result[name].p_value == pytest.approx(effect.p_value, rel=1e-6)
    assert [row.metric for row in result.scorecard] == [m["name"] for m in metrics]
    untimed = (log.click.eq(1) & log.dwell.isna()).sum()
    counts = {"price_p10": log.price.isna().sum(), "dwell_p90": untimed}
    for name, count in counts.items():
        assert sum(x.count for x in result.left_out if x.metric == name) == count


def test_each_variant_has_the_quantile_of_the_score_that_it_serves():
    log = small_log(2000).assign(other=lambda x: x.score / 2)
    result = analyze(
        log,
        metrics=[{"name": "score_p50", "value": "score", "quantile": 0.5}],
        variants={"a": {"model": "old"}, "b": {"model": "new"}},
        models={"old": {"score": "score"}, "new": {"score": "other"}},
    )
    row, own = result["score_p50"], {v: log[log.variant == v] for v in "ab"}
    assert row.control == pytest.approx(own["a"].score.median())
    assert row.treatment == pytest.approx(own["b"].other.median())


def test_what_cannot_be_had_is_refused_by_name():
    log = visits()
    tied = analyze(log.assign(dwell=np.round(log.dwell / 30)), metrics=["dwell_p50"])["dwell_p50"]
    assert (tied.reason, tied.status) == ("tied_quantile", "too_little_data")
    assert tied.control is not None
    assert tied.difference is None
    few = analyze(log.head(60), metrics=["dwell_p90"])["dwell_p90"]
    assert (few.reason, few.difference) == ("too_few_units", None)
    none = analyze(log.assign(dwell=np.nan), metrics=["dwell_p90"])["dwell_p90"]
    assert none.reason == "empty_denominator"
    with pytest.raises(ExperimentError, match=r"'price_p9'.*cannot be computed"):
        analyze(
            log.assign(word="x"),
            metrics=[{"name": "price_p9", "value": "cast(word as double)", "quantile": 0.9}],
        )


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            {"name": "ctr", "quantile": 0.9},
            "needs `value`, the expression whose quantile is computed",
        ),
        ({"name": "x", "numerator": "click", "denominator": "1", "quantile": 0.9}, "needs `value`"),
        ({"name": "x", "value": "click", "quantile": 1.0}, "less than 1"),
        ({"name": "x", "value": "click", "quantile": 0.5, "cap": 0.9}, "no totals per unit"),
        ({"name": "dwell_p50", "cap": 0.9}, "no totals per unit"),
    ],
)
def test_mistakes_are_named(metric, message):
    with pytest.raises(ExperimentError, match=message):
        analyze(small_log(), metrics=[metric])


def test_a_quantile_has_windows_of_its_own_and_no_replays():
    log = visits().assign(ts=pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(3000) % 3, "D"))
    loaded = abeval.define(
        name="x",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        cleaning={"duplicates": "unchecked"},
        metrics=[{"name": "ctr"}, {"name": "dwell_p50"}],
    )
    frames = {"impressions": log}
    assert "quantile" in loaded.aa(runs=10, logs=frames).refused["dwell_p50"]
    windows = loaded.windows(logs=frames).windows
    assert {row.kind for row in windows if row.metric == "dwell_p50"} == {
        "daily",
        "cumulative",
        "rolling",
    }
