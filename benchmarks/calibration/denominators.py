"""Levels of the check `denominators` in A/A tests of skewed counts, beside Welch's test.

    python -m benchmarks.calibration.denominators --repetitions 4000

Impressions per user are lognormal, rounded up. `at_once.py` judges them as the check does.
"""

import argparse
import sys

import numpy as np

from abeval.stats.records import Floats
from benchmarks.calibration.at_once import Arm, Sides, arm, judge, welch

SPLITS = ((1_800, 200), (9_000, 1_000), (9_900, 100))
SIGMAS = (1.0, 1.5)
LEVELS = (0.01, 0.003)
_AT_ONCE = 200


def drawn(rng: np.random.Generator, units: int, sigma: float, runs: int) -> Arm:
    """Variants of so many experiments."""
    sums = []
    for start in range(0, runs, _AT_ONCE):
        shape = min(_AT_ONCE, runs - start), units
        values = np.ceil(rng.lognormal(1.0, sigma, shape))
        sums.append(np.stack([(values**k).sum(axis=1) for k in (1, 2, 3)], axis=-1))
    return arm(np.concatenate(sums), units)


def rates(sides: Sides) -> Floats:
    """How often a test rejects at each of the levels; one without an answer does not."""
    p_values = np.nan_to_num(2 * np.minimum(*sides), nan=1.0)
    return np.array([(p_values <= level).mean() for level in LEVELS])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng([options.seed, 36])
    names = (f"{name} at {level:g}" for name in ("Welch", "the check") for level in LEVELS)
    sys.stdout.write(
        f"| units | σ | {' | '.join(names)} | no test |\n|---|--:|--:|--:|--:|--:|--:|\n"
    )
    for sigma in SIGMAS:
        for split in SPLITS:
            arms = [drawn(rng, units, sigma, options.repetitions) for units in split]
            judged = judge(*arms)
            numbers = [*rates(welch(*arms)), *rates(judged.sides), judged.refused.mean()]
            cells = " | ".join(f"{number:.2%}" for number in numbers)
            sys.stdout.write(f"| {split[0]:,}/{split[1]:,} | {sigma:g} | {cells} |\n")


if __name__ == "__main__":
    main()
