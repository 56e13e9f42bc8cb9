"""Aggregates → comparisons, trust checks and a verdict: which statistic runs, and what it says."""
