import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats

from abeval.stats import srm
from abeval.stats.records import Refusal

counts = st.lists(st.integers(1, 10_000), min_size=2, max_size=6)


def test_vector_srm_chi2_two() -> None:
    v = vector("srm_chi2_two")
    found = srm.chi_square(v.inputs["observed"], v.inputs["weights"])
    assert found.statistic == pytest.approx(v.expected["chi2"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    exact = srm.of_split(*srm.checked(v.inputs["observed"], v.inputs["weights"]))
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
    found = srm.by_segment(list(days), table, [1, 1])
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
    ours = srm.by_segment([str(i) for i in range(len(table))], table, [1, 1]).homogeneity
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
    found = srm.by_segment(["big", "one"], [[9000, 1000], [0, 1]], [9, 1])
    one = next(row for row in found.segments if row.segment == "one")
    assert one.p_value == pytest.approx(0.1, abs=1e-12)


def test_small_segments_of_three_arms_hold_their_level() -> None:
    rng = np.random.default_rng(7)
    draws = rng.multinomial(8, [0.6, 0.3, 0.1], size=2000)
    rows, index = np.unique(draws, axis=0, return_inverse=True)
    splits = [srm.believable(row.tolist(), [6, 3, 1]) for row in rows]
    assert all(split.is_exact for split in splits)
    p = np.array([split.p_value for split in splits])
    assert np.mean(p[index] <= 0.05) <= 0.05


RAMP = [[99, 1], [1, 1]]
"""Weights of two stretches: one percent, then half."""


def test_one_unit_of_a_ramp_is_no_evidence() -> None:
    """Chi-square says 1.8e-8 of one unit in three where one percent are expected."""
    found = srm.stratified([[2, 1], [0, 0]], RAMP)
    assert (found.p_value, found.is_exact) == (pytest.approx(1 - 0.99**3, rel=1e-9), True)


def test_few_units_over_strata_are_judged_by_all_outcomes() -> None:
    units, shares = np.array([7, 4, 5]), np.array([0.01, 0.5, 0.9])
    chance = np.zeros(17)
    for outcome in np.ndindex(8, 5, 6):
        chance[sum(outcome)] += np.prod(stats.binom.pmf(outcome, units, shares))
    for arm in range(17):
        taken = np.minimum(units, [max(0, arm - 9), max(0, min(4, arm - 5)), min(5, arm)])
        table = np.column_stack([units - taken, taken])
        assert taken.sum() == arm
        found = srm.stratified(table, np.column_stack([1 - shares, shares]))
        expected = chance[chance <= chance[arm] * (1 + 1e-9)].sum()
        assert found.p_value == pytest.approx(expected, rel=1e-9)


@quick
@given(st.integers(1, 3000), st.floats(0.001, 0.999), st.floats(0, 1))
def test_one_stratum_is_the_binomial_test(units: int, share: float, place: float) -> None:
    count = int(stats.binom.ppf(np.clip(place, 1e-9, 1 - 1e-9), units, share))
    ours = srm.two_sided(count, [units], [share])
    assert ours == pytest.approx(stats.binomtest(count, units, share).pvalue, rel=1e-6)


@pytest.mark.parametrize(
    "weights", [RAMP, [[98, 1, 1], [1, 1, 1]], [[9, 1, 0], [1, 1, 1]]], ids=str
)
def test_cells_of_few_units_hold_their_level_over_a_ramp(weights: list[list[int]]) -> None:
    """Of cells of six units under the first ramp, chi-square rejects 2.8 % at .001."""
    rng = np.random.default_rng(8)
    units = rng.multinomial(6, [0.9, 0.1], size=2000)
    shares = np.array(weights) / np.sum(weights, axis=1, keepdims=True)
    tables = np.stack([rng.multinomial(units[:, i], shares[i]) for i in (0, 1)], axis=1)
    kinds, times = np.unique(tables, axis=0, return_counts=True)
    p_values = np.array([srm.stratified(kind, weights).p_value for kind in kinds])
    assert times[p_values <= 0.001].sum() <= 8
    assert times[p_values <= 0.05].sum() <= 130


def test_chi_square_stays_where_enough_units_are_expected() -> None:
    table, shares = np.array([[480, 20], [11, 9]]), np.array([[0.99, 0.01], [0.5, 0.5]])
    units = table.sum(axis=1)
    z = (table[:, 1] - units * shares[:, 1]).sum() / np.sqrt((units * shares.prod(axis=1)).sum())
    found = srm.stratified(table, shares)
    assert (found.is_exact, found.p_value) == (False, pytest.approx(stats.chi2.sf(z * z, 1)))
    assert not srm.believable([495, 5], [99, 1]).is_exact


@pytest.mark.parametrize(("times", "is_exact"), [(1, True), (5, False)])
def test_a_small_stretch_beside_large_ones_is_as_chi_square_says(
    times: int, is_exact: bool
) -> None:
    """From a thousand expected units on, their sum is normal whatever the small stretch is."""
    table = np.array([[3, 1], [times * 60_000 - 80, times * 600 + 80]])
    shares = np.array([[0.5, 0.5], [100 / 101, 1 / 101]])
    found = srm.stratified(table, shares)
    assert found.is_exact is is_exact
    units = table.sum(axis=1)
    z = (table[:, 1] - units * shares[:, 1]).sum() / np.sqrt((units * shares.prod(axis=1)).sum())
    assert np.log(found.p_value) == pytest.approx(np.log(stats.chi2.sf(z * z, 1)), rel=0.06)


def test_segment_without_units_and_single_segment() -> None:
    found = srm.by_segment(["a", "b"], [[50, 60], [0, 0]], [1, 1])
    empty = found.segments[-1]
    assert (empty.segment, empty.p_value, empty.statistic) == ("b", 1.0, 0.0)
    assert found.homogeneity == srm.SRM(0.0, 0, 1.0)


def test_segments_too_small_for_chi_square_are_taken_together() -> None:
    found = srm.by_segment(["big", "a", "b"], [[900, 100], [3, 2], [4, 1]], [9, 1]).homogeneity
    theirs = stats.chi2_contingency([[900, 100], [7, 3]], correction=False)
    assert found.df == 1
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-9)


def test_the_dimension_with_the_cause_ranks_first() -> None:
    device = srm.by_segment(["web", "ios", "tv"], [[5000, 5030], [5000, 4100], [99, 101]], [1, 1])
    country = srm.by_segment(["de", "fr"], [[5050, 4600], [5049, 4631]], [1, 1])
    ranked = srm.rank_dimensions(["country", "device"], [country, device])
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


def test_an_arm_of_thousands_over_strata_is_normal_beside_a_tiny_one() -> None:
    shares = np.array([[0.5, 0.4999, 0.0001], [0.2, 0.7999, 0.0001]])
    table = np.array([[5_230.0, 4_769, 1], [2_050.0, 7_949, 1]])
    assert srm.are_few(table, shares)
    variance = 10_000 * (0.5 * 0.5 + 0.2 * 0.8)
    expected = 2 * stats.norm.sf((7_280 - 7_000) / np.sqrt(variance))
    assert srm.of_strata(table, shares) == pytest.approx(3 * expected, rel=1e-9)
