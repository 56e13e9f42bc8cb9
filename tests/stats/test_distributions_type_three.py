"""Tails of Pearson's type III distribution against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from abeval.stats import distributions

SKEWS = [2.0, 1.1, 0.3, 5e-5, -5e-5, -0.3, -0.49]
Z = [-3.0, -1.2, -0.4, 0.0, 0.7, 1.96, 5.0]


@pytest.mark.parametrize("skew", SKEWS)
def test_tails_are_scipys(skew: float) -> None:
    theirs = scipy.stats.pearson3.sf(Z, skew)
    assert [distributions.skewed_tail(z, skew)[0] for z in Z] == pytest.approx(
        theirs, rel=1e-7, abs=1e-12
    )
    assert distributions.skewed_tails(np.array(Z), np.array(skew)) == pytest.approx(
        theirs, rel=1e-7
    )
    for p, log10 in (distributions.skewed_tail(z, skew) for z in Z):
        assert log10 == pytest.approx(math.log10(p), abs=1e-12) if p > 0 else log10 == -math.inf


def test_a_skewness_of_a_twenty_thousandth_is_no_normal() -> None:
    """Ten times less is."""
    normal = scipy.stats.norm.sf(1.96)
    assert distributions.skewed_tail(1.96, 5e-5)[0] != pytest.approx(normal, rel=1e-6)
    assert distributions.skewed_tail(1.96, 5e-6)[0] == pytest.approx(normal, rel=1e-12)
    both = distributions.skewed_tails(np.array([1.96, 1.96]), np.array([5e-5, 5e-6]))
    assert both[0] == pytest.approx(distributions.skewed_tail(1.96, 5e-5)[0], rel=1e-7)
    assert both[1] == pytest.approx(normal, rel=1e-12)


def test_where_values_end_the_tail_is_as_thick_as_of_a_skewness_of_a_half() -> None:
    thick = distributions.skewed_tail(2.5, -0.5)
    assert distributions.skewed_tail(2.5, -3.0) == thick
    assert distributions.skewed_tail(2.5, -0.6) == thick
    assert distributions.skewed_tail(2.5, -0.4)[0] > thick[0]
    tails = distributions.skewed_tails(np.full(3, 2.5), np.array([-3.0, -0.6, -0.4]))
    assert tails[:2] == pytest.approx(thick[0], rel=1e-12)
    assert tails[2] > thick[0]


def test_below_the_smallest_value_everything_is_above() -> None:
    """Of a skewness of 2 it is an exponential, from one below its mean on."""
    for z, expected in ((-1.5, 1.0), (-1.0, 1.0), (-0.5, math.exp(-0.5)), (0.0, math.exp(-1))):
        p, log10 = distributions.skewed_tail(z, 2.0)
        assert p == pytest.approx(expected)
        assert log10 == pytest.approx(math.log10(expected))
    assert distributions.skewed_tail(-4.1, 0.5) == (1.0, 0.0)
    assert distributions.skewed_tail(5.0, -0.5) == (0.0, -math.inf)


@pytest.mark.parametrize("skew", [0.3, 0.05, -0.05, -0.02])
def test_the_logarithm_goes_on_where_tails_end(skew: float) -> None:
    """It falls by the same steps before and after the last double, and the next is smaller."""
    z = np.linspace(5.0, 200.0, 4_000)
    logs = np.array([distributions.skewed_tail(float(at), skew)[1] for at in z])
    logs = logs[np.isfinite(logs)]
    near = np.flatnonzero((logs > -330) & (logs < -250))
    assert near.size > 10
    assert np.all(np.diff(logs) < 0)
    # The first term alone is too little by less than half a power of ten.
    assert np.abs(np.diff(logs[near], 2)).max() < 0.6


def test_the_logarithm_of_an_exponential_is_exact() -> None:
    assert distributions.skewed_tail(800.0, 2.0)[1] == pytest.approx(-801 / math.log(10), rel=1e-12)


def test_two_sided_p_values_are_twice_the_smaller_tail() -> None:
    z, skew = np.array([0.0, 1.5, -1.5, 0.01]), np.array([0.0, 0.4, 0.4, 0.4])
    p = distributions.compute_skewed_p_values(z, skew)
    for one, at, of in zip(p, z, skew, strict=True):
        upper = scipy.stats.pearson3.sf(at, of)
        lower = scipy.stats.pearson3.sf(-at, -of)
        assert one == pytest.approx(min(1.0, 2 * min(upper, lower)), rel=1e-7)
    assert p[0] == 1.0


def test_a_p_value_that_is_a_double_has_its_own_logarithm() -> None:
    p, log10 = distributions.skewed_tail(118.6955326403611, 0.3)
    assert 1e-290 < p < 1e-289
    assert log10 == pytest.approx(math.log10(p), abs=1e-12)
