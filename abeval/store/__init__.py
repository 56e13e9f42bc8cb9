"""Aggregates as files, and sums that a warehouse computed."""
