"""Find logging faults that differ between groups: shares, gaps, clocks.

A fault has a sharp shape; an effect of the treatment does not. Examples of such shapes are a share
that should be zero in both groups, an hour without rows in one of them, or a daily rhythm that is
the other group's rhythm some hours later.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats.distributions import two_sided_quantile
from abeval.stats.effects import satterthwaite
from abeval.stats.influence import compute_binomial_tail
from abeval.stats.records import Floats

SURE = 1e-6
"""Chance that any cell of an audit is wrongly called different."""

# A group with less than this share of the other's rows is much smaller.
_MUCH_SMALLER = 0.5


class Sums(NamedTuple):
    """Exact sums over a group's clusters: y, x and their products."""

    clusters: int
    y: int
    x: int
    y_y: int
    y_x: int
    x_x: int


class Share(NamedTuple):
    """A group's share, its standard error between clusters, and its df."""

    value: float
    error: float
    df: float


def share(sums: Sums) -> Share | None:
    """Return Σy / Σx by the delta method; None if one cluster or no rows.

    Example:
        >>> share(Sums(clusters=4, y=4, x=40, y_y=6, y_x=40, x_x=400)).value
        0.1
    """
    n, x = sums.clusters, sums.x
    if n < 2 or x == 0:
        return None
    value = sums.y / x
    squares = sums.y_y - 2 * value * sums.y_x + value * value * sums.x_x
    return Share(value, math.sqrt(max(squares, 0.0) * n / (n - 1)) / x, n - 1)


def estimate_shares(control: Sums, treatment: Sums) -> tuple[Share, Share] | None:
    """Return both shares; a much smaller group gets at least chance's error.

    A group of few rows often has none that count, and then its standard error is 0. Its error is
    therefore at least the other group's, rescaled to its own number of rows. A group with at least
    half of the other's rows does not need this. There a difference is sure from some 28 rows on,
    and the chance that the group then has none in place of 14 is 1e-6.

    Example:
        >>> many = Sums(64, 640, 64_000, 7_000, 640_000, 64_000_000)
        >>> [one.error for one in estimate_shares(many, Sums(10, 0, 50, 0, 0, 260))][1] > 0.01
        True
    """
    first, second = share(control), share(treatment)
    if first is None or second is None:
        return None
    return (
        _floor_error(first, control.x, second, treatment.x),
        _floor_error(second, treatment.x, first, control.x),
    )


def _floor_error(group: Share, rows: int, reference: Share, reference_rows: int) -> Share:
    least = reference.error * math.sqrt(reference_rows / rows)
    if rows >= _MUCH_SMALLER * reference_rows or group.error >= least:
        return group
    return Share(group.value, least, reference.df)


class Difference(NamedTuple):
    """Two shares, and the least difference that is sure; 0 if it may be chance."""

    control: float
    treatment: float
    sure: float


def compare_shares(
    control: Sums, treatment: Sums, cells: int = 1, chance: float = SURE
) -> Difference | None:
    """Return how much two shares surely differ: the near end of an interval.

    `chance` is the chance that any of `cells` cells tested together is wrongly called different.

    Example:
        >>> control = Sums(64, 0, 64_000, 0, 0, 64_000_000)
        >>> compare_shares(control, Sums(64, 640, 64_000, 6_400, 640_000, 64_000_000)).sure
        0.01
    """
    pair = estimate_shares(control, treatment)
    if pair is None:
        return None
    first, second = pair
    error = math.hypot(first.error, second.error)
    df = satterthwaite((first.error**2, second.error**2), (first.df, second.df))
    quantile = two_sided_quantile(chance / cells, df=df)
    sure = abs(second.value - first.value) - quantile * error
    return Difference(first.value, second.value, max(0.0, sure))


def differs_together(control: Sums, treatment: Sums, clusters: int, chance: float = SURE) -> bool:
    """Tell whether two shares differ by the variance of both groups together.

    A small group may have no variance by chance: all of it is counted, or nothing. Its units are
    estimated from the `clusters` that have none, and each is counted or not; if few units have most
    of the rows, they are as many as equal ones that vary as much.

    Example:
        >>> few, many = Sums(4, 0, 6, 0, 0, 10), Sums(60, 0, 400, 0, 0, 3_000)
        >>> after = Sums(60, 200, 400, 800, 1_500, 3_000)
        >>> differs_together(after, few, 64), differs_together(after, many, 64)
        (False, True)
    """
    groups = control, treatment
    units = [
        min(
            float(_estimate_active_units(np.array(float(group.clusters)), clusters)),
            count_even_units(group._replace(y=group.x, y_y=group.x_x), clusters),
        )
        for group in groups
    ]
    first, second = (group.y / group.x for group in groups)
    share = (units[0] * first + units[1] * second) / sum(units)
    error = math.sqrt(share * (1 - share) * sum(1 / n for n in units))
    return abs(first - second) > two_sided_quantile(chance) * error


class UnitSums(NamedTuple):
    """Units of a group, with sums of a value in [0, 1] and of its square."""

    units: int
    total: float
    squares: float


def differs(control: UnitSums, treatment: UnitSums, cells: int = 1, chance: float = SURE) -> bool:
    """Tell whether the means of a value in [0, 1] surely differ between groups.

    Each unit has the same weight, so a few units with many rows decide nothing. The difference must
    be sure with the groups' own variances (Welch 1947). It must also be sure with the variance of
    all units together, because a small group may have no variance by chance. If all values are 0 or
    1, a binomial test of the units with value 1 is tried first. `chance` is the chance that any of
    `cells` cells tested together is wrongly called different.

    Example:
        >>> affected = [UnitSums(1_500, count, count) for count in (0, 20, 21)]
        >>> [differs(affected[0], one) for one in affected]
        [False, False, True]
    """
    groups = control, treatment
    if min(group.units for group in groups) < 2:
        return False
    if (
        all(group.squares == group.total for group in groups)
        and _compute_smaller_chance(*groups) < chance / cells / 2
    ):
        return True
    units, total, squares = (sum(sums) for sums in zip(*groups, strict=True))
    pooled = UnitSums(int(units), total, squares)
    variances = [_estimate_variance(group) / group.units for group in groups]
    gap = abs(control.total / control.units - treatment.total / treatment.units)
    alike = math.sqrt(_estimate_variance(pooled) * sum(1 / group.units for group in groups))
    if gap <= two_sided_quantile(chance / cells) * alike:
        return False
    if not any(variances):
        return True
    df = satterthwaite(variances, [group.units - 1 for group in groups])
    return gap > two_sided_quantile(chance / cells, df=df) * math.sqrt(sum(variances))


def _compute_smaller_chance(control: UnitSums, treatment: UnitSums) -> float:
    """Return the chance that a group has at least so many of the units with value 1."""
    pairs = (control, treatment), (treatment, control)
    return min(
        (
            compute_binomial_tail(int(a.total), int(b.total), a.units / (a.units + b.units))
            for a, b in pairs
            if a.total
        ),
        default=1.0,
    )


def _estimate_variance(sums: UnitSums) -> float:
    squares = sums.squares - sums.total**2 / sums.units
    # Sums of equal numbers leave the rounding of their squares.
    return squares / (sums.units - 1) if squares > 1e-12 * sums.squares else 0.0


class Hours(NamedTuple):
    """Rows of a group by hour.

    Attributes:
        active: Number of clusters with rows in the hour.
        even: Number of units with equal numbers of rows that would make the sum vary as much
            (`count_even_units`).
    """

    rows: Floats
    active: Floats
    even: Floats = np.array(math.inf)


def count_even_units(sums: Sums, clusters: int) -> float:
    """Count the equal units whose sum would vary as much (Kish 1965).

    Example:
        >>> round(count_even_units(Sums(4, 20, 4, 100, 20, 4), 1_000), 2)
        4.02
        >>> round(count_even_units(Sums(4, 20, 4, 292, 20, 4), 1_000), 2)
        1.37
    """
    # What clusters of equal units would have, for several units share a cluster by chance.
    left = sums.y_y - sums.y**2 / clusters
    return sums.y**2 / left if left > 0 else math.inf


_LOW = 0.5
"""An hour is a gap if its rows are below this share of what is expected."""

_EMPTY = 0.1
_AROUND = 72
_DAY = 24
_LEAST = 6
# Variance factor of an hour's rows, for rows of one unit come together: 2 if their standard
# deviation equals their mean.
_TOGETHER = 2.0


def list_gap_hours(
    control: Hours, treatment: Hours, clusters: int, split: Floats | float = 1.0
) -> list[int]:
    """Find hours in which the second group lacks rows that the first has.

    The ratio of the two groups in an hour is compared with the ratio in the hours before and after
    it. So an effect of the treatment is no gap: it may change the ratio, but does not halve it for
    a few hours. Each ratio is divided by the expected `split`, which may change. At the ends of the
    log, where one side is not known, the first or last day stands for it.

    Rows of one unit come together, so the test counts active units, estimated from the number of
    clusters without rows. If a few units, such as machines, have most rows, it counts `even`
    instead. Both groups have the same hours without a break, and `clusters` clusters of units each.
    """
    units, treatment_units = (
        _estimate_active_units(hours.active, clusters) for hours in (control, treatment)
    )
    planned = control.rows * split
    has_rows = planned > 0
    ratio = np.where(has_rows, treatment.rows / np.where(has_rows, planned, 1.0), np.nan)
    limit = two_sided_quantile(SURE / max(int(has_rows.sum()), 1))
    flagged = np.zeros(ratio.size, dtype=bool)
    # Gaps hide in the median of hours around them, so the second look leaves them out.
    for _ in range(2):
        clear = np.where(flagged, np.nan, ratio)
        # The smaller of the medians before and after each hour.
        expected = np.fmin(_take_earlier_median(clear), _take_earlier_median(clear[::-1])[::-1])
        with np.errstate(invalid="ignore", divide="ignore"):
            kept = np.where(expected > 0, ratio / expected, np.nan)
            # An hour is empty if no unit comes; in one that is not, rows of a unit come together.
            is_empty = treatment_units <= _EMPTY * units * expected * split
        counted = np.where(is_empty, units, np.minimum(units / _TOGETHER, control.even))
        flagged = (kept <= _LOW) & (_surprise(counted, expected * split, kept) > limit)
    return np.flatnonzero(flagged).tolist()


def _surprise(units: Floats, expected: Floats, kept: Floats) -> Floats:
    """Return how many standard errors a Poisson count is too low (deviance).

    `expected` is the expected count over `units`; `kept` is the observed count over the expected
    one.
    """
    second = units * expected * kept
    mean = (units + second) / (1 + expected)
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = units * np.log(units / mean)
        terms += np.where(second > 0, second * np.log(second / (mean * expected)), 0.0)
    return np.asarray(np.sqrt(np.maximum(2 * np.nan_to_num(terms), 0.0)))


def _estimate_active_units(active: Floats, clusters: int) -> Floats:
    """Estimate the number of active units from the number of active clusters."""
    empty = np.maximum(clusters - active, 0.5) / clusters
    return np.asarray(-clusters * np.log(empty))


def _take_earlier_median(ratio: Floats) -> Floats:
    """Return the median of the 72 hours before each hour.

    If too few of these are known, the first day's median; NaN if that has too few as well.
    """
    padded = np.concatenate([np.full(_AROUND, np.nan), ratio[:-1]])
    # Sorted, with what is not known last.
    windows = np.sort(np.lib.stride_tricks.sliding_window_view(padded, _AROUND), axis=1)
    known, hours = np.count_nonzero(~np.isnan(windows), axis=1), np.arange(ratio.size)
    medians = (windows[hours, (known - 1) // 2] + windows[hours, known // 2]) / 2
    day = ratio[:_DAY][~np.isnan(ratio[:_DAY])]
    of_day = np.median(day) if day.size >= _LEAST else np.nan
    return np.where(known >= _LEAST, medians, of_day)


# Largest clock difference in half hours, and the rows needed to show one.
_LONGEST, _LEAST_EARLY = 28, 20


def measure_clock_lag(rows: Mapping[int, int]) -> float:
    """Find how many hours a log's clock is behind; 0 if it is not.

    `rows` counts the rows logged before the event that they should follow, by half hours before it.
    Rows that really come before it spread over days, or come just before it. A clock that is behind
    shows many rows up to some hour and hardly any beyond. Returns that hour, at least 1, or 0 if
    there is none.

    Example:
        >>> up_to_eight, everywhere = ({k: 10 for k in range(steps)} for steps in (16, 200))
        >>> measure_clock_lag(up_to_eight), measure_clock_lag(everywhere)
        (8.0, 0.0)
    """
    total = sum(rows.values())
    for last in range(2, _LONGEST + 1) if total >= _LEAST_EARLY else ():
        beyond = sum(count for half_hour, count in rows.items() if half_hour >= last)
        edge, next_to_it = rows.get(last - 1, 0), rows.get(last, 0)
        # A sharp edge: many rows up to it and few beyond.
        is_edge = 2 * edge * last >= total - beyond and 4 * next_to_it <= edge
        if is_edge and 10 * beyond <= total:
            return last / 2
    return 0.0


class Rhythm(NamedTuple):
    """A group's row shares by hour of the day, and mean cosine and sine."""

    hours: Sequence[Sums]
    turns: Sequence[Sums]


class Shift(NamedTuple):
    """A daily rhythm that is another's some hours later.

    Attributes:
        hours: Number of hours, from -11 to 12; 0 if there is no shift.
        left: Share of the distance between the rhythms that is left after the shift.
        exact: Whether no other number of hours fits.
    """

    hours: int
    left: float
    exact: bool = True


_ALIKE = 0.25
"""Largest distance left after a shift, as a share of the distance before."""

# A shift is told only if the distance is this many times that of noise.
_PLAIN = 3.0

# Standard errors by which an hour more or less must fit worse.
_EXACT = 3.0


def shift(control: Rhythm, treatment: Rhythm, cells: int = 1) -> Shift:
    """Find how many hours one group's daily rhythm is behind the other's.

    An effect of the treatment may change when people come; it does not move the whole rhythm by
    some hours. The mean direction on the clock must differ for sure. It is one number for all
    hours, so a few hundred units suffice where no single hour would show anything. The chance
    `SURE` is for all `cells`, the compared pairs, together.
    """
    none = Shift(0, 1.0)
    turns = zip(control.turns, treatment.turns, strict=True)
    turned = [compare_shares(first, second, 2 * cells) for first, second in turns]
    if not any(result and result.sure > 0 for result in turned):
        return none
    hours = zip(control.hours, treatment.hours, strict=True)
    pairs = [pair for a, b in hours if (pair := estimate_shares(a, b))]
    if len(pairs) < len(control.hours):
        return none
    first, second = (np.array([pair[side].value for pair in pairs]) for side in (0, 1))
    # Noise of the hours is distance that no shift takes away.
    noise = sum(a.error**2 + b.error**2 for a, b in pairs)
    distances = [float(((second - np.roll(first, later)) ** 2).sum()) for later in range(24)]
    best = int(np.argmin(distances))
    is_plain = distances[0] > _PLAIN * noise
    if not is_plain or max(0.0, distances[best] - noise) > _ALIKE * (distances[0] - noise):
        return none
    exact = True
    for hour in ((best - 1) % 24, (best + 1) % 24):
        moved = float(((np.roll(first, best) - np.roll(first, hour)) ** 2).sum())
        exact &= distances[hour] - distances[best] > _EXACT * 2 * math.sqrt(moved * noise / 24)
    return Shift(best if best <= 12 else best - 24, distances[best] / distances[0], exact)
