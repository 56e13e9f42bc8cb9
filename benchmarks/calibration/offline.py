"""Calibration of the inference on offline metrics: A/A splits and pairs of models.

    python -m benchmarks.calibration.offline [--splits 10000] [--seed 0]

A simulated log of heterogeneous users is scored by a model. Its users are split in two at random,
many times; each half has an estimate, and the two are compared as in an A/B test. The test should
reject in 5 % of splits. Splits of one log do not measure power, so new logs are drawn for that: two
models of different, known quality are compared in pairs, and as if they had been scored on
different users. Both powers are printed with the one of the formula.

Last, two models that are equally good on average, each better for users of its own, where users
have impressions by a Pareto tail: how often does their paired interval miss the difference of 0?
"""

import argparse
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from abeval.offline.inference import Columns, compare
from abeval.stats import effects, means
from abeval.stats.distributions import quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Bools, Floats, Integers

Sums = Mapping[str, tuple[Floats, Floats]]
"""Metric → its numerator and denominator per unit, shape (units,)."""


@dataclass(frozen=True)
class Level:
    """Rejection rate of a test of level 5 % without a true difference.

    Attributes:
        metric: Name of the metric.
        rejected: Share of splits in which the test rejected.
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
    """Power of a test of two models that differ.

    Attributes:
        metric: Name of the metric.
        paired: Share of logs in which the paired test rejected.
        formula: Normal approximation from the standard deviation of the paired difference.
        unpaired: Share of logs in which the test rejected with each model on half of the users.
        error: Monte Carlo standard error of `paired`.
    """

    metric: str
    paired: float
    formula: float
    unpaired: float
    error: float


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


def levels(splits: int, seed: int, users: int = 1_000) -> Iterator[Level]:
    """Rejection rates in A/A splits of one log.

    Args:
        splits: Number of splits.
        seed: Seed of the log and of the splits.
        users: Users of the log.
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


def _rejects(y: Floats, x: Floats, half: Bools) -> bool:
    first, second = (means.estimate_ratio(Moments.of(y[mask], x[mask])) for mask in (half, ~half))
    return effects.compare(first, second).p_value <= 0.05


def powers(logs: int, seed: int, users: int = 600) -> Iterator[Power]:
    """Power of the comparison of two models, paired and unpaired.

    Args:
        logs: Number of logs.
        seed: Seed of all logs.
        users: Users of each log.
    """
    rng = np.random.default_rng(seed)
    effect: dict[str, list[float]] = defaultdict(list)
    paired, unpaired = Counter[str](), Counter[str]()
    for _ in range(logs):
        log = draw(users, rng, (0.6, 0.8))
        before, after = unit_sums(log, 0), unit_sums(log, 1)
        half = rng.permutation(users) < users // 2
        for name in before:
            difference = means.paired_difference(
                Moments.of(*before[name], *after[name]), means.ratio(0, 1), means.ratio(2, 3)
            )
            effect[name].append(difference.difference)
            paired[name] += difference.p_value <= 0.05
            y, x = (np.where(half, b, a) for b, a in zip(before[name], after[name], strict=True))
            unpaired[name] += _rejects(y, x, half)
    for name, differences in effect.items():
        mean, se = float(np.mean(differences)), float(np.std(differences, ddof=1))
        share = paired[name] / logs
        error = math.sqrt(max(share * (1 - share), 0.25 / logs) / logs)
        yield Power(name, share, _power(mean, se), unpaired[name] / logs, error)


def _power(effect: float, se: float) -> float:
    """Power of a two-sided z test of level 5 %."""
    from scipy.special import ndtr

    z = -quantile(0.025)
    shift = abs(effect) / se
    return float(ndtr(shift - z) + ndtr(-shift - z))


def heavy_pairs(logs: int, seed: int, users: int, tail: float) -> Iterator[Level]:
    """Count how often a pair of equally good models is told apart, where some users have much.

    Args:
        logs: Number of logs.
        seed: Seed of all logs.
        users: Users of each log.
        tail: Of the impressions of a user, 4 to 3,000.
    """
    rng = np.random.default_rng([seed, users, round(10 * tail)])
    rejected = Counter[str]()
    for _ in range(logs):
        n = np.minimum(4 * (rng.pareto(tail, users) + 1), 3_000).astype(np.int64)
        user = np.repeat(np.arange(users), n)
        taste, mood = rng.normal(size=len(user)), -1.8 + 0.9 * rng.normal(size=users)
        click = rng.random(len(user)) < 1 / (1 + np.exp(-mood[user] - taste))
        better, noise = 0.4 * rng.normal(size=users), 0.8 * rng.normal(size=(2, len(user)))
        scores = (
            0.7 * np.exp(s * better[user]) * taste + e for s, e in zip((-1, 1), noise, strict=True)
        )
        p = np.bincount(user, click, users)
        both = (p > 0) & (p < n)
        aucs = [_auc_by_user(score, click, user, n, both) for score in scores]
        for name, each in (("gauc[impressions]", n), ("gauc[units]", np.ones(users))):
            weight = np.where(both, each, 0).astype(np.float64)
            first, second = (Columns(weight * auc, weight) for auc in aucs)
            effect = compare(first, second, np.ones(users, dtype=np.bool_), 0.05)
            rejected[name] += not isinstance(effect, str) and effect.p_value <= 0.05
    for name, times in rejected.items():
        yield Level(name, times / logs, math.sqrt(0.05 * 0.95 / logs))


def _auc_by_user(score: Floats, click: Bools, user: Integers, n: Integers, both: Bools) -> Floats:
    """Return the AUC of each user by the ranks of the clicks; 0 where there is none."""
    order = np.lexsort((score, user))
    rank = np.arange(len(user)) - np.repeat(np.cumsum(n) - n, n) + 1
    p = np.bincount(user, click, len(n))
    wins = np.bincount(user, rank * click[order], len(n)) - p * (p + 1) / 2
    return np.divide(wins, p * (n - p), out=np.zeros(len(n)), where=both)


def main() -> None:
    """Run the studies and print their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10_000)
    parser.add_argument("--logs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for level in levels(options.splits, options.seed):
        verdict = "keeps" if level.keeps else "misses"
        rejects = f"rejects {100 * level.rejected:.2f} % (± {100 * level.error:.2f})"
        print(f"{level.metric:20} {rejects} of A/A splits: {verdict} its level")
    for power in powers(options.logs, options.seed + 1):
        shares = (power.paired, power.formula, power.unpaired)
        paired, formula, unpaired = (f"{100 * share:.1f} %" for share in shares)
        print(f"{power.metric:20} paired {paired}, formula {formula}, unpaired {unpaired}")
    print("\n| users | tail | metric | equal models told apart, % |\n|--:|--:|---|--:|")
    for users in (150, 500):
        for tail in (1.2, 1.5, 2.0):
            for level in heavy_pairs(options.logs, options.seed, users, tail):
                told = f"{100 * level.rejected:.1f} ± {100 * level.error:.1f}"
                print(f"| {users:,} | {tail} | {level.metric} | {told} |", flush=True)


if __name__ == "__main__":
    main()
