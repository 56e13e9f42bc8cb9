"""Stretches of days of one split, found in the counts of units that enter."""

import numpy as np
import pytest
from scipy import stats

from abeval.stats.records import Refusal
from abeval.stats.srm import stretches


def test_a_change_that_no_single_day_shows():
    # A day of 45/55 among 47.5/52.5 is 1.6 standard errors off; ten days together are seven.
    days = [[500, 500]] * 10 + [[450, 550]] * 10
    assert stretches(days) == (range(10), range(10, 20))


def test_a_single_day_of_another_split():
    days = [[500, 500]] * 6 + [[300, 700]] + [[500, 500]] * 6
    assert stretches(days) == (range(6), range(6, 7), range(7, 13))


def test_of_three_variants_two_may_change_places():
    days = [[400, 300, 300]] * 4 + [[400, 420, 180]] * 5
    assert stretches(days) == (range(4), range(4, 9))


def test_equal_splits_have_no_stretches():
    rng = np.random.default_rng(5)
    shares = [0.5, 0.3, 0.2]
    changed = sum(len(stretches(rng.multinomial(2_000, shares, 28))) > 1 for _ in range(300))
    # At p < 1e-6 for each of some fifty parts, one in 300 is a one in 70 chance.
    assert changed <= 1


def test_days_without_units_and_variants_without_units():
    assert stretches([[0, 0], [90, 10], [0, 0]]) == (range(3),)
    assert stretches([[90, 0], [10, 0]]) == (range(2),)


def g_test(table: list[list[int]]) -> float:
    return float(stats.chi2_contingency(table, False, "log-likelihood").pvalue)


def test_two_days_are_apart_where_the_g_test_is_below_a_millionth() -> None:
    apart = []
    for moved in range(40, 160):
        days = [[500, 500], [500 - moved, 500 + moved]]
        apart.append(g_test(days) < 1e-6)
        wanted = (range(1), range(1, 2)) if apart[-1] else (range(2),)
        assert stretches(days) == wanted
        # A variant that nobody is in changes nothing.
        assert stretches([[*day, 0] for day in days]) == wanted
    assert any(apart)
    assert not all(apart)


def test_once_the_split_has_changed_days_are_apart_below_a_thousandth() -> None:
    apart = []
    for moved in range(40, 160):
        days = [[500, 500], [500 - moved, 500 + moved]]
        apart.append(g_test(days) < 1e-3)
        rest = (range(1, 2), range(2, 3)) if apart[-1] else (range(1, 3),)
        assert stretches([[9000, 100], *days]) == (range(1), *rest)
    assert any(apart)
    assert not all(apart)


def test_of_one_unit_a_day_nothing_is_known() -> None:
    assert stretches([[7, 5]]) == (range(1),)
    assert stretches([[1, 0], [0, 1]] * 5) == (range(10),)
    # A day of one unit adds nothing to either side of a change.
    assert stretches([[500, 100], [1, 0], [100, 500]]) == (range(2), range(2, 3))


@pytest.mark.parametrize("counts", [[], [1, 2], [[1, -2]], np.empty((0, 2))])
def test_counts_of_another_shape_are_refused(counts):
    with pytest.raises(Refusal) as refusal:
        stretches(counts)
    assert refusal.value.reason == "not_applicable"
