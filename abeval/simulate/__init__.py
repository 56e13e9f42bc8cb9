"""Simulate logs of an A/B test with known truth, to try abeval and to test it."""

from abeval.simulate.designs import simulate_design
from abeval.simulate.dirt import Truth
from abeval.simulate.run import simulate
from abeval.simulate.world import DEFAULT_IMPRESSIONS, LEAST_IMPRESSIONS

__all__ = ["DEFAULT_IMPRESSIONS", "LEAST_IMPRESSIONS", "Truth", "simulate", "simulate_design"]
