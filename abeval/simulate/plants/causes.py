"""Every cause that can be planted."""

from __future__ import annotations

from abeval.errors import ExperimentError
from abeval.simulate.plants.cannibalised import CANNIBALISED
from abeval.simulate.plants.half_precision import HALF_PRECISION
from abeval.simulate.plants.leaked_feature import LEAKED_FEATURE
from abeval.simulate.plants.miscalibration import MISCALIBRATION
from abeval.simulate.plants.news import CANDIDATES, TRAINING_POLICY
from abeval.simulate.plants.overlap import OVERLAP
from abeval.simulate.plants.position import POSITION
from abeval.simulate.plants.promotion import PROMOTION
from abeval.simulate.plants.reordered import REORDERED
from abeval.simulate.plants.reversed_cut import REVERSED_CUT
from abeval.simulate.plants.skewed_scores import SKEWED_SCORES
from abeval.simulate.plants.stale_model import STALE_MODEL
from abeval.simulate.plants.steps import Plant
from abeval.simulate.plants.timeouts import TIMEOUTS

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
