"""Does every test keep its promise? Error rates and coverage by simulation, rerun by anyone.

`python -m benchmarks.calibration` simulates A/A and A/B experiments on data like logs and prints,
for every test, its false-positive rate at alpha .05 and its coverage at 95 %.
"""

from benchmarks.calibration.outcome import Outcome, markdown
from benchmarks.calibration.run import calibrate

__all__ = ["Outcome", "calibrate", "markdown"]
