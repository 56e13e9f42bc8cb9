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
    for z in (10, 20, 35):
        assert distributions.compute_p_value(z) == pytest.approx(v.expected[f"p_z{z}"], rel=v.tol)
    for z, log10 in zip(v.inputs["z"], v.expected["log10_p"], strict=True):
        two = distributions.upper_tail(z).log10 + math.log10(2)
        assert two == pytest.approx(log10, abs=v.tol)


def test_d4_p_value_does_not_underflow() -> None:
    assert distributions.compute_p_value(34.52) == pytest.approx(
        2 * stats.norm.sf(34.52), rel=1e-12
    )
    assert distributions.compute_p_value(34.52) > 0
    assert distributions.compute_p_value(-34.52, df=1e5) > 0
    assert distributions.upper_tail(100.0).log10 == pytest.approx(-2173.8716, abs=1e-3)


@quick
@given(st.floats(-30, 30), dfs)
def test_tails_agree_with_scipy(statistic: float, df: float) -> None:
    two = distributions.compute_p_value(statistic, df)
    assert two == pytest.approx(2 * stats.t.sf(abs(statistic), df), rel=1e-9)
    upper = distributions.upper_tail(statistic)
    assert upper.p_value == pytest.approx(stats.norm.sf(statistic), rel=1e-9)
    assert upper.log10 == pytest.approx(math.log10(upper.p_value), abs=1e-9)


@quick
@given(st.floats(1e-6, 1 - 1e-6), dfs)
def test_quantiles_invert_the_tail(probability: float, df: float) -> None:
    q = distributions.quantile(probability, df)
    assert stats.t.cdf(q, df) == pytest.approx(probability, rel=1e-9)
    z = distributions.quantile(probability)
    assert z == pytest.approx(stats.norm.ppf(probability), rel=1e-12, abs=1e-15)


def test_the_log_tail_keeps_falling() -> None:
    logs = [distributions.upper_tail(z).log10 for z in np.linspace(30, 200, 200)]
    assert np.all(np.diff(logs) < 0)
    assert np.all(np.isfinite(logs))


def test_no_evidence_is_a_p_value_of_one() -> None:
    assert distributions.compute_p_value(0.0) == 1.0
    assert distributions.compute_p_value(0.0, 7) == 1.0
    assert distributions.compute_p_value(math.inf) == 0.0
    assert distributions.upper_tail(math.inf) == (0.0, -math.inf)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan])
def test_alpha_must_be_a_probability(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        distributions.two_sided_quantile(alpha)
