"""Sample ratio mismatch: did the variants get the shares of units they were promised?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from abeval.stats.multiplicity import adjust
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]

CHI_SQUARE_MINIMUM = 5.0
"""Smallest expected count at which a segment's chi-square is believed (Cochran 1954)."""


class SRM(NamedTuple):
    """A goodness-of-fit test of unit counts against weights.

    Attributes:
        statistic: Pearson chi-square.
        df: Arms with a positive weight, less one.
        p_value: Upper tail; alert below .001.
    """

    statistic: float
    df: int
    p_value: float


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
    counts, shares = _arms(observed, weights)
    if counts.sum() == 0:
        raise Refusal("too_few_units", "a split cannot be tested without units")
    return _pearson(counts, counts.sum() * shares, len(shares) - 1)


def exact(observed: Sequence[int], weights: Sequence[float]) -> float:
    """Exact p-value of a split, for counts too small for chi-square.

    With more than two arms each is tested against the others and the smallest p-value is
    multiplied by the number of arms, which is valid and conservative.

    Args:
        observed: Units per arm, shape (arms,).
        weights: Promised shares in any scale, shape (arms,).

    Returns:
        The p-value; 1 without units.

    Raises:
        Refusal: As `chi_square`, but no units are no evidence rather than an error.

    Source:
        Clopper & Pearson (1934); Bonferroni over arms.

    Example:
        >>> round(exact([50321, 49679], [1, 1]), 6)
        0.04266
    """
    counts, shares = _arms(observed, weights)
    return _exact(counts, shares)


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
    path, shares = _arms(np.atleast_2d(np.asarray(counts, dtype=float)), weights)
    if len(path) == 0:
        raise Refusal("not_applicable", "a sequential test needs at least one look")
    if np.any(np.diff(path, axis=0) < 0):
        raise Refusal("not_applicable", "cumulative counts cannot fall from one look to the next")
    log_factors = _log_bayes_factor(path, shares, _dirichlet(prior, weights, shares))
    p_values = np.exp(-np.maximum.accumulate(np.maximum(log_factors, 0.0)))
    return SequentialSRM(tuple(log_factors.tolist()), tuple(p_values.tolist()), float(p_values[-1]))


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
        >>> found = by_segment(["web", "ios"], [[2988, 3031], [2095, 2684]], [1, 1])
        >>> [(row.segment, round(row.p_value_without, 3)) for row in found.segments]
        [('ios', 0.579), ('web', 0.0)]
    """
    table = np.asarray(observed, dtype=float)
    if table.ndim != 2 or len(table) != len(segments) or len(table) == 0:
        raise Refusal("not_applicable", f"{len(segments)} segments against counts {table.shape}")
    counts, shares = _arms(table, weights)
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


def _arms(observed: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    """Return counts, shape (..., arms), and shares of the arms promised any traffic."""
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


def _pearson(counts: Floats, expected: Floats, df: int) -> SRM:
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return SRM(statistic, df, float(special.chdtrc(df, statistic)) if df else 1.0)


def _exact(counts: Floats, shares: Floats) -> float:
    from scipy import stats

    units = int(counts.sum())
    if units == 0:
        return 1.0
    tests = [
        stats.binomtest(int(count), units, float(share)).pvalue
        for count, share in zip(counts, shares, strict=True)
    ]
    return float(min(1.0, tests[0] if len(tests) == 2 else len(tests) * min(tests)))


def _segment_p_value(counts: Floats, shares: Floats) -> float:
    expected = counts.sum() * shares
    if expected.min() < CHI_SQUARE_MINIMUM:
        return _exact(counts, shares)
    return _pearson(counts, expected, len(shares) - 1).p_value


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
    return _pearson(kept, expected, (kept.shape[0] - 1) * (kept.shape[1] - 1))


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
