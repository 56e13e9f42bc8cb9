import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference_vectors import quick, small, vector
from scipy import stats

from abeval.stats import ranks
from abeval.stats.records import Refusal

samples = st.integers(9, 40).flatmap(
    lambda n: arrays(np.float64, n, elements=st.integers(0, 12).map(float))
)


def test_vector_mann_whitney() -> None:
    v = vector("mann_whitney")
    treated, y = small("variant") == 1, small("dwell")
    r = ranks.mann_whitney(y[~treated], y[treated])
    assert r.u == pytest.approx(v.expected["u"], abs=v.tol)
    assert r.probability == pytest.approx(v.expected["auc"], abs=v.tol)
    assert r.p_value == pytest.approx(v.expected["p"], abs=v.tol)


@quick
@given(samples, samples)
def test_agrees_with_scipy(c: np.ndarray, t: np.ndarray) -> None:
    assume(np.ptp(np.concatenate([c, t])) > 0)
    r, reference = ranks.mann_whitney(c, t), stats.mannwhitneyu(t, c)
    assert r.u == reference.statistic
    assert r.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assume(0 < ranks.mann_whitney(c, t).probability < 1)
    assume(np.ptp(c) > 0 or np.ptp(t) > 0)
    b, reference = ranks.brunner_munzel(c, t), stats.brunnermunzel(c, t)
    assert b.p_value == pytest.approx(reference.pvalue, rel=1e-9)


def test_few_units_without_ties_are_exact() -> None:
    rng = np.random.default_rng(1)
    c, t = rng.random(5), rng.random(7) + 0.3
    r = ranks.mann_whitney(c, t)
    assert r.method == "mann_whitney_exact"
    assert r.p_value == pytest.approx(stats.mannwhitneyu(t, c, method="exact").pvalue, rel=1e-9)
    assert ranks.mann_whitney([1, 1, 2], [2, 3, 3]).method == "mann_whitney"


@quick
@given(samples, samples)
def test_swapping_arms_mirrors(c: np.ndarray, t: np.ndarray) -> None:
    assume(np.ptp(np.concatenate([c, t])) > 0)
    one, other = ranks.mann_whitney(c, t), ranks.mann_whitney(t, c)
    assert one.probability == pytest.approx(1 - other.probability)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)


@quick
@given(samples, samples)
def test_only_the_order_counts(c: np.ndarray, t: np.ndarray) -> None:
    assume(np.ptp(np.concatenate([c, t])) > 0)
    assert ranks.mann_whitney(c, t) == ranks.mann_whitney(np.exp(c), np.exp(t))


@quick
@given(samples, samples)
def test_interval_and_p_value_agree(c: np.ndarray, t: np.ndarray) -> None:
    try:
        b = ranks.brunner_munzel(c, t)
    except Refusal:
        assume(False)
    assert 0 <= b.low <= b.probability <= b.high <= 1
    if abs(b.p_value - 0.05) > 1e-9:
        assert (b.low > 0.5 or b.high < 0.5) == (b.p_value < 0.05)


def test_histograms_give_the_same_and_large_ones_do_not_overflow() -> None:
    c, t = [0, 0, 1, 2, 2, 2, 5, 6, 7], [0, 1, 1, 3, 3, 5, 5, 5, 9]
    points = np.unique(c + t)
    counted = [[values.count(p) for p in points] for values in (c, t)]
    assert ranks.mann_whitney_counts(*counted) == ranks.mann_whitney(c, t)
    assert ranks.brunner_munzel_counts(*counted) == ranks.brunner_munzel(c, t)
    large = ranks.mann_whitney_counts([10**8, 10**7], [10**8, 10**7 + 10**5])
    assert 0 < large.p_value < 1e-6


def test_d4_strong_evidence_keeps_its_logarithm() -> None:
    r = ranks.mann_whitney_counts([10**6, 10**4], [10**4, 10**6])
    assert r.p_value == 0
    assert math.isfinite(r.log10_p_value)
    assert r.log10_p_value < -1000


def test_degenerate_data_are_refused() -> None:
    cases = [
        (([], [1.0]), "too_few_units"),
        (([1.0, 2.0], [math.nan]), "not_finite"),
        (([3.0] * 9, [3.0] * 12), "zero_variance"),
    ]
    for data, reason in cases:
        for test in (ranks.mann_whitney, ranks.brunner_munzel):
            with pytest.raises(Refusal) as refusal:
                test(*data)
            assert refusal.value.reason in (reason, "too_few_units")
    with pytest.raises(Refusal) as refusal:
        ranks.brunner_munzel(range(10), range(10, 20))
    assert refusal.value.reason == "zero_variance"
    assert ranks.mann_whitney(range(10), range(10, 20)).probability == 1
    with pytest.raises(ValueError, match="counts"):
        ranks.mann_whitney_counts([1, 2], [1])


@pytest.mark.parametrize(
    ("control", "treatment", "is_exact"),
    [(8, 20, True), (20, 8, True), (9, 20, False), (1, 25_000, True), (1, 25_001, False)],
)
def test_few_units_and_few_pairs_are_exact(control: int, treatment: int, is_exact: bool) -> None:
    r = ranks.mann_whitney(np.arange(control) + 0.5, np.arange(treatment))
    assert (r.method == "mann_whitney_exact") == is_exact
    assert r.method.startswith("mann_whitney")


def test_one_unit_has_a_rank_and_two_have_a_spread() -> None:
    for data in (([1, 2, 3], [2.5]), ([2.5], [1, 2, 3])):
        assert ranks.mann_whitney(*data).p_value == 1.0
        with pytest.raises(Refusal) as refusal:
            ranks.brunner_munzel(*data)
        assert refusal.value.reason == "too_few_units"
    c, t = [1.0, 3.0], [2.0, 4.0]
    b, reference = ranks.brunner_munzel(c, t), stats.brunnermunzel(c, t)
    assert b.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assert b == ranks.brunner_munzel(c, t, 0.05)
    histograms = ([1, 0, 1, 0], [0, 1, 0, 1])
    assert b == ranks.brunner_munzel_counts(*histograms)
    assert b == ranks.brunner_munzel_counts(*histograms, alpha=0.05)


def test_rounding_of_large_counts_is_no_spread_and_one_unit_in_a_trillion_is() -> None:
    with pytest.raises(Refusal) as refusal:
        ranks.mann_whitney_counts([44_983_446], [44_983_446])
    assert refusal.value.reason == "zero_variance"
    half = 500_000_000_000
    one = ranks.mann_whitney_counts([half, 0], [half - 1, 1])
    assert one.statistic == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("counts", [([-1, 3], [1, 1]), ([1, 1], [3, -1])])
def test_a_histogram_has_no_negative_counts(counts: tuple[list[int], list[int]]) -> None:
    with pytest.raises(ValueError, match="negative"):
        ranks.mann_whitney_counts(*counts)
