"""Calibration of 0/1 metrics with few successes, as an analysis tests them.

    python -m benchmarks.calibration.rare
    python -m benchmarks.calibration.rare --exact

A/A tests, and tests with a doubled rate in the smaller arm, of 20,000 units together, by
`compare_moments`. The rejection rate of Welch's test is printed for comparison. `--exact`
enumerates the tables of nine designs instead: the largest size of the mid-p, and of all of the
tail, over all rates; the mid-p anywhere, and of the tables that an analysis judges by it.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, hypergeom

from abeval.inference.comparison import Comparison, Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.special_tests import FEW, FEW_UNEVEN, UNEVEN
from abeval.metrics.definition import Metric
from abeval.stats import means
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Integers, Refusal

ALPHA = 0.05
UNITS = 20_000
SHARES = (0.5, 0.1, 0.01)
EXPECTED = (1, 2, 3, 5, 10, 20, 40, 80)
LIFT = 1.0
DESIGNS = (
    *((20, 20), (50, 50), (100, 100), (200, 200), (100, 50)),
    *((90, 10), (180, 20), (450, 50), (900, 100)),
)
METRIC = Metric("converted", "mean", "Σ converted / units")


class Cell(NamedTuple):
    """Results for one split and one expected number of successes, as shares of repetitions.

    Attributes:
        share: Units of the smaller arm, as a share of all units.
        expected: Expected successes in the smaller arm in an A/A test.
        welch: A/A tests that Welch's test rejects.
        rejected: A/A tests that the analysis rejects.
        exact: A/A tests for which the analysis uses the exact test.
        covered: A/A tests whose interval of the difference contains zero.
        covered_effect: Tests with a doubled rate whose interval contains the true difference.
        covered_lift: Tests with a doubled rate whose interval contains the true lift, of those
            with an interval.
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
    """Decisions of the tests on one pair of counts."""

    welch: bool
    rejected: bool
    exact: bool
    covered: bool
    covered_lift: float


def cells(runs: int, seed: int = 0) -> Iterator[Cell]:
    """Results for all splits and expected counts."""
    for share in SHARES:
        for expected in EXPECTED:
            units = round(share * UNITS)
            if expected / units <= 0.25:
                yield cell(share, expected, runs, seed)


def cell(share: float, expected: int, runs: int, seed: int = 0, units: int = UNITS) -> Cell:
    """Results of one cell; the treatment is the smaller arm."""
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


def judged(counts: Integers, judge: Callable[[int, int], Verdict]) -> Floats:
    """The verdict on every pair of counts; each distinct pair is tested once."""
    distinct, index = np.unique(counts, axis=0, return_inverse=True)
    verdicts = np.array([judge(int(c), int(t)) for c, t in distinct], dtype=float)
    return verdicts[index.ravel()]


def verdict(
    control: tuple[int, int], treatment: tuple[int, int], difference: float, lift: float
) -> Verdict:
    """Decisions of Welch's test and of the analysis on (successes, units) of two variants."""
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
    exact = effect.method == "fisher_mid_p"
    return Verdict(welch, effect.p_value < ALPHA, exact, covered, _covered_lift(result, lift))


def _covered_lift(result: Comparison, lift: float) -> float:
    if result.lift is None:
        return math.nan
    return float(result.lift.low - 1e-12 <= lift <= result.lift.high + 1e-12)


def moments(successes: int, units: int) -> Moments:
    """Moments of (y, x) over units, y = 1 for the successes and x = 1."""
    products = [[successes, successes], [successes, units]]
    triples = [successes, successes, successes, units]
    return Moments.from_sums(units, [successes, units], products, [1.0, 1.0], triples)


def sizes(design: tuple[int, int]) -> list[float]:
    """Largest error rates over all rates: the mid-p where it judges, anywhere, all of the tail."""
    n, m = design
    control, treatment = np.arange(n + 1)[:, None], np.arange(m + 1)
    law = hypergeom(n + m, control + treatment, m)
    half = law.pmf(treatment) / 2
    lower, upper = law.cdf(treatment), law.sf(treatment - 1)
    by_half, by_all = np.minimum(lower - half, upper - half), np.minimum(lower, upper)
    ends = np.minimum(control, n - control), np.minimum(treatment, m - treatment)
    few = np.minimum(*ends) < (FEW_UNEVEN if max(design) > UNEVEN * min(design) else FEW)
    tables = [(2 * by_half < ALPHA) & few, 2 * by_half < ALPHA, 2 * by_all < ALPHA]
    largest = [0.0] * len(tables)
    for rate in np.linspace(0.001, 0.5, 500):
        chance = binom.pmf(control, n, rate) * binom.pmf(treatment, m, rate)
        largest = [max(a, float(chance[b].sum())) for a, b in zip(largest, tables, strict=True)]
    return largest


def power(design: tuple[int, int], rates: tuple[float, float]) -> tuple[float, float]:
    """Chance that each rejects in the direction of the effect."""
    n, m = design
    control, treatment = np.arange(n + 1)[:, None], np.arange(m + 1)
    law = hypergeom(n + m, control + treatment, m)
    half = law.pmf(treatment) / 2
    tail = law.sf(treatment - 1) if rates[1] > rates[0] else law.cdf(treatment)
    chance = binom.pmf(control, n, rates[0]) * binom.pmf(treatment, m, rates[1])
    found = (float(chance[2 * one < ALPHA].sum()) for one in (tail - half, tail))
    return next(found), next(found)


def exact_markdown() -> Iterator[str]:
    """Lines of the exact sizes and powers."""
    yield "| design | rates | mid-p where it judges, % | mid-p, % | all of the tail, % |"
    yield "|---|---|--:|--:|--:|"
    for design in DESIGNS:
        shares = " | ".join(f"{100 * size:.2f}" for size in sizes(design))
        yield f"| {design[0]}/{design[1]} | the same, at worst | {shares} |"
    for design, rates in (
        ((100, 100), (0.05, 0.15)),
        ((1_800, 200), (0.05, 0.01)),
        ((200, 1_800), (0.05, 0.01)),
        ((1_800, 200), (0.02, 0.06)),
    ):
        shares = " | ".join(f"{100 * chance:.1f}" for chance in power(design, rates))
        words = f"{100 * rates[0]:g} %, {100 * rates[1]:g} %: found"
        yield f"| {design[0]:,}/{design[1]:,} | {words} | | {shares} |"


def markdown(rows: Iterator[Cell]) -> Iterator[str]:
    """Lines of the table for the documentation."""
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
    parser.add_argument("--exact", action="store_true", help="sizes of nine designs, enumerated")
    options = parser.parse_args()
    rows = markdown(cells(options.repetitions, options.seed))
    for line in exact_markdown() if options.exact else rows:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
