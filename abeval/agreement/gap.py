"""How much of a gap between offline and online closes without a cause, and effects by day."""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.agreement.case import Case
from abeval.agreement.standing import more_is_better, offline_gain
from abeval.results.effects import Row
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Estimate, Floats


def offline_sign(case: Case) -> int:
    """Whether the candidate is better (1) or worse (-1) on control's traffic; 0 where unclear."""
    return 0 if case.gap is None else offline_gain(case.pair(case.gap.offline, case.control)).sign


def closed_offline(case: Case, before: float, without: float) -> float | None:
    """The share of the gap that closes if an offline difference is not `before` but `without`.

    Where offline differs, the gap closes as the difference reaches zero. Where only online differs,
    nobody can say how far it closes, but only a move towards the sign online closes it. Without a
    gap there is no share. Both differences are of a metric of which more is better.
    """
    if case.gap is not None and case.gap.standing == "online only":
        return None if (without - before) * (case.gap.online_strength or 0.0) > 0 else 0.0
    return _share(without - before, -before) if _offline_differs(case) else None


def closed_online(case: Case, before: float, without: float) -> float | None:
    """The share of the gap that closes if an effect is not `before` but `without`.

    Where offline differs, the gap closes as the effect reaches the sign that the models have there;
    where only online differs, as it reaches zero. Both effects are of a metric of which more is
    better.
    """
    if case.gap is not None and case.gap.standing == "online only":
        return _share(without - before, -before)
    if not _offline_differs(case):
        return None
    return _share(without - before, without if without * offline_sign(case) > 0 else -before)


def _offline_differs(case: Case) -> bool:
    return case.gap is not None and case.gap.standing in ("conflict", "offline only")


def _share(moved: float, whole: float) -> float:
    """A share from 0 to 1 of a change in the direction of `whole`.

    Example:
        >>> _share(0.5, 2.0), _share(3.0, 2.0), _share(-1.0, 2.0)
        (0.25, 1.0, 0.0)
    """
    return min(max(moved / whole, 0.0), 1.0) if whole else 0.0


MANY = 1e9
"""Units of a day are so many that their interval is that of the normal."""


class DayEffect(NamedTuple):
    """The effect of one whole day, turned so that more is better.

    Attributes:
        day: ISO.
        lift: Relative, with its variance.
        control: The value of control.
    """

    day: str
    lift: Estimate
    control: float


def day_effects(case: Case) -> list[DayEffect]:
    """Of every whole day on which the effect has an interval."""
    row = online_row(case)
    if row is None:
        return []
    sign = 1 if more_is_better(row) else -1
    half = two_sided_quantile(case.alpha)
    effects = []
    for day in case.result.daily:
        own = (day.metric, day.variant) == (row.metric, case.variant) and not day.partial
        if not own or day.lift is None or day.lift_low is None or day.lift_high is None:
            continue
        se = (day.lift_high - day.lift_low) / 2 / half
        lift = Estimate(sign * day.lift, se * se, day.units, MANY)
        effects.append(DayEffect(day.cell, lift, day.control or 0.0))
    return effects


def online_row(case: Case) -> Row | None:
    """The scorecard's row of the online metric that is explained."""
    if case.gap is None:
        return None
    rows = (row for row in case.result.scorecard if row.variant == case.variant)
    return next((row for row in rows if row.metric == case.gap.online), None)


def closed_by_rates(case: Case, before: Floats, without: Floats) -> float | None:
    """The share of the gap that closes if click rates (control's, variant's) are `without`."""
    row = online_row(case)
    if row is None or not more_is_better(row) or min(before[0], without[0]) <= 0:
        return None
    lifts = [float(rates[1] / rates[0] - 1) for rates in (before, without)]
    return closed_online(case, *lifts)


def as_measured(case: Case, lift: Estimate) -> Estimate:
    """A lift that was turned so that more is better, with the sign that it was measured with."""
    row = online_row(case)
    turned = row is not None and not more_is_better(row)
    return lift._replace(value=-lift.value) if turned else lift


def pooled(days: Sequence[DayEffect]) -> Estimate | None:
    """The mean effect of some days, weighted by their precision; None without variation."""
    known = [day.lift for day in days if day.lift.variance > 0]
    if not known:
        return None
    weights = [1 / lift.variance for lift in known]
    value = sum(w * lift.value for w, lift in zip(weights, known, strict=True)) / sum(weights)
    return Estimate(value, 1 / sum(weights), len(known), MANY)
