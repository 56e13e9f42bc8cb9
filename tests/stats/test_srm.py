import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats

from abeval.stats import srm, srm_segments
from abeval.stats.records import Refusal

counts = st.lists(st.integers(1, 10_000), min_size=2, max_size=6)


def test_vector_srm_chi2_two() -> None:
    v = vector("srm_chi2_two")
    found = srm.chi_square(v.inputs["observed"], v.inputs["weights"])
    assert found.statistic == pytest.approx(v.expected["chi2"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    exact = srm.exact(v.inputs["observed"], v.inputs["weights"])
    assert exact == pytest.approx(v.expected["p_binomial_exact"], abs=v.tol)


def test_vector_srm_chi2_three_uneven() -> None:
    v = vector("srm_chi2_three_uneven")
    three = srm.chi_square(**v.inputs["three"])
    assert three.statistic == pytest.approx(v.expected["three_chi2"], abs=v.tol)
    assert three.df == 2
    assert three.p_value == pytest.approx(v.expected["three_p"], abs=v.tol)
    uneven = srm.chi_square(**v.inputs["uneven"])
    assert uneven.p_value == pytest.approx(v.expected["uneven_p"], abs=v.tol)


def test_d6_arms_of_zero_weight_are_not_degrees_of_freedom() -> None:
    v = vector("srm_zero_weight_arm")
    found = srm.chi_square(**v.inputs)
    assert found.df == 1
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert abs(found.p_value - v.expected["gbstats_wrong"]) > 0.05
    with pytest.raises(Refusal, match="zero weight"):
        srm.chi_square([5100, 4900, 1], [0.5, 0.5, 0])


def test_vector_srm_by_segment() -> None:
    v = vector("srm_by_segment")
    days = v.inputs["segment_day_counts"]
    table = [np.sum(days[name], axis=0) for name in days]
    found = srm_segments.by_segment(list(days), table, [1, 1])
    assert found.overall.p_value == pytest.approx(v.expected["overall_p"], abs=v.tol)
    assert found.homogeneity.p_value == pytest.approx(v.expected["homogeneity_p"], abs=v.tol)
    for row in found.segments:
        assert row.p_value == pytest.approx(v.expected["segment_p"][row.segment], abs=v.tol)
        assert row.p_adjusted == pytest.approx(v.expected["holm"][row.segment], abs=v.tol)
    assert [row.segment for row in found.segments] == ["B", "A"]
    assert found.segments[0].p_value_without > 0.5 > found.segments[1].p_value_without


@quick
@given(counts)
def test_chi_square_is_scipys(observed: list[int]) -> None:
    weights = np.arange(1, len(observed) + 1)
    expected = sum(observed) * weights / weights.sum()
    theirs = stats.chisquare(observed, expected)
    ours = srm.chi_square(observed, list(weights))
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-300)


@quick
@given(st.lists(st.tuples(st.integers(5, 500), st.integers(5, 500)), min_size=2, max_size=5))
def test_homogeneity_is_scipys(table: list[tuple[int, int]]) -> None:
    assume(stats.contingency.expected_freq(table).min() >= 5)
    theirs = stats.chi2_contingency(table, correction=False)
    ours = srm_segments.by_segment([str(i) for i in range(len(table))], table, [1, 1]).homogeneity
    assert ours.statistic == pytest.approx(theirs.statistic, abs=1e-9)
    assert ours.df == theirs.dof
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-300)


@quick
@given(counts, st.floats(0.1, 1000))
def test_scale_of_weights_does_not_matter(observed: list[int], scale: float) -> None:
    weights = np.arange(1.0, len(observed) + 1)
    plain = srm.chi_square(observed, list(weights)).statistic
    assert srm.chi_square(observed, list(weights * scale)).statistic == pytest.approx(
        plain, rel=1e-9, abs=1e-9
    )


def test_sequential_is_the_beta_binomial_bayes_factor() -> None:
    # A uniform prior over the share of two arms makes every split of n equally likely.
    found = srm.sequential([30, 12], [1, 1], prior=[1, 1])
    likelihood = stats.binom.pmf(30, 42, 0.5)
    assert found.log_bayes_factor[0] == pytest.approx(np.log(1 / 43 / likelihood), abs=1e-9)
    assert found.p_value == pytest.approx(43 * likelihood, abs=1e-9)


def test_sequential_p_never_rises_and_does_not_depend_on_the_looks_before() -> None:
    path = np.cumsum(np.tile([[52, 45], [40, 60], [90, 10]], (5, 1)), axis=0)
    found = srm.sequential(path, [1, 1], prior=[1, 1])
    assert np.all(np.diff(found.p_values) <= 0)
    last = srm.sequential(path[-1], [1, 1], prior=[1, 1])
    assert found.log_bayes_factor[-1] == pytest.approx(last.log_bayes_factor[0], abs=1e-9)


def test_sequential_keeps_its_level_over_a_thousand_looks() -> None:
    rng = np.random.default_rng(5)
    steps = rng.binomial(50, 0.1, size=(400, 1000))
    paths = np.cumsum(np.stack([50 - steps, steps], axis=2), axis=1)
    rejected = [srm.sequential(path, [0.9, 0.1], prior=[9, 1]).p_value <= 0.05 for path in paths]
    assert 0 < np.mean(rejected) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_sequential_finds_a_one_percent_mismatch() -> None:
    rng = np.random.default_rng(6)
    path = np.cumsum(rng.multinomial(10_000, [0.505, 0.495], size=50), axis=0)
    assert srm.sequential(path, [1, 1]).p_value < 0.001


def test_small_segments_are_judged_exactly() -> None:
    # One unit in a 10 % arm: chi-square says p = .003, the truth is .1.
    found = srm_segments.by_segment(["big", "one"], [[9000, 1000], [0, 1]], [9, 1])
    one = next(row for row in found.segments if row.segment == "one")
    assert one.p_value == pytest.approx(0.1, abs=1e-12)


def test_small_segments_of_three_arms_hold_their_level() -> None:
    rng = np.random.default_rng(7)
    draws = rng.multinomial(8, [0.6, 0.3, 0.1], size=2000)
    p = np.array([srm.exact(list(row), [6, 3, 1]) for row in np.unique(draws, axis=0)])
    rows, index = np.unique(draws, axis=0, return_inverse=True)
    assert len(rows) == len(p)
    assert np.mean(p[index] <= 0.05) <= 0.05


def test_segment_without_units_and_single_segment() -> None:
    found = srm_segments.by_segment(["a", "b"], [[50, 60], [0, 0]], [1, 1])
    empty = found.segments[-1]
    assert (empty.segment, empty.p_value, empty.statistic) == ("b", 1.0, 0.0)
    assert found.homogeneity == srm.SRM(0.0, 0, 1.0)


def test_segments_too_small_for_chi_square_are_taken_together() -> None:
    found = srm_segments.by_segment(
        ["big", "a", "b"], [[900, 100], [3, 2], [4, 1]], [9, 1]
    ).homogeneity
    theirs = stats.chi2_contingency([[900, 100], [7, 3]], correction=False)
    assert found.df == 1
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-9)


def test_the_dimension_with_the_cause_ranks_first() -> None:
    device = srm_segments.by_segment(
        ["web", "ios", "tv"], [[5000, 5030], [5000, 4100], [99, 101]], [1, 1]
    )
    country = srm_segments.by_segment(["de", "fr"], [[5050, 4600], [5049, 4631]], [1, 1])
    ranked = srm_segments.rank_dimensions(["country", "device"], [country, device])
    assert [row.dimension for row in ranked] == ["device", "country"]
    assert ranked[0].worst_segment == "ios"
    assert ranked[0].worst_p_adjusted < 1e-15


@pytest.mark.parametrize(
    ("observed", "weights", "reason"),
    [
        ([0, 0], [1, 1], "too_few_units"),
        ([5, -1], [1, 1], "not_applicable"),
        ([5, 5], [1, 0], "not_applicable"),
        ([10, 0], [1, 0], "not_applicable"),
        ([5, 5], [1, 1, 1], "not_applicable"),
        ([5, float("nan")], [1, 1], "not_finite"),
        ([5, 5], [1, float("inf")], "not_finite"),
    ],
)
def test_refusals(observed: list[int], weights: list[float], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        srm.chi_square(observed, weights)
    assert refused.value.reason == reason


def test_sequential_refusals_and_limits() -> None:
    with pytest.raises(Refusal, match="fall"):
        srm.sequential([[10, 10], [9, 12]], [1, 1])
    with pytest.raises(Refusal, match="prior"):
        srm.sequential([10, 10], [1, 1], prior=[1, 0])
    assert srm.sequential([0, 0], [1, 1]).p_value == 1.0
    assert srm.sequential([10**6, 0], [1, 1]).p_value == 0.0
