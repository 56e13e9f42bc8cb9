"""Check whether the numbers can be trusted; `checks.py` lists all checks."""
