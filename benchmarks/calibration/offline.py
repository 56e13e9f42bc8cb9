"""Calibration of the inference on offline metrics: A/A splits and pairs of models.

A simulated log of heterogeneous users is scored by a model. Its users are split in two at random,
many times; each half has an estimate, and the two are compared as in an A/B test. The test should
reject in 5 % of splits. Splits of one log do not measure power, so new logs are drawn for that: two
models of different, known quality are compared in pairs, and as if they had been scored on
different users. Both powers are printed with the one of the formula.

Last, two models that are equally good on average, each better for users of its own, where users
have impressions by a Pareto tail: how often does their paired interval miss the difference of 0?
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from abeval.offline.inference import MetricValues, compare
from abeval.stats import effects, means
from abeval.stats.distributions import quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Bools, Floats, Integers
from benchmarks.runner import Record, Table, write_share
from tests.worlds.scored import GlobalAuc, draw, unit_sums


def measure_splits(part: str, repetitions: int, seed: int, users: int = 1_000) -> Iterator[Record]:
    """Measure how many A/A splits of one log are rejected."""
    rng = np.random.default_rng(seed)
    log = draw(users, rng, (0.8,))
    sums, auc = unit_sums(log, 0), GlobalAuc(log, 0)
    rejected = dict.fromkeys(["auc", *sums], 0)
    for _ in range(repetitions):
        half = rng.permutation(users) < users // 2
        for name, (y, x) in sums.items():
            rejected[name] += _rejects(y, x, half)
        values = np.zeros(users)
        values[half], values[~half] = auc.pseudo_values(half), auc.pseudo_values(~half)
        rejected["auc"] += _rejects(values, np.ones(users), half)
    for name, count in rejected.items():
        yield {"metric": name, "A/A splits rejected, %": write_share(count, repetitions)}


def _rejects(y: Floats, x: Floats, half: Bools) -> bool:
    first, second = (means.estimate_ratio(Moments.of(y[mask], x[mask])) for mask in (half, ~half))
    return effects.compare(first, second).p_value <= 0.05


def measure_powers(part: str, repetitions: int, seed: int, users: int = 600) -> Iterator[Record]:
    """Measure how often two models are told apart: in pairs, by formula, on half of the users each.

    The formula is the normal approximation from the standard deviation of the paired difference.
    """
    rng = np.random.default_rng(seed + 1)
    effect: dict[str, list[float]] = defaultdict(list)
    paired, unpaired = Counter[str](), Counter[str]()
    for _ in range(repetitions):
        log = draw(users, rng, (0.6, 0.8))
        before, after = unit_sums(log, 0), unit_sums(log, 1)
        half = rng.permutation(users) < users // 2
        for name in before:
            difference = means.compare_within_units(
                Moments.of(*before[name], *after[name]), means.ratio(0, 1), means.ratio(2, 3)
            )
            effect[name].append(difference.difference)
            paired[name] += difference.p_value <= 0.05
            y, x = (np.where(half, b, a) for b, a in zip(before[name], after[name], strict=True))
            unpaired[name] += _rejects(y, x, half)
    for name, differences in effect.items():
        mean, se = float(np.mean(differences)), float(np.std(differences, ddof=1))
        yield {
            "metric": name,
            "paired, %": paired[name] / repetitions,
            "formula, %": _power(mean, se),
            "unpaired, %": unpaired[name] / repetitions,
        }


def _power(effect: float, se: float) -> float:
    """Power of a two-sided z test of level 5 %."""
    from scipy.special import ndtr

    z = -quantile(0.025)
    shift = abs(effect) / se
    return float(ndtr(shift - z) + ndtr(-shift - z))


def measure_pairs(cell: tuple[int, float], repetitions: int, seed: int) -> Iterator[Record]:
    """Measure how often equally good models are told apart, where some users have much.

    The tail is of the impressions of a user, 4 to 3,000.
    """
    users, tail = cell
    rng = np.random.default_rng([seed, users, round(10 * tail)])
    rejected = Counter[str]()
    for _ in range(repetitions):
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
            first, second = (MetricValues(weight * auc, weight) for auc in aucs)
            effect = compare(first, second, np.ones(users, dtype=np.bool_), 0.05)
            rejected[name] += not isinstance(effect, str) and effect.p_value <= 0.05
    for name, count in rejected.items():
        told = write_share(count, repetitions)
        yield {"users": users, "tail": tail, "metric": name, "equal models told apart, %": told}


def _auc_by_user(score: Floats, click: Bools, user: Integers, n: Integers, both: Bools) -> Floats:
    """Return the AUC of each user by the ranks of the clicks; 0 where there is none."""
    order = np.lexsort((score, user))
    rank = np.arange(len(user)) - np.repeat(np.cumsum(n) - n, n) + 1
    p = np.bincount(user, click, len(n))
    wins = np.bincount(user, rank * click[order], len(n)) - p * (p + 1) / 2
    return np.divide(wins, p * (n - p), out=np.zeros(len(n)), where=both)


PAIRS = [(users, tail) for users in (150, 500) for tail in (1.2, 1.5, 2.0)]
TABLES = {
    "splits": Table(measure_splits, ("one log",), repetitions=10_000),
    "power": Table(measure_powers, ("new logs",), repetitions=2_000),
    "heavy users": Table(measure_pairs, PAIRS, repetitions=2_000),
}
