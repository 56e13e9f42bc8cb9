"""Simulated logs of an A/B test with known truth, to try abeval and to test it."""

from abeval.simulate.plan import DEFAULT_IMPRESSIONS, LEAST_IMPRESSIONS
from abeval.simulate.run import simulate
from abeval.simulate.truth import Truth

__all__ = [
    "DEFAULT_IMPRESSIONS",
    "LEAST_IMPRESSIONS",
    "Truth",
    "simulate",
]
