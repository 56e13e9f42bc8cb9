"""Exact sums of products of whole numbers, over arrays of 64-bit integers.

`moment_pass.py` sums the values of units by it. A sum of products of three may need 160 bits, so
it is never computed at once: 64-bit arithmetic gives its remainder by 2^64, arithmetic of
remainders by primes 31 bits more for each, and doubles say which of the numbers with these
remainders it is.
"""

from collections.abc import Iterable, Iterator, Sequence

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

_ERROR = 2.0**-46
"""A sum in doubles of at most `_BLOCK` products is wrong by less than this share of their sizes.

Three conversions, two products and a sum in pairs of 2^14 terms are fewer than 128 roundings of
2^-53 each.
"""


def exact_sums(columns: Sequence[Whole], products: Iterable[Product]) -> dict[Product, int] | None:
    """The sum over all rows of each product of columns.

    Args:
        columns: Whole numbers, each of shape (rows,).
        products: What to sum.

    Returns:
        None where values are too large.

    Example:
        >>> exact_sums([np.full(3, 10**6), np.arange(3)], [(0, 0, 0), (0, 1)])
        {(0, 0, 0): 3000000000000000000, (0, 1): 3000000}
    """
    totals = dict.fromkeys(products, 0)
    for block in _blocks(columns):
        for product in totals:
            part = block.sum(product)
            if part is None:
                return None
            totals[product] += part
    return totals


def _blocks(columns: Sequence[Whole]) -> Iterator["_Block"]:
    rows = len(columns[0]) if columns else 0
    for start in range(0, rows, _BLOCK):
        yield _Block([column[start : start + _BLOCK] for column in columns])


class _Block:
    """Some rows of the columns, and the products of two that were computed so far."""

    def __init__(self, columns: Sequence[Whole]) -> None:
        self._columns = columns
        self._sizes = [max(abs(int(c.min())), abs(int(c.max()))) for c in columns]
        self._known: dict[tuple[Product, int], _Array] = {}

    def sum(self, product: Product) -> int | None:
        """The sum of a product; None where it needs more remainders than there are."""
        bound = len(self._columns[0])
        for place in product:
            bound *= self._sizes[place]
        remainder, modulus = int(self._multiplied(product, _WORD).sum()), _WORD
        if bound < _WORD // 2:
            return remainder
        for prime in _PRIMES:
            if bound * _ERROR < modulus // 4:
                break
            by_prime = int(self._multiplied(product, prime).sum())
            remainder += modulus * ((by_prime - remainder) * pow(modulus, -1, prime) % prime)
            modulus *= prime
        if bound * _ERROR >= modulus // 4:
            return None
        near = int(self._multiplied(product, 0).sum())
        return near + (remainder - near + modulus // 2) % modulus - modulus // 2

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
