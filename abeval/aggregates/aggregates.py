"""What the engine hands to the statistics: small, typed, exact; it can be added and saved.

`collect.py` makes them, `time/cut.py` for windows, and `store/` adds, saves and reads them;
`inference/judge.py`, `pairwise.py` and `power.py` compare variants with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from abeval.aggregates.buckets import BucketSums
from abeval.logs.stretches import ENTERED, Stretches
from abeval.stats.catalogue import Incidence
from abeval.stats.moments import Moments
from abeval.stats.records import RefusalReason

Row = Mapping[str, object]

ByStretch = Sequence[Mapping[str, Moments]]
"""Variant → moments, in each stretch of entry days; a single one where the split did not change."""

VARIABLES = ("y", "x", "y0", "x0", "z")
"""Numerator, denominator, both before the period, and whether the unit is new in it."""

PRODUCTS = tuple(combinations_with_replacement(VARIABLES, 2))

THIRDS = tuple(
    triple for triple in combinations_with_replacement(VARIABLES, 3) if triple.count("z") < 2
)
"""Products of three, but for those that z · z = z makes products of two."""

MOMENT_COLUMNS = (
    "metric",
    "slice",
    "cell",
    "variant",
    "stretch",
    "units",
    *VARIABLES,
    *map("_".join, PRODUCTS),
    *map("_".join, THIRDS),
)

LABELS = 5
"""So many of `MOMENT_COLUMNS` are labels; sums follow."""

_THIRD_COLUMNS = tuple(
    "_".join(triple).replace("z_z", "z").replace("z_z", "z")
    for triple in combinations_with_replacement(VARIABLES, 3)
)
"""The column of each product of three; z · z is z, for z is 0 or 1."""

WHOLE = "whole"
DAY = "day"
LEFT_OUT = "left_out"
CAPPED = "capped"
SEGMENT = "segment:"
LACKING = "lacking"
BALANCE = "balance"

COVARIATES = "covariates"
BUCKET = "bucket"
BUCKETS = 256
"""Sub-buckets are grouped into this many for resampling."""


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
        reach: `variant, item_id, item_group, units, impressions`; who was shown what.
        group_units: `variant, item_group, units`.
        catalogue_size: Items that could have been shown, None without catalogue metrics.
        units: `variant, units, crossovers`.
        accounts: Rows of each log by what became of them: `log, reason, rows`; reason `used`.
        days: `day, units, new_units, impressions, first_ms, last_ms` of each local day of the
            period that has an impression.
        refused: Metric → what these logs lack for it.
        facts: What the trust checks count, by name.
        caps: Metric → caps of numerator and denominator, in counted units.
        quantiles: Metric → variant → its quantile; of the distributions of `spreads.py`, too.
        buckets: Metric → its sums over sub-buckets, for A/A replays; empty without them.
        entered: Units by scheduled split, hour of entry and variant: `logs.stretches.ENTERED`.
        stretches: Stretches of entry days of one split each; none where it did not change.
        notes: What a reader of the result must know about how they were computed.
        audits: What the audits count, with the columns `aggregates.audits.COLUMNS`.
        extremes: `metric, variant, place, y, x`: the ten units that deviate most from the value of
            their variant, in counted units and without their ids.
        seen_in: `variant_low, variant_high, first_variant, expected, units`: where units were seen.
        unit_aucs: Units by their own AUC, where GAUC is a metric: the rows of `metric/unit_aucs`.
    """

    moments: pd.DataFrame
    reach: pd.DataFrame
    group_units: pd.DataFrame
    catalogue_size: int | None
    units: pd.DataFrame
    accounts: pd.DataFrame
    days: pd.DataFrame
    refused: Mapping[str, tuple[str, ...]]
    facts: Mapping[str, int]
    caps: Mapping[str, tuple[int, int | None]]
    quantiles: Mapping[str, Mapping[str, Quantile]] = field(default_factory=dict)
    buckets: Mapping[str, BucketSums] = field(default_factory=dict)
    entered: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(ENTERED)))
    stretches: Stretches = ()
    notes: tuple[str, ...] = ()
    audits: pd.DataFrame = field(default_factory=pd.DataFrame)
    extremes: pd.DataFrame = field(default_factory=pd.DataFrame)
    seen_in: pd.DataFrame = field(default_factory=pd.DataFrame)
    unit_aucs: pd.DataFrame = field(default_factory=pd.DataFrame)

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
        """Moments of (y, x, y0, x0, z) by stretch and variant.

        Args:
            metric: Its name.
            slice_name: The slice.
            cell: The cell of the slice, empty for the whole.
            scales: What one counted unit of y and of x is worth.
        """
        rows = self._slices.get((metric, slice_name), {}).get(cell, {})
        return by_stretch(rows, len(self.places), scales)

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
            moments[group.stretch][group.variant] = _joined(of_group, scales)
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
        item, items = self._item_numbers
        groups, group = np.unique(self.group_units["item_group"], return_inverse=True)
        present = np.flatnonzero(self.group_units["variant"] == variant)
        in_group = np.zeros(groups.size, dtype=np.int64)
        in_group[group[present]] = self.group_units["units"].to_numpy()[present]
        shown = np.flatnonzero(self.reach["variant"] == variant)
        return Incidence(
            item=item[shown],
            group=np.searchsorted(groups, self.reach["item_group"].to_numpy()[shown]),
            units=self.reach["units"].to_numpy()[shown].astype(np.int64),
            impressions=self.reach["impressions"].to_numpy()[shown].astype(np.int64, copy=False),
            units_in_group=in_group,
            catalogue_size=self.catalogue_size or items,
        )

    @cached_property
    def _unit_counts(self) -> dict[str, int]:
        """Variant → analysed units; built once, looked up hundreds of times."""
        counts: dict[str, int] = {}
        for variant, units in zip(self.units["variant"], self.units["units"], strict=True):
            counts[str(variant)] = counts.get(str(variant), 0) + int(units)
        return counts

    @cached_property
    def _item_numbers(self) -> tuple[NDArray[np.int64], int]:
        """A number for the item of each row of `reach`, and how many items there are."""
        # Sorted, so that sums over items are the same to the last digit in every run.
        number, known = pd.factorize(self.reach["item_id"], sort=True)
        return number.astype(np.int64), len(known)

    @cached_property
    def _slices(self) -> dict[tuple[str, str], dict[str, dict["Group", Row]]]:
        """(metric, slice) → cell → group → row; built once, looked up hundreds of times."""
        slices: dict[tuple[str, str], dict[str, dict[Group, Row]]] = {}
        for values in self.moments.itertuples(index=False, name=None):
            row = dict(zip(MOMENT_COLUMNS, values, strict=True))
            cells = slices.setdefault((str(row["metric"]), str(row["slice"])), {})
            cells.setdefault(str(row["cell"]), {})[_group(row)] = row
        return slices


class Group(NamedTuple):
    """Units of one variant that entered in one stretch."""

    variant: str
    stretch: int


def _group(row: Row) -> Group:
    return Group(str(row["variant"]), int(str(row["stretch"])))


def by_stretch(
    rows: Mapping[Group, Row], stretches: int, scales: tuple[float, float]
) -> list[dict[str, Moments]]:
    """Moments of (y, x, y0, x0, z) by stretch and variant."""
    moments: list[dict[str, Moments]] = [{} for _ in range(stretches)]
    for group, row in rows.items():
        moments[group.stretch][group.variant] = _moments(row, scales)
    return moments


def moments_of_rows(
    rows: Iterable[Sequence[object]], stretches: int, scales: tuple[float, float]
) -> list[dict[str, Moments]]:
    """Moments of (y, x) by stretch and variant, of rows of `MOMENT_COLUMNS` of one cell."""
    named = [dict(zip(MOMENT_COLUMNS, row, strict=True)) for row in rows]
    moments = by_stretch({_group(row): row for row in named}, stretches, scales)
    return [{name: one.pick(0, 1) for name, one in variants.items()} for variants in moments]


def moments_by_variant(
    rows: Iterable[Sequence[object]], scales: tuple[float, float]
) -> dict[str, Moments]:
    """Variant → moments of (y, x) of rows of `MOMENT_COLUMNS` of one cell, of all stretches."""
    named = [dict(zip(MOMENT_COLUMNS, row, strict=True)) for row in rows]
    stretches = 1 + max((_group(row).stretch for row in named), default=0)
    by_group = by_stretch({_group(row): row for row in named}, stretches, scales)
    return {name: one.pick(0, 1) for name, one in pooled(by_group).items()}


def pooled(moments: ByStretch) -> dict[str, Moments]:
    """Variant → moments of the units of all stretches."""
    whole: dict[str, Moments] = {}
    for variants in moments:
        for name, one in variants.items():
            whole[name] = whole[name] + one if name in whole else one
    return whole


def _moments(row: Row, scales: tuple[float, float]) -> Moments:
    products = {frozenset(pair): int(str(row["_".join(pair)])) for pair in PRODUCTS}
    return Moments.from_sums(
        int(str(row["units"])),
        [int(str(row[name])) for name in VARIABLES],
        [[products[frozenset((a, b))] for b in VARIABLES] for a in VARIABLES],
        (*scales, *scales, 1.0),
        # Sums from a warehouse have none.
        None if row["y_y_y"] is None else [int(str(row[name])) for name in _THIRD_COLUMNS],
    )


def _joined(pairs: Mapping[tuple[int, int], Row], scales: Sequence[float]) -> Moments:
    """Moments of y, x, every covariate and newness, from those of pairs of covariates."""
    count = 1 + max(second for _, second in pairs)
    variables: list[str | int] = ["y", "x", *range(count), "z"]

    def total(*wanted: str | int) -> int:
        pair = next(p for p in pairs if {v for v in wanted if isinstance(v, int)} <= {*p})
        called = {pair[0]: "y0", pair[1]: "x0"}
        names = [called[v] if isinstance(v, int) else v for v in wanted]
        return int(str(pairs[pair]["_".join(sorted(names, key=VARIABLES.index))]))

    return Moments.from_sums(
        int(str(next(iter(pairs.values()))["units"])),
        [total(v) for v in variables],
        [[total(v, w) for w in variables] for v in variables],
        scales,
    )
