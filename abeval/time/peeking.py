"""Follow daily looks: what a reader would have concluded on each day."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, timedelta
from itertools import dropwhile, takewhile
from typing import NamedTuple

import numpy as np

from abeval.experiment.model import Experiment
from abeval.experiment.sections import Period
from abeval.inference.looks import (
    START_PRECISION,
    START_UNITS,
    estimate_relative_error,
    list_planned_fractions,
)
from abeval.metrics.definition import Direction, Metric
from abeval.results.windows import Declared, Look
from abeval.stats import sequential, skewed
from abeval.stats.distributions import compute_p_value
from abeval.stats.records import Effect, Interval, Refusal
from abeval.stats.sequential import Spending
from abeval.stats.skewed import Skewed
from abeval.time.windows import Course, Window

_HELD = 3
"""Number of last looks that must agree on a conclusion."""

_SMALLEST = 1e-300
"""The smallest error rate of an interval."""


class Snapshot(NamedTuple):
    """Hold the data up to the end of one day.

    Attributes:
        day: Its index on the calendar, from 0.
        scale: What information is measured in: the pooled mean of a total per unit, which grows
            while units return, else 1.
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
        """Return the difference that looks judge."""
        if self.values is None:
            return self.effect.difference
        # Of skewed values, the difference that has their p-value in a normal test.
        return skewed.convert_test_to_z(self.values) * self.effect.se

    def interval(self, half: float) -> Interval:
        """Return the interval with half-width `half` in a normal test.

        Of skewed values it is the interval of the same error rate.

        Raises:
            Refusal: `too_few_units` where that of skewed values has no end.
        """
        effect = self.effect
        if self.values is None:
            return Interval(effect.difference - half, effect.difference + half)
        return skewed.compute_difference_interval(
            self.values, max(compute_p_value(half / effect.se), _SMALLEST)
        )


class AlwaysValidLook(NamedTuple):
    """Hold a look of the always-valid test.

    `information` is the share of the planned one; without a plan, a multiple of that at which looks
    may begin.
    """

    snapshot: Snapshot
    look: sequential.AlwaysValid
    information: float


def take_snapshots(metric: Metric, windows: Sequence[Window]) -> list[Snapshot]:
    """Take a snapshot at the end of each day with enough units."""
    looks = []
    for kind, (_, day), comparison in windows:
        units, effect = (comparison.units_control, comparison.units), comparison.effect
        if kind != "cumulative" or effect is None or min(units) < START_UNITS:
            continue
        variances = (0.0, 0.0) if comparison.spread is None else comparison.spread[:2]
        total = units[0] * effect.control + units[1] * effect.treatment
        scale = abs(total) / sum(units) if metric.kind == "mean" else 1.0
        error = estimate_relative_error(effect, variances, units)
        looks.append(Snapshot(day, effect, scale, error, comparison.permuted))
    return looks


def follow(
    snapshots: Sequence[Snapshot], alpha: float, planned_share: float | None = None
) -> list[AlwaysValidLook]:
    """Infer with looks at any time; skip looks whose intervals lack an end.

    `planned_share` is the share of the planned days that the looks have covered. Without a plan,
    looks begin as those of the scorecard do.

    Raises:
        Refusal: `too_few_units` without looks; `control_near_zero`; `zero_variance`.
    """
    kept = list(snapshots)
    look_at: Callable[[float, float, float, float], sequential.AlwaysValid]
    look_at = sequential.confidence_sequence
    if planned_share is None:
        # From the first look with enough information on.
        kept = list(dropwhile(lambda look: look.error > START_PRECISION, snapshots))
        look_at = sequential.look_from_start
    if not kept:
        raise Refusal("too_few_units", f"no day with {START_UNITS} units in each variant")
    ses = [look.effect.se for look in kept]
    scales = [look.scale for look in kept]
    if planned_share is None:
        scales = [look.effect.se * START_PRECISION / look.error for look in kept]
    # A clock that would run backwards stands still.
    clock = np.maximum.accumulate(sequential.measure_information(ses, scales))
    if planned_share is not None:
        # The interval is tightest at the information that the plan comes to at the last look's
        # pace.
        clock = clock / (clock[-1] / planned_share)
    held = []
    for snapshot, se, share in zip(kept, ses, clock.tolist(), strict=True):
        try:
            look = look_at(snapshot.centre, se, share, alpha)
            if snapshot.values is not None:
                low, high = snapshot.interval((look.high - look.low) / 2)
                look = look._replace(low=low, high=high)
        except Refusal:
            continue
        held.append(AlwaysValidLook(snapshot, look, share))
    if not held:
        raise Refusal("too_few_units", "no look has an interval with both ends")
    return held


def look_rows(
    course: Course,
    held: Sequence[AlwaysValidLook],
    days: Sequence[int],
    spending: Spending,
    alpha: float,
) -> tuple[Look, ...]:
    """Return one row per day; looks on planned days have their bound."""
    bounds = _bound_looks(held, days, spending, alpha)
    direction, rows = course.metric.direction, []
    for snapshot, look, share in held:
        effect, bound = snapshot.effect, bounds.get(snapshot.day + 1)
        planned: Declared | None = None
        if bound is not None:
            planned = "unclear"
            with suppress(Refusal):
                planned = conclude(direction, *snapshot.interval(bound * effect.se))
        row = Look(
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
            fixed_declares=conclude(direction, effect.low, effect.high),
            always_declares=conclude(direction, look.low, look.high),
            planned_declares=planned,
        )
        rows.append(row)
    return tuple(rows)


def count_days(period: Period) -> float:
    """Count the days of a period, whole or not."""
    start, end = period.bounds
    return (end - start) / timedelta(days=1)


def list_look_days(experiment: Experiment, days: Sequence[str]) -> tuple[int, ...]:
    """List the days, from 1, whose end has the data of a planned look.

    A look at a date, or at a share of the period, takes in the whole day.
    """
    if experiment.inference.looks != "group_sequential" or experiment.period is None:
        return ()
    start, length = experiment.period.bounds[0], count_days(experiment.period)
    # Days count from the first of the log, looks from the start of the period.
    late = (start.date() - date.fromisoformat(days[0])).days
    shares = list_planned_fractions(experiment)
    return tuple(sorted({late + math.ceil(share * length - 1e-9) for share in shares}))


def _bound_looks(
    looks: Sequence[AlwaysValidLook], planned: Sequence[int], spending: Spending, alpha: float
) -> dict[int, float]:
    """Return day → critical z of each planned look so far (Lan and DeMets)."""
    share_of = {look.snapshot.day + 1: look.information for look in looks}
    held = sorted(day for day in set(planned) if day in share_of)
    # A look without new information does not count: the first day of each fraction does.
    first = {share_of[day] / share_of[held[-1]]: day for day in reversed(held)}
    if not first:
        return {}
    kept = sorted(first)
    days = [first[fraction] for fraction in kept]
    # Alpha is spent by the calendar, so that a bound that was used stays as it was.
    spent_at = [day / max(planned) for day in days]
    critical = sequential.bounds(kept, alpha, spending, spent_at=spent_at).z
    return dict(zip(days, critical, strict=True))


def conclude(direction: Direction, low: float, high: float) -> Declared:
    """Conclude from an interval of the difference.

    Example:
        >>> conclude(Direction(sign=-1), 0.1, 0.3), conclude(Direction(), -0.1, 0.3)
        ('worse', 'unclear')
    """
    if low <= 0 <= high:
        return "unclear"
    if direction.toward is not None:
        return "different"
    return "better" if (low > 0) == (direction.sign > 0) else "worse"


def find_conclusion_day(looks: Sequence[Look], labels: Sequence[str]) -> int | None:
    """Count days until the always-valid conclusion was reached and stayed."""
    if not looks or looks[-1].always_declares == "unclear":
        return None
    last = looks[-1].always_declares
    same = list(takewhile(lambda look: look.always_declares == last, reversed(looks)))
    # A conclusion of the last days alone may still change.
    return None if len(same) < _HELD else list(labels).index(same[-1].day) + 1
