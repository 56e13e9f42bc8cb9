"""Ends of intervals of skewed values: where their own test is at its level."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from abeval.stats import skewed
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.stats.skewed import Skewed, Spread, Stratum, evaluate_hypothesis


def drawn(seed: int, units: int, buyers: float = 0.4) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.where(random.random(units) < buyers, random.lognormal(0, 0.8, units), 0.0)


def compared(control: np.ndarray, treatment: np.ndarray) -> Skewed:
    return skewed.means(Moments.build_with_third(control), Moments.build_with_third(treatment))


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.001])
@pytest.mark.parametrize("shift", [0.0, -1.0])
@pytest.mark.parametrize(("control", "treatment"), [(300, 300), (900, 60), (60, 900)])
def test_at_its_ends_the_test_is_at_half_of_alpha(
    alpha: float, shift: float, control: int, treatment: int
) -> None:
    arms = compared(drawn(1, control) + shift, 1.2 * drawn(2, treatment) + shift)
    assert arms.scaled == (shift == 0)
    low, high = skewed.compute_effect_interval(arms, alpha)
    if low != 0 or not arms.scaled:
        assert evaluate_hypothesis(arms, low).tail(1).p_value == pytest.approx(alpha / 2, rel=1e-6)
    assert evaluate_hypothesis(arms, high).tail(-1).p_value == pytest.approx(alpha / 2, rel=1e-6)
    effect = (arms.treatment / arms.control) if arms.scaled else arms.treatment - arms.control
    assert low < effect < high


def test_few_units_of_both_signs_have_ends_as_long_as_their_test_has() -> None:
    """Its statistic is never above √(units − 1): of three and three units 2.24, of four 1.73."""
    three = compared(np.array([-1.0, 1, 3]), np.array([-2.0, 1, 0]))
    low, high = skewed.compute_difference_interval(three, 0.05)
    assert low < three.treatment - three.control < high
    assert skewed.compute_difference_interval(three) == (low, high)
    two = compared(np.array([-1.0, 1]), np.array([-2.0, 1]))
    with pytest.raises(Refusal, match="no end") as refused:
        skewed.compute_difference_interval(two, 0.05)
    assert refused.value.reason == "too_few_units"
    wide = skewed.compute_difference_interval(two, 0.2)
    assert evaluate_hypothesis(two, wide.low).tail(1).p_value == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("units", [3, 5, 8, 12, 20, 60])
def test_without_any_value_the_interval_agrees_with_the_test(units: int) -> None:
    arms = compared(drawn(3, 400), np.zeros(units))
    for alpha in (0.3, 0.05, 0.01):
        limits = skewed.compute_effect_interval(arms, alpha)
        assert limits.low == 0.0
        if math.isinf(limits.high):
            assert evaluate_hypothesis(arms, 1e4).tail(-1).p_value > alpha / 2
            continue
        rejects = evaluate_hypothesis(arms, 1.0).tail(-1).p_value <= alpha / 2
        assert (limits.high < 1) == rejects
        if not rejects:
            assert evaluate_hypothesis(arms, limits.high).tail(-1).p_value == pytest.approx(
                alpha / 2, rel=1e-6
            )
    many = compared(drawn(3, 400), np.zeros(500))
    control = drawn(3, 400)
    # As rare as half of alpha: nobody of so many units buys, if so many buy at least.
    second = 1 + control.var() / control.mean() ** 2
    assert skewed.compute_effect_interval(many, 0.05).high == pytest.approx(
        -math.log(0.025) * second / 500
    )


def test_an_interval_without_an_end_near_ten_thousand_has_none() -> None:
    few, many = Spread(3, 54.0, 162.0), Spread(100, 25.0, 0.0)
    arms = Skewed(0.5, 3.0, (Stratum(1.0, many, few),), True)
    p_value = evaluate_hypothesis(arms, 1e4).tail(-1).p_value
    assert skewed.compute_effect_interval(arms, 2.001 * p_value).high < 1e4
    assert skewed.compute_effect_interval(arms, 1.999 * p_value).high == math.inf
    assert skewed.compute_effect_interval(arms._replace(scaled=False), 0.2).high < math.inf


def test_the_value_of_control_is_that_of_both_variants() -> None:
    strata = (
        Stratum(0.25, Spread(40, 400.0, 0.0), Spread(30, 2_000.0, 0.0)),
        Stratum(0.75, Spread(80, 90.0, 0.0), Spread(20, 70.0, 0.0)),
    )
    arms = Skewed(4.0, 9.0, strata, True)
    value, error = skewed.estimate_baseline(arms, 1.5)
    assert value == pytest.approx((120 * 4.0 + 50 * 6.0) / 170)
    first, second = (400 + 2_000 / 2.25) / 70**2, (90 + 70 / 2.25) / 100**2
    assert error == pytest.approx(math.sqrt(0.25**2 * first + 0.75**2 * second))
    value, error = skewed.estimate_baseline(arms, 0.0)
    assert value == 4.0
    assert error == pytest.approx(math.sqrt(0.25**2 * 400 / 40**2 + 0.75**2 * 90 / 80**2))
    low, error = skewed.estimate_baseline(arms, 0.5)
    assert low == pytest.approx((120 * 4.0 + 50 * 18.0) / 170)
    first, second = (400 + 2_000 * 4) / 70**2, (90 + 70 * 4) / 100**2
    assert error == pytest.approx(math.sqrt(0.25**2 * first + 0.75**2 * second))
    parts = 0.25**2 * 2_400 / 68, 0.75**2 * 160 / 98
    expected = parts[0] / 40 + parts[1] / 80, parts[0] / 30 + parts[1] / 20
    assert skewed.estimate_variances(arms) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("ratio", "reach"), [(1.2, -2.0), (2.6, 2.0), (0.7, -2.0), (2.6, 200.0)])
def test_an_end_of_the_difference_has_the_error_of_both(ratio: float, reach: float) -> None:
    """Of the ratio, and of the value that it multiplies, as two independent errors are added."""
    arms = Skewed(
        4.0, 7.0, (Stratum(1.0, Spread(400, 4_000.0, 0.0), Spread(300, 9_000.0, 0.0)),), True
    )
    base, error = skewed.estimate_baseline(arms, ratio)
    of_ratio = abs(1.75 - ratio) * base
    of_base = abs(ratio - 1) * min(abs(reach) * error, 0.99 * base)
    away = math.hypot(of_ratio, of_base) - of_ratio
    expected = (ratio - 1) * base + (away if reach > 0 else -away)
    assert skewed.convert_end_to_difference(arms, ratio, reach) == pytest.approx(
        expected, rel=1e-12
    )
    # It never passes zero.
    assert (expected > 0) == (ratio > 1)


class TestFewNumbers:
    def test_skewness_at_effects_is_that_of_a_gain_or_a_loss_whichever_is_larger(self) -> None:
        for control, treatment in ((2_000, 300), (300, 2_000), (20, 20)):
            arms = compared(drawn(4, control), drawn(5, treatment))
            n, m = control, treatment
            [stratum] = arms.strata
            square = (stratum.control.square + stratum.treatment.square) / (n + m)
            cube = (stratum.control.cube + stratum.treatment.cube) / (n + m)
            base, _ = skewed.estimate_baseline(arms, 1.0)
            effect = 2.8 * evaluate_hypothesis(arms, 1.0).se / base
            skews = [
                cube * (r**3 / m**2 - 1 / n**2) / (square * (1 / n + r**2 / m)) ** 1.5
                for r in (1 + effect, 1 - min(effect, 0.9))
            ]
            assert skewed.measure_skewness_at_effects(arms) == pytest.approx(max(map(abs, skews)))
        of_both_signs = compared(drawn(4, 50) - 1, drawn(5, 50) - 1)
        assert skewed.measure_skewness_at_effects(of_both_signs) == 0.0

    def test_a_score_is_the_normal_quantile_of_the_side_that_is_less_likely(self) -> None:
        up, down = (
            compared(drawn(1, 300), 1.5 * drawn(2, 300)),
            compared(1.5 * drawn(2, 300), drawn(1, 300)),
        )
        for arms, side in ((up, 1), (down, -1)):
            test = evaluate_hypothesis(arms, 1.0)
            p_value = min(test.tail(1).p_value, test.tail(-1).p_value)
            score = skewed.convert_test_to_z(arms)
            assert score == pytest.approx(side * scipy.stats.norm.isf(p_value), rel=1e-9)
            effect = skewed.effect(arms)
            assert effect.p_value == pytest.approx(2 * p_value, rel=1e-12)
            assert effect == skewed.effect(arms, 0.05)
            assert skewed.lift(arms) == skewed.lift(arms, 0.05)
            limits, q = skewed.compute_effect_interval(arms, 0.05), scipy.stats.norm.isf(0.025)
            ends = (
                skewed.convert_end_to_difference(arms, limits.low, -q),
                skewed.convert_end_to_difference(arms, limits.high, q),
            )
            assert effect[5:7] == pytest.approx(ends, rel=1e-9)
        huge = compared(drawn(1, 90_000), 3 + drawn(2, 10_000))
        assert skewed.convert_test_to_z(huge) == pytest.approx(scipy.stats.norm.isf(1e-300))

    def test_a_lift_over_values_of_both_signs_needs_a_control_away_from_zero(self) -> None:
        near, far = drawn(1, 200) - drawn(1, 200).mean(), drawn(1, 200) - 3.0
        unbounded = skewed.lift(compared(near - 0.05, near + 0.07))
        assert unbounded[1:4] == (-math.inf, math.inf, False)
        arms = compared(far, far + 0.3)
        lift, ends = skewed.lift(arms), skewed.compute_effect_interval(arms, 0.05)
        whole = abs((arms.control + arms.treatment) / 2)
        assert lift.bounded
        assert (lift.low, lift.high) == pytest.approx((ends.low / whole, ends.high / whole))
        assert lift.value == pytest.approx(0.3 / abs(arms.control))
        # The value of all units, 1.96 of its errors away from zero.
        _, error = skewed.estimate_baseline(arms, 1.0)
        for times, bounded in ((1.9, False), (2.0, True)):
            moved = far - far.mean() + times * error
            assert skewed.lift(compared(moved, moved + 1e-9)).bounded == bounded
        with pytest.raises(Refusal) as refused:
            skewed.lift(compared(np.array([-1.0, 0, 1]), np.array([-1.0, 0, 2])))
        assert refused.value.reason == "control_near_zero"

    def test_a_ratio_has_its_covariate_taken_out(self) -> None:
        random = np.random.default_rng(6)
        arms = []
        for units in (300, 100):
            before = random.gamma(2, 1, units)
            shown = 1.0 + random.poisson(4, units)
            arms.append((random.binomial(shown.astype(int), 0.2) + 0.2 * before, shown, before))
        moments = [Moments.build_with_third(*arm) for arm in arms]
        pair = skewed.ratios(*moments, theta=[0.05])
        values, moved = [], []
        for (y, x, z), spread in zip(arms, pair.strata[0][1:], strict=True):
            rate = y.mean() / x.mean()
            line = (y - rate * x) / x.mean() - 0.05 * (z - z.mean())
            # Of few units each is left out of the denominator.
            rest = 1 - (x / x.mean() - 1) / (len(x) - 1) if len(x) <= 100 else 1.0
            left = (y - rate * x) / x.mean() / rest - 0.05 * (z - z.mean())
            assert spread.square == pytest.approx(np.sum(left**2), rel=1e-9)
            assert spread.cube == pytest.approx(np.sum(line**3), rel=1e-9)
            values.append(rate)
            moved.append(0.05 * z.mean())
        apart = (moved[1] - moved[0]) / 400
        assert pair.control == pytest.approx(values[0] + 100 * apart, rel=1e-12)
        assert pair.treatment == pytest.approx(values[1] - 300 * apart, rel=1e-12)
        assert skewed.ratios(*(m.pick(0, 1) for m in moments)).control == pytest.approx(values[0])

    def test_values_may_be_multiplied_if_none_is_negative(self) -> None:
        zeros, some, negative = np.zeros(9), np.arange(9.0), np.arange(9.0) - 3.5
        single = np.where(np.arange(9) == 3, 5.0, 0.0)
        assert compared(some, single).scaled
        assert compared(some, zeros).scaled
        assert not compared(some, negative).scaled
        assert not compared(negative, some).scaled
        assert not compared(-some, -single).scaled
        # Of a mean of 1, a square of 4 and a cube of 4: without the −2 the cube were larger.
        below = np.array([-2.0, 2, 2, 2])
        assert not compared(below, below).scaled

    def test_two_units_have_a_spread_and_one_has_none(self) -> None:
        two, one = Moments.build_with_third([1.0, 2.0]), Moments.build_with_third([1.0])
        assert skewed.means(two, two).units == 4
        with pytest.raises(Refusal) as refused:
            skewed.means(two, one)
        assert refused.value.reason == "too_few_units"
