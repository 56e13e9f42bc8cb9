"""Logs as users have them → the canonical views that `queries/` reads.

`mapping` finds the columns of each log, `shape` those that the metrics sum; `duplicates` finds
repeated rows; `canonical` and `views` write SQL; `prepare` runs all of it in order; `accounting`
counts the rows that were used, and by reason those that were not.
"""
