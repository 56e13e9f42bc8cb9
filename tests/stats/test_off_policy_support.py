"""Importance weights: sizes, the mean, and the thresholds of what a log supports."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from abeval.stats import off_policy as weights
from abeval.stats.off_policy import Diagnostics
from abeval.stats.records import Refusal
from tests.stats.policies import valued

GOOD = weights.diagnose(np.tile([1.0, 0.0], 75), np.ones(150))


def test_the_diagnostics_of_a_log() -> None:
    w = np.array([0.5, 2.0, 0.0, 1.5] * 30)
    units = np.repeat(np.arange(40), 3)
    diagnostics = weights.diagnose(np.tile([2.0, 0.0, -1.0], 40), w, units, 0.01)
    assert (diagnostics.rows, diagnostics.units, diagnostics.clicks) == (120, 40, 80)
    assert diagnostics.max_weight == 2.0
    assert diagnostics.accepted == pytest.approx(120 / 2.0)
    assert diagnostics.ess == pytest.approx(w.sum() ** 2 / np.sum(w**2))
    assert diagnostics.ess_share == pytest.approx(diagnostics.ess / 120)
    of_units = np.bincount(units, w)
    assert diagnostics.ess_units == pytest.approx(of_units.sum() ** 2 / np.sum(of_units**2))
    assert weights.diagnose([1.0, 0.0], [0.0, 0.0]).accepted == 0.0


def mean_weight(w: NDArray[np.float64], units: ArrayLike | None = None) -> Diagnostics:
    return weights.diagnose(w, w, units)


def test_the_mean_weight_has_students_test() -> None:
    w = np.random.default_rng(2).lognormal(0, 0.3, 8)
    theirs = scipy.stats.ttest_1samp(w, 1.0)
    assert mean_weight(w).mean_weight_p == pytest.approx(theirs.pvalue, rel=1e-9)
    units = np.array([0, 0, 0, 1, 1, 2, 3, 3])
    sums = np.bincount(units, w - w.mean())
    expected = np.sqrt(np.sum((sums - sums.mean()) ** 2) / 3 * 4) / 8
    assert mean_weight(w, units).mean_weight_se == pytest.approx(expected, rel=1e-9)


def test_a_mean_weight_that_does_not_vary_is_one_or_is_not() -> None:
    assert mean_weight(np.full(9, 1 + 5e-10)).mean_weight_p == 1.0
    assert mean_weight(np.full(9, 1 + 5e-9)).mean_weight_p == 0.0
    # Its error is five times the rounding that counts as none.
    varied = mean_weight(1 + 5e-8 * np.tile([1.0, -1.0], 50))
    assert varied.mean_weight_se == pytest.approx(5e-9, rel=0.01)


@pytest.mark.parametrize(("spread", "is_enough"), [(5e-10, True), (5e-9, False)])
def test_a_size_below_the_least_is_refused_but_for_rounding(spread: float, is_enough: bool) -> None:
    w = 1 + np.sqrt(spread) * np.tile([1.0, -1.0], 50)
    assert weights.estimate_effective_size(w) == pytest.approx(100 * (1 - spread), rel=1e-12)
    if is_enough:
        valued("ips", w, np.full(100, 0.5), w / 2)
    else:
        with pytest.raises(Refusal, match="below 100"):
            valued("ips", w, np.full(100, 0.5), w / 2)


def test_units_are_the_sample_where_they_have_several_rows() -> None:
    rows = (np.tile([1.0, 0.0], 120), np.full(240, 0.5), np.full(240, 0.5))
    assert valued("ips", *rows, clusters=np.arange(240) // 2).value == 0.5
    with pytest.raises(Refusal, match="240 rows"):
        valued("ips", *rows, clusters=np.arange(240) // 3)


@pytest.mark.parametrize(
    ("mean_weight", "is_refused"),
    [
        ((1.2, 0.05, 5e-4), False),
        ((1.2, 0.05, 1e-4), False),
        ((1.2, 0.05, 5e-5), True),
        ((0.8, 0.05, 5e-5), True),
        ((1.04, 0.001, 1e-9), False),
        ((0.96, 0.001, 1e-9), False),
        ((1.06, 0.001, 1e-9), True),
    ],
)
def test_propensities_are_wrong_by_a_mean_that_is_both_far_and_significant(
    mean_weight: tuple[float, float, float], is_refused: bool
) -> None:
    mean, se, p = mean_weight
    diagnostics = GOOD._replace(mean_weight=mean, mean_weight_se=se, mean_weight_p=p)
    if not is_refused:
        weights.check_support(diagnostics)
        return
    with pytest.raises(Refusal) as refused:
        weights.check_support(diagnostics)
    assert refused.value.reason == "weights_not_one"


@pytest.mark.parametrize(
    ("diagnostics", "message"),
    [
        (GOOD._replace(ess=99.0), "size is 99 of 150 rows, below 100"),
        (GOOD._replace(ess_units=98.0, units=120), "size is 98 of 120 units, below 100"),
        (GOOD._replace(unsupported=0.06), "6.0 % of the policy"),
    ],
)
def test_what_a_log_lacks_is_named(diagnostics: Diagnostics, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        weights.check_support(diagnostics)
    weights.check_support(GOOD)


def test_probabilities_may_be_zero_and_one_where_that_has_a_meaning() -> None:
    assert weights.compute_importance_weights([1.0, 1.0], [0.0, 1.0]).tolist() == [0.0, 1.0]
    with pytest.raises(Refusal, match="2 of 3 logging probabilities are not in"):
        weights.compute_importance_weights([0.5, 0.0, -1.0], [0.5, 0.5, 0.5])


def test_policy_outside_the_log_is_weighed_by_the_rows_of_its_context() -> None:
    share = weights.sum_unsupported_share(
        np.array([0.75, 0.25, 0.5, 0.5]), np.array([4, 0, 1, 0]), np.array([0.8, 0.8, 0.2, 0.2])
    )
    assert share == pytest.approx(0.25 * 0.8 + 0.5 * 0.2)
