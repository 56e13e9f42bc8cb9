import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick

from abeval.stats import effects
from abeval.stats.records import Effect, Estimate, Refusal

estimates = st.builds(
    Estimate,
    value=st.floats(-1e3, 1e3),
    variance=st.floats(1e-6, 1e3),
    units=st.just(10),
    df=st.floats(1, 1e6) | st.just(math.inf),
)


@quick
@given(estimates, estimates)
def test_swapping_arms_negates(control: Estimate, treatment: Estimate) -> None:
    one, other = effects.compare(control, treatment), effects.compare(treatment, control)
    assert one.difference == -other.difference
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), rel=1e-12)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-12)
    assert one.statistic == pytest.approx(-other.statistic, rel=1e-12)


@quick
@given(estimates, estimates, st.floats(0.001, 0.5))
def test_interval_and_p_value_agree(control: Estimate, treatment: Estimate, alpha: float) -> None:
    e = effects.compare(control, treatment, alpha)
    inside = e.low < 0 < e.high
    if abs(e.p_value - alpha) > 1e-9:
        assert inside == (e.p_value > alpha)


def test_degrees_of_freedom_of_known_and_of_single_variances() -> None:
    assert effects.satterthwaite([1.0], [1]) == 1
    assert effects.satterthwaite([1.0, 0.0], [5, 0]) == 5
    assert effects.satterthwaite([1.0, 0.5], [math.inf, math.inf]) == math.inf
    with pytest.raises(ValueError, match="shorter"):
        effects.satterthwaite([1.0, 0.5], [4])
    assert effects.satterthwaite([2.0, 1.0], [4, 3]) == pytest.approx(9 / (4 / 4 + 1 / 3))


def test_an_interval_holds_95_percent_where_no_level_is_named() -> None:
    low, high = effects.compute_interval(1.0, 2.0)
    assert (low, high) == pytest.approx((1 - 2 * 1.959964, 1 + 2 * 1.959964), rel=1e-6)


def test_of_two_errors_the_one_that_faces_zero_decides() -> None:
    for difference in (0.5, 0.0, -0.5):
        low = effects.effect_from_difference(1, 1 + difference, difference, 0.2)
        high = effects.effect_from_difference(1, 1 + difference, difference, 0.4)
        effect = effects.merge_sides(low, high)
        assert (effect.low, effect.high) == (low.low, high.high)
        facing = low if difference > 0 else high
        assert (effect.se, effect.p_value) == (facing.se, facing.p_value)


def test_df_lies_between_the_smaller_and_the_sum() -> None:
    assert effects.satterthwaite([1, 1], [5, 5]) == pytest.approx(10)
    assert effects.satterthwaite([1, 1e-9], [5, 50]) == pytest.approx(5)
    assert effects.satterthwaite([0, 2], [5, 50]) == pytest.approx(50)
    assert effects.satterthwaite([1, 1], [math.inf, math.inf]) == math.inf
    assert effects.satterthwaite([1, 1], [math.inf, 5]) == pytest.approx(20)
    assert effects.satterthwaite([1e-200, 1e-200], [5, 5]) == pytest.approx(10)
    assert effects.satterthwaite([1e200, 1e200], [5, 5]) == pytest.approx(10)


REFUSED = [
    (Estimate(1, 0, 9, 8), Estimate(2, 0, 9, 8), "zero_variance"),
    (Estimate(math.nan, 1, 9, 8), Estimate(2, 1, 9, 8), "not_finite"),
    (Estimate(1, 1, 9, 8), Estimate(math.inf, 1, 9, 8), "not_finite"),
    (Estimate(1, math.inf, 9, 8), Estimate(2, 1, 9, 8), "not_finite"),
    (Estimate(1, -1, 9, 8), Estimate(2, 2, 9, 8), "inconsistent"),
]


@pytest.mark.parametrize(("control", "treatment", "reason"), REFUSED)
def test_no_number_is_a_refusal(control: Estimate, treatment: Estimate, reason: str) -> None:
    with pytest.raises(Refusal) as refusal:
        effects.compare(control, treatment)
    assert refusal.value.reason == reason


def test_a_difference_without_error_is_refused() -> None:
    for se in (0.0, math.nan):
        with pytest.raises(Refusal):
            effects.effect_from_difference(1, 2, 1, se)


def test_one_variant_without_variance_is_a_known_constant() -> None:
    e = effects.compare(Estimate(1, 0, 9, 8), Estimate(2, 0.25, 9, 8))
    assert isinstance(e, Effect)
    assert (e.se, e.df) == (0.5, 8.0)
