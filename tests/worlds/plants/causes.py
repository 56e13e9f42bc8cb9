"""Every cause that can be planted."""

from __future__ import annotations

from abeval.errors import ExperimentError
from tests.worlds.plants.cannibalised import CANNIBALISED
from tests.worlds.plants.half_precision import HALF_PRECISION
from tests.worlds.plants.leaked_feature import LEAKED_FEATURE
from tests.worlds.plants.miscalibration import MISCALIBRATION
from tests.worlds.plants.news import CANDIDATES, TRAINING_POLICY
from tests.worlds.plants.overlap import OVERLAP
from tests.worlds.plants.position import POSITION
from tests.worlds.plants.promotion import PROMOTION
from tests.worlds.plants.reordered import REORDERED
from tests.worlds.plants.reversed_cut import REVERSED_CUT
from tests.worlds.plants.skewed_scores import SKEWED_SCORES
from tests.worlds.plants.stale_model import STALE_MODEL
from tests.worlds.plants.steps import Plant
from tests.worlds.plants.timeouts import TIMEOUTS

NONE = Plant("none", "", "Nothing is wrong: the candidate is better offline and online.")

PLANTS = (
    LEAKED_FEATURE,
    OVERLAP,
    SKEWED_SCORES,
    HALF_PRECISION,
    POSITION,
    STALE_MODEL,
    TIMEOUTS,
    MISCALIBRATION,
    CANNIBALISED,
    PROMOTION,
    REVERSED_CUT,
    REORDERED,
    CANDIDATES,
    TRAINING_POLICY,
    NONE,
)


def named_plant(name: str) -> Plant:
    """A cause by its name.

    Raises:
        ExperimentError: There is none of this name.
    """
    by_name = {plant.name: plant for plant in PLANTS}
    if name not in by_name:
        raise ExperimentError(f"no cause {name!r} to plant", f"choose from {', '.join(by_name)}")
    return by_name[name]
