"""Simulated logs and users, for tests and for calibrations."""
