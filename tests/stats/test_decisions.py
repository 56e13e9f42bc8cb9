import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from statsmodels.stats.weightstats import ttost_ind
from test_means import arms

from abeval.stats import decisions, effects, means, relative
from abeval.stats.records import Estimate, Refusal

estimates = st.builds(
    Estimate,
    value=st.floats(-100, 100).filter(lambda v: abs(v) > 0.1),
    variance=st.floats(1e-4, 10),
    units=st.just(10),
    df=st.floats(3, 1e4) | st.just(math.inf),
)
margins = st.floats(0, 0.9)


def pair() -> tuple[Estimate, Estimate]:
    control, treatment = (means.estimate(m) for m in arms("dwell"))
    return control, treatment


def test_vector_tost_mean() -> None:
    v = vector("tost_mean")
    e = decisions.equivalence(*pair(), low=v.inputs["low"], high=v.inputs["high"])
    assert e.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert e.p_low == pytest.approx(v.expected["p_lower"], abs=v.tol)
    assert e.p_high == pytest.approx(v.expected["p_upper"], abs=v.tol)
    assert (e.low, e.high) == pytest.approx(v.expected["ci90"], abs=v.tol)
    assert not e.passed


def test_equivalence_agrees_with_statsmodels() -> None:
    c, t = [1.0, 4.0, 2.0, 8.0, 3.0], [2.0, 3.0, 5.0, 6.0, 4.5, 1.0]
    mine = decisions.equivalence(*(estimate(x) for x in (c, t)), low=-4, high=5)
    p, low, high = ttost_ind(t, c, -4, 5, usevar="unequal")
    assert mine.p_value == pytest.approx(p, rel=1e-9)
    assert mine.p_low == pytest.approx(low[1], rel=1e-9)
    assert mine.p_high == pytest.approx(high[1], rel=1e-9)


def estimate(values: list[float]) -> Estimate:
    return means.estimate(means.Moments.of(values))


@quick
@given(estimates, estimates, st.floats(0.01, 20), st.floats(0.01, 0.2))
def test_equivalence_is_the_interval_within_the_margins(
    control: Estimate, treatment: Estimate, margin: float, alpha: float
) -> None:
    e = decisions.equivalence(control, treatment, -margin, margin, alpha)
    assert e.passed == (-margin < e.low and e.high < margin)
    assert e.passed == (e.p_value < alpha) or abs(e.p_value - alpha) < 1e-9


@quick
@given(estimates, estimates, margins, st.floats(0.01, 0.2))
def test_relative_non_inferiority_is_the_bound_of_fieller(
    control: Estimate, treatment: Estimate, margin: float, alpha: float
) -> None:
    lift = relative.fieller(control, treatment, 2 * alpha)
    assume(lift.bounded)
    up = decisions.non_inferiority_relative(control, treatment, margin, alpha)
    assume(abs(lift.low + margin) > 1e-7 * (1 + margin))
    assert up.passed == (lift.low > -margin)
    down = decisions.non_inferiority_relative(control, treatment, margin, alpha, "decrease")
    assume(abs(lift.high - margin) > 1e-7 * (1 + margin))
    assert down.passed == (lift.high < margin)


@quick
@given(estimates, estimates, margins, margins)
def test_relative_equivalence_is_fieller_within_the_margins(
    control: Estimate, treatment: Estimate, low: float, high: float
) -> None:
    lift = relative.fieller(control, treatment, 0.10)
    assume(lift.bounded and low + high > 1e-3)
    assume(min(abs(lift.low + low), abs(lift.high - high)) > 1e-6)
    e = decisions.equivalence_relative(control, treatment, -low, high)
    assert e.passed == (-low < lift.low and lift.high < high)


def test_relative_non_inferiority_statistic() -> None:
    control, treatment = Estimate(10, 0.04, 99, math.inf), Estimate(9.9, 0.05, 99, math.inf)
    d = decisions.non_inferiority_relative(control, treatment, 0.02)
    z = (9.9 - 0.98 * 10) / math.sqrt(0.05 + 0.98**2 * 0.04)
    assert d.statistic == pytest.approx(z, rel=1e-12)
    assert d.p_value == pytest.approx(0.5 * math.erfc(z / math.sqrt(2)), rel=1e-9)
    assert not d.passed


@quick
@given(estimates, estimates, st.floats(0, 50))
def test_absolute_non_inferiority_is_the_bound_of_the_difference(
    control: Estimate, treatment: Estimate, margin: float
) -> None:
    up = decisions.non_inferiority(control, treatment, margin)
    bound = effects.compare(control, treatment, alternative="greater")
    assume(abs(bound.low + margin) > 1e-6)
    assert up.passed == (bound.low > -margin)
    turned = [e._replace(value=-e.value) for e in (control, treatment)]
    down = decisions.non_inferiority(*turned, margin, direction="decrease")
    assert down.statistic == pytest.approx(up.statistic, rel=1e-12)


@quick
@given(estimates, estimates)
def test_superiority_is_the_two_sided_test_with_the_right_sign(
    control: Estimate, treatment: Estimate
) -> None:
    e = effects.compare(control, treatment)
    assume(abs(e.p_value - 0.05) > 1e-9)
    good = decisions.superiority(control, treatment)
    assert good.passed == (e.p_value < 0.05 and e.difference > 0)
    less = decisions.superiority(control, treatment, direction="decrease")
    assert less.passed == (e.p_value < 0.05 and e.difference < 0)


@quick
@given(estimates, estimates, margins, margins)
def test_a_wider_margin_is_easier(
    control: Estimate, treatment: Estimate, one: float, two: float
) -> None:
    low, high = sorted((one, two))
    strict = decisions.non_inferiority(control, treatment, low)
    lax = decisions.non_inferiority(control, treatment, high)
    assert lax.statistic >= strict.statistic
    assert lax.passed or not strict.passed


@quick
@given(estimates, estimates, st.floats(0.01, 20), st.floats(0.01, 0.2))
def test_rules_of_an_interval_agree_with_the_tests(
    control: Estimate, treatment: Estimate, margin: float, alpha: float
) -> None:
    effect = effects.compare(control, treatment, 2 * alpha)
    ends = effect.low, effect.high
    assume(all(abs(abs(end) - margin) > 1e-6 and abs(end) > 1e-6 for end in ends))
    up, down = decisions.gain(ends), decisions.gain(ends, "decrease")
    tested = decisions.non_inferiority(control, treatment, margin, alpha)
    assert decisions.not_worse(up, margin) == tested.passed
    tested = decisions.non_inferiority(control, treatment, margin, alpha, "decrease")
    assert decisions.not_worse(down, margin) == tested.passed
    both = decisions.equivalence(control, treatment, -margin, margin, alpha)
    assert decisions.equivalent(up, margin) == decisions.equivalent(down, margin) == both.passed
    better = decisions.superiority(control, treatment, alpha).passed
    worse = decisions.superiority(control, treatment, alpha, "decrease").passed
    assert decisions.conclusive(effect.p_value, ends, 2 * alpha) == (better or worse)


def test_not_significant_is_not_proven_harmless() -> None:
    noisy = Estimate(10, 4.0, 50, 49), Estimate(9.5, 4.0, 50, 49)
    assert effects.compare(*noisy).p_value > 0.05
    assert not decisions.non_inferiority_relative(*noisy, margin=0.02).passed


def test_a_relative_margin_works_where_fieller_is_unbounded() -> None:
    control, treatment = Estimate(0.1, 0.01, 50, math.inf), Estimate(1.5, 0.01, 50, math.inf)
    assert not relative.fieller(control, treatment).bounded
    assert decisions.non_inferiority_relative(control, treatment, 0.02).passed


def test_a_negative_control_loses_downwards() -> None:
    control = Estimate(-10, 0.001, 50, math.inf)
    better, worse = control._replace(value=-9.5), control._replace(value=-10.5)
    assert decisions.non_inferiority_relative(control, better, 0.02).passed
    assert not decisions.non_inferiority_relative(control, worse, 0.02).passed
    assert decisions.non_inferiority_relative(control, worse, 0.10).passed


def test_d4_a_sure_decision_keeps_its_logarithm() -> None:
    d = decisions.superiority(Estimate(0, 1, 9, math.inf), Estimate(60, 1, 9, math.inf))
    assert d.p_value == 0
    assert d.log10_p_value == pytest.approx(-392.892, abs=1e-3)


def test_degenerate_input_is_refused() -> None:
    fine, known = Estimate(1, 0.1, 9, 8), Estimate(1, 0, 9, 8)
    nothing = Estimate(0, 0.1, 9, 8)
    calls = [
        (lambda: decisions.superiority(known, known), "zero_variance"),
        (lambda: decisions.non_inferiority(known, known, 1), "zero_variance"),
        (lambda: decisions.non_inferiority_relative(nothing, fine, 0.1), "control_near_zero"),
        (lambda: decisions.equivalence_relative(nothing, fine, -1, 1), "control_near_zero"),
        (lambda: decisions.non_inferiority_relative(fine, known, 1.0), "zero_variance"),
        (lambda: decisions.superiority(fine, fine._replace(value=math.nan)), "not_finite"),
        (lambda: decisions.superiority(fine, fine._replace(value=math.nan), df=9), "not_finite"),
    ]
    for call, reason in calls:
        with pytest.raises(Refusal) as refusal:
            call()
        assert refusal.value.reason == reason
    with pytest.raises(ValueError, match="margin"):
        decisions.non_inferiority(fine, fine, -0.1)
    with pytest.raises(ValueError, match="margin"):
        decisions.equivalence(fine, fine, 1, -1)
    with pytest.raises(ValueError, match="alpha"):
        decisions.superiority(fine, fine, alpha=0)


def test_at_the_edge_nothing_is_proven():
    """A p-value of alpha, an interval that ends at zero or at the margin: not beyond it."""
    assert decisions.conclusive(math.nextafter(0.05, 0), (0.1, 0.2), 0.05)
    assert not decisions.conclusive(0.05, (0.1, 0.2), 0.05)
    assert not decisions.conclusive(0.05, (0.1, 0.2))
    assert not decisions.conclusive(0.01, (0.0, 0.2), 0.05)
    assert not decisions.conclusive(0.01, (-0.2, 0.0), 0.05)
    assert decisions.not_worse(decisions.Gain(math.nextafter(-0.1, 0), 1), 0.1)
    assert not decisions.not_worse(decisions.Gain(-0.1, 1), 0.1)
    assert decisions.equivalent(decisions.Gain(-0.05, math.nextafter(0.1, 0)), 0.1)
    assert not decisions.equivalent(decisions.Gain(-0.05, 0.1), 0.1)
    assert not decisions.equivalent(decisions.Gain(-0.1, 0.05), 0.1)


@pytest.mark.parametrize(("control", "treatment"), [(10.0, 9.5), (-10.0, -10.6), (1.0, 0.9)])
def test_the_margin_that_is_just_kept_is_the_end_of_fiellers_interval(
    control: float, treatment: float
) -> None:
    arms = Estimate(control, 0.2, 50, math.inf), Estimate(treatment, 0.3, 50, math.inf)
    if control == 1.0:
        arms = arms[0]._replace(variance=0.002), arms[1]._replace(variance=0.003)
    lift, effect = relative.fieller(*arms, 0.1), effects.compare(*arms, 0.1)
    variance = arms[0].variance
    # A lift, and a loss, is over the size of control, whatever its sign.
    for direction, margin in (("increase", -lift.low), ("decrease", lift.high)):
        kept = [
            decisions.not_worse_relative(effect, variance, -variance, margin + more, direction)  # type: ignore[arg-type]
            for more in (1e-7, -1e-7)
        ]
        assert kept == [True, False]


def test_a_margin_of_a_control_of_zero_has_no_sign() -> None:
    effect = effects.from_difference(0.0, 1.0, 1.0, 0.1)
    with pytest.raises(Refusal) as refusal:
        decisions.not_worse_relative(effect, 0.01, -0.01, 0.1)
    assert refusal.value.reason == "control_near_zero"


def test_the_levels_are_one_sided() -> None:
    """2.5 % for superiority, 5 % for a margin, where no level is named."""
    control = Estimate(0.0, 0.5, 99, math.inf)

    def treatment(z: float) -> Estimate:
        return Estimate(z, 0.5, 99, math.inf)

    z_40, z_20 = 1.959963984540054, 1.6448536269514722
    for more, passed in ((1e-9, True), (-1e-9, False)):
        assert decisions.superiority(control, treatment(z_40 + more)).passed == passed
        shifted = treatment(z_20 + more - 1)
        assert decisions.non_inferiority(control, shifted, 1.0).passed == passed
        inside = decisions.equivalence(control, shifted, -1.0, 9.0)
        assert inside.passed == passed
        ten = control._replace(value=10.0, variance=0.5 / 0.95**2)
        less = treatment(9.5 + z_20 + more)
        assert decisions.non_inferiority_relative(ten, less, 0.05).passed == passed
        assert decisions.equivalence_relative(ten, less, -0.05, 9.0).passed == passed
