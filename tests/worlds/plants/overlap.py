"""Training data that contain rows of the test: the candidate remembers their clicks."""

from __future__ import annotations

from abeval.simulate.visits import Bools
from tests.worlds.plants.steps import Plant, Random, Rows, Steps, view_of_a_twin
from tests.worlds.plants.traffic import Traffic

_SHARE = 0.6
_MEMORY = 1.5


def _learned(traffic: Traffic, rows: Rows, rng: Random) -> Bools:
    """The week before, and most requests of control in the test."""
    again = (rng.random(len(traffic.user)) < _SHARE) & ~traffic.treated
    learned: Bools = (traffic.before | again)[rows.request]
    return learned


OVERLAP = Plant(
    "overlap",
    "overlap",
    "The training data contain 60 % of control's rows of the test, whose clicks the candidate "
    "remembers; on other rows it knows no more than the baseline.",
    Steps(view=view_of_a_twin, learned=_learned, memory=_MEMORY),
)
