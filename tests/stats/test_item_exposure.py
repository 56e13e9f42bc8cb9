"""Exposure of one set of units, against sums over all ways to draw them and over all pairs."""

from __future__ import annotations

import math
from math import comb

import numpy as np
import pytest

from abeval.stats import item_exposure
from abeval.stats.records import Refusal

LARGE = 1 << 14
"""From here on totals are sorted, not counted."""


def spread(totals: list[float], items: int) -> tuple[float, float]:
    """Gini by all pairs of items, entropy by the shares."""
    full = np.array(totals + [0.0] * (items - len(totals)))
    gini = np.abs(full[:, None] - full).mean() / 2 / full.mean()
    shares = full[full > 0] / full.sum()
    return float(gini), float(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize(
    "totals",
    [
        [3.0, 1.0, 1.0, 0.0],
        [0.5, 0.0, 0.25, 2.5],
        [LARGE - 1.0, LARGE, LARGE, LARGE + 1.0, 3.0, 0.0],
        [LARGE, 1.0],
        [4.0 * LARGE, LARGE, LARGE, 0.0],
    ],
)
@pytest.mark.parametrize("unseen", [0, 3])
def test_gini_and_entropy_of_small_large_and_broken_totals(
    totals: list[float], unseen: int
) -> None:
    items = len(totals) + unseen
    measured = item_exposure.measure_evenness(np.array([totals]), items, ["gini", "entropy"])
    assert measured[:, 0] == pytest.approx(spread(totals, items), rel=1e-12)
    assert item_exposure.gini(totals, items) == pytest.approx(measured[0, 0])


def test_rarefied_coverage_is_the_mean_over_all_draws_of_units() -> None:
    units = 9
    shown = np.array([0, 1, 2, 5, 8, 9])
    for at in range(1, units + 1):
        missed = [comb(units - u, at) / comb(units, at) for u in shown.tolist()]
        wanted = (len(shown) - sum(missed)) / 7
        assert item_exposure.coverage(shown, units, at, 7) == pytest.approx(wanted, abs=1e-12)
        of_sets = item_exposure.rarefy_coverage(
            np.array([shown, shown], dtype=np.float32), np.full(2, 9.0), np.array([at, 9.0]), 7
        )
        assert of_sets == pytest.approx([wanted, 5 / 7], abs=1e-12)


def test_rarefied_coverage_of_many_units_needs_only_the_common_items_digits() -> None:
    units, at = 200_000, 150
    shown = np.array([0, 1, 30, 2_000, 60_000, 200_000])
    measured = item_exposure.rarefy_coverage(shown[None], np.array([units]), np.array([at]), 6)
    missed = [
        math.exp(
            math.lgamma(units - u + 1)
            - math.lgamma(units - u - at + 1)
            - math.lgamma(units + 1)
            + math.lgamma(units - at + 1)
        )
        if u <= units - at
        else 0.0
        for u in shown.tolist()
    ]
    assert measured[0] == pytest.approx(1 - sum(missed) / 6, abs=1e-9)


def test_a_catalogue_may_be_shown_in_full() -> None:
    assert item_exposure.coverage([4, 4, 4], 4, 2, 3) == 1
    assert item_exposure.gini([4, 4, 4], 3) == 0
    shown = np.array([[4.0, 4.0, 4.0]])
    assert item_exposure.measure_evenness(shown, 3, ["entropy"])[0, 0] == pytest.approx(math.log(3))


@pytest.mark.parametrize(
    ("shown", "units", "at", "items", "reason"),
    [
        ([1, 2], 5, 0, 3, "too_few_units"),
        ([1, 2], 5, 6, 3, "too_few_units"),
        ([1, -1], 5, 3, 3, "not_applicable"),
        ([1, 6], 5, 3, 3, "not_applicable"),
        ([1, 2, 3, 4], 5, 3, 3, "not_applicable"),
    ],
)
def test_coverage_is_refused_outside_its_units_and_its_catalogue(
    shown: list[int], units: int, at: int, items: int, reason: str
) -> None:
    with pytest.raises(Refusal) as refused:
        item_exposure.coverage(shown, units, at, items)
    assert refused.value.reason == reason


@pytest.mark.parametrize("measure", [item_exposure.gini])
@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ([5, -1], "not_applicable"),
        ([1, 2, 3], "not_applicable"),
        ([1, math.inf], "not_finite"),
        ([0, 0], "too_few_units"),
    ],
)
def test_impressions_that_spread_nothing_are_refused(measure, shown, reason) -> None:
    with pytest.raises(Refusal) as refused:
        measure(shown, 2)
    assert refused.value.reason == reason
    # One impression is enough.
    assert measure([0, 1], 2) in (0.5, 0.0)


def test_a_set_without_impressions_has_no_spread() -> None:
    with pytest.raises(Refusal) as refused:
        item_exposure.measure_evenness(np.array([[1.0, 2.0], [0.0, 0.0]]), 2, ["entropy"])
    assert refused.value.reason == "too_few_units"
