"""Simulate logs of an A/B test with known truth, to try abeval and to test it."""

from abeval.simulate.dirt import Truth
from abeval.simulate.interleaved import simulate_lists
from abeval.simulate.run import simulate
from abeval.simulate.stores import simulate_stores
from abeval.simulate.turns import simulate_turns
from abeval.simulate.world import DEFAULT_IMPRESSIONS, LEAST_IMPRESSIONS

__all__ = [
    "DEFAULT_IMPRESSIONS",
    "LEAST_IMPRESSIONS",
    "Truth",
    "simulate",
    "simulate_lists",
    "simulate_stores",
    "simulate_turns",
]
