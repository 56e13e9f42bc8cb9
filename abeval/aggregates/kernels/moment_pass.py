"""Sums of metrics over units by arrays, in one pass, where the engine has arrays.

`metric_queries.py` uses the rows in place of those of the queries `metric/moments…`, which define
them: the same whole numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.exact import Product, exact_sums
from abeval.aggregates.terms import Row, SliceTerms
from abeval.engines.protocol import ArrayEngine
from abeval.engines.sql import numbered
from abeval.errors import QueryError

_Group = tuple[int, int]
"""The place of a variant, and the stretch."""

_VARIABLES = {"y": "y", "x": "x", "y0": "y0", "x0": "x0", "z": "is_new"}
"""Name in a sum → field of `Terms`."""


class _Summand(NamedTuple):
    """A slice whose sums are known, once its products are.

    Attributes:
        cell: Its cell, the same for all units.
        products: What its query sums, in order: places of columns, none for what is 0.
    """

    cell: str
    products: tuple[Product | None, ...]


def sums_by_arrays(
    engine: ArrayEngine,
    slices: Sequence[SliceTerms],
    units: str,
    variants: Sequence[str],
    by_stretch: bool,
) -> list[list[Row]] | None:
    """What the queries of the slices would return: by slice, rows without the number of the part.

    Args:
        engine: Holds the units.
        slices: Each of all units, with the same cell for all of them.
        units: The relation with their values.
        variants: Those of the experiment.
        by_stretch: Whether the units are summed by stretch.

    Returns:
        None where a value is no whole number of 64 bits, or too large; the queries say what it is.
    """
    columns: dict[str, int] = {}
    summands = [_summand(part, columns) for part in slices]
    stretch = "stretch" if by_stretch else "0"
    shown = (f"{sql} as v_{place}" for sql, place in columns.items())
    listed = ", ".join([f"{numbered('variant', variants)} as arm", f"{stretch} as part", *shown])
    products = {p for one in summands for p in one.products if p}
    try:
        totals = _totals(engine, f"select {listed} from {units}", len(columns), products)
    except QueryError:
        return None
    if totals is None:
        return None
    groups = sorted(totals, key=lambda group: (variants[group[0]], group[1]))
    return [[_row(one, variants, group, totals[group]) for group in groups] for one in summands]


def is_of_one_cell(part: SliceTerms) -> bool:
    """Whether a slice has the same cell for all units, and all units are of it."""
    return part.cell.startswith("'") and not (part.of_units and part.metric.among is not None)


def _summand(part: SliceTerms, columns: dict[str, int]) -> _Summand:
    """A slice; its columns are added to those that are read."""
    sql = {name: str(getattr(part.terms, field)) for name, field in _VARIABLES.items()}

    def product(name: str) -> Product | None:
        factors = [sql[variable] for variable in name.split("_")]
        if "0" in factors:
            return None
        places = (columns.setdefault(one, len(columns)) for one in factors if one != "1")
        return tuple(sorted(places))

    cell = part.cell[1:-1].replace("''", "'")
    return _Summand(cell, tuple(product(name) for name in part.terms.query.sums))


class _Totals(NamedTuple):
    """Of the units of a group: their number, and their sums by product."""

    units: int
    sums: Mapping[Product, int]


def _totals(
    engine: ArrayEngine, sql: str, width: int, products: set[Product]
) -> dict[_Group, _Totals] | None:
    totals: dict[_Group, _Totals] = {}
    for chunk in engine.chunks(sql):
        if any(column.dtype.kind != "i" for column in chunk.values()):
            return None
        columns = [chunk[f"v_{place}"].astype(np.int64, copy=False) for place in range(width)]
        for group, rows in _groups(chunk["arm"], chunk["part"]):
            sums = exact_sums([column[rows] for column in columns], products)
            if sums is None:
                return None
            totals[group] = _added(totals.get(group), _Totals(len(rows), sums))
    return totals


def _groups(
    arm: NDArray[np.generic], part: NDArray[np.generic]
) -> Iterator[tuple[_Group, NDArray[np.intp]]]:
    """Each group, and the places of its rows."""
    arms, parts = arm.astype(np.int64), part.astype(np.int64)
    width = int(arms.max()) + 1
    code = parts * width + arms
    for one in np.flatnonzero(np.bincount(code)):
        yield (int(one % width), int(one // width)), np.flatnonzero(code == one)


def _added(known: _Totals | None, more: _Totals) -> _Totals:
    if known is None:
        return more
    sums = {product: total + more.sums[product] for product, total in known.sums.items()}
    return _Totals(known.units + more.units, sums)


def _row(one: _Summand, variants: Sequence[str], group: _Group, totals: _Totals) -> Row:
    """Cell, variant, stretch, units and sums, in the order of the query."""

    def total(product: Product | None) -> int:
        if product is None:
            return 0
        return totals.sums[product] if product else totals.units

    arm, stretch = group
    sums = map(str, map(total, one.products))
    return (one.cell, variants[arm], stretch, totals.units, *sums)
