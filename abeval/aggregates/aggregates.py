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
from abeval.stats.catalogue import Incidence
from abeval.stats.moments import Moments
from abeval.stats.records import RefusalReason

Row = Mapping[str, object]

VARIABLES = ("y", "x", "y0", "x0", "z")
"""Numerator, denominator, both before the period, and whether the unit is new in it."""

PRODUCTS = tuple(combinations_with_replacement(VARIABLES, 2))

MOMENT_COLUMNS = (
    "metric",
    "slice",
    "cell",
    "variant",
    "units",
    *VARIABLES,
    *(f"{a}_{b}" for a, b in PRODUCTS),
)

WHOLE = "whole"
DAY = "day"
LEFT_OUT = "left_out"
CAPPED = "capped"
SEGMENT = "segment:"
LACKING = "lacking"

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
        moments: `MOMENT_COLUMNS`; one row per metric, slice, cell and variant. `slice` is
            `whole`, `capped`, `day`, `segment:NAME`, `covariates` (cells are pairs of them),
            `bucket`, `left_out` or `lacking` (of a column instead of a metric: impressions of files
            that lack it, and all); sums are exact integers as text.
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
        quantiles: Metric → variant → its quantile.
        buckets: Metric → its sums over sub-buckets, for A/A replays; empty without them.
        notes: What a reader of the result must know about how they were computed.
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
    notes: tuple[str, ...] = ()

    def units_of(self, variant: str) -> int:
        """Analysed units of a variant."""
        rows = self.units
        return int(rows.loc[rows["variant"] == variant, "units"].sum())

    def cells(self, metric: str, slice_name: str) -> Sequence[str]:
        """The cells of a slice of a metric, in order."""
        return sorted(self._slices.get((metric, slice_name), {}))

    def of(
        self, metric: str, slice_name: str, cell: str, scales: tuple[float, float]
    ) -> dict[str, Moments]:
        """Moments of (y, x, y0, x0, z) by variant.

        Args:
            metric: Its name.
            slice_name: The slice.
            cell: The cell of the slice, empty for the whole.
            scales: What one counted unit of y and of x is worth.
        """
        variants = self._slices.get((metric, slice_name), {}).get(cell, {})
        return {variant: _moments(row, scales) for variant, row in variants.items()}

    def with_covariates(self, metric: str, scales: Sequence[float]) -> dict[str, Moments]:
        """Moments of (y, x, covariates, z) by variant, where the metric names covariates.

        Args:
            metric: Its name.
            scales: What one counted unit of each variable is worth.
        """
        by_variant: dict[str, dict[tuple[int, int], Row]] = {}
        for cell, variants in self._slices[metric, COVARIATES].items():
            first, second = cell.split(",")
            for variant, row in variants.items():
                by_variant.setdefault(variant, {})[int(first), int(second)] = row
        return {variant: _joined(pairs, scales) for variant, pairs in by_variant.items()}

    def buckets_of(self, metric: str, variant: str) -> NDArray[np.float64]:
        """Units, Σy and Σx of each group of sub-buckets of a variant, shape (BUCKETS, 3)."""
        sums = np.zeros((BUCKETS, 3))
        for cell, variants in self._slices.get((metric, BUCKET), {}).items():
            if variant in variants:
                row = variants[variant]
                sums[int(cell)] = [float(str(row[name])) for name in ("units", "y", "x")]
        return sums

    def lacking(self) -> dict[str, dict[str, Moments]]:
        """Column → variant → moments of its impressions in files that lack it, and of all."""
        return {
            column: self.of(column, LACKING, "", (1.0, 1.0))
            for column, slice_name in self._slices
            if slice_name == LACKING
        }

    def sums(self, metric: str, slice_name: str) -> list[tuple[str, str, int]]:
        """(cell, variant, Σy) of a slice."""
        cells = self._slices.get((metric, slice_name), {})
        return [
            (cell, variant, int(str(row["y"])))
            for cell, variants in cells.items()
            for variant, row in variants.items()
        ]

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
    def _item_numbers(self) -> tuple[NDArray[np.int64], int]:
        """A number for the item of each row of `reach`, and how many items there are."""
        # Sorted, so that sums over items are the same to the last digit in every run.
        number, known = pd.factorize(self.reach["item_id"], sort=True)
        return number.astype(np.int64), len(known)

    @cached_property
    def _slices(self) -> dict[tuple[str, str], dict[str, dict[str, Row]]]:
        """(metric, slice) → cell → variant → row; built once, looked up hundreds of times."""
        slices: dict[tuple[str, str], dict[str, dict[str, Row]]] = {}
        for values in self.moments.itertuples(index=False, name=None):
            row = dict(zip(MOMENT_COLUMNS, values, strict=True))
            cells = slices.setdefault((str(row["metric"]), str(row["slice"])), {})
            cells.setdefault(str(row["cell"]), {})[str(row["variant"])] = row
        return slices


def moments_by_variant(
    rows: Iterable[Sequence[object]], scales: tuple[float, float]
) -> dict[str, Moments]:
    """Variant → moments of (y, x) of rows of `MOMENT_COLUMNS`, one a variant."""
    named = [dict(zip(MOMENT_COLUMNS, row, strict=True)) for row in rows]
    return {str(row["variant"]): _moments(row, scales).pick(0, 1) for row in named}


def _moments(row: Row, scales: tuple[float, float]) -> Moments:
    products = {frozenset(pair): int(str(row["_".join(pair)])) for pair in PRODUCTS}
    return Moments.from_sums(
        int(str(row["units"])),
        [int(str(row[name])) for name in VARIABLES],
        [[products[frozenset((a, b))] for b in VARIABLES] for a in VARIABLES],
        (*scales, *scales, 1.0),
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
