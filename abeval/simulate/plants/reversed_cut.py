"""A candidate that is better in the app and worse on the web, where lists are short."""

from __future__ import annotations

import numpy as np

from abeval.simulate.plants.steps import FIRST_SPREAD, Plant, Random, Signals, Steps, best
from abeval.simulate.plants.traffic import FEED, HOME_LENGTH, LIST_LENGTH, WEB, Traffic
from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats

_SHORT_LIST = 4


def _view(traffic: Traffic, known: Signals, rng: Random) -> Floats:
    """On the web, the candidate does not know half of what the baseline knows."""
    noisy = known.first + FIRST_SPREAD * rng.standard_normal(known.first.shape)
    web = _web_feed(traffic)[:, None]
    return np.where(web, noisy / 2, known.first) + np.where(web, 0.0, known.second)


def _choose(traffic: Traffic, logit: Floats, rng: Random) -> Bools:
    """On the web a list is short, so that the order of the pool matters more."""
    usual = np.where(traffic.scene == FEED, LIST_LENGTH, HOME_LENGTH)
    return best(logit, np.where(_web_feed(traffic), _SHORT_LIST, usual), rng)


def _web_feed(traffic: Traffic) -> Bools:
    short: Bools = (traffic.surface == WEB) & (traffic.scene == FEED)
    return short


REVERSED_CUT = Plant(
    "reversed_cut",
    "reversal",
    "The candidate is better in the app and worse on the web, where lists are short and count for "
    "little offline.",
    Steps(view=_view, choose=_choose),
)
