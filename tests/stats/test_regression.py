import math

import numpy as np
import pytest
import statsmodels.api as sm
from reference_vectors import small, vector
from test_means import arms

from abeval.stats import regression, relative
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def small_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return small("dwell"), small("variant"), small("pre_dwell")


def test_vector_ancova_hc2() -> None:
    v = vector("ancova_hc2")
    e = regression.ancova(*small_data(), df=math.inf).effect
    assert e.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert e.se == pytest.approx(v.expected["se_hc2"], abs=v.tol)
    assert e.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert e.p_value == pytest.approx(v.expected["p_z"], abs=v.tol)


def test_vector_lin_interacted_hc2() -> None:
    v = vector("lin_interacted_hc2")
    e = regression.lin(*small_data(), df=math.inf).effect
    assert e.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert e.se == pytest.approx(v.expected["se_hc2"], abs=v.tol)
    assert e.p_value == pytest.approx(v.expected["p_z"], abs=v.tol)
    hc3 = regression.lin(*small_data(), robust="HC3").effect
    assert hc3.se == pytest.approx(v.expected["se_hc3"], abs=v.tol)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("robust", ["HC2", "HC3"])
def test_agrees_with_statsmodels(seed: int, robust: regression.Robust) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 200))
    x = rng.gamma(2, 3, (n, 2))
    treated = rng.permutation(n) < n // 3
    y = x @ [1.0, -0.5] + treated * (1 + 0.2 * x[:, 0]) + rng.normal(0, 1 + x[:, 0])
    centred = x - x.mean(axis=0)
    designs = {
        "ancova": np.column_stack([np.ones(n), treated, centred]),
        "lin": np.column_stack([np.ones(n), treated, centred, treated[:, None] * centred]),
    }
    for name, design in designs.items():
        fit = sm.OLS(y, design).fit(cov_type=robust, use_t=True)
        a = getattr(regression, name)(y, treated, x[:, 0], x[:, 1], robust=robust)
        assert a.effect.difference == pytest.approx(fit.params[1], rel=1e-9)
        assert a.effect.se == pytest.approx(fit.bse[1], rel=1e-9)
        assert a.effect.p_value == pytest.approx(fit.pvalues[1], rel=1e-9)
        ends = fit.conf_int()[1]
        assert (a.effect.low, a.effect.high) == pytest.approx(ends, rel=1e-9)
        assert a.theta == pytest.approx(fit.params[2:], rel=1e-9)


def test_lin_from_moments_has_the_same_difference() -> None:
    rows = regression.lin(*small_data(), small("pre_clicks"))
    moments = regression.lin_moments(*arms("dwell", "pre_dwell", "pre_clicks"))
    assert moments.effect.difference == pytest.approx(rows.effect.difference, rel=1e-9)
    assert moments.theta == pytest.approx(rows.theta, rel=1e-9)
    assert moments.effect.control == pytest.approx(rows.effect.control, rel=1e-9)
    variances = []
    for arm in (0, 1):
        mine = small("variant") == arm
        design = np.column_stack(
            [np.ones(mine.sum()), small("pre_dwell")[mine], small("pre_clicks")[mine]]
        )
        fit = sm.OLS(small("dwell")[mine], design).fit()
        centre = [[1, small("pre_dwell").mean(), small("pre_clicks").mean()]]
        variances.append(fit.get_prediction(centre).se_mean[0] ** 2)
    # Where slopes differ, the mean of the covariates of all units, at which both are read, varies.
    gap, spread = np.array(rows.theta[2:]), np.cov(small("pre_dwell"), small("pre_clicks"))
    variances.append(gap @ spread @ gap / small("dwell").size)
    assert moments.effect.se == pytest.approx(math.sqrt(sum(variances)), rel=1e-9)


def test_many_covariates_of_few_units_keep_the_level() -> None:
    """6.9 % without what the slopes of the smaller variant cost."""
    rng, runs = np.random.default_rng(3), 1500
    x = rng.normal(size=(runs, 330, 6))
    y = 10 + 0.3 * x.sum(axis=2) + rng.normal(size=(runs, 330))
    rejected = 0
    for values, of_unit in zip(y, x, strict=True):
        control = Moments.of(values[:300], *of_unit[:300].T)
        treatment = Moments.of(values[300:], *of_unit[300:].T)
        rejected += regression.lin_moments(control, treatment).effect.p_value < 0.05
    assert rejected / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


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
        adjusted = regression.lin_moments(Moments.of(y[0], x[0]), Moments.of(y[1], x[1]))
        lift = relative.fieller_adjusted(adjusted)
        covered[:, run] = (
            adjusted.effect.low <= 1 <= adjusted.effect.high,
            lift.low <= 0.2 <= lift.high,
        )
    assert covered.mean(axis=1) == pytest.approx(0.95, abs=3 * math.sqrt(0.05 * 0.95 / runs))


def test_without_covariates_hc2_is_welch() -> None:
    y, treated, _ = small_data()
    a = regression.ancova(y, treated)
    assert a.effect.difference == pytest.approx(a.unadjusted.difference, rel=1e-9)
    assert a.effect.se == pytest.approx(a.unadjusted.se, rel=1e-9)
    assert a.variance_removed == pytest.approx(0, abs=1e-9)


def test_a_covariate_twice_or_constant_changes_nothing() -> None:
    y, treated, x = small_data()
    once = regression.lin(y, treated, x)
    more = regression.lin(y, treated, x, 2 * x, np.full(50, 7.0))
    assert more.effect[:-1] == pytest.approx(once.effect[:-1], rel=1e-8)


def test_the_lift_covers_the_control_as_well() -> None:
    rows = regression.ancova(*small_data())
    lift = relative.fieller_adjusted(rows)
    assert lift.value == pytest.approx(rows.effect.difference / rows.control.value)
    # Residuals and covariates of the control vary together with its mean.
    assert -2 * rows.control.variance < rows.covariance < 0


def test_swapping_arms_negates() -> None:
    y, treated, x = small_data()
    one, other = regression.lin(y, treated, x), regression.lin(y, 1 - treated, x)
    assert one.effect.difference == pytest.approx(-other.effect.difference, rel=1e-9)
    assert one.effect.se == pytest.approx(other.effect.se, rel=1e-9)


def test_degenerate_data_are_refused() -> None:
    y, treated, x = small_data()
    cases = [
        ((y, np.zeros(50), x), "too_few_units"),
        ((y, np.arange(50) == 3, x), "too_few_units"),
        ((np.where(treated, 3.0, np.nan), treated, x), "not_finite"),
        ((y, treated, np.where(x > 0, x, np.inf)), "not_finite"),
        ((x, treated, x), "zero_variance"),
        ((np.full(50, 0.1), treated, x), "zero_variance"),
    ]
    for data, reason in cases:
        for method in (regression.ancova, regression.lin):
            with pytest.raises(Refusal) as refusal:
                method(*data)
            assert refusal.value.reason == reason
    with pytest.raises(Refusal) as refusal:
        regression.lin([1, 2, 3, 5], [0, 0, 1, 1], [1, 4, 2, 3])
    assert refusal.value.reason == "too_few_units"


def test_a_unit_that_fixes_its_own_fit_is_no_warning() -> None:
    y, treated, x = small_data()
    alone = (np.arange(50) == 3).astype(float)
    a = regression.ancova(y, treated, x, alone)
    assert math.isfinite(a.effect.se)


def of_arrays(y: np.ndarray, x: np.ndarray) -> Moments:
    return Moments.of(y, *x.T)


def drawn(seed: int, units: int, slope: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.gamma(2, 1, (units, 2))
    return x @ [slope, 0.5] + rng.normal(0, 1, units), x


def test_degrees_of_freedom_are_one_fewer_per_covariate() -> None:
    """Satterthwaite's, of the residuals in both variants and of the mean of the covariates."""
    arms = [drawn(1, 9, -1.0), drawn(2, 14, 2.5)]
    adjusted = regression.lin_moments(*(of_arrays(*arm) for arm in arms))
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
    assert regression.lin_moments(steady, known).effect.df == pytest.approx(1.0, rel=0.01)


def test_as_many_units_as_a_slope_needs_are_enough() -> None:
    three = Moments.of([1, 2, 4], [1, 3, 2])
    assert regression.lin_moments(three, three).effect.difference == 0
    two = Moments.of([1, 2], [1, 3])
    with pytest.raises(Refusal) as refusal:
        regression.lin_moments(two, three)
    assert refusal.value.reason == "too_few_units"
    y, treated, x = np.array([1.0, 4, 2, 7, 5, 9]), np.arange(6) > 3, np.array([1.0, 3, 2, 4, 4, 6])
    few = regression.ancova(y, treated, x)
    design = np.column_stack([np.ones(6), treated, x - x.mean()])
    assert few.effect.se == pytest.approx(sm.OLS(y, design).fit(cov_type="HC2").bse[1], rel=1e-9)


def test_the_observed_control_varies_with_its_residuals() -> None:
    y, treated, x = small_data()
    mask = treated.astype(bool)
    residual = sm.OLS(y, np.column_stack([np.ones(50), mask, x])).fit().resid[~mask]
    expected = -np.cov(residual, y[~mask])[0, 1] / (~mask).sum()
    assert regression.ancova(y, treated, x).covariance == pytest.approx(expected, rel=1e-9)


def test_a_covariate_may_be_in_any_unit() -> None:
    """A millionth of the other, or a trillionth of the constant: it is still a covariate."""
    y, treated, x = small_data()
    other = small("pre_clicks")
    plain = regression.lin_moments(*arms("dwell", "pre_dwell", "pre_clicks"))
    scaled = []
    for arm in arms("dwell", "pre_dwell", "pre_clicks"):
        sizes = np.array([1.0, 1.0, 2e-6 * np.ptp(x) / np.ptp(other)])
        scaled.append(
            Moments(arm.n, arm.mean * sizes, arm.comoment * np.multiply.outer(sizes, sizes))
        )
    assert regression.lin_moments(*scaled).effect.se == pytest.approx(plain.effect.se, rel=1e-3)
    whole = regression.ancova(y, treated, x)
    centred = x - x.mean()
    tiny = regression.ancova(y, treated, centred * 3e-11 / np.linalg.norm(centred))
    assert tiny.effect.difference == pytest.approx(whole.effect.difference, rel=1e-3)


def test_a_fit_that_is_nearly_exact_has_an_error() -> None:
    y, treated, x = small_data()
    rows = regression.ancova(x + 3e-10 * y, treated, x)
    exact = regression.ancova(y, treated, x)
    assert rows.effect.se == pytest.approx(3e-10 * exact.effect.se, rel=1e-3)
    bend = np.array([1.0, -1, -1, 1, 0, 0])
    line = np.arange(6.0)
    small_rest = math.sqrt(5e-13 * np.var(line) / np.mean(bend**2)) * (
        bend - line * (bend @ (line - 2.5)) / 17.5
    )
    arm = Moments.of(line + small_rest, line)
    assert regression.lin_moments(arm, arm).effect.se > 0


def test_hc3_of_a_unit_with_nearly_all_of_its_leverage_is_statsmodels() -> None:
    y, treated, x = small_data()
    besides = (y - y.mean()) / y.std() + 2.0 * treated
    alone = np.where(np.arange(50) == 3, 1.0, 4e-7 * besides)
    rows = regression.ancova(y, treated, x, alone, robust="HC3")
    design = np.column_stack([np.ones(50), treated, x - x.mean(), alone - alone.mean()])
    theirs = sm.OLS(y, design).fit(cov_type="HC3")
    assert rows.effect.se == pytest.approx(theirs.bse[1], rel=1e-3)


def test_adjustment_without_a_level_is_at_five_percent() -> None:
    rows = small_data()
    for method in (regression.ancova, regression.lin):
        assert method(*rows).effect == method(*rows, alpha=0.05).effect
    pair = arms("dwell", "pre_dwell")
    assert regression.lin_moments(*pair) == regression.lin_moments(*pair, 0.05)
    ratio = arms("clicks", "dwell", "pre_dwell")
    assert regression.lin_ratio_moments(*ratio) == regression.lin_ratio_moments(*ratio, 0.05)
