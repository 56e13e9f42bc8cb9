import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats as scipy_stats
from statsmodels.stats.weightstats import ttost_ind
from test_means import arms

from abeval.stats import decisions, effects, means
from abeval.stats.records import Effect, Estimate, Refusal

estimates = st.builds(
    Estimate,
    value=st.floats(-100, 100).filter(lambda v: abs(v) > 0.1),
    variance=st.floats(1e-4, 10),
    units=st.just(10),
    df=st.floats(3, 1e4) | st.just(math.inf),
)
margins = st.floats(0, 0.9)
levels = st.floats(0.01, 0.2)


def pair() -> tuple[Estimate, Estimate]:
    control, treatment = (means.estimate_mean(m) for m in arms("dwell"))
    return control, treatment


def p_of(
    control: Estimate, treatment: Estimate, factor: float = 1.0, shift: float = 0.0, sign: int = 1
) -> float:
    """One-sided p-value of sign·(μt − factor·μc + shift) > 0, by Welch's degrees of freedom."""
    c, t = control.variance, treatment.variance
    inverse = (c**2 / control.df + t**2 / treatment.df) / (c + t) ** 2
    df = 1 / inverse if inverse > 0 else math.inf
    se = math.sqrt(t + factor**2 * c)
    distance = sign * (treatment.value - factor * control.value + shift)
    return float(scipy_stats.t.sf(distance / se, df))


def p_relative(control: Estimate, treatment: Estimate, margin: float, sign: int) -> float:
    """One-sided p-value of a loss of less than a share of control's size."""
    factor = 1 - sign * math.copysign(margin, control.value)
    return p_of(control, treatment, factor, sign=sign)


def not_worse_relative(
    control: Estimate,
    treatment: Estimate,
    margin: float,
    alpha: float = 0.05,
    direction: decisions.Direction = "increase",
) -> bool:
    effect = effects.compare(control, treatment, 2 * alpha)
    return decisions.not_worse_relative(
        effect, control.variance, -control.variance, margin, direction
    )


def ends(effect: Effect) -> tuple[float, float]:
    return effect.low, effect.high


def test_vector_tost_mean() -> None:
    v = vector("tost_mean")
    control, treatment = pair()
    effect = effects.compare(control, treatment, 0.10)
    assert ends(effect) == pytest.approx(v.expected["ci90"], abs=v.tol)
    low, high = v.inputs["low"], v.inputs["high"]
    assert -low == high
    assert not decisions.equivalent(decisions.gain(ends(effect)), high)
    # The level at which both ends are at last inside the margins is the p-value.
    for more, equivalent in ((1e-6, True), (-1e-6, False)):
        alpha = 2 * (v.expected["p"] + more)
        within = decisions.gain(ends(effects.compare(control, treatment, alpha)))
        assert decisions.equivalent(within, high) == equivalent
    for direction, p in (("increase", "p_lower"), ("decrease", "p_upper")):
        for more, kept in ((1e-6, True), (-1e-6, False)):
            at = effects.compare(control, treatment, 2 * (v.expected[p] + more))
            assert decisions.not_worse(decisions.gain(ends(at), direction), high) == kept


@pytest.mark.parametrize("margin", [2.0, 3.0, 4.0, 5.0])
def test_equivalence_agrees_with_statsmodels(margin: float) -> None:
    c, t = [1.0, 4.0, 2.0, 8.0, 3.0], [2.0, 3.0, 5.0, 6.0, 4.5, 1.0]
    control, treatment = (means.estimate_mean(means.Moments.of(values)) for values in (c, t))
    p, low, high = ttost_ind(t, c, -margin, margin, usevar="unequal")
    for more, passed in ((1e-9, True), (-1e-9, False)):
        up, down, both = (
            effects.compare(control, treatment, 2 * (p_value + more))
            for p_value in (low[1], high[1], p)
        )
        assert decisions.not_worse(decisions.gain(ends(up)), margin) == passed
        assert decisions.not_worse(decisions.gain(ends(down), "decrease"), margin) == passed
        assert decisions.equivalent(decisions.gain(ends(both)), margin) == passed


@quick
@given(estimates, estimates, st.floats(0.01, 20), levels)
def test_equivalence_is_two_one_sided_tests(
    control: Estimate, treatment: Estimate, margin: float, alpha: float
) -> None:
    p_value = max(
        p_of(control, treatment, shift=margin), p_of(control, treatment, shift=-margin, sign=-1)
    )
    assume(abs(p_value / alpha - 1) > 1e-6)
    interval = ends(effects.compare(control, treatment, 2 * alpha))
    for direction in ("increase", "decrease"):
        gain = decisions.gain(interval, direction)
        assert decisions.equivalent(gain, margin) == (p_value < alpha)


@quick
@given(estimates, estimates, margins, levels)
def test_relative_non_inferiority_is_the_bound_of_fieller(
    control: Estimate, treatment: Estimate, margin: float, alpha: float
) -> None:
    lift = effects.fieller(control, treatment, 2 * alpha)
    assume(lift.bounded)
    assume(abs(lift.low + margin) > 1e-7 * (1 + margin))
    assert not_worse_relative(control, treatment, margin, alpha) == (lift.low > -margin)
    assume(abs(lift.high - margin) > 1e-7 * (1 + margin))
    down = not_worse_relative(control, treatment, margin, alpha, "decrease")
    assert down == (lift.high < margin)


@quick
@given(estimates, estimates, margins, levels)
def test_relative_non_inferiority_is_a_test_of_a_contrast(
    control: Estimate, treatment: Estimate, margin: float, alpha: float
) -> None:
    for sign, direction in ((1, "increase"), (-1, "decrease")):
        p_value = p_relative(control, treatment, margin, sign)
        assume(abs(p_value / alpha - 1) > 1e-6)
        kept = not_worse_relative(control, treatment, margin, alpha, direction)
        assert kept == (p_value < alpha)


@quick
@given(estimates, estimates, margins)
def test_relative_equivalence_is_fieller_within_the_margins(
    control: Estimate, treatment: Estimate, margin: float
) -> None:
    lift = effects.fieller(control, treatment, 0.10)
    assume(lift.bounded and margin > 1e-3)
    p_value = max(p_relative(control, treatment, margin, sign) for sign in (1, -1))
    assume(abs(p_value / 0.05 - 1) > 1e-6)
    equivalent = decisions.equivalent(decisions.gain((lift.low, lift.high)), margin)
    assert equivalent == (p_value < 0.05)


def test_relative_non_inferiority_statistic() -> None:
    control, treatment = Estimate(10, 0.04, 99, math.inf), Estimate(9.9, 0.05, 99, math.inf)
    z = (9.9 - 0.98 * 10) / math.sqrt(0.05 + 0.98**2 * 0.04)
    p_value = 0.5 * math.erfc(z / math.sqrt(2))
    assert not_worse_relative(control, treatment, 0.02, p_value * (1 + 1e-9))
    assert not not_worse_relative(control, treatment, 0.02, p_value * (1 - 1e-9))
    assert not not_worse_relative(control, treatment, 0.02)


@quick
@given(estimates, estimates, st.floats(0, 50))
def test_absolute_non_inferiority_is_the_bound_of_the_difference(
    control: Estimate, treatment: Estimate, margin: float
) -> None:
    interval = ends(effects.compare(control, treatment, 0.10))
    assume(abs(interval[0] + margin) > 1e-6)
    p_value = p_of(control, treatment, shift=margin)
    assume(abs(p_value / 0.05 - 1) > 1e-6)
    assert decisions.not_worse(decisions.gain(interval), margin) == (p_value < 0.05)
    turned = effects.compare(*(e._replace(value=-e.value) for e in (control, treatment)), 0.10)
    down = decisions.gain(ends(turned), "decrease")
    assert down == pytest.approx(interval, rel=1e-12)
    assert decisions.not_worse(down, margin) == (p_value < 0.05)


@quick
@given(estimates, estimates, levels)
def test_superiority_is_the_two_sided_test_with_the_right_sign(
    control: Estimate, treatment: Estimate, alpha: float
) -> None:
    better, worse = (p_of(control, treatment, sign=sign) for sign in (1, -1))
    assume(all(abs(p_value / (alpha / 2) - 1) > 1e-6 for p_value in (better, worse)))
    effect = effects.compare(control, treatment, alpha)
    proven = decisions.conclusive(effect.p_value, ends(effect), alpha)
    assert (proven and effect.difference > 0) == (better < alpha / 2)
    assert (proven and effect.difference < 0) == (worse < alpha / 2)


@quick
@given(estimates, estimates, margins, margins)
def test_a_wider_margin_is_easier(
    control: Estimate, treatment: Estimate, one: float, two: float
) -> None:
    low, high = sorted((one, two))
    gain = decisions.gain(ends(effects.compare(control, treatment)))
    assert decisions.not_worse(gain, high) or not decisions.not_worse(gain, low)
    assert decisions.equivalent(gain, high) or not decisions.equivalent(gain, low)


def test_not_significant_is_not_proven_harmless() -> None:
    noisy = Estimate(10, 4.0, 50, 49), Estimate(9.5, 4.0, 50, 49)
    assert effects.compare(*noisy).p_value > 0.05
    assert not not_worse_relative(*noisy, margin=0.02)


def test_a_relative_margin_works_where_fieller_is_unbounded() -> None:
    control, treatment = Estimate(0.1, 0.01, 50, math.inf), Estimate(1.5, 0.01, 50, math.inf)
    assert not effects.fieller(control, treatment).bounded
    assert not_worse_relative(control, treatment, 0.02)


def test_a_negative_control_loses_downwards() -> None:
    control = Estimate(-10, 0.001, 50, math.inf)
    better, worse = control._replace(value=-9.5), control._replace(value=-10.5)
    assert not_worse_relative(control, better, 0.02)
    assert not not_worse_relative(control, worse, 0.02)
    assert not_worse_relative(control, worse, 0.10)


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
    effect = effects.effect_from_difference(1.0, 2.0, 1.0, 1.0)
    touching, clear = (effect._replace(low=low, high=2 - low) for low in (0.0, 1e-9))
    assert not decisions.not_worse_relative(touching, 0.1, -0.1, 0.0)
    assert decisions.not_worse_relative(clear, 0.1, -0.1, 0.0)


@pytest.mark.parametrize(("control", "treatment"), [(10.0, 9.5), (-10.0, -10.6), (1.0, 0.9)])
def test_the_margin_that_is_just_kept_is_the_end_of_fiellers_interval(
    control: float, treatment: float
) -> None:
    arms = Estimate(control, 0.2, 50, math.inf), Estimate(treatment, 0.3, 50, math.inf)
    if control == 1.0:
        arms = arms[0]._replace(variance=0.002), arms[1]._replace(variance=0.003)
    lift, effect = effects.fieller(*arms, 0.1), effects.compare(*arms, 0.1)
    variance = arms[0].variance
    # A lift, and a loss, is over the size of control, whatever its sign.
    for direction, margin in (("increase", -lift.low), ("decrease", lift.high)):
        kept = [
            decisions.not_worse_relative(effect, variance, -variance, margin + more, direction)  # type: ignore[arg-type]
            for more in (1e-7, -1e-7)
        ]
        assert kept == [True, False]


def test_a_margin_of_a_control_of_zero_has_no_sign() -> None:
    effect = effects.effect_from_difference(0.0, 1.0, 1.0, 0.1)
    with pytest.raises(Refusal) as refusal:
        decisions.not_worse_relative(effect, 0.01, -0.01, 0.1)
    assert refusal.value.reason == "control_near_zero"


def test_margins_are_finite_and_not_negative() -> None:
    effect = effects.effect_from_difference(1.0, 1.0, 0.0, 0.1)
    for margin in (-0.1, -1e-9, math.inf, math.nan):
        with pytest.raises(ValueError, match="margin must not be negative"):
            decisions.not_worse_relative(effect, 0.01, -0.01, margin)
    # Without a margin, what is as good as control is proven by nothing.
    assert not decisions.not_worse_relative(effect, 0.01, -0.01, 0.0)


def test_intervals_of_95_and_90_percent_are_tests_at_2_5_and_5() -> None:
    control = Estimate(0.0, 0.5, 99, math.inf)

    def treatment(z: float) -> Estimate:
        return Estimate(z, 0.5, 99, math.inf)

    z_40, z_20 = 1.959963984540054, 1.6448536269514722
    for more, passed in ((1e-9, True), (-1e-9, False)):
        effect = effects.compare(control, treatment(z_40 + more))
        assert decisions.conclusive(effect.p_value, ends(effect)) == passed
        shifted = decisions.gain(ends(effects.compare(control, treatment(z_20 + more - 5), 0.10)))
        assert decisions.not_worse(shifted, 5.0) == passed
        assert decisions.equivalent(shifted, 5.0) == passed
        ten = control._replace(value=10.0, variance=0.5 / 0.95**2)
        less = treatment(9.5 + z_20 + more)
        assert not_worse_relative(ten, less, 0.05) == passed


def test_a_relative_margin_is_judged_by_the_harmful_end_of_an_uneven_interval() -> None:
    control, treatment = Estimate(1.0, 4e-4, 100, 99), Estimate(1.0, 4e-4, 100, 99)
    effect = effects.compare(control, treatment)
    far, near = 4 * effect.se, 1 * effect.se
    low_is_far = effect._replace(low=-far, high=near)
    high_is_far = effect._replace(low=-near, high=far)
    kept = {
        (uneven is low_is_far, direction): decisions.not_worse_relative(
            uneven, control.variance, -control.variance, 0.06, direction
        )
        for uneven in (low_is_far, high_is_far)
        for direction in ("increase", "decrease")
    }
    assert kept == {
        (True, "increase"): False,
        (True, "decrease"): True,
        (False, "increase"): True,
        (False, "decrease"): False,
    }
