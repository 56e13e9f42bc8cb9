"""Estimate what another order of the candidates would bring, from two logs.

A list shows the best of its candidates by one score, so each log lacks what its own score ranks
low. Units are assigned at random, so both variants choose from like candidates: what control does
not show is in the variant's log, weighted by the chance that it was shown there.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, least_squares
from scipy.special import expit, ndtri

from abeval.stats.records import Floats

BINS = 24
"""Ranks of each score; also in `queries/agreement/ranked_rows.sql`."""

# Rows weigh one over their chance, so no row stands for more than twenty.
_LEAST_CHANCE = 0.05
# Several starts, because the distance may have more than one minimum.
_STARTS = (
    (0.8, -0.8, 0.8, -0.8, 0.02),
    (0.0, -1.5, 0.0, -1.5, 0.02),
    (1.5, -0.5, 1.5, -0.5, 0.02),
)
# Slopes are logarithms: 2.3 is a slope of ten per normal score.
_LIMITS = ((-2.0, -6.0, -2.0, -6.0, 0.0), (2.3, 6.0, 2.3, 6.0, 0.5))
# These three make a weak prior, which decides only what the rows leave open.
_USUAL_FLOOR = 0.1
_ALIKE = 3.0
_USUAL_SLOPE = 0.8
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
    # Neighbouring ranks are added up, because single cells have few rows.
    shown, theirs = _halve(control) / rows[0], variant / rows[1]

    def distance(fit: Floats) -> Floats:
        chances = _chances(fit)
        weighted = _halve(chances.control[:, None] * (theirs @ (1 / chances.variant)))
        squared = _halve(chances.control[:, None] ** 2 * (theirs @ (1 / chances.variant**2)))
        # In standard errors; the last term is for cells without rows, which have none.
        apart = (weighted - shown) / np.sqrt(shown / rows[0] + squared / rows[1] + 1e-9)
        # The same lists by another score: slopes and middles are alike unless the rows say more.
        alike = _ALIKE * np.array([fit[0] - fit[2], fit[1] - fit[3]])
        usual = (fit[[0, 2]] - _USUAL_SLOPE) / 2
        return np.concatenate([apart.ravel(), alike, usual, fit[4:] / _USUAL_FLOOR])

    def fit_from(
        first: ArrayLike, tolerance: float, jac: Literal["2-point", "3-point"]
    ) -> OptimizeResult:
        limited = np.clip(first, *_LIMITS)
        return least_squares(distance, limited, jac, _LIMITS, ftol=tolerance, xtol=tolerance)

    # Tighter tolerances would cost time in every part of the jackknife.
    starts = _STARTS if start is None else (start,)
    best = min((fit_from(first, 1e-6, "2-point") for first in starts), key=lambda fit: fit.cost)
    # The fit of all rows is what a reader sees: its digits may not depend on the processor.
    return _chances((fit_from(best.x, 1e-14, "3-point") if start is None else best).x)


def _chances(fit: Floats) -> Chances:
    """Return the chances of two logistic curves over normal scores of the ranks."""
    control, variant = (
        fit[4] + (1 - fit[4]) * expit(np.exp(fit[i]) * (_Z - fit[i + 1])) for i in (0, 2)
    )
    return Chances(control, np.maximum(variant, _LEAST_CHANCE), fit)


def _halve(cells: Floats) -> Floats:
    """Add up neighbours of both ranks."""
    half: Floats = cells.reshape(BINS // 2, 2, BINS // 2, 2).sum(axis=(1, 3))
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
