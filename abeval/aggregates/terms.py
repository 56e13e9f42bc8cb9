"""What a query sums: the terms of a metric in one slice, and the rows that come back.

`metric_queries.py`, `quantiles.py` and `time/time_sums.py` write the terms; `collect.py`,
`time/cut.py` and `store/` put the rows into aggregates.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from abeval.aggregates.aggregates import LABELS, MOMENT_COLUMNS
from abeval.engines.protocol import Cell
from abeval.metrics.definition import Metric

Row = tuple[Cell, ...]


class Terms(NamedTuple):
    """SQL of what is summed: numerator, denominator, both before the period, and newness."""

    y: str
    x: str
    y0: str = "0"
    x0: str = "0"
    is_new: str = "0"

    @property
    def only_now(self) -> bool:
        """Whether nothing from before the period is summed."""
        return (self.y0, self.x0, self.is_new) == ("0", "0", "0")

    @property
    def listed(self) -> str:
        """The terms as named columns."""
        return ", ".join(f"{sql} as {name}" for name, sql in self._asdict().items())


class SliceTerms(NamedTuple):
    """What one metric sums in one slice, by cell, variant and stretch of entry days.

    Attributes:
        metric: The metric.
        slice_name: The slice.
        cell: SQL of the cell, a text.
        terms: SQL of what is summed.
    """

    metric: Metric
    slice_name: str
    cell: str
    terms: Terms


@dataclass(frozen=True)
class SourceSums:
    """Sums of the metrics of one source.

    Attributes:
        rows: Rows of `aggregates.MOMENT_COLUMNS`.
        caps: Metric → caps of numerator and denominator, where values are capped.
    """

    rows: list[Row]
    caps: Mapping[str, tuple[int, int | None]]


def with_zeros(row: Row) -> Row:
    """A row of `metric/moments_now` as one of `aggregates.MOMENT_COLUMNS`."""
    *labels, units, y, x, y_y, y_x, x_x = row
    sums = {"y": y, "x": x, "y_y": y_y, "y_x": y_x, "x_x": x_x}
    return (*labels, units, *(sums.get(name, "0") for name in MOMENT_COLUMNS[LABELS + 1 :]))


def add_signed(rows: Iterable[tuple[int, Row]]) -> list[Row]:
    """One row of `aggregates.MOMENT_COLUMNS` per label: the sum of sign × row.

    Example:
        >>> label = ("ctr", "day", "2026-01-01", "a", 0)
        >>> add_signed([(1, (*label, 3, "9")), (-1, (*label, 1, "4"))])
        [('ctr', 'day', '2026-01-01', 'a', 0, 2, '5')]
    """
    totals: dict[Row, list[int]] = {}
    for sign, row in rows:
        sums = [sign * int(str(value)) for value in row[LABELS:]]
        total = totals.get(row[:LABELS], [0] * len(sums))
        totals[row[:LABELS]] = [a + b for a, b in zip(total, sums, strict=True)]
    return [(*labels, units, *map(str, sums)) for labels, (units, *sums) in totals.items() if units]
