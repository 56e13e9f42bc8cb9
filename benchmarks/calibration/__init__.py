"""Calibration of every test: false-positive rates and coverage, by simulation.

`python -m benchmarks.calibration` simulates A/A and A/B experiments on data like those of logs. It
prints the false-positive rate at alpha .05 and the coverage at 95 % of every test.
"""

from benchmarks.calibration.outcome import Outcome, markdown
from benchmarks.calibration.run import calibrate

__all__ = ["Outcome", "calibrate", "markdown"]
