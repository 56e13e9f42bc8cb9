"""Intervals of offline metrics: A/A splits reject at their level, derivatives are right."""

import math

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

import abeval
from abeval.offline.groups import GroupValues
from abeval.offline.inference import MetricValues, compare, estimate, make_smooth
from abeval.stats.moments import Moments

EVERYONE = np.ones(400, dtype=bool)


def columns(form, seed=1, n=400):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 30, n).astype(float)
    skill = rng.beta(2, 8, n)
    clicks = rng.binomial(rows.astype(int), skill).astype(float)
    loss = rows * rng.uniform(0.2, 0.6, n)
    if form == "explained":
        return MetricValues(
            loss, rows, (clicks, clicks**2 / rows + rows * rng.uniform(1, 2, n)), form
        )
    return MetricValues(loss, rows, (clicks,) if form in ("entropy", "information") else (), form)


@pytest.mark.parametrize(
    "form", [*("ratio", "root", "total", "entropy", "information", "explained")]
)
def test_the_derivative_of_every_form_is_its_slope(form):
    given = columns(form)
    mean = Moments.of(*given.select_units(EVERYONE)).mean
    at = make_smooth(form, 0, 400)
    _, slope = at(mean)
    for i in range(mean.size):
        step = np.zeros(mean.size)
        step[i] = 1e-6 * mean[i]
        numeric = (at(mean + step)[0] - at(mean - step)[0]) / (2 * step[i])
        assert slope[i] == pytest.approx(numeric, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("form", ["ratio", "root", "entropy", "information", "explained"])
def test_intervals_are_those_of_a_jackknife(form):
    given = columns(form)
    found = estimate(given, EVERYONE, 0.05)
    left = []
    for i in range(400):
        others = EVERYONE.copy()
        others[i] = False
        left.append(estimate(given, others, 0.05).value)
    se = math.sqrt(399 / 400 * ((np.array(left) - np.mean(left)) ** 2).sum())
    assert (found.high - found.low) / 2 == pytest.approx(1.966 * se, rel=0.02)


@pytest.mark.parametrize("form", ["ratio", "entropy"])
def test_two_alike_models_are_told_apart_no_more_often_than_they_may_be(form):
    # Both models' losses are the units' own plus noise of their own: no model is better.
    rejected, runs = 0, 1_000
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        base = columns(form, seed)
        models = [
            MetricValues(base.above * rng.lognormal(0, 0.2, 400), base.below, base.extra, form)
            for _ in range(2)
        ]
        effect = compare(*models, EVERYONE, 0.05)
        assert not isinstance(effect, str)
        rejected += effect.p_value < 0.05
    assert abs(rejected / runs - 0.05) < 3 * math.sqrt(0.05 * 0.95 / runs)


def test_few_units_have_a_value_and_no_interval():
    given = columns("ratio")
    some = np.arange(400) < 20
    found = estimate(given, some, 0.05)
    assert (found.low, found.reason) == (None, "too_few_units")
    assert found.value is not None
    assert compare(given, given, some, 0.05) == "too_few_units"
    assert compare(given, given, EVERYONE, 0.05) == "zero_variance"
    nobody = np.zeros(400, dtype=bool)
    assert estimate(given, nobody, 0.05).reason == "no_units"


def one_request_each(values):
    """Rows of an evaluation: requests with one relevant item, at these places of a list of ten."""
    places = np.asarray(values)
    n = len(places)
    run = pd.DataFrame(
        {
            "request_id": np.repeat(np.arange(n), 10),
            "item_id": np.tile(np.arange(10), n),
            "score": np.tile(np.arange(10, 0, -1.0), n),
        }
    )
    truth = pd.DataFrame({"request_id": np.arange(n), "item_id": places - 1})
    metrics = ["hit@5", "recall@5", "precision@5", "ndcg@5[lin]"]
    rows = abeval.evaluate(run, truth, metrics=metrics).result.rows
    return {row.metric: row for row in rows}


@pytest.mark.parametrize(("place", "value"), [(100, 0.0), (1, 1.0)])
def test_what_does_not_vary_has_no_interval_of_no_width(place, value):
    rows = one_request_each([place] * 40)
    for name in ("recall@5", "ndcg@5[lin]", "precision@5"):
        row = rows[name]
        assert (row.low, row.high, row.reason) == (None, None, "zero_variance")
        assert row.value == pytest.approx(value / 5 if name == "precision@5" else value)
    # A hit is 0 or 1 by definition, so none of forty says something about others.
    hit = rows["hit@5"]
    wilson = proportion_confint(round(40 * value), 40, method="wilson")
    assert (hit.value, hit.reason) == (value, None)
    assert (hit.low, hit.high) == pytest.approx(wilson, abs=1e-9)


def test_few_hits_have_the_interval_of_a_share():
    rows = one_request_each([1] * 2 + [100] * 38)
    wilson = proportion_confint(2, 40, method="wilson")
    for name in ("hit@5", "recall@5"):
        assert (rows[name].low, rows[name].high) == pytest.approx(wilson, abs=1e-9)
    # Values other than 0 and 1 keep the delta method.
    assert rows["precision@5"].low < 0


def test_intervals_of_few_hits_cover_the_truth():
    """Of 40 requests with a true share of 5 %, the delta method covered it in 86 %."""
    rng, covered, runs = np.random.default_rng(3), 0, 1000
    for hits in rng.random((runs, 40)) < 0.05:
        found = estimate(
            MetricValues(hits.astype(float), np.ones(40), (), "ratio", True), EVERYONE[:40], 0.05
        )
        covered += found.low <= 0.05 <= found.high
    assert covered / runs > 0.93


def test_what_does_not_vary_can_be_compared_with_what_does():
    n = 60
    truth = pd.DataFrame({"request_id": np.arange(n), "item_id": 0})
    lists = {
        "request_id": np.repeat(np.arange(n), 10),
        "item_id": np.tile(np.arange(10), n),
        "score": np.tile(np.arange(10.0), n),
    }
    never = pd.DataFrame(lists)
    often = never.assign(score=np.random.default_rng(1).random(len(never)))
    runs = {"never": never, "often": often}
    result = abeval.evaluate(runs, truth, metrics=["recall@3"]).result
    first, _ = result.rows
    (pair,) = result.pairs
    assert first.reason == "zero_variance"
    assert pair.reason is None
    assert 0 < pair.low < pair.difference < pair.high


def test_a_jackknife_of_equal_values_has_no_interval():
    assert GroupValues(1.0, np.ones(64), 400.0).estimate(400, 0.05).reason == "zero_variance"
