"""Logs of an A/B test with known truth, for trying things out and for testing abeval itself."""

from abeval.simulate.plan import DEFAULT_IMPRESSIONS, LEAST_IMPRESSIONS
from abeval.simulate.run import simulate
from abeval.simulate.truth import Truth

__all__ = ["DEFAULT_IMPRESSIONS", "LEAST_IMPRESSIONS", "Truth", "simulate"]
