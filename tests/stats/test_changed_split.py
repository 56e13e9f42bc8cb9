"""Stretches of days of one split, found in the counts of units that enter."""

import numpy as np
import pytest

from abeval.stats.changed_split import stretches
from abeval.stats.records import Refusal


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


@pytest.mark.parametrize("counts", [[], [1, 2], [[1, -2]]])
def test_counts_of_another_shape_are_refused(counts):
    with pytest.raises(Refusal) as refusal:
        stretches(counts)
    assert refusal.value.reason == "not_applicable"
