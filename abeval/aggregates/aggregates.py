"""Hold everything that the statistics know of the logs, exactly."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates import sums
from abeval.aggregates.reach import NO_REACH, Reach
from abeval.aggregates.sums import Group, MomentsByPeriod, RowsBySlice, SumsRow
from abeval.assignment import SUB_BUCKETS
from abeval.logs.accounting import DayRows, LogRows, OutcomeClock
from abeval.logs.clusters import MixedSlots
from abeval.logs.ids import CoarserIds, OrderStates
from abeval.logs.placing import Enrollment, SplitPeriods
from abeval.logs.unexposed import NearRows
from abeval.logs.unit_arrays import Clusters
from abeval.logs.views import ITEM_GROUPS
from abeval.stats.catalogue import Incidence
from abeval.stats.faults import UnitSums
from abeval.stats.moments import Moments, are_heavy
from abeval.stats.records import Floats, RefusalReason


class GroupRows(NamedTuple):
    """Hold the rows of groups of units by hour or by day.

    Attributes:
        split_period: Number of the split period in which the units entered.
        value: Of the segment that the audit is of; empty for all units.
        times: Hours or days since 1970, or hours of the day.
        rows: Shape (times, variants, groups).
    """

    split_period: int
    value: str
    times: NDArray[np.int64]
    rows: NDArray[np.int64]


class UnitShares(NamedTuple):
    """Hold the share of a variant's rows that have the fault of an audit, in a cell.

    An audit looks for a fault of logging, such as repeated rows or missing values, which should
    be as frequent in every variant.

    Attributes:
        audit: Name of the audit.
        cell: A group of rows within it, such as a value of a segment; empty for all rows.
        y: Rows that have it. Where the audit compares clocks of machines: milliseconds.
        x: All rows.
        sums: The units that have rows, with the sum of their own shares and of the squares.
    """

    audit: str
    cell: str
    variant: str
    y: int
    x: int
    sums: UnitSums

    @property
    def share(self) -> float:
        """Return the share."""
        return self.y / self.x


class UnitsByAuc(NamedTuple):
    """Count units whose AUC is in one twentieth, or missing for one reason.

    `bin` is from 0 to 19, −1 without an AUC.
    """

    variant: str
    fate: str
    bin: int
    units: int
    impressions: int
    left_out_clicks: int


UNITS_PER_BUCKET = 10
"""With fewer units per sub-bucket than this, single units are split instead."""


def deals_units(units: int) -> bool:
    """Tell whether single units are split, as sub-buckets would hold too few."""
    return units < UNITS_PER_BUCKET * SUB_BUCKETS


@dataclass(frozen=True, eq=False)
class BucketSums:
    """Hold sums of one metric in each sub-bucket or unit, of all variants together.

    Attributes:
        units: Per sub-bucket (or 1 per unit), shape (buckets,).
        sums: Σy, Σx, Σy², Σyx and Σx², shape (buckets, 5).
        before: Of single units, y and x before the period and whether the unit is new, shape
            (units, 3); None of sub-buckets.
        heavy: Bucket, y and x of the units that are heavy in a tenth of all, shape (heavy, 3).
    """

    units: Floats
    sums: Floats
    before: Floats | None = None
    heavy: Floats = field(default_factory=lambda: np.zeros((0, 3)))

    @classmethod
    def per_unit(cls, y: Floats, x: Floats, before: Floats | None = None) -> "BucketSums":
        """Make every unit a bucket of its own.

        Example:
            >>> BucketSums.per_unit(np.array([2.0]), np.array([3.0])).sums.tolist()
            [[2.0, 3.0, 4.0, 6.0, 9.0]]
        """
        sums = np.stack([y, x, y * y, y * x, x * x], axis=1)
        return cls(np.ones(len(y)), sums, before, find_heavy_units(np.arange(len(y)), y, x))

    def rescale(self, per_y: float, per_x: float) -> "BucketSums":
        """Rescale counted sums to values in the metric's own unit.

        Example:
            >>> sums = BucketSums.per_unit(np.array([2e6]), np.array([3.0]))
            >>> sums.rescale(1e-6, 1.0).sums.tolist()
            [[2.0, 3.0, 4.0, 6.0, 9.0]]
        """
        units = [per_y, per_x, per_y * per_y, per_y * per_x, per_x * per_x]
        before = None if self.before is None else self.before * np.array([per_y, per_x, 1.0])
        heavy = self.heavy * np.array([1.0, per_y, per_x])
        return BucketSums(self.units, self.sums * np.array(units), before, heavy)

    @property
    def deviations(self) -> Floats:
        """Return what each bucket adds to the metric's value beyond its share.

        Example:
            >>> BucketSums.per_unit(np.array([1.0, 3.0]), np.ones(2)).deviations.tolist()
            [-1.0, 1.0]
        """
        y, x = self.sums[:, 0], self.sums[:, 1]
        # A bucket's influence on a ratio is y − ratio × x.
        return y - y.sum() / x.sum() * x if x.any() else np.zeros(len(y))

    @property
    def is_heavy(self) -> bool:
        """Tell whether 1 % of the buckets make most of the metric's variance.

        Example:
            >>> values = np.random.default_rng(1).normal(size=3000)
            >>> [BucketSums.per_unit(y, np.ones(3000)).is_heavy for y in (values, values**9)]
            [False, True]
        """
        squares = np.sort(self.deviations**2)
        return bool(squares[len(squares) * 99 // 100 :].sum() > squares.sum() / 2)


def find_heavy_units(bucket: NDArray[np.integer], y: Floats, x: Floats) -> Floats:
    """Find bucket, y and x of units that are heavy in a tenth of all units.

    Returns shape (heavy, 3).

    Example:
        >>> find_heavy_units(np.arange(3), np.ones(3), np.array([1.0, 2.0, 3.0])).tolist()
        [[0.0, 1.0, 1.0], [1.0, 1.0, 2.0], [2.0, 1.0, 3.0]]
    """
    kept = are_heavy(x, len(x) // 10, float(np.abs(x).sum()) / 10)
    # Where all denominators are equal, no unit weighs more than another.
    if not len(x) or np.ptp(x) == 0:
        kept[:] = False
    return np.stack([bucket[kept], y[kept], x[kept]], axis=1)


class Quantile(NamedTuple):
    """Hold a quantile over the impressions of a variant, in counted units.

    Attributes:
        value: The quantile of the mid-distribution (`stats.quantiles`).
        low: That at the lower of the levels of `stats.quantiles.ends`, None where it is refused.
        high: That at the higher one.
    """

    events: int
    value: float
    low: float | None
    high: float | None
    refused: RefusalReason | None = None


@dataclass(frozen=True)
class Aggregates:
    """Hold everything that the statistics know of the logs.

    Attributes:
        moments: A row per metric, slice, cell, variant and split period
            (0 where the split did not change). `slice` is `whole`, `capped`, `day`, `segment:NAME`,
            `bucket`, `left_out`, `known` (units with a value), `unexposed` (rows without exposure)
            or `balance` (of a covariate of the table of units).
        units: Variant → its analysed units.
        group_units: Variant and group of units → how many are in it.
        catalogue_size: Items that could have been shown, None without catalogue metrics.
        row_counts: Rows of each log by what became of them; reason `used`.
        refused: Metric → what these logs lack for it.
        facts: What the trust checks count, by name.
        other_variants: Variant that the file does not name → its rows, most rows first.
        placeholders: Id that stands for nobody → its rows, most rows first.
        coarser_ids: Columns of ids that may be what was randomised, the coarsest first.
        order_states: Outcome logs with rows of several states of one order.
        clocks: Outcome log with rows before an exposure → its clock.
        near_rows: Impressions just before an exposure; None without any.
        mixed_slots: Slots of a switchback that show several variants; None of other designs.
        caps: Metric → caps of numerator and denominator, in counted units.
        quantiles: Metric → variant → its quantile; of distributions (`spread_metrics`), too.
        buckets: Metric → its sums over sub-buckets, for A/A replays; empty without them.
        enrollments: Units by scheduled split, hour of entry and variant.
        split_periods: Periods of one split each; none where it did not change.
        audits: Audit of hours or days → rows by split period and value of a segment; empty where
            the log is not audited.
        shares: Audit of shares of rows → its rows.
        questions: What a person has to say of the logs before anything is decided.
        extremes: Metric and variant → (y, x), in counted units, of the twenty units that deviate
            most from the variant's value.
        clusters: What was randomised, where that are groups of units.
        cluster_sums: Metric → `SourceValues.sum_clusters`.
        days_are_units: Whether the units are days, each of both variants, in place of sub-buckets.
        covariates: Metric that has some → variant and split period →
            `SourceValues.covariate_moments`.
    """

    moments: Sequence[SumsRow] = ()
    catalogue_size: int | None = None
    units: Mapping[str, int] = field(default_factory=dict)
    row_counts: Sequence[LogRows] = ()
    days: Sequence[DayRows] = ()
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Mapping[str, int] = field(default_factory=dict)
    other_variants: Mapping[str, int] = field(default_factory=dict)
    placeholders: Mapping[str, int] = field(default_factory=dict)
    coarser_ids: Sequence[CoarserIds] = ()
    order_states: Sequence[OrderStates] = ()
    clocks: Mapping[str, OutcomeClock] = field(default_factory=dict)
    near_rows: NearRows | None = None
    mixed_slots: MixedSlots | None = None
    caps: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    quantiles: Mapping[str, Mapping[str, Quantile]] = field(default_factory=dict)
    buckets: Mapping[str, BucketSums] = field(default_factory=dict)
    reach: Reach = NO_REACH
    group_units: Mapping[tuple[str, int], int] = field(default_factory=dict)
    enrollments: Sequence[Enrollment] = ()
    split_periods: SplitPeriods = ()
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    audits: Mapping[str, Sequence[GroupRows]] = field(default_factory=dict)
    shares: Mapping[str, Sequence[UnitShares]] = field(default_factory=dict)
    extremes: Mapping[tuple[str, str], Sequence[tuple[float, float]]] = field(default_factory=dict)
    unit_aucs: Sequence[UnitsByAuc] = ()
    clusters: Clusters | None = None
    cluster_sums: Mapping[str, Floats] = field(default_factory=dict)
    days_are_units: bool = False
    covariates: Mapping[str, Mapping[Group, Moments]] = field(default_factory=dict)

    @property
    def period_numbers(self) -> range:
        """Return the numbers of the split periods; only 0 without a change."""
        return range(max(1, len(self.split_periods)))

    def count_units(self, variant: str) -> int:
        """Count the analysed units of a variant."""
        return self.units.get(variant, 0)

    def count_rows(self, reason: str, log: str = "") -> int:
        """Count the rows of a log, or of all, that were used or set aside for a reason."""
        return sum(
            row_count.rows
            for row_count in self.row_counts
            if row_count.reason == reason and log in ("", row_count.log)
        )

    def cells(self, metric: str, slice_name: str) -> Sequence[str]:
        """Return the cells of a slice of a metric, in order."""
        return sorted(self._slices.get((metric, slice_name), {}))

    def find_moments(
        self, metric: str, slice_name: str, cell: str, scales: tuple[float, float]
    ) -> MomentsByPeriod:
        """Find moments of (y, x, y0, x0, z) by split period and variant.

        `scales` are what one counted unit of y and of x is worth.
        """
        key = metric, slice_name, cell, scales
        if key not in self._moments_cache:
            rows = self._slices.get((metric, slice_name), {}).get(cell, {})
            # Days, segments and unexposed rows have sums of (y, x) only.
            of_parts = slice_name in (sums.DAY, sums.UNEXPOSED) or slice_name.startswith(
                sums.SEGMENT
            )
            width = 2 if of_parts else len(sums.VARIABLES)
            self._moments_cache[key] = sums.make_moments_by_period(
                rows, len(self.period_numbers), scales, width
            )
        return self._moments_cache[key]

    def find_covariate_moments(self, metric: str) -> MomentsByPeriod:
        """Find moments of (y, x, covariates, z) by split period and variant."""
        moments: list[dict[str, Moments]] = [{} for _ in self.period_numbers]
        for group, of_group in self.covariates[metric].items():
            moments[group.split_period][group.variant] = of_group
        return moments

    def find_bucket_sums(self, metric: str, variant: str, split_period: int = 0) -> Floats:
        """Find units, Σy and Σx of each group of sub-buckets, shape (BUCKETS, 3)."""
        table, group = np.zeros((sums.BUCKETS, 3)), Group(variant, split_period)
        for cell, groups in self._slices.get((metric, sums.BUCKET), {}).items():
            if group in groups:
                row = groups[group]
                table[int(cell)] = row.units, row.sum("y"), row.sum("x")
        return table

    def sums(self, metric: str, slice_name: str) -> list[tuple[str, str, int]]:
        """Return (cell, variant, Σy) of a slice."""
        totals = Counter[tuple[str, str]]()
        for cell, groups in self._slices.get((metric, slice_name), {}).items():
            for group, row in groups.items():
                totals[cell, group.variant] += row.sum("y")
        return [(cell, variant, y) for (cell, variant), y in totals.items()]

    def incidence(self, variant: str) -> Incidence:
        """Return who was shown what in a variant."""
        groups = sorted({group for _, group in self.group_units})
        units = [self.group_units.get((variant, group), 0) for group in groups]
        # Groups of units are numbered alike in all variants, which the jackknife pairs.
        entries = self.reach.find_entries(variant)
        group_index = np.searchsorted(groups, np.arange(ITEM_GROUPS))
        return Incidence(
            item=self.reach.item[entries],
            group=group_index[self.reach.item_group[entries]],
            units=self.reach.units[entries],
            impressions=self.reach.impressions[entries],
            units_in_group=np.array(units, dtype=np.int64),
            catalogue_size=self.catalogue_size or len(self.reach.items),
        )

    @cached_property
    def _moments_cache(self) -> dict[tuple[str, str, str, tuple[float, float]], MomentsByPeriod]:
        """Keep the moments of all variants, which every pair of them needs."""
        return {}

    @cached_property
    def _slices(self) -> RowsBySlice:
        """Index rows as (metric, slice) → cell → group → row."""
        return sums.index_rows(self.moments)
