"""Print the calibration table: `python -m benchmarks.calibration --repetitions 10000`."""

import argparse
import os
import sys

from benchmarks.calibration.outcome import markdown
from benchmarks.calibration.run import calibrate


def main() -> None:
    """Run every study and print its table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration")
    parser.add_argument("--repetitions", type=int, default=10_000, help="per study")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=None, help="all cores by default")
    options = parser.parse_args()
    # One thread per worker process; together the workers use every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    outcomes = calibrate(options.repetitions, options.seed, options.processes)
    sys.stdout.write(markdown(outcomes) + "\n")


if __name__ == "__main__":
    main()
