import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector

from abeval.stats import effects
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Adjusted, Estimate, Refusal

values = st.floats(-1e3, 1e3).filter(lambda v: abs(v) > 1e-3)
estimates = st.builds(
    Estimate,
    value=values,
    variance=st.floats(1e-6, 1e4),
    units=st.just(10),
    df=st.floats(2, 1e5) | st.just(math.inf),
)


def pair(vector_id: str) -> tuple[Estimate, Estimate]:
    i = vector(vector_id).inputs
    return (
        Estimate(i["mean_control"], i["var_of_mean_control"], 1000, math.inf),
        Estimate(i["mean_treatment"], i["var_of_mean_treatment"], 1000, math.inf),
    )


def test_vector_relative_ci_mean() -> None:
    v = vector("relative_ci_mean")
    control, treatment = pair("relative_ci_mean")
    fieller = effects.fieller(control, treatment)
    assert fieller.value == pytest.approx(v.expected["rel"], abs=v.tol)
    assert (fieller.low, fieller.high) == pytest.approx(v.expected["ci_fieller"], abs=v.tol)
    assert fieller.bounded
    delta = effects.delta(control, treatment)
    assert (delta.low, delta.high) == pytest.approx(v.expected["ci_delta"], abs=v.tol)
    se = effects.estimate_lift_se(control, treatment)
    assert se == pytest.approx(v.expected["se_delta"], abs=v.tol)
    log = effects.log_delta(control, treatment)
    assert (log.low, log.high) == pytest.approx(v.expected["ci_log"], abs=v.tol)
    assert effects.log_se(control, treatment) == pytest.approx(v.expected["se_log"], abs=v.tol)


def test_vector_relative_ci_negative_control() -> None:
    v = vector("relative_ci_negative_control")
    control, treatment = pair("relative_ci_negative_control")
    delta, fieller = effects.delta(control, treatment), effects.fieller(control, treatment)
    assert delta.value == fieller.value == pytest.approx(v.expected["rel"], abs=v.tol)
    assert (delta.low, delta.high) == pytest.approx(v.expected["ci_delta"], abs=v.tol)
    assert (fieller.low, fieller.high) == pytest.approx(v.expected["ci_fieller"], abs=v.tol)


def test_vector_relative_ci_fieller_unbounded() -> None:
    v = vector("relative_ci_fieller_unbounded")
    control, treatment = pair("relative_ci_fieller_unbounded")
    lift = effects.fieller(control, treatment)
    assert lift.bounded is v.expected["bounded"]
    assert (lift.low, lift.high) == (-math.inf, math.inf)


def test_d2_interval_is_not_inverted_when_the_signs_differ() -> None:
    control, treatment = Estimate(-2, 0.04, 100, 99), Estimate(1.8, 0.05, 100, 99)
    for interval in (effects.fieller, effects.delta):
        lift = interval(control, treatment)
        assert lift.value == pytest.approx(1.9)
        assert lift.low < lift.value < lift.high
    with pytest.raises(Refusal) as refusal:
        effects.log_delta(control, treatment)
    assert refusal.value.reason == "not_applicable"


def test_d2_control_of_zero_is_refused() -> None:
    control, treatment = Estimate(0, 0.04, 100, 99), Estimate(1.8, 0.05, 100, 99)
    for interval in (effects.fieller, effects.delta, effects.log_delta):
        with pytest.raises(Refusal) as refusal:
            interval(control, treatment)
        assert refusal.value.reason == "control_near_zero"


@quick
@given(estimates, estimates, st.floats(0.001, 0.3))
def test_d3_fieller_agrees_with_the_absolute_test(
    control: Estimate, treatment: Estimate, alpha: float
) -> None:
    effect = effects.compare(control, treatment, alpha)
    lift = effects.fieller(control, treatment, alpha)
    assume(lift.bounded and abs(effect.p_value - alpha) > 1e-6)
    assert (lift.low > 0 or lift.high < 0) == (effect.p_value < alpha)


def test_d3_log_and_delta_may_disagree_with_it() -> None:
    # |d|/se is 2 where z is 1.96: a rejection that delta, too wide above, does not see.
    control, treatment = Estimate(10, 4.0, 100, math.inf), Estimate(16, 5.0, 100, math.inf)
    assert effects.compare(control, treatment).p_value < 0.05
    assert effects.fieller(control, treatment).low > 0
    assert effects.delta(control, treatment).low < 0


@quick
@given(estimates, estimates)
def test_fieller_ends_are_where_the_test_of_that_lift_is_at_its_level(
    control: Estimate, treatment: Estimate
) -> None:
    lift = effects.fieller(*(one._replace(df=math.inf) for one in (control, treatment)))
    assume(lift.bounded and lift.high - lift.low < 1e3)
    for end in (lift.low, lift.high):
        ratio = 1 + math.copysign(end, end * control.value)
        distance = abs(treatment.value - ratio * control.value)
        se = math.sqrt(treatment.variance + ratio**2 * control.variance)
        assert distance == pytest.approx(1.959963984540054 * se, rel=1e-5)


@quick
@given(estimates, estimates)
def test_ends_enclose_the_value(control: Estimate, treatment: Estimate) -> None:
    for interval in (effects.fieller, effects.delta):
        lift = interval(control, treatment)
        assert lift.low <= lift.value <= lift.high
        assert lift.bounded == (math.isfinite(lift.low) and math.isfinite(lift.high))


@quick
@given(estimates, estimates, st.floats(1e-6, 1e6))
def test_unit_of_measurement_does_not_matter(
    control: Estimate, treatment: Estimate, scale: float
) -> None:
    other = [
        e._replace(value=e.value * scale, variance=e.variance * scale**2)
        for e in (control, treatment)
    ]
    for interval in (effects.fieller, effects.delta):
        one, two = interval(control, treatment), interval(*other)
        assert one.bounded == two.bounded
        assert one[:3] == pytest.approx(two[:3], rel=1e-6, abs=1e-9)


@quick
@given(estimates, estimates)
def test_both_signs_turned_turn_the_lift(control: Estimate, treatment: Estimate) -> None:
    turned = [e._replace(value=-e.value) for e in (control, treatment)]
    for interval in (effects.fieller, effects.delta):
        one, two = interval(control, treatment), interval(*turned)
        assert one.value == pytest.approx(-two.value, rel=1e-12)
        assert (one.low, one.high) == pytest.approx((-two.high, -two.low), rel=1e-9)


def test_d8_fieller_is_skewed_where_the_ratio_is() -> None:
    control, treatment = Estimate(10, 4.0, 100, math.inf), Estimate(10, 4.0, 100, math.inf)
    fieller, delta = effects.fieller(control, treatment), effects.delta(control, treatment)
    assert fieller.high - fieller.value > 1.3 * (fieller.value - fieller.low)
    assert delta.high - delta.value == pytest.approx(delta.value - delta.low)


def test_d9_the_error_of_the_control_is_in_the_relative_interval() -> None:
    v = vector("relative_ci_mean")
    control, treatment = pair("relative_ci_mean")
    naive = v.expected["ci_naive_WRONG"]
    effect = effects.compare(control, treatment)
    assert (effect.low / control.value, effect.high / control.value) == pytest.approx(naive)
    for interval in (effects.fieller, effects.delta, effects.log_delta):
        lift = interval(control, treatment)
        assert lift.high - lift.low > 1.05 * (naive[1] - naive[0])


def test_d10_each_variant_counts_its_own_units() -> None:
    rng = np.random.default_rng(7)
    # One large and one small arm: the average of both sizes would halve the error.
    sizes, sd = (9000, 1000), 3.0
    control, treatment = (Estimate(20.0, sd**2 / n, n, n - 1.0) for n in sizes)
    expected = math.sqrt(sd**2 / 9000 + sd**2 / 1000) / 20
    assert effects.estimate_lift_se(control, treatment) == pytest.approx(expected, rel=1e-12)
    draws = [rng.normal(20, sd / math.sqrt(n), 20_000) for n in sizes]
    assert np.std(draws[1] / draws[0] - 1) == pytest.approx(expected, rel=0.03)


def test_a_known_control_gives_the_scaled_absolute_interval() -> None:
    control, treatment = Estimate(4, 0, 100, math.inf), Estimate(5, 0.25, 100, math.inf)
    lift, effect = effects.fieller(control, treatment), effects.compare(control, treatment)
    assert (lift.low, lift.high) == pytest.approx((effect.low / 4, effect.high / 4))


@pytest.mark.parametrize("control", [1e-300, -1e-300])
def test_a_control_next_to_zero_is_refused_or_unbounded(control: float) -> None:
    near, treatment = Estimate(control, 0.04, 100, 99), Estimate(1.8, 0.05, 100, 99)
    assert effects.fieller(near, treatment)[1:4] == (-math.inf, math.inf, False)
    for interval in (effects.delta, effects.log_delta):
        with pytest.raises(Refusal) as refusal:
            interval(near, treatment)
        assert refusal.value.reason in ("control_near_zero", "not_applicable")


def test_a_control_too_small_to_divide_by_is_refused() -> None:
    near, treatment = Estimate(5e-324, 0.04, 100, 99), Estimate(1.8, 0.05, 100, 99)
    for interval in (effects.fieller, effects.delta, effects.log_delta):
        with pytest.raises(Refusal) as refusal:
            interval(near, treatment)
        assert refusal.value.reason == "control_near_zero"


def test_degenerate_estimates_are_refused() -> None:
    known, nan = Estimate(1, 0, 9, 8), Estimate(math.nan, 1, 9, 8)
    for interval in (effects.fieller, effects.delta, effects.log_delta):
        with pytest.raises(Refusal, match="varies"):
            interval(known, known)
        with pytest.raises(Refusal, match="finite"):
            interval(known, nan)


def test_a_wide_logarithmic_interval_has_no_upper_end() -> None:
    lift = effects.log_delta(Estimate(1e-3, 1, 9, math.inf), Estimate(1, 1, 9, math.inf))
    assert lift.high == math.inf
    assert not lift.bounded
    assert lift.low == pytest.approx(-1)


ADJUSTED = Adjusted(
    effects.effect_from_difference(10.0, 11.5, 1.5, 0.4, 25.0),
    (0.5,),
    0.3,
    Estimate(10.0, 0.36, 40, 39.0),
    Estimate(11.4, 0.3, 40, 39.0),
    -0.11,
)


@pytest.mark.parametrize("sign", [1, -1])
def test_adjusted_ends_are_where_the_test_of_that_lift_is_at_its_level(sign: int) -> None:
    control = ADJUSTED.control._replace(value=10.0 * sign)
    adjusted = ADJUSTED._replace(control=control, covariance=-0.11 * sign)
    lift = effects.fieller_adjusted(adjusted)
    q = scipy.stats.t.ppf(0.975, 25)
    for end in (lift.low, lift.high):
        over = end * sign
        variance = 0.16 - 2 * over * adjusted.covariance + over**2 * 0.36
        assert abs(1.5 - over * control.value) == pytest.approx(q * math.sqrt(variance), rel=1e-9)
    assert lift.value == pytest.approx(0.15)
    assert lift.low < lift.value < lift.high


def test_the_adjusted_delta_interval_has_the_covariance_with_control() -> None:
    ratio = 1.4 / 10
    se = math.sqrt(0.16 + 2 * ratio * 0.11 + ratio**2 * 0.36) / 10
    lift, q = effects.delta_adjusted(ADJUSTED), scipy.stats.t.ppf(0.975, 25)
    assert (lift.low, lift.high) == pytest.approx((0.15 - q * se, 0.15 + q * se), rel=1e-9)


def test_a_control_at_the_end_of_its_own_interval_has_no_bounded_lift() -> None:
    q = two_sided_quantile(0.05)
    control, treatment = Estimate(q, 1.0, 100, math.inf), Estimate(3.0, 0.5, 100, math.inf)
    assert effects.fieller(control, treatment)[1:4] == (-math.inf, math.inf, False)
    above = control._replace(value=q * (1 + 1e-6))
    assert effects.fieller(above, treatment).bounded


def test_the_logarithmic_interval_of_swapped_variants_is_one_over_it() -> None:
    control, treatment = Estimate(10, 0.04, 100, 99), Estimate(9, 0.05, 100, 99)
    loss, gain = effects.log_delta(control, treatment), effects.log_delta(treatment, control)
    assert loss.value == pytest.approx(-0.1)
    assert (1 + loss.low) * (1 + gain.high) == pytest.approx(1)
    assert (1 + loss.high) * (1 + gain.low) == pytest.approx(1)


@pytest.mark.parametrize(("half", "bounded"), [(699.5, True), (700.5, False)])
def test_a_logarithmic_end_beyond_e_to_700_is_infinite(half: float, bounded: bool) -> None:
    variance = (half / two_sided_quantile(0.05)) ** 2
    lift = effects.log_delta(Estimate(1, variance, 9, math.inf), Estimate(1, 0, 9, math.inf))
    assert lift.bounded == bounded


def test_a_treatment_of_zero_has_no_logarithm_and_one_that_is_known_no_error() -> None:
    control, nothing = Estimate(10, 4.0, 100, 99), Estimate(0, 0.0, 100, 99)
    with pytest.raises(Refusal) as refusal:
        effects.log_delta(control, nothing)
    assert refusal.value.reason == "not_applicable"
    with pytest.raises(Refusal, match="does not vary") as refusal:
        effects.delta(control, nothing)
    assert refusal.value.reason == "zero_variance"


def test_lifts_without_a_level_are_at_five_percent() -> None:
    pair = Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)
    for interval in (effects.fieller, effects.delta, effects.log_delta):
        assert interval(*pair) == interval(*pair, alpha=0.05)
    for of_adjusted in (effects.fieller_adjusted, effects.delta_adjusted):
        assert of_adjusted(ADJUSTED) == of_adjusted(ADJUSTED, 0.05)
