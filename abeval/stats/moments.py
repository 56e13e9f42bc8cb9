"""Moments of several variables over units: sufficient statistics of nearly every test.

`aggregates/aggregates.py` and `time/day_sums.py` build them from exact sums; `inference/` and
`time/` hand them to the tests.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.arrays import Floats, finite
from abeval.stats.records import Refusal


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and centred co-moment of k variables over the units of one variant.

    By convention variable 0 is y (the value, or the numerator), variable 1 the denominator
    of a ratio, and covariates follow. Centred sums stay precise where Σx² − (Σx)²/n would
    lose digits (Chan, Golub and LeVeque 1983).

    Attributes:
        n: Number of units.
        mean: Means, shape (k,).
        comoment: Σ (x − mean)(x − mean)', shape (k, k).
        effective: So many units know the variance as well; n where None. Fewer, where units of
            small strata have large weights.

    Raises:
        Refusal: `not_finite` when a moment is infinite or NaN.

    Example:
        >>> m = Moments.of([1, 2, 3, 4], [2, 4, 6, 9])
        >>> m.n, m.mean.tolist(), m.covariance.round(3).tolist()
        (4, [2.5, 5.25], [[1.667, 3.833], [3.833, 8.917]])
    """

    n: int
    mean: Floats
    comoment: Floats
    effective: float | None = None

    def __post_init__(self) -> None:
        """Copy the arrays, check them and make them read-only."""
        mean = np.array(self.mean, dtype=np.float64)
        comoment = np.array(self.comoment, dtype=np.float64)
        if self.n < 0 or mean.ndim != 1 or comoment.shape != (mean.size, mean.size):
            raise ValueError(f"moments need n ≥ 0, (k,) and (k, k), got {self.n}, {comoment.shape}")
        if not (np.isfinite(mean).all() and np.isfinite(comoment).all()):
            raise Refusal("not_finite", "an infinite or missing value among the moments")
        mean.setflags(write=False)
        comoment.setflags(write=False)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "comoment", comoment)

    @classmethod
    def of(cls, *columns: ArrayLike) -> Moments:
        """Moments of arrays of equal length, one value per unit.

        Args:
            columns: k arrays of shape (n,); n may be 0.

        Raises:
            Refusal: `not_finite` for an infinite or missing value. For missing values choose
                `of_present` or `of_filled`.

        Example:
            >>> Moments.of([1e9, 1e9 + 1, 1e9 + 2]).covariance.tolist()
            [[1.0]]
        """
        return cls._of_finite(finite(_matrix(columns)))

    @classmethod
    def of_present(cls, *columns: ArrayLike) -> Moments:
        """Moments over the units where no column is NaN; n counts those units only.

        Example:
            >>> Moments.of_present([1.0, float("nan"), 3.0]).n
            2
        """
        data = _matrix(columns)
        return cls.of(*data[:, ~np.isnan(data).any(axis=0)])

    @classmethod
    def of_filled(cls, *columns: ArrayLike, fill: float = 0.0) -> Moments:
        """Moments with every NaN replaced by `fill` before summing.

        Example:
            >>> Moments.of_filled([1.0, float("nan"), 5.0]).mean.tolist()
            [2.0]
        """
        data = _matrix(columns)
        return cls.of(*np.where(np.isnan(data), fill, data))

    @classmethod
    def from_sums(
        cls,
        n: int,
        sums: Sequence[int],
        products: Sequence[Sequence[int]],
        scales: Sequence[float],
    ) -> Moments:
        """Moments from exact integer sums, as an engine returns them.

        Values are whole multiples of a scale, so the sums depend on neither threads nor
        order; n·Σxy − Σx·Σy is computed in integers, before any rounding.

        Args:
            n: Number of units.
            sums: Σx of each variable, k integers.
            products: Σxy of each pair, k × k integers, symmetric.
            scales: Unit of the integers of each variable, such as 1e-6.

        Raises:
            Refusal: `inconsistent` for sums that no data can have.
            TypeError: When a sum is not an integer.

        Example:
            >>> Moments.from_sums(3, [6], [[14]], [0.5]).covariance.tolist()
            [[0.25]]
        """
        n, totals = operator.index(n), [operator.index(total) for total in sums]
        step = np.asarray(scales, dtype=np.float64)
        if n == 0:
            return cls(0, np.zeros(len(totals)), np.zeros((len(totals), len(totals))))
        centred = [
            [n * operator.index(product) - a * b for product, b in zip(row, totals, strict=True)]
            for row, a in zip(products, totals, strict=True)
        ]
        if any(centred[i][i] < 0 for i in range(len(totals))):
            raise Refusal("inconsistent", "Σx² is smaller than (Σx)²/n: the sums do not agree")
        mean = np.array([total / n for total in totals])
        comoment = np.array([[value / n for value in row] for row in centred])
        shape = (len(totals), len(totals))
        return cls(n, mean * step, comoment.reshape(shape) * np.outer(step, step))

    @classmethod
    def _of_finite(cls, data: Floats) -> Moments:
        k, n = data.shape
        if n == 0:
            return cls(0, np.zeros(k), np.zeros((k, k)))
        with np.errstate(over="ignore", invalid="ignore"):
            # A constant column must have variance 0, though its mean may round away from it.
            constant = data.min(axis=1) == data.max(axis=1)
            mean = np.where(constant, data[:, 0], data.mean(axis=1))
            centred = data - mean[:, None]
            # Second-pass correction of the rounding of the mean (Chan, Golub, LeVeque 1983).
            remainder = centred.sum(axis=1)
            comoment = centred @ centred.T - np.outer(remainder, remainder) / n
        return cls(n, mean, comoment)

    @property
    def covariance(self) -> Floats:
        """Sample covariance between units, divisor n − 1, shape (k, k).

        Raises:
            Refusal: `too_few_units` below two units.
        """
        if self.n < 2:
            raise Refusal("too_few_units", f"a variance needs at least two units, got {self.n}")
        return self.comoment / (self.n - 1)

    @property
    def df(self) -> float:
        """Degrees of freedom of `covariance`.

        Example:
            >>> Moments.of([1, 2, 3]).df
            2.0
        """
        return (self.n if self.effective is None else self.effective) - 1.0

    def merge(self, other: Moments) -> Moments:
        """Moments of two disjoint sets of units together (Chan, Golub and LeVeque 1983).

        Example:
            >>> whole = Moments.of([1, 2]).merge(Moments.of([3, 4]))
            >>> whole.n, whole.mean.tolist(), whole.comoment.tolist()
            (4, [2.5], [[5.0]])
        """
        if other.mean.size != self.mean.size:
            raise ValueError(f"cannot merge {self.mean.size} with {other.mean.size} variables")
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n, both = self.n + other.n, (self.effective, other.effective)
        effective = None if both == (None, None) else self.df + other.df + 2
        with np.errstate(over="ignore", invalid="ignore"):
            step = other.mean - self.mean
            between = np.outer(step, step) * (self.n * (other.n / n))
            return Moments(
                n,
                self.mean + step * (other.n / n),
                self.comoment + other.comoment + between,
                effective,
            )

    __add__ = merge

    def pick(self, *indices: int) -> Moments:
        """Moments of the variables at these indices, in their order.

        Example:
            >>> Moments.of([1, 2], [5, 7]).pick(1).mean.tolist()
            [6.0]
        """
        chosen = list(indices)
        comoment = self.comoment[np.ix_(chosen, chosen)]
        return Moments(self.n, self.mean[chosen], comoment, self.effective)


def _matrix(columns: Sequence[ArrayLike]) -> Floats:
    """Columns as one (k, n) array of doubles."""
    if not columns:
        raise ValueError("moments need at least one variable")
    data = np.array([np.asarray(column, dtype=np.float64) for column in columns])
    if data.ndim != 2:
        raise ValueError("columns must be one-dimensional and of equal length")
    return data
