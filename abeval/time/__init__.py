"""Estimate effects over time: windows, stability, novelty, looks."""
