"""Calibration of 0/1 metrics with few successes, as an analysis tests them.

A/A tests, and tests with a doubled rate in the smaller arm, of 20,000 units together, by
`compare_moments`; Welch's test beside it. `--table exact` enumerates the tables of nine designs:
the largest size of the mid-p, and of all of the tail, over all rates; the mid-p anywhere, and of
the tables that an analysis judges by it. Rejected should be at most 5 %, covered at least 95 %.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import binom, hypergeom

from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.special_tests import FEW, FEW_UNEVEN, UNEVEN
from abeval.metrics.definition import Metric
from abeval.stats import means
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Integers, Refusal
from benchmarks.runner import Record, Table

ALPHA = 0.05
UNITS = 20_000
SHARES = (0.5, 0.1, 0.01)
EXPECTED = (1, 2, 3, 5, 10, 20, 40, 80)
LIFT = 1.0
DESIGNS = (
    *((20, 20), (50, 50), (100, 100), (200, 200), (100, 50)),
    *((90, 10), (180, 20), (450, 50), (900, 100)),
)
POWERS = (
    ((100, 100), (0.05, 0.15)),
    ((1_800, 200), (0.05, 0.01)),
    ((200, 1_800), (0.05, 0.01)),
    ((1_800, 200), (0.02, 0.06)),
)
METRIC = Metric("converted", "mean", "Σ converted / units")

Design = tuple[int, int]


def measure_counts(cell: tuple[float, int], repetitions: int, seed: int) -> Record:
    """Judge tests of one share of units in the smaller arm, and its expected successes."""
    share, expected = cell
    rng = np.random.default_rng([seed, round(1000 * share), expected])
    smaller = round(share * UNITS)
    arms, rate = (UNITS - smaller, smaller), expected / smaller
    null = rng.binomial(arms, rate, size=(repetitions, 2))
    effect = rng.binomial(arms, (rate, rate * (1 + LIFT)), size=(repetitions // 4, 2))
    same = judge_counts(null, lambda c, t: judge((c, arms[0]), (t, arms[1]), 0.0, 0.0))
    doubled = judge_counts(effect, lambda c, t: judge((c, arms[0]), (t, arms[1]), rate, LIFT))
    welch, rejected, exact, covered, _ = same.mean(axis=0).tolist()
    return {
        "split": f"{100 - 100 * share:g}/{100 * share:g}",
        "expected successes, smaller arm": expected,
        "Welch rejects, %": welch,
        "rejected, %": rejected,
        "by the exact test, %": exact,
        "coverage, A/A, %": covered,
        "coverage, doubled, %": float(doubled[:, 3].mean()),
        "of the lift, doubled, %": float(np.nanmean(doubled[:, 4])),
    }


def judge_counts(counts: Integers, judge: Callable[[int, int], list[float]]) -> Floats:
    """Judge every pair of counts; each distinct pair is tested once."""
    distinct, index = np.unique(counts, axis=0, return_inverse=True)
    return np.array([judge(int(c), int(t)) for c, t in distinct])[index.ravel()]


def judge(control: Design, treatment: Design, difference: float, lift: float) -> list[float]:
    """Judge (successes, units) of two variants.

    Returns:
        Whether Welch's test and the analysis reject, the test is exact, the difference and the
        lift are covered; NaN without a lift.
    """
    arms = moments(*control), moments(*treatment)
    result = compare_moments(METRIC, *arms, Rule(ALPHA))
    try:
        welch = means.welch(*arms, ALPHA).p_value < ALPHA
    except Refusal:
        welch = False
    effect, ends = result.effect, result.lift
    if effect is None:
        return [welch, False, False, True, math.nan]
    covered_lift = ends and ends.low - 1e-12 <= lift <= ends.high + 1e-12
    return [
        *(welch, effect.p_value < ALPHA, effect.method == "fisher_mid_p"),
        effect.low - 1e-12 <= difference <= effect.high + 1e-12,
        math.nan if covered_lift is None else covered_lift,
    ]


def moments(successes: int, units: int) -> Moments:
    """Return moments of (y, x) over units, y = 1 for the successes and x = 1."""
    products = [[successes, successes], [successes, units]]
    triples = [successes, successes, successes, units]
    return Moments.from_sums(units, [successes, units], products, [1.0, 1.0], triples)


def find_sizes(design: Design) -> list[float]:
    """Find the largest error rates: the mid-p where it judges, anywhere, all of the tail."""
    n, m = design
    control, treatment = np.arange(n + 1)[:, None], np.arange(m + 1)
    law = hypergeom(n + m, control + treatment, m)
    half = law.pmf(treatment) / 2
    lower, upper = law.cdf(treatment), law.sf(treatment - 1)
    mid_p, whole = np.minimum(lower - half, upper - half), np.minimum(lower, upper)
    ends = np.minimum(control, n - control), np.minimum(treatment, m - treatment)
    few = np.minimum(*ends) < (FEW_UNEVEN if max(design) > UNEVEN * min(design) else FEW)
    tables = [(2 * mid_p < ALPHA) & few, 2 * mid_p < ALPHA, 2 * whole < ALPHA]
    largest = [0.0] * len(tables)
    for rate in np.linspace(0.001, 0.5, 500):
        chance = binom.pmf(control, n, rate) * binom.pmf(treatment, m, rate)
        largest = [max(a, float(chance[b].sum())) for a, b in zip(largest, tables, strict=True)]
    return largest


def find_power(design: Design, rates: tuple[float, float]) -> list[float]:
    """Find the chance to reject in the direction of the effect: by mid-p, by all of the tail."""
    n, m = design
    control, treatment = np.arange(n + 1)[:, None], np.arange(m + 1)
    law = hypergeom(n + m, control + treatment, m)
    half = law.pmf(treatment) / 2
    tail = law.sf(treatment - 1) if rates[1] > rates[0] else law.cdf(treatment)
    chance = binom.pmf(control, n, rates[0]) * binom.pmf(treatment, m, rates[1])
    return [float(chance[2 * p < ALPHA].sum()) for p in (tail - half, tail)]


def enumerate_tables(part: str, repetitions: int, seed: int) -> Iterator[Record]:
    """Enumerate sizes of all designs, or powers."""
    heads = ("mid-p where it judges, %", "mid-p, %", "all of the tail, %")
    for design in DESIGNS if part == "sizes" else ():
        shares = zip(heads, find_sizes(design), strict=True)
        yield {"design": f"{design[0]}/{design[1]}", "rates": "the same, at worst", **dict(shares)}
    for design, rates in POWERS if part == "powers" else ():
        words = f"{100 * rates[0]:g} %, {100 * rates[1]:g} %: found"
        shares = zip(heads, [math.nan, *find_power(design, rates)], strict=True)
        yield {"design": f"{design[0]:,}/{design[1]:,}", "rates": words, **dict(shares)}


CELLS = [(s, n) for s in SHARES for n in EXPECTED if n / round(s * UNITS) <= 0.25]
TABLES = {
    "judged": Table(measure_counts, CELLS, repetitions=4_000, digits=2),
    "exact": Table(enumerate_tables, ("sizes", "powers"), digits=2),
}
