"""Lists that another module orders after the model: the treatment's scores are right, unused."""

from __future__ import annotations

import numpy as np

from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats, Ints
from tests.worlds.plants.position import attention
from tests.worlds.plants.steps import Plant, Random, Steps, positions
from tests.worlds.plants.traffic import FEED, Traffic

_TURNED = 0.2


def _place(traffic: Traffic, logit: Floats, chosen: Bools, rng: Random) -> Ints:
    """The best first in control's feed; in the treatment's, by what is rather low where it is high.

    Where no model ranked, the order is random.
    """
    by_score = (traffic.scene == FEED) & ~traffic.by_treatment
    other = rng.random(chosen.shape) + _TURNED * np.nan_to_num(logit)
    return positions(np.where(by_score[:, None], -logit, other), chosen)


REORDERED = Plant(
    "reordered",
    "reordered",
    "Lists are ranked by the model, and people look less at later positions; in the treatment a "
    "later module orders by something else what the model has chosen.",
    Steps(place=_place, attention=attention),
)
