"""Counts of items by group as matrices, exact whatever their size."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.stats.catalogue import Incidence, build_item_matrices
from abeval.stats.records import Refusal

GROUPS = 8
PRECISE = 1 << 24
"""Whole numbers from here on are not all numbers of single precision."""


def incidence(items: list[int], groups: list[int], counts: list[float], size: int = 9) -> Incidence:
    numbers = np.array(counts)
    units = np.full(GROUPS, 5)
    return Incidence(np.array(items, int), np.array(groups, int), numbers, numbers, units, size)


def test_a_column_for_every_item_that_either_variant_showed() -> None:
    control = incidence([0, 4, 4, 0], [1, 0, 7, 1], [2, 3, 1, 5])
    treatment = incidence([8, 4], [2, 2], [6, 0])
    first, second = build_item_matrices(control, treatment, "impressions")
    wanted = np.zeros((2, GROUPS, 3))
    wanted[0, 1, 0], wanted[0, 0, 1], wanted[0, 7, 1], wanted[1, 2, 2] = 7, 3, 1, 6
    assert np.array_equal(first.counts, wanted[0])
    assert np.array_equal(second.counts, wanted[1])
    assert first.units.tolist() == [5.0] * GROUPS


def test_units_and_impressions_are_counted_apart() -> None:
    one = incidence([1, 3], [0, 1], [7, 9])._replace(units=np.array([1, 2]))
    assert build_item_matrices(one, one, "units")[0].counts.sum(axis=0).tolist() == [1, 2]
    assert build_item_matrices(one, one, "impressions")[1].counts.sum(axis=0).tolist() == [7, 9]


@pytest.mark.parametrize("counts", [[PRECISE + 1, 1], [1, PRECISE + 1], [0.1, 2.7], [3, 0.3]])
def test_large_and_broken_counts_keep_their_digits(counts: list[float]) -> None:
    one, few = incidence([0, 1], [0, 1], counts), incidence([0], [0], [1])
    for first, second in (
        build_item_matrices(one, few, "units"),
        build_item_matrices(few, one, "units")[::-1],
    ):
        assert [first.counts[0, 0], first.counts[1, 1]] == counts
        assert second.counts.sum() == 1


def test_small_whole_counts_take_half_the_memory() -> None:
    few = incidence([0, 8], [0, 1], [3, PRECISE - 5])
    assert (
        build_item_matrices(few, few._replace(units=np.array([1, 1])), "units")[0].counts.dtype
        == "float32"
    )


@pytest.mark.parametrize(
    ("control", "treatment", "reason"),
    [
        (incidence([9], [0], [1]), incidence([0], [0], [1]), "not_applicable"),
        (incidence([-1], [0], [1]), incidence([0], [0], [1]), "not_applicable"),
        (incidence([0], [0], [1]), incidence([9], [0], [1]), "not_applicable"),
        (incidence([0], [0], [1]), incidence([0], [0], [1], 10), "not_applicable"),
        (incidence([], [], []), incidence([0], [0], [1]), "too_few_units"),
        (incidence([0], [0], [0]), incidence([0], [0], [1]), "too_few_units"),
        (incidence([0, 1], [0, 0], [1, -1]), incidence([0], [0], [1]), "not_finite"),
        (incidence([0, 1], [0, 0], [5, -1]), incidence([0], [0], [1]), "not_finite"),
        (incidence([0], [0], [np.inf]), incidence([0], [0], [1]), "not_finite"),
    ],
)
def test_counts_that_are_none_are_refused(
    control: Incidence, treatment: Incidence, reason: str
) -> None:
    with pytest.raises(Refusal) as refused:
        build_item_matrices(control, treatment, "units")
    assert refused.value.reason == reason


def test_eight_groups_are_enough_seven_are_not() -> None:
    one = incidence([0], [0], [1])
    assert build_item_matrices(one, one, "units")[0].counts.shape == (8, 1)
    seven = one._replace(units_in_group=np.full(7, 5))
    for pair in ((seven, seven), (one, seven)):
        with pytest.raises(Refusal):
            build_item_matrices(*pair, "units")
