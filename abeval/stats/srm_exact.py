"""Exact tests of units against promised shares, where chi-square is not to be believed.

The units of an arm are binomial; over strata with different splits they are a sum of binomials,
whose distribution is a convolution. `srm.py` and `srm_segments.py` choose it, or chi-square.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from abeval.stats.records import Floats

CHI_SQUARE_MINIMUM = 5.0
"""Smallest expected count at which chi-square is believed (Cochran 1954)."""

MANY = 1000.0
"""From so many expected units of an arm on, their sum over strata is normal."""

_ALIKE = 1 + 1e-7
"""Outcomes are as likely as the observed one up to the rounding of their probabilities."""


class Distribution(NamedTuple):
    """Probabilities of consecutive counts.

    Attributes:
        first: The smallest of the counts.
        probabilities: Of it and of those that follow; what lies beyond is below 1e-300.
    """

    first: int
    probabilities: Floats


def is_small(expected: Floats) -> bool:
    """Whether one of some expected counts is too small for chi-square."""
    return bool(expected.min() < CHI_SQUARE_MINIMUM)


def of_split(counts: Floats, shares: Floats) -> float:
    """Binomial p-value of one split, Bonferroni over more than two arms."""
    from scipy import stats

    units = int(counts.sum())
    if units == 0:
        return 1.0
    tests = [
        stats.binomtest(int(count), units, float(share)).pvalue
        for count, share in zip(counts, shares, strict=True)
    ]
    return float(min(1.0, tests[0] if len(tests) == 2 else len(tests) * min(tests)))


def are_few(table: Floats, shares: Floats) -> bool:
    """Whether a chi-square of units over strata is not to be believed.

    Args:
        table: Units, shape (strata, arms).
        shares: Promised, shape (strata, arms).
    """
    expected = table.sum(axis=1, keepdims=True) * shares
    if not is_small(expected[expected > 0]):
        return False
    return bool(_fewer(table, shares)[np.any(expected > 0, axis=0)].min() < MANY)


def _fewer(table: Floats, shares: Floats) -> Floats:
    """Expected units of each arm, or of all others where these are fewer, summed over strata."""
    units = table.sum(axis=1, keepdims=True)
    return np.asarray((units * np.minimum(shares, 1 - shares)).sum(axis=0))


def of_strata(table: Floats, shares: Floats) -> float:
    """P-value of the units of each arm over strata, Bonferroni over more than two arms."""
    units, few = table.sum(axis=1), _fewer(table, shares)
    tests = [
        _of_arm(table[:, arm], units, shares[:, arm], few[arm])
        for arm in np.flatnonzero((shares > 0).any(axis=0))
    ]
    return min(1.0, tests[0] if len(tests) == 2 else len(tests) * min(tests))


def _of_arm(counts: Floats, units: Floats, shares: Floats, few: float) -> float:
    """P-value of one arm against all others over strata: exact, or normal where it has many."""
    if few < MANY:
        whole = [int(n) for n in units]
        return two_sided(int(counts.sum()), whole, shares.tolist())
    variance = float(np.sum(units * shares * (1 - shares)))
    excess = float(np.sum(counts - units * shares))
    return float(special.chdtrc(1, excess * excess / variance))


def two_sided(observed: int, units: Sequence[int], shares: Sequence[float]) -> float:
    """P-value of a sum of independent binomials: all sums that are at most as likely.

    The work grows with the square of the units on the smaller side, summed over the binomials:
    it is meant for up to thousands.

    Args:
        observed: The sum.
        units: Trials of each, shape (binomials,).
        shares: Probability of success of each, shape (binomials,).

    Source:
        Hong (2013), "On computing the distribution function for the Poisson binomial
        distribution", by convolution.

    Example:
        >>> round(two_sided(1, [3], [0.01]), 6)
        0.029701
    """
    first, probabilities = distribution(units, shares)
    place = observed - first
    if not 0 <= place < probabilities.size:
        return 0.0
    likely = probabilities <= probabilities[place] * _ALIKE
    return min(1.0, float(probabilities[likely].sum()))


def distribution(units: Sequence[int], shares: Sequence[float]) -> Distribution:
    """The distribution of a sum of independent binomials.

    Example:
        >>> distribution([1, 1], [0.5, 0.25]).probabilities.round(3).tolist()
        [0.375, 0.5, 0.125]
    """
    first, probabilities = 0, np.ones(1)
    for n, share in zip(units, shares, strict=True):
        one = _binomial(n, share)
        first += one.first
        probabilities = np.convolve(probabilities, one.probabilities)
    return Distribution(first, probabilities)


def _binomial(units: int, share: float) -> Distribution:
    """One binomial, counted on its smaller side up to where tails are below 1e-300."""
    few = min(share, 1 - share)
    mean = units * few
    most = min(units, int(mean + 40 * np.sqrt(mean) + 300))
    count = np.arange(most + 1)
    ways = special.gammaln(units + 1) - special.gammaln(count + 1)
    ways -= special.gammaln(units - count + 1)
    chance = special.xlogy(count, few) + special.xlog1py(units - count, -few)
    probabilities = np.exp(ways + chance)
    if share <= 0.5:
        return Distribution(0, probabilities)
    return Distribution(units - most, probabilities[::-1])
