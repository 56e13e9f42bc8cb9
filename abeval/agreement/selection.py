"""Estimate what another order of the candidates would bring, from two logs.

A list shows the best of its candidates by one score, so each log lacks what its own score ranks
low. Units are assigned at random, so both variants choose from like candidates: what control does
not show is in the variant's log, weighted by the chance that it was shown there.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtri

from abeval.stats.records import Floats

BINS = 24
"""Ranks of each score; also in `queries/agreement/ranked_rows.sql`."""

# Rows weigh one over their chance, so no row stands for more than twenty.
_LEAST_CHANCE = 0.05
# Several starts, because the distance may have more than one minimum.
_STARTS = np.array(
    [(0.8, -0.8, 0.8, -0.8, 0.02), (0.0, -1.5, 0.0, -1.5, 0.02), (1.5, -0.5, 1.5, -0.5, 0.02)]
)
# Slopes are logarithms: 2.3 is a slope of ten per normal score.
_LIMITS = ((-2.0, -6.0, -2.0, -6.0, 0.0), (2.3, 6.0, 2.3, 6.0, 0.5))
# A weak prior, which decides only what the rows leave open: curves are alike, of usual slopes,
# with hardly a floor.
_ALIKE = 3.0
_USUAL = np.array([0.8, 0.0, 0.8, 0.0, 0.0])
_PRIOR = np.array(
    [
        (_ALIKE, 0, -_ALIKE, 0, 0),
        (0, _ALIKE, 0, -_ALIKE, 0),
        (0.5, 0, 0, 0, 0),
        (0, 0, 0.5, 0, 0),
        (0, 0, 0, 0, 10.0),
    ]
)
# Within this the digits that a reader sees do not depend on the processor.
_TOLERANCE = 1e-12
# A fixed number, so that the same rows take the same steps.
_TURNS = 50
# Middles of the ranks, because normal scores of their ends are infinite.
_Z = ndtri((np.arange(BINS) + 0.5) / BINS)


class Chances(NamedTuple):
    """The chance to be shown of an item by the rank of its score, shape (BINS,).

    `control` is by the score of control's model, `variant` by the score that served. `fit` holds
    log slope and middle of both logistic curves, over normal scores of the ranks, and their floor:
    the chance of an item that no score chose, as in lists of random order.
    """

    control: Floats
    variant: Floats
    fit: Floats


def fit_chances(
    control: Floats, variant: Floats, rows: tuple[float, float], start: Floats | None = None
) -> Chances:
    """Fit the chance to be shown in each variant, by what both logs share.

    Rows of the variant, weighted by control's chance over the variant's, must be spread over both
    scores like control's rows.

    Args:
        control: Control's rows by (baseline, candidate), shape (BINS, BINS).
        variant: The variant's by (baseline, candidate, served), shape (BINS, BINS, BINS).
        rows: All rows of control and of the variant, with those that are left out.
        start: The `fit` of nearly the same rows.
    """
    starts: Sequence[Floats] | Floats = _STARTS if start is None else (start,)
    cells = share_cells(control, variant, rows)
    best = min((_minimise(cells, first) for first in starts), key=lambda fit: fit[1])
    return _compute_chances(best[0])


class Cells(NamedTuple):
    """Hold shares of rows by halved ranks, and how many rows there are.

    `shown` are control's, shape (BINS / 2, BINS / 2), `theirs` the variant's, whose first rank is
    not halved, shape (BINS, BINS / 2, BINS).
    """

    shown: Floats
    theirs: Floats
    rows: tuple[float, float]


def share_cells(control: Floats, variant: Floats, rows: tuple[float, float]) -> Cells:
    """Return shares of rows by halved ranks, because single cells have few rows."""
    return Cells(_halve(_halve(control, 0), 1) / rows[0], _halve(variant, 1) / rows[1], rows)


def _minimise(cells: Cells, start: Floats) -> tuple[Floats, float]:
    """Return the fit nearest to a start with the least distance, and its cost."""
    best = least_squares(
        partial(compare_cells, cells),
        np.clip(start, *_LIMITS),
        # Derivatives by complex steps, which are exact to rounding (Squire and Trapp 1998).
        "cs",
        _LIMITS,
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
    )
    return best.x, best.cost


def compare_cells(cells: Cells, fit: Floats) -> Floats:
    """Return the distance of the variant's weighted rows from control's.

    Distances are in standard errors.
    """
    chances, (control_rows, variant_rows) = _compute_chances(fit), cells.rows
    chance, inverse = chances.control[:, None], 1 / chances.variant
    # Sums over served ranks, of the weight and of its square.
    once, twice = np.moveaxis(cells.theirs @ np.stack([inverse, inverse**2], axis=1), 2, 0)
    weighted, squared = _halve(chance * once, 0), _halve(chance**2 * twice, 0)
    # The last term is for cells without rows, which have no error.
    variance = cells.shown / control_rows + squared / variant_rows + 1e-9
    apart = (weighted - cells.shown) / np.sqrt(variance)
    # The same lists by another score: slopes and middles are alike unless the rows say more.
    return np.concatenate([apart.ravel(), _PRIOR @ (fit - _USUAL)])


def _compute_chances(fit: Floats) -> Chances:
    """Return the chances of two logistic curves over normal scores of the ranks."""
    control, variant = (
        # Written out, because `expit` knows no complex numbers.
        fit[4] + (1 - fit[4]) / (1 + np.exp(-np.exp(fit[i]) * (_Z - fit[i + 1])))
        for i in (0, 2)
    )
    return Chances(control, np.maximum(variant, _LEAST_CHANCE), fit)


def _halve(cells: Floats, axis: int) -> Floats:
    """Add up neighbours along an axis of ranks."""
    half: Floats = np.add.reduceat(cells, range(0, BINS, 2), axis=axis)
    return half


class RankedCandidates(NamedTuple):
    """Count candidates by the rank of one score, for one row shown by control.

    Arrays have the shape (BINS,).

    `items` counts them, `relevance` their clicks if all of them were seen.
    """

    items: Floats
    relevance: Floats


def list_value(ranked: RankedCandidates, seen: RankedCandidates) -> float:
    """Return the clicks of a list in the order of one score.

    An item is seen as often as one with as many better candidates in the lists that were shown;
    there, `seen.relevance` holds how often items of a rank were seen.

    Example:
        >>> import numpy as np
        >>> items = np.full(BINS, 0.1)
        >>> shown = RankedCandidates(items, np.where(np.arange(BINS) >= BINS // 2, 0.1, 0.0))
        >>> round(list_value(RankedCandidates(items, 0.1 * items), shown), 3)
        0.12
    """
    # Ranks rise with the score, and a list begins with its best.
    shown, views, items, worth = (
        sums[::-1] for sums in (seen.items, seen.relevance, ranked.items, ranked.relevance)
    )
    # How often the best n candidates of a list are seen, as a curve over n.
    best = np.interp(_accumulate(items), _accumulate(shown), _accumulate(views))
    return float((np.diff(best) * worth / np.maximum(items, 1e-12)).sum())


def _accumulate(sums: Floats) -> Floats:
    """Return the sums of the first none, first, first two … entries."""
    running: Floats = np.concatenate([[0.0], np.cumsum(sums)])
    return running


def examine(impressions: Floats, clicks: Floats) -> Floats:
    """Return how often each position is seen, against the first, shape (positions,).

    Args:
        impressions: By cell and position, shape (cells, positions).
        clicks: The same.

    Example:
        >>> import numpy as np
        >>> shown = np.full((2, 2), 100.0)
        >>> examine(shown, np.array([[20.0, 10.0], [40.0, 20.0]])).round(3).tolist()
        [1.0, 0.5]
    """
    seen = np.ones(impressions.shape[1])
    # Clicks are what a cell of both scores is worth times how often its position is seen. Items
    # meet several positions, as two models rank them (Craswell et al. 2008; Agarwal et al. 2019).
    for _ in range(_TURNS):
        worth = clicks.sum(axis=1) / np.maximum(impressions @ seen, 1e-12)
        seen = clicks.sum(axis=0) / np.maximum(worth @ impressions, 1e-12)
        # Only the product of worth and view is known, so the first position sets the scale.
        seen = seen / max(float(seen[0]), 1e-12)
    return seen
