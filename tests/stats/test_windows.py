import numpy as np
import pytest

from abeval.stats import ratios, windows
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def arm(seed, units=400, lift=0.0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.poisson(5, (3, units)) + 1
    taste = 0.8 * rng.beta(2, 6, units) * (1 + lift) + shift
    return rng.binomial(x, np.minimum(taste, 1.0)), x


def moments(data):
    y, x = data
    return Moments.of(*y, *x)


def test_each_window_is_its_own_ratio_test():
    control, treatment = arm(1), arm(2, lift=0.2)
    found = windows.effects(moments(control), moments(treatment), "absolute")
    for day in range(3):
        alone = ratios.delta(*(Moments.of(y[day], x[day]) for y, x in (control, treatment)))
        assert found.effect[day] == pytest.approx(alone.difference, rel=1e-9)
        assert found.covariance[day, day] == pytest.approx(alone.se**2, rel=1e-9)


def test_covariance_between_windows_is_that_of_many_draws():
    pairs = [(arm(2 * i), arm(2 * i + 1)) for i in range(1500)]
    found = [windows.effects(moments(c), moments(t)) for c, t in pairs]
    assert {one.scale for one in found} == {"relative"}
    seen = np.cov(np.array([one.effect for one in found]).T)
    said = np.mean([one.covariance for one in found], axis=0)
    assert seen[0, 1] > 0.3 * seen[0, 0]
    np.testing.assert_allclose(seen, said, atol=4 * 1.5 * said[0, 0] / np.sqrt(1500))


def test_relative_where_values_are_well_above_zero():
    small = moments(arm(1))
    zero = Moments.of(*np.zeros((3, 400)), *np.ones((3, 400)))
    assert windows.effects(small, small).scale == "relative"
    assert windows.effects(zero, small).scale == "absolute"


def test_strata_undo_shares_that_changed():
    early, late = arm(3, 4000, shift=0.2), arm(4, 4000)
    few = tuple(v[:, :400] for v in early)
    arms = {"control": [early, late], "treatment": [few, arm(5, 4000)]}
    pooled = {k: moments([np.hstack(p) for p in zip(*v, strict=True)]) for k, v in arms.items()}
    naive = windows.effects(pooled["control"], pooled["treatment"])
    shares = [4400 / 12400, 8000 / 12400]
    weighed = {k: windows.stratified([moments(d) for d in v], shares) for k, v in arms.items()}
    found = windows.effects(weighed["control"], weighed["treatment"])
    assert np.all(naive.effect < -4 * np.sqrt(np.diag(naive.covariance)))
    assert np.all(np.abs(found.effect) < 4 * np.sqrt(np.diag(found.covariance)))


def test_refusals():
    empty = Moments.of([1, 2], [0, 0])
    with pytest.raises(Refusal, match="denominator"):
        windows.effects(empty, empty)
