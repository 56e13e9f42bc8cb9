"""Estimate what a policy would have earned, from a log with propensities."""
