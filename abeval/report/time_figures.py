"""The figures of the report over time: records in, a plain Plotly figure out."""

from collections.abc import Sequence

import plotly.graph_objects as go

from abeval.report.figures import EFFECT_AXIS, label, plain_layout
from abeval.results.windows import Look, WindowRow

_BLUE, _ORANGE, _GREY = "#0072B2", "#C46A00", "#7a8699"
_BAND = "rgba(0,114,178,0.18)"


def windows_figure(rows: Sequence[WindowRow], looks: Sequence[Look]) -> go.Figure:
    """The effect of each day, of all days up to it, and the always-valid band around that.

    Args:
        rows: Calendar windows of one metric in one variant.
        looks: Its looks.
    """
    daily = [r for r in rows if r.kind == "daily" and r.difference is not None]
    upto = [r for r in rows if r.kind == "cumulative" and r.difference is not None]
    traces = [
        _band([r.end for r in upto], [(r.difference_low, r.difference_high) for r in upto]),
        _line([r.end for r in upto], [r.difference for r in upto], "up to the day"),
        *_always(looks),
        *(_days([r for r in daily if r.partial is partial], partial) for partial in (False, True)),
    ]
    figure = go.Figure([trace for trace in traces if len(trace.x)], _layout(_room(daily, upto)))
    figure.update_xaxes(type="date", tickformat="%a %d %b")
    return figure


def recurring_figure(rows: Sequence[WindowRow]) -> go.Figure:
    """The effect in each hour, or on each weekday."""
    shown = [r for r in rows if r.difference is not None]
    figure = go.Figure([_days(shown, partial=False)], _layout(_room(shown, ())))
    figure.update_layout(showlegend=False)
    figure.update_xaxes(type="category")
    return figure


def histogram_figure(counts: Sequence[int]) -> go.Figure:
    """P-values of A/A replays: flat where the test keeps its level."""
    width = 1 / len(counts)
    bars = go.Bar(
        x=[(i + 0.5) * width for i in range(len(counts))],
        y=list(counts),
        width=[0.92 * width] * len(counts),
        marker={"color": _BLUE},
        hovertemplate="p about %{x:.2f}: %{y}<extra></extra>",
    )
    figure = go.Figure([bars], _layout(None))
    figure.add_hline(sum(counts) / len(counts), line={"color": _GREY, "dash": "dash", "width": 1})
    figure.update_layout(height=190, showlegend=False)
    figure.update_yaxes(title={"text": "replays"}, tickformat="", zeroline=False)
    figure.update_xaxes(title={"text": "p-value"}, range=[0, 1])
    return figure


def _days(rows: Sequence[WindowRow], partial: bool) -> go.Scatter:
    return go.Scatter(
        x=[label(r.start) for r in rows],
        y=[r.difference for r in rows],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [(r.difference_high or 0) - (r.difference or 0) for r in rows],
            "arrayminus": [(r.difference or 0) - (r.difference_low or 0) for r in rows],
            "color": _GREY,
            "thickness": 1.4,
            "width": 0,
        },
        mode="markers",
        name="partial day" if partial else "one day",
        marker={"color": _GREY, "size": 8, "symbol": "circle-open" if partial else "circle"},
        hovertemplate="%{x}: %{y:.4g}<extra></extra>",
    )


def _band(days: Sequence[str], ends: Sequence[tuple[float | None, float | None]]) -> go.Scatter:
    """There along the lower ends and back along the upper ones."""
    return go.Scatter(
        x=[*days, *reversed(days)],
        y=[*(low for low, _ in ends), *(high for _, high in reversed(ends))],
        fill="toself",
        fillcolor=_BAND,
        line={"width": 0},
        mode="lines",
        name="its interval, for one look",
        hoverinfo="skip",
    )


def _line(days: Sequence[str], values: Sequence[float | None], name: str) -> go.Scatter:
    return go.Scatter(
        x=list(days),
        y=list(values),
        mode="lines",
        name=name,
        line={"color": _BLUE, "width": 2.2},
        hovertemplate="%{x}: %{y:.4g}<extra></extra>",
    )


def _always(looks: Sequence[Look]) -> list[go.Scatter]:
    days = [look.day for look in looks]
    ends = [look.always_low for look in looks], [look.always_high for look in looks]
    return [
        go.Scatter(
            x=days,
            y=values,
            mode="lines",
            name="always valid, for every look",
            legendgroup="always",
            showlegend=i == 0,
            line={"color": _ORANGE, "width": 1.8, "dash": "dash"},
            hovertemplate="%{x}: %{y:.4g}<extra></extra>",
        )
        for i, values in enumerate(ends)
    ]


def _room(*groups: Sequence[WindowRow]) -> tuple[float, float] | None:
    """Room for every whole day; the first looks and partial days may run out of the figure."""
    whole = [r for rows in groups for r in rows if not (r.partial and r.kind == "daily")]
    kept = [r for r in whole if r.kind != "cumulative"] or whole
    ends = [e for r in kept for e in (r.difference_low, r.difference_high) if e is not None]
    if not ends:
        return None
    low, high = min(*ends, 0.0), max(*ends, 0.0)
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room


def _layout(room: tuple[float, float] | None) -> go.Layout:
    axis: dict[str, object] = {
        "title": {"text": "difference", "standoff": 8},
        **EFFECT_AXIS,
    }
    if room is not None:
        axis["range"] = list(room)
    return plain_layout(300, {"l": 72, "r": 16, "t": 34, "b": 34}).update(
        xaxis={"showgrid": False},
        yaxis=axis,
    )
