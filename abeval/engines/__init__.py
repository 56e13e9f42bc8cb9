"""Engines run the SQL of `queries/`; they know nothing of statistics."""
