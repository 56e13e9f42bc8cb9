"""The figures of an offline replay: curves, calibration, blends, stages.

`replay_parts.py` hands over curves, bins and rows of a `ReplayResult`.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

import plotly.graph_objects as go

from abeval.report.figures import (
    GREY,
    GRID,
    Interval,
    colour,
    error_bars,
    label,
    plain_layout,
    symbol,
)
from abeval.results import format as fmt
from abeval.results.replay import CalibrationBin, Curve, ReplayRow

_SMALLEST, _LARGEST = 3.0, 13.0
"""Diameters of the points of a calibration, in pixels: of few rows and of most."""

Point = tuple[float | str, Interval]
"""Place on the x axis, and the value there with its interval."""


def curve_figure(curves: Sequence[Curve]) -> go.Figure:
    """A metric at every cut-off, a line per model, a ring around each elbow.

    Args:
        curves: Of one metric on one traffic, one per model.
    """
    traces = []
    for i, curve in enumerate(curves):
        points: list[Point] = [(p.k, (p.value, p.low, p.high)) for p in curve.points]
        traces.append(_line(i, curve.model, points))
        traces += [_ring(i, p.k, p.value) for p in curve.points if p.k == curve.elbow]
    figure = go.Figure(traces, _layout("k", curves[0].metric if curves else ""))
    figure.update_xaxes(tickformat="d")
    return figure


def calibration_figure(bins: Sequence[CalibrationBin]) -> go.Figure:
    """Click rate against predicted score; dashed: perfect calibration.

    Args:
        bins: All bins of one traffic and one way of binning.
    """
    series: dict[str, list[Point]] = {b.model: [] for b in bins}
    for b in sorted((b for b in bins if b.rows), key=lambda b: b.mean_score):
        series[b.model].append((b.mean_score, (b.clicks / b.rows, b.low, b.high)))
    figure = lines(series, "mean score", "clicks / rows")
    for trace, model in zip(figure.data, series, strict=True):
        _weigh(trace, [b for b in bins if b.model == model and b.rows])
    most = max((max(b.mean_score, b.clicks / b.rows) for b in bins if b.rows), default=1.0)
    figure.add_shape(
        type="line",
        **{"x0": 0, "y0": 0, "x1": most, "y1": most, "layer": "below"},
        line={"color": GREY, "width": 1, "dash": "dash"},
    )
    return figure


def _weigh(trace: go.Scatter, bins: Sequence[CalibrationBin]) -> None:
    """Points as large as their rows are many, which they name."""
    ordered = sorted(bins, key=lambda b: b.mean_score)
    most = max(b.rows for b in bins)
    trace.marker.size = [_SMALLEST + (_LARGEST - _SMALLEST) * sqrt(b.rows / most) for b in ordered]
    trace.customdata = [
        label(f"{b.model}: {fmt.count(b.clicks)} clicks in {fmt.count(b.rows)} rows")
        for b in ordered
    ]
    trace.hovertemplate = "%{customdata}<br>%{x:.4g}: %{y:.4g}<extra></extra>"


def blend_figure(rows: Sequence[tuple[float, ReplayRow]]) -> go.Figure:
    """A metric of α·model + (1 − α)·base, a line per traffic.

    Args:
        rows: α and the row of that blend; α 0 is the base and 1 the model.
    """
    series: dict[str, list[Point]] = {row.traffic: [] for _, row in rows}
    for share, row in sorted(rows, key=lambda item: item[0]):
        series[row.traffic].append((share, (row.value, row.low, row.high)))
    return lines(series, "share of the model", rows[0][1].metric if rows else "")


def stage_figure(rows: Sequence[tuple[str, str, ReplayRow]]) -> go.Figure:
    """A metric from stage to stage, a line per model.

    Args:
        rows: Stage, model without its stage, and the row.
    """
    series: dict[str, list[Point]] = {model: [] for _, model, _ in rows}
    for stage, model, row in rows:
        series[model].append((label(stage), (row.value, row.low, row.high)))
    figure = lines(series, "stage", rows[0][2].metric if rows else "")
    figure.update_xaxes(type="category")
    return figure


def lines(series: Mapping[str, Sequence[Point]], across: str, up: str) -> go.Figure:
    """A line per series, with the intervals of its points."""
    traces = [_line(i, name, points) for i, (name, points) in enumerate(series.items())]
    return go.Figure(traces, _layout(across, up))


def _line(i: int, name: str, points: Sequence[Point]) -> go.Scatter:
    known = [(x, interval) for x, interval in points if interval[0] is not None]
    return go.Scatter(
        x=[x for x, _ in known],
        y=[interval[0] for _, interval in known],
        error_y=error_bars([interval for _, interval in known], colour(i), 1.4),
        mode="lines+markers",
        name=label(name),
        line={"color": colour(i), "width": 1.8},
        marker={"color": colour(i), "size": 7, "symbol": symbol(i)},
        # User strings go in as data: inside a template, `%{x}` in a name would be replaced.
        customdata=[label(name)] * len(known),
        hovertemplate="%{customdata}, %{x}: %{y:.4g}<extra></extra>",
    )


def _ring(i: int, k: int, value: float | None) -> go.Scatter:
    return go.Scatter(
        x=[k],
        y=[value],
        mode="markers",
        name=f"elbow at {k}",
        showlegend=False,
        marker={
            "size": 17,
            "symbol": "circle-open",
            "color": colour(i),
            "line": {"width": 2},
        },
        hovertemplate="elbow at %{x}<extra></extra>",
    )


def _layout(across: str, up: str) -> go.Layout:
    return plain_layout(300, {"l": 72, "r": 16, "t": 34, "b": 44}).update(
        showlegend=True,
        xaxis={"title": {"text": label(across), "standoff": 6}, "showgrid": False},
        yaxis={
            "title": {"text": label(up), "standoff": 8},
            "tickformat": "~g",
            "gridcolor": GRID,
            "zeroline": False,
            "nticks": 7,
        },
    )
