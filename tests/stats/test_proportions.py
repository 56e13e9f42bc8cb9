import numpy as np
import pytest
import statsmodels.stats.proportion as reference
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy.optimize import minimize_scalar

from abeval.stats import proportions, scores
from abeval.stats.proportions import Count
from abeval.stats.records import Refusal


@st.composite
def counts(draw: st.DrawFn) -> Count:
    n = draw(st.integers(1, 500))
    return Count(draw(st.integers(0, n)), n)


def test_vector_prop_single_ci() -> None:
    v = vector("prop_single_ci")
    count = Count(v.inputs["x"], v.inputs["n"])
    for method, expected in v.expected.items():
        found = proportions.interval(count, method=method)
        assert found == pytest.approx(expected, abs=v.tol)


# Newcombe 1998, Statistics in Medicine 17: 873-890, table II, methods 5 (Mee) and 6
# (Miettinen and Nurminen).
NEWCOMBE = [
    ((56, 70), (48, 80), (0.0533, 0.3377), (0.0528, 0.3382)),
    ((9, 10), (3, 10), (0.1821, 0.8370), (0.1700, 0.8406)),
    ((5, 56), (0, 29), (-0.0313, 0.1926), (-0.0326, 0.1933)),
]


@pytest.mark.parametrize(("treatment", "control", "mee", "mn"), NEWCOMBE)
def test_intervals_published_by_newcombe(
    treatment: tuple[int, int],
    control: tuple[int, int],
    mee: tuple[float, float],
    mn: tuple[float, float],
) -> None:
    c, t = Count(*control), Count(*treatment)
    pooled = proportions.z_pooled(c, t)
    assert (pooled.low, pooled.high) == pytest.approx(mee, abs=5e-5)
    assert proportions.miettinen_nurminen_interval(c, t) == pytest.approx(mn, abs=5e-5)


@quick
@given(counts(), counts())
def test_tests_agree_with_statsmodels(c: Count, t: Count) -> None:
    assume(0 < c.successes < c.units and 0 < t.successes < t.units)
    statistic, p_value = reference.proportions_ztest(
        [t.successes, c.successes], [t.units, c.units], prop_var=False
    )
    pooled = proportions.z_pooled(c, t)
    assert pooled.statistic == pytest.approx(statistic, rel=1e-9, abs=1e-12)
    assert pooled.p_value == pytest.approx(p_value, rel=1e-9)
    arguments = (t.successes, t.units, c.successes, c.units)
    score = reference.score_test_proportions_2indep(*arguments, correction=True)
    found = proportions.miettinen_nurminen(c, t)
    assert found.statistic == pytest.approx(score.statistic, rel=1e-9, abs=1e-12)
    assert found.p_value == pytest.approx(score.pvalue, rel=1e-9)


@quick
@given(counts(), counts(), st.floats(-0.95, 0.95))
def test_restricted_rate_maximises_the_likelihood(c: Count, t: Count, difference: float) -> None:
    # More successes than failures are turned round before they get there.
    assume(2 * (c.successes + t.successes) <= c.units + t.units)
    low, high = max(0.0, -difference), min(1.0, 1 - difference)

    def loss(p: float) -> float:
        rates, found = np.clip([p, p + difference], 1e-300, 1 - 1e-16), (c, t)
        terms = [
            k.successes * np.log(r) + (k.units - k.successes) * np.log1p(-r)
            for r, k in zip(rates, found, strict=True)
        ]
        return -float(sum(terms))

    mine = scores._restricted(*c, *t, difference)
    assert low <= mine <= high
    best = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12})
    assert loss(mine) <= best.fun + 1e-6 * (1 + abs(best.fun))


@quick
@given(counts(), counts(), st.floats(0.01, 0.3))
def test_interval_and_p_value_of_score_tests_agree(c: Count, t: Count, alpha: float) -> None:
    assume(0 < c.successes + t.successes < c.units + t.units)
    for test in (proportions.z_pooled, proportions.miettinen_nurminen):
        e = test(c, t, alpha)
        assert -1 <= e.low <= e.difference <= e.high <= 1
        if abs(e.p_value - alpha) > 1e-6:
            assert (e.low > 0 or e.high < 0) == (e.p_value < alpha)


@quick
@given(counts(), counts())
def test_swapping_arms_negates(c: Count, t: Count) -> None:
    one = proportions.miettinen_nurminen_interval(c, t)
    other = proportions.miettinen_nurminen_interval(t, c)
    assert one == pytest.approx((-other.high, -other.low), abs=1e-9)


@quick
@given(counts(), counts())
def test_successes_and_failures_are_alike(c: Count, t: Count) -> None:
    failed = [Count(k.units - k.successes, k.units) for k in (c, t)]
    one = proportions.miettinen_nurminen_interval(c, t)
    other = proportions.miettinen_nurminen_interval(*failed)
    assert one == pytest.approx((-other.high, -other.low), abs=1e-9)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**9])
def test_nobody_or_everybody_succeeds(n: int) -> None:
    for x in (0, n):
        count = Count(x, n)
        low, high = proportions.miettinen_nurminen_interval(count, count)
        assert -1 <= low < 0 < high <= 1
        assert high == pytest.approx(-low, rel=1e-6)
        for test in (
            proportions.z_pooled,
            proportions.miettinen_nurminen,
        ):
            with pytest.raises(Refusal) as refusal:
                test(count, count)
            assert refusal.value.reason == "zero_variance"


def test_nobody_in_both_may_still_differ_by_the_rule_of_three() -> None:
    n, m = 6_000, 3_000
    effect = proportions.unchanged(Count(0, n), Count(0, m))
    assert (effect.low, effect.high) == pytest.approx((-3.689 / n, 3.689 / m), rel=1e-3)
    failed = proportions.unchanged(Count(n, n), Count(m, m))
    assert (failed.low, failed.high) == pytest.approx((-3.689 / m, 3.689 / n), rel=1e-3)
    # The rate of the treatment at its end gives nobody in 2.5 %.
    assert (1 - effect.high) ** m == pytest.approx(0.025, rel=1e-9)
    with pytest.raises(Refusal):
        proportions.unchanged(Count(0, n), Count(1, m))


def test_opposite_extremes() -> None:
    e = proportions.miettinen_nurminen(Count(0, 40), Count(41, 41))
    assert e.high == 1
    assert 0.85 < e.low < 1
    assert e.p_value < 1e-15


def test_counts_are_checked() -> None:
    fine = Count(1, 10)
    with pytest.raises(Refusal) as refusal:
        proportions.z_pooled(fine, Count(0, 0))
    assert refusal.value.reason == "too_few_units"
    for bad in (Count(11, 10), Count(-1, 10)):
        with pytest.raises(ValueError, match="successes"):
            proportions.z_pooled(fine, bad)


def test_wilson_stays_between_zero_and_one() -> None:
    assert proportions.interval(Count(0, 7)).low == 0
    assert proportions.interval(Count(7, 7)).high == 1


def test_everybody_in_both_has_no_lift_and_a_difference_as_wide_as_a_normal_one() -> None:
    with pytest.raises(Refusal) as refusal:
        proportions.exact_lift(Count(5, 5), Count(7, 7))
    assert refusal.value.reason == "zero_variance"
    for counts in ((Count(0, 60), Count(0, 300)), (Count(60, 60), Count(300, 300))):
        effect = proportions.unchanged(*counts)
        assert 2 * 1.959963984540054 * effect.se == pytest.approx(effect.high - effect.low)
        assert (effect.p_value, effect.difference) == (1.0, 0.0)
        assert effect.control == effect.treatment == counts[0].successes / counts[0].units


def test_levels_are_five_percent_where_none_is_named() -> None:
    c, t = Count(3, 80), Count(9, 70)
    for method in (
        proportions.z_pooled,
        proportions.miettinen_nurminen,
        proportions.miettinen_nurminen_interval,
        proportions.exact,
        proportions.exact_lift,
    ):
        assert method(c, t) == method(c, t, 0.05)
        assert method(c, t) != method(c, t, 0.1)
    assert proportions.interval(c) == proportions.interval(c, 0.05)
    nobody = Count(0, 80), Count(0, 70)
    assert proportions.unchanged(*nobody) == proportions.unchanged(*nobody, 0.05)
