"""The effect inside a calendar event against outside."""

import math
from collections.abc import Sequence

import numpy as np

from abeval.experiment.model import Event
from abeval.metrics.definition import Metric
from abeval.results.windows import EventRow
from abeval.stats import effects, shapes
from abeval.stats.records import Refusal
from abeval.time.change import Series


def event_rows(
    metric: Metric, variant: str, events: Sequence[Event], series: Series, labels: Sequence[str]
) -> tuple[EventRow, ...]:
    """One row per event."""
    return tuple(_row(metric, variant, event, series, labels) for event in events)


def _row(
    metric: Metric, variant: str, event: Event, series: Series, labels: Sequence[str]
) -> EventRow:
    start, end = (str(bound.date()) for bound in event.bounds)
    # An event that ends at midnight does not touch the day that then begins.
    ends_within = event.bounds[1].time() != event.bounds[1].min.time()
    inside = np.array(
        [start <= labels[day] < end or (ends_within and labels[day] == end) for day in series.times]
    )
    days = int(inside.sum())
    if days in (0, len(inside)):
        where = "no" if not days else "every"
        reason = f"{where} whole day of the log lies inside"
        return EventRow(metric.name, variant, event.name, days, reason=reason)
    try:
        return _compared(metric, variant, event, series, inside)
    except Refusal as refusal:
        return EventRow(metric.name, variant, event.name, days, reason=str(refusal))


def _compared(
    metric: Metric, variant: str, event: Event, series: Series, inside: "np.ndarray"
) -> EventRow:
    windows = series.windows
    both = np.column_stack([np.ones(len(inside)), inside])
    found = shapes.fit(windows.effect, windows.covariance, both)
    level = shapes.fit(windows.effect, windows.covariance, both[:, :1])
    outside, more = (float(c) for c in found.coefficients)
    se = math.sqrt(found.covariance[1, 1])
    test = effects.from_difference(outside, outside + more, more, se)
    return EventRow(
        metric=metric.name,
        variant=variant,
        event=event.name,
        days=int(inside.sum()),
        scale=windows.scale,
        inside=test.treatment,
        outside=test.control,
        overall=float(level.coefficients[0]),
        difference=more,
        difference_low=test.low,
        difference_high=test.high,
        p_value=test.p_value,
    )
