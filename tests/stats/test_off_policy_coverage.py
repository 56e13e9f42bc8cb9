"""Do 95 % intervals of off-policy estimators hold the truth in 95 % of logs?"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from abeval.stats.off_policy import Policy, cross_fit
from tests.stats.policies import valued

Floats = NDArray[np.float64]


class World(NamedTuple):
    """Users who see several items, some of them more willing to click than others."""

    logging: Floats
    target: Floats
    rate: Floats
    users: int = 300
    rows: int = 6
    heterogeneity: float = 0.0

    @property
    def truth(self) -> float:
        return float(self.target @ self.rate)

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Any, Any]:
        user = np.repeat(np.arange(self.users), self.rows)
        liking = 1 + self.heterogeneity * rng.choice([-1.0, 1.0], self.users)[user]
        action = rng.choice(self.logging.size, user.size, p=self.logging)
        reward = rng.binomial(1, self.rate[action] * liking).astype(float)
        return reward, self.logging[action], self.target[action], action, user

    def policy(self) -> Policy:
        actions = np.arange(self.target.size)
        return Policy(np.zeros_like(actions), actions, self.target)


def world(**changes: Any) -> World:
    base = World(
        logging=np.array([0.4, 0.3, 0.15, 0.1, 0.05]),
        target=np.array([0.1, 0.15, 0.2, 0.25, 0.3]),
        rate=np.array([0.1, 0.2, 0.3, 0.25, 0.4]),
    )
    return base._replace(**changes)


def covers(w: World, seed: int, runs: int, clustered: bool = True) -> dict[str, float]:
    """Share of 95 % intervals that hold the truth."""
    rng, hits = np.random.default_rng(seed), {"ips": 0, "snips": 0, "dr": 0, "sndr": 0}
    for _ in range(runs):
        reward, logging, evaluation, action, user = w.draw(rng)
        fit = cross_fit(reward, action, np.zeros_like(user), user % 2, w.policy())
        rows, clusters = (reward, logging, evaluation), user if clustered else None
        model = (fit.predicted, fit.expected)
        more: dict[str, Any] = {"clusters": clusters, "min_ess": 0}
        for name, found in (
            ("ips", valued("ips", *rows, **more)),
            ("snips", valued("snips", *rows, **more)),
            ("dr", valued("dr", *rows, *model, refit=fit.influence, **more)),
            ("sndr", valued("sndr", *rows, *model, refit=fit.influence, **more)),
        ):
            if found.low is not None and found.high is not None:
                hits[name] += found.low <= w.truth <= found.high
    return {name: hit / runs for name, hit in hits.items()}


def within(share: float, runs: int, nominal: float = 0.95) -> bool:
    return abs(share - nominal) <= 3 * np.sqrt(nominal * (1 - nominal) / runs)


@pytest.mark.slow
def test_intervals_of_independent_rows_cover() -> None:
    for name, share in covers(world(users=1000, rows=1), 11, 400, clustered=False).items():
        assert within(share, 400), (name, share)


@pytest.mark.slow
def test_intervals_of_heterogeneous_users_cover_only_by_clusters() -> None:
    w = world(rows=25, heterogeneity=0.8, users=150)
    for name, share in covers(w, 12, 200).items():
        assert within(share, 200), (name, share)
    for name, share in covers(w, 13, 200, clustered=False).items():
        assert share < 0.9, (name, share)


@pytest.mark.slow
def test_intervals_cover_long() -> None:
    for w, seed in ((world(users=2000, rows=1), 21), (world(rows=25, heterogeneity=0.8), 22)):
        for name, share in covers(w, seed, 10_000).items():
            assert within(share, 10_000), (name, share)


def rare(rng: np.random.Generator, runs: int) -> tuple[float, float]:
    """Coverage with as few clicks as the Open Bandit log has: corrected, and symmetric."""
    w = world(rate=np.array([0.01, 0.01, 0.02, 0.01, 0.02]) / 3, users=10_000, rows=1)
    corrected = symmetric = 0
    for _ in range(runs):
        reward, logging, evaluation, _, _ = w.draw(rng)
        found = valued("snips", reward, logging, evaluation)
        if found.low is None:
            continue
        corrected += found.low <= w.truth <= found.high
        symmetric += abs(found.value - w.truth) <= 1.96 * found.se
    return corrected / runs, symmetric / runs


@pytest.mark.slow
def test_intervals_of_rare_clicks_are_corrected_for_skewness() -> None:
    corrected, symmetric = rare(np.random.default_rng(31), 1000)
    assert within(corrected, 1000)
    assert symmetric < 0.93
