"""One-sided tests with a margin, at the edges of margins and levels."""

from __future__ import annotations

import math

import pytest

from abeval.stats import decisions, margin_tests
from abeval.stats.distributions import quantile
from abeval.stats.records import Estimate, Refusal


def test_a_statistic_at_its_quantile_proves_nothing() -> None:
    critical = -quantile(0.025)
    known = Estimate(0.0, 0.0, 9, math.inf)
    at = decisions.superiority(known, Estimate(critical, 1.0, 9, math.inf), alpha=0.025)
    assert (at.statistic, at.passed) == (critical, False)
    beyond = math.nextafter(critical, math.inf)
    assert decisions.superiority(known, Estimate(beyond, 1.0, 9, math.inf), alpha=0.025).passed


def test_margins_are_in_order_and_not_negative() -> None:
    fine = Estimate(1, 0.1, 9, 8)
    with pytest.raises(ValueError, match="lower margin must be below"):
        decisions.equivalence(fine, fine, 0.1, 0.1)
    assert decisions.non_inferiority(fine, fine, 0.0).p_value == pytest.approx(0.5)
    for margin in (-1e-9, math.inf, math.nan):
        with pytest.raises(ValueError, match="negative"):
            margin_tests.check_margin(margin)


def test_a_relative_margin_is_over_the_size_of_control() -> None:
    assert margin_tests.margin_over(Estimate(-4.0, 0.1, 9, 8), 0.05) == -0.05
    assert margin_tests.margin_over(Estimate(0.5, 0.1, 9, 8), 0.05) == 0.05
    with pytest.raises(Refusal) as refusal:
        margin_tests.margin_over(Estimate(0.0, 0.1, 9, 8), 0.05)
    assert refusal.value.reason == "control_near_zero"


def test_both_sides_of_an_equivalence_have_to_pass() -> None:
    control, treatment = Estimate(10, 0.02, 99, 98), Estimate(10.3, 0.03, 99, 98)
    wide = decisions.equivalence(control, treatment, -1.0, 1.0)
    low = decisions.equivalence(control, treatment, -1.0, 0.4)
    high = decisions.equivalence(control, treatment, 0.2, 2.0)
    assert (wide.passed, low.passed, high.passed) == (True, False, False)
    for one in (wide, low, high):
        assert one.p_value == max(one.p_low, one.p_high)
        assert (one.low + one.high) / 2 == pytest.approx(0.3)
    # The interval is that of both one-sided tests: 90 % for 5 %.
    reach = -quantile(0.05, decisions.superiority(control, treatment).df)
    assert wide.high == pytest.approx(0.3 + reach * math.sqrt(0.05))
