"""Sum products over units exactly, and make moments of the sums."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial, reduce
from itertools import chain, combinations_with_replacement
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from abeval.errors import ExperimentError
from abeval.logs.unit_arrays import Integers, Labels, run_numbers, run_starts, sum_runs
from abeval.stats.moments import Moments, are_heavy

_Product = tuple[int, ...]
"""Indices of the one to three columns that are multiplied."""

_BLOCK = 1 << 16
"""Rows to multiply at once, so that products stay in the processor's cache."""

_CELLS = 1 << 20
"""Rows times columns of a block whose every two columns are multiplied."""

_WORD = 1 << 63
"""Sums below this fit into a signed 64-bit integer."""

_FEW = 8
"""Columns of which integers multiply as fast as doubles."""

_WHOLE = 1 << 53
"""Whole numbers below this are exact in doubles."""

_MOST = 1 << 162
"""Limit of sums of products: nothing that is measured has so many steps."""


def sum_products_exactly(
    columns: Sequence[NDArray[np.integer]],
    products: Iterable[_Product],
    starts: Sequence[int] | NDArray[np.integer] = (0,),
    order: NDArray[np.intp] | None = None,
) -> dict[_Product, list[int]]:
    """Add up each product of columns over the rows of each group, exactly.

    Args:
        columns: Whole numbers, each of shape (rows,).
        products: What to sum.
        starts: The first row of each group, in order, the first one 0; no group is empty.
        order: Indices of the rows, those of a group together; None where they are so already.

    Raises:
        OverflowError: Values are too large.

    Example:
        >>> sum_products_exactly([np.full(3, 10**6), np.arange(3)], [(0, 0, 0), (0, 1)], [0, 2])
        {(0, 0, 0): [2000000000000000000, 1000000000000000000], (0, 1): [1000000, 2000000]}
    """
    totals = {product: np.zeros(len(starts), dtype=object) for product in products}
    rows = 0 if not columns else len(columns[0] if order is None else order)
    first = np.asarray(starts, dtype=np.int64)
    for start in range(0, rows, _BLOCK):
        end = min(start + _BLOCK, rows)
        group, last = np.searchsorted(first, [start, end - 1], side="right") - 1
        begins = np.append(0, first[group + 1 : last + 1] - start)
        # No column is put in order as a whole, which would take as much memory again.
        chosen = slice(start, end) if order is None else order[start:end]
        block = [_measure(column[chosen].astype(np.int64, copy=False)) for column in columns]
        for product, total in totals.items():
            add = partial(_add_products, starts=begins)
            factors = [block[index] for index in product]
            # A group may begin in one block and end in another.
            total[group : last + 1] += _add_exactly(add, factors, end - start)
    return {product: total.tolist() for product, total in totals.items()}


def sum_gram_exactly(columns: Sequence[NDArray[np.integer]]) -> NDArray[np.object_]:
    """Add up the product of every two columns exactly, shape (columns, columns).

    Example:
        >>> sum_gram_exactly([np.full(3, 10**12), np.arange(3)]).tolist()
        [[3000000000000000000000000, 3000000000000], [3000000000000, 5]]
    """
    gram = np.zeros((len(columns), len(columns)), dtype=object)
    rows = max(1, _CELLS // len(columns))
    for start in range(0, len(columns[0]), rows):
        block = np.stack([column[start : start + rows] for column in columns], dtype=np.int64)
        factor = _measure(block)
        if len(columns) > _FEW:
            gram += _multiply_digits(*factor)
        else:
            gram += _add_exactly(partial(np.einsum, "in,jn->ij"), [factor, factor], block.shape[1])
    return gram


def _multiply_digits(block: Integers, most: int) -> NDArray[np.object_]:
    """Add up the product of every two rows of a block exactly, none above `most`."""
    # Doubles multiply faster, and exactly as long as sums stay below 2^53: larger values are split
    # into digits of so many bits.
    bits = (_WHOLE.bit_length() - 2 - block.shape[1].bit_length()) // 2
    digits, size = max(1, -(-most.bit_length() // bits)), len(block)
    lower = [(block >> bits * i) & ((1 << bits) - 1) for i in range(digits - 1)]
    doubles = np.concatenate([*lower, block >> bits * (digits - 1)]).astype(np.float64)
    products = (doubles @ doubles.T).astype(np.int64).reshape(digits, size, digits, size)
    gram = np.zeros((size, size), dtype=object)
    for power in range(2 * digits - 1):
        pairs = [(i, power - i) for i in range(digits) if 0 <= power - i < digits]
        total = np.sum([products[i, :, j] for i, j in pairs], axis=0)
        gram += total.astype(object) << bits * power
    return gram


_Factor = tuple[Integers, int]
"""Whole numbers, and a size that none of them exceeds."""


def _measure(values: Integers) -> _Factor:
    return values, max(abs(int(values.min())), abs(int(values.max())))


def _add_products(*factors: Integers, starts: Integers) -> Integers:
    """Add up the product of factors by group."""
    return np.add.reduceat(reduce(np.multiply, factors), starts)


def _add_exactly(
    add: Callable[..., NDArray[Any]], factors: list[_Factor], terms: int
) -> NDArray[Any]:
    """Add up so many products of factors exactly."""
    most = terms * math.prod(size for _, size in factors)
    if most < _WORD:
        sums: NDArray[Any] = add(*(values for values, _ in factors))
        return sums
    if most > _MOST:
        raise OverflowError("the sums of products are too large")
    # Sums may not fit 64 bits: the largest factor is split into two halves of its bits.
    parts = [*factors]
    largest = max(range(len(parts)), key=lambda i: parts[i][1])
    values, size = parts[largest]
    bits = size.bit_length() // 2
    # One half after the other, as both would leave the processor's cache.
    parts[largest] = values & (1 << bits) - 1, 1 << bits
    sums = _add_exactly(add, parts, terms).astype(object)
    parts[largest] = values >> bits, (size >> bits) + 1
    sums += _add_exactly(add, parts, terms).astype(object) * (1 << bits)
    return sums


MomentsByPeriod = Sequence[Mapping[str, Moments]]
"""Variant → moments, in each split period; a single one where the split did not change."""

VARIABLES = ("y", "x", "y0", "x0", "z")
"""Numerator, denominator, both before the period, and whether the unit is new in it."""

_PRODUCTS = tuple(combinations_with_replacement(VARIABLES, 2))

_THIRDS = tuple(
    triple for triple in combinations_with_replacement(VARIABLES, 3) if triple.count("z") < 2
)
"""Products of three variables that do not follow from z · z = z."""

_SUMMED: Sequence[tuple[str, ...]] = [*((name,) for name in VARIABLES), *_PRODUCTS, *_THIRDS]

SUM_NAMES = (*map("_".join, _SUMMED),)
"""Names of `SumsRow.sums` in order: variables, products of two and of three."""

WHOLE = "whole"
DAY = "day"
LEFT_OUT = "left_out"
CAPPED = "capped"
SEGMENT = "segment:"
OUTSIDE = ""
"""Cell of a segment that is another experiment: units that are not in it."""

BALANCE = "balance"
KNOWN = "known"
UNEXPOSED = "unexposed"
NEVER_EXPOSED, EXPOSED_LATER = "never", "later"
"""Cells of `UNEXPOSED`: units never exposed, and rows of others before their exposure."""

BUCKET = "bucket"
BUCKETS = 256
"""Number of groups of sub-buckets for resampling."""


class Group(NamedTuple):
    """Identify units of one variant that entered in one split period."""

    variant: str
    split_period: int


class SumsRow(NamedTuple):
    """Hold exact sums of a metric over the units of a group in a cell of a slice.

    Attributes:
        units: How many there are.
        sums: Of `SUM_NAMES`; None where nobody knows them.
        heavy: y, x, y0, x0 and z of each heavy unit.
    """

    metric: str
    slice: str
    cell: str
    group: Group
    units: int
    sums: Sequence[int | None]
    heavy: Sequence[Sequence[int]] = ()

    def sum(self, *variables: str) -> int:
        """Return the sum of a product of up to three variables; it must be known."""
        value = self.sums[_sum_index(*variables)]
        if value is None:
            raise ValueError(f"the sum of {' · '.join(variables)} is not known")
        return value


RowsBySlice = Mapping[tuple[str, str], Mapping[str, Mapping[Group, SumsRow]]]
"""(metric, slice) → cell → group → row."""


def index_rows(rows: Iterable[SumsRow]) -> RowsBySlice:
    """Index rows by their labels."""
    slices: dict[tuple[str, str], dict[str, dict[Group, SumsRow]]] = {}
    for row in rows:
        slices.setdefault((row.metric, row.slice), {}).setdefault(row.cell, {})[row.group] = row
    return slices


@cache
def _sum_index(*variables: str) -> int:
    name = "_".join(sorted(variables, key=VARIABLES.index))
    if len(variables) == 3:
        # z · z is z, for z is 0 or 1.
        name = name.replace("z_z", "z").replace("z_z", "z")
    return SUM_NAMES.index(name)


def make_moments_by_period(
    rows: Mapping[Group, SumsRow], split_periods: int, scales: tuple[float, float], width: int
) -> list[dict[str, Moments]]:
    """Make moments of the first `width` variables, by split period and variant."""
    moments: list[dict[str, Moments]] = [{} for _ in range(split_periods)]
    for group, row in rows.items():
        moments[group.split_period][group.variant] = _make_moments(row, scales, width)
    return moments


def map_moments(moments: MomentsByPeriod, change: Callable[[Moments], Moments]) -> MomentsByPeriod:
    """Change the moments of every variant in every split period."""
    return [
        {name: change(variant_moments) for name, variant_moments in by_variant.items()}
        for by_variant in moments
    ]


def pool_moments(moments: MomentsByPeriod) -> dict[str, Moments]:
    """Pool the moments of all split periods, by variant."""
    totals: dict[str, Moments] = {}
    for variants in moments:
        for name, period_moments in variants.items():
            totals[name] = totals[name] + period_moments if name in totals else period_moments
    return totals


def _make_moments(row: SumsRow, scales: tuple[float, float], width: int) -> Moments:
    pairs, triples = _index_products(width)
    has_thirds = row.sums[triples[0]] is not None
    # Third moments alone may be unknown.
    values = cast(Sequence[int], row.sums)
    return Moments.from_sums(
        row.units,
        values[:width],
        [[values[index] for index in of_first] for of_first in pairs],
        (*scales, *scales, 1.0)[:width],
        [values[index] for index in triples] if has_thirds else None,
        [heavy[:width] for heavy in row.heavy],
    )


@cache
def _index_products(width: int) -> tuple[list[list[int]], list[int]]:
    """Find products of two and of three of the first variables among `SumsRow.sums`."""
    names = VARIABLES[:width]
    pairs = [[_sum_index(first, second) for second in names] for first in names]
    return pairs, [_sum_index(*triple) for triple in combinations_with_replacement(names, 3)]


Variable = int | NDArray[np.integer]
"""Values of units; an integer 0 or 1 stands for all of them."""

_TOO_LARGE = (
    "sums of squares must stay below 1e38 steps of `resolution` (1e-6 by default): divide the "
    "value, or set a coarser resolution"
)


class Terms(NamedTuple):
    """Hold the whole numbers that are summed over units.

    Each entry has shape (units,), or is one number for all units.

    Attributes:
        y: The numerator.
        x: The denominator; 1 for a mean per unit.
        y0: The numerator before the period.
        x0: The denominator before the period.
        z: 1 of a unit that was not seen before the period, else 0.
    """

    y: Variable
    x: Variable = 1
    y0: Variable = 0
    x0: Variable = 0
    z: Variable = 0


class Slice(NamedTuple):
    """Define what a metric sums in a slice: one cell of all units, or that of each.

    `mask` says which units are summed; None for all.
    """

    metric: str
    name: str
    terms: Terms
    cell: str | Labels = ""
    mask: NDArray[np.bool_] | None = None

    def cells(self, units: NDArray[np.intp]) -> list[str]:
        """Return the cell of each of some units."""
        if isinstance(self.cell, str):
            return [self.cell] * len(units)
        return [self.cell.names[code] for code in self.cell.code[units].tolist()]


class UnitGroups(NamedTuple):
    """Hold variant and split period of each unit.

    For cluster-randomised tests, sum over cluster totals; `units` then counts clusters.
    """

    variant: NDArray[np.integer]
    split_period: NDArray[np.integer]
    variants: Sequence[str]
    cluster: NDArray[np.integer] | None = None


def sum_slices(slices: Sequence[Slice], groups: UnitGroups) -> list[SumsRow]:
    """Sum slices exactly, and return rows in the order of the slices.

    Raises:
        ExperimentError: The values of a metric are too large.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for number, metric_slice in enumerate(slices):
        # Slices of the same cells and units are sorted by group only once.
        cell = id(metric_slice.cell.code) if isinstance(metric_slice.cell, Labels) else 0
        alike.setdefault((cell, id(metric_slice.mask)), []).append(number)
    rows: list[list[SumsRow]] = [[] for _ in slices]
    for numbers in alike.values():
        of_alike = _sum_alike([slices[number] for number in numbers], groups)
        for number, slice_rows in zip(numbers, of_alike, strict=True):
            rows[number] = slice_rows
    return [*chain(*rows)]


def compute_moments(
    values: Sequence[Variable],
    scales: Sequence[float],
    groups: UnitGroups,
    chosen: NDArray[np.bool_] | None,
) -> dict[Group, Moments]:
    """Compute moments of values of chosen units by group."""
    order, starts = _order_units(Slice("", WHOLE, Terms(0), mask=chosen), groups)
    first = order[starts]
    if groups.cluster is not None:
        total, order, starts = _total_clusters(groups.cluster, order, starts)
        values = [*map(total, values[:-1]), 0]
    ordered = (value if isinstance(value, int) else value[order] for value in values)
    columns = np.stack([np.broadcast_to(value, len(order)) for value in ordered])
    moments = dict[Group, Moments]()
    for unit, group_columns in zip(
        first.tolist(), np.split(columns, starts[1:], axis=1), strict=True
    ):
        # The column of ones makes the first row counts and sums.
        (n, *totals), *products = sum_gram_exactly(
            [np.ones_like(group_columns[0]), *group_columns]
        ).tolist()
        rows = []
        if not isinstance(values[1], int):
            heavy = are_heavy(group_columns[1].astype(np.float64), n, float(totals[1]))
            rows = group_columns[:, heavy].T.tolist()
        group = Group(groups.variants[groups.variant[unit]], int(groups.split_period[unit]))
        squares = [row[1:] for row in products]
        moments[group] = Moments.from_sums(n, totals, squares, scales, heavy=rows)
    return moments


def _sum_alike(slices: Sequence[Slice], groups: UnitGroups) -> list[list[SumsRow]]:
    """Sum slices that share their units and cells."""
    order, starts = _order_units(slices[0], groups)
    first_units = order[starts]
    columns: dict[int, int] = {}
    arrays: list[NDArray[np.integer]] = []

    def add_column(values: NDArray[np.integer]) -> int:
        # Arrays that several metrics share are summed once.
        if id(values) not in columns:
            columns[id(values)] = len(arrays)
            arrays.append(values)
        return columns[id(values)]

    terms = [item.terms for item in slices]
    if groups.cluster is not None:
        total, order, starts = _total_clusters(groups.cluster, order, starts)
        # Newness is of a unit: clusters were all there before.
        terms = [Terms(*map(total, item[:4])) for item in terms]
    products = [_list_products(item, add_column) for item in terms]
    distinct_products = dict.fromkeys(p for of_slice in products for p in of_slice if p)
    try:
        sums = sum_products_exactly(arrays, distinct_products, starts, order)
    except OverflowError as error:
        what = (
            f"metric {max(slices, key=_find_largest_size).metric!r}: its sums cannot be computed: "
        )
        raise ExperimentError(f"{what}they are too large", _TOO_LARGE) from error
    units = np.diff(starts, append=len(order)).tolist()
    zero: list[int] = [0] * len(units)
    totals = dict[_Product | None, list[int]](sums.items())
    # None is a product that is 0 for all units, () one that is 1.
    totals |= {None: zero, (): units}
    variants = [groups.variants[variant] for variant in groups.variant[first_units].tolist()]
    labels = [*map(Group, variants, groups.split_period[first_units].tolist())]
    below = {id(item.x): item.x for item in terms}
    heavy_indices = {key: _find_heavy_indices(x, order, starts) for key, x in below.items()}
    rows = list[list[SumsRow]]()
    for item, factors, values in zip(slices, products, terms, strict=True):
        of_groups = zip(*(totals[factor] for factor in factors), strict=True)
        heavy = _list_heavy_values(values, heavy_indices[id(values.x)])
        row_fields = zip(item.cells(first_units), labels, units, of_groups, heavy, strict=True)
        rows.append([SumsRow(item.metric, item.name, *row) for row in row_fields])
    return rows


def _find_heavy_indices(
    x: Variable, order: NDArray[np.intp], starts: NDArray[np.intp]
) -> list[NDArray[np.intp]]:
    """Find the heavy units of each group, by the denominator; none of a mean."""
    if isinstance(x, int):
        return [order[:0]] * len(starts)
    sizes = np.abs(x[order].astype(np.float64))
    totals = np.add.reduceat(sizes, starts) if len(starts) else sizes
    ends = np.append(starts, len(order))[1:]
    return [
        order[start:end][are_heavy(sizes[start:end], end - start, total)]
        for start, end, total in zip(starts.tolist(), ends.tolist(), totals.tolist(), strict=True)
    ]


def _list_heavy_values(terms: Terms, indices: Sequence[NDArray[np.intp]]) -> list[list[list[int]]]:
    """Return y, x, y0, x0 and z of the heavy units of each group."""

    def values(units: NDArray[np.intp]) -> list[list[int]]:
        columns = (value if isinstance(value, int) else value[units] for value in terms)
        table = np.stack([np.broadcast_to(column, units.shape) for column in columns], axis=1)
        rows: list[list[int]] = table.tolist()
        return rows

    return [values(units) if len(units) else [] for units in indices]


def _total_clusters(
    cluster: NDArray[np.integer], order: NDArray[np.intp], starts: NDArray[np.intp]
) -> tuple[Callable[[Variable], Variable], NDArray[np.intp], NDArray[np.intp]]:
    """Return a function that sums values by cluster, and the groups of clusters."""
    group = run_numbers(starts, len(order))
    order = order[np.lexsort((cluster[order], group))]
    first = run_starts(np.stack([group, cluster[order]], axis=1))
    totals: dict[int, Variable] = {0: 0, 1: np.diff(first, append=len(order))}

    def total(value: Variable) -> Variable:
        key = value if isinstance(value, int) else id(value)
        if key not in totals:
            totals[key] = sum_runs(np.asarray(value)[order], first)
        return totals[key]

    return total, np.arange(len(first)), np.searchsorted(first, starts)


def _order_units(
    metric_slice: Slice, groups: UnitGroups
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order units by group, and find where each group begins."""
    chosen = (
        np.arange(len(groups.variant))
        if metric_slice.mask is None
        else np.flatnonzero(metric_slice.mask)
    )
    code = groups.split_period.astype(np.int64) * (len(groups.variants) + 1) + groups.variant
    if isinstance(metric_slice.cell, Labels):
        code = metric_slice.cell.code * (int(code.max(initial=0)) + 1) + code
    code = code[chosen]
    if int(code.max(initial=0)) < 2**15:
        # NumPy has a radix sort for numbers of 16 bits.
        code = code.astype(np.int16)
    order = np.argsort(code, kind="stable")
    return chosen[order], run_starts(code[order])


def _list_products(
    terms: Terms, add_column: Callable[[NDArray[np.integer]], int]
) -> list[_Product | None]:
    """Return the product of each column of sums; None if 0 for all units."""
    products: list[_Product | None] = []
    for names in _SUMMED:
        # z · z is z, for z is 0 or 1.
        values = {name: getattr(terms, name) for name in names}
        factors = [values[name] for name in (names if names != ("z", "z") else ("z",))]
        # Third moments of newness are those with values of now; the denominator may be 1 of all.
        past = [values[name] for name in ("y0", "x0") if name in values]
        is_third = len(names) == 3 and "z" in names
        is_nothing = is_third and any(not isinstance(value, int) for value in past)
        if is_nothing or any(isinstance(value, int) and value == 0 for value in factors):
            products.append(None)
        else:
            of_units = (value for value in factors if not isinstance(value, int))
            products.append(tuple(sorted(add_column(value) for value in of_units)))
    return products


def _find_largest_size(metric_slice: Slice) -> int:
    """Return the largest size of a value."""
    arrays = (value for value in metric_slice.terms if not isinstance(value, int) and len(value))
    return max((_measure(values.astype(np.int64))[1] for values in arrays), default=0)
