"""Test units against promised shares: once, over strata, while units arrive, by segment."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.multiplicity import adjust
from abeval.stats.records import Floats, Refusal

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


class SRM(NamedTuple):
    """A goodness-of-fit test of unit counts against weights.

    Attributes:
        statistic: Pearson chi-square.
        df: Arms with a positive weight, less one.
        p_value: Upper tail; alert below .001.
        is_exact: Whether the p-value is of the exact test instead, since few units are expected.
    """

    statistic: float
    df: int
    p_value: float
    is_exact: bool = False


class SequentialSRM(NamedTuple):
    """An anytime-valid test of the split, look by look.

    Attributes:
        log_bayes_factor: Natural logarithm at every look, against the promised split.
        p_values: Running always-valid p-value at every look; it never rises.
        p_value: The last of them.
    """

    log_bayes_factor: tuple[float, ...]
    p_values: tuple[float, ...]
    p_value: float


def chi_square(observed: Sequence[int], weights: Sequence[float]) -> SRM:
    """Test counts of units against the promised split.

    An arm of zero weight is not counted in the degrees of freedom (D6), and must be empty.

    Args:
        observed: Units per arm, shape (arms,).
        weights: Promised shares in any scale, shape (arms,), not negative.

    Returns:
        Statistic, degrees of freedom and p-value.

    Raises:
        Refusal: `too_few_units` without any unit; `not_finite`; `not_applicable` for units in an
            arm of zero weight, fewer than two arms, or lengths that differ.

    Source:
        Pearson (1900); Fabijan et al. (KDD 2019), "Diagnosing Sample Ratio Mismatch".

    Example:
        >>> round(chi_square([5100, 4900, 0], [0.5, 0.5, 0]).p_value, 6)
        0.0455
    """
    counts, shares = checked(observed, weights)
    if counts.sum() == 0:
        raise Refusal("too_few_units", "a split cannot be tested without units")
    return pearson(counts, counts.sum() * shares, len(shares) - 1)


def believable(observed: Sequence[int], weights: Sequence[float]) -> SRM:
    """Chi-square, or the exact test where an expected count is below five.

    With more than two arms the exact test is of each against the others: the smallest p-value is
    multiplied by the number of arms, which is valid and conservative.

    Args:
        observed: Units per arm, shape (arms,).
        weights: Promised shares in any scale, shape (arms,), not negative.

    Raises:
        Refusal: As `chi_square`.

    Source:
        Cochran (1954) for the count; Clopper & Pearson (1934); Bonferroni over arms.

    Example:
        >>> split = believable([291, 9], [99, 1])
        >>> round(split.p_value, 4), split.is_exact
        (0.0036, True)
    """
    result = chi_square(observed, weights)
    counts, shares = checked(observed, weights)
    if not is_small(counts.sum() * shares):
        return result
    return result._replace(p_value=of_split(counts, shares), is_exact=True)


def stratified(observed: ArrayLike, weights: ArrayLike) -> SRM:
    """Test counts against splits that differ between strata, such as stretches of a ramp.

    The excess of units over those promised, summed over strata, by its covariance: a loss that acts
    alike in all strata shows as plainly as in one large stratum. Where an expected count is below
    five, and few units are expected of an arm in all, the test is exact: the units of an arm are a
    sum of binomials, one a stratum. With more than two arms, the smallest p-value is multiplied by
    their number.

    Args:
        observed: Units, shape (strata, arms).
        weights: Promised shares in any scale, shape (strata, arms), not negative.

    Raises:
        Refusal: As `chi_square`.

    Example:
        >>> round(stratified([[900, 100], [460, 540]], [[9, 1], [1, 1]]).p_value, 4)
        0.0301
        >>> round(stratified([[2, 1], [0, 0]], [[99, 1], [1, 1]]).p_value, 4)
        0.0297
    """
    table, planned = np.asarray(observed, dtype=float), np.asarray(weights, dtype=float)
    if table.shape != planned.shape or table.ndim != 2 or len(table) == 0:
        raise Refusal("not_applicable", f"{table.shape} counts against {planned.shape} weights")
    if table.sum() == 0:
        raise Refusal("too_few_units", "a split cannot be tested without units")
    excess, covariance = np.zeros(table.shape[1]), np.zeros((table.shape[1],) * 2)
    for counts, promised in zip(table, planned, strict=True):
        checked(counts, promised)
        units, shares = counts.sum(), promised / promised.sum()
        excess += counts - units * shares
        covariance += units * (np.diag(shares) - np.outer(shares, shares))
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    df = int(np.linalg.matrix_rank(covariance, tol=1e-10 * table.sum(), hermitian=True))
    statistic = max(float(excess @ inverse @ excess), 0.0)
    shares = planned / planned.sum(axis=1, keepdims=True)
    if are_few(table, shares):
        return SRM(statistic, df, of_strata(table, shares), is_exact=True)
    return SRM(statistic, df, float(special.chdtrc(df, statistic)))


def sequential(
    counts: ArrayLike, weights: Sequence[float], prior: Sequence[float] | None = None
) -> SequentialSRM:
    """Watch the split while units arrive; looking at any moment, and often, is allowed.

    Bayes factor of a Dirichlet-multinomial against the promised multinomial. Counts must be of
    distinct units: a returning unit is counted once, when it first arrives.

    Args:
        counts: Cumulative units, shape (looks, arms) or (arms,) for one look.
        weights: Promised shares in any scale, shape (arms,).
        prior: Dirichlet parameters, shape (arms,). By default 10,000 times the shares: tuned to
            mismatches of about one percent; `[1, 1]` is tuned to gross ones.

    Returns:
        Log Bayes factors and always-valid p-values per look.

    Raises:
        Refusal: As `chi_square`; also `not_applicable` for counts that fall from look to look or
            a prior that is not positive. A look without units has p-value 1.

    Source:
        Lindon & Malek (NeurIPS 2022), "Anytime-Valid Inference for Multinomial Count Data".

    Example:
        >>> path = sequential([[500, 480], [1100, 900], [2300, 1700]], [1, 1])
        >>> [round(p, 6) for p in path.p_values]
        [1.0, 0.206859, 3e-06]
    """
    path, shares = checked(np.atleast_2d(np.asarray(counts, dtype=float)), weights)
    if len(path) == 0:
        raise Refusal("not_applicable", "a sequential test needs at least one look")
    if np.any(np.diff(path, axis=0) < 0):
        raise Refusal("not_applicable", "cumulative counts cannot fall from one look to the next")
    log_factors = _log_bayes_factor(path, shares, _dirichlet(prior, weights, shares))
    p_values = np.exp(-np.maximum.accumulate(np.maximum(log_factors, 0.0)))
    return SequentialSRM(tuple(log_factors.tolist()), tuple(p_values.tolist()), float(p_values[-1]))


def checked(observed: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    """Counts, shape (..., arms), and shares of the arms with a positive weight."""
    counts, shares = np.asarray(observed, dtype=float), np.asarray(weights, dtype=float)
    if shares.ndim != 1 or counts.shape[-1:] != shares.shape:
        raise Refusal("not_applicable", f"{counts.shape} counts against {shares.shape} weights")
    if not (np.isfinite(counts).all() and np.isfinite(shares).all()):
        raise Refusal("not_finite", "counts and weights must be finite")
    if np.any(counts < 0) or np.any(shares < 0):
        raise Refusal("not_applicable", "counts and weights cannot be negative")
    if np.any(counts[..., shares == 0] > 0):
        raise Refusal("not_applicable", "units were observed in an arm of zero weight")
    open_arms = shares > 0
    if open_arms.sum() < 2:
        raise Refusal("not_applicable", "a split needs two arms of positive weight")
    return counts[..., open_arms], shares[open_arms] / shares.sum()


def pearson(counts: Floats, expected: Floats, df: int) -> SRM:
    """Chi-square test of counts against expected ones."""
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return SRM(statistic, df, float(special.chdtrc(df, statistic)) if df else 1.0)


def _dirichlet(prior: Sequence[float] | None, weights: ArrayLike, shares: Floats) -> Floats:
    if prior is None:
        return np.asarray(10_000.0 * shares)
    parameters, promised = np.asarray(prior, dtype=float), np.asarray(weights, dtype=float)
    if parameters.shape != promised.shape or not np.all(parameters[promised > 0] > 0):
        raise Refusal("not_applicable", "the prior needs one positive parameter per arm")
    return np.asarray(parameters[promised > 0])


def _log_bayes_factor(path: Floats, shares: Floats, prior: Floats) -> Floats:
    units = path.sum(axis=1)
    promised = np.sum(path * np.log(shares), axis=1)
    mixture = np.sum(special.gammaln(prior + path) - special.gammaln(prior), axis=1)
    normaliser = special.gammaln(prior.sum()) - special.gammaln(prior.sum() + units)
    return np.asarray(normaliser + mixture - promised)


class SegmentSRM(NamedTuple):
    """One segment's share in a mismatch.

    Attributes:
        segment: Its name.
        units: Units in it.
        excess: Observed less expected units, per arm of positive weight.
        statistic: Chi-square against the weights.
        p_value: Chi-square, or exact where an expected count is below five.
        p_adjusted: Holm over the segments.
        p_value_without: Chi-square of all other segments together: a mismatch that is gone
            without this segment comes from it.
    """

    segment: str
    units: int
    excess: tuple[float, ...]
    statistic: float
    p_value: float
    p_adjusted: float
    p_value_without: float


class SegmentedSRM(NamedTuple):
    """Where in one dimension the mismatch sits.

    Attributes:
        overall: The test of all segments together.
        homogeneity: Whether the split differs between segments, whatever it is overall; segments
            with an expected count below five are taken as one.
        segments: One row per segment, the most suspicious first.
    """

    overall: SRM
    homogeneity: SRM
    segments: tuple[SegmentSRM, ...]


class DimensionSRM(NamedTuple):
    """One dimension's place in the ranking.

    Attributes:
        dimension: Its name, such as `device`.
        p_value: Homogeneity of the split over its segments.
        p_adjusted: The same, Holm over dimensions.
        worst_segment: Segment with the smallest p-value.
        worst_p_adjusted: Its p-value, Holm over the segments of all dimensions.
    """

    dimension: str
    p_value: float
    p_adjusted: float
    worst_segment: str
    worst_p_adjusted: float


def by_segment(
    segments: Sequence[str], observed: ArrayLike, weights: Sequence[float]
) -> SegmentedSRM:
    """Test every segment's split, and whether the split is the same in all.

    Args:
        segments: Names, shape (segments,).
        observed: Units, shape (segments, arms).
        weights: Promised shares in any scale, shape (arms,).

    Returns:
        Overall and homogeneity tests, and the segments ranked by p-value. A segment without
        units has p-value 1.

    Raises:
        Refusal: As `chi_square`, for the segments together.

    Source:
        Fabijan et al. (KDD 2019); Holm (1979).

    Example:
        >>> split = by_segment(["web", "ios"], [[2988, 3031], [2095, 2684]], [1, 1])
        >>> [(row.segment, round(row.p_value_without, 3)) for row in split.segments]
        [('ios', 0.579), ('web', 0.0)]
    """
    table = np.asarray(observed, dtype=float)
    if table.ndim != 2 or len(table) != len(segments) or len(table) == 0:
        raise Refusal("not_applicable", f"{len(segments)} segments against counts {table.shape}")
    counts, shares = checked(table, weights)
    total = counts.sum(axis=0)
    overall = chi_square(total.tolist(), shares.tolist())
    p_values = np.array([_segment_p_value(row, shares) for row in counts])
    adjusted = adjust(p_values, "holm")
    ranked = [
        _segment_row(name, row, total - row, shares, float(p), float(p_holm))
        for name, row, p, p_holm in zip(segments, counts, p_values, adjusted, strict=True)
    ]
    ranked.sort(key=lambda row: (row.p_value, -row.statistic))
    return SegmentedSRM(overall, _homogeneity(counts), tuple(ranked))


def rank_dimensions(
    dimensions: Sequence[str], tables: Sequence[SegmentedSRM]
) -> tuple[DimensionSRM, ...]:
    """Rank dimensions by how plainly the mismatch shows in them, the plainest first.

    Args:
        dimensions: Names, shape (dimensions,).
        tables: What `by_segment` returned for each.

    Returns:
        One row per dimension, ordered by the homogeneity p-value.

    Raises:
        Refusal: `not_applicable` if the lengths differ.

    Source:
        Fabijan et al. (KDD 2019), section 5; Holm (1979).

    Example:
        >>> device = by_segment(["web", "ios"], [[2988, 3031], [2095, 2684]], [1, 1])
        >>> country = by_segment(["de", "fr"], [[2543, 2858], [2540, 2857]], [1, 1])
        >>> [row.dimension for row in rank_dimensions(["country", "device"], [country, device])]
        ['device', 'country']
    """
    if len(dimensions) != len(tables):
        raise Refusal("not_applicable", f"{len(dimensions)} names for {len(tables)} dimensions")
    own = adjust([table.homogeneity.p_value for table in tables], "holm")
    every = adjust([row.p_value for table in tables for row in table.segments], "holm")
    starts = np.cumsum([0, *(len(table.segments) for table in tables)])
    rows = [
        DimensionSRM(
            dimensions[i],
            table.homogeneity.p_value,
            float(own[i]),
            table.segments[0].segment,
            float(every[starts[i]]),
        )
        for i, table in enumerate(tables)
    ]
    return tuple(sorted(rows, key=lambda row: row.p_value))


def _segment_p_value(counts: Floats, shares: Floats) -> float:
    expected = counts.sum() * shares
    if is_small(expected):
        return of_split(counts, shares)
    return pearson(counts, expected, len(shares) - 1).p_value


def _segment_row(
    name: str, counts: Floats, others: Floats, shares: Floats, p_value: float, adjusted: float
) -> SegmentSRM:
    excess = counts - counts.sum() * shares
    units = counts.sum()
    statistic = float(np.sum(excess**2 / (units * shares))) if units else 0.0
    without = _segment_p_value(others, shares)
    return SegmentSRM(
        name, int(units), tuple(excess.tolist()), statistic, p_value, adjusted, without
    )


def _homogeneity(table: Floats) -> SRM:
    """Pearson's test of segment by arm, without Yates; small segments are taken together."""
    kept = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    small = kept.sum(axis=1) * kept.sum(axis=0).min() / kept.sum() < CHI_SQUARE_MINIMUM
    if small.any():
        kept = np.vstack([kept[~small], kept[small].sum(axis=0)])
    expected = kept.sum(axis=1, keepdims=True) * kept.sum(axis=0) / kept.sum()
    return pearson(kept, expected, (kept.shape[0] - 1) * (kept.shape[1] - 1))


CHANGED = 1e-6
"""P-value, for one day or one cut, below which the split is not the same throughout."""

APART = 1e-3
"""P-value below which two stretches are apart, once the split is known to have changed.

A change that is missed biases, one too many costs hardly anything.
"""


def stretches(counts: ArrayLike) -> tuple[range, ...]:
    """Stretches of days of one split; a single one where nothing says that it changed.

    The split has changed if the days before some cut, or one day, differ from all others by the
    likelihood ratio of multinomial counts (p < `CHANGED`). The cuts are then those that maximise
    the likelihood less a penalty for each (Jackson et al. 2005, optimal partitioning).

    Args:
        counts: Units that entered on each day in each variant, shape (days, variants).

    Raises:
        Refusal: `not_applicable` for counts of another shape, or negative ones.

    Example:
        >>> stretches([[90, 10], [92, 8], [51, 49], [48, 52]])
        (range(0, 2), range(2, 4))
        >>> stretches([[50, 50], [46, 54], [51, 49]])
        (range(0, 3),)
    """
    table = np.asarray(counts, dtype=float)
    if table.ndim != 2 or len(table) == 0 or np.any(table < 0):
        raise Refusal("not_applicable", "counts of units by day and variant, not negative")
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or not _has_changed(table):
        return (range(len(table)),)
    return _best(table, _critical(APART, table.shape[1]))


def _critical(p_value: float, variants: int) -> float:
    return float(special.chdtri(variants - 1, p_value))


def _has_changed(table: Floats) -> bool:
    """Whether a day, or the days up to some day, have another split than all others."""
    total, before = table.sum(axis=0), np.cumsum(table, axis=0)[:-1]
    parts = np.concatenate([before, table])
    ratio = 2 * (_fit(parts) + _fit(total - parts) - _fit(total))
    return bool(np.any(ratio > _critical(CHANGED, table.shape[1])))


def _best(table: Floats, penalty: float) -> tuple[range, ...]:
    """The partition of the days with the largest likelihood less the penalty of its cuts."""
    sums = np.vstack([np.zeros(table.shape[1]), np.cumsum(table, axis=0)])
    best, start = np.zeros(len(sums)), np.zeros(len(sums), dtype=int)
    for end in range(1, len(sums)):
        values = best[:end] + 2 * _fit(sums[end] - sums[:end]) - penalty
        start[end] = int(np.argmax(values))
        best[end] = values[start[end]]
    cuts = [len(table)]
    while cuts[-1] > 0:
        cuts.append(int(start[cuts[-1]]))
    cuts.reverse()
    return tuple(range(a, b) for a, b in pairwise(cuts))


def _fit(counts: Floats) -> Floats:
    """Log-likelihood of counts at their own shares, over the last axis."""
    total = counts.sum(axis=-1)
    return np.asarray(special.xlogy(counts, counts).sum(axis=-1) - special.xlogy(total, total))
