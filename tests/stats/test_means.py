import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference_vectors import quick, small, vector
from scipy import stats

from abeval.stats import effects, means
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

samples = st.integers(2, 40).flatmap(
    lambda n: arrays(np.float64, n, elements=st.floats(-100, 100, width=32))
)


def arms(*columns: str) -> tuple[Moments, Moments]:
    treated = small("variant") == 1
    data = [small(column) for column in columns]
    return Moments.of(*(d[~treated] for d in data)), Moments.of(*(d[treated] for d in data))


def test_vector_mean_welch() -> None:
    v = vector("mean_welch")
    e = means.welch(*arms("dwell"))
    assert e.control == pytest.approx(v.expected["control_mean"], abs=v.tol)
    assert e.treatment == pytest.approx(v.expected["treatment_mean"], abs=v.tol)
    assert e.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert e.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert e.df == pytest.approx(v.expected["df"], abs=v.tol)
    assert e.statistic == pytest.approx(v.expected["t"], abs=v.tol)
    assert e.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert (e.low, e.high) == pytest.approx(v.expected["ci"], abs=v.tol)
    assert e.method == "welch_t"


def test_vector_mean_welch_from_sums() -> None:
    v = vector("mean_welch")
    sides = []
    for side in ("moments_control", "moments_treatment"):
        m = v.inputs[side]
        # Dwell comes in quarters of a second, its square in sixteenths.
        total, square = m["sum"]["dwell"] * 4, m["sumprod"]["dwell*dwell"] * 16
        sides.append(Moments.from_sums(m["n"], [int(total)], [[int(square)]], [0.25]))
    e = means.welch(*sides)
    assert e.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert (e.low, e.high) == pytest.approx(v.expected["ci"], abs=v.tol)


def test_vector_mean_z() -> None:
    v = vector("mean_z")
    e = effects.compare(*(means.estimate_mean(m)._replace(df=math.inf) for m in arms("dwell")))
    assert e.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert e.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert (e.low, e.high) == pytest.approx(v.expected["ci"], abs=v.tol)
    assert e.df == math.inf


@quick
@given(samples, samples)
def test_welch_agrees_with_scipy(c: np.ndarray, t: np.ndarray) -> None:
    assume(np.var(c) > 1e-3 and np.var(t) > 1e-3)
    control, treatment = Moments.of(c), Moments.of(t)
    e, reference = means.welch(control, treatment), stats.ttest_ind(t, c, equal_var=False)
    assert e.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assert e.statistic == pytest.approx(reference.statistic, rel=1e-9, abs=1e-12)
    assert (e.low, e.high) == pytest.approx(reference.confidence_interval(), rel=1e-9, abs=1e-9)


@quick
@given(samples, samples, st.floats(-1e3, 1e3), st.floats(0.1, 10))
def test_shifting_and_scaling(c: np.ndarray, t: np.ndarray, shift: float, scale: float) -> None:
    assume(np.var(c) > 1e-3 and np.var(t) > 1e-3)
    e = means.welch(Moments.of(c), Moments.of(t))
    moved = means.welch(Moments.of(c * scale + shift), Moments.of(t * scale + shift))
    assert moved.p_value == pytest.approx(e.p_value, rel=1e-6)
    assert moved.se == pytest.approx(e.se * scale, rel=1e-9)
    assert moved.difference == pytest.approx(e.difference * scale, rel=1e-9, abs=1e-9)


@quick
@given(samples, samples)
def test_the_same_data_twice_narrows_the_interval(c: np.ndarray, t: np.ndarray) -> None:
    assume(np.var(c) > 1e-3 and np.var(t) > 1e-3)
    control, treatment = Moments.of(c), Moments.of(t)
    once = means.welch(control, treatment)
    twice = means.welch(control + control, treatment + treatment)
    assert twice.high - twice.low < once.high - once.low


def test_too_few_units_and_no_variance_are_refused() -> None:
    several, one, none = Moments.of([1, 2, 4]), Moments.of([1]), Moments.of([])
    for few in (one, none):
        for pair in ((several, few), (few, several)):
            with pytest.raises(Refusal) as refusal:
                means.welch(*pair)
            assert refusal.value.reason == "too_few_units"
    constant = Moments.of([0.1] * 7)
    with pytest.raises(Refusal) as refusal:
        means.welch(constant, constant)
    assert refusal.value.reason == "zero_variance"


def test_a_test_without_a_level_is_at_five_percent() -> None:
    pair = Moments.of([1, 2, 3, 4]), Moments.of([3, 4, 5, 9])
    assert means.welch(*pair) == means.welch(*pair, 0.05)
