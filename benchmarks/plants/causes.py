"""Every cause that can be planted."""

from __future__ import annotations

from abeval.errors import ExperimentError
from benchmarks.plants.cannibalised import CANNIBALISED
from benchmarks.plants.half_precision import HALF_PRECISION
from benchmarks.plants.leaked_feature import LEAKED_FEATURE
from benchmarks.plants.miscalibration import MISCALIBRATION
from benchmarks.plants.news import CANDIDATES, TRAINING_POLICY
from benchmarks.plants.overlap import OVERLAP
from benchmarks.plants.position import POSITION
from benchmarks.plants.promotion import PROMOTION
from benchmarks.plants.reordered import REORDERED
from benchmarks.plants.reversed_cut import REVERSED_CUT
from benchmarks.plants.skewed_scores import SKEWED_SCORES
from benchmarks.plants.stale_model import STALE_MODEL
from benchmarks.plants.steps import Plant
from benchmarks.plants.timeouts import TIMEOUTS

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
