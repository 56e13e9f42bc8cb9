"""Engines run the SQL of `queries/`; none of them knows a statistic."""
