"""Exact sums over units: products of whole numbers by group, and sums of slices of metrics."""

from __future__ import annotations

import gc
import tracemalloc
from collections import defaultdict
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.aggregates.sums import (
    SUM_NAMES,
    Slice,
    Terms,
    UnitGroups,
    sum_products_exactly,
    sum_slices,
)
from abeval.errors import ExperimentError
from abeval.logs.unit_arrays import Labels

PRODUCTS = [(0,), (1,), (0, 0), (0, 1), (0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]
SIZES = st.sampled_from([1, 10**3, 10**6, 2**31, 10**10, 10**13, 2**47])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32), SIZES, SIZES, st.integers(1, 40_000), st.lists(st.integers(1, 39_999))
)
def test_sums_of_products_by_group_are_those_of_whole_numbers(
    seed: int, first: int, second: int, rows: int, cuts: list[int]
) -> None:
    """Of values of both signs, in groups of one row and of several blocks of 2^14 rows."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(-size, size + 1, rows) for size in (first, second)]
    starts = sorted({0, *(cut for cut in cuts if cut < rows)})
    exact = [column.astype(object) for column in columns]
    sums = sum_products_exactly(columns, PRODUCTS, starts)
    assert sums == {
        p: list(np.add.reduceat(np.prod([exact[i] for i in p], axis=0), starts)) for p in PRODUCTS
    }
    order = rng.permutation(rows)
    mixed = [column[np.argsort(order)] for column in columns]
    assert sum_products_exactly(mixed, PRODUCTS, starts, order) == sums


@pytest.mark.parametrize("start", [2**14 - 1, 2**14, 2**14 + 1])
def test_a_group_may_begin_where_a_block_does(start: int) -> None:
    column = np.arange(2**15 + 3)
    sums = sum_products_exactly([column], [(0,)], [0, start])
    assert sums == {(0,): [sum(range(start)), sum(range(start, 2**15 + 3))]}


def test_values_that_are_too_large_are_refused() -> None:
    large = np.full(100, 2**62)
    with pytest.raises(OverflowError):
        sum_products_exactly([large], [(0, 0, 0)])
    assert sum_products_exactly([large], [(0, 0)]) == {(0, 0): [100 * 2**124]}
    groups = UnitGroups(np.zeros(100, dtype=np.int8), np.zeros(100, dtype=np.int16), ["a"])
    small = Slice("small", "whole", Terms(np.ones(100, dtype=np.int64)))
    with pytest.raises(ExperimentError, match=r"metric 'large': .* too large"):
        sum_slices([small, Slice("large", "whole", Terms(large))], groups)


Label = tuple[str, str, str, tuple[str, int]]


def summed(one: Slice, groups: UnitGroups) -> dict[Label, list[int]]:
    """The units and the sums of a slice by its labels, unit by unit."""
    rows: dict[Label, list[int]] = defaultdict(lambda: [0] * (1 + len(SUM_NAMES)))
    factors = [name.split("_") for name in SUM_NAMES]
    for unit, (variant, stretch) in enumerate(
        zip(groups.variant, groups.split_period, strict=True)
    ):
        if one.mask is not None and not one.mask[unit]:
            continue
        cell = one.cell if isinstance(one.cell, str) else one.cell.names[one.cell.code[unit]]
        values = {
            name: value if isinstance(value, int) else int(value[unit])
            for name, value in one.terms._asdict().items()
        }
        products = [prod(values[name] for name in names) for names in factors]
        label = (one.metric, one.name, cell, (groups.variants[variant], int(stretch)))
        rows[label] = [a + b for a, b in zip(rows[label], [1, *products], strict=True)]
    return dict(rows)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 3), SIZES, st.booleans())
def test_sums_of_slices_are_those_of_their_units(
    seed: int, units: int, stretches: int, size: int, has_past: bool
) -> None:
    """Of cells, split periods and masks; of a new unit what was before is 0."""
    rng = np.random.default_rng(seed)
    y, x, y0, x0 = rng.integers(-size, size + 1, (4, units))
    new = rng.integers(0, 2, units)
    groups = UnitGroups(
        rng.integers(0, 3, units).astype(np.int8),
        rng.integers(0, stretches, units).astype(np.int16),
        ["b", "a", "c"],
    )
    labels = Labels(rng.integers(0, 3, units).astype(np.int32), ["", "p", "q"])
    mask = rng.random(units) < 0.5
    past = Terms(y, x, y0 * (1 - new), x0 * (1 - new), new) if has_past else Terms(y, x)
    slices = [
        Slice("ratio", "whole", past),
        Slice("mean", "whole", past._replace(x=1, x0=1 if has_past else 0)),
        *(Slice("ratio", "segment:s", Terms(y, x), labels), Slice("ratio", "day", Terms(x, y))),
        *(
            Slice("mean", "segment:s", Terms(y), labels, mask),
            Slice("some", "whole", past, mask=mask),
        ),
        *(Slice("count", "left_out", Terms(x, 0), "why"), Slice("none", "whole", Terms(0))),
    ]
    rows = sum_slices(slices, groups)
    expected = {label: sums for one in slices for label, sums in summed(one, groups).items()}
    assert {row[:4]: [row.units, *row.sums] for row in rows} == expected
    assert len(rows) == len(expected)


def test_products_with_newness_are_summed_where_covariates_of_new_units_are_known() -> None:
    """Those of a table of units are known of units that were not there before."""
    groups = UnitGroups(np.zeros(4, dtype=np.int8), np.zeros(4, dtype=np.int16), ["a"])
    y, age, new = np.array([1, 2, 3, 4]), np.array([5, 6, 7, 8]), np.array([0, 1, 1, 0])
    (row,) = sum_slices([Slice("m", "covariates", Terms(y, 1, age, 0, new), "0,1")], groups)
    assert row.sum("y0", "z") == 13
    assert row.sum("y", "z") == 5


def test_sums_leave_no_block_in_memory() -> None:
    """Garbage is rarely collected while an analysis runs: nothing may wait for it."""
    columns = [np.arange(200_000) % 1_000 for _ in range(2)]
    gc.disable()
    tracemalloc.start()
    try:
        sum_products_exactly(columns, PRODUCTS)
        left, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert left < 100_000 < most


def test_heavy_units_are_kept_by_group() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(1, 9, 600)
    y, x[[3, 400]] = rng.integers(0, 9, 600), (900, 70)
    groups = UnitGroups(
        (np.arange(600) >= 300).astype(np.int8), np.zeros(600, np.int16), ["a", "b"]
    )
    rows = sum_slices([Slice("m", "whole", Terms(y, x)), Slice("n", "whole", Terms(y))], groups)
    assert [row.heavy for row in rows] == [
        [[int(y[3]), 900, 0, 0, 0]],
        [[int(y[400]), 70, 0, 0, 0]],
        [],
        [],
    ]
