import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick
from scipy.stats import norm
from statsmodels.stats.proportion import power_proportions_2indep

from abeval.stats import design_proportions as design
from abeval.stats.records import Refusal


def test_sizes_for_a_tenth_against_eleven_hundredths() -> None:
    p, q, z, b = 0.10, 0.11, norm.isf(0.025), norm.ppf(0.8)
    mean = (p + q) / 2
    closed = (z * math.sqrt(2 * mean * (1 - mean)) + b * math.sqrt(p * 0.9 + q * 0.89)) ** 2 / 1e-4
    assert design.sample_size_proportion(p, q).control == pytest.approx(closed, rel=1e-12)


@quick
@given(st.floats(0.05, 0.9), st.floats(0.01, 0.09), st.integers(50, 5000), st.floats(0.2, 5))
def test_power_agrees_with_statsmodels(p: float, more: float, n: int, ratio: float) -> None:
    reference = power_proportions_2indep(more, p, n, ratio=1 / ratio, alpha=0.05)
    # statsmodels counts `nobs1`, of the treatment, per unit of the second group.
    found = design.power_of_proportion(p, p + more, n / ratio, n)
    assert found == pytest.approx(reference.power, abs=1e-3)


@quick
@given(st.floats(0.05, 0.9), st.floats(0.01, 0.09), st.floats(0.2, 5))
def test_size_and_mde_reach_their_power(p: float, more: float, ratio: float) -> None:
    size = design.sample_size_proportion(p, p + more, ratio=ratio)
    # The closed form leaves out detections with the wrong sign, which only add to power.
    assert 0.8 - 1e-9 < design.power_of_proportion(p, p + more, *size) < 0.801
    found = design.mde_proportion(p, *size)
    assert design.power_of_proportion(p, p + found, *size) == pytest.approx(0.8, abs=1e-9)
    assert found == pytest.approx(more, rel=1e-3)


def test_one_unit_in_each_variant_has_some_power() -> None:
    assert 0 < design.power_of_proportion(0.3, 0.5, 1, 1) < 0.2
    for units in ((0, 5), (5, 0)):
        with pytest.raises(Refusal):
            design.power_of_proportion(0.3, 0.5, *units)


def test_a_loss_is_detected_as_well_as_a_gain() -> None:
    down = design.power_of_proportion(0.11, 0.10, 9000, 9000)
    assert down == pytest.approx(design.power_of_proportion(0.10, 0.11, 9000, 9000))
    known = design.sample_size_proportion(0.11, 0.10).control
    assert known == pytest.approx(design.sample_size_proportion(0.10, 0.11).control)


def test_rates_of_nothing_and_of_all_are_rates() -> None:
    assert design.power_of_proportion(0.0, 0.5, 20, 20) > 0.9
    assert design.power_of_proportion(0.5, 1.0, 20, 20) > 0.9
    for rates in ((-0.1, 0.5), (0.1, 1.1)):
        with pytest.raises(ValueError, match="rates"):
            design.power_of_proportion(*rates, 20, 20)


def test_degenerate_rates_are_refused() -> None:
    calls = [
        (lambda: design.sample_size_proportion(0.1, 0.1), "not_applicable"),
        (lambda: design.power_of_proportion(0.1, 0.2, 0, 5), "too_few_units"),
        (lambda: design.power_of_proportion(0.0, 1.0, 5, 5), "zero_variance"),
        (lambda: design.mde_proportion(0.1, 1, 1), "too_few_units"),
    ]
    for call, reason in calls:
        with pytest.raises(Refusal) as refusal:
            call()
        assert refusal.value.reason == reason
    with pytest.raises(ValueError, match="rates"):
        design.sample_size_proportion(0.1, 1.1)
