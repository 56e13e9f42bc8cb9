"""What the ratio of sums is without each unit: its variance, and the units that count."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]


class Known(NamedTuple):
    """A ratio, its variance, and its degrees of freedom."""

    value: float
    variance: float
    df: float


def moves(y: ArrayLike, x: ArrayLike) -> Floats:
    """Return how far each unit's absence moves the ratio: of light units, to the first order."""
    above, below = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
    n, ratio = len(above), above.sum() / below.sum()
    exact = (above.sum() - above) / (below.sum() - below) - ratio
    near = (ratio * below - above) / below.sum() * n / (n - 1)
    return np.where((below > below.sum() / 100) | (n <= 100), exact, near)


def ratio_of(y: ArrayLike, x: ArrayLike) -> Known:
    """Return the ratio with the variance of the jackknife."""
    above, below = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
    n = len(above)
    variance = (n - 1) / n * np.sum(moves(above, below) ** 2)
    df = max(min(n - 1.0, below.sum() ** 2 / np.sum(below**2) - 1), 1.0)
    return Known(above.sum() / below.sum(), float(variance), df)


def t_test(control: Known, treatment: Known) -> tuple[float, float, float]:
    """Return the standard error of the difference, its degrees of freedom and p-value."""
    both = control, treatment
    variance = sum(one.variance for one in both)
    df = variance**2 / sum(one.variance**2 / one.df for one in both)
    t = (treatment.value - control.value) / np.sqrt(variance)
    return float(np.sqrt(variance)), float(df), float(2 * stats.t.sf(abs(t), df))
