"""The checks that gate a verdict: can these numbers be read at all?

`checks.py` has the list of them, `family.py` the rule by which their p-values become statuses.
"""
