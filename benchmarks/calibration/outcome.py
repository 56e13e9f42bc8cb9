"""Outcomes of a calibration, and their table."""

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from abeval.stats.records import Bools
from benchmarks.runner import Record

ALPHA = 0.05
Promise = Literal["nominal", "at_most"]
"""`nominal`: the error rate is alpha; `at_most`: it may be lower, as for exact tests."""


class Rate(NamedTuple):
    """A share of repetitions.

    Attributes:
        value: The share.
        se: Monte Carlo standard error at the target, `sqrt(.05 * .95 / repetitions)`.
        repetitions: Number of repetitions.
    """

    value: float
    se: float
    repetitions: int


class Outcome(NamedTuple):
    """One test on one kind of data.

    Attributes:
        test: Name of the calibrated function.
        data: Description of the simulated data.
        promise: `nominal`: the error rate is within three standard errors of 5 %; `at_most`: it
            may be lower (exact, equivalence, permutation and always-valid tests).
        false_positives: Share of rejected A/A experiments; None if not measured.
        coverage: Share of intervals that contain the truth; None without intervals.
    """

    test: str
    data: str
    promise: Promise
    false_positives: Rate | None
    coverage: Rate | None

    @property
    def verdict(self) -> str:
        """`liberal` before `conservative` (which `at_most` allows) before `holds`."""
        errors = [rate for rate in (self.false_positives,) if rate is not None]
        if self.coverage is not None:
            errors.append(self.coverage._replace(value=1 - self.coverage.value))
        excess = [(rate.value - ALPHA) / rate.se for rate in errors]
        if max(excess) > 3:
            return "liberal"
        if min(excess) >= -3:
            return "holds"
        return "holds, conservative" if self.promise == "at_most" else "conservative"

    def record(self) -> Record:
        """Write it as a row of the table."""
        rates = self.false_positives, self.coverage
        return {
            "test": self.test,
            "data": self.data,
            "false positives, %": _cell(rates[0]),
            "coverage, %": _cell(rates[1]),
            "repetitions": max(rate.repetitions for rate in rates if rate is not None),
            "verdict": self.verdict,
        }


def rate(flags: Bools) -> Rate:
    """Share of true flags.

    Example:
        >>> rate(np.array([True, False, False, False])).value
        0.25
    """
    return Rate(float(np.mean(flags)), math.sqrt(ALPHA * (1 - ALPHA) / flags.size), flags.size)


def nominal(*tests: str) -> list[tuple[str, Promise]]:
    """Tests that promise their nominal error rate.

    Example:
        >>> nominal("means.welch", "ratios.delta")
        [('means.welch', 'nominal'), ('ratios.delta', 'nominal')]
    """
    return [(test, "nominal") for test in tests]


def outcomes(
    tests: Iterable[tuple[str, Promise]],
    data: str,
    rejected: Bools | None,
    covered: Bools | None = None,
) -> list[Outcome]:
    """One outcome per test, in their order.

    Args:
        tests: Name and promise of each test.
        data: Description of the simulated data.
        rejected: Whether a test rejected, shape (tests, runs); None if not measured.
        covered: Whether its interval contained the truth, shape (tests, runs); None without
            intervals.

    Example:
        >>> flags = np.array([[True, False]])
        >>> outcomes(nominal("means.welch"), "A/A", flags)[0].false_positives.value
        0.5
    """
    return [
        Outcome(
            test,
            data,
            promise,
            None if rejected is None else rate(rejected[i]),
            None if covered is None else rate(covered[i]),
        )
        for i, (test, promise) in enumerate(tests)
    ]


def _cell(rate: Rate | None) -> str:
    return "" if rate is None else f"{100 * rate.value:.2f} ± {100 * rate.se:.2f}"
