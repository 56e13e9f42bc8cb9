"""Effects by day as causes read them: of the online metric that is explained, with variances."""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.agreement.case import Case
from abeval.agreement.gap import closed_online
from abeval.agreement.standing import more_is_better
from abeval.results.effects import Row
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Estimate, Floats

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
