"""A segment against all other units, of differences and of lifts."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from abeval.stats.heterogeneity import Pair, against_rest, lift_against_rest
from abeval.stats.records import Estimate

INSIDE = Estimate(2.0, 0.02, 50, 49), Estimate(3.0, 0.03, 50, 49)
OUTSIDE = Estimate(5.0, 0.05, 90, 89), Estimate(4.0, 0.07, 90, 89)


def test_the_contrast_of_differences_is_a_z_test() -> None:
    contrast = against_rest(INSIDE, OUTSIDE)
    law = stats.norm(2.0, math.sqrt(0.02 + 0.03 + 0.05 + 0.07))
    assert (contrast.control, contrast.treatment) == (-1.0, 1.0)
    assert (contrast.low, contrast.high) == pytest.approx(law.interval(0.95))
    assert contrast.p_value == pytest.approx(2 * law.cdf(0))
    assert against_rest(INSIDE, OUTSIDE, 0.2).low == pytest.approx(law.ppf(0.1))


def test_the_contrast_of_lifts_is_a_z_test_of_logarithms() -> None:
    contrast = lift_against_rest(INSIDE, OUTSIDE, 0.1)
    assert contrast is not None
    inside, outside = math.log(3 / 2), math.log(4 / 5)
    law = stats.norm(inside - outside, math.sqrt(0.02 / 4 + 0.03 / 9 + 0.05 / 25 + 0.07 / 16))
    assert (contrast.control, contrast.treatment) == pytest.approx((outside, inside))
    assert (contrast.difference, contrast.se) == pytest.approx((law.mean(), law.std()))
    assert (contrast.low, contrast.high) == pytest.approx(law.interval(0.9))
    assert contrast.p_value == pytest.approx(2 * law.cdf(0))


def changed(pair: Pair, side: int, value: float) -> Pair:
    control, treatment = (
        one._replace(value=value) if i == side else one for i, one in enumerate(pair)
    )
    return control, treatment


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize("side", [0, 1])
def test_a_value_that_is_not_positive_has_no_contrast_of_lifts(side: int, value: float) -> None:
    assert lift_against_rest(changed(INSIDE, side, value), OUTSIDE, 0.05) is None
    assert lift_against_rest(INSIDE, changed(OUTSIDE, side, value), 0.05) is None
    # A small positive one has.
    assert lift_against_rest(changed(INSIDE, side, 0.01), OUTSIDE, 0.05) is not None


def test_values_that_do_not_vary_have_no_contrast_of_lifts() -> None:
    fixed = tuple(tuple(one._replace(variance=0.0) for one in pair) for pair in (INSIDE, OUTSIDE))
    assert lift_against_rest(*fixed, 0.05) is None  # type: ignore[arg-type]
    assert lift_against_rest(INSIDE, fixed[1], 0.05) is not None  # type: ignore[arg-type]
