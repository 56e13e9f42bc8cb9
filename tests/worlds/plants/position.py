"""A position that the model learns and the server sets to zero, in lists ranked by the model."""

from __future__ import annotations

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats, Ints
from tests.worlds.plants.steps import (
    Offline,
    Plant,
    Random,
    Rows,
    Steps,
    positions,
    view_of_a_twin,
)
from tests.worlds.plants.steps import rescore as rescore_clean
from tests.worlds.plants.traffic import Traffic

_DECAY = 0.8


def _place(traffic: Traffic, logit: Floats, chosen: Bools, rng: Random) -> Ints:
    """The best first, by a noisy order; any order where no model ranked."""
    del traffic
    return positions(-(np.nan_to_num(logit) + 0.5 * rng.gumbel(size=logit.shape)), chosen)


def attention(traffic: Traffic, position: Ints) -> Floats:
    """People look less at later positions."""
    del traffic
    seen: Floats = -_DECAY * np.log(np.maximum(position, 1))
    return seen


def _rescore(traffic: Traffic, rows: Rows, own: Floats, rng: Random) -> Offline:
    """Computed later, the candidate's scores know the real position."""
    return rescore_clean(traffic, rows, own + attention(traffic, rows.position), rng)


POSITION = Plant(
    "position",
    "position",
    "Lists are ranked by the model, and people look less at later positions. The candidate learned "
    "the position, which is zero when it serves; without it, it knows no more than the baseline.",
    Steps(view=view_of_a_twin, place=_place, attention=attention, rescore=_rescore),
)
