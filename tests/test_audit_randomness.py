"""Even numbers and independent experiments: reference values, and too few units."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from abeval.audit import check_independence, check_uniformity
from abeval.results.trust import Independence


def of_counts(table: list[list[int]]) -> Independence:
    """Two experiments with this many units in each pair of variants."""
    cells = [
        (f"r{i}", f"c{j}")
        for i, row in enumerate(table)
        for j, count in enumerate(row)
        for _ in range(count)
    ]
    units = [str(i) for i in range(len(cells))]
    one, other = (pd.Series([cell[side] for cell in cells], units) for side in (0, 1))
    (pair,) = check_independence({"one": one, "other": other})
    return pair


def test_five_numbers_a_bin_are_enough_and_fewer_are_not() -> None:
    numbers = np.arange(500.0)
    assert check_uniformity(numbers, 500) == 1.0
    assert check_uniformity(numbers[:499], 500) is None
    assert check_uniformity(numbers[:50], 500, bins=10) is not None
    assert check_uniformity(numbers[:49], 500, bins=10) is None


def test_numbers_count_from_0_up_to_the_size() -> None:
    middles = (np.arange(1_000) + 0.5) / 1_000
    assert check_uniformity(middles, 1.0) == 1.0
    # A bin of a hundred that is empty, and its ten numbers beside it.
    moved = np.where(middles < 0.01, middles + 0.01, middles)
    expected = float(stats.chi2.sf(2 * 10**2 / 10, 99))
    assert check_uniformity(moved, 1.0) == pytest.approx(expected, rel=1e-9)


def test_a_table_of_two_by_two_by_hand() -> None:
    pair = of_counts([[30, 20], [20, 30]])
    assert pair.units == 100
    # Pearson's statistic, not corrected for continuity: 4 · 5² / 25.
    assert pair.p_value == pytest.approx(float(stats.chi2.sf(4.0, 1)), rel=1e-9)
    assert pair.p_adjusted == pair.p_value
    assert pair.cramers_v == pytest.approx(0.2)


def test_an_experiment_that_decides_another_has_a_cramers_v_of_1() -> None:
    assert of_counts([[40, 0, 0], [0, 40, 0], [0, 0, 40]]).cramers_v == pytest.approx(1)
    assert of_counts([[40, 0], [0, 40], [0, 40]]).cramers_v == pytest.approx(1)
    assert of_counts([[20, 20], [20, 20], [20, 20]]).cramers_v == pytest.approx(0, abs=1e-12)


def test_five_units_expected_in_a_cell_are_enough() -> None:
    assert of_counts([[5, 5], [5, 5]]).p_value == pytest.approx(1)
    few = of_counts([[5, 5], [5, 4]])
    assert few == Independence("one", "other", 19, None, None, None)


def test_one_variant_and_no_common_unit_are_not_tested() -> None:
    assert of_counts([[50, 50]]) == Independence("one", "other", 100, None, None, None)
    one, other = (pd.Series(["a", "b"] * 50, [f"{name}{i}" for i in range(100)]) for name in "xy")
    (pair,) = check_independence({"one": one, "other": other})
    assert pair == Independence("one", "other", 0, None, None, None)
