"""Add up products of units' values exactly, and make moments of the sums."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Cell
from abeval.errors import ExperimentError
from abeval.logs.unit_arrays import Labels
from abeval.stats.moments import Moments

Whole = NDArray[np.int64]
_Array = NDArray[np.int64] | NDArray[np.float64]

Product = tuple[int, ...]
"""Places of the columns that are multiplied; one to three."""

_BLOCK = 1 << 14
"""Rows that are multiplied at once, so that their products stay in the processor's cache."""

_WORD = 1 << 64
_PRIMES = (2_147_483_647, 2_147_483_629)

_ERROR = 2.0**-38
"""A sum in doubles of at most `_BLOCK` products is wrong by less than this share of their sizes.

Three conversions, two products and 2^14 additions are fewer than 2^15 roundings of 2^-53 each.
"""


def exact_sums(
    columns: Sequence[NDArray[np.integer]],
    products: Iterable[Product],
    starts: Sequence[int] | NDArray[np.integer] = (0,),
    order: NDArray[np.intp] | None = None,
) -> dict[Product, list[int]] | None:
    """Return the sum over the rows of each group of each product of columns.

    Args:
        columns: Whole numbers, each of shape (rows,).
        products: What to sum.
        starts: The first row of each group, in order, the first one 0; no group is empty.
        order: Places of the rows, those of a group together; None where they are so already.

    Returns:
        Product → its sum in each group; None where values are too large.

    Example:
        >>> exact_sums([np.full(3, 10**6), np.arange(3)], [(0, 0, 0), (0, 1)], [0, 2])
        {(0, 0, 0): [2000000000000000000, 1000000000000000000], (0, 1): [1000000, 2000000]}
    """
    totals = {product: [0] * len(starts) for product in products}
    rows = 0 if not columns else len(columns[0] if order is None else order)
    first = np.asarray(starts, dtype=np.int64)
    for start in range(0, rows, _BLOCK):
        end = min(start + _BLOCK, rows)
        group = int(np.searchsorted(first, start, side="right")) - 1
        within = first[(first > start) & (first < end)] - start
        # No column is put in order as a whole, which would take as much memory again.
        own = slice(start, end) if order is None else order[start:end]
        columns_of = [column[own].astype(np.int64, copy=False) for column in columns]
        block = _Block(columns_of, np.append(0, within))
        for product, total in totals.items():
            sums = block.sums(product)
            if sums is None:
                return None
            for place, value in enumerate(sums, start=group):
                total[place] += value
    return totals


class _Block:
    """Some rows of the columns, and the products of two that were computed so far."""

    def __init__(self, columns: Sequence[Whole], starts: NDArray[np.int64]) -> None:
        self._columns = columns
        self._starts = starts
        self._sizes = [max(abs(int(c.min())), abs(int(c.max()))) for c in columns]
        self._known: dict[tuple[Product, int], _Array] = {}

    def sums(self, product: Product) -> list[int] | None:
        """Return the sums of a product; None where they need more remainders than there are."""
        bound = len(self._columns[0])
        for place in product:
            bound *= self._sizes[place]
        remainders = self._summed(product, _WORD)
        if bound < _WORD // 2:
            return remainders
        modulus = _WORD
        for prime in _PRIMES:
            if bound * _ERROR < modulus // 4:
                break
            factor = pow(modulus, -1, prime)
            remainders = [
                known + modulus * ((more - known) * factor % prime)
                for known, more in zip(remainders, self._summed(product, prime), strict=True)
            ]
            modulus *= prime
        if bound * _ERROR >= modulus // 4:
            return None
        half = modulus // 2
        return [
            near + (remainder - near + half) % modulus - half
            for remainder, near in zip(remainders, self._summed(product, 0), strict=True)
        ]

    def _summed(self, product: Product, modulus: int) -> list[int]:
        values = self._multiplied(product, modulus)
        return [int(one) for one in np.add.reduceat(values, self._starts)]

    def _multiplied(self, product: Product, modulus: int) -> _Array:
        """Return the product, by its remainders; in doubles where the modulus is 0."""
        known = self._known.get((product, modulus))
        if known is not None:
            return known
        if len(product) == 1:
            values = _converted(self._columns[product[0]], modulus)
        else:
            values = self._multiplied(product[:-1], modulus) * self._multiplied(
                product[-1:], modulus
            )
            if modulus in _PRIMES:
                values = values % modulus
        if len(product) < 3:
            self._known[product, modulus] = values
        return values


def _converted(column: Whole, modulus: int) -> _Array:
    if modulus == 0:
        return column.astype(np.float64)
    return column % modulus if modulus in _PRIMES else column


ByStretch = Sequence[Mapping[str, Moments]]
"""Variant → moments, in each stretch of entry days; a single one where the split did not change."""

VARIABLES = ("y", "x", "y0", "x0", "z")
"""Numerator, denominator, both before the period, and whether the unit is new in it."""

PRODUCTS = tuple(combinations_with_replacement(VARIABLES, 2))

THIRDS = tuple(
    triple for triple in combinations_with_replacement(VARIABLES, 3) if triple.count("z") < 2
)
"""Products of three, but for those that z · z = z makes products of two."""

MOMENT_COLUMNS = (
    "metric",
    "slice",
    "cell",
    "variant",
    "stretch",
    "units",
    *VARIABLES,
    *map("_".join, PRODUCTS),
    *map("_".join, THIRDS),
)

METRIC, SLICE, CELL = 0, 1, 2
"""Places of labels in a row of `MOMENT_COLUMNS`."""

LABELS = 5
"""So many of `MOMENT_COLUMNS` are labels; sums follow."""

WHOLE = "whole"
DAY = "day"
LEFT_OUT = "left_out"
CAPPED = "capped"
SEGMENT = "segment:"
LACKING = "lacking"
BALANCE = "balance"

COVARIATES = "covariates"
BUCKET = "bucket"
BUCKETS = 256
"""Sub-buckets are grouped into this many for resampling."""


Row = tuple[Cell, ...]
"""Of `MOMENT_COLUMNS`; sums are texts."""


class Group(NamedTuple):
    """Units of one variant that entered in one stretch."""

    variant: str
    stretch: int


BySlice = Mapping[tuple[str, str], Mapping[str, Mapping[Group, Row]]]
"""(metric, slice) → cell → group → row."""


def slices_of(rows: Iterable[Row]) -> BySlice:
    """Find rows by their labels."""
    slices: dict[tuple[str, str], dict[str, dict[Group, Row]]] = {}
    for row in rows:
        metric, name, cell, variant, stretch = map(str, row[:LABELS])
        groups = slices.setdefault((metric, name), {}).setdefault(cell, {})
        groups[Group(variant, int(stretch))] = row
    return slices


def total(row: Row, column: str) -> int:
    """Return a sum of a row."""
    return int(str(row[_PLACE[column]]))


_PLACE = {column: place for place, column in enumerate(MOMENT_COLUMNS)}


def by_stretch(
    rows: Mapping[Group, Row], stretches: int, scales: tuple[float, float], width: int
) -> list[dict[str, Moments]]:
    """Make moments of so many of (y, x, y0, x0, z), by stretch and variant."""
    moments: list[dict[str, Moments]] = [{} for _ in range(stretches)]
    for group, row in rows.items():
        moments[group.stretch][group.variant] = _moments(row, scales, width)
    return moments


def pooled(moments: ByStretch) -> dict[str, Moments]:
    """Variant → moments of the units of all stretches."""
    whole: dict[str, Moments] = {}
    for variants in moments:
        for name, one in variants.items():
            whole[name] = whole[name] + one if name in whole else one
    return whole


@cache
def _columns(width: int) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]:
    """Columns of the sums of some variables, of their products of two and of three."""
    names = VARIABLES[:width]
    pairs = {frozenset(pair): "_".join(pair) for pair in PRODUCTS}
    # z · z is z, for z is 0 or 1.
    thirds = ("_".join(triple) for triple in combinations_with_replacement(names, 3))
    return (
        names,
        [[pairs[frozenset((a, b))] for b in names] for a in names],
        [third.replace("z_z", "z").replace("z_z", "z") for third in thirds],
    )


def _moments(row: Row, scales: tuple[float, float], width: int) -> Moments:
    sums, products, thirds = _columns(width)
    has_thirds = row[_PLACE["y_y_y"]] is not None
    return Moments.from_sums(
        total(row, "units"),
        [total(row, name) for name in sums],
        [[total(row, name) for name in names] for names in products],
        (*scales, *scales, 1.0)[:width],
        [total(row, name) for name in thirds] if has_thirds else None,
    )


def joined(pairs: Mapping[tuple[int, int], Row], scales: Sequence[float]) -> Moments:
    """Make moments of y, x, every covariate and newness from those of pairs of covariates."""
    count = 1 + max(second for _, second in pairs)
    variables: list[str | int] = ["y", "x", *range(count), "z"]

    def of(*wanted: str | int) -> int:
        pair = next(p for p in pairs if {v for v in wanted if isinstance(v, int)} <= {*p})
        called = {pair[0]: "y0", pair[1]: "x0"}
        names = [called[v] if isinstance(v, int) else v for v in wanted]
        return total(pairs[pair], "_".join(sorted(names, key=VARIABLES.index)))

    return Moments.from_sums(
        total(next(iter(pairs.values())), "units"),
        [of(v) for v in variables],
        [[of(v, w) for w in variables] for v in variables],
        scales,
    )


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
    """One row of `MOMENT_COLUMNS` per label: the sum of sign × row.

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
    """Exact sums: rows of `MOMENT_COLUMNS`, in the order of the slices.

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
    """Return the rows of slices of the same units in the same cells."""
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
    """Return the units with those of a group together, and where each group begins."""
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
    """Return the variables that each column of sums multiplies; z · z is z, for z is 0 or 1."""
    names = Terms._fields
    return tuple(
        tuple(sorted(names.index(name) for name in column.split("_") if name != "z"))
        + ((names.index("z"),) if "z" in column.split("_") else ())
        for column in MOMENT_COLUMNS[LABELS + 1 :]
    )


def _products(terms: Terms, place: Callable[[NDArray[np.integer]], int]) -> list[Product | None]:
    """Return what each column of sums multiplies; None where that is 0 for all units."""
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
    """Return the error of the first metric whose own sums cannot be computed."""
    for one in slices:
        arrays = [value for value in one.terms if not isinstance(value, int)]
        cubes = [(place,) * 3 for place in range(len(arrays))]
        if exact_sums(arrays, cubes) is None:
            break
    what = f"metric {one.metric!r}: its sums cannot be computed: they are too large"
    return ExperimentError(what, _TOO_LARGE)
