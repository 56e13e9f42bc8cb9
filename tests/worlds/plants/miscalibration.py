"""Scores that are too high, where lists end at a score: too many poor items are shown."""

from __future__ import annotations

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Plant, Random, Steps, best
from tests.worlds.plants.traffic import FEED, HOME_LENGTH, Traffic

_INFLATED_BY = 0.9
_LEAST = 3


def _choose(traffic: Traffic, logit: Floats, rng: Random) -> Bools:
    """The feed shows what is above the baseline's middle score, three items at least."""
    feed = traffic.scene == FEED
    control = logit[feed & ~traffic.by_treatment]
    worth = logit > np.median(control)
    shown: Bools = best(logit, np.where(feed, _LEAST, HOME_LENGTH), rng) | (worth & feed[:, None])
    return shown


MISCALIBRATION = Plant(
    "miscalibration",
    "calibration",
    "The candidate orders items better but predicts too many clicks, and lists show every item "
    "above a score: in the treatment they get longer by poor items.",
    Steps(choose=_choose, inflated_by=_INFLATED_BY),
)
