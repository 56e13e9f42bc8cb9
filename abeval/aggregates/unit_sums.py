"""Exact sums over units by metric, slice, cell, variant and stretch, from arrays of their values.

`source_values.py` says what metrics are of the units of a source; `collect.py` puts the rows into
aggregates, as do cuts and windows with values of their own.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.sums import LABELS, MOMENT_COLUMNS, Product, exact_sums
from abeval.engines.protocol import Cell
from abeval.errors import ExperimentError
from abeval.logs.unit_arrays import Labels

Row = tuple[Cell, ...]

Variable = int | NDArray[np.integer]
"""The values of units, or 0 or 1 for all of them."""

_TOO_LARGE = (
    "sums of squares must stay below 1e38 steps of `resolution` (1e-6 by default): divide the "
    "value, or set a coarser resolution"
)


class Terms(NamedTuple):
    """What is summed: numerator, denominator, both before the period, and newness."""

    y: Variable
    x: Variable = 1
    y0: Variable = 0
    x0: Variable = 0
    z: Variable = 0


class Slice(NamedTuple):
    """What one metric sums in the cells of one slice.

    Attributes:
        metric: Its name.
        name: Of the slice.
        terms: Values of the units.
        cell: The cell of all units, or of each.
        of: Which units are summed; None for all.
    """

    metric: str
    name: str
    terms: Terms
    cell: str | Labels = ""
    of: NDArray[np.bool_] | None = None


class Groups(NamedTuple):
    """The group of each unit that is summed.

    Attributes:
        variant: Place of its variant in `variants`, shape (units,).
        stretch: Number of the stretch in which it entered.
        variants: Names of the variants.
    """

    variant: NDArray[np.integer]
    stretch: NDArray[np.integer]
    variants: Sequence[str]


def add_signed(rows: Iterable[tuple[int, Row]]) -> list[Row]:
    """One row of `moment_rows.MOMENT_COLUMNS` per label: the sum of sign × row.

    Example:
        >>> label = ("ctr", "day", "2026-01-01", "a", 0)
        >>> add_signed([(1, (*label, 3, "9")), (-1, (*label, 1, "4"))])
        [('ctr', 'day', '2026-01-01', 'a', 0, 2, '5')]
    """
    totals: dict[Row, list[int]] = {}
    for sign, row in rows:
        sums = [sign * int(str(value)) for value in row[LABELS:]]
        total = totals.get(row[:LABELS], [0] * len(sums))
        totals[row[:LABELS]] = [a + b for a, b in zip(total, sums, strict=True)]
    return [(*labels, units, *map(str, sums)) for labels, (units, *sums) in totals.items() if units]


def sums_of(slices: Sequence[Slice], groups: Groups) -> list[Row]:
    """Exact sums: rows of `moment_rows.MOMENT_COLUMNS`, in the order of the slices.

    Raises:
        ExperimentError: The values of a metric are too large.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for number, one in enumerate(slices):
        cell = id(one.cell.code) if isinstance(one.cell, Labels) else 0
        alike.setdefault((cell, id(one.of)), []).append(number)
    rows: dict[int, list[Row]] = {}
    for numbers in alike.values():
        rows |= dict(zip(numbers, _of_alike([slices[n] for n in numbers], groups), strict=True))
    return [row for number in range(len(slices)) for row in rows[number]]


def _of_alike(slices: Sequence[Slice], groups: Groups) -> list[list[Row]]:
    """The rows of slices of the same units in the same cells."""
    first = slices[0]
    order, starts = _ordered(first, groups)
    if not len(order):
        return [[] for _ in slices]
    columns: dict[int, int] = {}
    arrays: list[NDArray[np.integer]] = []

    def place(values: NDArray[np.integer]) -> int:
        if id(values) not in columns:
            columns[id(values)] = len(arrays)
            arrays.append(values)
        return columns[id(values)]

    products = [_products(one.terms, place) for one in slices]
    wanted = dict.fromkeys(p for of_slice in products for p in of_slice if p)
    sums = exact_sums(arrays, wanted, starts, order) if arrays else {}
    if sums is None:
        raise _too_large(slices, groups)
    units = np.diff(np.append(starts, len(order))).tolist()
    heads = order[starts]
    labels = list(zip(groups.variant[heads].tolist(), groups.stretch[heads].tolist(), strict=True))
    return [
        [
            (
                *(one.metric, one.name, _cell(one.cell, heads[group])),
                *(groups.variants[variant], stretch, units[group]),
                *(_text(product, sums, units, group) for product in of_slice),
            )
            for group, (variant, stretch) in enumerate(labels)
        ]
        for one, of_slice in zip(slices, products, strict=True)
    ]


def _ordered(one: Slice, groups: Groups) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The units with those of a group together, and where each group begins."""
    chosen = np.arange(len(groups.variant)) if one.of is None else np.flatnonzero(one.of)
    code = groups.stretch.astype(np.int64) * (len(groups.variants) + 1) + groups.variant
    if isinstance(one.cell, Labels):
        code = one.cell.code * (int(code.max(initial=0)) + 1) + code
    code = code[chosen]
    if int(code.max(initial=0)) < 2**15:
        code = code.astype(np.int16)
    order = np.argsort(code, kind="stable")
    code = code[order]
    return chosen[order], np.flatnonzero(np.append(True, code[1:] != code[:-1])[: len(code)])


def _cell(cell: str | Labels, unit: int) -> str:
    return cell if isinstance(cell, str) else cell.names[cell.code[unit]]


def _text(
    product: Product | None, sums: dict[Product, list[int]], units: Sequence[int], group: int
) -> str:
    if product is None:
        return "0"
    return str(sums[product][group] if product else units[group])


@cache
def _factors() -> tuple[tuple[int, ...], ...]:
    """The variables that each column of sums multiplies; z · z is z, for z is 0 or 1."""
    names = Terms._fields
    return tuple(
        tuple(sorted(names.index(name) for name in column.split("_") if name != "z"))
        + ((names.index("z"),) if "z" in column.split("_") else ())
        for column in MOMENT_COLUMNS[LABELS + 1 :]
    )


def _products(terms: Terms, place: Callable[[NDArray[np.integer]], int]) -> list[Product | None]:
    """What each column of sums multiplies; None where that is 0 for all units."""
    products: list[Product | None] = []
    for factors in _factors():
        values = [terms[factor] for factor in factors]
        # Third moments of newness are those with values of now; the denominator may be 1 of all.
        past = [terms[factor] for factor in factors if factor in (2, 3)]
        is_third = len(factors) == 3 and 4 in factors
        is_nothing = is_third and any(not isinstance(value, int) for value in past)
        if is_nothing or any(isinstance(value, int) and value == 0 for value in values):
            products.append(None)
        else:
            of_units = (value for value in values if not isinstance(value, int))
            products.append(tuple(sorted(place(value) for value in of_units)))
    return products


def _too_large(slices: Sequence[Slice], groups: Groups) -> ExperimentError:
    """The error of the first metric whose own sums cannot be computed."""
    for one in slices:
        arrays = [value for value in one.terms if not isinstance(value, int)]
        cubes = [(place,) * 3 for place in range(len(arrays))]
        if exact_sums(arrays, cubes) is None:
            break
    what = f"metric {one.metric!r}: its sums cannot be computed: they are too large"
    return ExperimentError(what, _TOO_LARGE)
