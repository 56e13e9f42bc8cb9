"""Turn aggregates into comparisons, trust checks and a verdict: `judge`."""
