"""Claims on a metric with a target: their level everywhere, intervals and p-values that agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick
from scipy import stats as scipy_stats
from scipy.special import ndtr, ndtri

from abeval.stats import decisions, effects, toward
from abeval.stats.records import Estimate, Interval

ALPHA = 0.05


def interval(
    control: Estimate, treatment: Estimate, target: float, alpha: float = ALPHA
) -> decisions.Gain:
    """The gain at worst, by the side of control, and at best, by the side of the treatment."""
    effect = effects.compare(control, treatment)
    mirrored = treatment.value + control.value - 2 * target
    limits = []
    for one in (control, treatment):
        level = toward.contrast_level(
            one.value - target, math.sqrt(one.variance), effect.se, alpha, min(effect.df, one.df)
        )
        contrasts = (
            effects.interval(value, effect.se, effect.df, level)
            for value in (effect.difference, mirrored)
        )
        limits.append(toward.gain_interval(*contrasts))
    return decisions.Gain(limits[0].low, limits[1].high)


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
        interval(Estimate(c, 1, 9_999, math.inf), Estimate(t, 1, 9_999, math.inf), 0.0)
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
@given(
    st.floats(-5, 5),
    st.floats(0.1, 2),
    st.floats(0.1, 2),
    st.floats(0.002, 0.4),
    st.sampled_from([20.0, 499.0, math.inf]),
)
def test_both_contrasts_share_alpha_by_the_distance_that_is_proven(
    distance: float, spread: float, se: float, alpha: float, df: float
) -> None:
    level = toward.contrast_level(distance, spread, se, alpha, df)
    known = scipy_stats.t.ppf(1 - 0.02 * alpha / 4, df) * spread
    z = scipy_stats.t.isf(level / 2, df)
    far = z + 2 * max(0.0, abs(distance) - known) / se
    errs = scipy_stats.t.sf(z, df) + scipy_stats.t.sf(far, df)
    assert errs == pytest.approx(0.98 * alpha / 2, rel=1e-6)
    # So an interval of a higher level contains those of lower ones.
    assert level < toward.contrast_level(distance, spread, se, alpha * 1.01, df)


@quick
@given(values, values, st.floats(-5, 5))
def test_the_gain_is_how_much_nearer_the_treatment_is(
    control: Estimate, treatment: Estimate, target: float
) -> None:
    nearer = abs(control.value - target) - abs(treatment.value - target)
    apart = treatment.value - control.value, treatment.value + control.value - 2 * target
    assert toward.gain(*apart) == pytest.approx(nearer, abs=1e-9)
    low, high = interval(control, treatment, target)
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
    low, high = interval(control, treatment, 0)
    ends = effects.compare(control, treatment, 0.05 * 0.98)
    assert [low, high] == pytest.approx([-ends.high, -ends.low])


def test_a_level_is_a_level() -> None:
    for alpha in (0, 1):
        with pytest.raises(ValueError, match="alpha"):
            toward.contrast_level(0, 1, 1, alpha=alpha)
    assert toward.contrast_level(1.0, 0.5, 1.0) == toward.contrast_level(1.0, 0.5, 1.0, 0.05)


def test_a_side_that_is_known_but_not_for_sure_leaves_one_contrast_most_of_alpha() -> None:
    df = effects.satterthwaite([0.5, 0.8], [8.0, 899.0])
    assert df > 8
    # Not so well known that one contrast alone could err.
    for distance, variance, free in ((4.0, 0.5, 8.0), (3.2, 0.8, df)):
        level = toward.contrast_level(distance, math.sqrt(variance), math.sqrt(1.3), 0.1, free)
        assert 0.0982 / 2 < level < 0.0979
