"""The permutation test by its moments, beside permutations themselves."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats

from abeval.stats import skewed
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.stats.skewed import Skewed, evaluate_hypothesis

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def spent(seed: int, units: int, sigma: float = 0.8, buyers: float = 0.3) -> Floats:
    random = np.random.default_rng(seed)
    return np.where(random.random(units) < buyers, random.lognormal(0, sigma, units), 0.0)


def compared(control: Floats, treatment: Floats) -> Skewed:
    return skewed.means(Moments.build_with_third(control), Moments.build_with_third(treatment))


def permuted(values: Floats, units: int, runs: int = 20_000) -> Floats:
    """Differences in means of random splits."""
    random = np.random.default_rng(1)
    sums = np.array([random.permutation(values)[:units].sum() for _ in range(runs)])
    return np.asarray(sums / units - (values.sum() - sums) / (values.size - units))


class TestAgainstPermutations:
    def test_moments_are_those_of_all_splits(self) -> None:
        values = np.repeat(np.arange(20) ** 2.0, 2)
        splits = np.array(list(combinations(range(values.size), 4)))
        of_split = values[splits].mean(axis=1)
        differences = of_split - (values.sum() - 4 * of_split) / 36
        # Where the two variants have the same value, their own spread is that of all units.
        alike = splits[np.argmin(np.abs(differences))]
        test = compared(np.delete(values, alike), values[alike])
        assert skewed.measure_skewness(test) == pytest.approx(
            scipy.stats.skew(differences), rel=0.05
        )
        assert sum(skewed.estimate_variances(test)) == pytest.approx(differences.var(), rel=0.05)

    @pytest.mark.parametrize("seed", range(4))
    def test_p_values_are_those_of_permutations(self, seed: int) -> None:
        control, treatment = spent(seed, 900), 1.8 * spent(seed + 50, 100)
        effect = skewed.effect(compared(control, treatment))
        differences = permuted(np.concatenate([control, treatment]), 100)
        upper = (differences >= effect.difference).mean()
        expected = 2 * min(upper, (differences <= effect.difference).mean())
        assert effect.p_value == pytest.approx(expected, abs=0.03)

    def test_a_ratio_is_compared_as_its_linearised_units(self) -> None:
        random = np.random.default_rng(4)
        visits = 1.0 + random.poisson(3, (2, 1000))
        clicks = random.binomial(visits.astype(int), 0.1).astype(float)
        control = Moments.build_with_third(clicks[0], visits[0])
        treatment = Moments.build_with_third(clicks[1, :80], visits[1, :80])
        test = skewed.ratios(control, treatment)
        rate = clicks[0].sum() / visits[0].sum()
        linear = (clicks[0] - rate * visits[0]) / visits[0].mean()
        spread = test.strata[0].control
        assert spread.square == pytest.approx(np.sum(linear**2), rel=1e-12)
        assert spread.cube == pytest.approx(np.sum(linear**3), rel=1e-9)
        assert test.treatment == pytest.approx(clicks[1, :80].sum() / visits[1, :80].sum())


class TestCovariates:
    def test_are_taken_out_of_value_and_spread(self) -> None:
        before = spent(1, 1000), spent(2, 100)
        after = before[0] + spent(3, 1000), before[1] + spent(4, 100)
        arms = [Moments.build_with_third(y, x) for y, x in zip(after, before, strict=True)]
        adjusted = skewed.means(*arms, theta=[1.0])
        plain = skewed.means(*(arm.pick(0) for arm in arms))
        residual = after[0] - before[0]
        cube = np.sum((residual - residual.mean()) ** 3)
        assert adjusted.strata[0].control.cube == pytest.approx(cube, rel=1e-9)
        moved = (after[1] - before[1]).mean() - residual.mean()
        assert adjusted.treatment - adjusted.control == pytest.approx(moved, rel=1e-9)
        assert skewed.effect(adjusted).se < skewed.effect(plain).se

    def test_strata_are_weighed_by_their_shares(self) -> None:
        cells = [[spent(i, 500) + i, 2 * spent(i + 9, 50) + i] for i in range(2)]
        moments = [[Moments.build_with_third(one) for one in cell] for cell in cells]
        test = skewed.strata([m[0] for m in moments], [m[1] for m in moments], [0.25, 0.75])
        expected = 0.25 * cells[0][1].mean() + 0.75 * cells[1][1].mean()
        assert test.treatment == pytest.approx(expected)
        (first, second) = (skewed.means(*pair) for pair in moments)
        variance = [skewed.effect(one).se ** 2 for one in (first, second)]
        total = 0.25**2 * variance[0] + 0.75**2 * variance[1]
        assert skewed.effect(test).se == pytest.approx(math.sqrt(total))


class TestIntervals:
    @pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-3])
    @pytest.mark.parametrize("shift", [0.0, -2.0])
    def test_hold_zero_where_the_test_does_not_reject(self, alpha: float, shift: float) -> None:
        """With values of one sign, and of both."""
        decided = set()
        for seed in range(40):
            times = 0.4 + seed / 13
            test = compared(spent(seed, 3000) + shift, times * spent(seed + 99, 300) + shift)
            assert test.scaled == (shift == 0)
            effect, lift = skewed.effect(test, alpha), skewed.lift(test, alpha)
            rejects = effect.p_value < alpha
            assert rejects == (not effect.low <= 0 <= effect.high)
            assert effect.low < effect.difference < effect.high
            if lift.bounded:
                assert rejects == (not lift.low <= 0 <= lift.high)
                assert lift.low < lift.value < lift.high
            decided.add(rejects)
        assert decided == {True, False}

    @pytest.mark.parametrize(("control", "units"), [(400, 400), (4000, 400), (400, 4000)])
    def test_no_value_at_all_is_a_loss_with_an_upper_end(self, control: int, units: int) -> None:
        test = compared(spent(3, control), np.zeros(units))
        effect, lift = skewed.effect(test), skewed.lift(test)
        assert effect.p_value < 1e-4
        assert effect.low <= effect.difference < effect.high < 0
        assert (lift.value, lift.low) == (-1.0, -1.0)
        # Fewer than 3.7 buyers are to be expected, of 30 % before.
        assert -1 < lift.high < -1 + 2.5 * 3.7 / 0.3 / units

    def test_a_lift_is_no_loss_of_more_than_everything(self) -> None:
        nothing = compared(spent(1, 5000), np.zeros(100))
        lift = skewed.lift(nothing, 0.05)
        assert (lift.value, lift.low) == (-1.0, -1.0)
        assert lift.high > -0.9

    def test_a_lift_without_an_upper_end_has_a_p_value_and_a_lower_end(self) -> None:
        test = compared(spent(1, 20, buyers=0.1), 40 * spent(2, 20, buyers=0.9))
        effect, lift = skewed.effect(test), skewed.lift(test)
        assert effect.p_value < 0.05
        assert 0 < effect.low < effect.difference < effect.high < math.inf
        assert (lift.bounded, lift.high) == (False, math.inf)
        assert 0 < lift.low < lift.value

    def test_few_equal_units_have_an_answer_in_words_or_numbers(self) -> None:
        """Ended in a traceback: the edge of what is looked at was asked for at another point."""
        random, answered = np.random.default_rng(2), 0
        for _ in range(200):
            pair = random.integers(1, 12, (2, 3)).astype(float)
            try:
                low, high = skewed.compute_difference_interval(compared(*pair))
            except Refusal:
                continue
            answered += 1
            assert low < high
        assert answered > 20

    @pytest.mark.parametrize("seed", range(3))
    def test_at_equal_sizes_a_little_more_effect_is_no_other_test(self, seed: int) -> None:
        """Rounding chose one of two tests for each ratio: p jumped by up to .05."""
        arms = compared(spent(seed, 30, 1.5), spent(seed + 10, 30, 1.5))
        ratios = np.linspace(1.01, 5, 1_000)
        p_values = np.array([evaluate_hypothesis(arms, ratio).tail(-1).p_value for ratio in ratios])
        assert np.abs(np.diff(p_values, 2)).max() < 1e-3
        other = compared(spent(seed + 10, 30, 1.5), spent(seed, 30, 1.5))
        assert evaluate_hypothesis(arms, 1.0).tail(-1).p_value == pytest.approx(
            evaluate_hypothesis(other, 1.0).tail(1).p_value, rel=1e-9
        )

    def test_far_tails_have_a_p_value(self) -> None:
        effect = skewed.effect(compared(spent(1, 90_000), 3 + spent(2, 10_000)))
        assert effect.p_value < 1e-290

    def test_small_skewness_is_the_normal(self) -> None:
        random = np.random.default_rng(2)
        test = compared(random.normal(0, 1, 5000), random.normal(0.1, 1, 500))
        skew = skewed.measure_skewness(test)
        assert abs(skew) < 0.01
        effect = skewed.effect(test)
        normal = 2 * scipy.stats.norm.sf(abs(effect.statistic))
        assert effect.p_value == pytest.approx(normal, rel=0.05)
        assert skewed.convert_test_to_z(test) == pytest.approx(effect.statistic, abs=0.02)


def test_without_third_moments_there_is_no_test() -> None:
    with pytest.raises(Refusal) as refusal:
        skewed.means(Moments.of([1, 2, 9]), Moments.of([1, 4]))
    assert refusal.value.reason == "not_applicable"
