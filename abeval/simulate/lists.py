"""Lists of requests: the served model's items, both models' scores, and clicks.

Every request is ranked by both models, so that expected clicks under either model are known for
the same requests; only the served model's list is shown.

`run.py` calls it on a chunk of requests at a time, and hands the lists to `files.py` and the
expected clicks to `truth.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abeval.simulate.visits import Bools, Requests
from abeval.simulate.world import LIST_LENGTH, Catalogue, Floats, Ints, Users

Number = TypeVar("Number", np.float64, np.int64)

POSITION_BIAS = np.arange(1, LIST_LENGTH + 1) ** -0.6

_MEAN_APPEAL = -1.82
_APPEAL_SPREAD = 0.98
_OWN_SPREAD = 0.7
_FAVOURITE = 0.8
_DEVICE_EFFECT = np.array([0.05, 0.0, -0.15])
# Noise in the ranking, so that position is not a function of the score.
_EXPLORATION = 0.5
_SCORE_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Model:
    """A ranking model: it observes an item's appeal with noise and predicts click probabilities.

    ``exposure`` is the mean position effect on the model's own lists, so that scores add up to
    about the number of clicks.
    """

    noise: float
    exposure: float

    def estimate_appeal(self, appeal: Floats, rng: np.random.Generator) -> Floats:
        """Expected appeal, from a noisy observation of the appeal."""
        trust = _APPEAL_SPREAD**2 / (_APPEAL_SPREAD**2 + self.noise**2)
        view = appeal + self.noise * rng.standard_normal(appeal.shape)
        return _MEAN_APPEAL + trust * (view - _MEAN_APPEAL)

    def score(self, estimated: Floats) -> Floats:
        """Click probability; uncertainty moves the mean of a logit's sigmoid towards one half."""
        trust = _APPEAL_SPREAD**2 / (_APPEAL_SPREAD**2 + self.noise**2)
        unseen = _APPEAL_SPREAD**2 * (1 - trust)
        chance = self.exposure * _sigmoid(estimated / np.sqrt(1 + np.pi / 8 * unseen))
        return np.round(chance, _SCORE_DIGITS)


BASELINE = Model(noise=1.3, exposure=0.36)
CANDIDATE = Model(noise=0.8, exposure=0.38)


@dataclass(frozen=True, slots=True)
class ServedLists:
    """Lists of some requests, one row per request and one column per position.

    ``expected_clicks`` are those in the test period if the baseline, and if the candidate, had
    served all requests.
    """

    item: Ints
    score_baseline: Floats
    score_candidate: Floats
    clicked: Bools
    expected_clicks: tuple[float, float]


def serve(
    catalogue: Catalogue, users: Users, requests: Requests, rng: np.random.Generator
) -> ServedLists:
    """Lists and clicks of some requests."""
    pool = catalogue.draw_pools(rng, len(requests.user))
    appeal = _appeal(catalogue, users, requests, pool, rng)
    estimated = BASELINE.estimate_appeal(appeal, rng), CANDIDATE.estimate_appeal(appeal, rng)
    lists = _rank(estimated[0], rng), _rank(estimated[1], rng)
    served = np.where(requests.variant[:, None] == 1, lists[1], lists[0])
    chance = _click_chance(appeal, served)
    counts = requests.in_test & ~requests.anonymous
    return ServedLists(
        item=catalogue.item_id[_pick(pool, served)],
        score_baseline=BASELINE.score(_pick(estimated[0], served)),
        score_candidate=CANDIDATE.score(_pick(estimated[1], served)),
        clicked=(rng.random(chance.shape) < chance) & ~requests.anonymous[:, None],
        expected_clicks=(_expected(appeal, lists[0], counts), _expected(appeal, lists[1], counts)),
    )


def _appeal(
    catalogue: Catalogue, users: Users, requests: Requests, pool: Ints, rng: np.random.Generator
) -> Floats:
    """Appeal of every candidate item to the request's user, as a logit."""
    per_request = users.readiness[requests.user] + _DEVICE_EFFECT[requests.device]
    match = catalogue.category[pool] == users.favourite[requests.user][:, None]
    own = _OWN_SPREAD * rng.standard_normal(pool.shape)
    level = _MEAN_APPEAL - 0.1 * _FAVOURITE + per_request[:, None]
    appeal: Floats = level + catalogue.quality[pool] + _FAVOURITE * match + own
    return appeal


def _rank(appeal: Floats, rng: np.random.Generator) -> Ints:
    key = appeal + _EXPLORATION * rng.standard_normal(appeal.shape)
    return np.argsort(-key, axis=1)[:, :LIST_LENGTH]


def _pick(values: NDArray[Number], chosen: Ints) -> NDArray[Number]:
    return np.take_along_axis(values, chosen, axis=1)


def _click_chance(appeal: Floats, chosen: Ints) -> Floats:
    return POSITION_BIAS * _sigmoid(_pick(appeal, chosen))


def _expected(appeal: Floats, chosen: Ints, counts: Bools) -> float:
    return float(_click_chance(appeal[counts], chosen[counts]).sum())


def _sigmoid(logit: Floats) -> Floats:
    return 1 / (1 + np.exp(-logit))
