import math

import numpy as np
import pytest
import statsmodels.api as sm
from reference_vectors import small, vector
from scipy import stats
from test_means import arms

from abeval.stats import adjustment, effects, means
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def interacted(y: np.ndarray, treated: np.ndarray, *covariates: np.ndarray) -> np.ndarray:
    """Statsmodels' coefficients of y ~ treated × (covariates − their means) (Lin 2013)."""
    centred = np.column_stack([x - x.mean() for x in covariates])
    design = np.column_stack([np.ones(y.size), treated, centred, treated[:, None] * centred])
    return sm.OLS(y, design).fit().params


def test_vector_lin_interacted_hc2() -> None:
    v = vector("lin_interacted_hc2")
    e = adjustment.lin_mean(*arms("dwell", "pre_dwell")).effect
    assert e.difference == pytest.approx(v.expected["diff"], abs=v.tol)


@pytest.mark.parametrize("seed", range(10))
def test_agrees_with_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 200))
    x = rng.gamma(2, 3, (n, 2))
    treated = rng.permutation(n) < n // 3
    y = x @ [1.0, -0.5] + treated * (1 + 0.2 * x[:, 0]) + rng.normal(0, 1 + x[:, 0])
    beta = interacted(y, treated, *x.T)
    pair = [Moments.of(y[mine], *x[mine].T) for mine in (~treated, treated)]
    a = adjustment.lin_mean(*pair)
    assert a.effect.control == pytest.approx(beta[0], rel=1e-9)
    assert a.effect.difference == pytest.approx(beta[1], rel=1e-9)
    assert a.theta == pytest.approx(beta[2:], rel=1e-9)
    low, high = stats.t(a.effect.df, beta[1], a.effect.se).interval(0.95)
    assert (a.effect.low, a.effect.high) == pytest.approx((low, high), rel=1e-9)
    p = 2 * stats.t(a.effect.df).sf(abs(beta[1]) / a.effect.se)
    assert a.effect.p_value == pytest.approx(p, rel=1e-8)


def test_the_error_is_that_of_two_predictions_at_an_estimated_centre() -> None:
    y, treated = small("dwell"), small("variant")
    covariates = small("pre_dwell"), small("pre_clicks")
    beta = interacted(y, treated, *covariates)
    adjusted = adjustment.lin_mean(*arms("dwell", "pre_dwell", "pre_clicks"))
    assert adjusted.effect.difference == pytest.approx(beta[1], rel=1e-9)
    assert adjusted.theta == pytest.approx(beta[2:], rel=1e-9)
    assert adjusted.effect.control == pytest.approx(beta[0], rel=1e-9)
    variances = []
    for arm in (0, 1):
        mine = treated == arm
        design = np.column_stack([np.ones(mine.sum()), *(x[mine] for x in covariates)])
        fit = sm.OLS(y[mine], design).fit()
        centre = [[1, *(x.mean() for x in covariates)]]
        variances.append(fit.get_prediction(centre).se_mean[0] ** 2)
    # Where slopes differ, the mean of the covariates of all units, at which both are read, varies.
    gap, spread = beta[4:], np.cov(*covariates)
    variances.append(gap @ spread @ gap / y.size)
    assert adjusted.effect.se == pytest.approx(math.sqrt(sum(variances)), rel=1e-9)


@pytest.mark.slow
def test_many_covariates_of_few_units_keep_the_level() -> None:
    """6.9 % without what the slopes of the smaller variant cost."""
    rng, runs = np.random.default_rng(3), 1500
    x = rng.normal(size=(runs, 330, 6))
    y = 10 + 0.3 * x.sum(axis=2) + rng.normal(size=(runs, 330))
    rejected = 0
    for values, of_unit in zip(y, x, strict=True):
        control = Moments.of(values[:300], *of_unit[:300].T)
        treatment = Moments.of(values[300:], *of_unit[300:].T)
        rejected += adjustment.lin_mean(control, treatment).effect.p_value < 0.05
    assert rejected / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("control", "treatment"), [(300, 300), (450, 150)])
def test_slopes_that_differ_cost_what_the_mean_of_the_covariates_costs(
    control: int, treatment: int
) -> None:
    """Coverage of effect and lift for all such units; 88 to 93 % without the term."""
    rng, runs = np.random.default_rng(5), 1500
    covered = np.zeros((2, runs), dtype=bool)
    for run in range(runs):
        x = rng.gamma(2, 1, control) - 2, rng.gamma(2, 1, treatment) - 2
        y = 5 + 0.5 * x[0] + rng.normal(size=control), 6 + 1.5 * x[1] + rng.normal(size=treatment)
        adjusted = adjustment.lin_mean(Moments.of(y[0], x[0]), Moments.of(y[1], x[1]))
        lift = effects.fieller_adjusted(adjusted)
        covered[:, run] = (
            adjusted.effect.low <= 1 <= adjusted.effect.high,
            lift.low <= 0.2 <= lift.high,
        )
    assert covered.mean(axis=1) == pytest.approx(0.95, abs=3 * math.sqrt(0.05 * 0.95 / runs))


def test_without_covariates_it_is_welch() -> None:
    a, raw = adjustment.lin_mean(*arms("dwell")), means.welch(*arms("dwell"))
    assert a.effect.difference == pytest.approx(raw.difference, rel=1e-9)
    assert a.effect.se == pytest.approx(raw.se, rel=1e-9)
    assert a.variance_removed == pytest.approx(0, abs=1e-9)


def test_a_covariate_twice_or_constant_changes_no_difference() -> None:
    y, treated, x = small("dwell"), small("variant") == 1, small("pre_dwell")
    pairs = [
        [Moments.of(*(column[mine] for column in columns)) for mine in (~treated, treated)]
        for columns in ((y, x), (y, x, 2 * x, np.full(50, 7.0)))
    ]
    once, more = (adjustment.lin_mean(*pair).effect for pair in pairs)
    assert more.difference == pytest.approx(once.difference, rel=1e-8)
    assert more.control == pytest.approx(once.control, rel=1e-8)


def test_the_lift_covers_the_control_as_well() -> None:
    adjusted = adjustment.lin_mean(*arms("dwell", "pre_dwell"))
    lift = effects.fieller_adjusted(adjusted)
    assert lift.value == pytest.approx(adjusted.effect.difference / adjusted.control.value)
    # Residuals and covariates of the control vary together with its mean.
    assert -2 * adjusted.control.variance < adjusted.covariance < 0


def test_swapping_arms_negates() -> None:
    control, treatment = arms("dwell", "pre_dwell")
    one = adjustment.lin_mean(control, treatment).effect
    other = adjustment.lin_mean(treatment, control).effect
    assert one.difference == pytest.approx(-other.difference, rel=1e-9)
    assert one.se == pytest.approx(other.se, rel=1e-9)


def test_degenerate_data_are_refused() -> None:
    several = arms("dwell", "pre_dwell")[0]
    constant = Moments.of(np.full(50, 0.1), small("pre_dwell"))
    for pair, reason in (
        ((several, Moments.of([], [])), "too_few_units"),
        ((several, Moments.of([1], [2])), "too_few_units"),
        (arms("pre_dwell", "pre_dwell"), "zero_variance"),
        ((constant, constant), "zero_variance"),
    ):
        for control, treatment in (pair, pair[::-1]):
            with pytest.raises(Refusal) as refusal:
                adjustment.lin_mean(control, treatment)
            assert refusal.value.reason == reason


def of_arrays(y: np.ndarray, x: np.ndarray) -> Moments:
    return Moments.of(y, *x.T)


def drawn(seed: int, units: int, slope: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.gamma(2, 1, (units, 2))
    return x @ [slope, 0.5] + rng.normal(0, 1, units), x


def test_degrees_of_freedom_are_one_fewer_per_covariate() -> None:
    """Satterthwaite's, of the residuals in both variants and of the mean of the covariates."""
    arms = [drawn(1, 9, -1.0), drawn(2, 14, 2.5)]
    adjusted = adjustment.lin_mean(*(of_arrays(*arm) for arm in arms))
    together = np.vstack([x for _, x in arms])
    parts, slopes = [], []
    for y, x in arms:
        design = np.column_stack([np.ones(len(y)), x - together.mean(axis=0)])
        fit = sm.OLS(y, design).fit()
        parts.append((fit.bse[0] ** 2, len(y) - 3))
        slopes.append(fit.params[1:])
    gap, spread = slopes[1] - slopes[0], np.cov(together.T) / 23
    parts.append((gap @ spread @ gap, 22))
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / free for part, free in parts)
    assert adjusted.effect.df == pytest.approx(df, rel=1e-9)
    assert adjusted.effect.se == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert adjusted.covariance == pytest.approx(gap @ spread @ slopes[0] - parts[0][0], rel=1e-9)


def test_a_variance_of_few_effective_units_has_one_degree_of_freedom_at_least() -> None:
    y, x = drawn(3, 12, 1.0)
    plain = of_arrays(y, x)
    known = Moments(12, plain.mean, plain.comoment, effective=2.0)
    steady = Moments(10**9, plain.mean, plain.comoment * 1e-9)
    assert adjustment.lin_mean(steady, known).effect.df == pytest.approx(1.0, rel=0.01)


def test_as_many_units_as_a_slope_needs_are_enough() -> None:
    three = Moments.of([1, 2, 4], [1, 3, 2])
    assert adjustment.lin_mean(three, three).effect.difference == 0
    two = Moments.of([1, 2], [1, 3])
    with pytest.raises(Refusal) as refusal:
        adjustment.lin_mean(two, three)
    assert refusal.value.reason == "too_few_units"


def test_a_covariate_may_be_in_any_unit() -> None:
    """A millionth of the other, or a trillionth of the constant: it is still a covariate."""
    x, other = small("pre_dwell"), small("pre_clicks")
    plain = adjustment.lin_mean(*arms("dwell", "pre_dwell", "pre_clicks"))
    scaled = []
    for arm in arms("dwell", "pre_dwell", "pre_clicks"):
        sizes = np.array([1.0, 1.0, 2e-6 * np.ptp(x) / np.ptp(other)])
        scaled.append(
            Moments(arm.n, arm.mean * sizes, arm.comoment * np.multiply.outer(sizes, sizes))
        )
    assert adjustment.lin_mean(*scaled).effect.se == pytest.approx(plain.effect.se, rel=1e-3)
    alone = arms("dwell", "pre_dwell")
    sizes = np.array([1.0, 3e-11 / np.linalg.norm(x - x.mean())])
    tiny = [Moments(m.n, m.mean * sizes, m.comoment * np.outer(sizes, sizes)) for m in alone]
    expected = adjustment.lin_mean(*alone).effect
    assert adjustment.lin_mean(*tiny).effect[:4] == pytest.approx(expected[:4], rel=1e-6)


def test_a_fit_that_is_nearly_exact_has_an_error() -> None:
    bend = np.array([1.0, -1, -1, 1, 0, 0])
    line = np.arange(6.0)
    small_rest = math.sqrt(5e-13 * np.var(line) / np.mean(bend**2)) * (
        bend - line * (bend @ (line - 2.5)) / 17.5
    )
    arm = Moments.of(line + small_rest, line)
    assert adjustment.lin_mean(arm, arm).effect.se > 0


def test_adjustment_without_a_level_is_at_five_percent() -> None:
    pair = arms("dwell", "pre_dwell")
    assert adjustment.lin_mean(*pair) == adjustment.lin_mean(*pair, 0.05)
    ratio = arms("clicks", "dwell", "pre_dwell")
    assert adjustment.lin_ratio(*ratio) == adjustment.lin_ratio(*ratio, 0.05)
