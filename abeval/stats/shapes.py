"""What shape does a change take? Effects over time against trends, decays and shocks at once.

Every shape of a change is a direction in the space of daily effects. Each gets the generalised
least squares z of its coefficient beside a constant (and a weekly rhythm); the largest of them is
judged against the largest that chance gives, by their joint normal distribution.
"""

from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from abeval.stats.distributions import tail
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]
Kind = Literal["trend", "decay", "shock"]

DECAYS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0, 21.0)
"""Candidate time constants, in days."""

DRAWS = 20_000
_SEED = 20_111


class Shape(NamedTuple):
    """A way to change.

    Attributes:
        kind: `trend` is a straight line, `decay` is exp(-t/at), `shock` is one day.
        at: Days of the time constant, or the time of the shock; 0 for a trend.
        values: Its value at each time.
    """

    kind: Kind
    at: float
    values: tuple[float, ...]


class Match(NamedTuple):
    """One shape, fitted beside the nuisance.

    Attributes:
        shape: The shape.
        coefficient: How much of it.
        se: Its standard error.
        z: Their ratio.
    """

    shape: Shape
    coefficient: float
    se: float
    z: float


class Search(NamedTuple):
    """The shapes of one search.

    Attributes:
        matches: All that can be told from the nuisance.
        best: The one with the largest absolute z.
        p_value: Of the largest, over all of them together.
    """

    matches: tuple[Match, ...]
    best: Match
    p_value: float


class Fit(NamedTuple):
    """A generalised least squares fit.

    Attributes:
        coefficients: Of the columns of the design.
        covariance: Of the coefficients.
        q: Sum of the squared whitened residuals.
        df: Times less columns.
        q_p_value: Of the residuals being noise.
    """

    coefficients: Floats
    covariance: Floats
    q: float
    df: int
    q_p_value: float


def trend(times: ArrayLike) -> Shape:
    """A straight line: 0 at the first time, 1 a day later.

    Example:
        >>> trend([3, 4]).values
        (0.0, 1.0)
    """
    t = np.asarray(times, dtype=float)
    return Shape("trend", 0.0, tuple((t - t.min()).tolist()))


def decays(times: ArrayLike, longest: float) -> tuple[Shape, ...]:
    """exp(-t / tau), 1 at time 0, for the time constants up to `longest`.

    Example:
        >>> [round(v, 3) for v in decays([0, 1, 2], 1)[0].values]
        [1.0, 0.368, 0.135]
    """
    t = np.asarray(times, dtype=float)
    return tuple(
        Shape("decay", tau, tuple(np.exp(-t / tau).tolist())) for tau in DECAYS if tau <= longest
    )


def shocks(times: ArrayLike) -> tuple[Shape, ...]:
    """One day unlike the others, for each day.

    Example:
        >>> shocks([0, 1])[1].values
        (0.0, 1.0)
    """
    t = np.asarray(times, dtype=float)
    return tuple(Shape("shock", float(at), tuple((t == at).astype(float).tolist())) for at in t)


def rhythm(times: ArrayLike) -> Floats:
    """Weekday columns that sum to zero over a whole week, shape (times, 6).

    Example:
        >>> rhythm(np.arange(7)).sum(axis=0).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    place = np.asarray(times).astype(int) % 7
    columns = [(place == k).astype(float) - (place == 6) for k in range(6)]
    return np.stack(columns, axis=1)


def fit(effects: ArrayLike, covariance: ArrayLike, design: ArrayLike) -> Fit:
    """Generalised least squares.

    Args:
        effects: Effect at each time, shape (times,).
        covariance: Theirs, shape (times, times).
        design: Columns, shape (times, columns).

    Raises:
        Refusal: `too_few_units` for fewer times than columns; `zero_variance` where the effects
            are linear functions of one another, as with more days than units, or the columns are.

    Source:
        Aitken (1935).

    Example:
        >>> found = fit([1.0, 3.0], np.eye(2), np.ones((2, 1)))
        >>> found.coefficients.tolist(), found.q, found.df
        ([2.0], 2.0, 1)
    """
    y, columns = _whitened(effects, covariance, design)
    if len(y) < columns.shape[1]:
        raise Refusal("too_few_units", f"{len(y)} times for {columns.shape[1]} coefficients")
    information = columns.T @ columns
    if np.linalg.cond(information) > 1e12:
        raise Refusal("zero_variance", "the columns are linear functions of one another")
    inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
    found = np.asarray(inverse @ (columns.T @ y), dtype=np.float64)
    q, df = float(np.sum((y - columns @ found) ** 2)), len(y) - columns.shape[1]
    return Fit(found, inverse, q, df, float(special.chdtrc(df, q)) if df else 1.0)


def search(
    effects: ArrayLike, covariance: ArrayLike, shapes: Sequence[Shape], nuisance: ArrayLike
) -> Search:
    """Find the shape that a change takes, if there is a change.

    Args:
        effects: Effect at each time, shape (times,).
        covariance: Theirs, shape (times, times).
        shapes: Candidates.
        nuisance: Columns that are no change, a constant among them, shape (times, columns).

    Returns:
        Every shape's z, the best, and the p-value of the best over all: by Monte Carlo with a
        fixed seed, or Bonferroni's where that is smaller.

    Raises:
        Refusal: As `fit`; `not_applicable` where no shape can be told from the nuisance.

    Source:
        Hothorn, Bretz & Westfall (2008) for max-|z| tests over correlated contrasts.

    Example:
        >>> t = np.arange(10)
        >>> found = search(0.5 * t, np.eye(10), [trend(t), *shocks(t)], np.ones((10, 1)))
        >>> found.best.shape.kind, round(found.best.coefficient, 6), found.p_value < 0.01
        ('trend', 0.5, True)
    """
    columns = np.array([shape.values for shape in shapes]).T
    y, both = _whitened(effects, covariance, np.hstack([np.asarray(nuisance, float), columns]))
    known = both.shape[1] - len(shapes)
    basis, _ = np.linalg.qr(both[:, :known])
    rest = both[:, known:] - basis @ (basis.T @ both[:, known:])
    size = np.linalg.norm(rest, axis=0)
    seen = np.flatnonzero(size > 1e-6 * np.linalg.norm(both[:, known:], axis=0))
    if not len(seen):
        raise Refusal("not_applicable", "no change can be told from the rhythm in so few days")
    unit = rest[:, seen] / size[seen]
    z = unit.T @ y
    matches = tuple(
        Match(shapes[i], float(value / size[i]), float(1 / size[i]), value)
        for i, value in zip(seen.tolist(), z.tolist(), strict=True)
    )
    best = max(matches, key=lambda match: abs(match.z))
    return Search(matches, best, _p_value(best.z, unit))


def _p_value(z: float, unit: Floats) -> float:
    largest = np.abs(_draws(len(unit)) @ unit).max(axis=1)
    exceeded = (1 + int(np.count_nonzero(largest >= abs(z)))) / (1 + DRAWS)
    return float(min(exceeded, tail(z).p_value * unit.shape[1], 1.0))


@cache
def _draws(times: int) -> Floats:
    return np.random.default_rng(_SEED).standard_normal((DRAWS, times))


def _whitened(
    effects: ArrayLike, covariance: ArrayLike, columns: ArrayLike
) -> tuple[Floats, Floats]:
    """Effects and columns in units of independent noise."""
    y, sigma = np.asarray(effects, dtype=float), np.asarray(covariance, dtype=float)
    x = np.asarray(columns, dtype=float)
    if not (np.isfinite(y).all() and np.isfinite(sigma).all()):
        raise Refusal("not_finite", "effects and covariances must be finite")
    scale = np.sqrt(np.maximum(np.diag(sigma), 0.0))
    if np.any(scale == 0):
        raise Refusal("zero_variance", "a day's effect has no variance")
    correlation = sigma / np.outer(scale, scale)
    if np.linalg.eigvalsh(correlation).min() < 1e-10:
        raise Refusal("zero_variance", "the days' effects are linear functions of one another")
    root = np.linalg.cholesky(correlation)
    solved = np.asarray(
        np.linalg.solve(root, np.column_stack([y, x]) / scale[:, None]), dtype=float
    )
    return solved[:, 0], solved[:, 1:]
