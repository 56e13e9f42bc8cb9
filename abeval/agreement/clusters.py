"""Numbers with unit-clustered variances from the rows of queries: pure functions for causes.

A row is of one unit, or of one of 64 groups of units; both are clusters that are independent.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr

from abeval.agreement.case import Case
from abeval.results.agreement import Evidence
from abeval.stats import effects
from abeval.stats.records import Estimate, Floats


def ratio(above: Floats, below: Floats) -> Estimate | None:
    """Σ above / Σ below over clusters, by the delta method; None without clusters or a denominator.

    Example:
        >>> import numpy as np
        >>> e = ratio(np.array([1.0, 2.0, 3.0]), np.array([10.0, 10.0, 10.0]))
        >>> e.value, round(e.variance, 6)
        (0.2, 0.003333)
    """
    total = float(below.sum())
    if above.size < 2 or total == 0:
        return None
    value = float(above.sum()) / total
    return influenced(value, (above - value * below) / total)


def influenced(value: float, influence: Floats) -> Estimate:
    """An estimate from the influence of each cluster, which sums to zero."""
    n = influence.size
    return Estimate(value, float((influence**2).sum()) * n / (n - 1), n, n - 1.0)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """`second - first` of independent clusters."""
    variance = first.variance + second.variance
    df = effects.satterthwaite([first.variance, second.variance], [first.df, second.df])
    return Estimate(second.value - first.value, variance, first.units + second.units, df)


def p_value(estimate: Estimate) -> float:
    """Two-sided, of zero.

    Example:
        >>> round(p_value(Estimate(1.0, 0.25, 1000, 999.0)), 3)
        0.046
    """
    if estimate.variance <= 0:
        return 0.0 if estimate.value else 1.0
    return float(2 * stdtr(estimate.df, -abs(estimate.value) / estimate.variance**0.5))


def evidence(name: str, estimate: Estimate | None, alpha: float, where: str = "") -> Evidence:
    """A number with its interval as evidence."""
    if estimate is None:
        return Evidence(name, None, where=where)
    ends = effects.interval(estimate.value, float(np.sqrt(estimate.variance)), estimate.df, alpha)
    return Evidence(name, estimate.value, *ends, where=where)


def by_side(name: str, sides: Sequence[Estimate | None], case: Case) -> tuple[Evidence, ...]:
    """A number of control and of the variant as evidence."""
    variants = (case.control, case.variant)
    return tuple(
        evidence(name, own, case.alpha, where) for own, where in zip(sides, variants, strict=True)
    )
