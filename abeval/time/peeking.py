"""Daily looks: what a reader would have seen and declared at the end of each day.

`time/analysis.py` hands it the effect on the data up to each day; the looks, and the days that the
metric needs, go into the `TimeResult`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import dropwhile, takewhile

import numpy as np

from abeval.experiment.model import Experiment
from abeval.inference.comparison import Comparison
from abeval.inference.looks import (
    START_PRECISION,
    START_UNITS,
    planned_fractions,
    relative_error,
)
from abeval.metrics.definition import Direction, Metric
from abeval.results.windows import Declared, Look
from abeval.stats import design, sequential, skewed
from abeval.stats.distributions import upper_tail
from abeval.stats.records import Effect, Interval, Refusal
from abeval.stats.split_moments import Skewed
from abeval.time.windows import Course

HELD = 3
"""Looks, the last included, at which a conclusion must have been the same."""

POWER = 0.8
MOST_DAYS = 1000
"""If more days than this are needed, no number of days is returned."""

_SMALLEST = 1e-300
"""The smallest error rate of an interval."""


@dataclass(frozen=True)
class Snapshot:
    """The data up to the end of one day.

    Attributes:
        day: Its place on the calendar, from 0.
        effect: At a fixed horizon.
        scale: What information is measured in: the pooled mean of a total per unit, else 1.
        error: The standard error as a share of the metric's value (`looks.relative_error`).
        values: Both variants, where values are skewed and their own test judges them.
    """

    day: int
    effect: Effect
    scale: float
    error: float
    values: Skewed | None = None

    @property
    def centre(self) -> float:
        """The difference; of skewed values, the one with their p-value in a normal test."""
        if self.values is None:
            return self.effect.difference
        return skewed.normal_score(self.values) * self.effect.se

    def interval(self, half: float) -> Interval:
        """The interval that would reach so far on both sides of a normal difference.

        Raises:
            Refusal: `too_few_units` where that of skewed values has no end.
        """
        effect = self.effect
        if self.values is None:
            return Interval(effect.difference - half, effect.difference + half)
        level = 2 * upper_tail(half / effect.se)[0]
        return skewed.interval(self.values, max(level, _SMALLEST))


@dataclass(frozen=True)
class Path:
    """The always-valid test of the looks so far.

    Attributes:
        snapshots: The data at each look.
        looks: The interval and p-value at each.
        information: Share of the planned information at each; without a plan, the information as a
            multiple of that at which looks may begin.
    """

    snapshots: tuple[Snapshot, ...]
    looks: tuple[sequential.AlwaysValid, ...]
    information: tuple[float, ...]


@dataclass(frozen=True)
class LookPlan:
    """The looks that were planned.

    Attributes:
        days: Their days, from 1; empty for none.
        alpha: Level over all looks together.
        spending: How alpha is spent over them.
    """

    days: Sequence[int] = ()
    alpha: float = 0.05
    spending: sequential.Spending = "obrien_fleming"


def snapshots_of(metric: Metric, by_day: Sequence[tuple[int, Comparison]]) -> tuple[Snapshot, ...]:
    """The looks of the days by whose end there are enough units.

    Args:
        metric: The metric.
        by_day: Day and the comparison of all data up to its end, in order.
    """
    return tuple(
        _snapshot(metric, day, one, one.effect)
        for day, one in by_day
        if one.effect is not None and min(one.units_control, one.units) >= START_UNITS
    )


def _snapshot(metric: Metric, day: int, one: Comparison, effect: Effect) -> Snapshot:
    """A total per unit grows while its units return, so its mean is the scale of information."""
    units = one.units_control, one.units
    variances = (0.0, 0.0) if one.spread is None else one.spread[:2]
    total = units[0] * effect.control + units[1] * effect.treatment
    scale = abs(total) / sum(units) if metric.kind == "mean" else 1.0
    error = relative_error(effect, variances, units)
    return Snapshot(day, effect, scale, error, one.permuted)


def follow(snapshots: Sequence[Snapshot], alpha: float, planned_share: float | None = None) -> Path:
    """Always-valid inference over looks.

    Args:
        snapshots: The data at each look, in order.
        alpha: Level over all looks together.
        planned_share: Share of the planned days that the looks have covered. The interval is
            tightest at the information that the plan comes to at the last look's pace, which
            depends on variances and traffic, not on the effect. Without a plan, looks begin as
            those of the scorecard do (`inference/looks.py`).

    Raises:
        Refusal: `too_few_units` without looks; `control_near_zero`; `zero_variance`.
    """
    kept = snapshots if planned_share is not None else _from_start(snapshots)
    if not kept:
        raise Refusal("too_few_units", f"no day with {START_UNITS} units in each variant")
    differences = [look.centre for look in kept]
    ses = [look.effect.se for look in kept]
    if planned_share is None:
        scales = [look.effect.se * START_PRECISION / look.error for look in kept]
        information = np.maximum.accumulate(sequential.information(ses, scales))
        path = sequential.always_valid_from_start(differences, ses, 1.0, alpha, scales)
        return _path(kept, path.looks, information.tolist())
    scales = [look.scale for look in kept]
    information = np.maximum.accumulate(sequential.information(ses, scales))
    planned = float(information[-1]) / planned_share
    path = sequential.always_valid(differences, ses, planned, alpha, scales)
    return _path(kept, path.looks, (information / planned).tolist())


def _path(
    snapshots: Sequence[Snapshot],
    looks: Sequence[sequential.AlwaysValid],
    information: Sequence[float],
) -> Path:
    """The looks whose intervals have both ends; those of skewed values by their own test."""
    kept = []
    for snapshot, look, share in zip(snapshots, looks, information, strict=True):
        if snapshot.values is None:
            kept.append((snapshot, look, share))
            continue
        try:
            low, high = snapshot.interval((look.high - look.low) / 2)
        except Refusal:
            continue
        kept.append((snapshot, look._replace(low=low, high=high), share))
    if not kept:
        raise Refusal("too_few_units", "no look has an interval with both ends")
    held, valid, shares = zip(*kept, strict=True)
    return Path(held, valid, shares)


def _from_start(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """The looks from the first with enough information on."""
    return tuple(dropwhile(lambda look: look.error > START_PRECISION, snapshots))


def look_rows(course: Course, path: Path, plan: LookPlan) -> tuple[Look, ...]:
    """One row per day; planned looks have their bound."""
    bounds = planned_bounds(path, plan)
    looks = zip(path.snapshots, path.looks, path.information, strict=True)
    return tuple(
        _row(course, snapshot, look, share, bounds.get(snapshot.day + 1))
        for snapshot, look, share in looks
    )


def _row(
    course: Course,
    snapshot: Snapshot,
    look: sequential.AlwaysValid,
    share: float,
    bound: float | None,
) -> Look:
    direction, effect = course.metric.direction, snapshot.effect
    planned: Declared | None = None
    if bound is not None:
        planned = declared(direction, *_or_unbounded(snapshot, bound * effect.se))
    return Look(
        metric=course.metric.name,
        variant=course.variant,
        day=course.axis.labels[snapshot.day],
        difference=effect.difference,
        fixed_low=effect.low,
        fixed_high=effect.high,
        fixed_p_value=effect.p_value,
        always_low=look.low,
        always_high=look.high,
        always_p_value=look.p_value,
        information=share,
        bound=None if bound is None or math.isinf(bound) else bound,
        fixed_declares=declared(direction, effect.low, effect.high),
        always_declares=declared(direction, look.low, look.high),
        planned_declares=planned,
    )


def _or_unbounded(snapshot: Snapshot, half: float) -> Interval:
    try:
        return snapshot.interval(half)
    except Refusal:
        return Interval(-math.inf, math.inf)


def planned_days(experiment: Experiment, days: Sequence[str]) -> tuple[int, ...]:
    """The days, from 1, by whose end the looks of the experiment file have their data.

    A look at a date, or at a share of the period, takes in the whole day.
    """
    if experiment.inference.looks != "group_sequential" or experiment.period is None:
        return ()
    start, end = experiment.period.bounds
    late = (start.date() - date.fromisoformat(days[0])).days
    length = (end - start).total_seconds() / 86_400
    shares = planned_fractions(experiment)
    return tuple(sorted({late + math.ceil(share * length - 1e-9) for share in shares}))


def planned_bounds(path: Path, plan: LookPlan) -> dict[int, float]:
    """Day of each planned look that was held so far → its critical z (Lan and DeMets)."""
    snapshots = zip(path.snapshots, path.information, strict=True)
    share_of = {snapshot.day + 1: share for snapshot, share in snapshots}
    held = sorted(day for day in set(plan.days) if day in share_of)
    if not held:
        return {}
    fractions = [share_of[day] / share_of[held[-1]] for day in held]
    # A look without new information does not count: the first day of each fraction does.
    first = {fraction: day for day, fraction in zip(held[::-1], fractions[::-1], strict=True)}
    kept = sorted(first)
    days = [first[fraction] for fraction in kept]
    # Alpha is spent by the calendar, so that a bound that was used stays as it was.
    spent_at = [day / max(plan.days) for day in days]
    critical = sequential.bounds(kept, plan.alpha, plan.spending, spent_at=spent_at).z
    return dict(zip(days, critical, strict=True))


def declared(direction: Direction, low: float, high: float) -> Declared:
    """The conclusion from an interval of the difference.

    Example:
        >>> declared(Direction(sign=-1), 0.1, 0.3), declared(Direction(), -0.1, 0.3)
        ('worse', 'unclear')
    """
    if low <= 0 <= high:
        return "unclear"
    if direction.toward is not None:
        return "different"
    return "better" if (low > 0) == (direction.sign > 0) else "worse"


def window_needed(looks: Sequence[Look], labels: Sequence[str]) -> int | None:
    """Days after which the always-valid conclusion no longer changed, for `HELD` looks or more."""
    if not looks or looks[-1].always_declares == "unclear":
        return None
    last = looks[-1].always_declares
    same = list(takewhile(lambda look: look.always_declares == last, reversed(looks)))
    return None if len(same) < HELD else list(labels).index(same[-1].day) + 1


def days_needed(path: Path, alpha: float) -> float | None:
    """More days until the effect, at its present size, is detected with 80 % power at any look."""
    last = path.snapshots[-1]
    if last.effect.difference == 0:
        return None
    reach = design.always_valid_critical(alpha) + design.power_quantile(POWER)
    ses = [snapshot.effect.se / snapshot.scale for snapshot in path.snapshots]
    se = abs(last.effect.difference) / last.scale / reach
    try:
        days = design.days_for_se(ses, se)
    except Refusal:
        return None
    more = max(0.0, days - len(ses))
    return None if more > MOST_DAYS else more
