"""What a reader would have seen and declared at the end of each day."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from abeval.experiment.model import Experiment
from abeval.inference.comparison import Comparison
from abeval.inference.looks import planned_fractions
from abeval.metrics.definition import Direction, Metric
from abeval.results.windows import Declared, Look
from abeval.stats import design, duration, group_sequential, sequential
from abeval.stats.records import Effect, Refusal

Floats = NDArray[np.float64]

LOOK_UNITS = 100
"""Looks begin once each variant has this many units: the methods are for large samples."""

HELD = 3
"""Looks, the last included, through which a conclusion must have held."""

POWER = 0.8
NO_DATE = 1000
"""More days than this are no answer."""


@dataclass(frozen=True)
class Seen:
    """The data up to one day.

    Attributes:
        day: Its place on the calendar, from 0.
        effect: At a fixed horizon.
        scale: What information is measured in: the pooled mean of a total per unit, else 1.
    """

    day: int
    effect: Effect
    scale: float


@dataclass(frozen=True)
class Path:
    """The always-valid test of the looks so far.

    Attributes:
        seen: The looks.
        looks: Its interval and p-value at each.
        information: Share of the planned information at each.
    """

    seen: tuple[Seen, ...]
    looks: tuple[sequential.AlwaysValid, ...]
    information: tuple[float, ...]


def seen_of(metric: Metric, upto: Sequence[tuple[int, Comparison]]) -> tuple[Seen, ...]:
    """The looks of the days by whose end there are units enough.

    Args:
        metric: The metric.
        upto: Day and the comparison of all that is in by its end, in order.
    """
    return tuple(
        Seen(day, one.effect, scale_of(metric, one.effect, one.units_control, one.units))
        for day, one in upto
        if one.effect is not None and min(one.units_control, one.units) >= LOOK_UNITS
    )


def scale_of(metric: Metric, effect: Effect, units_control: int, units: int) -> float:
    """The scale of a look's information; a total per unit grows while its units return."""
    if metric.kind != "mean":
        return 1.0
    total = units_control * effect.control + units * effect.treatment
    return abs(total) / (units_control + units)


def follow(seen: Sequence[Seen], alpha: float, planned_share: float = 1.0) -> Path:
    """Always-valid inference over looks.

    Args:
        seen: The looks, in order.
        alpha: Level over all looks together.
        planned_share: Share of the planned days that the looks have covered. The interval is
            tightest at the information that the plan comes to at the last look's pace, which
            depends on variances and traffic, not on the effect.

    Raises:
        Refusal: `too_few_units` without looks; `control_near_zero`; `zero_variance`.
    """
    if not seen:
        raise Refusal("too_few_units", f"no day with {LOOK_UNITS} units in each variant")
    differences = [look.effect.difference for look in seen]
    ses, scales = [look.effect.se for look in seen], [look.scale for look in seen]
    clock = np.maximum.accumulate(sequential.information(ses, scales))
    planned = float(clock[-1]) / planned_share
    path = sequential.always_valid(differences, ses, planned, alpha, scales)
    return Path(tuple(seen), path.looks, tuple((clock / planned).tolist()))


def look_rows(
    metric: Metric,
    variant: str,
    path: Path,
    labels: Sequence[str],
    alpha: float,
    planned: Sequence[int],
    spending: group_sequential.Spending = "obrien_fleming",
) -> tuple[Look, ...]:
    """One row per day; planned looks, counted from day 1, have their bound."""
    bounds = planned_bounds(path, planned, alpha, spending)
    return tuple(
        _row(metric, variant, labels[seen.day], seen.effect, look, share, bounds.get(seen.day + 1))
        for seen, look, share in zip(path.seen, path.looks, path.information, strict=True)
    )


def _row(
    metric: Metric,
    variant: str,
    day: str,
    effect: Effect,
    look: sequential.AlwaysValid,
    share: float,
    bound: float | None,
) -> Look:
    direction = metric.direction
    at_plan: Declared | None = None
    if bound is not None:
        half = bound * effect.se
        at_plan = declared(direction, effect.difference - half, effect.difference + half)
    return Look(
        metric=metric.name,
        variant=variant,
        day=day,
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
        planned_declares=at_plan,
    )


def planned_days(experiment: Experiment, days: Sequence[str]) -> tuple[int, ...]:
    """The days, from 1, by whose end the looks that the file plans have their data.

    Where looks are dates, or shares of the period, the whole day that such a share ends in is in.
    """
    if experiment.inference.looks != "group_sequential" or experiment.period is None:
        return ()
    start, end = experiment.period.bounds
    late = (start.date() - date.fromisoformat(days[0])).days
    length = (end - start).total_seconds() / 86_400
    shares = planned_fractions(experiment)
    return tuple(sorted({late + math.ceil(share * length - 1e-9) for share in shares}))


def planned_bounds(
    path: Path,
    planned: Sequence[int],
    alpha: float,
    spending: group_sequential.Spending = "obrien_fleming",
) -> dict[int, float]:
    """Day of each planned look held so far → its critical z (Lan and DeMets)."""
    at = {seen.day + 1: share for seen, share in zip(path.seen, path.information, strict=True)}
    held = sorted(day for day in set(planned) if day in at)
    if not held:
        return {}
    # The last look of the plan ends it, whatever information it brings.
    whole = at[held[-1]] if held[-1] == max(planned) else 1.0
    fractions = [min(at[day] / whole, 1.0) for day in held]
    # A look that brought no information is none.
    first = {fraction: day for day, fraction in zip(held[::-1], fractions[::-1], strict=True)}
    kept = sorted(first)
    return dict(
        zip([first[f] for f in kept], group_sequential.bounds(kept, alpha, spending).z, strict=True)
    )


def declared(direction: Direction, low: float, high: float) -> Declared:
    """What an interval of the difference says.

    Example:
        >>> declared(Direction(sign=-1), 0.1, 0.3), declared(Direction(), -0.1, 0.3)
        ('worse', 'unclear')
    """
    if low <= 0 <= high:
        return "unclear"
    if direction.toward is not None:
        return "different"
    return "better" if (low > 0) == (direction.sign > 0) else "worse"


def window_needed(rows: Sequence[Look], labels: Sequence[str]) -> int | None:
    """Days after which the always-valid conclusion held to the end, through `HELD` looks."""
    if not rows or rows[-1].always_declares == "unclear":
        return None
    run = 0
    for row in reversed(rows):
        if row.always_declares != rows[-1].always_declares:
            break
        run += 1
    return None if run < HELD else list(labels).index(rows[-run].day) + 1


def days_needed(path: Path, alpha: float) -> float | None:
    """More days until an effect as large as it looks is found with 80 % power, at any look."""
    last = path.seen[-1]
    if last.effect.difference == 0:
        return None
    reach = design.always_valid_critical(alpha) + design.power_quantile(POWER)
    ses = [seen.effect.se / seen.scale for seen in path.seen]
    wanted = abs(last.effect.difference) / last.scale / reach
    try:
        days = duration.days_for_se(ses, wanted)
    except Refusal:
        return None
    more = max(0.0, days - len(ses))
    return None if more > NO_DATE else more
