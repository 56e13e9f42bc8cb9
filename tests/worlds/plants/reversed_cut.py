"""A candidate that is better in the app and worse on the web, where lists are shorter."""

from __future__ import annotations

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats
from tests.worlds.plants.steps import FIRST_SPREAD, Plant, Random, Signals, Steps, best
from tests.worlds.plants.traffic import FEED, HOME_LENGTH, WEB, Traffic

_APP_LENGTH = 6
_WEB_LENGTH = 4
_NOISE = 4.0


def _view(traffic: Traffic, known: Signals, rng: Random) -> Floats:
    """The candidate knows more in the app; on the web, little of what the baseline knows."""
    noisy = known.first + _NOISE * FIRST_SPREAD * rng.standard_normal(known.first.shape)
    blind = (traffic.surface == WEB) & (traffic.scene == FEED)
    everything = known.first + known.second
    return np.where(blind[:, None], noisy / (1 + _NOISE**2), everything)


def _choose(traffic: Traffic, logit: Floats, rng: Random) -> Bools:
    """The web shows fewer items of a pool than the app, so that their order matters more."""
    of_feed = np.where(traffic.surface == WEB, _WEB_LENGTH, _APP_LENGTH)
    return best(logit, np.where(traffic.scene == FEED, of_feed, HOME_LENGTH), rng)


REVERSED_CUT = Plant(
    "reversed_cut",
    "reversal",
    "The candidate is better in the app and worse on the web, whose lists are shorter and count "
    "for less offline.",
    Steps(view=_view, choose=_choose),
)
