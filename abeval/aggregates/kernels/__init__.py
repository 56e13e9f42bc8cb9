"""Compute some queries of `queries/units` over arrays: the same numbers, sooner.

The queries are the definitions, and run on every engine. Each kernel says which of them it stands
for, and the tests hold the two against each other to the last digit.
"""
