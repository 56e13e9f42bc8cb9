"""Exact sums of products of whole numbers by group, over arrays of 64-bit integers.

`unit_sums.py` sums the values of units by it. A sum of products of three may need 160 bits, so it
is never computed at once: 64-bit arithmetic gives its remainder by 2^64, arithmetic of remainders
by primes 31 bits more for each, and doubles say which of the numbers with these remainders it is.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

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
    """The sum over the rows of each group of each product of columns.

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
        """The sums of a product; None where they need more remainders than there are."""
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
        """The product, by its remainders; in doubles where the modulus is 0."""
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
