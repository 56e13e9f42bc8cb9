import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats

from abeval.stats import distributions

dfs = st.floats(1, 1e7)


def test_vector_pvalue_extreme_tail() -> None:
    v = vector("pvalue_extreme_tail")
    tails = {z: distributions.tail(z) for z in v.inputs["z"]}
    for z in (10, 20, 35):
        assert tails[z].p_value == pytest.approx(v.expected[f"p_z{z}"], rel=v.tol)
    for found, log10 in zip(tails.values(), v.expected["log10_p"], strict=True):
        assert found.log10 == pytest.approx(log10, abs=v.tol)


def test_d4_p_value_does_not_underflow() -> None:
    assert distributions.tail(34.52).p_value == pytest.approx(2 * stats.norm.sf(34.52), rel=1e-12)
    assert distributions.tail(34.52).p_value > 0
    assert distributions.tail(-34.52, df=1e5).p_value > 0
    assert distributions.tail(100.0).log10 == pytest.approx(-2173.5706, abs=1e-3)


@quick
@given(st.floats(-30, 30), dfs)
def test_tails_agree_with_scipy(statistic: float, df: float) -> None:
    upper = distributions.upper_tail(statistic, df)
    assert upper.p_value == pytest.approx(stats.t.sf(statistic, df), rel=1e-9)
    two = distributions.tail(statistic, df)
    assert two.p_value == pytest.approx(2 * stats.t.sf(abs(statistic), df), rel=1e-9)
    for found in (upper, two):
        assert found.log10 == pytest.approx(math.log10(found.p_value), abs=1e-9)


@quick
@given(st.floats(1e-6, 1 - 1e-6), dfs)
def test_quantiles_invert_the_tail(probability: float, df: float) -> None:
    q = distributions.quantile(probability, df)
    assert distributions.upper_tail(-q, df).p_value == pytest.approx(probability, rel=1e-9)
    z = distributions.quantile(probability)
    assert z == pytest.approx(stats.norm.ppf(probability), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("exponent", [10, 80, 150, 200])
def test_log_of_a_heavy_tail_has_its_closed_form(exponent: int) -> None:
    # One and two degrees of freedom have elementary tails, ~ 1/(πt) and ~ 1/(2t²).
    one = distributions._log_t_tail(10.0**exponent, 1) / math.log(10)
    assert one == pytest.approx(-exponent - math.log10(math.pi), rel=1e-12)
    two = distributions.upper_tail(10.0**exponent, 2).log10
    assert two == pytest.approx(-2 * exponent - math.log10(2), rel=1e-12)


@pytest.mark.parametrize("df", [3, 30.5, 1e3, 1e6, 1.1e6, 1e8, 1e19])
@pytest.mark.parametrize("statistic", [8.0, 20.0, 36.0])
def test_log_of_the_t_tail_continues_the_tail(df: float, statistic: float) -> None:
    p_value = distributions.upper_tail(statistic, df).p_value
    log = distributions._log_t_tail(statistic, df)
    assert log == pytest.approx(math.log(p_value), rel=1e-9)


def test_log_tail_goes_to_the_normal_and_keeps_falling() -> None:
    normal = distributions.upper_tail(50.0).log10
    assert distributions.upper_tail(50.0, 1e12).log10 == pytest.approx(normal, rel=1e-6)
    logs = [distributions.upper_tail(t, 5000).log10 for t in np.linspace(30, 200, 200)]
    assert np.all(np.diff(logs) < 0)
    assert np.all(np.isfinite(logs))


def test_no_evidence_is_a_p_value_of_one() -> None:
    assert distributions.tail(0.0) == (1.0, 0.0)
    assert distributions.tail(0.0, 7) == (1.0, 0.0)
    assert distributions.tail(math.inf) == (0.0, -math.inf)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan])
def test_alpha_must_be_a_probability(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        distributions.two_sided_quantile(alpha)
