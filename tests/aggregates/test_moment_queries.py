"""The queries that sum products of units' values, against whole numbers of Python."""

from __future__ import annotations

from collections import defaultdict
from math import prod

import numpy as np
import pytest

from abeval.aggregates.moment_rows import LABELS, MOMENT_COLUMNS
from abeval.aggregates.terms import (
    MOMENTS,
    NOW,
    NOW_PER_UNIT,
    PER_UNIT,
    MomentQuery,
    large,
    moment_row,
)
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.queries import query
from tests.relations import Row, relation

Unit = dict[str, int]

QUERIES = (MOMENTS, PER_UNIT, NOW, NOW_PER_UNIT)
BEYOND_CUBES = 10**14
"""The sum of cubes of such values needs more than 128 bits."""


def units_of(summed: MomentQuery, largest: int) -> dict[Row, list[Unit]]:
    """Units of several groups; what a query does not read of them is 0 or 1."""
    rng = np.random.default_rng(len(summed.sums))
    read = {name for name in summed.sums if "_" not in name}
    units: dict[Row, list[Unit]] = defaultdict(list)
    for number in range(96):
        key: Row = (number % 2, "xy"[number // 2 % 2], "ab"[number // 4 % 2], number // 8 % 2)
        values = {name: int(rng.integers(-largest, largest)) for name in ("y", "x", "y0", "x0")}
        unit = {**values, "z": number // 16 % 2}
        units[key].append({name: unit[name] if name in read else 0 for name in unit})
        units[key][-1] |= dict.fromkeys(summed.ones, 1)
    return units


def metric(units: dict[Row, list[Unit]]) -> str:
    """One row per unit and part, as the queries read it."""
    columns = (
        "part bigint, cell varchar, variant varchar, stretch bigint, "
        "y bigint, x bigint, y0 bigint, x0 bigint, is_new bigint"
    )
    return relation(columns, *((*key, *one.values()) for key, own in units.items() for one in own))


def exact(units: list[Unit]) -> dict[str, int]:
    """The sums over units; of three factors, newness goes with values of now alone."""
    products = {name: name.split("_") for name in MOMENT_COLUMNS[LABELS + 1 :]}
    return {
        name: sum(prod(one[factor] for factor in factors) for one in units)
        for name, factors in products.items()
        if len(factors) < 3 or "z" not in factors or {"y0", "x0"}.isdisjoint(factors)
    }


@pytest.mark.parametrize("summed", QUERIES, ids=lambda one: one.name)
@pytest.mark.parametrize("largest", [10**3, BEYOND_CUBES])
def test_sums_of_products_are_exact_in_every_group(summed: MomentQuery, largest: int) -> None:
    units = units_of(summed, largest)
    engine = DuckDBEngine()
    engine.table("metric", metric(units))
    for one in (summed, large(summed)) if largest < BEYOND_CUBES else (large(summed),):
        rows = [moment_row(("m", *row), one) for row in engine.rows(query(one.name))]
        assert len(rows) == len(units)
        for row in rows:
            named = dict(zip(MOMENT_COLUMNS, row, strict=True))
            assert {n: int(str(named[n])) for n in exact([])} == exact(units[row[1:LABELS]])
            assert named["units"] == len(units[row[1:LABELS]])
    engine.close()
