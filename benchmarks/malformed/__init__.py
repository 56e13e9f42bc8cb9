"""Malformed inputs by the hundred, and how each ends.

    python -m benchmarks.malformed [--count 1600] [--seed 1]

An input must end in a result, or in one message and exit code 2: never in a traceback, a fault of
abeval, a run without end, a file that is half written, or replaced though nothing was computed, or
left behind.
"""
