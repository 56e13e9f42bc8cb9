"""Candidates → the sums of every metric per unit, by queries or by kernels."""
