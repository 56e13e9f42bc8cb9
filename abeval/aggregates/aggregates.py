"""Hold everything that the statistics know of the logs: small, typed, exact."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates import sums
from abeval.aggregates.reach import NO_REACH, Reach
from abeval.aggregates.sums import BySlice, ByStretch, Group, SumsRow
from abeval.assignment import SUB_BUCKETS
from abeval.logs.accounting import DayRows, LogRows
from abeval.logs.placing import Entered, Stretches
from abeval.logs.unit_arrays import Clusters
from abeval.logs.views import ITEM_GROUPS
from abeval.stats.catalogue import Incidence
from abeval.stats.faults import Sums, UnitSums
from abeval.stats.moments import Moments, are_heavy
from abeval.stats.records import Floats, RefusalReason


class AuditSums(NamedTuple):
    """The share y / x that an audit counts in one of its cells, in a variant.

    `active` is in how many clusters of units y is above zero, `own` are sums over the clusters.
    """

    audit: str
    cell: str
    variant: str
    active: int
    own: Sums

    @property
    def share(self) -> float:
        """Return the share."""
        return self.own.y / self.own.x


class UnitShares(NamedTuple):
    """The share y / x of a variant's rows that an audit counts in one of its cells.

    `own` are the units that have rows, each with the share of its own rows, at most 1.
    """

    audit: str
    cell: str
    variant: str
    y: int
    x: int
    own: UnitSums

    @property
    def share(self) -> float:
        """Return the share."""
        return self.y / self.x


class UnitsByAuc(NamedTuple):
    """Units whose own AUC is in the same twentieth, or that have none for the same reason.

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
    """Tell whether single units are split, because sub-buckets would hold too few."""
    return units < UNITS_PER_BUCKET * SUB_BUCKETS


@dataclass(frozen=True, eq=False)
class BucketSums:
    """Sums of one metric in each sub-bucket or unit, without regard to variants.

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
    def of_units(cls, y: Floats, x: Floats, before: Floats | None = None) -> "BucketSums":
        """Return every unit a bucket of its own.

        Example:
            >>> BucketSums.of_units(np.array([2.0]), np.array([3.0])).sums.tolist()
            [[2.0, 3.0, 4.0, 6.0, 9.0]]
        """
        sums = np.stack([y, x, y * y, y * x, x * x], axis=1)
        return cls(np.ones(len(y)), sums, before, find_heavy_units(np.arange(len(y)), y, x))

    def scaled(self, per_y: float, per_x: float) -> "BucketSums":
        """Rescale counted sums to values in the metric's own unit.

        Example:
            >>> sums = BucketSums.of_units(np.array([2e6]), np.array([3.0]))
            >>> sums.scaled(1e-6, 1.0).sums.tolist()
            [[2.0, 3.0, 4.0, 6.0, 9.0]]
        """
        units = [per_y, per_x, per_y * per_y, per_y * per_x, per_x * per_x]
        before = None if self.before is None else self.before * np.array([per_y, per_x, 1.0])
        heavy = self.heavy * np.array([1.0, per_y, per_x])
        return BucketSums(self.units, self.sums * np.array(units), before, heavy)

    @property
    def deviations(self) -> Floats:
        """Return what each bucket adds to the metric's value beyond its share; 0 without a value.

        Example:
            >>> BucketSums.of_units(np.array([1.0, 3.0]), np.ones(2)).deviations.tolist()
            [-1.0, 1.0]
        """
        y, x = self.sums[:, 0], self.sums[:, 1]
        return y - y.sum() / x.sum() * x if x.any() else np.zeros(len(y))

    @property
    def is_heavy(self) -> bool:
        """Tell whether a hundredth of the buckets makes most of the metric's variance.

        Example:
            >>> values = np.random.default_rng(1).normal(size=3000)
            >>> [BucketSums.of_units(y, np.ones(3000)).is_heavy for y in (values, values**9)]
            [False, True]
        """
        squares = np.sort(self.deviations**2)
        return bool(squares[len(squares) * 99 // 100 :].sum() > squares.sum() / 2)


def find_heavy_units(bucket: NDArray[np.integer], y: Floats, x: Floats) -> Floats:
    """Return bucket, y and x of the units that are heavy in a tenth of all, shape (heavy, 3).

    Where denominators are equal, none is.

    Example:
        >>> find_heavy_units(np.arange(3), np.ones(3), np.array([1.0, 2.0, 3.0])).tolist()
        [[0.0, 1.0, 1.0], [1.0, 1.0, 2.0], [2.0, 1.0, 3.0]]
    """
    kept = are_heavy(x, len(x) // 10, float(np.abs(x).sum()) / 10)
    if not len(x) or np.ptp(x) == 0:
        kept[:] = False
    return np.stack([bucket[kept], y[kept], x[kept]], axis=1)


class Quantile(NamedTuple):
    """A quantile over the impressions of a variant, in counted units.

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


One = TypeVar("One")
Label = TypeVar("Label", bound=Hashable)


def grouped(rows: Iterable[One], label: Callable[[One], Label]) -> dict[Label, list[One]]:
    """Return rows by a label, in their order."""
    by_label: dict[Label, list[One]] = {}
    for row in rows:
        by_label.setdefault(label(row), []).append(row)
    return by_label


@dataclass(frozen=True)
class Aggregates:
    """Everything that the statistics know of the logs.

    Attributes:
        moments: A row per metric, slice, cell, variant and stretch of entry days
            (0 where the split did not change). `slice` is `whole`, `capped`, `day`, `segment:NAME`,
            `bucket`, `left_out`, `known` (units with a value) or `balance` (of a covariate of the
            table of units).
        units: Variant → its analysed units.
        group_units: Variant and group of units → how many are in it.
        catalogue_size: Items that could have been shown, None without catalogue metrics.
        accounts: Rows of each log by what became of them; reason `used`.
        refused: Metric → what these logs lack for it.
        facts: What the trust checks count, by name.
        caps: Metric → caps of numerator and denominator, in counted units.
        quantiles: Metric → variant → its quantile; of distributions (`spread_metrics`), too.
        buckets: Metric → its sums over sub-buckets, for A/A replays; empty without them.
        entered: Units by scheduled split, hour of entry and variant.
        stretches: Stretches of entry days of one split each; none where it did not change.
        audits: Audit of hours → its rows; empty where the log is not audited.
        shares: Audit of shares of rows → its rows.
        questions: What a person has to say of the logs before anything is decided.
        extremes: Metric and variant → (y, x), in counted units, of the twenty units that deviate
            most from the variant's value.
        clusters: What was randomised, where that are groups of units.
        cluster_sums: Metric → `SourceValues.of_clusters`.
        days_are_units: Whether the units are days, each of both variants, in place of sub-buckets.
        covariates: Metric that has some → variant and stretch → `SourceValues.covariate_moments`.
    """

    moments: Sequence[SumsRow] = ()
    catalogue_size: int | None = None
    units: Mapping[str, int] = field(default_factory=dict)
    accounts: Sequence[LogRows] = ()
    days: Sequence[DayRows] = ()
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Mapping[str, int] = field(default_factory=dict)
    caps: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    quantiles: Mapping[str, Mapping[str, Quantile]] = field(default_factory=dict)
    buckets: Mapping[str, BucketSums] = field(default_factory=dict)
    reach: Reach = NO_REACH
    group_units: Mapping[tuple[str, int], int] = field(default_factory=dict)
    entered: Sequence[Entered] = ()
    stretches: Stretches = ()
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    audits: Mapping[str, Sequence[AuditSums]] = field(default_factory=dict)
    shares: Mapping[str, Sequence[UnitShares]] = field(default_factory=dict)
    extremes: Mapping[tuple[str, str], Sequence[tuple[float, float]]] = field(default_factory=dict)
    unit_aucs: Sequence[UnitsByAuc] = ()
    clusters: Clusters | None = None
    cluster_sums: Mapping[str, Floats] = field(default_factory=dict)
    days_are_units: bool = False
    covariates: Mapping[str, Mapping[Group, Moments]] = field(default_factory=dict)

    @property
    def places(self) -> range:
        """Return the numbers of the stretches; only 0 where the split did not change."""
        return range(max(1, len(self.stretches)))

    def units_of(self, variant: str) -> int:
        """Return the analysed units of a variant."""
        return self.units.get(variant, 0)

    def cells(self, metric: str, slice_name: str) -> Sequence[str]:
        """Return the cells of a slice of a metric, in order."""
        return sorted(self._slices.get((metric, slice_name), {}))

    def of(self, metric: str, slice_name: str, cell: str, scales: tuple[float, float]) -> ByStretch:
        """Return moments of (y, x, y0, x0, z), of days and segments of (y, x), by stretch.

        `scales` are what one counted unit of y and of x is worth.
        """
        key = metric, slice_name, cell, scales
        if key not in self._known:
            rows = self._slices.get((metric, slice_name), {}).get(cell, {})
            of_parts = slice_name == sums.DAY or slice_name.startswith(sums.SEGMENT)
            width = 2 if of_parts else len(sums.VARIABLES)
            self._known[key] = sums.by_stretch(rows, len(self.places), scales, width)
        return self._known[key]

    def with_covariates(self, metric: str) -> ByStretch:
        """Return moments of (y, x, covariates, z) by stretch and variant of a metric."""
        moments: list[dict[str, Moments]] = [{} for _ in self.places]
        for group, of_group in self.covariates[metric].items():
            moments[group.stretch][group.variant] = of_group
        return moments

    def buckets_of(self, metric: str, variant: str, stretch: int = 0) -> Floats:
        """Return units, Σy and Σx of each group of sub-buckets of a variant, shape (BUCKETS, 3)."""
        table, group = np.zeros((sums.BUCKETS, 3)), Group(variant, stretch)
        for cell, groups in self._slices.get((metric, sums.BUCKET), {}).items():
            if group in groups:
                own = groups[group]
                table[int(cell)] = own.units, own.sum("y"), own.sum("x")
        return table

    def sums(self, metric: str, slice_name: str) -> list[tuple[str, str, int]]:
        """(cell, variant, Σy) of a slice."""
        totals = Counter[tuple[str, str]]()
        for cell, groups in self._slices.get((metric, slice_name), {}).items():
            for group, row in groups.items():
                totals[cell, group.variant] += row.sum("y")
        return [(cell, variant, y) for (cell, variant), y in totals.items()]

    def incidence(self, variant: str) -> Incidence:
        """Who was shown what in a variant, with items and groups numbered alike in all variants."""
        groups = sorted({group for _, group in self.group_units})
        units = [self.group_units.get((variant, group), 0) for group in groups]
        shown, place = self.reach.of(variant), np.searchsorted(groups, np.arange(ITEM_GROUPS))
        return Incidence(
            item=self.reach.item[shown],
            group=place[self.reach.item_group[shown]],
            units=self.reach.units[shown],
            impressions=self.reach.impressions[shown],
            units_in_group=np.array(units, dtype=np.int64),
            catalogue_size=self.catalogue_size or len(self.reach.items),
        )

    @cached_property
    def _known(self) -> dict[tuple[str, str, str, tuple[float, float]], ByStretch]:
        """Return moments of all variants, which every comparison of two of them asks for."""
        return {}

    @cached_property
    def _slices(self) -> BySlice:
        """(metric, slice) → cell → group → row; built once, looked up hundreds of times."""
        return sums.slices_of(self.moments)
