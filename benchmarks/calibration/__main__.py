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
    asked = parser.parse_args()
    # Workers are spawned with one thread each; together they use every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = calibrate(asked.repetitions, asked.seed, asked.processes)
    sys.stdout.write(markdown(found) + "\n")


if __name__ == "__main__":
    main()
