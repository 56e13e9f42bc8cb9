"""The analysed units, the days on which they are active, and what they add up to, as arrays.

`time/open.py` hands over prepared logs; `time/time_sums.py`, `time/clock.py` and `time/cut.py` sum
the arrays.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.source_values import rows_of, totals
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
    rows = rows_of(days, panel.unit, panel.day + first)
    whole, before = (totals(days, part, len(panel.entry)) for part in (True, False))
    return SourceSums({n: np.append(days.columns[n], 0)[rows] for n in whole}, whole, before)


def columns_of(shape: LogShape, variants: Iterable[str], metrics: Sequence[Metric]) -> list[str]:
    """The columns of their source that metrics of one source read, each once."""
    terms = [t for metric in metrics for t in (metric.value, metric.per, *metric.covariates)]
    logged = [term for term in terms if term is not None and not isinstance(term, UnitTerm)]
    return list(dict.fromkeys(shape.component(t, v) for t in logged for v in variants))
