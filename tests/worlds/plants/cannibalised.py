"""Gains taken from another scene: home shows the items of the pool that the feed left."""

from __future__ import annotations

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Plant, Random, Signals, Steps, best
from tests.worlds.plants.steps import signals as signals_of_requests
from tests.worlds.plants.traffic import FEED, LIST_LENGTH, Traffic


def _signals(traffic: Traffic, rng: Random) -> Signals:
    """Both requests of a visit share a pool."""
    feed = traffic.where(traffic.scene == FEED)
    return Signals._make(np.repeat(own, 2, axis=0) for own in signals_of_requests(feed, rng))


def _choose(traffic: Traffic, logit: Floats, rng: Random) -> Bools:
    """Half of the pool in the feed, and the other half in home, so that nothing is shown twice."""
    in_feed = best(logit, np.full(len(logit), LIST_LENGTH), rng)[traffic.scene == FEED]
    return np.stack([in_feed, ~in_feed], axis=1).reshape(logit.shape)


CANNIBALISED = Plant(
    "cannibalised",
    "cannibalised",
    "The treatment moves items that people like from home into the feed: what the feed gains, home "
    "loses, and all together stay as they were.",
    Steps(signals=_signals, choose=_choose),
)
