"""Calibrations: a module each, with `TABLES` for `python -m benchmarks calibrate NAME`."""
