"""Values of a unit since its exposure: which rows of a log count, and how a unit's are combined.

`experiment/event_metrics.py` makes them of an experiment file; `logs/` computes the values of the
rows, and `aggregates/metric_queries.py` those of the units.
"""

import re
from dataclasses import dataclass
from typing import Literal

Combine = Literal["any", "sum", "max", "count_distinct", "first"]
"""How the values of a unit's rows are combined."""

SPAN = r"^\d+(\.\d+)?\s*(minutes?|hours?|days?|weeks?)$"

_MS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 7 * 86_400_000}


def span_ms(text: str) -> int:
    """A span of time of the form `SPAN` in milliseconds; a day has 24 hours.

    Example:
        >>> span_ms("7 days"), span_ms("1.5 hours")
        (604800000, 5400000)
    """
    number, word = re.findall(r"[\d.]+|[a-z]+", text)
    return round(float(number) * _MS[word.removesuffix("s")])


@dataclass(frozen=True)
class RowValue:
    """What a row of a log is worth to a unit.

    Attributes:
        log: The log: `impressions`, or an outcome log by its name.
        expression: SQL over a row, null where the row does not count.
        resolution: The step of numbers, None where they are whole.
        combine: How those of a unit are combined.
    """

    log: str
    expression: str
    combine: Combine = "any"
    resolution: float | None = None


@dataclass(frozen=True)
class PerUnit:
    """How a unit's value follows from the rows of logs since its exposure.

    Attributes:
        number: Of the metric in its experiment; its columns are named by it.
        values: The value of a row, and the denominator of a ratio; of a funnel, that of each step.
        nulls: Counts rows whose value is no number, in the same order; empty where none can be.
        within_ms: The window since exposure, None without one.
        day: The local day since exposure (that of the exposure is 0), None for all.
        is_funnel: Whether the values are steps, each of which counts after the one before.
    """

    number: int
    values: tuple[RowValue, ...]
    nulls: tuple[RowValue, ...] = ()
    within_ms: int | None = None
    day: int | None = None
    is_funnel: bool = False

    @property
    def logs(self) -> tuple[str, ...]:
        """The logs whose rows it reads."""
        return tuple(dict.fromkeys(value.log for value in self.values))

    @property
    def is_timed(self) -> bool:
        """Whether only units count whose whole window or day the logs cover."""
        return self.within_ms is not None or self.day is not None

    def column(self, what: str) -> str:
        """The name of one of its columns: `value`, `under`, `whole`, `open`, `null`."""
        return f"{what}_{self.number}"
