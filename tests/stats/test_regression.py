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
