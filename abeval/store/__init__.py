"""Aggregates kept as files: sums per input file, so that a refresh reads new files alone."""
