"""Exact tests of splits: which counts they are for, and the arms that they add up."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from abeval.stats import multiplicity, srm
from abeval.stats.records import Refusal


def test_the_rarest_of_three_arms_counts_three_times() -> None:
    counts, shares = np.array([14, 3, 3]), np.array([0.5, 0.3, 0.2])
    each = [stats.binomtest(n, 20, p).pvalue for n, p in zip(counts, shares, strict=True)]
    assert srm.of_split(counts, shares) == pytest.approx(min(1.0, 3 * min(each)))
    one = srm.of_split(np.array([18, 1, 1]), shares)
    assert one == pytest.approx(3 * stats.binomtest(18, 20, 0.5).pvalue)
    likely = srm.of_split(np.array([10, 6, 4]), shares)
    assert srm.of_split(np.zeros(3), shares) == 1.0
    table = np.array([[6.0, 3, 1], [4, 3, 3]])
    of_strata = srm.of_strata(table, np.array([shares, shares]))
    assert of_strata == pytest.approx(likely) == 1.0
    far = srm.of_strata(np.array([[18.0, 1, 1], [0, 0, 0]]), np.array([shares, shares]))
    assert far == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("observed", [900, 1000])
def test_a_count_beyond_all_that_doubles_can_tell_is_no_chance(observed: int) -> None:
    """Of 1,000 units one is expected in the arm: its probability is below the least double."""
    assert stats.binomtest(observed, 1000, 0.001).pvalue == 0.0
    assert srm.two_sided(observed, [1000], [0.001]) == 0.0
    assert srm.believable([1000 - observed, observed], [0.999, 0.001]).p_value == 0.0


@pytest.mark.parametrize("count", [1050, 960])
def test_from_a_thousand_expected_units_on_an_arm_is_normal(count: int) -> None:
    """Of the smaller side of the split: an arm of six of ten units has four against it."""
    normal = stats.chi2.sf((count - 1000) ** 2 / 500, 1)
    even = np.array([[0.5, 0.5]])
    of_even = srm.of_strata(np.array([[float(count), 2000.0 - count]]), even)
    assert of_even == pytest.approx(normal, rel=1e-12)
    below = srm.of_strata(np.array([[count - 1.0, 2000.0 - count]]), even)
    assert below == pytest.approx(stats.binomtest(count - 1, 1999, 0.5).pvalue, rel=1e-9)
    uneven = np.array([[0.6, 0.4]])
    large = srm.of_strata(np.array([[count + 200.0, 1800.0 - count]]), uneven)
    assert large == pytest.approx(stats.binomtest(count + 200, 2000, 0.6).pvalue, rel=1e-6)


def test_five_expected_units_are_enough_for_chi_square() -> None:
    assert not srm.believable([90, 10], [19, 1]).is_exact
    assert srm.believable([89, 10], [19, 1]).is_exact
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
            srm.stratified(observed, weights)
        assert refused.value.reason == reason


def test_a_ramp_of_three_arms_is_the_excess_by_its_covariance() -> None:
    table = np.array([[900.0, 60, 40], [330, 350, 320]])
    shares = np.array([[0.9, 0.05, 0.05], [1 / 3, 1 / 3, 1 / 3]])
    excess = (table - table.sum(axis=1, keepdims=True) * shares).sum(axis=0)
    spread = sum(1000 * (np.diag(p) - np.outer(p, p)) for p in shares)
    statistic = excess[:2] @ np.linalg.inv(spread[:2, :2]) @ excess[:2]
    split = srm.stratified(table, shares * [[7.0], [0.1]])
    assert (split.df, split.is_exact) == (2, False)
    assert split.statistic == pytest.approx(statistic, rel=1e-9)
    assert split.p_value == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-9)


def test_a_closed_arm_needs_no_prior() -> None:
    open_arms = srm.sequential([[30, 12]], [1, 1], prior=[2, 3])
    closed = srm.sequential([[30, 0, 12]], [1, 0, 1], prior=[2, 0, 3])
    assert closed == open_arms
    for prior in ([2, 3], [0, 1, 3], [-1, 1, 1]):
        with pytest.raises(Refusal, match="prior"):
            srm.sequential([[30, 0, 12]], [1, 0, 1], prior=prior)
    # Without a prior: ten thousand units that arrived as promised.
    plain = srm.sequential([[300, 120]], [2, 1])
    shares = [20_000 / 3, 10_000 / 3]
    assert plain.p_values == pytest.approx(srm.sequential([[300, 120]], [2, 1], shares).p_values)
    with pytest.raises(Refusal):
        srm.sequential(np.zeros((0, 2)), [1, 1])


class TestSegments:
    def test_rows_say_by_how_much_a_segment_is_off(self) -> None:
        split = srm.by_segment(["a", "b"], [[330, 270], [90, 110]], [3, 2])
        by_name = {row.segment: row for row in split.segments}
        for name, counts in (("a", [330, 270]), ("b", [90, 110])):
            row, units = by_name[name], sum(counts)
            expected = [0.6 * units, 0.4 * units]
            assert row.units == units
            assert row.excess == pytest.approx(np.subtract(counts, expected))
            theirs = stats.chisquare(counts, expected)
            assert row.statistic == pytest.approx(theirs.statistic)
            assert row.p_value == pytest.approx(theirs.pvalue)
        assert by_name["a"].p_value_without == pytest.approx(by_name["b"].p_value)

    def test_of_two_that_are_beyond_doubt_the_plainer_is_first(self) -> None:
        split = srm.by_segment(["c", "a", "b"], [[500, 500], [9000, 1000], [99_000, 1000]], [1, 1])
        assert [row.segment for row in split.segments] == ["b", "a", "c"]
        assert split.segments[0].p_value == split.segments[1].p_value == 0.0

    def test_segments_of_five_expected_units_stand_alone(self) -> None:
        table = [[90, 90], [4, 6], [6, 4]]
        alone = srm.by_segment(["a", "b", "c"], table, [1, 1]).homogeneity
        theirs = stats.chi2_contingency(table, correction=False)
        assert (alone.df, alone.p_value) == (2, pytest.approx(theirs.pvalue))
        three = [[90, 90, 20], [40, 60, 0], [60, 40, 10]]
        wide = srm.by_segment(["a", "b", "c"], three, [4, 4, 1]).homogeneity
        theirs = stats.chi2_contingency(three, correction=False)
        assert (wide.df, wide.p_value) == (4, pytest.approx(theirs.pvalue))

    def test_names_and_counts_must_agree(self) -> None:
        for names, table in (
            (["a"], [[5, 5], [5, 5]]),
            ([], np.zeros((0, 2))),
            (["a", "b"], [5, 5]),
        ):
            with pytest.raises(Refusal) as refused:
                srm.by_segment(names, table, [1, 1])
            assert refused.value.reason == "not_applicable"
        one = srm.by_segment(["a"], [[5, 5]], [1, 1])
        with pytest.raises(Refusal):
            srm.rank_dimensions(["x", "y"], [one])

    def test_the_worst_segments_of_all_dimensions_are_one_family(self) -> None:
        tables = [
            srm.by_segment(["a", "b"], [[520, 480], [500, 500]], [1, 1]),
            srm.by_segment(["x", "y", "z"], [[330, 400], [350, 340], [300, 310]], [1, 1]),
        ]
        every = multiplicity.adjust([row.p_value for table in tables for row in table.segments])
        ranked = srm.rank_dimensions(["first", "second"], tables)
        by_name = {row.dimension: row for row in ranked}
        for name, table, place in (("first", tables[0], 0), ("second", tables[1], 2)):
            assert by_name[name].worst_segment == table.segments[0].segment
            assert by_name[name].worst_p_adjusted == pytest.approx(every[place])
            assert by_name[name].p_value == table.homogeneity.p_value
        assert [row.p_value for row in ranked] == sorted(row.p_value for row in ranked)


def test_the_p_value_of_a_path_is_that_of_its_last_look() -> None:
    path = srm.sequential([[500, 400], [1100, 900], [2300, 1700], [2500, 1700]], [1, 1])
    assert len(set(path.p_values)) == 4
    assert path.p_value == path.p_values[3] == min(path.p_values)
