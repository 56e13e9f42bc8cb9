"""What a calibration found, and how it reads in a table."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05
Promise = Literal["nominal", "at_most"]
Flags = NDArray[np.bool_]


class Rate(NamedTuple):
    """A share of repetitions.

    Attributes:
        value: The share.
        se: Its Monte Carlo standard error at the target, `sqrt(.05 * .95 / repetitions)`.
        repetitions: How many.
    """

    value: float
    se: float
    repetitions: int


class Outcome(NamedTuple):
    """One test on one kind of data.

    Attributes:
        test: Name of the function calibrated.
        data: What was simulated.
        promise: `nominal`: the rate is 5 % on both sides of three standard errors; `at_most`:
            it may be lower (exact, equivalence, permutation and always-valid tests).
        false_positives: Share of A/A experiments rejected; None where not asked.
        coverage: Share of intervals that hold the truth; None where there is no interval.
    """

    test: str
    data: str
    promise: Promise
    false_positives: Rate | None
    coverage: Rate | None

    @property
    def verdict(self) -> str:
        """`holds`, `conservative` (allowed or not) or `liberal`, worst first."""
        errors = [rate for rate in (self.false_positives,) if rate is not None]
        if self.coverage is not None:
            errors.append(self.coverage._replace(value=1 - self.coverage.value))
        excess = [(rate.value - ALPHA) / rate.se for rate in errors]
        if max(excess) > 3:
            return "liberal"
        if min(excess) >= -3:
            return "holds"
        return "holds, conservative" if self.promise == "at_most" else "conservative"


def rate(flags: Flags) -> Rate:
    """Share of true flags.

    Example:
        >>> rate(np.array([True, False, False, False])).value
        0.25
    """
    return Rate(float(np.mean(flags)), math.sqrt(ALPHA * (1 - ALPHA) / flags.size), flags.size)


def markdown(outcomes: Iterable[Outcome]) -> str:
    """The table that goes into the documentation.

    Example:
        >>> found = Outcome("means.welch", "A/A", "nominal", Rate(0.0512, 0.002, 10_000), None)
        >>> print(markdown([found]).splitlines()[-1])
        | means.welch | A/A | 5.12 ± 0.20 |  | 10,000 | holds |
    """
    head = "| test | data | false positives, % | coverage, % | repetitions | verdict |"
    rows = [head, "|---|---|--:|--:|--:|---|"]
    for found in outcomes:
        asked = [r for r in (found.false_positives, found.coverage) if r is not None]
        cells: Sequence[str] = (
            found.test,
            found.data,
            _cell(found.false_positives),
            _cell(found.coverage),
            f"{max(r.repetitions for r in asked):,}",
            found.verdict,
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(found: Rate | None) -> str:
    return "" if found is None else f"{100 * found.value:.2f} ± {100 * found.se:.2f}"
