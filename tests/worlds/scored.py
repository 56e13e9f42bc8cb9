"""Logs of lists that models scored, and their offline metrics by user."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from abeval.stats.records import Bools, Floats

Sums = Mapping[str, tuple[Floats, Floats]]
"""Metric → its numerator and denominator per unit, shape (units,)."""


@dataclass(frozen=True)
class Scored:
    """A simulated log with one list per user.

    Attributes:
        click: Whether an item was clicked, shape (users, items).
        scores: Scores of each model, of the same shape.
        shown: Whether an item was shown, of the same shape.
    """

    click: Bools
    scores: tuple[Floats, ...]
    shown: Bools


def draw(users: int, rng: np.random.Generator, quality: tuple[float, ...]) -> Scored:
    """A log of users with different list lengths, click rates and predictability.

    Args:
        users: Number of users.
        rng: Source of random numbers.
        quality: Weight of the user's taste in the scores of each model.
    """
    length = 24
    impressions = np.minimum(4 + rng.geometric(0.15, users), length)
    shown = np.arange(length) < impressions[:, None]
    taste, known = rng.normal(size=(users, length)), np.exp(0.4 * rng.normal(size=(users, 1)))
    mood = -1.8 + 0.9 * rng.normal(size=(users, 1))
    click = (rng.random((users, length)) < 1 / (1 + np.exp(-mood - taste))) & shown
    scores = tuple(
        1 / (1 + np.exp(1.8 - known * q * taste - 0.8 * rng.normal(size=taste.shape)))
        for q in quality
    )
    return Scored(click, scores, shown)


def unit_sums(log: Scored, model: int) -> dict[str, tuple[Floats, Floats]]:
    """GAUC by impressions, nDCG@10 and Q_ctr of one model, per user."""
    click, shown, score = log.click, log.shown, log.scores[model]
    n, p = shown.sum(axis=1), click.sum(axis=1)
    both = (p > 0) & (p < n)
    ordered = _ordered_pairs(score, click, shown)
    auc = np.divide(ordered, p * (n - p), out=np.zeros(len(n)), where=both)
    order = np.argsort(np.where(shown, -score, np.inf), axis=1)
    gain = np.take_along_axis(click, order, 1)[:, :10] / np.log2(np.arange(2, 12))
    ideal = np.concatenate([[1.0], np.cumsum(1 / np.log2(np.arange(2, 12)))])
    clicked = (p > 0).astype(np.float64)
    predicted = np.where(shown, score, 0).sum(axis=1)
    return {
        "gauc[impressions]": (both * n * auc, (both * n).astype(np.float64)),
        "ndcg@10[bin]": (gain.sum(axis=1) / ideal[np.minimum(p, 10)], clicked),
        "q_ctr": (predicted, p.astype(np.float64)),
    }


def _ordered_pairs(score: Floats, click: Bools, shown: Bools) -> Floats:
    """Pairs of a click and a non-click that the score orders correctly, per user."""
    other = shown & ~click
    above = (score[:, :, None] > score[:, None, :]) & other[:, None, :]
    return np.asarray((above.sum(axis=2) * click).sum(axis=1), dtype=np.float64)


class GlobalAuc:
    """AUC over all impressions of a subset of the users, with its influence per user.

    The pairs of impressions are counted once for every pair of users, so that a subset needs no
    sorting: its correctly ordered pairs are a sum over a matrix.

    Args:
        log: The log.
        model: Index of the model in its scores.
    """

    def __init__(self, log: Scored, model: int) -> None:
        score = log.scores[model]
        self._wins = _wins_of_users(score, log.click, log.shown & ~log.click)
        self._clicks = log.click.sum(axis=1).astype(np.float64)
        self._others = (log.shown & ~log.click).sum(axis=1).astype(np.float64)

    def pseudo_values(self, users: Bools) -> Floats:
        """One value per user of a subset, with the AUC as mean (`queries/4_metrics/auc.sql`)."""
        wins, clicks, others = self._wins[users][:, users], self._clicks[users], self._others[users]
        pairs = clicks.sum() * others.sum()
        auc = wins.sum() / pairs
        own = (wins.sum(axis=1) + wins.sum(axis=0)) / pairs
        share = clicks / clicks.sum() + others / others.sum()
        return np.asarray(auc + len(clicks) * (own - auc * share))


def _wins_of_users(score: Floats, click: Bools, other: Bools) -> Floats:
    """Pairs of a click of one user (row) and a lower-scored non-click of another (column)."""
    wins = np.zeros((len(score), len(score)))
    for column in range(len(score)):
        non_clicks = np.sort(score[column][other[column]])
        below = np.searchsorted(non_clicks, score[click])
        wins[:, column] = np.bincount(np.nonzero(click)[0], weights=below, minlength=len(score))
    return wins
