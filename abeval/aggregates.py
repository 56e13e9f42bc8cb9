"""The waist: what the engine hands to the statistics. Small, typed, mergeable, serialisable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import pandas as pd

from abeval.stats.moments import Moments

VARIABLES = ("y", "x", "y0", "x0", "z")
"""Numerator, denominator, both before the experiment, and whether a unit is new since."""

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

USED = "used"
USED_BEFORE = "used_before_the_period"


@dataclass(frozen=True)
class Aggregates:
    """What one pass over the logs adds up to.

    Attributes:
        moments: `MOMENT_COLUMNS`; one row per metric, slice, cell and variant. `slice` is
            `whole`, `capped`, `day`, `segment:NAME` or `left_out`; sums are exact integers as text.
        reach: `variant, item_id, item_group, units, impressions`; who was shown what.
        group_units: `variant, item_group, units`.
        catalogue_size: Items that could have been shown, None without catalogue metrics.
        units: `variant, units, crossovers`.
        accounts: Rows of each log by what became of them: `log, reason, rows`; reason `used`.
        days: `day, units, new_units, impressions, first_ms, last_ms` of each local day of the
            period that has an impression.
        refused: Metric → what these logs lack for it.
        facts: What the trust checks count, by name.
        caps: Metric → the caps of numerator and denominator, in counted units.
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

    def units_of(self, variant: str) -> int:
        """Analysed units of a variant."""
        rows = self.units
        return int(rows.loc[rows["variant"] == variant, "units"].sum())

    def cells(self, metric: str, slice_name: str) -> Sequence[str]:
        """The cells of a slice of a metric, in order."""
        rows = self._rows(metric, slice_name)
        return sorted(rows["cell"].unique().tolist())

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
        rows = self._rows(metric, slice_name)
        named = [
            {str(name): value for name, value in row.items()}
            for row in rows[rows["cell"] == cell].to_dict("records")
        ]
        return {str(row["variant"]): _moments(row, scales) for row in named}

    def sums(self, metric: str, slice_name: str) -> list[tuple[str, str, int]]:
        """(cell, variant, Σy) of a slice."""
        rows = self._rows(metric, slice_name)
        found = zip(rows["cell"], rows["variant"], rows["y"], strict=True)
        return [(cell, variant, int(y)) for cell, variant, y in found]

    def _rows(self, metric: str, slice_name: str) -> pd.DataFrame:
        moments = self.moments
        return moments[(moments["metric"] == metric) & (moments["slice"] == slice_name)]


def _moments(row: Mapping[str, object], scales: tuple[float, float]) -> Moments:
    products = {frozenset(pair): int(str(row["_".join(pair)])) for pair in PRODUCTS}
    return Moments.from_sums(
        int(str(row["units"])),
        [int(str(row[name])) for name in VARIABLES],
        [[products[frozenset((a, b))] for b in VARIABLES] for a in VARIABLES],
        (*scales, *scales, 1.0),
    )
