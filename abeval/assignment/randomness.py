"""Test whether units are spread evenly over slots, and experiments independent of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

MIN_EXPECTED = 5.0
"""Units expected in a cell, below which a chi-square test is not to be trusted."""


@dataclass(frozen=True)
class Independence:
    """Whether two experiments were assigned independently of each other.

    Attributes:
        one: Name of an experiment.
        other: Name of another.
        units: Units that are in both.
        p_value: Of the chi-square test of the table of variants; None with too few units.
        p_adjusted: After Holm over all pairs.
        cramers_v: 0 where independent, 1 where one decides the other.
    """

    one: str
    other: str
    units: int
    p_value: float | None
    p_adjusted: float | None
    cramers_v: float | None


def uniformity(numbers: NDArray[np.float64], size: float, bins: int = 100) -> float | None:
    """Test whether numbers from 0 up to `size` are spread evenly; None with too few of them.

    Pearson's chi-square test over bins of equal width.

    >>> uniformity(np.arange(10_000.0), 10_000)
    1.0
    """
    from scipy.stats import chisquare

    if len(numbers) < bins * MIN_EXPECTED:
        return None
    counts, _ = np.histogram(numbers, bins=bins, range=(0, size))
    return float(chisquare(counts).pvalue)


def independence(assignments: Mapping[str, pd.Series[str]]) -> tuple[Independence, ...]:
    """Test every pair of experiments, over the units that are in both; Holm over the pairs.

    The assignments are the variants of units by unit id, of each experiment.

    >>> units = [str(i) for i in range(400)]
    >>> import pandas as pd
    >>> halves = pd.Series(["a", "b"] * 200, units)
    >>> pair, = independence({"one": halves, "same": halves})
    >>> pair.units, round(pair.cramers_v, 3)
    (400, 1.0)
    """
    from statsmodels.stats.multitest import multipletests

    rows = [_pair(one, other, assignments) for one, other in combinations(assignments, 2)]
    tested = [row.p_value for row in rows if row.p_value is not None]
    adjusted = iter(multipletests(tested, method="holm")[1] if tested else ())
    return tuple(
        row if row.p_value is None else replace(row, p_adjusted=float(next(adjusted)))
        for row in rows
    )


def _pair(one: str, other: str, assignments: Mapping[str, pd.Series[str]]) -> Independence:
    import pandas as pd
    from scipy.stats import chi2_contingency

    both = pd.concat([assignments[one], assignments[other]], axis=1, join="inner").dropna()
    table = pd.crosstab(both.iloc[:, 0], both.iloc[:, 1])
    unknown = Independence(one, other, len(both), None, None, None)
    if min(table.shape) < 2:
        return unknown
    test = chi2_contingency(table, correction=False)
    if test.expected_freq.min() < MIN_EXPECTED:
        return unknown
    strength = float(np.sqrt(test.statistic / len(both) / (min(table.shape) - 1)))
    return Independence(one, other, len(both), float(test.pvalue), None, strength)
