import math
from collections.abc import Callable

import numpy as np
import pytest
import statsmodels.api as sm
from reference_vectors import vector
from scipy import stats

from abeval.stats import stability
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def test_vector_novelty_contrast() -> None:
    v = vector("novelty_contrast")
    i = v.inputs
    found = stability.contrast(i["delta"], i["sigma"], i["contrast"])
    assert found.difference == pytest.approx(v.expected["estimate"], abs=v.tol)
    assert found.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert found.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    same = stability.novelty(i["delta"], i["sigma"], windows=2)
    assert same.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert (same.control, same.treatment) == pytest.approx((0.46, 0.29))


def random_case(seed: int, days: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(days, days)) * 0.1 + np.eye(days)
    return rng.normal(size=days), root @ root.T


@pytest.mark.parametrize("seed", range(8))
def test_gls_is_statsmodels(seed: int) -> None:
    effect, sigma = random_case(seed, 3 + seed)
    times = np.cumsum(np.random.default_rng(seed).random(len(effect)))
    trend = sm.GLS(effect, sm.add_constant(times), sigma=sigma).fit(cov_type="nonrobust")
    found = stability.gls(effect, sigma, times)
    assert (found.intercept, found.slope) == pytest.approx(trend.params, rel=1e-9)
    inverse = np.linalg.inv(sigma)
    design = sm.add_constant(times)
    known = np.linalg.inv(design.T @ inverse @ design)
    assert found.slope_se == pytest.approx(math.sqrt(known[1, 1]), rel=1e-9)
    mean = sm.GLS(effect, np.ones(len(effect)), sigma=sigma).fit().params[0]
    assert found.mean == pytest.approx(mean, rel=1e-9)
    q = (effect - mean) @ inverse @ (effect - mean)
    assert found.q == pytest.approx(q, rel=1e-9)
    assert found.q_p_value == pytest.approx(stats.chi2.sf(q, len(effect) - 1), rel=1e-9)
    assert found.slope_p_value == pytest.approx(2 * stats.norm.sf(abs(found.z)), rel=1e-9)


def test_days_treated_as_independent_give_another_answer() -> None:
    v = vector("novelty_contrast")
    sigma = np.array(v.inputs["sigma"])
    full = stability.gls(v.inputs["delta"], sigma)
    independent = stability.gls(v.inputs["delta"], np.diag(np.diag(sigma)))
    assert full.slope_p_value < independent.slope_p_value
    assert abs(full.z - independent.z) > 0.1


def test_dates_as_large_numbers_change_nothing_but_the_intercept() -> None:
    effect, sigma = random_case(1, 6)
    plain = stability.gls(effect, sigma)
    shifted = stability.gls(effect, sigma, np.arange(6) + 1e7)
    assert shifted.slope == pytest.approx(plain.slope, rel=1e-9)
    assert shifted.slope_se == pytest.approx(plain.slope_se, rel=1e-9)


def test_covariance_of_daily_differences() -> None:
    rng = np.random.default_rng(2)
    control, treatment = rng.poisson(2, size=(5, 80)), rng.poisson(2, size=(5, 40))
    found = stability.covariance(Moments.of(*control), Moments.of(*treatment))
    assert found == pytest.approx(np.cov(control) / 80 + np.cov(treatment) / 40, abs=1e-12)


def test_stable_effects_of_returning_users_hold_their_level() -> None:
    rng, runs = np.random.default_rng(3), 500
    p = []
    for _ in range(runs):
        arms = []
        for effect in (0.0, 0.4):
            habit = rng.gamma(1.0, 1.0, 400)
            days = rng.poisson(habit + effect, size=(5, 400))
            arms.append(Moments.of(*days))
        delta = arms[1].mean - arms[0].mean
        found = stability.gls(delta, stability.covariance(*arms))
        p.append((found.slope_p_value, found.q_p_value))
    rates = np.mean(np.array(p) <= 0.05, axis=0)
    assert np.all(np.abs(rates - 0.05) <= 3 * math.sqrt(0.05 * 0.95 / runs))


SIGMA = np.eye(3)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: stability.gls([0.1], [[1.0]]), "too_few_units"),
        (lambda: stability.gls([0.1, 0.2, 0.3], np.ones((3, 3))), "zero_variance"),
        (lambda: stability.gls([0.1, 0.2, 0.3], SIGMA * [1, 1, 0]), "zero_variance"),
        (lambda: stability.gls([0.1, 0.2], SIGMA), "not_applicable"),
        (lambda: stability.gls([0.1, 0.2, math.nan], SIGMA), "not_finite"),
        (lambda: stability.gls([0.1, 0.2, 0.3], SIGMA, [1, 1, 1]), "not_applicable"),
        (lambda: stability.contrast([0.1, 0.2, 0.3], SIGMA * 0, [1, -1, 0]), "zero_variance"),
        (lambda: stability.contrast([0.1, 0.2, 0.3], SIGMA, [1, -1]), "not_applicable"),
        (lambda: stability.novelty([0.1, 0.2, 0.3], SIGMA, 2), "too_few_units"),
        (
            lambda: stability.covariance(Moments.of([1, 2]), Moments.of([1, 2], [1, 3])),
            "not_applicable",
        ),
        (lambda: stability.covariance(Moments.of([1]), Moments.of([1, 2])), "too_few_units"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


def test_two_windows_have_a_trend() -> None:
    trend = stability.gls([1.0, 3.0], np.diag([0.25, 0.75]), [2.0, 4.0])
    assert (trend.slope, trend.intercept) == pytest.approx((1.0, -1.0))
    assert trend.slope_se == pytest.approx(math.sqrt(1.0) / 2)
    assert trend.df == 1
    # Both halves may be compared, and one window is not a time before and after.
    change = stability.novelty([1.0, 3.0], np.diag([0.25, 0.75]), 1)
    assert (change.difference, change.se) == (2.0, 1.0)
    with pytest.raises(Refusal) as refused:
        stability.novelty([1.0, 3.0], np.diag([0.25, 0.75]), 0)
    assert refused.value.reason == "too_few_units"


def test_four_windows_have_two_early_and_two_late() -> None:
    late = stability.novelty([1.0, 2.0, 5.0, 8.0], np.eye(4), 2)
    assert (late.control, late.treatment, late.difference) == (1.5, 6.5, 5.0)
    assert late == stability.novelty([1.0, 2.0, 5.0, 8.0], np.eye(4), 2, 0.05)
    weights = [-0.5, -0.5, 0.5, 0.5]
    assert late == stability.contrast([1.0, 2.0, 5.0, 8.0], np.eye(4), weights)
    assert late == stability.contrast([1.0, 2.0, 5.0, 8.0], np.eye(4), weights, 0.05)


@pytest.mark.parametrize(
    "call",
    [
        lambda: stability.contrast([0.1, 0.2], np.eye(2), [1.0, math.nan]),
        lambda: stability.gls([0.1, 0.2], np.eye(2), [1.0, 2.0, 3.0]),
        lambda: stability.gls([[0.1, 0.2]], np.eye(1)),
    ],
)
def test_shapes_that_differ_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == "not_applicable"
