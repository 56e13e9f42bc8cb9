"""Two days of a promotion, which the treatment's lists do not show."""

from __future__ import annotations

import numpy as np

from abeval.simulate.world import PRE_DAYS, Floats, Ints
from tests.worlds.plants.steps import Plant, Random, Steps
from tests.worlds.plants.steps import attention as attention_clean
from tests.worlds.plants.traffic import FEED, Traffic, draw_traffic

DAYS = (PRE_DAYS + 8, PRE_DAYS + 9)
_TIMES = 2.5
_BADGE = 0.7


def _traffic(impressions: int, rng: Random) -> Traffic:
    return draw_traffic(impressions, rng, DAYS, _TIMES)


def _attention(traffic: Traffic, position: Ints) -> Floats:
    """On these days, items of control's feed have a badge, which the new lists cannot show."""
    badged = np.isin(traffic.day, DAYS) & (traffic.scene == FEED) & ~traffic.treated
    seen: Floats = attention_clean(traffic, position) + _BADGE * badged[:, None]
    return seen


PROMOTION = Plant(
    "promotion",
    "promotion",
    "On 22 and 23 September more people come for a promotion, whose badges only the lists of "
    "control show: the effect of these days is another.",
    Steps(traffic=_traffic, attention=_attention),
)
