"""Metrics of 0s and 1s with few successes are judged by an exact test, and no others are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

from abeval.inference import special_tests
from abeval.inference.comparison import Rule
from abeval.inference.looks import AlwaysValidLooks
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.results.effects import Row
from abeval.stats.moments import Moments
from abeval.stats.proportions import Count, exact
from benchmarks.calibration import rare
from tests.logs.small import START, analyze

MEAN = Metric("m", "mean", "Σ y / units")


def test_counts_are_seen_from_sums() -> None:
    ones = np.ones(40)
    y = np.arange(40) < 3
    few = Moments.of(y, ones)
    assert special_tests.count_rare_successes(few, few) == (Count(3, 40), Count(3, 40))
    for other in (
        Moments.of(2 * y, ones),
        Moments.of(y - 0.5, ones),
        Moments.of(y, 2 * ones),
        Moments.of(y, ones + y),
        Moments.of(np.where(np.arange(40) < 2, 1.5, 0), ones),
        Moments.of(-1.0 * y, ones),
    ):
        assert special_tests.count_rare_successes(few, other) is None
        assert special_tests.count_rare_successes(other, few) is None


def test_counts_are_seen_in_steps_of_a_resolution() -> None:
    units, successes, step = 20_011, 7, 10**6
    sums = [successes * step, units * step]
    products = [[successes * step**2] * 2, [successes * step**2, units * step**2]]
    arm = Moments.from_sums(units, sums, products, [1e-6, 1e-6])
    assert special_tests.count_rare_successes(arm, arm) == (Count(7, units), Count(7, units))


@pytest.mark.parametrize(
    ("control", "treatment", "few"),
    [
        ((9, 1000), (30, 1000), True),
        ((10, 1000), (30, 1000), False),
        ((10, 2000), (30, 1000), False),
        ((60, 2001), (49, 1000), True),
        ((60, 2001), (50, 1000), False),
        ((991, 1000), (950, 1000), True),
        ((990, 1000), (950, 1000), False),
    ],
)
def test_the_rule(control: tuple[int, int], treatment: tuple[int, int], few: bool) -> None:
    arms = rare.moments(*control), rare.moments(*treatment)
    assert (special_tests.count_rare_successes(*arms) is not None) == few
    effect = compare_moments(MEAN, *arms, Rule()).effect
    assert effect is not None
    assert (effect.method == "fisher_mid_p") == few


def test_looks_that_repeat_keep_their_own_test() -> None:
    arms = rare.moments(995, 1000), rare.moments(993, 1000)
    effect = compare_moments(
        MEAN, *arms, Rule(looks=AlwaysValidLooks(1000, 1000, planned_units=4000))
    ).effect
    assert effect is not None
    assert effect.method == "always_valid_welch"


def analyzed(control: tuple[int, int], treatment: tuple[int, int], **of: object) -> Row:
    """One impression per user, of which so many were bought."""
    (x, n), (y, m) = control, treatment
    log = pd.DataFrame(
        {
            "user_id": np.arange(n + m),
            "variant": np.repeat(["a", "b"], [n, m]),
            "ts": START,
            "bought": np.concatenate([np.arange(n) < x, np.arange(m) < y]).astype(int),
        }
    )
    metrics = [{"name": "bought", "value": "bought", **of}]
    variants = {"a": {"weight": n}, "b": {"weight": m}}
    result = analyze(log, metrics=metrics, variants=variants)
    return result.scorecard[0]


def test_the_analysis_chooses_by_itself_and_names_the_test() -> None:
    row = analyzed((293, 11_298), (5, 464))
    assert row.method == "fisher_mid_p"
    assert row.p_value == pytest.approx(0.0281, abs=1e-4)
    assert row.difference_high is not None
    assert row.difference_high < 0
    assert row.status == "worse"
    many = analyzed((293, 11_298), (290, 11_000))
    assert many.method == "welch_t"


def test_an_arm_without_successes_has_an_honest_interval() -> None:
    row = analyzed((20, 1000), (0, 1000))
    assert (row.lift, row.lift_low) == (-1, -1)
    assert row.lift_high == pytest.approx(-0.8387, abs=0.001)
    assert row.difference_low is not None
    assert row.difference_low < -0.025
    none = analyzed((0, 1000), (6, 1000))
    assert (none.lift, none.reason, none.method) == (None, "control_near_zero", "fisher_mid_p")
    assert none.p_value == pytest.approx(0.0154, abs=0.001)


def test_a_guardrail_is_judged_by_the_exact_interval() -> None:
    margin = {"role": "guardrail", "direction": "decrease", "margin": {"absolute": 0.01}}
    assert analyzed((2, 4000), (3, 4000), **margin).status == "non_inferior"
    assert analyzed((2, 400), (5, 400), **margin).status == "unclear"


def test_a_guardrail_without_a_bad_event_can_hold() -> None:
    margin = {"role": "guardrail", "direction": "decrease", "margin": {"absolute": 0.001}}
    row = analyzed((0, 6_000), (0, 6_000), unit="share", **margin)
    assert (row.status, row.p_value, row.lift) == ("non_inferior", 1.0, None)
    assert row.difference_high == pytest.approx(3.689 / 6_000, rel=1e-3)
    assert analyzed((0, 2_000), (0, 2_000), unit="share", **margin).status == "unclear"
    # Zeros that are no shares may be large when they come.
    assert analyzed((0, 6_000), (0, 6_000), **margin).reason == "zero_variance"


def test_intervals_of_a_family_are_exact_too() -> None:
    log = pd.DataFrame(
        {
            "user_id": np.arange(2000),
            "variant": np.repeat(["a", "b"], 1000),
            "ts": START,
            "bought": np.concatenate([np.arange(1000) < 2, np.arange(1000) < 9]).astype(int),
        }
    )
    metrics = [{"name": name, "value": "bought"} for name in ("one", "two")]
    result = analyze(log, metrics=metrics, inference={"family": "bonferroni"})
    wide = exact(Count(2, 1000), Count(9, 1000), 0.025)
    assert [row.p_adjusted for row in result.scorecard] == [2 * wide.p_value] * 2
    for one in result.family_intervals:
        assert (one.difference_low, one.difference_high) == (wide.low, wide.high)


@pytest.mark.slow
@pytest.mark.parametrize("share", rare.SHARES)
@pytest.mark.parametrize("expected", [1, 20])
def test_few_successes_keep_the_level_and_cover(share: float, expected: int) -> None:
    cell = rare.measure_counts((share, expected), 2000, seed=5)
    assert cell["rejected, %"] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert cell["coverage, A/A, %"] >= 0.94
    covered = cell["coverage, doubled, %"], cell["of the lift, doubled, %"]
    assert min(covered) >= 0.94 - 3 * np.sqrt(0.05 * 0.95 / 500)


@pytest.mark.parametrize("design", [(20, 20), (50, 50), (90, 10), (180, 20)])
def test_the_size_is_below_five_percent_at_every_rate(design: tuple[int, int]) -> None:
    """Enumerated; all of the tail would reject at most 2.3 to 3.5 %."""
    judged, _, by_all = rare.find_sizes(design)
    assert by_all + 0.005 < judged < 0.05


def test_the_mid_p_finds_what_all_of_the_tail_does_not() -> None:
    gained = analyzed((2, 100), (9, 100))
    law = hypergeom(200, 11, 100)
    assert 2 * law.sf(8) > 0.05
    assert gained.p_value == pytest.approx(2 * law.sf(8) - law.pmf(9))
    assert (gained.method, gained.status) == ("fisher_mid_p", "better")
    assert gained.difference_low is not None
    assert gained.difference_low > 0
