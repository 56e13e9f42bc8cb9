import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats

from abeval.stats import multiplicity, srm
from abeval.stats.records import Refusal

counts = st.lists(st.integers(1, 10_000), min_size=2, max_size=6)


def test_vector_srm_chi2_two() -> None:
    v = vector("srm_chi2_two")
    found = srm.chi_square(v.inputs["observed"], v.inputs["weights"])
    assert found.statistic == pytest.approx(v.expected["chi2"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    shares = np.array(v.inputs["weights"]) / np.sum(v.inputs["weights"])
    exact = srm.compute_split_p_value(np.array(v.inputs["observed"]), shares)
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
    found = srm.check_segments(list(days), table, [1, 1])
    overall = srm.chi_square(np.sum(table, axis=0).tolist(), [1, 1])
    assert overall.p_value == pytest.approx(v.expected["overall_p"], abs=v.tol)
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
    ours = srm.check_segments([str(i) for i in range(len(table))], table, [1, 1]).homogeneity
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
    # As if ten thousand units had arrived as promised.
    mixture = stats.betabinom.logpmf(300, 420, 20_000 / 3, 10_000 / 3)
    factor = mixture - stats.binom.logpmf(300, 420, 2 / 3)
    expected = min(1.0, np.exp(-factor))
    assert srm.check_split_at_looks([300, 120], [2, 1]) == pytest.approx((expected,), rel=1e-9)
    mixture = stats.betabinom.logpmf(5_700, 12_000, 5_000, 5_000)
    factor = mixture - stats.binom.logpmf(5_700, 12_000, 0.5)
    assert srm.check_split_at_looks([5_700, 6_300], [1, 1])[0] == pytest.approx(
        np.exp(-factor), rel=1e-6
    )


def test_sequential_p_never_rises_and_a_closed_arm_changes_nothing() -> None:
    path = np.cumsum(np.tile([[520, 450], [400, 600], [900, 100]], (5, 1)), axis=0)
    found = srm.check_split_at_looks(path, [1, 1])
    assert len(found) == 15
    assert np.all(np.diff(found) <= 0)
    closed = np.insert(path, 1, 0, axis=1)
    assert srm.check_split_at_looks(closed, [1, 0, 1]) == found


def test_sequential_keeps_its_level_over_a_thousand_looks() -> None:
    rng = np.random.default_rng(5)
    steps = rng.binomial(500, 0.1, size=(400, 1000))
    paths = np.cumsum(np.stack([500 - steps, steps], axis=2), axis=1)
    rejected = [srm.check_split_at_looks(path, [0.9, 0.1])[-1] <= 0.05 for path in paths]
    assert 0 < np.mean(rejected) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_sequential_finds_a_one_percent_mismatch() -> None:
    rng = np.random.default_rng(6)
    path = np.cumsum(rng.multinomial(10_000, [0.505, 0.495], size=50), axis=0)
    assert srm.check_split_at_looks(path, [1, 1])[-1] < 0.001


def test_small_segments_are_judged_exactly() -> None:
    # One unit in a 10 % arm: chi-square says p = .003, the truth is .1.
    found = srm.check_segments(["big", "one"], [[9000, 1000], [0, 1]], [9, 1])
    one = next(row for row in found.segments if row.segment == "one")
    assert one.p_value == pytest.approx(0.1, abs=1e-12)


def test_small_segments_of_three_arms_hold_their_level() -> None:
    rng = np.random.default_rng(7)
    draws = rng.multinomial(8, [0.6, 0.3, 0.1], size=2000)
    rows, index = np.unique(draws, axis=0, return_inverse=True)
    splits = [srm.check_stratum(row.tolist(), [6, 3, 1]) for row in rows]
    assert all(split.is_exact for split in splits)
    p = np.array([split.p_value for split in splits])
    assert np.mean(p[index] <= 0.05) <= 0.05


RAMP = [[99, 1], [1, 1]]
"""Weights of two split periods: one percent, then half."""


def test_one_unit_of_a_ramp_is_no_evidence() -> None:
    """Chi-square says 1.8e-8 of one unit in three where one percent are expected."""
    found = srm.check_strata([[2, 1], [0, 0]], RAMP)
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
        found = srm.check_strata(table, np.column_stack([1 - shares, shares]))
        expected = chance[chance <= chance[arm] * (1 + 1e-9)].sum()
        assert found.p_value == pytest.approx(expected, rel=1e-9)


@quick
@given(st.integers(1, 3000), st.floats(0.001, 0.999), st.floats(0, 1))
def test_one_stratum_is_the_binomial_test(units: int, share: float, place: float) -> None:
    count = int(stats.binom.ppf(np.clip(place, 1e-9, 1 - 1e-9), units, share))
    ours = srm.compute_binomial_p_value(count, [units], [share])
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
    p_values = np.array([srm.check_strata(kind, weights).p_value for kind in kinds])
    assert times[p_values <= 0.001].sum() <= 8
    assert times[p_values <= 0.05].sum() <= 130


def test_chi_square_stays_where_enough_units_are_expected() -> None:
    table, shares = np.array([[480, 20], [11, 9]]), np.array([[0.99, 0.01], [0.5, 0.5]])
    units = table.sum(axis=1)
    z = (table[:, 1] - units * shares[:, 1]).sum() / np.sqrt((units * shares.prod(axis=1)).sum())
    found = srm.check_strata(table, shares)
    assert (found.is_exact, found.p_value) == (False, pytest.approx(stats.chi2.sf(z * z, 1)))
    assert not srm.check_stratum([495, 5], [99, 1]).is_exact


@pytest.mark.parametrize(("times", "is_exact"), [(1, True), (5, False)])
def test_a_small_stretch_beside_large_ones_is_as_chi_square_says(
    times: int, is_exact: bool
) -> None:
    """From a thousand expected units on, their sum is normal whatever the small stretch is."""
    table = np.array([[3, 1], [times * 60_000 - 80, times * 600 + 80]])
    shares = np.array([[0.5, 0.5], [100 / 101, 1 / 101]])
    found = srm.check_strata(table, shares)
    assert found.is_exact is is_exact
    units = table.sum(axis=1)
    z = (table[:, 1] - units * shares[:, 1]).sum() / np.sqrt((units * shares.prod(axis=1)).sum())
    assert np.log(found.p_value) == pytest.approx(np.log(stats.chi2.sf(z * z, 1)), rel=0.06)


def test_segment_without_units_and_single_segment() -> None:
    found = srm.check_segments(["a", "b"], [[50, 60], [0, 0]], [1, 1])
    empty = found.segments[-1]
    assert (empty.segment, empty.p_value) == ("b", 1.0)
    assert found.homogeneity == srm.SRM(0.0, 0, 1.0)


def test_segments_too_small_for_chi_square_are_taken_together() -> None:
    found = srm.check_segments(["big", "a", "b"], [[900, 100], [3, 2], [4, 1]], [9, 1]).homogeneity
    theirs = stats.chi2_contingency([[900, 100], [7, 3]], correction=False)
    assert found.df == 1
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-9)


def test_the_dimension_with_the_cause_ranks_first() -> None:
    device = srm.check_segments(
        ["web", "ios", "tv"], [[5000, 5030], [5000, 4100], [99, 101]], [1, 1]
    )
    country = srm.check_segments(["de", "fr"], [[5050, 4600], [5049, 4631]], [1, 1])
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
        srm.check_split_at_looks([[10, 10], [9, 12]], [1, 1])
    with pytest.raises(Refusal):
        srm.check_split_at_looks(np.zeros((0, 2)), [1, 1])
    assert srm.check_split_at_looks([0, 0], [1, 1]) == (1.0,)
    assert srm.check_split_at_looks([10**6, 0], [1, 1]) == (0.0,)


def test_an_arm_of_thousands_over_strata_is_normal_beside_a_tiny_one() -> None:
    shares = np.array([[0.5, 0.4999, 0.0001], [0.2, 0.7999, 0.0001]])
    table = np.array([[5_230.0, 4_769, 1], [2_050.0, 7_949, 1]])
    assert srm.are_few(table, shares)
    variance = 10_000 * (0.5 * 0.5 + 0.2 * 0.8)
    expected = 2 * stats.norm.sf((7_280 - 7_000) / np.sqrt(variance))
    assert srm.compute_strata_p_value(table, shares) == pytest.approx(3 * expected, rel=1e-9)


def test_the_rarest_of_three_arms_counts_three_times() -> None:
    counts, shares = np.array([14, 3, 3]), np.array([0.5, 0.3, 0.2])
    each = [stats.binomtest(n, 20, p).pvalue for n, p in zip(counts, shares, strict=True)]
    assert srm.compute_split_p_value(counts, shares) == pytest.approx(min(1.0, 3 * min(each)))
    one = srm.compute_split_p_value(np.array([18, 1, 1]), shares)
    assert one == pytest.approx(3 * stats.binomtest(18, 20, 0.5).pvalue)
    likely = srm.compute_split_p_value(np.array([10, 6, 4]), shares)
    assert srm.compute_split_p_value(np.zeros(3), shares) == 1.0
    table = np.array([[6.0, 3, 1], [4, 3, 3]])
    of_strata = srm.compute_strata_p_value(table, np.array([shares, shares]))
    assert of_strata == pytest.approx(likely) == 1.0
    far = srm.compute_strata_p_value(
        np.array([[18.0, 1, 1], [0, 0, 0]]), np.array([shares, shares])
    )
    assert far == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("observed", [900, 1000])
def test_a_count_beyond_all_that_doubles_can_tell_is_no_chance(observed: int) -> None:
    """Of 1,000 units one is expected in the arm: its probability is below the least double."""
    assert stats.binomtest(observed, 1000, 0.001).pvalue == 0.0
    assert srm.compute_binomial_p_value(observed, [1000], [0.001]) == 0.0
    assert srm.check_stratum([1000 - observed, observed], [0.999, 0.001]).p_value == 0.0


@pytest.mark.parametrize("count", [1050, 960])
def test_from_a_thousand_expected_units_on_an_arm_is_normal(count: int) -> None:
    """Of the smaller side of the split: an arm of six of ten units has four against it."""
    normal = stats.chi2.sf((count - 1000) ** 2 / 500, 1)
    even = np.array([[0.5, 0.5]])
    of_even = srm.compute_strata_p_value(np.array([[float(count), 2000.0 - count]]), even)
    assert of_even == pytest.approx(normal, rel=1e-12)
    below = srm.compute_strata_p_value(np.array([[count - 1.0, 2000.0 - count]]), even)
    assert below == pytest.approx(stats.binomtest(count - 1, 1999, 0.5).pvalue, rel=1e-9)
    uneven = np.array([[0.6, 0.4]])
    large = srm.compute_strata_p_value(np.array([[count + 200.0, 1800.0 - count]]), uneven)
    assert large == pytest.approx(stats.binomtest(count + 200, 2000, 0.6).pvalue, rel=1e-6)


def test_five_expected_units_are_enough_for_chi_square() -> None:
    assert not srm.check_stratum([90, 10], [19, 1]).is_exact
    assert srm.check_stratum([89, 10], [19, 1]).is_exact
    assert not srm.chi_square([90, 10], [19, 1]).is_exact


def test_a_ramp_is_judged_only_where_every_stretch_has_a_split() -> None:
    for observed, weights, reason in (
        ([[5, 5]], [[1, 1], [1, 1]], "not_applicable"),
        ([5, 5], [1, 1], "not_applicable"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "not_applicable"),
        ([[0, 0], [0, 0]], [[1, 1], [1, 1]], "too_few_units"),
        ([[5, 5], [5, 0]], [[1, 1], [1, 0]], "not_applicable"),
        ([[5, 5, 0]], [[1, 1, -1]], "not_applicable"),
    ):
        with pytest.raises(Refusal) as refused:
            srm.check_strata(observed, weights)
        assert refused.value.reason == reason


def test_a_ramp_of_three_arms_is_the_excess_by_its_covariance() -> None:
    table = np.array([[900.0, 60, 40], [330, 350, 320]])
    shares = np.array([[0.9, 0.05, 0.05], [1 / 3, 1 / 3, 1 / 3]])
    excess = (table - table.sum(axis=1, keepdims=True) * shares).sum(axis=0)
    spread = sum(1000 * (np.diag(p) - np.outer(p, p)) for p in shares)
    statistic = excess[:2] @ np.linalg.inv(spread[:2, :2]) @ excess[:2]
    split = srm.check_strata(table, shares * [[7.0], [0.1]])
    assert (split.df, split.is_exact) == (2, False)
    assert split.statistic == pytest.approx(statistic, rel=1e-9)
    assert split.p_value == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-9)


class TestSegments:
    def test_rows_say_by_how_much_a_segment_is_off(self) -> None:
        split = srm.check_segments(["a", "b"], [[330, 270], [90, 110]], [3, 2])
        by_name = {row.segment: row for row in split.segments}
        for name, counts in (("a", [330, 270]), ("b", [90, 110])):
            expected = [0.6 * sum(counts), 0.4 * sum(counts)]
            theirs = stats.chisquare(counts, expected)
            assert by_name[name].p_value == pytest.approx(theirs.pvalue)
        assert by_name["a"].p_value_without == pytest.approx(by_name["b"].p_value)

    def test_of_two_that_are_beyond_doubt_the_plainer_is_first(self) -> None:
        split = srm.check_segments(
            ["c", "a", "b"], [[500, 500], [9000, 1000], [99_000, 1000]], [1, 1]
        )
        assert [row.segment for row in split.segments] == ["b", "a", "c"]
        assert split.segments[0].p_value == split.segments[1].p_value == 0.0

    def test_segments_of_five_expected_units_stand_alone(self) -> None:
        table = [[90, 90], [4, 6], [6, 4]]
        alone = srm.check_segments(["a", "b", "c"], table, [1, 1]).homogeneity
        theirs = stats.chi2_contingency(table, correction=False)
        assert (alone.df, alone.p_value) == (2, pytest.approx(theirs.pvalue))
        three = [[90, 90, 20], [40, 60, 0], [60, 40, 10]]
        wide = srm.check_segments(["a", "b", "c"], three, [4, 4, 1]).homogeneity
        theirs = stats.chi2_contingency(three, correction=False)
        assert (wide.df, wide.p_value) == (4, pytest.approx(theirs.pvalue))

    def test_names_and_counts_must_agree(self) -> None:
        for names, table in (
            (["a"], [[5, 5], [5, 5]]),
            ([], np.zeros((0, 2))),
            (["a", "b"], [5, 5]),
        ):
            with pytest.raises(Refusal) as refused:
                srm.check_segments(names, table, [1, 1])
            assert refused.value.reason == "not_applicable"

    def test_of_strata_with_other_splits_each_segment_is_tested_within_them(self) -> None:
        tables = np.array([[[930, 70], [520, 480]], [[900, 100], [505, 495]], [[0, 0], [0, 0]]])
        plans = [[9, 1], [1, 1]]
        split = srm.check_segments(["web", "ios", "tv"], tables, plans)
        by_name = {row.segment: row for row in split.segments}
        for name, own in (("web", tables[0]), ("ios", tables[1])):
            assert by_name[name].p_value == srm.check_strata(own, plans).p_value
        assert by_name["web"].p_value_without == by_name["ios"].p_value
        assert by_name["web"].p_adjusted == pytest.approx(3 * by_name["web"].p_value)
        assert (split.segments[0].segment, by_name["tv"].p_value) == ("web", 1.0)

    def test_a_stratum_that_no_plan_allows_is_refused(self) -> None:
        with pytest.raises(Refusal, match="zero weight"):
            srm.check_segments(["a"], [[[5, 5], [5, 5]]], [[1, 1], [1, 0]])

    def test_segments_without_any_unit_are_refused(self) -> None:
        with pytest.raises(Refusal, match="without units"):
            srm.check_segments(["a"], [[0, 0]], [1, 1])

    def test_the_worst_segments_of_all_dimensions_are_one_family(self) -> None:
        tables = [
            srm.check_segments(["a", "b"], [[520, 480], [500, 500]], [1, 1]),
            srm.check_segments(["x", "y", "z"], [[330, 400], [350, 340], [300, 310]], [1, 1]),
        ]
        every = multiplicity.adjust([row.p_value for table in tables for row in table.segments])
        ranked = srm.rank_dimensions(["first", "second"], tables)
        by_name = {row.dimension: row for row in ranked}
        for name, table, place in (("first", tables[0], 0), ("second", tables[1], 2)):
            assert by_name[name].worst_segment == table.segments[0].segment
            assert by_name[name].worst_p_adjusted == pytest.approx(every[place])
            assert by_name[name].p_value == table.homogeneity.p_value
        assert [row.p_value for row in ranked] == sorted(row.p_value for row in ranked)


def test_a_change_that_no_single_day_shows():
    # A day of 45/55 among 47.5/52.5 is 1.6 standard errors off; ten days together are seven.
    days = [[500, 500]] * 10 + [[450, 550]] * 10
    assert srm.find_split_periods(days) == (range(10), range(10, 20))


def test_a_single_day_of_another_split():
    days = [[500, 500]] * 6 + [[300, 700]] + [[500, 500]] * 6
    assert srm.find_split_periods(days) == (range(6), range(6, 7), range(7, 13))


def test_of_three_variants_two_may_change_places():
    days = [[400, 300, 300]] * 4 + [[400, 420, 180]] * 5
    assert srm.find_split_periods(days) == (range(4), range(4, 9))


def test_equal_splits_have_no_stretches():
    rng = np.random.default_rng(5)
    shares = [0.5, 0.3, 0.2]
    changed = sum(
        len(srm.find_split_periods(rng.multinomial(2_000, shares, 28))) > 1 for _ in range(300)
    )
    # At p < 1e-6 for each of some fifty parts, one in 300 is a one in 70 chance.
    assert changed <= 1


def test_days_without_units_and_variants_without_units():
    assert srm.find_split_periods([[0, 0], [90, 10], [0, 0]]) == (range(3),)
    assert srm.find_split_periods([[90, 0], [10, 0]]) == (range(2),)


def g_test(table: list[list[int]]) -> float:
    return float(stats.chi2_contingency(table, False, "log-likelihood").pvalue)


def test_two_days_are_apart_where_the_g_test_is_below_a_millionth() -> None:
    apart = []
    for moved in range(40, 160):
        days = [[500, 500], [500 - moved, 500 + moved]]
        apart.append(g_test(days) < 1e-6)
        wanted = (range(1), range(1, 2)) if apart[-1] else (range(2),)
        assert srm.find_split_periods(days) == wanted
        # A variant that nobody is in changes nothing.
        assert srm.find_split_periods([[*day, 0] for day in days]) == wanted
    assert any(apart)
    assert not all(apart)


def test_once_the_split_has_changed_days_are_apart_below_a_thousandth() -> None:
    apart = []
    for moved in range(40, 160):
        days = [[500, 500], [500 - moved, 500 + moved]]
        apart.append(g_test(days) < 1e-3)
        rest = (range(1, 2), range(2, 3)) if apart[-1] else (range(1, 3),)
        assert srm.find_split_periods([[9000, 100], *days]) == (range(1), *rest)
    assert any(apart)
    assert not all(apart)


def test_of_one_unit_a_day_nothing_is_known() -> None:
    assert srm.find_split_periods([[7, 5]]) == (range(1),)
    assert srm.find_split_periods([[1, 0], [0, 1]] * 5) == (range(10),)
    # A day of one unit adds nothing to either side of a change.
    assert srm.find_split_periods([[500, 100], [1, 0], [100, 500]]) == (range(2), range(2, 3))


@pytest.mark.parametrize("counts", [[], [1, 2], [[1, -2]], np.empty((0, 2))])
def test_counts_of_another_shape_are_refused(counts):
    with pytest.raises(Refusal) as refusal:
        srm.find_split_periods(counts)
    assert refusal.value.reason == "not_applicable"
