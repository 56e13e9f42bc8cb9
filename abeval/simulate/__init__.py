"""Simulated logs of an A/B test with known truth, to try abeval and to test it."""

from abeval.simulate.plan import DEFAULT_IMPRESSIONS, LEAST_IMPRESSIONS
from abeval.simulate.plants import PlantedTruth, simulate_plant
from abeval.simulate.run import simulate
from abeval.simulate.truth import Truth

__all__ = [
    "DEFAULT_IMPRESSIONS",
    "LEAST_IMPRESSIONS",
    "PlantedTruth",
    "Truth",
    "simulate",
    "simulate_plant",
]
