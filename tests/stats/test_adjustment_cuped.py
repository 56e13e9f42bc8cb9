import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference_vectors import quick, vector
from scipy import stats
from test_means import arms

from abeval.stats import adjustment, effects, means
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from tests.leave_one_out import Known, moves, t_test

units = st.integers(8, 40).flatmap(
    lambda n: arrays(np.float64, (3, n), elements=st.floats(-50, 50, width=32))
)


def test_vector_cuped_mean_pooled_theta() -> None:
    v = vector("cuped_mean_pooled_theta")
    a = adjustment.cuped_mean(*arms("dwell", "pre_dwell"))
    assert a.theta == pytest.approx([v.expected["theta"]], abs=v.tol)
    assert a.effect.control == pytest.approx(v.expected["control"], abs=v.tol)
    assert a.effect.treatment == pytest.approx(v.expected["treatment"], abs=v.tol)
    assert a.effect.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert a.effect.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert a.effect.statistic == pytest.approx(v.expected["t"], abs=v.tol)
    assert a.effect.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert (a.effect.low, a.effect.high) == pytest.approx(v.expected["ci"], abs=v.tol)
    assert a.variance_removed == pytest.approx(v.expected["variance_reduction"], abs=v.tol)
    raw = means.welch(*arms("dwell"))
    assert a.variance_removed == pytest.approx(1 - (a.effect.se / raw.se) ** 2, rel=1e-12)


def test_vector_cuped_multi() -> None:
    v = vector("cuped_multi")
    a = adjustment.cuped_mean(*arms("dwell", "pre_dwell", "pre_clicks"))
    assert a.theta == pytest.approx(v.expected["beta"], abs=v.tol)
    assert a.effect.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert a.effect.p_value == pytest.approx(v.expected["p"], abs=v.tol)


def test_vector_cuped_relative() -> None:
    v = vector("cuped_relative")
    a = adjustment.cuped_mean(*arms("dwell", "pre_dwell"))
    lift = effects.delta_adjusted(a)
    assert lift.value == pytest.approx(v.expected["rel"], abs=v.tol)
    half = (lift.high - lift.low) / 2
    se = half / two_sided_quantile(0.05, a.effect.df)
    assert se == pytest.approx(v.expected["se"], abs=v.tol)


def with_past_ratio(arm: Moments) -> Moments:
    """Moments of (numerator, denominator, linearised ratio of the third and fourth variable)."""
    rows = np.vstack([np.eye(4)[:2], means.differentiate_ratio(arm.mean, 2, 3)])
    mean = np.array([*arm.mean[:2], arm.mean[2] / arm.mean[3]])
    return Moments(arm.n, mean, rows @ arm.comoment @ rows.T)


def test_vector_cuped_ratio_gbstats() -> None:
    v = vector("cuped_ratio_gbstats")
    pair = arms("clicks", "impressions", "pre_clicks", "pre_impressions")
    a = adjustment.cuped_ratio(*map(with_past_ratio, pair), theta=[v.expected["theta"]])
    assert a.effect.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert a.effect.se == pytest.approx(v.expected["se"], abs=v.tol)
    at = a.treatment._replace(value=a.control.value + a.effect.difference)
    lift = effects.delta_adjusted(a._replace(treatment=at))
    assert lift.value == pytest.approx(v.expected["rel"], abs=v.tol)
    se = (lift.high - lift.low) / 2 / two_sided_quantile(0.05, a.effect.df)
    assert se == pytest.approx(v.expected["rel_se"], abs=v.tol)


def test_ratio_is_cuped_on_linearised_values() -> None:
    pair = arms("clicks", "impressions", "pre_clicks")
    a = adjustment.cuped_ratio(*pair)
    whole = pair[0] + pair[1]
    covariance = whole.covariance
    theta = means.differentiate_ratio(whole.mean, 0, 1) @ covariance[:, 2] / covariance[2, 2]
    assert a.theta == pytest.approx([theta], rel=1e-12)
    pair = tuple(map(means.correct_leverage, pair))
    raw = means.delta(*pair)
    assert a.variance_removed == pytest.approx(1 - (a.effect.se / raw.se) ** 2, rel=1e-12)
    variances = []
    for m in pair:
        g = means.differentiate_ratio(m.mean, 0, 1) - theta * np.eye(3)[2]
        variances.append(g @ m.covariance @ g / m.n)
    assert a.effect.se == pytest.approx(math.sqrt(sum(variances)), rel=1e-12)


@quick
@given(units, units)
def test_d11_variance_is_that_of_the_adjusted_values_of_each_variant(
    c: np.ndarray, t: np.ndarray
) -> None:
    whole = np.concatenate([c, t], axis=1)
    covariance = np.cov(whole)
    scale = np.sqrt(np.diag(covariance))
    assume(scale.min() > 1e-2 and min(np.std(c[0]), np.std(t[0])) > 1e-2)
    assume(abs(covariance[1, 2]) < 0.99 * scale[1] * scale[2])
    theta = np.linalg.solve(covariance[1:, 1:], covariance[1:, 0])
    adjusted = [a[0] - theta @ (a[1:] - whole[1:].mean(axis=1)[:, None]) for a in (c, t)]
    assume(all(np.std(a) > 1e-2 for a in adjusted))
    found = adjustment.cuped_mean(Moments.of(*c), Moments.of(*t)).effect
    reference = stats.ttest_ind(adjusted[1], adjusted[0], equal_var=False)
    assert found.p_value == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-9)
    assert found.df == pytest.approx(reference.df, rel=1e-6)
    ends = reference.confidence_interval()
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-6, abs=1e-6)


def test_a_covariate_that_says_nothing_changes_nothing() -> None:
    y, constant = [1.0, 4.0, 2.0, 8.0], [0.1] * 4
    raw = means.welch(Moments.of(y), Moments.of(y[::-1]) + Moments.of([3, 3]))
    a = adjustment.cuped_mean(
        Moments.of(y, constant), Moments.of(y[::-1], constant) + Moments.of([3, 3], [0.1, 0.1])
    )
    assert a.theta == (0.0,)
    assert a.variance_removed == 0
    assert a.effect[:-1] == pytest.approx(raw[:-1], rel=1e-12)


def test_a_covariate_twice_is_the_covariate_once() -> None:
    once = adjustment.cuped_mean(*arms("dwell", "pre_dwell"))
    twice = adjustment.cuped_mean(*arms("dwell", "pre_dwell", "pre_dwell"))
    assert twice.effect[:-1] == pytest.approx(once.effect[:-1], rel=1e-9)
    assert sum(twice.theta) == pytest.approx(once.theta[0], rel=1e-9)


def test_a_covariate_that_is_the_metric_leaves_no_error_to_test_with() -> None:
    with pytest.raises(Refusal) as refusal:
        adjustment.cuped_mean(*arms("dwell", "dwell"))
    assert refusal.value.reason == "zero_variance"


def test_units_without_a_pre_period_are_a_stratum_of_their_own() -> None:
    rng = np.random.default_rng(3)
    known = rng.random(4000) < 0.6
    x = np.where(known, rng.normal(50, 10, 4000), np.nan)
    y = np.where(known, np.nan_to_num(x) + rng.normal(0, 2, 4000), rng.normal(20, 2, 4000))
    treated = rng.random(4000) < 0.5
    value, missing = np.nan_to_num(x), np.isnan(x)
    pair = [Moments.of(y[a], value[a], missing[a]) for a in (~treated, treated)]
    a = adjustment.cuped_mean(*pair)
    # The slope is that of the units that have one; the indicator's is what new units lack.
    slope = np.polyfit(x[known], y[known], 1)
    assert a.theta[0] == pytest.approx(slope[0], rel=1e-9)
    assert a.theta[1] == pytest.approx(y[~known].mean() - slope[1], rel=1e-9)
    zeros = adjustment.cuped_mean(*(m.pick(0, 1) for m in pair))
    assert a.effect.se < 0.8 * zeros.effect.se


def test_ratio_with_plain_covariates_and_a_constant_denominator_is_the_mean() -> None:
    c, t = arms("dwell", "pre_dwell")
    ones = [np.ones(24), np.ones(26)]
    treated_ratio = [
        Moments(
            m.n,
            np.array([m.mean[0], 1.0, m.mean[1]]),
            np.array(
                [
                    [m.comoment[0, 0], 0, m.comoment[0, 1]],
                    [0, 0, 0],
                    [m.comoment[1, 0], 0, m.comoment[1, 1]],
                ]
            ),
        )
        for m, _ in zip((c, t), ones, strict=True)
    ]
    found, plain = adjustment.cuped_ratio(*treated_ratio), adjustment.cuped_mean(c, t)
    assert found.effect[:-1] == pytest.approx(plain.effect[:-1], rel=1e-12)
    assert found.theta == pytest.approx(plain.theta)


def test_swapping_arms_negates() -> None:
    c, t = arms("dwell", "pre_dwell")
    one, other = adjustment.cuped_mean(c, t), adjustment.cuped_mean(t, c)
    assert one.effect.difference == pytest.approx(-other.effect.difference, rel=1e-12)
    assert one.effect.p_value == pytest.approx(other.effect.p_value, rel=1e-12)
    assert one.theta == pytest.approx(other.theta)


def test_fieller_of_the_adjusted_lift_agrees_with_the_adjusted_test() -> None:
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(200):
        x = rng.gamma(2, 5, (2, 30))
        y = x + rng.normal(0, 3, (2, 30)) + np.array([[0.0], [1.5]])
        a = adjustment.cuped_mean(Moments.of(y[0], x[0]), Moments.of(y[1], x[1]))
        lift = effects.fieller_adjusted(a)
        rejects = a.effect.p_value < 0.05
        assert (lift.low > 0 or lift.high < 0) == rejects
        seen.add(rejects)
    assert seen == {True, False}


@pytest.mark.slow
def test_covariance_with_the_control_is_what_repetitions_show() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(10, 2, (3000, 2, 50))
    y = x + rng.normal(0, 2, x.shape)
    results = [
        adjustment.cuped_mean(Moments.of(y[i, 0], x[i, 0]), Moments.of(y[i, 1], x[i, 1]))
        for i in range(3000)
    ]
    differences = [a.effect.difference for a in results]
    controls = [a.control.value for a in results]
    seen = np.cov(differences, controls)[0, 1]
    assert np.mean([a.covariance for a in results]) == pytest.approx(seen, rel=0.15)


@pytest.mark.parametrize("few", [Moments.of([1.0], [2.0]), Moments.of([], [])])
def test_too_few_units_are_refused(few: Moments) -> None:
    several = Moments.of([1, 2, 4], [3, 4, 7])
    for pair in ((few, several), (several, few)):
        with pytest.raises(Refusal) as refusal:
            adjustment.cuped_mean(*pair)
        assert refusal.value.reason == "too_few_units"


def test_a_ratio_without_denominator_is_refused() -> None:
    m = Moments.of([1, 2, 3], [0, 0, 0], [4, 5, 6])
    with pytest.raises(Refusal) as refusal:
        adjustment.cuped_ratio(m, m)
    assert refusal.value.reason == "zero_denominator"


def lines(columns: np.ndarray) -> np.ndarray:
    """The ratio linearised at its own means, the other columns as they are."""
    m = columns.mean(axis=1)
    ratio = m[0] / m[1]
    return np.array([ratio + (columns[0] - ratio * columns[1]) / m[1], *columns[2:]])


@pytest.mark.parametrize("covariates", [1, 2, 4])
def test_a_ratio_is_adjusted_by_all_covariates_together(covariates: int) -> None:
    rng = np.random.default_rng(10 + covariates)
    arms_ = []
    for units_ in (40, 70):
        active = rng.gamma(4, 1, units_)
        counts = [rng.poisson(active * rate) for rate in (1, 5)]
        arms_.append(
            np.array([*counts, *(rng.normal(active, 2) for _ in range(covariates))], float)
        )
    outcome = adjustment.cuped_ratio(*(Moments.of(*one) for one in arms_))
    both = lines(np.concatenate(arms_, axis=1))
    covariance = np.cov(both)
    theta = np.linalg.solve(covariance[1:, 1:], covariance[1:, 0])
    assert outcome.theta == pytest.approx(theta)
    known = []
    for one in arms_:
        own, n = lines(one), one.shape[1]
        value = own[0].mean() - theta @ (own[1:] - both[1:].mean(axis=1)[:, None]).mean(axis=1)
        # Without a unit, both the ratio and the means of the covariates are others.
        apart = theta @ (own[1:] - own[1:].mean(axis=1)[:, None]) / (n - 1)
        variance = (n - 1) / n * np.sum((moves(*one[:2]) + apart) ** 2)
        known.append(Known(value, variance, one[1].sum() ** 2 / np.sum(one[1] ** 2) - 1))
    assert outcome.effect.control == pytest.approx(known[0].value)
    assert outcome.effect.difference == pytest.approx(known[1].value - known[0].value)
    se, df, p_value = t_test(*known)
    assert outcome.effect.p_value == pytest.approx(p_value)
    half = stats.t.ppf(0.975, df) * se
    assert outcome.effect.high - outcome.effect.difference == pytest.approx(half)
