"""Intervals of offline metrics: A/A splits reject at their level, derivatives are right."""

import math

import numpy as np
import pytest

from abeval.offline.estimates.inference import Columns, compare, estimate, smooth
from abeval.stats.moments import Moments

EVERYONE = np.ones(400, dtype=bool)


def columns(form, seed=1, n=400):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 30, n).astype(float)
    skill = rng.beta(2, 8, n)
    clicks = rng.binomial(rows.astype(int), skill).astype(float)
    loss = rows * rng.uniform(0.2, 0.6, n)
    return Columns(loss, rows, clicks if form in ("entropy", "information") else None, form)


@pytest.mark.parametrize("form", ["ratio", "root", "total", "entropy", "information"])
def test_the_derivative_of_every_form_is_its_slope(form):
    given = columns(form)
    mean = Moments.of(*given.stacked(EVERYONE)).mean
    at = smooth(form, 0, 1, 2, 400)
    _, slope = at(mean)
    for i in range(mean.size):
        step = np.zeros(mean.size)
        step[i] = 1e-6 * mean[i]
        numeric = (at(mean + step)[0] - at(mean - step)[0]) / (2 * step[i])
        assert slope[i] == pytest.approx(numeric, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("form", ["ratio", "root", "entropy", "information"])
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
            Columns(base.above * rng.lognormal(0, 0.2, 400), base.below, base.clicks, form)
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
