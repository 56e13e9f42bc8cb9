"""Rank tests: is a unit of the treatment likely to be above one of the control?

For your own arrays or counts (docs/statistics.md): no analysis calls it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.arrays import Floats
from abeval.stats.distributions import tail
from abeval.stats.effects import satterthwaite
from abeval.stats.records import Refusal

# The normal approximation is poor for fewer units; the exact law is slow for more pairs.
_EXACT_UNITS, _EXACT_PAIRS = 8, 25_000


class RankTest(NamedTuple):
    """Mann–Whitney test.

    Attributes:
        u: Pairs in which the treatment is above, ties counting half.
        probability: P(treatment > control) + ½ P(equal), `u` over all pairs.
        statistic: Standardised u, before the correction for continuity.
        p_value: Two-sided.
        log10_p_value: Its base-10 logarithm.
        method: `mann_whitney` or `mann_whitney_exact`.
    """

    u: float
    probability: float
    statistic: float
    p_value: float
    log10_p_value: float
    method: str


class RankEffect(NamedTuple):
    """P(treatment > control) + ½ P(equal) with an interval that agrees with its test.

    Attributes:
        probability: The estimate; .5 where neither variant tends to be above.
        low: Lower end of its interval, not below 0.
        high: Upper end, not above 1.
        se: Standard error.
        df: Degrees of freedom.
        p_value: Two-sided, of a probability of one half.
        log10_p_value: Its base-10 logarithm.
        method: `brunner_munzel`.
    """

    probability: float
    low: float
    high: float
    se: float
    df: float
    p_value: float
    log10_p_value: float
    method: str


def mann_whitney(control: ArrayLike, treatment: ArrayLike) -> RankTest:
    """Test that both variants have one distribution (Mann and Whitney 1947).

    Exact without ties while a variant has at most eight units and there are at most 25,000
    pairs; else normal, with correction for ties and continuity.

    Args:
        control: One value per unit, shape (n,).
        treatment: One value per unit, shape (m,).

    Raises:
        Refusal: `too_few_units` for an empty variant, `zero_variance` when all values are
            the same, `not_finite`.

    Example:
        >>> r = mann_whitney([1, 2, 3], [2.5, 4, 5])
        >>> r.u, round(r.probability, 4), round(r.p_value, 4), r.method
        (8.0, 0.8889, 0.2, 'mann_whitney_exact')
    """
    table = _table(control, treatment)
    result = mann_whitney_counts(table[0], table[1])
    sizes = table.sum(axis=1)
    small = sizes.min() <= _EXACT_UNITS and sizes.prod() <= _EXACT_PAIRS
    if not small or table.sum(axis=0).max() > 1:
        return result
    from scipy.stats import mannwhitneyu

    c, t = (np.asarray(values, dtype=np.float64).tolist() for values in (control, treatment))
    p_value = float(mannwhitneyu(t, c, method="exact").pvalue)
    return result._replace(
        p_value=p_value, log10_p_value=math.log10(p_value), method="mann_whitney_exact"
    )


def mann_whitney_counts(control: ArrayLike, treatment: ArrayLike) -> RankTest:
    """As `mann_whitney`, from a histogram over the same ordered values; never exact.

    Args:
        control: Units of the control at each distinct value, in increasing order, shape (m,).
        treatment: Units of the treatment at the same values.

    Example:
        >>> r = mann_whitney_counts([2, 1, 0], [0, 1, 2])
        >>> r.u, round(r.p_value, 4)
        (8.5, 0.1101)
    """
    c, t = _counts(control, treatment)
    n, m = float(c.sum()), float(t.sum())
    u = float(t @ _below(c))
    total, ties = n + m, c + t
    spread = total + 1 - float(np.sum(ties**3 - ties)) / (total * (total - 1))
    # Rounding leaves a shadow of zero when every value is the same.
    if spread <= 1e-12 * total:
        raise Refusal("zero_variance", "all values are the same")
    sd = math.sqrt(n * m / 12 * spread)
    centred = u - n * m / 2
    corrected = max(abs(centred) - 0.5, 0.0) / sd
    p_value, log10 = tail(corrected)
    return RankTest(u, u / (n * m), centred / sd, p_value, log10, "mann_whitney")


def brunner_munzel(control: ArrayLike, treatment: ArrayLike, alpha: float = 0.05) -> RankEffect:
    """P(treatment > control) with interval and test, without assuming equal shapes.

    Against t with estimated degrees of freedom (Brunner and Munzel 2000).

    Args:
        control: One value per unit, shape (n,).
        treatment: One value per unit, shape (m,).
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units` below two units in a variant, `zero_variance` when the
            variants do not overlap or all values are the same, `not_finite`.

    Example:
        >>> b = brunner_munzel([1, 2, 3, 4], [2.5, 3.5, 5, 6])
        >>> b.probability, round(b.p_value, 4)
        (0.8125, 0.1144)
    """
    table = _table(control, treatment)
    return brunner_munzel_counts(table[0], table[1], alpha)


def brunner_munzel_counts(
    control: ArrayLike, treatment: ArrayLike, alpha: float = 0.05
) -> RankEffect:
    """As `brunner_munzel`, from a histogram over the same ordered values.

    Example:
        >>> b = brunner_munzel_counts([2, 1, 1], [1, 1, 2])
        >>> b.probability, round(b.p_value, 4)
        (0.65625, 0.4827)
    """
    c, t = _counts(control, treatment)
    n, m = float(c.sum()), float(t.sum())
    if min(n, m) < 2:
        raise Refusal("too_few_units", "each variant needs at least two units")
    variances = [_placement_variance(t, _below(c) / n), _placement_variance(c, _below(t) / m)]
    if sum(variances) == 0:
        raise Refusal("zero_variance", "the variants do not overlap, or never differ")
    probability = float(t @ _below(c)) / (n * m)
    se, df = math.sqrt(sum(variances)), satterthwaite(variances, [m - 1, n - 1])
    effect = effects.from_difference(0.5, probability, probability - 0.5, se, df, alpha)
    low, high = max(0.5 + effect.low, 0.0), min(0.5 + effect.high, 1.0)
    p_value, log10 = effect.p_value, effect.log10_p_value
    return RankEffect(probability, low, high, se, df, p_value, log10, "brunner_munzel")


def _below(counts: Floats) -> Floats:
    """Units below each value, those at the value counting half."""
    return np.asarray(np.cumsum(counts) - counts / 2)


def _placement_variance(counts: Floats, placement: Floats) -> float:
    n = float(counts.sum())
    moved = placement - counts @ placement / n
    return float(counts @ moved**2) / (n - 1) / n


def _table(control: ArrayLike, treatment: ArrayLike) -> Floats:
    """Counts of both variants over the distinct values, shape (2, m)."""
    c, t = np.asarray(control, dtype=np.float64), np.asarray(treatment, dtype=np.float64)
    values = np.concatenate([c, t])
    if np.isnan(values).any():
        raise Refusal("not_finite", "a missing value has no rank; drop it or fill it first")
    points, codes = np.unique(values, return_inverse=True)
    split = (codes[: c.size], codes[c.size :])
    return np.array([np.bincount(part, minlength=points.size) for part in split], dtype=np.float64)


def _counts(control: ArrayLike, treatment: ArrayLike) -> tuple[Floats, Floats]:
    c, t = np.asarray(control, dtype=np.float64), np.asarray(treatment, dtype=np.float64)
    if c.shape != t.shape or (c < 0).any() or (t < 0).any():
        raise ValueError("counts over the same values, none negative")
    if c.sum() < 1 or t.sum() < 1:
        raise Refusal("too_few_units", "a variant has no unit")
    return c, t
