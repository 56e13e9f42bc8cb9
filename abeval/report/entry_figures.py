"""The figure of lifts by days since entry, with the decay that was fitted to them.

`daily_parts.py` hands over rows of a `TimeResult`.
"""

from collections.abc import Sequence
from math import exp, expm1

import plotly.graph_objects as go

from abeval.report.figures import (
    EFFECT_AXIS,
    GREY,
    ORANGE,
    Interval,
    axis_range,
    error_bars,
    label,
    plain_layout,
)
from abeval.results import format as fmt
from abeval.results.windows import Novelty, WindowRow


def entry_figure(rows: Sequence[WindowRow], fit: Novelty | None) -> go.Figure:
    """Lifts by days since entry, with the fit of their decay where there is one.

    Args:
        rows: One-day windows of one metric in one variant.
        fit: Its novelty; drawn if it has a word for it and is of lifts.
    """
    shown = [row for row in rows if row.lift is not None]
    numbers = [_lifts(row) for row in shown]
    points = go.Scatter(
        x=[int(row.start) for row in shown],
        y=[value for value, _, _ in numbers],
        error_y=error_bars(numbers, GREY, 1.4),
        mode="markers",
        name="one day since entry",
        marker={"color": GREY, "size": 8},
        customdata=[_lift_hover(row) for row in shown],
        hovertemplate="%{customdata}<extra></extra>",
    )
    drawn = [points, *_decay(shown, fit)]
    figure = go.Figure(drawn, plain_layout(260, {"l": 72, "r": 16, "t": 34, "b": 44}))
    ends = sorted(e for number in numbers for e in number if e is not None)
    trimmed = ends[len(ends) // 10 : len(ends) - len(ends) // 10]
    figure.update_layout(
        showlegend=len(drawn) > 1,
        xaxis={
            "title": {"text": "days since entry", "standoff": 6},
            "showgrid": False,
            "zeroline": False,
        },
        yaxis={**EFFECT_AXIS, "ticksuffix": "%", "range": axis_range(trimmed, 0.08)},
    )
    return figure


def _lifts(row: WindowRow) -> Interval:
    low, value, high = (
        None if n is None else 100 * n for n in (row.lift_low, row.lift, row.lift_high)
    )
    return value, low, high


def _lift_hover(row: WindowRow) -> str:
    shown = fmt.lift(row.lift, row.lift_low, row.lift_high)
    return label(f"day {row.start}: {fmt.typographic(shown.text) if shown else fmt.MISSING}")


def _decay(rows: Sequence[WindowRow], fit: Novelty | None) -> list[go.Scatter]:
    """The fitted a + b exp(-t / tau), of logarithms of relative effects."""
    if fit is None or fit.word is None or fit.scale != "relative":
        return []
    if fit.start is None or fit.long_run is None or not fit.tau:
        return []
    days = [int(row.start) for row in rows]
    logs = [fit.long_run + (fit.start - fit.long_run) * exp(-day / fit.tau) for day in days]
    return [
        go.Scatter(
            x=days,
            y=[100 * expm1(one) for one in logs],
            mode="lines",
            name=f"{fit.word}, fitted",
            line={"color": ORANGE, "width": 2},
            hoverinfo="skip",
        )
    ]
