import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference_vectors import quick, vector
from statsmodels.regression.linear_model import WLS
from test_means import arms

from abeval.stats import effects, means
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Refusal
from tests.leave_one_out import ratio_of, t_test

units = st.integers(3, 40).flatmap(
    lambda n: st.tuples(
        arrays(np.int64, n, elements=st.integers(0, 30)),
        arrays(np.int64, n, elements=st.integers(1, 60)),
    )
)


def linearised(*arms: Moments) -> list[Estimate]:
    """The delta method, whatever units hold."""
    return [means.estimate_smooth(m, means.ratio(0, 1)) for m in arms]


def by_z(control: Moments, treatment: Moments) -> Effect:
    """The delta method with the normal in place of t."""
    return effects.compare(*(e._replace(df=math.inf) for e in linearised(control, treatment)))


def test_vector_ratio_delta_absolute() -> None:
    v = vector("ratio_delta_absolute")
    pair = arms("clicks", "impressions")
    z, t = by_z(*pair), effects.compare(*linearised(*pair))
    assert z.control == pytest.approx(v.expected["control"], abs=v.tol)
    assert z.treatment == pytest.approx(v.expected["treatment"], abs=v.tol)
    assert z.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    variances = [e.variance for e in linearised(*pair)]
    assert variances[0] == pytest.approx(v.expected["var_control"], abs=v.tol)
    assert variances[1] == pytest.approx(v.expected["var_treatment"], abs=v.tol)
    assert z.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert z.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert z.p_value == pytest.approx(v.expected["p_z"], abs=v.tol)
    assert (z.low, z.high) == pytest.approx(v.expected["ci_z"], abs=v.tol)
    assert t.p_value == pytest.approx(v.expected["p_t"], abs=v.tol)
    assert (t.low, t.high) == pytest.approx(v.expected["ci_t"], abs=v.tol)


def test_vector_gauc_ratio_delta() -> None:
    v = vector("gauc_ratio_delta")
    sides = []
    for variant in (0, 1):
        users = [u for u in v.inputs["users"] if u["variant"] == variant]
        sides.append(Moments.of([u["n"] * u["auc"] for u in users], [u["n"] for u in users]))
    e = by_z(*sides)
    assert e.control == pytest.approx(v.expected["gauc_control"], abs=v.tol)
    assert e.treatment == pytest.approx(v.expected["gauc_treatment"], abs=v.tol)
    assert e.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert e.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert e.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert e.p_value == pytest.approx(v.expected["p"], abs=v.tol)


@quick
@given(units, units)
def test_a_ratio_is_compared_by_the_ratios_without_each_unit(
    c: tuple[np.ndarray, np.ndarray], t: tuple[np.ndarray, np.ndarray]
) -> None:
    known = [ratio_of(*one) for one in (c, t)]
    assume(all(one.variance > 1e-6 for one in known))
    e = means.delta(Moments.of(*c), Moments.of(*t))
    assert (e.control, e.treatment) == pytest.approx([one.value for one in known])
    assert (e.se, e.df, e.p_value) == pytest.approx(t_test(*known), rel=1e-8)
    assert e.method == "jackknife_t"


@quick
@given(units)
def test_a_robust_regression_has_the_same_variance(
    data: tuple[np.ndarray, np.ndarray],
) -> None:
    # Regression of clicks on impressions through zero, with weights 1 / impressions.
    y, x = data
    fit = WLS(y.astype(float), x.astype(float), weights=1 / x).fit(cov_type="HC3")
    n, hc3 = y.size, float(fit.cov_params()[0, 0])
    assume(hc3 > 1e-9)
    found = means.estimate_ratio(Moments.of(y, x))
    assert found.value == pytest.approx(fit.params[0])
    assert found.variance == pytest.approx(hc3 * (n - 1) / n, rel=1e-8)
    assert found.df == pytest.approx(max(x.sum() ** 2 / np.sum(x**2.0) - 1, 1), rel=1e-9)


def test_only_heavy_units_of_many_are_left_out() -> None:
    rng = np.random.default_rng(8)
    x = np.append(rng.integers(1, 9, 400), [300, 60, 15]).astype(float)
    y = rng.binomial(x.astype(int), 0.2).astype(float)
    y[-3] = 150
    found, known = Moments.of(y, x), ratio_of(y, x)
    assert len(found.heavy) == 2
    assert found.largest == pytest.approx(300 / x.sum())
    estimate = means.estimate_ratio(found)
    assert estimate[:2] == pytest.approx(known[:2], rel=1e-9)
    assert estimate.df == pytest.approx(known.df, rel=1e-9)
    assert estimate.variance > 1.3 * linearised(found)[0].variance
    # Merged, halves have the same heavy units.
    halves = Moments.of(y[:200], x[:200]) + Moments.of(y[200:], x[200:])
    assert means.estimate_ratio(halves) == pytest.approx(estimate, rel=1e-9)


def test_without_units_the_spread_is_that_of_the_delta_method() -> None:
    known = Moments.of([1, 0, 2, 1], [4, 5, 6, 5])
    sums = replace(known, heavy=np.zeros((0, 2)))
    assert means.estimate_ratio(sums).variance == pytest.approx(linearised(known)[0].variance)
    assert means.delta(sums, sums).method == "delta_t"


def test_a_unit_that_holds_all_of_a_denominator_is_a_refusal() -> None:
    with pytest.raises(Refusal) as refusal:
        means.estimate_ratio(Moments.of([1, 2, 0], [7, 0, 0]))
    assert refusal.value.reason == "too_few_units"


def test_a_denominator_of_one_is_the_mean() -> None:
    c, t = [1.0, 2.0, 5.0], [2.0, 2.5, 7.0, 1.0]
    e = means.delta(Moments.of(c, np.ones(3)), Moments.of(t, np.ones(4)))
    assert e[:-1] == pytest.approx(means.welch(Moments.of(c), Moments.of(t))[:-1], rel=1e-12)


def test_a_ratio_the_same_for_every_unit_has_no_variance() -> None:
    x = np.array([1.0, 2.0, 3.0, 7.0])
    m = Moments.of(0.1 * x, x)
    assert means.estimate_ratio(m).variance == 0
    assert means.estimate_ratio(m + m).variance == 0
    with pytest.raises(Refusal) as refusal:
        means.delta(m, m)
    assert refusal.value.reason == "zero_variance"


@pytest.mark.parametrize("below", [[0, 0, 0], [1, -1, 0], [1e-310, 1e-310, 1e-310]])
def test_no_denominator_is_a_refusal(below: list[float]) -> None:
    with pytest.raises(Refusal) as refusal:
        means.estimate_ratio(Moments.of([1, 2, 3], below))
    assert refusal.value.reason == "zero_denominator"


def test_too_few_units_are_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        means.estimate_ratio(Moments.of([1], [2]))
    assert refusal.value.reason == "too_few_units"


def test_a_negative_denominator_only_turns_the_sign() -> None:
    y, x = np.array([1.0, 4.0, 2.0]), np.array([2.0, 3.0, 7.0])
    plus, minus = means.estimate_ratio(Moments.of(y, x)), means.estimate_ratio(Moments.of(y, -x))
    assert minus.value == -plus.value
    assert minus.variance == pytest.approx(plus.variance, rel=1e-12)
    assert math.isfinite(plus.df)


def test_a_small_variance_is_no_rounding():
    """Of a rate that hardly varies between units: far below its terms, and above rounding."""
    x = np.array([1000.0, 2000.0, 3000.0, 7000.0])
    y = x / 8 + np.array([1.0, -1.0, 2.0, -2.0]) / 4096
    exact = [Fraction(float(a)) for a in y], [Fraction(float(b)) for b in x]
    rate = sum(exact[0]) / sum(exact[1])
    rest = [a - rate * b for a, b in zip(*exact, strict=True)]
    variance = sum(r * r for r in rest) / 3 / 4 / (sum(exact[1]) / 4) ** 2
    found = means.estimate_ratio(Moments.of(y, x)).variance
    assert 0 < float(variance) < 1e-9 * float(rate) ** 2
    assert found == pytest.approx(float(variance), rel=1e-3)


def test_a_variance_of_a_millionth_of_its_terms_is_no_rounding():
    # Two almost equal terms: what is left of them is 5e-8 of their sum.
    covariance = np.array([[1.0, 1.0 - 1e-7], [1.0 - 1e-7, 1.0]])
    assert means.compute_quadratic_form(np.array([1.0, -1.0]), covariance) == pytest.approx(
        2e-7, rel=1e-6
    )


def test_what_is_left_of_terms_that_nearly_cancel_is_a_variance_down_to_rounding():
    covariance = np.array([[1.0, 1.0 - 1e-12], [1.0 - 1e-12, 1.0]])
    assert means.compute_quadratic_form(np.array([1.0, -1.0]), covariance) == pytest.approx(
        2e-12, rel=1e-3
    )


def test_a_test_of_ratios_without_a_level_is_at_five_percent():
    arms = Moments.of([1, 0, 2, 1], [4, 5, 6, 5]), Moments.of([2, 1, 3, 1], [4, 6, 6, 5])
    assert means.delta(*arms) == means.delta(*arms, 0.05)
