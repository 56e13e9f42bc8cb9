"""Causes that show in the effect by day, and by cell of segments and cuts."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from abeval.agreement import clusters
from abeval.agreement.bill import METRIC
from abeval.agreement.case import CauseContext, Finding, Unchecked
from abeval.experiment.sections import Event
from abeval.results.effects import CutRow, SliceRow
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Estimate

_MANY = 1e9
"""Units of a day or cell are so many that their interval is that of the normal."""


class Part(NamedTuple):
    """The effect on one day or in one cell."""

    name: str
    lift: Estimate


def check_novelty(case: CauseContext, share: float, least_days: int) -> Finding | None:
    """Test the slope of the daily effects, times the days, against the whole effect."""
    days = [day for day in _list_whole_days(case) if day.lift.variance > 0]
    overall = _pool_days(days)
    if overall is None or len(days) < least_days:
        return None
    change = _change(days, overall.value)
    # The line meets the mean of all days in their middle, so half of the change lies after it.
    last = overall.value + change.value / 2
    return Finding(
        # Of a mean near zero, every slope would be a large share.
        exceeds=abs(change.value) >= share * max(abs(overall.value), abs(last)),
        message=f"Novelty: from first to last day the effect changes by {change.value:+.1%}; "
        f"over all days it is {overall.value:+.1%}.",
        evidence=(
            case.number("change of the lift from first to last day", change),
            case.number("lift over all days", overall),
        ),
        p_value=clusters.compute_p_value(change),
        accounts_for=case.closed_online(overall.value, last),
        # Half of the change has a quarter of its variance.
        points=_scale_ctr_step(case, change._replace(value=-change.value / 2), 0.25),
    )


def check_promotion(case: CauseContext, share: float) -> Finding | Unchecked | None:
    """Compare the effect on the days of `[[events]]` with that on all others."""
    events = () if case.experiment is None else tuple(case.experiment.events)
    if not events:
        message = "Promotion: [[events]] would show whether the effect is that of special days"
        return Unchecked(message, ("[[events]]",))
    days = list(_list_whole_days(case))
    special = [day for day in days if any(_is_in_event(event, day) for event in events)]
    ordinary = [day for day in days if day not in special]
    during, outside, overall = _pool_days(special), _pool_days(ordinary), _pool_days(days)
    if during is None or outside is None or overall is None:
        return None
    change = clusters.estimate_difference(outside, during)
    moved = abs(overall.value - outside.value)
    # The whole is a mean of days by precision: those of events move it by their part.
    part = 1 - overall.variance / outside.variance
    names = ", ".join(dict.fromkeys(event.name for event in events))
    return Finding(
        exceeds=moved >= share * max(abs(overall.value), abs(outside.value)),
        message=f"Promotion: the effect is {during.value:+.1%} during {names} and "
        f"{outside.value:+.1%} on the other days.",
        evidence=(
            case.number("lift on days of events", during),
            case.number("lift on other days", outside),
            case.number("difference of the two", change),
        ),
        p_value=clusters.compute_p_value(change),
        accounts_for=case.closed_online(overall.value, outside.value),
        points=_scale_ctr_step(case, change._replace(value=overall.value - outside.value), part**2),
    )


def _scale_ctr_step(case: CauseContext, step: Estimate, scale: float) -> Estimate | None:
    """Return a step of the lift of CTR, with its variance times `scale`.

    None of other metrics.
    """
    if case.online is None or case.online.metric != METRIC:
        return None
    return step._replace(variance=scale * step.variance)


def check_reversal(case: CauseContext, share: float) -> Finding | Unchecked | None:
    """Find two cells of one segment or cut with opposite effects beyond noise."""
    cells_by_name: dict[str, list[Part]] = {}
    cells: list[SliceRow | CutRow] = [*case.result.segments, *case.result.cuts]
    for cell in cells:
        name = cell.cut if isinstance(cell, CutRow) else cell.slice
        lift = None if cell.reason == "too_few_units" else _lift(case, cell)
        if lift is not None and lift.variance > 0:
            cells_by_name.setdefault(name, []).append(Part(cell.cell, lift))
    extremes = [
        (*_find_extreme_cells(case.sign, cells), name)
        for name, cells in cells_by_name.items()
        if len(cells) > 1
    ]
    if not extremes and cells:
        message = "Reversal: no segment or cut has two cells with an effect"
        return Unchecked(message, ("more units in each cell",))
    if not extremes:
        return None
    # With one cell surely of one sign, each of the others could be of the other by chance.
    tests = sum(len(cells) - 1 for cells in cells_by_name.values())
    p, worst, best, name = min(extremes, key=lambda found: found[0])
    overall = 0.0 if case.online is None or case.online.lift is None else case.online.lift
    kept = best if case.offline_sign > 0 else worst
    opposite = case.sign * worst.lift.value < 0 < case.sign * best.lift.value
    smaller = min(abs(worst.lift.value), abs(best.lift.value))
    return Finding(
        exceeds=opposite and smaller >= share * abs(overall),
        message=f"Reversal: by {name} the effect is {best.lift.value:+.1%} in {best.name} and "
        f"{worst.lift.value:+.1%} in {worst.name}.",
        evidence=tuple(
            case.number("lift", cell.lift, f"{name} {cell.name}") for cell in (best, worst)
        ),
        p_value=min(1.0, p * tests),
        accounts_for=case.closed_online(overall, kept.lift.value),
    )


def _find_extreme_cells(sign: int, cells: Sequence[Part]) -> tuple[float, Part, Part]:
    """Return the surest worse cell and the surest better one, after their p-value."""

    def z(cell: Part) -> float:
        return float(sign * cell.lift.value / cell.lift.variance**0.5)

    worst, best = min(cells, key=z), max(cells, key=z)
    if not z(worst) < 0 < z(best):
        return 1.0, worst, best
    # Both cells have to differ from zero, so the larger p-value counts.
    return max(clusters.compute_p_value(cell.lift) for cell in (worst, best)), worst, best


def _lift(case: CauseContext, row: SliceRow | CutRow) -> Estimate | None:
    """Return the effect on the online metric that is explained.

    None without an interval.
    """
    online = case.online
    if online is None or (row.metric, row.variant) != (online.metric, case.variant):
        return None
    if row.lift is None or row.lift_low is None or row.lift_high is None:
        return None
    se = (row.lift_high - row.lift_low) / 2 / two_sided_quantile(case.alpha)
    return Estimate(row.lift, se * se, row.units, _MANY)


def _list_whole_days(case: CauseContext) -> Iterator[Part]:
    """Return every whole day on which the effect has an interval."""
    for day in case.result.daily:
        # Part of a day has other hours than the rest, and so other users.
        lift = None if day.partial else _lift(case, day)
        if lift is not None:
            yield Part(day.cell, lift)


def _is_in_event(event: Event, day: Part) -> bool:
    first, end = event.bounds
    # An event that ends at midnight does not touch the day that begins then.
    return first.date() <= date.fromisoformat(day.name) <= (end - timedelta(microseconds=1)).date()


def _pool_days(days: Sequence[Part]) -> Estimate | None:
    """Return the mean effect of some days, weighted by their precision.

    None without variation.
    """
    lifts = [day.lift for day in days if day.lift.variance > 0]
    if not lifts:
        return None
    weights = [1 / lift.variance for lift in lifts]
    value = sum(w * lift.value for w, lift in zip(weights, lifts, strict=True)) / sum(weights)
    return Estimate(value, 1 / sum(weights), len(lifts), _MANY)


def _change(days: Sequence[Part], mean: float) -> Estimate:
    """Fit the change from the first day to the last by weighted least squares."""
    weights = [1 / day.lift.variance for day in days]
    total = sum(weights)
    centre = sum(w * i for i, w in enumerate(weights)) / total
    squares = sum(w * (i - centre) ** 2 for i, w in enumerate(weights))
    crossed = sum(
        w * (i - centre) * (day.lift.value - mean)
        for i, (w, day) in enumerate(zip(weights, days, strict=True))
    )
    length = len(days) - 1
    # Days are as if independent, which is cautious where units return.
    return Estimate(crossed / squares * length, length**2 / squares, len(days), _MANY)
