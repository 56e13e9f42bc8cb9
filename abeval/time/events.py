"""The effect inside a calendar event against outside.

`time/analysis.py` calls it with the events of the experiment file and the daily effects of
`time/stability.py`, and puts the rows into the `TimeResult`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from abeval.experiment.sections import Event
from abeval.metrics.definition import Metric
from abeval.results.windows import EventRow
from abeval.stats import effects, shapes
from abeval.stats.records import Bools, Refusal
from abeval.time.change import Series


def event_rows(
    metric: Metric, variant: str, events: Sequence[Event], series: Series, labels: Sequence[str]
) -> tuple[EventRow, ...]:
    """One row per event."""
    return tuple(
        _row(EventRow(metric.name, variant, event.name, 0), series, _inside(event, series, labels))
        for event in events
    )


def _inside(event: Event, series: Series, labels: Sequence[str]) -> Bools:
    """Whether each day of the series touches the event."""
    start, end = (str(bound.date()) for bound in event.bounds)
    # An event that ends at midnight does not touch the day that then begins.
    ends_within = event.bounds[1].time() != event.bounds[1].min.time()
    return np.array(
        [start <= labels[day] < end or (ends_within and labels[day] == end) for day in series.times]
    )


def _row(bare: EventRow, series: Series, inside: Bools) -> EventRow:
    row = replace(bare, days=int(inside.sum()))
    if row.days in (0, len(inside)):
        where = "no" if not row.days else "every"
        return replace(row, reason=f"{where} whole day of the log is inside the event")
    try:
        return _tested(row, series, inside)
    except Refusal as refusal:
        return replace(row, reason=str(refusal))


def _tested(row: EventRow, series: Series, inside: Bools) -> EventRow:
    windows = series.windows
    design = np.column_stack([np.ones(len(inside)), inside])
    fit = shapes.fit(windows.effect, windows.covariance, design, windows.df)
    level = shapes.fit(windows.effect, windows.covariance, design[:, :1], windows.df)
    outside, more = (float(c) for c in fit.coefficients)
    se = math.sqrt(fit.covariance[1, 1])
    test = effects.from_difference(outside, outside + more, more, se)
    return replace(
        row,
        scale=windows.scale,
        inside=test.treatment,
        outside=test.control,
        overall=float(level.coefficients[0]),
        difference=more,
        difference_low=test.low,
        difference_high=test.high,
        p_value=test.p_value,
    )
