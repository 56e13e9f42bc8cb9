"""0/1 metrics with few successes, as the analysis judges them.

    python -m benchmarks.calibration.rare

A/A tests, and a doubled rate in the smaller arm, of 20,000 units in all, judged by
`compare_moments`. Beside it the share that Welch's test rejects.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.inference.comparison import Comparison, Rule, compare_moments
from abeval.metrics.definition import Metric
from abeval.stats import means
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

ALPHA = 0.05
UNITS = 20_000
SHARES = (0.5, 0.1, 0.01)
EXPECTED = (1, 2, 3, 5, 10, 20, 40, 80)
LIFT = 1.0
METRIC = Metric("converted", "mean", "Σ converted / units")


class Cell(NamedTuple):
    """One split and expected number of successes in the smaller arm; shares of repetitions.

    Attributes:
        share: Units of the smaller arm, as a share of all.
        expected: Successes that it expects in an A/A test.
        welch: A/A tests that Welch's test rejects.
        rejected: A/A tests that the analysis rejects.
        exact: A/A tests that the exact test judged.
        covered: A/A intervals of the difference that hold zero, in `rejected`'s tests.
        covered_effect: Intervals of the difference that hold it where the smaller arm's rate is
            doubled.
        covered_lift: Intervals of the lift that hold it there, of those that have one.
    """

    share: float
    expected: int
    welch: float
    rejected: float
    exact: float
    covered: float
    covered_effect: float
    covered_lift: float


class Verdict(NamedTuple):
    """What one pair of counts says."""

    welch: bool
    rejected: bool
    exact: bool
    covered: bool
    covered_lift: float


def cells(runs: int, seed: int = 0) -> Iterator[Cell]:
    """Every split and count, in order."""
    for share in SHARES:
        for expected in EXPECTED:
            units = round(share * UNITS)
            if expected / units <= 0.25:
                yield cell(share, expected, runs, seed)


def cell(share: float, expected: int, runs: int, seed: int = 0, units: int = UNITS) -> Cell:
    """One cell, the smaller arm being the treatment."""
    rng = np.random.default_rng([seed, round(1000 * share), expected])
    smaller = round(share * units)
    arms, rate = (units - smaller, smaller), expected / smaller
    null = rng.binomial(arms, rate, size=(runs, 2))
    effect = rng.binomial(arms, (rate, rate * (1 + LIFT)), size=(runs // 4, 2))
    no_effect = judged(null, lambda c, t: verdict((c, arms[0]), (t, arms[1]), 0.0, 0.0))
    doubled = judged(effect, lambda c, t: verdict((c, arms[0]), (t, arms[1]), rate * LIFT, LIFT))
    welch, rejected, exact, covered, _ = no_effect.mean(axis=0).tolist()
    lifts = doubled[:, 4]
    return Cell(
        share,
        expected,
        welch,
        rejected,
        exact,
        covered,
        float(doubled[:, 3].mean()),
        float(np.nanmean(lifts)),
    )


def judged(counts: NDArray[np.int64], judge: Callable[[int, int], Verdict]) -> NDArray[np.float64]:
    """The verdict of every pair of counts; each distinct pair is judged once."""
    distinct, place = np.unique(counts, axis=0, return_inverse=True)
    verdicts = np.array([judge(int(c), int(t)) for c, t in distinct], dtype=float)
    return verdicts[place.ravel()]


def verdict(
    control: tuple[int, int], treatment: tuple[int, int], difference: float, lift: float
) -> Verdict:
    """What Welch's test and the analysis say of successes and units."""
    arms = moments(*control), moments(*treatment)
    result = compare_moments(METRIC, *arms, Rule(ALPHA))
    try:
        welch = means.welch(*arms, ALPHA).p_value < ALPHA
    except Refusal:
        welch = False
    if result.effect is None:
        return Verdict(welch, False, False, True, math.nan)
    effect = result.effect
    covered = effect.low - 1e-12 <= difference <= effect.high + 1e-12
    exact = effect.method == "fisher_exact"
    return Verdict(welch, effect.p_value < ALPHA, exact, covered, _covered_lift(result, lift))


def _covered_lift(result: Comparison, lift: float) -> float:
    if result.lift is None:
        return math.nan
    return float(result.lift.low - 1e-12 <= lift <= result.lift.high + 1e-12)


def moments(successes: int, units: int) -> Moments:
    """Moments of (y, x) over units of which so many have y = 1."""
    products = [[successes, successes], [successes, units]]
    return Moments.from_sums(units, [successes, units], products, [1.0, 1.0])


def markdown(rows: Iterator[Cell]) -> Iterator[str]:
    """The table that goes into the documentation, line by line."""
    yield (
        "| split | expected successes, smaller arm | Welch rejects, % | rejected, % | by the exact "
        "test, % | coverage, A/A | coverage, doubled | of the lift, doubled |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        split = f"{100 - 100 * row.share:g}/{100 * row.share:g}"
        shares = " | ".join(f"{100 * value:.2f}" for value in row[2:])
        yield f"| {split} | {row.expected} | {shares} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.rare")
    parser.add_argument("--repetitions", type=int, default=20_000, help="A/A tests per row")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for line in markdown(cells(options.repetitions, options.seed)):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
