import math

import numpy as np
import pytest

from abeval.stats import effects, means, shapes
from abeval.stats.moments import Moments, weigh_strata
from abeval.stats.records import Refusal


def arm(seed, units=400, lift=0.0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.poisson(5, (3, units)) + 1
    taste = 0.8 * rng.beta(2, 6, units) * (1 + lift) + shift
    return rng.binomial(x, np.minimum(taste, 1.0)), x


def moments(data):
    y, x = data
    return Moments.of(*y, *x, below=range(len(y), 2 * len(y)))


def test_each_window_is_its_own_ratio_test():
    control, treatment = arm(1), arm(2, lift=0.2)
    found = shapes.estimate_window_effects(moments(control), moments(treatment))
    for day in range(3):
        c, t = (means.estimate_ratio(Moments.of(y[day], x[day])) for y, x in (control, treatment))
        assert found.effect[day] == pytest.approx(math.log(t.value / c.value), rel=1e-9)
        assert found.covariance[day, day] == pytest.approx(effects.log_se(c, t) ** 2, rel=1e-9)


@pytest.mark.slow
def test_covariance_between_windows_is_that_of_many_draws():
    pairs = [(arm(2 * i), arm(2 * i + 1)) for i in range(1500)]
    found = [shapes.estimate_window_effects(moments(c), moments(t)) for c, t in pairs]
    assert {one.scale for one in found} == {"relative"}
    seen = np.cov(np.array([one.effect for one in found]).T)
    said = np.mean([one.covariance for one in found], axis=0)
    assert seen[0, 1] > 0.3 * seen[0, 0]
    np.testing.assert_allclose(seen, said, atol=4 * 1.5 * said[0, 0] / np.sqrt(1500))


def test_relative_where_values_are_well_above_zero():
    small = moments(arm(1))
    zero = Moments.of(*np.zeros((3, 400)), *np.ones((3, 400)))
    assert shapes.estimate_window_effects(small, small).scale == "relative"
    assert shapes.estimate_window_effects(zero, small).scale == "absolute"


def test_strata_undo_shares_that_changed():
    early, late = arm(3, 4000, shift=0.2), arm(4, 4000)
    few = tuple(v[:, :400] for v in early)
    arms = {"control": [early, late], "treatment": [few, arm(5, 4000)]}
    pooled = {k: moments([np.hstack(p) for p in zip(*v, strict=True)]) for k, v in arms.items()}
    naive = shapes.estimate_window_effects(pooled["control"], pooled["treatment"])
    shares = [4400 / 12400, 8000 / 12400]
    weighed = {k: weigh_strata([moments(d) for d in v], shares) for k, v in arms.items()}
    found = shapes.estimate_window_effects(weighed["control"], weighed["treatment"])
    assert np.all(naive.effect < -4 * np.sqrt(np.diag(naive.covariance)))
    assert np.all(np.abs(found.effect) < 4 * np.sqrt(np.diag(found.covariance)))


def test_refusals():
    empty = Moments.of([1, 2], [0, 0])
    with pytest.raises(Refusal, match="denominator"):
        shapes.estimate_window_effects(empty, empty)


def test_one_window_has_the_degrees_of_freedom_of_its_own_test():
    control, treatment = arm(6, 12), arm(7, 40, lift=0.5)
    alone = [Moments.of(y[0], x[0]) for y, x in (control, treatment)]
    seen = shapes.estimate_window_effects(*alone)
    assert seen.df == pytest.approx(means.delta(*alone).df, rel=1e-9)
    both = shapes.estimate_window_effects(moments(control), moments(control))
    shown = control[1].sum(axis=0)
    assert both.df == pytest.approx(2 * (shown.sum() ** 2 / (shown**2).sum() - 1), rel=1e-9)
    # Of several windows it is between the two variants' own and their sum.
    assert 11 < shapes.estimate_window_effects(moments(control), moments(treatment)).df < 50


def test_relative_effects_are_differences_of_logarithms():
    control, treatment = arm(8), arm(9, lift=0.3)
    seen = shapes.estimate_window_effects(moments(control), moments(treatment))
    for day in range(3):
        pair = [means.estimate_ratio(Moments.of(y[day], x[day])) for y, x in (control, treatment)]
        assert seen.effect[day] == pytest.approx(np.log(pair[1].value / pair[0].value), rel=1e-12)
        assert seen.covariance[day, day] == pytest.approx(effects.log_se(*pair) ** 2, rel=1e-9)
    assert seen.scale == "relative"


@pytest.mark.parametrize(("mean", "scale"), [(3.9, "absolute"), (4.1, "relative")])
def test_four_standard_errors_above_zero_are_enough_for_a_relative_effect(mean, scale):
    """In every window of both variants."""
    values = mean / 10 + np.tile([1.0, -1.0], 50) * np.sqrt(99 / 100)
    far, ones = values + 5, np.ones(100)
    near, steady = Moments.of(values, far, ones, ones), Moments.of(far, far, ones, ones)
    for pair in ((near, steady), (steady, near)):
        assert shapes.estimate_window_effects(*pair).scale == scale
    assert shapes.estimate_window_effects(steady, steady).scale == "relative"


def test_the_covariance_of_a_weighted_mean_is_that_of_its_strata():
    strata, shares = [moments(arm(3, 30)), moments(arm(4, 50))], [0.25, 0.75]
    both = weigh_strata(strata, shares)
    expected = sum(w**2 * m.covariance / m.n for w, m in zip(shares, strata, strict=True))
    np.testing.assert_allclose(both.covariance / both.n, expected, rtol=1e-9)
    terms = [w**2 * m.covariance[0, 0] / m.n for w, m in zip(shares, strata, strict=True)]
    df = sum(terms) ** 2 / (terms[0] ** 2 / 29 + terms[1] ** 2 / 49)
    assert both.df == pytest.approx(df, rel=1e-9)
    constant = weigh_strata([Moments.of([1, 1]), Moments.of([5, 5, 5])], [0.5, 0.5])
    assert constant.df == 4
    hardly = [Moments.of([1, 1 + 1e-3]), Moments.of([5, 5, 5])]
    assert weigh_strata(hardly, [0.5, 0.5]).df == pytest.approx(1.0)
