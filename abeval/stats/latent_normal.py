"""The likelihood of bivariate normal true effects behind pairs of estimates.

`latent` evaluates it at many normals at once, for all experiments or all but some.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats.arrays import Bools, Floats

_ROWS = 64


class Pairs(NamedTuple):
    """Effects of the same experiments on two metrics, shape (pairs,) each.

    Attributes:
        x: Effects on the first metric.
        x_se: Their standard errors.
        y: Effects on the second.
        y_se: Their standard errors.
        shared: Covariances of the two errors of a pair.
        groups: The experiment of each pair: variants of one are left out together.
    """

    x: Floats
    x_se: Floats
    y: Floats
    y_se: Floats
    shared: Floats
    groups: NDArray[np.intp]


class Nodes(NamedTuple):
    """Bivariate normals of true effects, shape (nodes,) each.

    Attributes:
        x_variance: Variance of true effects on the first metric.
        y_variance: Of those on the second.
        correlation: Their correlation.
    """

    x_variance: Floats
    y_variance: Floats
    correlation: Floats


class Sums(NamedTuple):
    """Sums over pairs of what the likelihood needs, shape (nodes,) each.

    With V the covariance of a pair of estimates around its mean, and z the pair.

    Attributes:
        xx: Of V⁻¹, first row and column.
        xy: Second column.
        yy: Second row and column.
        x: Of V⁻¹ z, first element.
        y: Second element.
        square: Of zᵀ V⁻¹ z.
        log: Of log |V|.
    """

    xx: Floats
    xy: Floats
    yy: Floats
    x: Floats
    y: Floats
    square: Floats
    log: Floats

    def __sub__(self, other: "Sums") -> "Sums":
        return Sums(*(own - taken for own, taken in zip(self, other, strict=True)))


def sums_of(nodes: Nodes, pairs: Pairs) -> Sums:
    """The sums of some pairs at every node; in parts, so that memory stays small."""
    between = nodes.correlation * np.sqrt(nodes.x_variance * nodes.y_variance)
    total = np.zeros((7, len(between)))
    for start in range(0, len(pairs.x), _ROWS):
        part = chosen(pairs, slice(start, start + _ROWS))
        a = nodes.x_variance[:, None] + part.x_se**2
        b = nodes.y_variance[:, None] + part.y_se**2
        c = between[:, None] + part.shared
        size = a * b - c * c
        xx, xy, yy = b / size, -c / size, a / size
        x, y = xx * part.x + xy * part.y, xy * part.x + yy * part.y
        terms = xx, xy, yy, x, y, x * part.x + y * part.y, np.log(size)
        total += [term.sum(1) for term in terms]
    return Sums(*total)


def restricted(sums: Sums) -> Floats:
    """The log-likelihood with the means integrated out."""
    size = sums.xx * sums.yy - sums.xy**2
    x, y = means(sums)
    misfit = sums.square - x * sums.x - y * sums.y
    return -0.5 * (sums.log + np.log(size) + misfit)


def means(sums: Sums) -> tuple[Floats, Floats]:
    """The means of true effects on both metrics, by generalised least squares."""
    size = sums.xx * sums.yy - sums.xy**2
    x = (sums.yy * sums.x - sums.xy * sums.y) / size
    return x, (sums.xx * sums.y - sums.xy * sums.x) / size


def chosen(pairs: Pairs, rows: slice | Bools) -> Pairs:
    """Some of the pairs."""
    return Pairs._make(column[rows] for column in pairs)
