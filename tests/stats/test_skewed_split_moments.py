"""Moments of a difference over all splits, by going through the splits."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats

from abeval.stats import distributions, skewed
from abeval.stats.skewed import Skewed, Spread, Stratum, evaluate_hypothesis, hall

VALUES = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 7.0, 8.0, 13.0]) - 4.0


def spread(values: np.ndarray) -> Spread:
    return Spread(values.size, float(np.sum(values**2)), float(np.sum(values**3)))


def one_stratum(control: Spread, treatment: Spread, *, gain: float, scaled: bool = True) -> Skewed:
    return Skewed(4.0, 4.0 * gain, (Stratum(1.0, control, treatment),), scaled)


def test_third_moments_are_those_of_every_split() -> None:
    splits = np.array(list(combinations(range(9), 3)))
    of_three = VALUES[splits].mean(axis=1)
    differences = of_three - (VALUES.sum() - 3 * of_three) / 6
    test = evaluate_hypothesis(one_stratum(spread(VALUES[3:]), spread(VALUES[:3]), gain=1.1), 1.0)
    # The variants' own means cost a degree of freedom more than one mean of all does.
    assert test.se**2 * 7 / 8 == pytest.approx(np.mean(differences**2), rel=1e-9)
    assert test.skewness * test.se**3 == pytest.approx(np.mean(differences**3), rel=1e-9)


def test_the_statistic_has_the_difference_in_its_own_spread() -> None:
    test = evaluate_hypothesis(one_stratum(spread(VALUES[3:]), spread(VALUES[:3]), gain=1.4), 1.0)
    t = 1.6 / test.se
    assert test.z == pytest.approx(t * math.sqrt(8 / (7 + t * t)), rel=1e-12)
    # As the two-sided test of a pooled spread, it is never beyond the root of the units.
    far = evaluate_hypothesis(one_stratum(spread(VALUES[3:]), spread(VALUES[:3]), gain=1e6), 1.0)
    assert far.z == pytest.approx(math.sqrt(8), rel=1e-6)
    few = evaluate_hypothesis(one_stratum(Spread(2, 1.0, 0.0), Spread(2, 1.0, 0.0), gain=1.25), 1.0)
    assert few.z == pytest.approx(math.sqrt(3 / 3), rel=1e-12)


def test_p_values_of_a_side_are_the_larger_of_two_tests() -> None:
    control, treatment = Spread(90, 900.0, 9_000.0), Spread(10, 400.0, 20_000.0)
    test = evaluate_hypothesis(one_stratum(control, treatment, gain=1.8), 1.0)
    own = 900 / 89 / 90 + 400 / 9 / 10
    assert test.separate.difference == pytest.approx(3.2)
    assert test.separate.se == pytest.approx(math.sqrt(own), rel=1e-12)
    third = 20_000 / 10**3 - 9_000 / 90**3
    assert test.separate.skewness == pytest.approx(third / own**1.5, rel=1e-12)
    corrected = hall(test.separate.difference / test.separate.se, test.separate.skewness)
    upper = distributions.skewed_tail(test.z, test.skewness)[0], scipy.stats.norm.sf(corrected)
    lower = distributions.skewed_tail(-test.z, -test.skewness)[0], scipy.stats.norm.cdf(corrected)
    assert test.tail(1).p_value == pytest.approx(max(upper), rel=1e-9)
    assert test.tail(-1).p_value == pytest.approx(max(lower), rel=1e-9)


def test_an_effect_that_multiplies_is_taken_out_of_the_treatment() -> None:
    """The larger variance of two: higher values in it, or more units with one."""
    control, treatment = Spread(40, 400.0, 3_000.0), Spread(30, 2_000.0, 40_000.0)
    for ratio in (0.5, 2.0, 3.0):
        test = evaluate_hypothesis(one_stratum(control, treatment, gain=1.3 * ratio), ratio)
        square = (400 + 2_000 / ratio**2) / 68
        cube = (3_000 + 40_000 / ratio**3) * 70 / 69 / 68
        values = square * (1 / 40 + 1 / 30), cube * (1 / 30**2 - 1 / 40**2)
        of_treatment = 70 / (40 * ratio + 30)
        third = 70 / (40 * ratio**2 + 30)
        units = (
            square * (ratio * of_treatment / 40 + of_treatment / 30),
            cube * (third / 30**2 - ratio**2 * third / 40**2),
        )
        variance, moment = max(values, units)
        assert test.se == pytest.approx(math.sqrt(variance), rel=1e-12)
        assert test.skewness == pytest.approx(moment / variance**1.5, rel=1e-9)
        assert test.separate.difference == pytest.approx(1.2)
        own = 400 / 39 / 40 + 2_000 / ratio**2 / 29 / 30
        assert test.separate.se == pytest.approx(math.sqrt(own), rel=1e-12)
        third = 40_000 / ratio**3 / 30**3 - 3_000 / 40**3
        assert test.separate.skewness == pytest.approx(third / own**1.5, rel=1e-9)
    # Which of the two is larger is the case that was looked at: both occur above.
    assert 70 / (40 * 0.5 + 30) * (0.5 / 40 + 1 / 30) > 1 / 40 + 1 / 30
    assert 70 / (40 * 2.0 + 30) * (2.0 / 40 + 1 / 30) < 1 / 40 + 1 / 30


def test_the_larger_variance_counts_whatever_the_third_moments_are() -> None:
    control, treatment = Spread(40, 400.0, 0.0), Spread(30, 2_000.0, 0.0)
    square = (400 + 2_000 / 0.25) / 68
    units = 70 / (40 * 0.5 + 30) * (0.5 / 40 + 1 / 30)
    test = evaluate_hypothesis(one_stratum(control, treatment, gain=0.5), 0.5)
    assert test.se == pytest.approx(math.sqrt(square * units), rel=1e-12)
    cubes = Spread(40, 400.0, 3e6), Spread(30, 2_000.0, 4e7)
    values = evaluate_hypothesis(one_stratum(*cubes, gain=2.0), 2.0)
    square = (400 + 2_000 / 4) / 68
    assert values.se == pytest.approx(math.sqrt(square * (1 / 40 + 1 / 30)), rel=1e-12)


def test_an_effect_that_adds_is_taken_from_the_difference() -> None:
    control, treatment = Spread(40, 400.0, 3_000.0), Spread(30, 2_000.0, 40_000.0)
    nothing = evaluate_hypothesis(one_stratum(control, treatment, gain=1.5, scaled=False), 2.0)
    assert (nothing.z, nothing.separate.difference) == (0.0, 0.0)
    more = evaluate_hypothesis(one_stratum(control, treatment, gain=1.5, scaled=False), 0.5)
    assert more.separate.difference == pytest.approx(1.5)
    assert more.se == nothing.se


def test_strata_add_up_by_the_powers_of_their_shares() -> None:
    cells = [
        (Spread(40, 400.0, 3_000.0), Spread(30, 2_000.0, 40_000.0)),
        (Spread(80, 90.0, 500.0), Spread(20, 70.0, 900.0)),
    ]
    alone = [evaluate_hypothesis(one_stratum(*cell, gain=1.0), 1.0) for cell in cells]
    shares = 0.25, 0.75
    strata = tuple(Stratum(share, *cell) for share, cell in zip(shares, cells, strict=True))
    both = Skewed(4.0, 4.0, strata, True)
    test = evaluate_hypothesis(both, 1.0)
    assert both.units == 170
    variance = sum(w**2 * one.se**2 for w, one in zip(shares, alone, strict=True))
    third = sum(w**3 * one.skewness * one.se**3 for w, one in zip(shares, alone, strict=True))
    assert test.se == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert test.skewness == pytest.approx(third / variance**1.5, rel=1e-9)
    own = sum(w**2 * one.separate.se**2 for w, one in zip(shares, alone, strict=True))
    third = sum(
        w**3 * one.separate.skewness * one.separate.se**3
        for w, one in zip(shares, alone, strict=True)
    )
    assert test.separate.se == pytest.approx(math.sqrt(own), rel=1e-12)
    assert test.separate.skewness == pytest.approx(third / own**1.5, rel=1e-9)
    # Two means of a stratum are known from its own units.
    t = 1.0 / evaluate_hypothesis(both._replace(treatment=5.0), 1.0).se
    moved = evaluate_hypothesis(both._replace(treatment=5.0), 1.0).z
    assert moved == pytest.approx(t * math.sqrt(167 / (166 + t * t)), rel=1e-12)
    variance = third = 0.0
    for share, (control, treatment) in zip(shares, cells, strict=True):
        n, m = control.units, treatment.units
        variance += share**2 * (control.square + treatment.square) / (n + m) * (1 / n + 2.25 / m)
        cube = (control.cube + treatment.cube) / (n + m)
        third += share**3 * cube * (3.375 / m**2 - 1 / n**2)
    expected = third / variance**1.5
    assert skewed.measure_skewness_at_ratio(both, 1.5) == pytest.approx(expected, rel=1e-12)
    steady = Stratum(1.0, Spread(5, 0.0, 0.0), Spread(5, 0.0, 0.0))
    assert skewed.measure_skewness_at_ratio(both._replace(strata=(steady,)), 1.5) == 0.0


@pytest.mark.parametrize("skewness", [0.8, 0.02, 5e-5, -0.3])
@pytest.mark.parametrize("t", [-2.5, -0.3, 1.0, 3.0])
def test_halls_transformation(t: float, skewness: float) -> None:
    a = skewness
    z = t + a * t**2 / 3 + a * a * t**3 / 27 + a / 6
    assert hall(t, a) == pytest.approx(z, rel=1e-9, abs=1e-10)
