"""Calibration of methods on sub-buckets: resampling, A/A replay, catalogue metrics."""

from typing import NamedTuple

import numpy as np

from abeval.stats import catalogue, replay, resampling
from abeval.stats.catalogue import Functional
from abeval.stats.records import Floats, Integers, Refusal
from benchmarks.calibration.outcome import ALPHA, Outcome, Promise, nominal, outcomes
from tests.worlds.users import CLICKS, SHOWN, Split, pool

BUCKETS, ITEMS, GROUPS = 128, 300, 32
FUNCTIONALS: tuple[Functional, ...] = ("coverage", "gini", "entropy")


class ShownItems(NamedTuple):
    """Items shown to users: a few distinct items each, of one taste.

    Attributes:
        item: Items of each user, -1 beyond the last, shape (users, slots).
        impressions: Impressions of each item, shape (users, slots).
    """

    item: Integers
    impressions: Integers


def buckets(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Click rate of users in sub-buckets, by the three resampling tests."""
    users = pool(1).values[:, [SHOWN, CLICKS]]
    true = float(users[:, 1].sum() / users[:, 0].sum())
    rng = np.random.default_rng([seed, 12])
    rejected, covered = (np.zeros((3, runs), dtype=bool) for _ in range(2))
    for run in range(runs):
        c, t = (_bucketed(rng, users[rng.integers(0, len(users), n)]) for n in split)
        tests = (
            resampling.jackknife(c, t, _rate),
            resampling.bootstrap(c, t, _rate, draws=400, seed=run),
            resampling.permutation(c, t, _rate, permutations=400, seed=run),
        )
        effects = [one.effect for one in tests]
        rejected[:, run] = [e.p_value <= ALPHA for e in effects]
        covered[:, run] = [e.low <= 0 <= e.high for e in effects]
    names: tuple[tuple[str, Promise], ...] = (
        ("resampling.jackknife", "nominal"),
        ("resampling.bootstrap", "nominal"),
        ("resampling.permutation", "at_most"),
    )
    data = f"{split}, {BUCKETS} sub-buckets, click rate {100 * true:.1f} %"
    return outcomes(names, data, rejected, covered)


def _rate(sums: Floats) -> Floats:
    return np.asarray(sums[..., 2] / sums[..., 1])


def _bucketed(rng: np.random.Generator, users: Floats) -> Floats:
    bucket = rng.integers(0, BUCKETS, len(users))
    columns = (np.ones(len(users)), users[:, 0], users[:, 1])
    return np.stack([np.bincount(bucket, x, minlength=BUCKETS) for x in columns], axis=1)


def replays(seed: int, runs: int, share: float) -> list[Outcome]:
    """A/A replays of several logs of 20,000 users, as an analysis runs them on its log."""
    users = pool(1).values[:, [CLICKS, SHOWN]]
    rng = np.random.default_rng([seed, 13])
    count, p_values = 1024, []
    for log in range(20):
        sample = users[rng.integers(0, len(users), 20_000)]
        bucket = rng.integers(0, count, len(sample))
        y, x = sample.T
        products = (y, x, y * y, y * x, x * x)
        sums = np.stack([np.bincount(bucket, c, minlength=count) for c in products], axis=1)
        units = np.bincount(bucket, minlength=count)
        resplits = max(1, runs // 20)
        replayed = replay.replay_aa_tests(units, sums[:, None, :], share, resplits, seed=log)
        p_values.append(replayed.p_values.ravel())
    rejected = np.concatenate(p_values) <= ALPHA
    data = f"20,000 users at {100 * share:g} %, {count:,} sub-buckets"
    return outcomes(nominal("replay.aa_replay"), data, rejected[None])


def shown_items(seed: int, users: int = 20_000) -> ShownItems:
    """Users of ten tastes who return to a few items; popularity is heavy-tailed.

    Example:
        >>> shown_items(1, users=10).item.shape
        (10, 8)
    """
    rng = np.random.default_rng([seed, 14])
    tastes, slots = 10, 8
    width = ITEMS // tastes
    popularity = (rng.pareto(1.2, (tastes, width)) + 0.02).cumsum(axis=1)
    popularity /= popularity[:, -1:]
    taste = rng.integers(0, tastes, users)
    draw = rng.random((users, slots))
    item = (draw[:, :, None] > popularity[taste][:, None, :]).sum(axis=2) + width * taste[:, None]
    item.sort(axis=1)
    repeated = np.concatenate([np.zeros((users, 1), bool), np.diff(item, axis=1) == 0], axis=1)
    unused = np.arange(slots) >= np.minimum(rng.geometric(0.3, users), slots)[:, None]
    returns = rng.geometric(0.2, users)
    impressions = 1 + rng.poisson(2.0 * returns[:, None], (users, slots))
    return ShownItems(np.where(repeated | unused, -1, item), impressions)


def catalogues(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Coverage, Gini and entropy under one policy, with users who return to their items."""
    users = shown_items(1)
    rng = np.random.default_rng([seed, 15])
    rejected, covered = (np.zeros((len(FUNCTIONALS), runs), dtype=bool) for _ in range(2))
    for run in range(runs):
        control, treatment = (_incidence(rng, users, n) for n in split)
        comparisons = catalogue.compare_all(
            control, treatment, FUNCTIONALS, permutations=200, seed=run
        )
        for i, functional in enumerate(FUNCTIONALS):
            comparison = comparisons[functional]
            if isinstance(comparison, Refusal):
                raise comparison
            effect = comparison.effect
            rejected[i, run] = effect.p_value <= ALPHA
            covered[i, run] = effect.low <= 0 <= effect.high
    tests: list[tuple[str, Promise]] = [
        (f"catalogue.compare_all, {f}", "at_most") for f in FUNCTIONALS
    ]
    return outcomes(tests, f"{split}, {ITEMS} items, {GROUPS} groups", rejected, covered)


def _incidence(rng: np.random.Generator, users: ShownItems, units: int) -> catalogue.Incidence:
    user = rng.integers(0, len(users.item), units)
    group = rng.integers(0, GROUPS, units)
    item, impressions = users.item[user], users.impressions[user]
    shown = item >= 0
    cell = (item * GROUPS + group[:, None])[shown]
    distinct = np.bincount(cell, minlength=ITEMS * GROUPS)
    total = np.bincount(cell, impressions[shown], minlength=ITEMS * GROUPS)
    entries = np.flatnonzero(distinct)
    return catalogue.Incidence(
        item=entries // GROUPS,
        group=entries % GROUPS,
        units=distinct[entries],
        impressions=total[entries].astype(np.int64),
        units_in_group=np.bincount(group, minlength=GROUPS),
        catalogue_size=ITEMS,
    )
