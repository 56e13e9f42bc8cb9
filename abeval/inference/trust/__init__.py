"""Check whether the numbers can be read at all, before a verdict.

`checks.py` has the list of them, `family.py` the rule by which their p-values become statuses.
"""
