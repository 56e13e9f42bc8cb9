import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy.stats import chi2_contingency

from abeval.stats import contingency, proportions
from abeval.stats.proportions import Count
from abeval.stats.records import Refusal


@st.composite
def counts(draw: st.DrawFn) -> Count:
    n = draw(st.integers(1, 500))
    return Count(draw(st.integers(0, n)), n)


def test_vector_prop_exact_small() -> None:
    v = vector("prop_exact_small")
    c = Count(v.inputs["x_control"], v.inputs["n_control"])
    t = Count(v.inputs["x_treatment"], v.inputs["n_treatment"])
    fisher, boschloo = contingency.fisher(c, t), contingency.boschloo(c, t)
    assert fisher.p_value == pytest.approx(v.expected["fisher"], abs=v.tol)
    assert boschloo.p_value == pytest.approx(v.expected["boschloo"], abs=v.tol)
    barnard = contingency.barnard(c, t)
    assert barnard.p_value == pytest.approx(v.expected["barnard_pooled"], abs=v.tol)
    assert fisher.difference == pytest.approx(11 / 41 - 3 / 40)


@quick
@given(counts(), counts())
def test_chi_squares_agree_with_scipy(c: Count, t: Count) -> None:
    assume(0 < c.successes + t.successes < c.units + t.units)
    table = np.array([[k.successes, k.units - k.successes] for k in (c, t)])
    for test, arguments in (
        (contingency.pearson, {"correction": False}),
        (contingency.yates, {"correction": True}),
        (contingency.g_test, {"correction": False, "lambda_": "log-likelihood"}),
    ):
        found, reference = test(c, t), chi2_contingency(table, **arguments)
        assert found.statistic == pytest.approx(reference.statistic, rel=1e-9, abs=1e-9)
        assert found.p_value == pytest.approx(reference.pvalue, rel=1e-7, abs=1e-15)


@quick
@given(counts(), counts())
def test_pearson_is_the_square_of_the_pooled_z(c: Count, t: Count) -> None:
    assume(0 < c.successes + t.successes < c.units + t.units)
    z, chi = proportions.z_pooled(c, t), contingency.pearson(c, t)
    assert chi.statistic == pytest.approx(z.statistic**2, rel=1e-9, abs=1e-12)
    assert chi.p_value == pytest.approx(z.p_value, rel=1e-7)


def test_d4_a_strong_association_keeps_its_logarithm() -> None:
    found = contingency.pearson(Count(10, 100_000), Count(5000, 100_000))
    assert found.p_value == 0
    assert -1200 < found.log10_p_value < -1000


def test_degenerate_tables() -> None:
    for x in (0, 9):
        for test in (contingency.pearson, contingency.yates, contingency.g_test):
            with pytest.raises(Refusal) as refusal:
                test(Count(x, 9), Count(x, 9))
            assert refusal.value.reason == "zero_variance"
        for exact in (contingency.fisher, contingency.boschloo, contingency.barnard):
            assert exact(Count(x, 9), Count(x, 9)).p_value == 1
    for test in (contingency.pearson, contingency.fisher):
        with pytest.raises(Refusal) as refusal:
            test(Count(0, 0), Count(1, 9))
        assert refusal.value.reason == "too_few_units"


def test_two_small_equal_groups_are_no_evidence() -> None:
    for exact in (contingency.fisher, contingency.boschloo, contingency.barnard):
        assert exact(Count(2, 5), Count(2, 5)).p_value == pytest.approx(1)
