"""Does the inference on offline metrics keep its promises? Simulated A/A splits and paired models.

    python -m benchmarks.calibration.offline [--splits 10000] [--seed 0]

A log of heterogeneous users is scored by two models once; users are then split in two at random,
again and again, each half is given its estimate, and the two are compared as the halves of an A/B
test are. The test should reject in 5 % of splits. Splits of one log say nothing of power, so new
logs are drawn for that: two models of known unlike quality are compared in pairs and as if they had
been scored on unlike users, and both powers are set beside what the formula promises.
"""

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abeval.stats import effects, ratios
from abeval.stats.distributions import quantile
from abeval.stats.moments import Moments
from abeval.stats.paired import ratios as paired_ratios

Floats = NDArray[np.float64]
Sums = Mapping[str, tuple[Floats, Floats]]
"""Metric → its numerator and denominator per unit, shape (units,)."""


@dataclass(frozen=True)
class Level:
    """How often a test of level 5 % rejected where there is no difference.

    Attributes:
        metric: The metric.
        rejected: Share of splits.
        error: Monte Carlo standard error of a true 5 %.
    """

    metric: str
    rejected: float
    error: float

    @property
    def keeps(self) -> bool:
        """Whether the share lies within three standard errors of 5 %."""
        return abs(self.rejected - 0.05) <= 3 * self.error


@dataclass(frozen=True)
class Power:
    """How often a true difference of two models was found.

    Attributes:
        metric: The metric.
        paired: Share of logs, compared in pairs.
        formula: What the normal approximation says, from the spread of the paired difference.
        unpaired: Share of logs, each model on its own half of the users.
        error: Monte Carlo standard error of `paired`.
    """

    metric: str
    paired: float
    formula: float
    unpaired: float
    error: float


@dataclass(frozen=True)
class Scored:
    """A simulated log: one list a user.

    Attributes:
        click: Shape (users, items).
        scores: One array of the same shape for each model.
        shown: Which items of the list the user saw.
    """

    click: NDArray[np.bool_]
    scores: tuple[Floats, ...]
    shown: NDArray[np.bool_]


def draw(users: int, rng: np.random.Generator, quality: tuple[float, ...]) -> Scored:
    """Users differ in how much they see, how often they click, and how well they are known.

    Args:
        users: How many.
        rng: Where the draws come from.
        quality: Of each model, how much of what a user likes it knows.
    """
    length = 24
    seen = np.minimum(4 + rng.geometric(0.15, users), length)
    shown = np.arange(length) < seen[:, None]
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
    won = _won(score, click, shown)
    auc = np.divide(won, p * (n - p), out=np.zeros(len(n)), where=both)
    order = np.argsort(np.where(shown, -score, np.inf), axis=1)
    gain = np.take_along_axis(click, order, 1)[:, :10] / np.log2(np.arange(2, 12))
    ideal = np.concatenate([[1.0], np.cumsum(1 / np.log2(np.arange(2, 12)))])
    some = (p > 0).astype(np.float64)
    predicted = np.where(shown, score, 0).sum(axis=1)
    return {
        "gauc[impressions]": (both * n * auc, (both * n).astype(np.float64)),
        "ndcg@10[bin]": (gain.sum(axis=1) / ideal[np.minimum(p, 10)], some),
        "q_ctr": (predicted, p.astype(np.float64)),
    }


def _won(score: Floats, click: NDArray[np.bool_], shown: NDArray[np.bool_]) -> Floats:
    """Pairs of a click and a non-click of one user that the score orders right."""
    other = shown & ~click
    above = (score[:, :, None] > score[:, None, :]) & other[:, None, :]
    return np.asarray((above.sum(axis=2) * click).sum(axis=1), dtype=np.float64)


class GlobalAuc:
    """AUC over all impressions of any half of the users, and its influence per user.

    Every pair of users is counted once, so that a split needs no sorting: what half of the users
    wins is a sum over a matrix.

    Args:
        log: The log.
        model: Which of its scores.
    """

    def __init__(self, log: Scored, model: int) -> None:
        score = log.scores[model]
        self._wins = _wins_of_users(score, log.click, log.shown & ~log.click)
        self._clicks = log.click.sum(axis=1).astype(np.float64)
        self._others = (log.shown & ~log.click).sum(axis=1).astype(np.float64)

    def pseudo_values(self, of: NDArray[np.bool_]) -> Floats:
        """One value per user of a half, whose mean is the AUC (see `queries/units/auc.sql`)."""
        wins, clicks, others = self._wins[of][:, of], self._clicks[of], self._others[of]
        pairs = clicks.sum() * others.sum()
        auc = wins.sum() / pairs
        own = (wins.sum(axis=1) + wins.sum(axis=0)) / pairs
        share = clicks / clicks.sum() + others / others.sum()
        return np.asarray(auc + len(clicks) * (own - auc * share))


def _wins_of_users(score: Floats, click: NDArray[np.bool_], other: NDArray[np.bool_]) -> Floats:
    """How many non-clicks of each user (column) each user's clicks (row) stand above."""
    wins = np.zeros((len(score), len(score)))
    for column in range(len(score)):
        rivals = np.sort(score[column][other[column]])
        below = np.searchsorted(rivals, score[click])
        wins[:, column] = np.bincount(np.nonzero(click)[0], weights=below, minlength=len(score))
    return wins


def levels(splits: int, seed: int, users: int = 1_000) -> Iterator[Level]:
    """How often A/A splits of one log reject.

    Args:
        splits: How many.
        seed: Of the log and of the splits.
        users: Of the log.
    """
    rng = np.random.default_rng(seed)
    log = draw(users, rng, (0.8,))
    sums, auc = unit_sums(log, 0), GlobalAuc(log, 0)
    rejected = dict.fromkeys(["auc", *sums], 0)
    for _ in range(splits):
        half = rng.permutation(users) < users // 2
        for name, (y, x) in sums.items():
            rejected[name] += _rejects(y, x, half)
        values = np.zeros(users)
        values[half], values[~half] = auc.pseudo_values(half), auc.pseudo_values(~half)
        rejected["auc"] += _rejects(values, np.ones(users), half)
    error = math.sqrt(0.05 * 0.95 / splits)
    for name, times in rejected.items():
        yield Level(name, times / splits, error)


def _rejects(y: Floats, x: Floats, half: NDArray[np.bool_]) -> bool:
    first, second = (ratios.estimate(Moments.of(y[mask], x[mask])) for mask in (half, ~half))
    return effects.compare(first, second).p_value <= 0.05


def powers(logs: int, seed: int, users: int = 600) -> Iterator[Power]:
    """How often a better model is found to be better.

    Args:
        logs: How many are drawn.
        seed: Of all of them.
        users: Of each.
    """
    rng = np.random.default_rng(seed)
    effect: dict[str, list[float]] = {}
    paired: dict[str, int] = {}
    unpaired: dict[str, int] = {}
    for _ in range(logs):
        log = draw(users, rng, (0.6, 0.8))
        before, after = unit_sums(log, 0), unit_sums(log, 1)
        half = rng.permutation(users) < users // 2
        for name in before:
            found = paired_ratios(Moments.of(*before[name], *after[name]))
            effect.setdefault(name, []).append(found.difference)
            paired[name] = paired.get(name, 0) + (found.p_value <= 0.05)
            y, x = (np.where(half, b, a) for b, a in zip(before[name], after[name], strict=True))
            unpaired[name] = unpaired.get(name, 0) + _rejects(y, x, half)
    for name, differences in effect.items():
        mean, se = float(np.mean(differences)), float(np.std(differences, ddof=1))
        share = paired[name] / logs
        error = math.sqrt(max(share * (1 - share), 0.25 / logs) / logs)
        yield Power(name, share, _promised(mean, se), unpaired[name] / logs, error)


def _promised(effect: float, se: float) -> float:
    """Power of a two-sided z test of level 5 %."""
    from scipy.special import ndtr

    z = -quantile(0.025)
    shift = abs(effect) / se
    return float(ndtr(shift - z) + ndtr(-shift - z))


def main() -> None:
    """Run both, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10_000)
    parser.add_argument("--logs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for level in levels(given.splits, given.seed):
        verdict = "keeps" if level.keeps else "misses"
        said = f"rejects {100 * level.rejected:.2f} % (± {100 * level.error:.2f})"
        print(f"{level.metric:20} {said} of A/A splits: {verdict} its level")
    for power in powers(given.logs, given.seed + 1):
        shares = (power.paired, power.formula, power.unpaired)
        paired, formula, unpaired = (f"{100 * share:.1f} %" for share in shares)
        print(f"{power.metric:20} paired {paired}, formula {formula}, unpaired {unpaired}")


if __name__ == "__main__":
    main()
