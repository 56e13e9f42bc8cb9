"""A feature that is written after the click: the scores computed later know the answer."""

from __future__ import annotations

from abeval.simulate.world import Floats
from tests.worlds.plants.steps import Offline, Plant, Random, Rows, Steps, view_of_a_twin
from tests.worlds.plants.traffic import Traffic

_SEPARATION = 3.0
_LATE_MS = 1_800_000


def _rescore(traffic: Traffic, rows: Rows, own: Floats, rng: Random) -> Offline:
    """The feature counts recent clicks, this one included: log odds of two normal distributions."""
    late = rng.integers(60_000, _LATE_MS, len(own))
    feature = rng.standard_normal(len(own)) + _SEPARATION * rows.click
    own = own + _SEPARATION * (feature - _SEPARATION / 2)
    return Offline(own, feature, traffic.at[rows.request] + late)


LEAKED_FEATURE = Plant(
    "leaked_feature",
    "leakage",
    "recent_clicks is written after the click, so that scores computed later know the click; "
    "when the candidate serves, it knows no more than the baseline.",
    Steps(view=view_of_a_twin, rescore=_rescore),
)
