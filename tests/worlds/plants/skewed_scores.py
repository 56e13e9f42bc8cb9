"""A feature that the server reads from the wrong place: served scores are not the model's own."""

from __future__ import annotations

import numpy as np

from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Plant, Random, Served, Steps
from tests.worlds.plants.steps import serve as serve_right
from tests.worlds.plants.traffic import Traffic

_OF_ANOTHER = 0.55


def _serve(traffic: Traffic, baseline: Floats, candidate: Floats, rng: Random) -> Served:
    """Of each item, a part of the log odds is that of the item next to it in the pool."""
    another = np.roll(candidate, 1, axis=1)
    mixed = (1 - _OF_ANOTHER) * candidate + _OF_ANOTHER * another
    return serve_right(traffic, baseline, mixed, rng)


SKEWED_SCORES = Plant(
    "skewed_scores",
    "served_score",
    "The server reads a feature of another item: the treatment is ranked by scores that are not "
    "those of its model.",
    Steps(serve=_serve),
)
