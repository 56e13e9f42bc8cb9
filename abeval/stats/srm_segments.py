"""Sample ratio mismatch by segment: in which, and is it the same in all?

`inference/segments.py` hands over the units by cell of a segment, for the trust checks of
`inference/trust/`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.multiplicity import adjust
from abeval.stats.records import Floats, Refusal
from abeval.stats.srm import (
    CHI_SQUARE_MINIMUM,
    SRM,
    checked,
    chi_square,
    is_small,
    of_split,
    pearson,
)


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
