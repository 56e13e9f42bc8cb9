"""How many days a test needs, from the traffic observed so far.

`inference/growth.py` hands over units and information by day, `time/peeking.py` the standard errors
by day.
"""

import math
from collections.abc import Sequence

import numpy as np

from abeval.stats.records import Floats, Refusal

WEEK = 7

_LONGEST = math.exp(20)
"""Times the observed days: beyond, no end is predicted."""


def days_for_se(ses: Sequence[float], wanted: float) -> float:
    """Days until the difference has a wanted standard error, from that of each observed day.

    Information is 1/se², which takes account of returning units and of their growing
    variance; a wanted `mde` is `mde / mde_from_se(1.0)` as a standard error. After the observed
    days it is assumed to grow as in the last week, as a power of time.

    Args:
        ses: Standard error of the difference with the data up to each day, from the first.
        wanted: Standard error wanted.

    Raises:
        Refusal: `too_few_units` below two days; `zero_variance` for one of zero;
            `not_applicable` when information no longer grows.

    Example:
        >>> round(days_for_se([0.2, 0.1414213562, 0.1154700538], 0.1), 4)
        4.0
    """
    if not (min(ses, default=1.0) > 0 and wanted > 0):
        raise Refusal("zero_variance", "standard errors must be positive")
    information, needed = [se**-2 for se in ses], wanted**-2
    reached = [day for day, value in enumerate(information, 1) if value >= needed]
    if reached:
        return float(reached[0])
    slope = _slope(information)
    exponent = math.log(needed / information[-1]) / slope if slope > 0 else math.inf
    if exponent > math.log(_LONGEST):
        raise Refusal(
            "not_applicable", "almost no information is added any more: no end can be predicted"
        )
    return float(len(information) * math.exp(exponent))


def information_at(information: Sequence[float], days: float) -> float:
    """Information after so many days beyond the observed ones.

    The variance 1/information falls as in the last week, as a + b / days: what differs between
    units that return stays (a), what differs between their visits averages out (b). Of units that
    come once a is 0, and information grows with the days. Fewer days than a week do not tell the
    two apart: information then grows as a power of time, as in `value_at`.

    Args:
        information: 1/se² in any unit, with the data up to and with each day; positive.
        days: Days, no fewer than observed.

    Raises:
        Refusal: As `value_at`.

    Example:
        >>> week = [1 / (0.1 + 0.9 / day) for day in range(1, 8)]
        >>> round(1 / information_at(week, 90), 6)
        0.11
    """
    if len(information) < WEEK:
        return value_at(information, days)
    falls = max(_falls(information), 0.0)
    return float(1 / (1 / information[-1] - falls * (1 / len(information) - 1 / days)))


def value_at(values: Sequence[float], days: float) -> float:
    """What grows with the days, after some of them.

    Within the observed days it is what was observed by the end of the day; after them it grows as
    in the last week, as a power of time that is at most linear.

    Args:
        values: With the data up to and with each day, from the first; positive.
        days: Days, more than 0.

    Raises:
        Refusal: `too_few_units` to go beyond a single day; `not_applicable` for a value of zero.

    Example:
        >>> value_at([100.0, 200.0, 300.0], 2), round(value_at([100.0, 200.0, 300.0], 6), 6)
        (200.0, 600.0)
    """
    if days <= len(values):
        return float(values[max(math.ceil(days), 1) - 1])
    return float(values[-1] * (days / len(values)) ** _slope(values))


def _slope(values: Sequence[float]) -> float:
    """The power of time by which the last week grew: value ~ day^b, never above 1 for long."""
    if len(values) < 2:
        raise Refusal("too_few_units", "growth needs at least two days")
    days, last = _last_week(values)
    return min(float(np.polyfit(np.log(days), np.log(last), 1)[0]), 1.0)


def _falls(information: Sequence[float]) -> float:
    """The b of a + b / days, which the variance of the last week follows; a is not negative."""
    days, last = _last_week(information)
    slope = float(np.polyfit(1 / days, 1 / last, 1)[0])
    return min(slope, len(information) / float(last[-1]))


def _last_week(values: Sequence[float]) -> tuple[Floats, Floats]:
    """The numbers of the last days, and their values."""
    last = np.asarray(values, dtype=np.float64)[-WEEK:]
    if not last.min() > 0:
        raise Refusal("not_applicable", "no units on some of the last days")
    return np.arange(1.0, len(values) + 1)[-WEEK:], last
