"""The figures of a history: effects on two metrics, and effects as measured and as shrunk.

`history_page.py` hands over effects of a `HistoryReport`, and puts what comes back into the page.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from abeval.report.figures import (
    EFFECT_AXIS,
    GREY,
    Interval,
    axis_range,
    colour,
    error_bars,
    label,
    plain_layout,
    symbol,
)
from abeval.results.history_report import HistoryEffect, Prediction

_ROW = 26
"""Pixels of a row of the forest."""


def scatter_figure(
    row: Prediction, pairs: Sequence[tuple[HistoryEffect, HistoryEffect]]
) -> go.Figure:
    """Every experiment by its effects on two metrics, turned so that more is better.

    Args:
        row: Their prediction, whose slope is drawn.
        pairs: Effects on the predictor and on the target, of the same variant each.
    """
    x, y = [_turned(one, 1.0) for one, _ in pairs], [_turned(other, 100.0) for _, other in pairs]
    names = [label(f"{one.experiment}, {one.variant}") for one, _ in pairs]
    points = go.Scatter(
        x=[value for value, _, _ in x],
        y=[value for value, _, _ in y],
        error_x=error_bars(x, GREY, 1.0),
        error_y=error_bars(y, GREY, 1.0),
        mode="markers",
        marker={"color": colour(0), "size": 8},
        customdata=names,
        hovertemplate="%{customdata}<br>%{x:.4g}, %{y:+.3g}%<extra></extra>",
        showlegend=False,
    )
    figure = go.Figure(points, plain_layout(380, {"l": 62, "r": 12, "t": 12, "b": 48}))
    ends = [end for _, low, high in x for end in (low, high) if end is not None]
    across = axis_range(ends, 0.05)
    figure.update_xaxes(EFFECT_AXIS, title=label(row.predictor), range=across)
    figure.update_yaxes(EFFECT_AXIS, title=label(row.target), ticksuffix="%")
    if row.slope is not None and across is not None:
        _draw_line(figure, 100.0 * row.slope, across, x, y)
    return figure


def _draw_line(
    figure: go.Figure,
    slope: float,
    across: Sequence[float],
    x: Sequence[Interval],
    y: Sequence[Interval],
) -> None:
    """The line of true effects, through the mean of the estimates."""
    middle_x, middle_y = (sum(value or 0.0 for value, _, _ in ends) / len(ends) for ends in (x, y))
    figure.add_shape(
        type="line",
        x0=across[0],
        x1=across[1],
        y0=middle_y + slope * (across[0] - middle_x),
        y1=middle_y + slope * (across[1] - middle_x),
        line={"color": colour(1), "width": 1.8, "dash": "dash"},
        layer="below",
    )


def forest_figure(effects: Sequence[HistoryEffect]) -> go.Figure:
    """Every effect on one metric, as measured and as shrunk, largest on top.

    Args:
        effects: Of one metric, with shrunken ones.
    """
    ordered = sorted(effects, key=lambda one: one.effect)
    several = len({one.variant for one in ordered}) > 1
    names = [_named(one, several) for one in ordered]
    measured: list[Interval] = [
        (100 * one.effect, 100 * one.low, 100 * one.high) for one in ordered
    ]
    shrunk: list[Interval] = [
        (_percent(one.shrunk), _percent(one.shrunk_low), _percent(one.shrunk_high))
        for one in ordered
    ]
    traces = [
        _row_of_points("measured", names, measured, 2, 1.0),
        _row_of_points("shrunk", names, shrunk, 0, 2.0),
    ]
    height = 90 + _ROW * len(ordered)
    figure = go.Figure(traces, plain_layout(height, {"l": 12, "r": 12, "t": 40, "b": 36}))
    figure.update_xaxes(EFFECT_AXIS, ticksuffix="%")
    figure.update_yaxes(type="category", automargin=True, range=[-0.6, len(ordered) - 0.4])
    return figure


def _row_of_points(
    name: str, rows: Sequence[str], values: Sequence[Interval], index: int, width: float
) -> go.Scatter:
    tone = GREY if index else colour(0)
    return go.Scatter(
        x=[value for value, _, _ in values],
        y=list(rows),
        error_x=error_bars(values, tone, width),
        mode="markers",
        name=name,
        marker={"color": tone, "symbol": symbol(index), "size": 7},
        hovertemplate="%{y}: %{x:+.3g}%<extra>" + name + "</extra>",
    )


def _named(one: HistoryEffect, several: bool) -> str:
    shipped = "* " if one.shipped else ""
    return label(f"{shipped}{one.experiment}{f', {one.variant}' if several else ''}")


def _turned(one: HistoryEffect, scale: float) -> Interval:
    """The effect with its interval, so that more is better."""
    if one.direction == "decrease":
        return -scale * one.effect, -scale * one.high, -scale * one.low
    return scale * one.effect, scale * one.low, scale * one.high


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
