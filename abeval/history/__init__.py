"""Past experiments: a file of their effects, and what they say together.

`api/` hands over results and the path of a file; what comes back is of `results/history.py` and
`history_report.py`.
"""
