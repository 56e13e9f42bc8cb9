"""The figures of a history: effects on two metrics, and effects as measured and as shrunk.

`history_page.py` hands over effects of a `HistoryReport`, and puts what comes back into the page.
"""

from collections.abc import Sequence

from abeval.report import figures as fig
from abeval.results.history import HistoryEffect, Prediction

_ROW = 26
"""Pixels of a row of the forest."""


def scatter_figure(
    row: Prediction, pairs: Sequence[tuple[HistoryEffect, HistoryEffect]]
) -> fig.Figure:
    """Every experiment by its effects on two metrics, turned so that more is better.

    Args:
        row: Their prediction, whose slope is drawn.
        pairs: Effects on the predictor and on the target, of the same variant each.
    """
    x, y = [_turned(one, 1.0) for one, _ in pairs], [_turned(other, 100.0) for _, other in pairs]
    points = fig.scatter(
        x=[value for value, _, _ in x],
        y=[value for value, _, _ in y],
        error_x=fig.error_bars(x, fig.GREY, 1.0),
        error_y=fig.error_bars(y, fig.GREY, 1.0),
        mode="markers",
        marker={"color": fig.colour(0), "size": 8},
        customdata=[fig.label(f"{one.experiment}, {one.variant}") for one, _ in pairs],
        hovertemplate="%{customdata}<br>%{x:.4g}, %{y:+.3g}%<extra></extra>",
        showlegend=False,
    )
    ends = [end for _, low, high in x for end in (low, high) if end is not None]
    across = fig.axis_range(ends, 0.05)
    lines = [_line(100.0 * row.slope, across, x, y)] if row.slope is not None and across else []
    return fig.figure(
        [points],
        380,
        {"l": 62, "r": 12, "t": 12, "b": 48},
        xaxis={**fig.EFFECT_AXIS, "title": {"text": fig.label(row.predictor)}, "range": across},
        yaxis={**fig.EFFECT_AXIS, "title": {"text": fig.label(row.target)}, "ticksuffix": "%"},
        shapes=lines,
    )


def _line(
    slope: float, across: Sequence[float], x: Sequence[fig.Interval], y: Sequence[fig.Interval]
) -> fig.Trace:
    """The line of true effects, through the mean of the estimates."""
    middle_x, middle_y = (sum(value or 0.0 for value, _, _ in ends) / len(ends) for ends in (x, y))
    up = [middle_y + slope * (end - middle_x) for end in across]
    return fig.dashed(across, up, fig.colour(1), 1.8)


def forest_figure(effects: Sequence[HistoryEffect]) -> fig.Figure:
    """Every effect on one metric, as measured and as shrunk, largest on top.

    Args:
        effects: Of one metric, with shrunken ones.
    """
    ordered = sorted(effects, key=lambda one: one.effect)
    several = len({one.variant for one in ordered}) > 1
    names = [_named(one, several) for one in ordered]
    measured: list[fig.Interval] = [
        (100 * one.effect, 100 * one.low, 100 * one.high) for one in ordered
    ]
    shrunk: list[fig.Interval] = [
        (_percent(one.shrunk), _percent(one.shrunk_low), _percent(one.shrunk_high))
        for one in ordered
    ]
    traces = [
        _row_of_points("measured", names, measured, 2, 1.0),
        _row_of_points("shrunk", names, shrunk, 0, 2.0),
    ]
    return fig.figure(
        traces,
        90 + _ROW * len(ordered),
        {"l": 12, "r": 12, "t": 40, "b": 36},
        xaxis={**fig.EFFECT_AXIS, "ticksuffix": "%"},
        yaxis={"type": "category", "automargin": True, "range": [-0.6, len(ordered) - 0.4]},
    )


def _row_of_points(
    name: str, rows: Sequence[str], values: Sequence[fig.Interval], index: int, width: float
) -> fig.Trace:
    tone = fig.GREY if index else fig.colour(0)
    return fig.scatter(
        x=[value for value, _, _ in values],
        y=list(rows),
        error_x=fig.error_bars(values, tone, width),
        mode="markers",
        name=name,
        marker={"color": tone, "symbol": fig.symbol(index), "size": 7},
        hovertemplate="%{y}: %{x:+.3g}%<extra>" + name + "</extra>",
    )


def _named(one: HistoryEffect, several: bool) -> str:
    shipped = "* " if one.shipped else ""
    return fig.label(f"{shipped}{one.experiment}{f', {one.variant}' if several else ''}")


def _turned(one: HistoryEffect, scale: float) -> fig.Interval:
    """The effect with its interval, so that more is better."""
    if one.direction == "decrease":
        return -scale * one.effect, -scale * one.high, -scale * one.low
    return scale * one.effect, scale * one.low, scale * one.high


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
