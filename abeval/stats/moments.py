"""Keep moments over units, the sufficient statistics of most tests."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations_with_replacement, permutations

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.effects import satterthwaite
from abeval.stats.records import Bools, Floats, Integers, Refusal, check_finite

HEAVY = 0.01
"""A unit that holds more than this share of a denominator is heavy."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and centred co-moment of k variables over units.

    By convention variable 0 is y (the value, or the numerator), variable 1 the denominator of a
    ratio, and covariates follow. Centred sums stay precise where Σx² − (Σx)²/n would lose digits
    (Chan, Golub and LeVeque 1983). Refusals: `not_finite` when a moment is infinite or NaN.

    Attributes:
        mean: Means, shape (k,).
        comoment: Σ (x − mean)(x − mean)', shape (k, k).
        effective: Number of units that would estimate the variance as precisely; n if None. It is
            below n if units of small strata have large weights.
        third: Σ of the products of three centred variables, shape (k, k, k). The skewness of any
            weighted sum of the variables follows from it. None if not known.
        heavy: Centred variables of the units that hold more than `HEAVY` of variable 1, or of all
            units if they are few, shape (heavy, k). Empty if single units are not known.

    Example:
        >>> m = Moments.of([1, 2, 3, 4], [2, 4, 6, 9])
        >>> m.n, m.mean.tolist(), m.covariance.round(3).tolist()
        (4, [2.5, 5.25], [[1.667, 3.833], [3.833, 8.917]])
    """

    n: int
    mean: Floats
    comoment: Floats
    effective: float | None = None
    third: Floats | None = None
    heavy: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        """Copy the arrays, check them and make them read-only."""
        k, heavy = np.size(self.mean), self.heavy
        wanted = {
            "mean": (self.mean, (k,)),
            "comoment": (self.comoment, (k, k)),
            "third": (self.third, (k, k, k)),
            "heavy": (heavy if len(heavy) else np.zeros((0, k)), (len(heavy), k)),
        }
        for name, (given, shape) in wanted.items():
            if given is None:
                continue
            values = np.array(given, dtype=np.float64)
            if self.n < 0 or values.shape != shape:
                raise ValueError(f"moments need n ≥ 0 and a {name} of {shape}, got {values.shape}")
            check_finite(values, "an infinite or missing value among the moments")
            values.setflags(write=False)
            self.__dict__[name] = values

    @classmethod
    def of(cls, *columns: ArrayLike, below: Sequence[int] = (1,)) -> Moments:
        """Take moments of arrays of equal length, one value per unit.

        Refusals: `not_finite` for an infinite or missing value.

        Args:
            columns: k arrays of shape (n,); n may be 0.
            below: Positions of the columns that are denominators; positions beyond k are ignored.

        Example:
            >>> Moments.of([1e9, 1e9 + 1, 1e9 + 2]).covariance.tolist()
            [[1.0]]
        """
        data = check_finite(_stack_columns(columns))
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
            kept = np.zeros(n, dtype=np.bool_)
            for values in (np.abs(data[index]) for index in below if index < k):
                kept |= are_heavy(values, n, float(values.sum()))
        return cls(n, mean, comoment, heavy=centred.T[kept])

    @classmethod
    def build_with_third(cls, *columns: ArrayLike) -> Moments:
        """Take moments as `of`, with the third ones, which tests of skewed values need.

        Example:
            >>> Moments.build_with_third([0, 0, 0, 4]).third.tolist()
            [[[24.0]]]
        """
        moments = cls.of(*columns)
        centred = _stack_columns(columns) - moments.mean[:, None]
        third = np.einsum("in,jn,kn->ijk", centred, centred, centred, optimize=True)
        return replace(moments, third=third)

    @classmethod
    def from_sums(
        cls,
        n: int,
        sums: Sequence[int],
        products: Sequence[Sequence[int]],
        scales: Sequence[float],
        triples: Sequence[int] | None = None,
        heavy: Sequence[Sequence[int]] = (),
    ) -> Moments:
        """Take moments from exact integer sums, as an engine returns them.

        Values are whole multiples of a scale, so the sums depend on neither threads nor order;
        n·Σxy − Σx·Σy is computed in integers, before any rounding. There are sums of k variables
        and k × k products. `scales` has the value of the integer 1 for each variable, such as 1e-6.
        `triples` are Σxyz in the order of `itertools.combinations_with_replacement`. `heavy` has
        the values of each heavy unit.

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
            k = len(totals)
            third = None if triples is None else np.zeros((k, k, k))
            return cls(0, np.zeros(k), np.zeros((k, k)), third=third)
        centred = [
            [n * operator.index(product) - a * b for product, b in zip(row, totals, strict=True)]
            for row, a in zip(products, totals, strict=True)
        ]
        if any(centred[i][i] < 0 for i in range(len(totals))):
            raise Refusal("inconsistent", "Σx² is smaller than (Σx)²/n: the sums do not agree")
        mean = np.array([total / n for total in totals])
        comoment = np.array([[value / n for value in row] for row in centred])
        # Their order is that of their values, as sums do not depend on it either.
        rows = np.array(sorted(map(tuple, heavy)), dtype=np.float64).reshape(-1, len(totals))
        if len(rows):
            rows = rows[are_heavy(rows[:, 1], n, totals[1])]
        third = None
        if triples is not None:
            counted = _centre_thirds(n, totals, products, triples)
            third = counted * step[:, None, None] * step[:, None] * step
        comoment = comoment.reshape(len(totals), len(totals)) * step[:, None] * step
        return cls(n, mean * step, comoment, third=third, heavy=(rows - mean) * step)

    @property
    def covariance(self) -> Floats:
        """Return sample covariance between units, divisor n − 1, shape (k, k).

        Refusals: `too_few_units` below two units.
        """
        if self.n < 2:
            raise Refusal("too_few_units", f"a variance needs at least two units, got {self.n}")
        return self.comoment / (self.n - 1)

    @property
    def df(self) -> float:
        """Return degrees of freedom of `covariance`.

        Example:
            >>> Moments.of([1, 2, 3]).df
            2.0
        """
        return (self.n if self.effective is None else self.effective) - 1.0

    @property
    def largest(self) -> float:
        """Return the share of variable 1 that one unit holds, 0 if none is heavy.

        Example:
            >>> Moments.of([1, 2, 1], [1, 2, 5]).largest
            0.625
        """
        if not len(self.heavy) or self.mean.size < 2 or self.mean[1] == 0:
            return 0.0
        return float(np.max(np.abs(self.heavy[:, 1] / self.mean[1] + 1))) / self.n

    def merge(self, *others: Moments) -> Moments:
        """Merge moments of disjoint sets of units (Chan, Golub and LeVeque 1983).

        Third moments are those of Pébay (2008); None if those of one set are not known.

        Example:
            >>> whole = Moments.of([1, 2]).merge(Moments.of([3, 4]))
            >>> whole.n, whole.mean.tolist(), whole.comoment.tolist()
            (4, [2.5], [[5.0]])
        """
        if any(other.mean.size != self.mean.size for other in others):
            raise ValueError(f"cannot merge others with moments of {self.mean.size} variables")
        sets = [moments for moments in (self, *others) if moments.n]
        if len(sets) < 2:
            return sets[0] if sets else self
        n = sum(moments.n for moments in sets)
        units = np.array([[moments.n] for moments in sets], dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            # From the first mean, so that equal means are so exactly.
            steps = np.stack([moments.mean - sets[0].mean for moments in sets])
            shift = (units / n * steps).sum(axis=0)
            steps, mean = steps - shift, sets[0].mean + shift
            # What varies within the sets, and between them.
            comoment = sum(moments.comoment for moments in sets) + (units * steps).T @ steps
            is_plain = all(moments.effective is None for moments in sets)
            return Moments(
                n,
                mean,
                comoment,
                None if is_plain else sum(moments.df + 1 for moments in sets),
                _merge_thirds(sets, steps),
                _merge_heavy(sets, steps, mean, n),
            )

    __add__ = merge

    def drop_third(self) -> Moments:
        """Drop the third moments, which most tests do not need."""
        return self.copy(third=None)

    def copy(self, **values: object) -> Moments:
        """Copy with other values that need no check."""
        copy = object.__new__(Moments)
        copy.__dict__.update(self.__dict__, **values)
        return copy

    def shift(self, *steps: float) -> Moments:
        """Add a constant to each of the first variables, of every unit.

        Example:
            >>> Moments.of([1, 2], [5, 7]).shift(3).mean.tolist()
            [4.5, 6.0]
        """
        mean = self.mean.copy()
        mean[: len(steps)] += steps
        return self.copy(mean=mean)

    def pick(self, *indices: int) -> Moments:
        """Pick the variables at these indices, in their order.

        Example:
            >>> Moments.of([1, 2], [5, 7]).pick(1).mean.tolist()
            [6.0]
        """
        if indices == tuple(range(self.mean.size)):
            return self
        chosen = np.array(indices, dtype=np.intp)
        rows = chosen[:, None]
        return self.copy(
            mean=self.mean[chosen],
            comoment=self.comoment[rows, chosen],
            third=None if self.third is None else self.third[rows[:, None], rows, chosen],
            heavy=self.heavy[:, chosen],
        )


def are_heavy(values: Floats, units: int, total: float) -> Bools:
    """Tell which units hold much of a total; all if units are few.

    Example:
        >>> are_heavy(np.array([5.0, 1.0]), 200, 200.0).tolist()
        [True, False]
    """
    return np.asarray(np.abs(values) > HEAVY * abs(total)) | (units * HEAVY <= 1)


def weigh_strata(strata: Sequence[Moments], shares: Sequence[float]) -> Moments:
    """Combine strata with weights `shares` (post-stratification).

    Source: Miratrix, Sekhon & Yu (2013).

    The mean is the weighted mean, and `covariance / n` is the covariance of that mean, so every
    test on moments becomes post-stratified. Without strata, an experiment with a changing split
    compares early units with late ones (Simpson's paradox). The degrees of freedom are
    Satterthwaite's, for variable 0. Shares sum to 1, and are the same in all variants. Refusals:
    `too_few_units` for a stratum of fewer than two units.

    Example:
        >>> both = weigh_strata([Moments.of([1, 1]), Moments.of([5, 5, 5, 5])], [0.5, 0.5])
        >>> both.mean.tolist(), both.n
        ([3.0], 6)
    """
    n = sum(moments.n for moments in strata)
    mean = sum(share * m.mean for share, m in zip(shares, strata, strict=True))
    pairs = zip(shares, strata, strict=True)
    parts = [share**2 * m.covariance / m.n for share, m in pairs]
    terms, dfs = [float(part[0, 0]) for part in parts], [m.df for m in strata]
    effective = satterthwaite(terms, dfs) + 1 if sum(terms) > 0 else None
    # A unit of a stratum deviates by what it adds to the co-moment, as one of them all does.
    heavy = [
        m.heavy * share * math.sqrt(n * (n - 1) / (m.n * (m.n - 1)))
        for share, m in zip(shares, strata, strict=True)
    ]
    comoment = np.asarray(sum(parts)) * n * (n - 1)
    return Moments(n, np.asarray(mean), comoment, effective, heavy=np.concatenate(heavy))


def _centre_thirds(
    n: int, sums: Sequence[int], products: Sequence[Sequence[int]], triples: Sequence[int]
) -> Floats:
    """Return third central moments: exact in integers, rounded once."""
    indices, order = _index_triples(len(sums))
    if len(triples) != len(indices):
        message = f"{len(sums)} variables have {len(indices)} products of three"
        raise ValueError(f"{message}, got {len(triples)}")
    thirds = []
    for (a, b, c), triple in zip(indices, triples, strict=True):
        pairs = products[a][b] * sums[c] + products[a][c] * sums[b] + products[b][c] * sums[a]
        centred = n * (n * operator.index(triple) - pairs) + 2 * sums[a] * sums[b] * sums[c]
        thirds.append(centred / (n * n))
    return np.array(thirds)[order]


@cache
def _index_triples(k: int) -> tuple[list[tuple[int, int, int]], Integers]:
    """List the products of three of k variables, and find each by its variables.

    The index has the shape (k, k, k).
    """
    indices = list(combinations_with_replacement(range(k), 3))
    order = np.zeros((k, k, k), dtype=np.int64)
    for number, triple in enumerate(indices):
        for index in permutations(triple):
            order[index] = number
    return indices, order


def _merge_thirds(sets: Sequence[Moments], steps: Floats) -> Floats | None:
    """Return the third moments of merged sets; `steps` lead from all means to theirs."""
    third = np.zeros((steps.shape[1],) * 3)
    for moments, step in zip(sets, steps, strict=True):
        if moments.third is None:
            return None
        crossed = np.multiply.outer(step, moments.comoment)
        # The step is of each of the three variables in turn.
        turned = crossed + crossed.transpose(1, 0, 2) + crossed.transpose(1, 2, 0)
        cube = moments.n * np.multiply.outer(np.outer(step, step), step)
        third += moments.third + turned + cube
    return third


def _merge_heavy(sets: Sequence[Moments], steps: Floats, mean: Floats, n: int) -> Floats:
    """Return the heavy units of merged sets."""
    heavy = np.concatenate([m.heavy + step for m, step in zip(sets, steps, strict=True)])
    if mean.size < 2 or not len(heavy):
        return heavy
    return heavy[are_heavy(heavy[:, 1] + mean[1], n, n * float(mean[1]))]


def _stack_columns(columns: Sequence[ArrayLike]) -> Floats:
    """Stack columns as one (k, n) array of doubles."""
    if not columns:
        raise ValueError("moments need at least one variable")
    data = np.array([np.asarray(column, dtype=np.float64) for column in columns])
    if data.ndim != 2:
        raise ValueError("columns must be one-dimensional and of equal length")
    return data
