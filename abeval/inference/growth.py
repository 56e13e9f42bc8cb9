"""How units, and a metric's spread between them, grow with the days of a log.

Units that return are counted once, and their totals and spread grow while they do: neither the
number of units nor the whole log's spread tells what another number of days would see.
`time/growth.py` makes them of the log; `power.py` plans with them.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import design


class Horizon(NamedTuple):
    """A metric after some days.

    Attributes:
        units: Units of all variants.
        value: Control's value.
        sd: Its standard deviation between units.
    """

    units: float
    value: float
    sd: float

    @property
    def information(self) -> float:
        """Units over the relative variance between them: 1/se², but for the split."""
        return self.units * (self.value / self.sd) ** 2


class Growth(NamedTuple):
    """A metric with the data up to the end of each day, from the first.

    Attributes:
        units: Units of all variants.
        values: Control's value.
        spreads: Variance between units of control's value, over its square.
        is_total: Whether the value grows while units return; a ratio's does not.
        ended: Days that were over; growth goes on as theirs. A last one that was not would look
            like traffic that stops.
        splits: What the split of the units that enter on each day makes of the variance, over that
            of the latest split; none where it did not change.
    """

    units: Sequence[float]
    values: Sequence[float]
    spreads: Sequence[float]
    is_total: bool = True
    ended: int | None = None
    splits: Sequence[float] = ()

    def after(self, days: float) -> Horizon:
        """The metric after some days; beyond the log, each part grows on as in its last week.

        Units and totals grow as powers of time, and the variance of the value falls to what differs
        between units that return (`duration.information_at`); units come in the latest split.

        Raises:
            Refusal: As `duration.value_at`.

        Example:
            >>> Growth([100.0, 150.0], [1.0, 2.0], [4.0, 1.0]).after(2)
            Horizon(units=150.0, value=2.0, sd=2.0)
        """
        units = self._at(self.units, days, design.value_at)
        gathered = [n / v for n, v in zip(self.units, self.spreads, strict=True)]
        information = self._at(gathered, days, design.information_at)
        sizes = [abs(value) for value in self.values]
        value = self._at(sizes, days, design.value_at if self.is_total else _last)
        sd = math.sqrt(units / information * self._split(units, days)) * value
        return Horizon(units, math.copysign(value, self.values[-1]), sd)

    def _split(self, units: float, days: float) -> float:
        """The mean of `splits` over the units that are in by then."""
        if not self.splits:
            return 1.0
        weighed = np.cumsum(np.diff(self.units, prepend=0.0) * self.splits).tolist()
        if days <= len(weighed):
            return self._at(weighed, days, _last) / units
        return float(weighed[-1] + units - self.units[-1]) / units

    def _at(
        self,
        values: Sequence[float],
        days: float,
        beyond: Callable[[Sequence[float], float], float],
    ) -> float:
        """Within the log in a line from the end of a day to the next."""
        if days <= len(values):
            return float(np.interp(days, np.arange(len(values) + 1), [0.0, *values]))
        ended = values[: self.ended]
        return values[-1] * beyond(ended, days) / beyond(ended, len(values))


def _last(values: Sequence[float], days: float) -> float:
    return values[-1]
