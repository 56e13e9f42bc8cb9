import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats

from abeval.stats import shapes
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.stats.shapes import estimate_window_effects

T = np.arange(14)
NOISE = 0.01 * (np.eye(14) + 0.4)
ONES = np.ones((14, 1))
ALL = [shapes.build_trend(T), *shapes.build_decays(T, 3.5), *shapes.build_shocks(T)]


def drawn(seed, truth=0.0):
    root = np.linalg.cholesky(NOISE)
    return truth + root @ np.random.default_rng(seed).standard_normal(14)


def test_trend_and_residual_agree_with_gls():
    effect = drawn(1, 0.03 * T)
    inverse = np.linalg.inv(NOISE)
    design = sm.add_constant(T)
    se = np.linalg.inv(design.T @ inverse @ design)[1, 1] ** 0.5
    slope = sm.GLS(effect, design, sigma=NOISE).fit().params[1]
    found = shapes.search(effect, NOISE, [shapes.build_trend(T)], ONES)
    assert found.best.coefficient == pytest.approx(slope, rel=1e-9)
    assert found.best.se == pytest.approx(se, rel=1e-9)
    assert found.p_value == pytest.approx(2 * scipy_stats.norm.sf(abs(slope) / se), rel=0.2)
    mean = sm.GLS(effect, ONES, sigma=NOISE).fit().params[0]
    q = (effect - mean) @ inverse @ (effect - mean)
    level = shapes.fit(effect, NOISE, ONES)
    assert level.coefficients[0] == pytest.approx(mean, rel=1e-9)
    assert (level.q, level.q_p_value) == pytest.approx((q, scipy_stats.chi2.sf(q, 13)), rel=1e-9)


def test_equal_effects_of_few_units_are_hotellings_t_squared():
    """SciPy has no T²; of two days it is the square of the paired t."""
    rng = np.random.default_rng(4)
    days = rng.normal(5, 1, (12, 2)) + rng.normal(0, 1, (12, 1))
    both = shapes.fit(days.mean(axis=0), np.cov(days.T) / 12, np.ones((2, 1)), 11)
    paired = scipy_stats.ttest_rel(days[:, 1], days[:, 0])
    assert both.q_p_value == pytest.approx(paired.pvalue, rel=1e-9)
    line = [shapes.build_trend([0, 1])]
    found = shapes.search(days.mean(axis=0), np.cov(days.T) / 12, line, np.ones((2, 1)), 11)
    assert 2 * scipy_stats.norm.sf(abs(found.best.z)) == pytest.approx(paired.pvalue, rel=1e-9)
    assert found.best.coefficient / found.best.se == pytest.approx(paired.statistic, rel=1e-9)


@pytest.mark.slow
def test_effects_of_hardly_more_units_than_days_keep_the_level():
    """31 % of constant effects "differed" where the covariance was taken as known; slopes 15 %."""
    rng, days, runs = np.random.default_rng(1), 28, 100
    design = np.hstack([np.ones((days, 1)), shapes.build_rhythm_columns(np.arange(days))])
    rejected = np.zeros(3)
    for _ in range(runs):
        arms = [rng.normal(10, 1, (40, 1)) + rng.normal(0, 2, (40, days)) for _ in "ab"]
        seen = estimate_window_effects(*(Moments.of(*arm.T, *np.ones((days, 40))) for arm in arms))
        level = shapes.fit(seen.effect, seen.covariance, design, seen.df)
        without = shapes.fit(seen.effect, seen.covariance, design[:, :1], seen.df)
        line = [shapes.build_trend(np.arange(days))]
        slope = shapes.search(seen.effect, seen.covariance, line, design, seen.df)
        rejected += (
            level.q_p_value < 0.05,
            shapes.compare_fits(without, level, seen.df) < 0.05,
            abs(slope.best.z) > 1.959964,
        )
    assert np.all(rejected / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs))


@pytest.mark.slow
@pytest.mark.whole
def test_largest_of_all_shapes_keeps_its_level():
    p = [shapes.search(drawn(seed), NOISE, ALL, ONES).p_value for seed in range(600)]
    assert scipy_stats.kstest(p, "uniform").pvalue > 0.001
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.027)


@pytest.mark.parametrize(
    ("truth", "kind", "at"),
    [(0.1 * T, "trend", 0.0), (9.0 * np.exp(-T / 2), "decay", 2.0), ((T == 9) * 1.5, "shock", 9.0)],
)
def test_each_shape_is_called_by_its_name(truth, kind, at):
    found = shapes.search(drawn(3, truth), NOISE, ALL, ONES)
    assert (found.best.shape.kind, found.best.shape.at) == (kind, at)
    assert found.p_value < 0.001


def test_a_weekly_rhythm_is_no_change_once_it_is_a_nuisance():
    weekly = drawn(4, np.where(T % 7 >= 5, 0.8, 0.0))
    assert shapes.search(weekly, NOISE, ALL, ONES).p_value < 0.01
    design = np.hstack([ONES, shapes.build_rhythm_columns(T)])
    assert shapes.search(weekly, NOISE, ALL, design).p_value > 0.05


@pytest.mark.slow
def test_of_two_days_that_fit_alike_the_first_is_named():
    days = np.arange(14)
    rhythm = np.eye(7)[days % 7]
    rng = np.random.default_rng(3)
    for _ in range(200):
        effects = rng.normal(size=14) + 9.0 * (days == 9)
        found = shapes.search(effects, np.eye(14), shapes.build_shocks(days), rhythm)
        # Beside a rhythm of two weeks, days 2 and 9 are one contrast.
        assert found.best.shape.at == 2


def test_refusals():
    with pytest.raises(Refusal, match="linearly dependent"):
        shapes.fit([1.0, 1.0], np.ones((2, 2)), np.ones((2, 1)))
    with pytest.raises(Refusal, match="no variance"):
        shapes.fit([1.0, 1.0], np.diag([1.0, 0.0]), np.ones((2, 1)))
    with pytest.raises(Refusal, match="finite"):
        shapes.fit([1.0, np.inf], np.eye(2), np.ones((2, 1)))
    with pytest.raises(Refusal, match="times for"):
        shapes.fit([1.0], np.eye(1), np.ones((1, 2)))
    week = np.arange(7)
    full = np.hstack([np.ones((7, 1)), shapes.build_rhythm_columns(week)])
    with pytest.raises(Refusal, match="too few days to separate"):
        shapes.search(np.zeros(7), np.eye(7), [shapes.build_trend(week)], full)


def test_a_slope_of_few_units_is_the_intercept_beside_the_other_contrasts():
    """Rao: the unit's own slope, regressed on what of it no line explains."""
    rng = np.random.default_rng(6)
    times = np.array([0.0, 1, 2, 4])
    days = rng.normal(5, 1, (12, 4)) + rng.normal(0, 1, (12, 1)) + 0.3 * times
    line = np.column_stack([np.ones(4), times])
    slopes = days @ np.linalg.pinv(line)[1]
    others = days @ np.linalg.svd(line.T)[2][2:].T
    theirs = sm.OLS(slopes, sm.add_constant(others)).fit()
    data = days.mean(axis=0), np.cov(days.T) / 12
    trend = shapes.search(*data, [shapes.build_trend(times)], np.ones((4, 1)), 11).best
    assert trend.coefficient == pytest.approx(theirs.params[0], rel=1e-9)
    assert trend.se == pytest.approx(theirs.bse[0], rel=1e-9)
    assert np.sign(trend.z) == np.sign(trend.coefficient)
    assert 2 * scipy_stats.norm.sf(abs(trend.z)) == pytest.approx(theirs.pvalues[0], rel=1e-9)
    level, both = (shapes.fit(*data, design, 11) for design in (line[:, :1], line))
    assert shapes.compare_fits(level, both, 11) == pytest.approx(theirs.pvalues[0], rel=1e-9)
    assert both.coefficients[1] == pytest.approx(trend.coefficient, rel=1e-9)
    assert np.sqrt(both.covariance[1, 1]) == pytest.approx(trend.se, rel=1e-9)


def test_fewer_units_than_contrasts_leave_one_degree_of_freedom():
    effect, design = np.array([1.0, 3.0, 2.0, 5.0]), np.ones((4, 1))
    q = np.sum((effect - effect.mean()) ** 2)
    level = shapes.fit(effect, np.eye(4), design, 2.0)
    assert level.q_p_value == pytest.approx(scipy_stats.f.sf(q / 3 / 2, 3, 1))
    assert level.covariance[0, 0] == pytest.approx((2 + q) / 4)
    line = shapes.search(effect, np.eye(4), [shapes.build_trend(T[:4])], design, 1.5).best
    rest = q - (line.coefficient**2) * 5
    se = np.sqrt((1.5 + rest) / 5)
    assert line.se == pytest.approx(se)
    assert 2 * scipy_stats.norm.sf(abs(line.z)) == pytest.approx(
        2 * scipy_stats.t.sf(abs(line.coefficient / se), 1)
    )


def test_as_many_times_as_columns_fit_exactly():
    line = np.column_stack([np.ones(2), [0.0, 1.0]])
    both = shapes.fit([1.0, 3.0], np.eye(2), line)
    assert both.coefficients == pytest.approx([1.0, 2.0])
    assert (both.df, both.q_p_value) == (0, 1.0)


@pytest.mark.parametrize(("condition", "is_refused"), [(3e11, False), (3e12, True)])
def test_columns_that_nearly_depend_are_refused(condition, is_refused):
    design = np.diag([1.0, condition**-0.5])
    if is_refused:
        with pytest.raises(Refusal, match="columns are linearly dependent"):
            shapes.fit([1.0, 1.0], np.eye(2), design)
    else:
        assert shapes.fit([1.0, 1.0], np.eye(2), design).df == 0


@pytest.mark.parametrize(("apart", "is_refused"), [(5e-10, False), (5e-11, True)])
def test_days_that_nearly_repeat_each_other_are_refused(apart, is_refused):
    covariance = np.array([[1.0, 1 - apart], [1 - apart, 1.0]])
    if is_refused:
        with pytest.raises(Refusal, match="effects are linearly dependent"):
            shapes.fit([1.0, 1.0], covariance, np.ones((2, 1)))
    else:
        assert shapes.fit([1.0, 1.0], covariance, np.ones((2, 1))).df == 1


@pytest.mark.parametrize(("share", "is_refused"), [(3e-6, False), (3e-7, True)])
def test_a_shape_that_is_nearly_constant_is_no_change(share, is_refused):
    bend = np.array([1.0, -1, 1, -1])
    nearly = [shapes.Shape("trend", 0.0, tuple((1 + share * bend).tolist()))]
    if is_refused:
        with pytest.raises(Refusal, match="too few days"):
            shapes.search(bend, np.eye(4), nearly, np.ones((4, 1)))
    else:
        assert abs(shapes.search(bend, np.eye(4), nearly, np.ones((4, 1))).best.z) > 1.9


def test_decays_are_evenly_spread_from_a_day_to_three_weeks():
    constants = [shape.at for shape in shapes.build_decays(T, 1000.0)]
    assert (constants[0], constants[-1]) == (1.0, 21.0)
    steps = np.divide(constants[1:], constants[:-1])
    assert np.all((steps >= 1.25) & (steps <= 1.5))
    # The longest that may be is one of them.
    assert [shape.at for shape in shapes.build_decays(T, 2.0)] == [1.0, 1.5, 2.0]


def test_a_shape_beyond_what_is_simulated_has_bonferronis_p_value():
    plain = shapes.search(6.5 * np.eye(14)[3], np.eye(14), ALL, ONES)
    assert plain.best.shape.at == 3.0
    assert plain.p_value == pytest.approx(len(ALL) * 2 * scipy_stats.norm.sf(plain.best.z))
    likely = shapes.search(np.eye(14)[3], np.eye(14), ALL, ONES)
    assert likely.p_value < 1
    # A fixed seed: the same log has the same p-value tomorrow.
    assert shapes.search(drawn(6), NOISE, ALL, ONES).p_value == pytest.approx(0.0351, abs=1e-4)


def test_a_statistic_beyond_all_doubles_has_a_z():
    line = shapes.search(
        1e4 * T[:4], np.eye(4), [shapes.build_trend(T[:4])], np.ones((4, 1)), 1e6
    ).best
    assert line.z == pytest.approx(scipy_stats.norm.isf(1e-300), rel=1e-9)
