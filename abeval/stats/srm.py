"""Test units against planned shares: once, by strata, over time, by segment.

If few units are expected, tests are exact: the units of an arm are binomial, and over strata with
different splits a sum of binomials, whose distribution is a convolution.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.multiplicity import adjust
from abeval.stats.records import Floats, Refusal, check_finite

CHI_SQUARE_MINIMUM = 5.0
"""Smallest expected count for a chi-square test (Cochran 1954)."""

_MANY = 1000.0
"""From this many expected units of an arm on, their sum over strata is taken as normal."""

# Below this p-value of one day or one cut, the split has changed.
_CHANGED = 1e-6

# P-value below which two split periods are apart, once the split is known to have changed.
#
# A change that is missed biases, one too many costs hardly anything.
_APART = 1e-3

# Prior units that arrived as planned: tuned to mismatches of about one percent.
_PRIOR = 10_000.0

# Outcomes this close in probability to the observed one count as equally likely.
_ALIKE = 1 + 1e-7


class SRM(NamedTuple):
    """A goodness-of-fit test of unit counts against weights.

    The statistic is Pearson's. `df` is the number of arms with a positive weight, minus one. Alert
    if p is below .001. If `is_exact`, few units are expected, and the p-value does not come from
    the statistic.
    """

    statistic: float
    df: int
    p_value: float
    is_exact: bool = False


def chi_square(observed: ArrayLike, weights: ArrayLike) -> SRM:
    """Test counts of units against the promised split.

    An arm of zero weight is not counted in the degrees of freedom (D6), and must be empty. Source:
    Pearson (1900); Fabijan et al. (KDD 2019), "Diagnosing Sample Ratio Mismatch". Refusals:
    `too_few_units` without any unit; `not_finite`; `not_applicable` for units in an arm of zero
    weight, fewer than two arms, or lengths that differ. Counts and weights, in any scale, are one
    per arm.

    Example:
        >>> round(chi_square([5100, 4900, 0], [0.5, 0.5, 0]).p_value, 6)
        0.0455
    """
    counts, shares = _check_counts(observed, weights)
    _check_some(counts)
    return _pearson(counts, counts.sum() * shares, len(shares) - 1)


def check_stratum(observed: ArrayLike, weights: ArrayLike) -> SRM:
    """Test counts by chi-square, or exactly if an expected count is below 5.

    With more than two arms the exact test is of each against the others: the smallest p-value is
    multiplied by the number of arms, which is valid and conservative. Source: Cochran (1954) for
    the count; Clopper & Pearson (1934); Bonferroni over arms.

    Example:
        >>> split = check_stratum([291, 9], [99, 1])
        >>> round(split.p_value, 4), split.is_exact
        (0.0036, True)
    """
    counts, shares = _check_counts(observed, weights)
    _check_some(counts)
    return _test_stratum(counts, shares)


def compute_split_p_value(counts: Floats, shares: Floats) -> float:
    """Return the binomial p-value of a split (Bonferroni over arms)."""
    return compute_strata_p_value(counts[None], shares[None], many=np.inf)


def check_strata(observed: ArrayLike, weights: ArrayLike) -> SRM:
    """Test counts in strata with different splits, such as ramp periods.

    The test sums the excess of units over the expected ones over strata, and weighs it by its
    covariance. So a loss that is the same in all strata shows as clearly as in one large stratum.
    If an expected count is below five, and few units are expected in an arm overall, the test is
    exact (as in `check_stratum`). Counts and weights have the shape (strata, arms).

    Example:
        >>> round(check_strata([[900, 100], [460, 540]], [[9, 1], [1, 1]]).p_value, 4)
        0.0301
    """
    table, shares = _check_table(observed, weights)
    _check_some(table)
    return _test_strata(table, shares)


def check_split(observed: ArrayLike, weights: ArrayLike) -> SRM:
    """Test counts of one stratum or several; without units p is 1.

    Counts and weights have the shape (strata, arms).

    Example:
        >>> check_split([[0, 0]], [[1, 1]]).p_value, check_split([[291, 9]], [[99, 1]]).is_exact
        (1.0, True)
    """
    table, planned = np.asarray(observed, dtype=float), np.asarray(weights, dtype=float)
    # Without units there is nothing to check.
    shares = _check_table(table, planned)[1] if table.sum() else planned
    return _test_split(table, shares)


def _test_split(table: Floats, shares: Floats) -> SRM:
    """Test checked counts of one stratum or several, shape (strata, arms)."""
    if not table.sum():
        return SRM(0.0, int((shares > 0).any(axis=0).sum()) - 1, 1.0)
    if len(table) > 1:
        return _test_strata(table, shares)
    is_open = shares[0] > 0
    return _test_stratum(table[0, is_open], shares[0, is_open])


def _test_stratum(counts: Floats, shares: Floats) -> SRM:
    expected = counts.sum() * shares
    test = _pearson(counts, expected, len(shares) - 1)
    if expected.min() >= CHI_SQUARE_MINIMUM:
        return test
    return test._replace(p_value=compute_split_p_value(counts, shares), is_exact=True)


def _test_strata(table: Floats, shares: Floats) -> SRM:
    expected = table.sum(axis=1, keepdims=True) * shares
    excess = (table - expected).sum(axis=0)
    covariance = np.diag(expected.sum(axis=0)) - expected.T @ shares
    # The covariance is singular, for the excesses of all arms sum to 0.
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    df = int(np.linalg.matrix_rank(covariance, tol=1e-10 * table.sum(), hermitian=True))
    statistic = max(float(excess @ inverse @ excess), 0.0)
    if are_few(table, shares):
        return SRM(statistic, df, compute_strata_p_value(table, shares), is_exact=True)
    return SRM(statistic, df, float(special.chdtrc(df, statistic)))


def are_few(table: Floats, shares: Floats) -> bool:
    """Tell whether expected counts are too few for a chi-square over strata."""
    expected = table.sum(axis=1, keepdims=True) * shares
    if expected[expected > 0].min() >= CHI_SQUARE_MINIMUM:
        return False
    return bool(_expect_fewer_units(table, shares)[np.any(expected > 0, axis=0)].min() < _MANY)


def compute_strata_p_value(table: Floats, shares: Floats, many: float = _MANY) -> float:
    """Return the p-value over strata, Bonferroni over more than two arms.

    An arm with at least `many` expected units is tested against all others with the normal
    distribution.
    """
    units, few, tests = table.sum(axis=1), _expect_fewer_units(table, shares), []
    for arm in np.flatnonzero((shares > 0).any(axis=0)):
        counts, arm_shares = table[:, arm], shares[:, arm]
        if few[arm] < many:
            tests.append(
                compute_binomial_p_value(
                    int(counts.sum()), [int(n) for n in units], arm_shares.tolist()
                )
            )
        else:
            excess = np.sum(counts - units * arm_shares)
            variance = np.sum(units * arm_shares * (1 - arm_shares))
            tests.append(float(special.chdtrc(1, excess * excess / variance)))
    return min(1.0, tests[0] if len(tests) == 2 else len(tests) * min(tests))


def _expect_fewer_units(table: Floats, shares: Floats) -> Floats:
    """Return the expected units of each arm, or of all others if fewer."""
    units = table.sum(axis=1, keepdims=True)
    return np.asarray((units * np.minimum(shares, 1 - shares)).sum(axis=0))


def compute_binomial_p_value(observed: int, units: Sequence[int], shares: Sequence[float]) -> float:
    """Return the exact two-sided p-value of a sum of independent binomials.

    The work grows with the square of the units on the smaller side, summed over the binomials: it
    is meant for up to thousands. `units` and `shares` are the trials of each binomial and the
    probability of success, shape (binomials,). Source: Hong (2013), "On computing the distribution
    function for the Poisson binomial distribution", by convolution.

    Example:
        >>> round(compute_binomial_p_value(1, [3], [0.01]), 6)
        0.029701
    """
    first, chances = 0, np.ones(1)
    for n, share in zip(units, shares, strict=True):
        start, binomial = _list_binomial_chances(n, share)
        first, chances = first + start, np.convolve(chances, binomial)
    index = observed - first
    if not 0 <= index < chances.size:
        return 0.0
    return min(1.0, float(chances[chances <= chances[index] * _ALIKE].sum()))


def _list_binomial_chances(units: int, share: float) -> tuple[int, Floats]:
    """Return the first count and the probabilities from it on."""
    # Count on the rarer side, where the array is shorter.
    few = min(share, 1 - share)
    mean = units * few
    most = min(units, int(mean + 40 * np.sqrt(mean) + 300))
    count = np.arange(most + 1)
    ways = special.gammaln(units + 1) - special.gammaln(count + 1)
    ways -= special.gammaln(units - count + 1)
    of_one = special.xlogy(count, few) + special.xlog1py(units - count, -few)
    chances = np.exp(ways + of_one)
    return (0, chances) if share <= 0.5 else (units - most, chances[::-1])


def check_split_at_looks(counts: ArrayLike, weights: Sequence[float]) -> tuple[float, ...]:
    """Test the split at every look; valid however often it is read.

    Bayes factor of a Dirichlet-multinomial against the promised multinomial: the always-valid
    p-value at every look, which never rises, and is 1 without units. Counts must be of distinct
    units: a returning unit is counted once, when it first arrives. Source: Lindon & Malek (NeurIPS
    2022), "Anytime-Valid Inference for Multinomial Count Data". Refusals: As `chi_square`; also
    `not_applicable` for counts that fall from look to look. Counts are cumulative, shape (looks,
    arms), or (arms,) for one look; weights in any scale.

    Example:
        >>> counts = [[500, 480], [1100, 900], [2300, 1700]]
        >>> [round(p, 6) for p in check_split_at_looks(counts, [1, 1])]
        [1.0, 0.206859, 3e-06]
    """
    path, shares = _check_counts(np.atleast_2d(np.asarray(counts, dtype=float)), weights)
    if len(path) == 0:
        raise Refusal("not_applicable", "a sequential test needs at least one look")
    if np.any(np.diff(path, axis=0) < 0):
        raise Refusal("not_applicable", "cumulative counts cannot fall from one look to the next")
    prior = _PRIOR * shares
    promised = np.sum(path * np.log(shares), axis=1)
    mixture = np.sum(special.gammaln(prior + path) - special.gammaln(prior), axis=1)
    normaliser = special.gammaln(prior.sum()) - special.gammaln(prior.sum() + path.sum(axis=1))
    # Dirichlet-multinomial over multinomial; evidence for the plan counts as none.
    log_factors = np.maximum(normaliser + mixture - promised, 0.0)
    return tuple(np.exp(-np.maximum.accumulate(log_factors)).tolist())


class SegmentSRM(NamedTuple):
    """One segment's share in a mismatch; `p_adjusted` is by Holm over the segments.

    A mismatch that is gone without the segment comes from it: `p_value_without` is the p-value of
    all other segments together.
    """

    segment: str
    p_value: float
    p_adjusted: float
    p_value_without: float


class SegmentedSRM(NamedTuple):
    """Where in one dimension the mismatch sits.

    Attributes:
        homogeneity: Test of the same split in all segments, whatever it is overall. Segments with
            an expected count below five are merged into one.
        segments: Tests of the segments, the most suspicious first.
    """

    homogeneity: SRM
    segments: tuple[SegmentSRM, ...]


class DimensionSRM(NamedTuple):
    """One dimension's place in the ranking.

    `p_value` tests the homogeneity of the split over its segments. Adjusted by Holm: over
    dimensions, and over the segments of all of them.
    """

    dimension: str
    p_value: float
    p_adjusted: float
    worst_segment: str
    worst_p_adjusted: float


def check_segments(
    segments: Sequence[str], observed: ArrayLike, weights: ArrayLike
) -> SegmentedSRM:
    """Test each segment's split, and whether all segments have the same.

    Counts have the shape (segments, arms) and weights (arms,). For strata with different splits,
    the shapes are (segments, strata, arms) and (strata, arms). A segment without units has p-value
    1. Source: Fabijan et al. (KDD 2019); Holm (1979). Refusals: As `chi_square`, for the segments
    together.

    Example:
        >>> split = check_segments(["web", "ios"], [[2988, 3031], [2095, 2684]], [1, 1])
        >>> [(row.segment, round(row.p_value_without, 3)) for row in split.segments]
        [('ios', 0.579), ('web', 0.0)]
    """
    table, planned = np.asarray(observed, dtype=float), np.asarray(weights, dtype=float)
    if planned.ndim == 1 and table.ndim == 2:
        table, planned = table[:, None], planned[None]
    if table.ndim != 3 or len(table) != len(segments) or len(table) == 0:
        raise Refusal("not_applicable", f"{len(segments)} segments against counts {table.shape}")
    for counts, promised in zip(table.swapaxes(0, 1), planned, strict=True):
        _check_counts(counts, promised)
    _check_some(table)
    shares = planned / planned.sum(axis=1, keepdims=True)
    tests = [_test_split(rows, shares) for rows in table]
    adjusted, totals = adjust([test.p_value for test in tests], "holm"), table.sum(axis=0)
    rows = tuple(
        SegmentSRM(
            segment=segments[i],
            p_value=tests[i].p_value,
            p_adjusted=float(adjusted[i]),
            p_value_without=_test_split(totals - table[i], shares).p_value,
        )
        for i in sorted(range(len(tests)), key=lambda i: (tests[i].p_value, -tests[i].statistic))
    )
    return SegmentedSRM(check_homogeneity(table.sum(axis=1), CHI_SQUARE_MINIMUM), rows)


def check_homogeneity(table: Floats, least: float = 0.0) -> SRM:
    """Test a table of counts for homogeneity (Pearson 1900).

    Rows with an expected count below `least` are taken together. Refusals: `too_few_units` without
    counts.

    Example:
        >>> round(check_homogeneity(np.array([[90.0, 10.0], [80.0, 20.0]])).p_value, 4)
        0.0477
    """
    _check_some(table)
    kept = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    small = kept.sum(axis=1) * kept.sum(axis=0).min() / kept.sum() < least
    if small.any():
        kept = np.vstack([kept[~small], kept[small].sum(axis=0)])
    expected = kept.sum(axis=1, keepdims=True) * kept.sum(axis=0) / kept.sum()
    return _pearson(kept, expected, (kept.shape[0] - 1) * (kept.shape[1] - 1))


def rank_dimensions(
    dimensions: Sequence[str], tables: Sequence[SegmentedSRM]
) -> tuple[DimensionSRM, ...]:
    """Rank dimensions by how strongly the split differs within them.

    Tables are results of `check_segments`, one per dimension. Source: Fabijan et al. (KDD 2019),
    section 5; Holm (1979).

    Example:
        >>> device = check_segments(["web", "ios"], [[2988, 3031], [2095, 2684]], [1, 1])
        >>> country = check_segments(["de", "fr"], [[2543, 2858], [2540, 2857]], [1, 1])
        >>> [row.dimension for row in rank_dimensions(["country", "device"], [country, device])]
        ['device', 'country']
    """
    adjusted = adjust([table.homogeneity.p_value for table in tables], "holm")
    every = adjust([row.p_value for table in tables for row in table.segments], "holm")
    rows, start = [], 0
    for name, table, p_holm in zip(dimensions, tables, adjusted, strict=True):
        p_value, worst = table.homogeneity.p_value, table.segments[0].segment
        rows.append(DimensionSRM(name, p_value, float(p_holm), worst, float(every[start])))
        start += len(table.segments)
    return tuple(sorted(rows, key=lambda row: row.p_value))


def _check_counts(observed: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    """Return the counts and shares of the arms with a positive weight.

    The counts have the shape (..., arms).
    """
    wrong = "counts and weights must be finite"
    counts, shares = check_finite(observed, wrong), check_finite(weights, wrong)
    if shares.ndim != 1 or counts.shape[-1:] != shares.shape:
        raise Refusal("not_applicable", f"{counts.shape} counts against {shares.shape} weights")
    if np.any(counts < 0) or np.any(shares < 0):
        raise Refusal("not_applicable", "counts and weights cannot be negative")
    if np.any(counts[..., shares == 0] > 0):
        raise Refusal("not_applicable", "units were observed in an arm of zero weight")
    open_arms = shares > 0
    if open_arms.sum() < 2:
        raise Refusal("not_applicable", "a split needs two arms of positive weight")
    return counts[..., open_arms], shares[open_arms] / shares.sum()


def _check_table(observed: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    """Return counts and shares, shape (strata, arms) each."""
    table, planned = np.asarray(observed, dtype=float), np.asarray(weights, dtype=float)
    if table.shape != planned.shape or table.ndim != 2 or len(table) == 0:
        raise Refusal("not_applicable", f"{table.shape} counts against {planned.shape} weights")
    for counts, promised in zip(table, planned, strict=True):
        _check_counts(counts, promised)
    return table, planned / planned.sum(axis=1, keepdims=True)


def _check_some(counts: Floats) -> None:
    if counts.sum() == 0:
        raise Refusal("too_few_units", "a split cannot be tested without units")


def _pearson(counts: Floats, expected: Floats, df: int) -> SRM:
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return SRM(statistic, df, float(special.chdtrc(df, statistic)) if df else 1.0)


def find_split_periods(counts: ArrayLike) -> tuple[range, ...]:
    """Split the days wherever the traffic split changed.

    The split has changed if the days before some cut, or one day, differ from all others by the
    likelihood ratio of multinomial counts (p < `_CHANGED`). The cuts are then those that maximise
    the likelihood less a penalty for each (Jackson et al. 2005, optimal partitioning). Refusals:
    `not_applicable` for counts of another shape, or negative ones. Counts are of units that
    entered, shape (days, variants).

    Example:
        >>> find_split_periods([[90, 10], [92, 8], [51, 49], [48, 52]])
        (range(0, 2), range(2, 4))
    """
    table = np.asarray(counts, dtype=float)
    if table.ndim != 2 or len(table) == 0 or np.any(table < 0):
        raise Refusal("not_applicable", "counts of units by day and variant, not negative")
    table = table[:, table.sum(axis=0) > 0]
    days, df = len(table), table.shape[1] - 1
    if df < 1 or not _has_changed(table):
        return (range(days),)
    penalty = float(special.chdtri(df, _APART))
    sums = np.vstack([np.zeros(df + 1), np.cumsum(table, axis=0)])
    best, start = np.zeros(days + 1), np.zeros(days + 1, dtype=int)
    for end in range(1, days + 1):
        # Best partition of the first `end` days, by the start of its last period.
        values = best[:end] + 2 * _fit(sums[end] - sums[:end]) - penalty
        start[end] = int(np.argmax(values))
        best[end] = values[start[end]]
    cuts = [days]
    while cuts[0] > 0:
        cuts.insert(0, int(start[cuts[0]]))
    return tuple(range(a, b) for a, b in pairwise(cuts))


def _has_changed(table: Floats) -> bool:
    """Tell whether any day, or the days up to one, differ from the rest."""
    total, before = table.sum(axis=0), np.cumsum(table, axis=0)[:-1]
    parts = np.concatenate([before, table])
    # Likelihood ratio of two splits against one.
    ratio = 2 * (_fit(parts) + _fit(total - parts) - _fit(total))
    return bool(np.any(ratio > float(special.chdtri(table.shape[1] - 1, _CHANGED))))


def _fit(counts: Floats) -> Floats:
    """Return the log-likelihood of counts at their own shares (last axis)."""
    total = counts.sum(axis=-1)
    return np.asarray(special.xlogy(counts, counts).sum(axis=-1) - special.xlogy(total, total))
