"""Correlations of true effects: what is exact without noise, and what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from abeval.stats import latent
from abeval.stats.records import Floats, Refusal
from tests.worlds.effects import Pair, drawn


def world(seed: int, experiments: int = 12) -> tuple[Floats, ...]:
    random = np.random.default_rng(seed)
    return drawn(Pair(0.6, 1.0, sizes=0.5), random, experiments)[:4]


def test_without_noise_and_without_an_association_there_is_none() -> None:
    x = np.repeat([-1.0, 1.0, -1.0, 1.0], 5)
    y = np.repeat([-1.0, -1.0, 1.0, 1.0], 5)
    outcome = latent.correlation(latent.fit(x, [1e-6] * 20, y, [1e-6] * 20))
    assert outcome.value == pytest.approx(0, abs=1e-6)
    assert outcome.p_value == pytest.approx(1)
    assert -outcome.low == pytest.approx(outcome.high)
    # The test of a correlation of twenty normal pairs ends at .444.
    assert outcome.high == pytest.approx(0.444, abs=0.05)


def test_the_noise_is_taken_out_of_moments() -> None:
    fitted = latent.fit(*drawn(Pair(0.5, 1.0), np.random.default_rng(1), 4_000)[:4])
    assert fitted.total == pytest.approx((1, 0.5, 1), abs=0.1)
    assert latent.correlation(fitted).value == pytest.approx(0.5, abs=0.05)
    assert sum(fitted.parts.xy) == pytest.approx(fitted.total.xy)


def test_noise_that_both_metrics_share_is_taken_out() -> None:
    random = np.random.default_rng(2)
    x, y = random.multivariate_normal([0, 0], [[2.0, 0.8], [0.8, 2.0]], 4_000).T
    # Of the covariance .8, .5 is noise: true effects of variance 1 have a slope of .3.
    one, shared = np.ones(4_000), np.full(4_000, 0.5)
    fitted = latent.fit(x, one, y, one, noise=shared)
    slope = latent.slope(fitted)
    assert slope.low < 0.3 < slope.high
    assert latent.slope(latent.fit(x, one, y, one)).low > 0.6
    # A prediction from noise that is in its target too must not look better than it is.
    alone = random.multivariate_normal([0, 0], [[2.0, 0.5], [0.5, 2.0]], 4_000).T
    none = latent.fit(alone[0], one, alone[1], one, noise=shared)
    assert abs(latent.held_out(none).gain.mean()) < 0.01


def test_an_interval_leaves_zero_where_the_p_value_is_alpha() -> None:
    fitted = latent.fit(*world(11, 40))
    for read in (latent.correlation, latent.slope):
        p_value = read(fitted).p_value
        assert read(fitted, alpha=p_value).low == pytest.approx(0, abs=0.02)
        assert read(fitted, alpha=p_value * 2).low > 0 > read(fitted, alpha=p_value / 2).low


def test_few_experiments_that_carry_all_say_little() -> None:
    random = np.random.default_rng(2)
    pairs = random.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=60)
    few = pairs * np.where(np.arange(60) < 4, 4.0, 0.01)[:, None]
    many, sparse = (
        latent.correlation(latent.fit(one[:, 0], [0.05] * 60, one[:, 1], [0.05] * 60))
        for one in (pairs, few)
    )
    assert many.low > 0.7
    assert sparse.value > 0.6
    assert sparse.low < 0


def test_a_correlation_that_is_all_noise_is_not_known() -> None:
    random = np.random.default_rng(3)
    x, y = 0.9 * random.standard_normal((2, 12))
    outcome = latent.correlation(latent.fit(x, np.ones(12), y, np.ones(12)))
    assert (outcome.low, outcome.high) == (-1, 1)


def test_held_out_predictions_do_not_know_the_experiment() -> None:
    x, x_se, y, y_se = world(3)
    plain = latent.held_out(latent.fit(x, x_se, y, y_se))
    other = y.copy()
    other[0] += 0.5
    moved = latent.held_out(latent.fit(x, x_se, other, y_se))
    assert (
        abs(moved.predicted[0] - plain.predicted[0])
        < 0.1 * np.abs(moved.predicted[1:] - plain.predicted[1:]).sum()
    )
    assert moved.without[0] == pytest.approx(plain.without[0], abs=0.02)


def test_variants_of_one_experiment_are_left_out_together() -> None:
    x, x_se, y, y_se = (np.repeat(column, 2) for column in world(4))
    apart = latent.held_out(latent.fit(x, x_se, y, y_se))
    groups = np.repeat(np.arange(12), 2)
    together = latent.held_out(latent.fit(x, x_se, y, y_se, groups=groups))
    # A twin in the fit knows the answer.
    assert np.mean((y - apart.without) ** 2) < np.mean((y - together.without) ** 2)


@pytest.mark.parametrize("experiments", [6, 15, 60])
def test_without_noise_correlation_and_slope_are_the_plain_ones(experiments: int) -> None:
    rng = np.random.default_rng(experiments)
    x, error = rng.standard_normal((2, experiments))
    y = 0.3 * x + error
    line = scipy_stats.linregress(x, y)
    fitted = latent.fit(x + 3, [1e-4] * experiments, y, [1e-4] * experiments)
    correlation, slope = latent.correlation(fitted), latent.slope(fitted)
    assert correlation.naive == pytest.approx(line.rvalue)
    assert correlation.value == pytest.approx(line.rvalue, abs=1e-5)
    assert slope.naive == pytest.approx(line.slope)
    assert slope.value == pytest.approx(line.slope, abs=1e-5)
    half = scipy_stats.t.ppf(0.975, experiments - 2) * line.stderr
    assert slope.low < line.slope < slope.high
    if experiments == 60:
        assert slope.high - slope.low == pytest.approx(2 * half, rel=0.25)


def test_a_steep_slope_without_a_bound_is_endless() -> None:
    x, y = [0.01, -0.02, 0.03, 0.0, 0.01, -0.01], [0.5, -1.1, 1.4, 0.1, 0.4, -0.6]
    predictions = latent.slope(latent.fit(x, [0.02] * 6, y, [0.01] * 6))
    assert predictions.high == np.inf or predictions.low == -np.inf


def test_an_estimate_is_as_precise_as_its_error_and_the_true_effects_allow() -> None:
    rng = np.random.default_rng(1)
    y_se = rng.uniform(0.1, 3, 150)
    y = rng.normal(0, 2, 150) + rng.normal(0, y_se)
    predictions = latent.held_out(latent.fit(rng.normal(0, 1, 150), [0.5] * 150, y, y_se))
    true = 1 / predictions.precision - y_se**2
    assert true == pytest.approx(np.full(150, true[0]))
    assert true[0] == pytest.approx(4, rel=0.3)


def test_a_gain_is_what_the_prediction_is_nearer() -> None:
    x, x_se, y, y_se = world(7)
    predictions = latent.held_out(latent.fit(x, x_se, y, y_se))
    nearer = (y - predictions.without) ** 2 - (y - predictions.predicted) ** 2
    assert predictions.gain == pytest.approx(predictions.precision * nearer)


def test_a_curve_is_followed_to_where_it_crosses_zero() -> None:
    at = np.linspace(0.0, 10.0, 11)
    assert latent._find_crossing(at, 4.25 - at) == pytest.approx(4.25)
    assert latent._find_crossing(at, np.abs(at - 4.25) - 1) == pytest.approx(3.25)
    assert latent._find_crossing(at, at - 1) == 0
    assert latent._find_crossing(at, at + 1) == 10


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e-5, 1.0), (1.0, 1e-5), (1e4, 1e-4)])
def test_units_do_not_matter(x_scale: float, y_scale: float) -> None:
    x, x_se, y, y_se = world(5)
    plain = latent.fit(x, x_se, y, y_se)
    scaled = latent.fit(x * x_scale, x_se * x_scale, y * y_scale, y_se * y_scale)
    assert latent.correlation(scaled) == pytest.approx(latent.correlation(plain))
    slopes = np.array(latent.slope(plain)[:4]) * y_scale / x_scale
    assert latent.slope(scaled)[:4] == pytest.approx(tuple(slopes))
    assert latent.held_out(scaled).gain == pytest.approx(latent.held_out(plain).gain)


def test_many_experiments_in_small_units_are_fitted() -> None:
    x, x_se, y, y_se = world(8, 60)
    plain = latent.correlation(latent.fit(x, x_se, y, y_se))
    for scale in (1e-7, 1e7):
        scaled = latent.fit(x * scale, x_se * scale, y * scale, y_se * scale)
        assert latent.correlation(scaled) == pytest.approx(plain)


def test_turning_one_metric_turns_the_correlation() -> None:
    x, x_se, y, y_se = world(6)
    plain = latent.correlation(latent.fit(x, x_se, y, y_se))
    turned = latent.correlation(latent.fit(-x, x_se, y, y_se))
    assert (-turned.high, -turned.low) == pytest.approx((plain.low, plain.high))
    assert -turned.value == pytest.approx(plain.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x": [1, 2, 3, 4]}, "inconsistent"),
        ({"y_se": [1, 1, 1, 1, 0]}, "zero_variance"),
        ({"x": [1] * 5}, "zero_variance"),
        ({"y": [1] * 5}, "zero_variance"),
        ({"x": [1, 2, 3, 4, np.inf]}, "not_finite"),
        ({"groups": [1, 1, 2, 3, 4]}, "too_few_units"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes: dict[str, object], reason: str) -> None:
    pairs = {"x": [1, 2, 3, 4, 5], "x_se": [1] * 5, "y": [1, 2, 1, 2, 1], "y_se": [1] * 5}
    with pytest.raises(Refusal) as refused:
        latent.fit(**{**pairs, **changes})
    assert refused.value.reason == reason
