"""Quantiles over impressions, through the whole analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.stats import effects, quantiles
from tests.logs.small import analyze, small_log
from tests.worlds import array_quantiles as arrays


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
    """Values, difference and lift by the array functions; units without a value count as well."""
    arms = []
    for variant in "ab":
        own = log[log.variant == variant]
        known = own[own[column].notna()]
        assert set(known.user_id) == set(own.user_id)
        arms.append((known[column], known.user_id))
    control, treatment = arrays.clustered(*arms, level=level)
    low, high = quantiles.sides(control, treatment)
    lift = effects.fieller(*low).low, effects.fieller(*high).high
    return arrays.compare(control, treatment), lift


@pytest.mark.parametrize(("name", "level"), [("dwell_p50", 0.5), ("dwell_p90", 0.9)])
def test_dwell_quantiles_are_those_of_the_statistics(name, level):
    log = visits()
    row = analyze(log, metrics=[name, "ctr"])[name]
    clicks = log.assign(dwell=log.dwell.where(log.click == 1))
    effect, lift = expected(clicks, "dwell", level)
    assert (row.kind, row.method, row.reason) == ("quantile", "mid_quantile_t", None)
    assert (row.units_control, row.units) == (75, 75)
    assert row.control == pytest.approx(effect.control, rel=1e-9)
    assert row.difference_low == pytest.approx(effect.low, rel=1e-9)
    assert row.difference_high == pytest.approx(effect.high, rel=1e-9)
    assert row.p_value == pytest.approx(effect.p_value, rel=1e-9)
    assert row.lift == pytest.approx(effect.treatment / effect.control - 1, rel=1e-9)
    assert (row.lift_low, row.lift_high) == pytest.approx(lift, rel=1e-9)


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
    assert row.control == pytest.approx(own["a"].score.median(), abs=0.01)
    assert row.treatment == pytest.approx(own["b"].other.median(), abs=0.01)


def test_whole_seconds_do_not_reject_what_does_not_differ():
    """Forty A/A tests of dwell in whole seconds: 1,000 users of 4 clicks an arm, users differ."""
    random, users = np.random.default_rng(3), np.repeat(np.arange(2000), 4)
    values = {
        f"dwell_{k}": np.round(random.exponential(random.gamma(3.0, 5.0, 2000)[users]))
        for k in range(40)
    }
    log = pd.DataFrame({"user_id": users, "variant": np.where(users % 2 == 0, "a", "b"), **values})
    metrics = [{"name": name, "value": name, "quantile": 0.5, "role": "goal"} for name in values]
    result = analyze(log.assign(click=1), metrics=metrics, cleaning={"duplicates": "unchecked"})
    p_values = [row.p_value for row in result.scorecard]
    assert None not in p_values
    assert sum(p < 0.05 for p in p_values) <= 6
    assert [verdict.decision for verdict in result.verdicts] == ["keep_running"]


@pytest.mark.parametrize(("grain", "level"), [(10.0, 0.5), (10.0, 0.9), (60.0, 0.9)])
def test_a_longer_dwell_is_seen_through_coarse_seconds(grain, level):
    """A third more, to the nearest 10 s or minute: the interval holds what fine seconds show."""
    random, users = np.random.default_rng(4), np.repeat(np.arange(3000), 6)
    seconds = random.exponential(random.gamma(4.0, 10.0, 3000)[users])
    seconds = np.where(users % 2 == 0, seconds, seconds * 1.3)
    log = pd.DataFrame(
        {
            "user_id": users,
            "variant": np.where(users % 2 == 0, "a", "b"),
            "click": 1,
            "fine": np.round(seconds, 3),
            "coarse": np.round(seconds / grain) * grain,
        }
    )
    metrics = [{"name": name, "value": name, "quantile": level} for name in ("fine", "coarse")]
    result = analyze(log, metrics=metrics, cleaning={"duplicates": "unchecked"})
    fine, coarse = result["fine"], result["coarse"]
    assert coarse.p_value < 0.001
    assert coarse.control == pytest.approx(fine.control, abs=grain / 2)
    assert coarse.difference_low < fine.difference < coarse.difference_high


def test_what_cannot_be_had_is_refused_by_name():
    log = visits()
    tied = analyze(log.assign(dwell=np.minimum(log.dwell, 3)), metrics=["dwell_p90"])["dwell_p90"]
    assert (tied.reason, tied.status) == ("tied_quantile", "too_little_data")
    assert (tied.control, tied.treatment) == (3.0, 3.0)
    assert tied.difference is None
    one = analyze(log.assign(dwell=7.0), metrics=["dwell_p50"])["dwell_p50"]
    assert (one.reason, one.control) == ("tied_quantile", 7.0)
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
