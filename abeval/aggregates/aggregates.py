"""What the engine hands to the statistics: small, typed, exact; it can be saved.

`collect.py` makes them, `time/cut.py` for windows, and `store/` saves and reads them;
`inference/judge.py`, `pairwise.py` and `power.py` compare variants with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.reach import NO_REACH, GroupUnits, Reach
from abeval.aggregates.sums import (
    BUCKET,
    BUCKETS,
    CAPPED,
    COVARIATES,
    DAY,
    LACKING,
    MOMENT_COLUMNS,
    SEGMENT,
    VARIABLES,
    WHOLE,
    ByStretch,
    Group,
    Row,
    by_stretch,
    joined,
    pooled,
)
from abeval.engines.protocol import Cell
from abeval.logs.accounting import DayRows, LogRows, SeenUnits
from abeval.logs.placing import Entered, Stretches
from abeval.logs.views import ITEM_GROUPS
from abeval.report.replay_views import group_of
from abeval.stats.catalogue import Incidence
from abeval.stats.moments import Moments, Units
from abeval.stats.records import RefusalReason


class Quantile(NamedTuple):
    """A quantile over the impressions of a variant, in counted units.

    Attributes:
        events: Impressions that have a value.
        value: The quantile of the mid-distribution (`stats.quantiles`).
        low: That at the lower of the levels of `stats.quantiles.ends`, None where it is refused.
        high: That at the higher one.
        refused: Why the quantile has no interval.
    """

    events: int
    value: float
    low: float | None
    high: float | None
    refused: RefusalReason | None = None


@dataclass(frozen=True)
class Aggregates:
    """Everything that the statistics know of the logs.

    Attributes:
        moments: `MOMENT_COLUMNS`; one row per metric, slice, cell, variant and stretch of entry
            days (0 where the split did not change). `slice` is
            `whole`, `capped`, `day`, `segment:NAME`, `covariates` (cells are pairs of them),
            `bucket`, `left_out`, `lacking` (of a column instead of a metric: impressions of files
            that lack it, and all) or `balance` (of a covariate of the table of units); sums are
            exact integers as text.
        reach: Who was shown what.
        group_units: Units of each group of units of a variant.
        catalogue_size: Items that could have been shown, None without catalogue metrics.
        units: Analysed units of each variant.
        accounts: Rows of each log by what became of them; reason `used`.
        days: Each local day of the period that has an impression.
        refused: Metric → what these logs lack for it.
        facts: What the trust checks count, by name.
        caps: Metric → caps of numerator and denominator, in counted units.
        quantiles: Metric → variant → its quantile; of the distributions of `spreads.py`, too.
        buckets: Metric → its sums over sub-buckets, for A/A replays; empty without them.
        entered: Units by scheduled split, hour of entry and variant.
        stretches: Stretches of entry days of one split each; none where it did not change.
        notes: What a reader of the result must know about how they were computed.
        audits: What the audits count.
        extremes: The twenty units that deviate most from the value of their variant, without their
            ids.
        unit_values: The values of single units, in counted units and without their ids, of metrics
            that have few; of units in stretches, none.
        seen_in: Where units were seen.
        unit_aucs: Units by their own AUC, where GAUC is a metric.
    """

    moments: Sequence[tuple[Cell, ...]]
    catalogue_size: int | None
    units: Sequence[VariantUnits]
    accounts: Sequence[LogRows]
    days: Sequence[DayRows]
    refused: Mapping[str, tuple[str, ...]]
    facts: Mapping[str, int]
    caps: Mapping[str, tuple[int, int | None]]
    quantiles: Mapping[str, Mapping[str, Quantile]] = field(default_factory=dict)
    buckets: Mapping[str, BucketSums] = field(default_factory=dict)
    reach: Reach = NO_REACH
    group_units: Sequence[GroupUnits] = ()
    entered: Sequence[Entered] = ()
    stretches: Stretches = ()
    notes: tuple[str, ...] = ()
    audits: Sequence[AuditSums] = ()
    extremes: Sequence[ExtremeUnit] = ()
    unit_values: Sequence[UnitValue] = ()
    seen_in: Sequence[SeenUnits] = ()
    unit_aucs: Sequence[UnitsByAuc] = ()

    @property
    def places(self) -> range:
        """The numbers of the stretches; only 0 where the split did not change."""
        return range(max(1, len(self.stretches)))

    def units_of(self, variant: str) -> int:
        """Analysed units of a variant."""
        return self._unit_counts.get(variant, 0)

    def cells(self, metric: str, slice_name: str) -> Sequence[str]:
        """The cells of a slice of a metric, in order."""
        return sorted(self._slices.get((metric, slice_name), {}))

    def of(self, metric: str, slice_name: str, cell: str, scales: tuple[float, float]) -> ByStretch:
        """Moments of (y, x, y0, x0, z) by stretch and variant; of days and segments, of (y, x).

        Args:
            metric: Its name.
            slice_name: The slice.
            cell: The cell of the slice, empty for the whole.
            scales: What one counted unit of y and of x is worth.
        """
        key = metric, slice_name, cell, scales
        if key not in self._known:
            rows = self._slices.get((metric, slice_name), {}).get(cell, {})
            width = 2 if slice_name == DAY or slice_name.startswith(SEGMENT) else len(VARIABLES)
            moments = by_stretch(rows, len(self.places), scales, width)
            if slice_name == (CAPPED if metric in self.caps else WHOLE):
                units = self._units_of.get(metric, {})
                moments = [with_units(own, units, scales) for own in moments]
            self._known[key] = moments
        return self._known[key]

    def with_covariates(self, metric: str, scales: Sequence[float]) -> ByStretch:
        """Moments of (y, x, covariates, z) by stretch and variant of a metric with covariates.

        Args:
            metric: Its name.
            scales: What one counted unit of each variable is worth.
        """
        pairs: dict[Group, dict[tuple[int, int], Row]] = {}
        for cell, groups in self._slices[metric, COVARIATES].items():
            first, second = cell.split(",")
            for group, row in groups.items():
                pairs.setdefault(group, {})[int(first), int(second)] = row
        moments: list[dict[str, Moments]] = [{} for _ in self.places]
        for group, of_group in pairs.items():
            moments[group.stretch][group.variant] = joined(of_group, scales)
        return moments

    def buckets_of(self, metric: str, variant: str, stretch: int = 0) -> NDArray[np.float64]:
        """Units, Σy and Σx of each group of sub-buckets of a variant, shape (BUCKETS, 3)."""
        sums, group = np.zeros((BUCKETS, 3)), Group(variant, stretch)
        for cell, groups in self._slices.get((metric, BUCKET), {}).items():
            if group in groups:
                row = groups[group]
                sums[int(cell)] = [float(str(row[name])) for name in ("units", "y", "x")]
        return sums

    def lacking(self) -> dict[str, dict[str, Moments]]:
        """Column → variant → moments of its impressions in files that lack it, and of all."""
        return {
            column: pooled(self.of(column, LACKING, "", (1.0, 1.0)))
            for column, slice_name in self._slices
            if slice_name == LACKING
        }

    def sums(self, metric: str, slice_name: str) -> list[tuple[str, str, int]]:
        """(cell, variant, Σy) of a slice."""
        totals: dict[tuple[str, str], int] = {}
        for cell, groups in self._slices.get((metric, slice_name), {}).items():
            for group, row in groups.items():
                key = cell, group.variant
                totals[key] = totals.get(key, 0) + int(str(row["y"]))
        return [(cell, variant, total) for (cell, variant), total in totals.items()]

    def incidence(self, variant: str) -> Incidence:
        """Who was shown what in a variant, with items and groups numbered alike in all variants."""
        groups = sorted({one.item_group for one in self.group_units})
        of_variant = {o.item_group: o.units for o in self.group_units if o.variant == variant}
        shown, place = self.reach.of(variant), np.searchsorted(groups, np.arange(ITEM_GROUPS))
        return Incidence(
            item=self.reach.item[shown],
            group=place[self.reach.item_group[shown]],
            units=self.reach.units[shown],
            impressions=self.reach.impressions[shown],
            units_in_group=np.array([of_variant.get(group, 0) for group in groups], dtype=np.int64),
            catalogue_size=self.catalogue_size or len(self.reach.items),
        )

    @cached_property
    def audit_rows(self) -> dict[str, list[AuditSums]]:
        """Audit → its rows; built once, looked up by every check."""
        rows: dict[str, list[AuditSums]] = {}
        for row in self.audits:
            rows.setdefault(row.audit, []).append(row)
        return rows

    @cached_property
    def extreme_units(self) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """Metric and variant → (y, x) of the units that deviate most; built once, as above."""
        units: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for one in self.extremes:
            units.setdefault((one.metric, one.variant), []).append((float(one.y), float(one.x)))
        return units

    @cached_property
    def _known(self) -> dict[tuple[str, str, str, tuple[float, float]], ByStretch]:
        """Moments of all variants, which every comparison of two of them asks for."""
        return {}

    @cached_property
    def _units_of(self) -> dict[str, dict[str, Units]]:
        """Metric → variant → values of its units, in counted units, where both are few."""
        few = sum(self._unit_counts.values()) <= FEW_UNITS
        return units_of(self.unit_values) if few else {}

    @cached_property
    def _unit_counts(self) -> dict[str, int]:
        """Variant → analysed units; built once, looked up hundreds of times."""
        counts: dict[str, int] = {}
        for one in self.units:
            counts[one.variant] = counts.get(one.variant, 0) + one.units
        return counts

    @cached_property
    def _slices(self) -> dict[tuple[str, str], dict[str, dict["Group", Row]]]:
        """(metric, slice) → cell → group → row; built once, looked up hundreds of times."""
        slices: dict[tuple[str, str], dict[str, dict[Group, Row]]] = {}
        for values in self.moments:
            row = dict(zip(MOMENT_COLUMNS, values, strict=True))
            cells = slices.setdefault((str(row["metric"]), str(row["slice"])), {})
            cells.setdefault(str(row["cell"]), {})[group_of(row)] = row
        return slices
