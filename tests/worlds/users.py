"""Simulated users: activity is skewed, clicks are rare, habits persist from the pre-period."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats.moments import Moments
from abeval.stats.records import Floats

CLICKS, SHOWN, PRE_CLICKS, PRE_SHOWN = range(4)
STRATA = 3
POOL = 100_000
"""Users from which experiments are drawn, with replacement; their means are the truth."""


class Pool(NamedTuple):
    """A population under one policy.

    Attributes:
        values: Clicks and impressions, then those of the pre-period, shape (users, 4).
        stratum: Activity class in the pre-period, shape (users,).
    """

    values: Floats
    stratum: NDArray[np.int8]


class Split(NamedTuple):
    """Sizes of the two variants.

    Attributes:
        control: Units in control.
        treatment: Units in treatment.
    """

    control: int
    treatment: int

    def __str__(self) -> str:
        """As printed in the table."""
        return f"{self.control:,}/{self.treatment:,}"


def pool(seed: int, lift: float = 0.0, users: int = POOL) -> Pool:
    """Users with `1 + lift` times their click probability; the same users for the same seed.

    Impressions per user are log-normal with a coefficient of variation of about 1.3. The click
    rate is 3 % on average and differs between users. Both persist from the pre-period.

    Example:
        >>> values = pool(1, users=1000).values
        >>> values.shape, bool(values[:, CLICKS].mean() < 1)
        ((1000, 4), True)
    """
    rng, clicking = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    activity = rng.lognormal(2.3, 0.9, users)
    taste = rng.beta(1.5, 48.5, users)
    shown = 1 + rng.poisson(activity)
    pre_shown = 1 + rng.poisson(activity * rng.lognormal(0, 0.4, users))
    clicks = clicking.binomial(shown, np.minimum(1.0, taste * (1 + lift)))
    pre_clicks = rng.binomial(pre_shown, taste)
    values = np.stack([clicks, shown, pre_clicks, pre_shown], axis=1).astype(float)
    edges = np.quantile(pre_shown, [1 / 3, 2 / 3])
    return Pool(values, np.searchsorted(edges, pre_shown).astype(np.int8))


class Arm(NamedTuple):
    """One variant of one repetition.

    Attributes:
        whole: Moments of the four values.
        strata: The same per stratum.
    """

    whole: Moments
    strata: tuple[Moments, ...]


def arms(rng: np.random.Generator, source: Pool, units: int, runs: int) -> Iterator[Arm]:
    """Moments of `runs` samples of `units` users.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> [arm.whole.n for arm in arms(rng, pool(1, users=1000), units=50, runs=2)]
        [50, 50]
    """
    centre = source.values.mean(axis=0)
    centred = np.concatenate([np.ones((len(source.values), 1)), source.values - centre], axis=1)
    # Users are grouped by stratum, so that samples need no masks.
    by_stratum = [centred[source.stratum == k] for k in range(STRATA)]
    shares = [len(users) / len(centred) for users in by_stratum]
    for counts in rng.multinomial(units, shares, size=runs):
        drawn = (
            users[rng.integers(0, len(users), n)]
            for users, n in zip(by_stratum, counts, strict=True)
        )
        parts = tuple(_moments(rows, centre) for rows in drawn)
        yield Arm(parts[0].merge(parts[1]).merge(parts[2]), parts)


def _moments(rows: Floats, centre: Floats) -> Moments:
    products = rows.T @ rows
    n = products[0, 0]
    mean = products[0, 1:] / n
    return Moments(int(n), mean + centre, products[1:, 1:] - n * np.outer(mean, mean))
