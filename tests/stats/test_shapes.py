import numpy as np
import pytest
from scipy import stats as scipy_stats

from abeval.stats import shapes, stability
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.stats.windows import effects

T = np.arange(14)
NOISE = 0.01 * (np.eye(14) + 0.4)
ONES = np.ones((14, 1))
ALL = [shapes.trend(T), *shapes.decays(T, 3.5), *shapes.shocks(T)]


def drawn(seed, truth=0.0):
    root = np.linalg.cholesky(NOISE)
    return truth + root @ np.random.default_rng(seed).standard_normal(14)


def test_trend_and_residual_agree_with_gls():
    effect = drawn(1, 0.03 * T)
    known = stability.gls(effect, NOISE)
    found = shapes.search(effect, NOISE, [shapes.trend(T)], ONES)
    assert found.best.coefficient == pytest.approx(known.slope, rel=1e-9)
    assert found.best.se == pytest.approx(known.slope_se, rel=1e-9)
    assert found.p_value == pytest.approx(known.slope_p_value, rel=0.2)
    level = shapes.fit(effect, NOISE, ONES)
    assert level.coefficients[0] == pytest.approx(known.mean, rel=1e-9)
    assert (level.q, level.q_p_value) == pytest.approx((known.q, known.q_p_value), rel=1e-9)


def test_equal_effects_of_few_units_are_hotellings_t_squared():
    """SciPy has no T²; of two days it is the square of the paired t."""
    rng = np.random.default_rng(4)
    days = rng.normal(5, 1, (12, 2)) + rng.normal(0, 1, (12, 1))
    both = shapes.fit(days.mean(axis=0), np.cov(days.T) / 12, np.ones((2, 1)), 11)
    paired = scipy_stats.ttest_rel(days[:, 1], days[:, 0])
    assert both.q_p_value == pytest.approx(paired.pvalue, rel=1e-9)
    line = [shapes.trend([0, 1])]
    found = shapes.search(days.mean(axis=0), np.cov(days.T) / 12, line, np.ones((2, 1)), 11)
    assert 2 * scipy_stats.norm.sf(abs(found.best.z)) == pytest.approx(paired.pvalue, rel=1e-9)
    assert found.best.coefficient / found.best.se == pytest.approx(paired.statistic, rel=1e-9)


def test_effects_of_hardly_more_units_than_days_keep_the_level():
    """31 % of constant effects "differed" where the covariance was taken as known; slopes 15 %."""
    rng, days, runs = np.random.default_rng(1), 28, 300
    design = np.hstack([np.ones((days, 1)), shapes.rhythm(np.arange(days))])
    rejected = np.zeros(3)
    for _ in range(runs):
        arms = [rng.normal(10, 1, (40, 1)) + rng.normal(0, 2, (40, days)) for _ in "ab"]
        seen = effects(*(Moments.of(*arm.T, *np.ones((days, 40))) for arm in arms))
        level = shapes.fit(seen.effect, seen.covariance, design, seen.df)
        without = shapes.fit(seen.effect, seen.covariance, design[:, :1], seen.df)
        line = [shapes.trend(np.arange(days))]
        slope = shapes.search(seen.effect, seen.covariance, line, design, seen.df)
        rejected += (
            level.q_p_value < 0.05,
            shapes.added_p_value(without, level, seen.df) < 0.05,
            abs(slope.best.z) > 1.959964,
        )
    assert np.all(rejected / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs))


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
    design = np.hstack([ONES, shapes.rhythm(T)])
    assert shapes.search(weekly, NOISE, ALL, design).p_value > 0.05


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
    full = np.hstack([np.ones((7, 1)), shapes.rhythm(week)])
    with pytest.raises(Refusal, match="too few days to separate"):
        shapes.search(np.zeros(7), np.eye(7), [shapes.trend(week)], full)
