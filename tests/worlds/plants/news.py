"""News that a part of the requests never shows: candidates that are lost, or an old policy's data.

News is the first fifth of a pool (`files.py` names the categories).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Plant, Random, Signals, Steps, choose, signals
from tests.worlds.plants.traffic import POOL, Traffic

_NEWS = np.arange(POOL) < POOL // 5
_LIKED = 0.9
_DISLIKED = -1.6
_HOPED = 1.6
_NEVER = -1e6


def _signals(liked: float, traffic: Traffic, rng: Random) -> Signals:
    """News is liked more or less than the rest, and the baseline knows it."""
    known = signals(traffic, rng)
    return known._replace(first=known.first + liked * _NEWS)


def _lost(traffic: Traffic, logit: Floats, rng: Random) -> Bools:
    """The treatment's feed gets no news."""
    absent = traffic.by_treatment[:, None] & _NEWS
    return choose(traffic, np.where(absent, _NEVER, logit), rng)


def _unseen(traffic: Traffic, logit: Floats, rng: Random) -> Bools:
    """Before the test, no news is shown."""
    absent = traffic.before[:, None] & _NEWS
    return choose(traffic, np.where(absent, _NEVER, logit), rng)


def _view(traffic: Traffic, known: Signals, rng: Random) -> Floats:
    """The candidate takes news for better than the rest."""
    del traffic, rng
    view: Floats = known.first + known.second + (_HOPED - _DISLIKED) * _NEWS
    return view


CANDIDATES = Plant(
    "candidates",
    "candidates",
    "A source of candidates fails: news, which people like most, never reaches the treatment's "
    "model.",
    Steps(signals=partial(_signals, _LIKED), choose=_lost),
)
TRAINING_POLICY = Plant(
    "training_policy",
    "training_policy",
    "The candidate learned from a week in which no news was shown: it takes news for better "
    "than the rest, and shows much of it.",
    Steps(signals=partial(_signals, _DISLIKED), view=_view, choose=_unseen),
)
