import pytest
import statsmodels.stats.proportion as reference
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector

from abeval.stats import proportions
from abeval.stats.proportions import Count
from abeval.stats.records import Refusal


@st.composite
def counts(draw: st.DrawFn) -> Count:
    n = draw(st.integers(1, 500))
    return Count(draw(st.integers(0, n)), n)


def test_vector_prop_single_ci() -> None:
    v = vector("prop_single_ci")
    count = Count(v.inputs["x"], v.inputs["n"])
    assert proportions.compute_share_interval(count) == pytest.approx(
        v.expected["wilson"], abs=v.tol
    )
    exact = proportions.clopper_pearson(*count)
    assert exact == pytest.approx(v.expected["beta"], abs=v.tol)


@quick
@given(counts(), counts())
def test_the_statistic_is_the_pooled_one_of_statsmodels(c: Count, t: Count) -> None:
    assume(0 < c.successes + t.successes < c.units + t.units)
    statistic, _ = reference.proportions_ztest(
        [t.successes, c.successes], [t.units, c.units], prop_var=False
    )
    effect = proportions.exact(c, t)
    assert effect.statistic == pytest.approx(statistic, rel=1e-9, abs=1e-12)
    assert effect.se * effect.statistic == pytest.approx(effect.difference, rel=1e-9, abs=1e-15)


@quick
@given(counts(), counts())
def test_swapping_arms_negates(c: Count, t: Count) -> None:
    assume(0 < c.successes + t.successes < c.units + t.units)
    one, other = proportions.exact(c, t), proportions.exact(t, c)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-7)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-7)
    assert one.statistic == pytest.approx(-other.statistic, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**9])
def test_nobody_or_everybody_succeeds(n: int) -> None:
    for x in (0, n):
        count = Count(x, n)
        effect = proportions.bound_unvaried(count, count)
        assert -1 <= effect.low < 0 < effect.high <= 1
        assert effect.high == pytest.approx(-effect.low, rel=1e-6)
        with pytest.raises(Refusal) as refusal:
            proportions.exact(count, count)
        assert refusal.value.reason == "zero_variance"


def test_nobody_in_both_may_still_differ_by_the_rule_of_three() -> None:
    n, m = 6_000, 3_000
    effect = proportions.bound_unvaried(Count(0, n), Count(0, m))
    assert (effect.low, effect.high) == pytest.approx((-3.689 / n, 3.689 / m), rel=1e-3)
    failed = proportions.bound_unvaried(Count(n, n), Count(m, m))
    assert (failed.low, failed.high) == pytest.approx((-3.689 / m, 3.689 / n), rel=1e-3)
    # The rate of the treatment at its end gives nobody in 2.5 %.
    assert (1 - effect.high) ** m == pytest.approx(0.025, rel=1e-9)
    with pytest.raises(Refusal):
        proportions.bound_unvaried(Count(0, n), Count(1, m))


def test_opposite_extremes() -> None:
    e = proportions.exact(Count(0, 40), Count(41, 41))
    assert e.high == 1
    assert 0.8 < e.low < 1
    assert e.p_value < 1e-15


def test_counts_are_checked() -> None:
    fine = Count(1, 10)
    with pytest.raises(Refusal) as refusal:
        proportions.exact(fine, Count(0, 0))
    assert refusal.value.reason == "too_few_units"
    for bad in (Count(11, 10), Count(-1, 10)):
        with pytest.raises(ValueError, match="successes"):
            proportions.exact(fine, bad)


def test_wilson_stays_between_zero_and_one() -> None:
    assert proportions.compute_share_interval(Count(0, 7)).low == 0
    assert proportions.compute_share_interval(Count(7, 7)).high == 1


def test_everybody_in_both_has_no_lift_and_a_difference_as_wide_as_a_normal_one() -> None:
    with pytest.raises(Refusal) as refusal:
        proportions.exact_lift(Count(5, 5), Count(7, 7))
    assert refusal.value.reason == "zero_variance"
    for counts in ((Count(0, 60), Count(0, 300)), (Count(60, 60), Count(300, 300))):
        effect = proportions.bound_unvaried(*counts)
        assert 2 * 1.959963984540054 * effect.se == pytest.approx(effect.high - effect.low)
        assert (effect.p_value, effect.difference) == (1.0, 0.0)
        assert effect.control == effect.treatment == counts[0].successes / counts[0].units


def test_levels_are_five_percent_where_none_is_named() -> None:
    c, t = Count(3, 80), Count(9, 70)
    for method in (
        proportions.exact,
        proportions.exact_lift,
    ):
        assert method(c, t) == method(c, t, 0.05)
        assert method(c, t) != method(c, t, 0.1)
    assert proportions.compute_share_interval(c) == proportions.compute_share_interval(c, 0.05)
    nobody = Count(0, 80), Count(0, 70)
    assert proportions.bound_unvaried(*nobody) == proportions.bound_unvaried(*nobody, 0.05)
