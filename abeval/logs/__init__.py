"""Logs as users have them → the canonical views that `queries/` reads.

`mapping` finds which column is what, `duplicates` sets repeated rows aside, `views` writes the
canonical views, `clicks` gives each click its impression, and `prepare` runs them in order.
"""
