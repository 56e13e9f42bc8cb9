"""How units, and a metric's spread between them, grow with the days of a log.

Units that return are counted once, and their totals and spread grow while they do: neither the
number of units nor the whole log's spread tells what another number of days would see.
`time/growth.py` makes them of the log; `power.py` plans with them.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import duration


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
    """

    units: Sequence[float]
    values: Sequence[float]
    spreads: Sequence[float]

    @property
    def information(self) -> list[float]:
        """As `Horizon.information`, at each day."""
        return [n / v for n, v in zip(self.units, self.spreads, strict=True)]

    def after(self, days: float) -> Horizon:
        """The metric after some days; beyond the log, each part grows on as in its last week.

        Units and values grow as powers of time; the variance of the value falls to what differs
        between units that return (`duration.information_at`).

        Raises:
            Refusal: As `duration.value_at`.

        Example:
            >>> Growth([100.0, 150.0], [1.0, 2.0], [4.0, 1.0]).after(2)
            Horizon(units=150.0, value=2.0, sd=2.0)
        """
        units = _at(self.units, days, duration.value_at)
        information = _at(self.information, days, duration.information_at)
        value = duration.value_at([abs(value) for value in self.values], days)
        sd = math.sqrt(units / information) * value
        return Horizon(units, math.copysign(value, self.values[-1]), sd)

    def days_for(self, information: float) -> float:
        """Days until there is so much information.

        Raises:
            Refusal: As `duration.days_for_information`.
        """
        gathered = np.maximum.accumulate([0.0, *self.information])
        if information <= gathered[-1]:
            return float(np.interp(information, gathered, np.arange(len(gathered))))
        return duration.days_for_information(self.information, information)


def _at(
    values: Sequence[float], days: float, beyond: Callable[[Sequence[float], float], float]
) -> float:
    """Within the log in a line from the end of a day to the next."""
    if days > len(values):
        return beyond(values, days)
    return float(np.interp(days, np.arange(len(values) + 1), [0.0, *values]))
