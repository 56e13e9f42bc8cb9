"""The analysed units, the days on which they are active, and what they add up to, as arrays.

`time/open.py` hands over prepared logs; `time/time_sums.py`, `time/clock.py` and `time/cut.py` sum
the arrays.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import UnitDays, Units, Whole
from abeval.metrics.definition import Metric, UnitTerm


class Panel(NamedTuple):
    """The analysed units, and the days (hours, weekdays) on which each is active.

    Attributes:
        units: The units.
        entry: Day of entry of each, as a place among the days; below 0 where it is not known.
        unit: Place of the unit of each row, shape (rows,).
        day: Place of the day of each row; sorted by unit and day, each once.
        days: How many days there are.
    """

    units: Units
    entry: NDArray[np.int64]
    unit: NDArray[np.int32]
    day: NDArray[np.int32]
    days: int

    @property
    def variant(self) -> NDArray[np.int8]:
        """Place of the variant of each row."""
        return self.units.variant[self.unit]


class SourceSums(NamedTuple):
    """What units add up to in the columns of a source, by its name.

    Attributes:
        by_day: On each row of a `Panel`, 0 where the source knows nothing of the day.
        whole: Over the period, shape (units,).
        before: Before it, shape (units,).
    """

    by_day: Mapping[str, Whole]
    whole: Mapping[str, Whole]
    before: Mapping[str, Whole]


def source_sums(panel: Panel, days: UnitDays, first: int) -> SourceSums:
    """The sums of a source on the rows of a panel whose first day is this one."""
    wanted = panel.unit.astype(np.int64) * panel.days + panel.day
    inside = days.in_period & (days.day >= first) & (days.day < first + panel.days)
    rows = np.flatnonzero(inside)
    given = days.unit[rows].astype(np.int64) * panel.days + (days.day[rows] - first)
    place = np.searchsorted(wanted, given)
    known = np.flatnonzero(np.append(wanted, -1)[place] == given)
    place, rows = place[known], rows[known]

    def on_rows(column: Whole) -> Whole:
        values = np.zeros(len(wanted), dtype=np.int64)
        values[place] = column[rows]
        return values

    size = len(panel.entry)
    return SourceSums(
        {name: on_rows(column) for name, column in days.columns.items()},
        {n: by_unit(days.unit, c * days.in_period, size) for n, c in days.columns.items()},
        {n: by_unit(days.unit, c * ~days.in_period, size) for n, c in days.columns.items()},
    )


def by_unit(unit: NDArray[np.int32], values: Whole, size: int) -> Whole:
    """The sum of each unit's values."""
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, unit, values)
    return totals


def columns_of(shape: LogShape, variants: Iterable[str], metrics: Sequence[Metric]) -> list[str]:
    """The columns of their source that metrics of one source read, each once."""
    terms = [t for metric in metrics for t in (metric.value, metric.per, *metric.covariates)]
    logged = [term for term in terms if term is not None and not isinstance(term, UnitTerm)]
    return list(dict.fromkeys(shape.component(t, v) for t in logged for v in variants))
