"""Claims on a metric with a target: their level everywhere, intervals and p-values that agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick
from scipy.special import ndtr, ndtri

from abeval.stats import decisions, effects, toward
from abeval.stats.records import Estimate, Interval, Refusal

ALPHA = 0.05


def passes_a_harm(away: float, errors: tuple[float, float], critical: np.ndarray) -> float:
    """How often a treatment farther from the target by the whole margin passes.

    Args:
        away: Control less the target, in errors of control.
        errors: Of control's value and of the treatment's.
        critical: Of z, by where control is: `places(errors)`, in errors of control.
    """
    control = PLACES * errors[0]
    at = away * errors[0]
    margin, se = 8 * math.hypot(*errors), math.hypot(*errors)
    reach = np.maximum(np.abs(control) + margin - critical * se, 0.0)
    true = abs(at) + margin
    passed = ndtr((reach - true) / errors[1]) - ndtr((-reach - true) / errors[1])
    density = np.exp(-((PLACES - away) ** 2) / 2)
    return float(density @ passed / density.sum())


PLACES = np.linspace(-14, 14, 561)


@pytest.mark.parametrize("errors", [(1, 1), (3, 1), (1, 3), (1, 0.05)])
def test_a_harm_of_the_whole_margin_passes_in_half_of_alpha_wherever_control_is(
    errors: tuple[float, float],
) -> None:
    """By integration over control's estimate, not by chance: 4.9 % at the target before."""
    plain = np.full(PLACES.size, -ndtri(ALPHA / 2))
    shared = np.array(
        [
            -ndtri(toward.contrast_level(place * errors[0], errors[0], math.hypot(*errors)) / 2)
            for place in PLACES
        ]
    )
    before = [passes_a_harm(away, errors, plain) for away in (0, 0.5, 1, 2, 3, 5, 8)]
    after = [passes_a_harm(away, errors, shared) for away in (0, 0.5, 1, 2, 3, 5, 8)]
    assert before[0] > 0.038
    assert max(after) <= 0.025
    # Far from the target nearly all of alpha is used.
    assert after[-1] > 0.024


def test_a_simulated_harm_of_the_whole_margin_passes_in_half_of_alpha() -> None:
    random = np.random.default_rng(3)
    draws, margin = 2_500, 5 * math.sqrt(2)
    control, treatment = random.normal(0, 1, draws), random.normal(margin, 1, draws)
    ends = [
        toward.interval(Estimate(c, 1, 9_999, math.inf), Estimate(t, 1, 9_999, math.inf), 0.0)
        for c, t in zip(control, treatment, strict=True)
    ]
    passed = np.mean([decisions.not_worse(gain, margin) for gain in ends])
    naive = np.abs(control) - np.abs(treatment) + ndtri(ALPHA / 2) * math.sqrt(2) > -margin
    # Three standard errors of 2,500 draws are about 1 point.
    assert passed == pytest.approx(0.0245, abs=0.01)
    assert naive.mean() == pytest.approx(0.0494, abs=0.014)


values = st.builds(
    Estimate,
    st.floats(-5, 5),
    st.floats(0.01, 2),
    st.just(500),
    st.sampled_from([20.0, 499.0, math.inf]),
)


@quick
@given(values, values, st.floats(-5, 5), st.floats(0, 5), st.floats(0.002, 0.2))
def test_the_interval_agrees_with_the_p_value(
    control: Estimate, treatment: Estimate, target: float, margin: float, alpha: float
) -> None:
    decision = toward.non_inferiority(control, treatment, target, margin, alpha)
    gain = toward.interval(control, treatment, target, 2 * alpha)
    assert decision.passed == decisions.not_worse(gain, margin)
    if abs(decision.p_value / alpha - 1) > 1e-6:
        assert decision.passed == (decision.p_value < alpha)


@quick
@given(values, values, st.floats(-5, 5))
def test_the_gain_is_how_much_nearer_the_treatment_is(
    control: Estimate, treatment: Estimate, target: float
) -> None:
    nearer = abs(control.value - target) - abs(treatment.value - target)
    apart = treatment.value - control.value, treatment.value + control.value - 2 * target
    assert toward.gain(*apart) == pytest.approx(nearer, abs=1e-9)
    low, high = toward.interval(control, treatment, target)
    assert low < nearer < high


@quick
@given(*[st.floats(-5, 5)] * 2, *[st.floats(0, 5)] * 2)
def test_the_interval_of_a_gain_is_the_range_of_what_both_allow(
    first: float, second: float, width: float, other: float
) -> None:
    ends = Interval(first, first + width), Interval(second, second + other)
    gain = toward.gain_interval(*ends)
    one, two = np.meshgrid(*(np.linspace(low, high, 41) for low, high in ends))
    gains = np.minimum(-np.minimum(one, two), np.maximum(one, two))
    # The ends hold for every pair of values, and zero is outside where both exclude it.
    assert gain.low <= gains.min() + 1e-9
    assert gain.high >= gains.max() - 1e-9
    assert (gain.low > 0 or gain.high < 0) == all(low > 0 or high < 0 for low, high in ends)


def test_far_from_its_target_a_metric_is_as_any_other() -> None:
    control, treatment = Estimate(9, 0.02, 500, 499), Estimate(8.9, 0.03, 500, 499)
    found = toward.non_inferiority(control, treatment, target=0, margin=0.3)
    plain = decisions.non_inferiority(control, treatment, 0.3, direction="decrease")
    assert found.statistic == pytest.approx(plain.statistic)
    assert found.p_value == pytest.approx(plain.p_value / 0.98, rel=1e-3)
    low, high = toward.interval(control, treatment, 0)
    ends = effects.compare(control, treatment, 0.05 * 0.98)
    assert [low, high] == pytest.approx([-ends.high, -ends.low])


def test_what_cannot_be_tested_is_refused() -> None:
    known = Estimate(1, 0, 9, 8)
    with pytest.raises(Refusal, match="varies"):
        toward.interval(known, known, 0.0)
    with pytest.raises(ValueError, match="margin"):
        toward.non_inferiority(known, known, 0.0, -1)
    with pytest.raises(ValueError, match="alpha"):
        toward.contrast_level(0, 1, 1, alpha=0)


def test_a_sure_decision_keeps_a_small_p_value() -> None:
    control, treatment = Estimate(0, 1, 9, math.inf), Estimate(0.5, 1, 9, math.inf)
    found = toward.non_inferiority(control, treatment, 0.0, 100)
    assert found.passed
    assert found.log10_p_value < -300


def test_ends_are_by_the_levels_of_their_own_variant() -> None:
    """Control's side matters for the lower end, the treatment's for the upper."""
    control, treatment = Estimate(3, 0.5, 9, 8.0), Estimate(2.2, 0.8, 900, 899.0)
    low, high = toward.interval(control, treatment, -1.0, 0.1)
    df = effects.satterthwaite([0.5, 0.8], [8.0, 899.0])
    se = math.sqrt(1.3)
    levels = [
        toward.contrast_level(one.value + 1.0, math.sqrt(one.variance), se, 0.1, free)
        for one, free in ((control, 8.0), (treatment, df))
    ]
    assert df > 8
    # Both sides are known, but not so well that one contrast alone could err.
    assert all(0.0982 / 2 < level < 0.0979 for level in levels)
    ends = [
        toward.gain_interval(*(effects.interval(at, se, df, level) for at in (-0.8, 7.2)))
        for level in levels
    ]
    assert (low, high) == pytest.approx((ends[0].low, ends[1].high), rel=1e-9)
    assert toward.interval(control, treatment, 1.5) == toward.interval(
        control, treatment, 1.5, 0.05
    )
    assert toward.contrast_level(1.0, 0.5, 1.0) == toward.contrast_level(1.0, 0.5, 1.0, 0.05)
    known = toward.non_inferiority(control, treatment, 1.5, 1.0)
    assert known == toward.non_inferiority(control, treatment, 1.5, 1.0, 0.025)


@pytest.mark.parametrize("harm", [0.8, 0.95, 1.0, 2.0, 5.0])
def test_a_p_value_above_a_half_is_twice_the_tail_with_the_share_of_the_side(harm: float) -> None:
    """No error rate is above a half, so it is not sought there."""
    control, treatment = Estimate(0, 0.5, 99, math.inf), Estimate(harm + 1, 0.5, 99, math.inf)
    decision = toward.non_inferiority(control, treatment, 0.0, 1.2)
    assert decision.statistic == pytest.approx(0.2 - harm)
    expected = min(1.0, 2 * ndtr(harm - 0.2) / 0.98)
    assert decision.p_value == pytest.approx(expected, rel=1e-6)
    assert decision.log10_p_value == pytest.approx(math.log10(expected), abs=1e-6)
    assert not decision.passed


def test_p_values_have_their_logarithm() -> None:
    control, treatment = Estimate(0.3, 0.02, 99, 98.0), Estimate(0.4, 0.03, 99, 98.0)
    for margin in (0.0, 0.2, 0.6, 1.0):
        decision = toward.non_inferiority(control, treatment, 0.0, margin)
        assert decision.log10_p_value == pytest.approx(math.log10(decision.p_value), abs=1e-9)
