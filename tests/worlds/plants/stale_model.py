"""A model that is not updated: what the candidate knows of items grows old."""

from __future__ import annotations

import numpy as np

from abeval.simulate.world import DAY_MS, PRE_DAYS, Floats
from tests.worlds.plants.steps import Plant, Random, Served, Steps
from tests.worlds.plants.steps import serve as serve_right
from tests.worlds.plants.traffic import Traffic

_TRAINED_DAY = PRE_DAYS - 2
_HALF_LIFE_DAYS = 4.0


def _serve(traffic: Traffic, baseline: Floats, candidate: Floats, rng: Random) -> Served:
    """The treatment's model is that of two days before the test, which fits less every day."""
    age = traffic.day - _TRAINED_DAY
    kept = 0.5 ** (np.maximum(age, 0) / _HALF_LIFE_DAYS)[:, None]
    middle, spread = candidate.mean(), candidate.std()
    outdated = spread * rng.standard_normal(candidate.shape)
    old = middle + kept * (candidate - middle) + np.sqrt(1 - kept**2) * outdated
    served = serve_right(traffic, baseline, old, rng)
    trained = np.where(traffic.by_treatment, _TRAINED_DAY * DAY_MS, served.trained)
    return served._replace(trained=trained)


STALE_MODEL = Plant(
    "stale_model",
    "stale_model",
    "The treatment serves a model of two days before the test, while control's is new every day; "
    "what it knows of items fits less every day.",
    Steps(serve=_serve),
)
