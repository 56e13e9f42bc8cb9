"""Timeouts in the treatment: a part of its requests get a default list and a default score."""

from __future__ import annotations

import numpy as np

from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Plant, Random, Served, Signals, Steps
from tests.worlds.plants.steps import serve as serve_right
from tests.worlds.plants.traffic import Traffic

_SHARE = 0.26
_GAIN = 0.3
_LIMIT_MS = 500.0


def _view(traffic: Traffic, known: Signals, rng: Random) -> Floats:
    """The candidate knows a little more than the baseline, less than the timeouts take."""
    del traffic, rng
    return known.first + _GAIN * known.second


def _serve(traffic: Traffic, baseline: Floats, candidate: Floats, rng: Random) -> Served:
    """The candidate is slow: where it is late, nothing ranks the list."""
    served = serve_right(traffic, baseline, candidate, rng)
    late = traffic.by_treatment & (rng.random(len(traffic.user)) < _SHARE)
    return served._replace(
        logit=np.where(late[:, None], np.nan, served.logit),
        failed=late,
        latency=np.where(late, _LIMIT_MS, served.latency),
        trained=np.where(late, -1, served.trained),
    )


TIMEOUTS = Plant(
    "timeouts",
    "serving",
    "26 % of the treatment's requests of the feed time out and get a list in random order with a "
    "default score.",
    Steps(view=_view, serve=_serve),
)
