import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector

from abeval.stats import effects, quantiles
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def test_vector_quantile_iid_outer_ci() -> None:
    v = vector("quantile_iid_outer_ci")
    i = np.arange(1, 402)
    values = (37 * i * i + 11 * i) % 997
    low, high = quantiles.ranks(401, v.inputs["nu"])
    assert (low, high) == pytest.approx((v.expected["L"], v.expected["U"]), abs=v.tol)
    ends = np.quantile(values, [low, high])
    assert ends == pytest.approx([v.expected["q_L"], v.expected["q_U"]], abs=v.tol)
    e = quantiles.iid(values, v.inputs["nu"])
    assert e.value == pytest.approx(v.expected["q"], abs=v.tol)
    assert math.sqrt(e.variance) == pytest.approx(v.expected["se"], abs=v.tol)


def test_clustered_follows_the_formula() -> None:
    rng = np.random.default_rng(2)
    units = np.repeat(np.arange(60), rng.integers(1, 9, 60))
    values = rng.gamma(2, 3, 60)[units] + rng.gamma(1, 1, units.size)
    e, independent = quantiles.clustered(values, units, 0.75), quantiles.iid(values, 0.75)
    below = np.bincount(units, values <= independent.value)
    events = np.bincount(units).astype(float)
    r = below.sum() / events.sum()
    spread = np.var(below - r * events, ddof=1) / 60 / events.mean() ** 2
    factor = spread / (0.75 * 0.25 / values.size)
    assert e.variance == pytest.approx(independent.variance * factor, rel=1e-9)
    assert (e.value, e.units) == (independent.value, 60)
    assert factor > 1.5


def test_clustered_error_is_what_repetitions_show() -> None:
    rng = np.random.default_rng(3)
    found, variances = [], []
    for _ in range(400):
        units = np.repeat(np.arange(300), rng.integers(1, 8, 300))
        values = np.exp(rng.normal(0, 1, 300)[units] + rng.normal(0, 0.5, units.size))
        e = quantiles.clustered(values, units, 0.5)
        found.append(e.value)
        variances.append(e.variance)
    assert np.mean(variances) == pytest.approx(np.var(found), rel=0.25)


def test_names_of_units_do_not_matter() -> None:
    values = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0] * 10
    names = [f"user {i // 3}" for i in range(60)]
    numbers = [i // 3 for i in range(60)]
    assert quantiles.clustered(values, names, 0.5) == quantiles.clustered(values, numbers, 0.5)


@quick
@given(st.integers(0, 10**6), st.floats(0.1, 9), st.floats(-99, 99))
def test_shifting_and_scaling(seed: int, scale: float, shift: float) -> None:
    values = np.random.default_rng(seed).gamma(2, 5, 50)
    one = quantiles.iid(values, 0.5)
    two = quantiles.iid(values * scale + shift, 0.5)
    assert two.value == pytest.approx(one.value * scale + shift, rel=1e-9, abs=1e-9)
    assert two.variance == pytest.approx(one.variance * scale**2, rel=1e-9)


def test_two_quantiles_compare() -> None:
    rng = np.random.default_rng(4)
    control, treatment = rng.gamma(2, 5, 500), rng.gamma(2, 6.5, 500)
    e = effects.compare(quantiles.iid(control, 0.9), quantiles.iid(treatment, 0.9), method="q90")
    assert e.p_value < 0.05
    assert e.low > 0


def test_degenerate_values_are_refused() -> None:
    cases = [
        ([], "too_few_units"),
        ([1.0], "too_few_units"),
        ([1.0, 2.0, 3.0], "too_few_units"),
        ([0.0] * 100, "zero_variance"),
        ([math.nan, *range(100)], "not_finite"),
        ([math.inf, *range(100)], "not_finite"),
    ]
    for values, reason in cases:
        with pytest.raises(Refusal) as refusal:
            quantiles.iid(values, 0.5)
        assert refusal.value.reason == reason
    with pytest.raises(Refusal) as refusal:
        quantiles.iid(range(100), 0.99)
    assert refusal.value.reason == "too_few_units"
    with pytest.raises(Refusal) as refusal:
        quantiles.clustered(range(100), [7] * 100, 0.5)
    assert refusal.value.reason == "too_few_units"
    same = Moments.of([1, 1, 1, 1], [2, 2, 2, 2])
    with pytest.raises(Refusal) as refusal:
        quantiles.inflate(quantiles.iid(range(100), 0.5), same, 0.5)
    assert refusal.value.reason == "zero_variance"
    for nu in (0, 1, math.nan):
        with pytest.raises(ValueError, match="level"):
            quantiles.iid(range(100), nu)
