"""Sums per unit → each metric with its interval, and models compared in pairs."""
