"""Check whether the numbers can be read at all: `checks.py` has the table of all checks."""
