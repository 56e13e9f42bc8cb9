"""Tests of a 2×2 table: chi-square with its kin, and the exact tests for small counts."""

import math
from typing import NamedTuple

import numpy as np

from abeval.stats.distributions import tail
from abeval.stats.proportions import Count, estimate
from abeval.stats.records import Refusal


class Association(NamedTuple):
    """A test of a 2×2 table on one degree of freedom.

    Attributes:
        statistic: Chi-square.
        p_value: Its upper tail.
        log10_p_value: Base-10 logarithm of it.
        method: `pearson`, `yates` or `g`.
    """

    statistic: float
    p_value: float
    log10_p_value: float
    method: str


class Exact(NamedTuple):
    """An exact two-sided test of a 2×2 table.

    Attributes:
        difference: Treatment − control.
        p_value: At most its nominal size at any common rate.
        method: `fisher`, `boschloo` or `barnard`.
    """

    difference: float
    p_value: float
    method: str


def pearson(control: Count, treatment: Count) -> Association:
    """Pearson's chi-square without correction; the square of `z_pooled`.

    Raises:
        Refusal: `too_few_units`, `zero_variance` when nobody or everybody succeeds.

    Example:
        >>> round(pearson(Count(100, 1000), Count(130, 1000)).statistic, 4)
        4.4215
    """
    cells = _cells(control, treatment)
    return _association(math.fsum((o - e) ** 2 / e for o, e in cells), "pearson")


def yates(control: Count, treatment: Count) -> Association:
    """Pearson's chi-square with the correction for continuity (Yates 1934).

    Example:
        >>> round(yates(Count(100, 1000), Count(130, 1000)).statistic, 4)
        4.1317
    """
    cells = _cells(control, treatment)
    moved = math.fsum(max(abs(o - e) - 0.5, 0.0) ** 2 / e for o, e in cells)
    return _association(moved, "yates")


def g_test(control: Count, treatment: Count) -> Association:
    """Likelihood-ratio chi-square, without correction.

    Example:
        >>> round(g_test(Count(100, 1000), Count(130, 1000)).statistic, 4)
        4.4327
    """
    cells = _cells(control, treatment)
    return _association(max(2 * math.fsum(o * math.log(o / e) for o, e in cells if o), 0.0), "g")


def fisher(control: Count, treatment: Count) -> Exact:
    """Fisher's exact test (1935), conditional on both margins and conservative.

    Raises:
        Refusal: `too_few_units`.

    Example:
        >>> round(fisher(Count(3, 40), Count(11, 41)).p_value, 6)
        0.037217
    """
    from scipy.stats import fisher_exact

    p_value = float(fisher_exact(np.array(_table(control, treatment))).pvalue)
    return _exact(control, treatment, p_value, "fisher")


def boschloo(control: Count, treatment: Count) -> Exact:
    """Boschloo's exact test (1970): never less powerful than Fisher's. For small counts.

    Raises:
        Refusal: `too_few_units`.

    Example:
        >>> round(boschloo(Count(3, 40), Count(11, 41)).p_value, 5)
        0.02585
    """
    from scipy.stats import boschloo_exact

    p_value = float(boschloo_exact(_table(control, treatment)).pvalue)
    return _exact(control, treatment, p_value, "boschloo")


def barnard(control: Count, treatment: Count) -> Exact:
    """Barnard's exact test (1945) with the pooled statistic. For small counts.

    Raises:
        Refusal: `too_few_units`.

    Example:
        >>> round(barnard(Count(3, 40), Count(11, 41)).p_value, 5)
        0.02567
    """
    from scipy.stats import barnard_exact

    p_value = float(barnard_exact(_table(control, treatment), pooled=True).pvalue)
    return _exact(control, treatment, p_value, "barnard")


def _cells(control: Count, treatment: Count) -> list[tuple[float, float]]:
    """Observed and expected counts of the four cells."""
    _check(control, treatment)
    units = control.units + treatment.units
    successes = control.successes + treatment.successes
    if successes in (0, units):
        raise Refusal("zero_variance", "nobody or everybody succeeds: no test is possible")
    return [
        (float(observed), n * margin / units)
        for x, n in (control, treatment)
        for observed, margin in ((x, successes), (n - x, units - successes))
    ]


def _association(statistic: float, method: str) -> Association:
    p_value, log10 = tail(math.sqrt(statistic))
    return Association(statistic, p_value, log10, method)


def _table(control: Count, treatment: Count) -> list[list[int]]:
    _check(control, treatment)
    (x, n), (y, m) = treatment, control
    return [[x, y], [n - x, m - y]]


def _exact(control: Count, treatment: Count, p_value: float, method: str) -> Exact:
    return Exact(estimate(treatment).value - estimate(control).value, min(p_value, 1.0), method)


def _check(*counts: Count) -> None:
    for count in counts:
        estimate(count)
