"""Logs as users have them → the canonical views that `queries/` reads, cells, placed units."""
