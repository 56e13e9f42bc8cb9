"""Correlations of true effects, against dense matrices and what is exact without noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from abeval.stats import latent, latent_normal
from abeval.stats.arrays import Floats
from abeval.stats.records import Refusal
from benchmarks.calibration.history import Pair, drawn


def world(seed: int, experiments: int = 12) -> tuple[Floats, ...]:
    random = np.random.default_rng(seed)
    return drawn(Pair(0.6, 1.0, sizes=0.5), random, experiments)[:4]


def restricted(fitted: latent.Fit, node: int) -> float:
    """The likelihood of one node from one matrix of all estimates."""
    pairs, nodes = fitted.pairs, fitted.nodes
    n = len(pairs.x)
    between = nodes.correlation[node] * np.sqrt(nodes.x_variance[node] * nodes.y_variance[node])
    covariance = np.zeros((2 * n, 2 * n))
    for i in range(n):
        shared = between + pairs.shared[i]
        block = [
            [nodes.x_variance[node] + pairs.x_se[i] ** 2, shared],
            [shared, nodes.y_variance[node] + pairs.y_se[i] ** 2],
        ]
        covariance[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    z, design = np.ravel([pairs.x, pairs.y], order="F"), np.tile(np.eye(2), (n, 1))
    inverse = np.linalg.inv(covariance)
    known = design.T @ inverse @ design
    left = z - design @ np.linalg.solve(known, design.T @ inverse @ z)
    logs = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(known)[1]
    return float(-0.5 * (logs + left @ inverse @ left))


def test_the_likelihood_is_that_of_all_estimates_together() -> None:
    x, x_se, y, y_se = world(1)
    fitted = latent.fit(x, x_se, y, y_se, 0.4)
    for node in (0, 700, 2_345, len(fitted.weight) - 1):
        assert fitted.log_likelihood[node] == pytest.approx(restricted(fitted, node), abs=1e-8)


def test_without_an_experiment_the_likelihood_is_that_of_the_others() -> None:
    x, x_se, y, y_se = world(2)
    fitted, rest = latent.fit(x, x_se, y, y_se), latent.fit(x[1:], x_se[1:], y[1:], y_se[1:])
    whole = latent_normal.sums_of(fitted.nodes, fitted.pairs)
    first = latent_normal.chosen(fitted.pairs, slice(0, 1))
    left = latent_normal.restricted(whole - latent_normal.sums_of(fitted.nodes, first))
    direct = latent_normal.restricted(latent_normal.sums_of(fitted.nodes, rest.pairs))
    assert left == pytest.approx(direct, abs=1e-8)


def test_held_out_predictions_are_those_of_a_fit_without_the_experiment() -> None:
    x, x_se, y, y_se = world(3)
    held_out = latent.held_out(latent.fit(x, x_se, y, y_se))
    rest = latent.fit(x[1:], x_se[1:], y[1:], y_se[1:])
    # P(above zero) is half where the prediction is: move the targets until it is.
    predicted = held_out.predicted[0]
    moved = latent.fit(x[1:], x_se[1:], y[1:] - predicted, y_se[1:])
    assert latent.chance_positive(moved, x[0], x_se[0]) == pytest.approx(0.5, abs=0.05)
    assert len(rest.weight) == len(moved.weight)


def test_variants_of_one_experiment_are_left_out_together() -> None:
    x, x_se, y, y_se = (np.repeat(column, 2) for column in world(4))
    apart = latent.held_out(latent.fit(x, x_se, y, y_se))
    groups = np.repeat(np.arange(12), 2)
    together = latent.held_out(latent.fit(x, x_se, y, y_se, groups=groups))
    # A twin in the fit knows the answer.
    assert np.mean((y - apart.without) ** 2) < np.mean((y - together.without) ** 2)


@pytest.mark.parametrize("experiments", [6, 15, 60])
def test_without_noise_the_interval_ends_where_the_t_test_does(experiments: int) -> None:
    df = experiments - 2
    t = scipy_stats.t.ppf(0.975, df)
    wanted = t / np.sqrt(df + t * t)
    random = np.random.default_rng(experiments)
    one, other = random.standard_normal((2, experiments))
    one, other = one - one.mean(), other - other.mean()
    other -= one * (one @ other) / (one @ one)
    y = wanted * one / np.linalg.norm(one) + np.sqrt(1 - wanted**2) * other / np.linalg.norm(other)
    found = latent.correlation(latent.fit(one, [1e-3] * experiments, y, [1e-3] * experiments))
    assert found.naive == pytest.approx(wanted)
    assert found.low == pytest.approx(0, abs=0.03)
    # Of few experiments the likelihood is highest a little nearer to zero.
    assert 0.8 * wanted < found.value < wanted + 0.01


@pytest.mark.parametrize(("experiments", "seed"), [(5, 1), (6, 3), (8, 4), (20, 5)])
def test_without_noise_the_slope_is_that_of_least_squares(experiments: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, error = rng.standard_normal((2, experiments))
    line = scipy_stats.linregress(x, 0.3 * x + error)
    half = scipy_stats.t.ppf(0.975, experiments - 2) * line.stderr
    fitted = latent.fit(x + 3, [1e-3] * experiments, 0.3 * x + error, [1e-3] * experiments)
    slope = latent.slope(fitted)
    assert slope.naive == pytest.approx(line.slope)
    assert slope.value == pytest.approx(line.slope, abs=0.02 * half)
    assert (slope.low, slope.high) == pytest.approx(
        (line.slope - half, line.slope + half), abs=0.05 * half
    )


def test_a_steep_slope_without_a_bound_is_endless() -> None:
    x, y = [0.01, -0.02, 0.03, 0.0, 0.01, -0.01], [0.5, -1.1, 1.4, 0.1, 0.4, -0.6]
    predictions = latent.slope(latent.fit(x, [0.02] * 6, y, [0.01] * 6))
    assert predictions.high == np.inf or predictions.low == -np.inf
    flat = latent.slope(latent.fit([0.0] * 6, [0.02] * 6, y, [0.01] * 6))
    assert flat.naive == 0
    assert (flat.low, flat.high) == (-np.inf, np.inf)


def test_an_estimate_is_as_precise_as_its_error_and_the_true_effects_allow() -> None:
    rng = np.random.default_rng(1)
    y_se = rng.uniform(0.1, 3, 150)
    y = rng.normal(0, 2, 150) + rng.normal(0, y_se)
    predictions = latent.held_out(latent.fit(rng.normal(0, 1, 150), [0.5] * 150, y, y_se))
    true = 1 / predictions.precision - y_se**2
    assert true == pytest.approx(np.full(150, true[0]))
    assert true[0] == pytest.approx(4, rel=0.3)


def test_a_gain_is_what_the_prediction_is_nearer_less_what_the_errors_share() -> None:
    x, x_se, y, y_se = world(7)
    fitted = latent.fit(x, x_se, y, y_se, 0.5)
    predictions = latent.held_out(fitted)
    pairs = fitted.pairs
    nearer = (y - predictions.without) ** 2 - (y - predictions.predicted) ** 2
    for i in (0, 5):
        # How much its own estimate on x moves a prediction.
        moved = pairs._replace(x=pairs.x + (np.arange(12) == i))
        pull = latent.held_out(fitted._replace(pairs=moved)).predicted[i] - predictions.predicted[i]
        wanted = predictions.precision[i] * (nearer[i] - 2 * pull * 0.5 * x_se[i] * y_se[i])
        assert predictions.gain[i] == pytest.approx(wanted)
        assert abs(pull) > 0.005


def test_a_curve_is_followed_down_to_its_bound() -> None:
    at = np.linspace(0.0, 10.0, 11)
    assert latent._within(at, -np.abs(at - 4), 1.5) == pytest.approx((4.0, 2.5, 5.5))
    for top in (0.7, 4.3, 9.4):
        best, low, high = latent._within(at, -((at - top) ** 2), 1e9)
        assert (best, low, high) == pytest.approx((top, 0.0, 10.0))
    for top in (0.0, 10.0):
        assert latent._within(at, -np.abs(at - top), 2.5) == pytest.approx(
            (top, max(top - 2.5, 0.0), min(top + 2.5, 10.0))
        )
    # At the ends a curve may have fallen by just less, or just more.
    for bound, ends in (
        (3.5, (0.5, 7.5)),
        (4.0, (0.0, 8.0)),
        (5.5, (0.0, 9.5)),
        (6.5, (0.0, 10.0)),
    ):
        assert latent._within(at, -np.abs(at - 4), bound) == pytest.approx((4.0, *ends))


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e-5, 1.0), (1.0, 1e-5), (1e4, 1e-4)])
def test_units_do_not_matter(x_scale: float, y_scale: float) -> None:
    x, x_se, y, y_se = world(5)
    plain = latent.fit(x, x_se, y, y_se, 0.2)
    scaled = latent.fit(x * x_scale, x_se * x_scale, y * y_scale, y_se * y_scale, 0.2)
    assert latent.correlation(scaled) == pytest.approx(latent.correlation(plain))
    slopes = np.array(latent.slope(plain)) * y_scale / x_scale
    assert latent.slope(scaled) == pytest.approx(tuple(slopes))
    assert latent.held_out(scaled).gain == pytest.approx(latent.held_out(plain).gain)


def test_many_experiments_in_small_units_are_fitted() -> None:
    x, x_se, y, y_se = world(8, 60)
    plain = latent.correlation(latent.fit(x, x_se, y, y_se))
    for scale in (1e-7, 1e7):
        scaled = latent.fit(x * scale, x_se * scale, y * scale, y_se * scale)
        assert latent.correlation(scaled) == pytest.approx(plain)


def test_turning_one_metric_turns_the_correlation() -> None:
    x, x_se, y, y_se = world(6)
    plain = latent.correlation(latent.fit(x, x_se, y, y_se, 0.3))
    turned = latent.correlation(latent.fit(-x, x_se, y, y_se, -0.3))
    assert (-turned.high, -turned.low) == pytest.approx((plain.low, plain.high))
    assert -turned.value == pytest.approx(plain.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x": [1, 2, 3, 4]}, "inconsistent"),
        ({"y_se": [1, 1, 1, 1, 0]}, "zero_variance"),
        ({"shared": 1.0}, "not_applicable"),
        ({"x": [1, 2, 3, 4, np.inf]}, "not_finite"),
        ({"groups": [1, 1, 2, 3, 4]}, "too_few_units"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes: dict[str, object], reason: str) -> None:
    pairs = {"x": [1, 2, 3, 4, 5], "x_se": [1] * 5, "y": [1, 2, 1, 2, 1], "y_se": [1] * 5}
    with pytest.raises(Refusal) as refused:
        latent.fit(**{**pairs, **changes})
    assert refused.value.reason == reason
