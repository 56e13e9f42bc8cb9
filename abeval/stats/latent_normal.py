"""Pairs of estimates, bivariate normals of true effects behind them, and their likelihood.

`latent` evaluates it at a grid of normals at once, for all experiments or all but some.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from abeval.stats.arrays import Bools, Floats, finite
from abeval.stats.records import Refusal
from abeval.stats.shrinkage import FEWEST, spreads

_ROWS = 64
SPREADS, CORRELATIONS = 12, 37
"""Variances of either metric, and correlations: the sides of the grid."""

_PLAUSIBLE = 0.1
"""Part of the nodes that is spread as the prior is, so that none of it is out of reach."""


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


def pairs_of(
    x: ArrayLike,
    x_se: ArrayLike,
    y: ArrayLike,
    y_se: ArrayLike,
    shared: ArrayLike,
    groups: ArrayLike | None,
) -> Pairs:
    """The pairs of `latent.fit`, refused where no normal can be fitted to them."""
    columns = [finite(one) for one in (x, x_se, y, y_se)]
    rows = len(columns[0])
    together = np.broadcast_to(finite(shared), (rows,))
    own = np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    if any(column.shape != (rows,) for column in (*columns, own)):
        raise Refusal("inconsistent", "both metrics need one effect and error for each experiment")
    if len(np.unique(own)) < FEWEST:
        got = f"{FEWEST} experiments, got {len(np.unique(own))}"
        raise Refusal("too_few_units", f"a correlation needs {got}")
    if np.any(columns[1] <= 0) or np.any(columns[3] <= 0):
        raise Refusal("zero_variance", "every effect needs a positive standard error")
    if np.any(np.abs(together) >= 1):
        raise Refusal("not_applicable", "a correlation of errors lies between -1 and 1")
    one, one_se, other, other_se = columns
    covariance = together * one_se * other_se
    return Pairs(one, one_se, other, other_se, covariance, own.astype(np.intp))


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


def grid_of(pairs: Pairs) -> tuple[Nodes, Floats]:
    """Likely variances of either metric × correlations, and the prior's part of each node."""
    x_at, x_part = _variances(pairs.x, pairs.x_se)
    y_at, y_part = _variances(pairs.y, pairs.y_se)
    r_at = np.sin(np.pi / 2 * np.linspace(-1, 1, CORRELATIONS))
    at = Nodes(*(axis.ravel() for axis in np.meshgrid(x_at, y_at, r_at, indexing="ij")))
    return at, np.einsum("i,j,k->ijk", x_part, y_part, widths(r_at)).ravel()


def _variances(values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Variances that are likely by one metric's own effects, and the prior's part of each."""
    fine = spreads(values, errors)
    at = special.logit(fine.noise[::-1])
    step = (at[1] - at[0]) / 2
    edges = np.concatenate([at - step, at[-1:] + step])
    part = np.diff(special.expit(edges))
    mass = (1 - _PLAUSIBLE) * fine.weight[::-1] + _PLAUSIBLE * part / part.sum()
    below = np.concatenate([[0.0], np.cumsum(mass)])
    cuts = np.interp(np.linspace(0, below[-1], SPREADS + 1), below, edges)
    middle = (cuts[1:] + cuts[:-1]) / 2
    return np.exp(-middle) / np.mean(1 / errors**2), np.diff(special.expit(cuts))


def widths(levels: Floats) -> Floats:
    """The part of (-1, 1) that is nearest to each level."""
    edges = np.concatenate([[-1.0], (levels[1:] + levels[:-1]) / 2, [1.0]])
    return np.diff(edges)


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


def pull_of(nodes: Nodes, sums: Sums, x_se: float) -> Floats:
    """How much a new estimate of `x` moves what is expected of `y`, at each node."""
    size = sums.xx * sums.yy - sums.xy**2
    between = nodes.correlation * np.sqrt(nodes.x_variance * nodes.y_variance) - sums.xy / size
    return between / (nodes.x_variance + sums.yy / size + x_se**2)


def new_effect(nodes: Nodes, sums: Sums, x: float, x_se: float) -> tuple[Floats, Floats]:
    """Mean and variance of a new true effect on `y`, given an estimate of that on `x`."""
    size, pull = sums.xx * sums.yy - sums.xy**2, pull_of(nodes, sums, x_se)
    x_mean, y_mean = means(sums)
    seen = nodes.x_variance + sums.yy / size + x_se**2
    return y_mean + pull * (x - x_mean), nodes.y_variance + sums.xx / size - pull**2 * seen
