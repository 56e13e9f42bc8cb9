"""Aggregates → comparisons, trust checks and a verdict. `judge` runs it all on an `Analysis`."""
