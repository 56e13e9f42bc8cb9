"""The figures of an offline replay: curves, calibration, blends, stages.

`replay_parts.py` hands over curves, bins and rows of a `ReplayResult`.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

from abeval.report import figures as fig
from abeval.results import format as fmt
from abeval.results.replay import CalibrationBin, Curve, ReplayRow

_SMALLEST, _LARGEST = 3.0, 13.0
"""Diameters of the points of a calibration, in pixels: of few rows and of most."""

Point = tuple[float | str, fig.Interval]
"""Place on the x axis, and the value there with its interval."""


def curve_figure(curves: Sequence[Curve]) -> fig.Figure:
    """A metric at every cut-off, a line per model, a ring around each elbow.

    Args:
        curves: Of one metric on one traffic, one per model.
    """
    traces = []
    for i, curve in enumerate(curves):
        points: list[Point] = [(p.k, (p.value, p.low, p.high)) for p in curve.points]
        traces.append(_line(i, curve.model, points))
        traces += [_ring(i, p.k, p.value) for p in curve.points if p.k == curve.elbow]
    return _drawn(traces, "k", curves[0].metric if curves else "", {"tickformat": "d"})


def calibration_figure(bins: Sequence[CalibrationBin]) -> fig.Figure:
    """Click rate against predicted score; dashed: perfect calibration.

    Args:
        bins: All bins of one traffic and one way of binning.
    """
    series: dict[str, list[Point]] = {b.model: [] for b in bins}
    for b in sorted((b for b in bins if b.rows), key=lambda b: b.mean_score):
        series[b.model].append((b.mean_score, (b.clicks / b.rows, b.low, b.high)))
    drawn = lines(series, "mean score", "clicks / rows")
    for trace, model in zip(drawn["data"], series, strict=True):
        trace |= _weight(trace, [b for b in bins if b.model == model and b.rows])
    most = max((max(b.mean_score, b.clicks / b.rows) for b in bins if b.rows), default=1.0)
    drawn["layout"]["shapes"] = [fig.dashed((0, most), (0, most))]
    return drawn


def _weight(trace: fig.Trace, bins: Sequence[CalibrationBin]) -> fig.Trace:
    """Points as large as their rows are many, which they name."""
    ordered = sorted(bins, key=lambda b: b.mean_score)
    most = max(b.rows for b in bins)
    size = [_SMALLEST + (_LARGEST - _SMALLEST) * sqrt(b.rows / most) for b in ordered]
    said = (f"{b.model}: {fmt.count(b.clicks)} clicks in {fmt.count(b.rows)} rows" for b in ordered)
    return {
        "marker": {**trace["marker"], "size": size},
        "customdata": list(map(fig.label, said)),
        "hovertemplate": "%{customdata}<br>%{x:.4g}: %{y:.4g}<extra></extra>",
    }


def blend_figure(rows: Sequence[tuple[float, ReplayRow]]) -> fig.Figure:
    """A metric of α·model + (1 − α)·base, a line per traffic.

    Args:
        rows: α and the row of that blend; α 0 is the base and 1 the model.
    """
    series: dict[str, list[Point]] = {row.traffic: [] for _, row in rows}
    for share, row in sorted(rows, key=lambda item: item[0]):
        series[row.traffic].append((share, (row.value, row.low, row.high)))
    return lines(series, "share of the model", rows[0][1].metric if rows else "")


def stage_figure(rows: Sequence[tuple[str, str, ReplayRow]]) -> fig.Figure:
    """A metric from stage to stage, a line per model.

    Args:
        rows: Stage, model without its stage, and the row.
    """
    series: dict[str, list[Point]] = {model: [] for _, model, _ in rows}
    for stage, model, row in rows:
        series[model].append((fig.label(stage), (row.value, row.low, row.high)))
    return lines(series, "stage", rows[0][2].metric if rows else "", {"type": "category"})


def lines(
    series: Mapping[str, Sequence[Point]],
    across: str,
    up: str,
    axis: Mapping[str, object] | None = None,
) -> fig.Figure:
    """A line per series, with the intervals of its points."""
    traces = [_line(i, name, points) for i, (name, points) in enumerate(series.items())]
    return _drawn(traces, across, up, axis or {})


def _line(i: int, name: str, points: Sequence[Point]) -> fig.Trace:
    known = [(x, interval) for x, interval in points if interval[0] is not None]
    return fig.scatter(
        x=[x for x, _ in known],
        y=[interval[0] for _, interval in known],
        error_y=fig.error_bars([interval for _, interval in known], fig.colour(i), 1.4),
        mode="lines+markers",
        name=fig.label(name),
        line={"color": fig.colour(i), "width": 1.8},
        marker={"color": fig.colour(i), "size": 7, "symbol": fig.symbol(i)},
        customdata=[fig.label(name)] * len(known),
        hovertemplate="%{customdata}, %{x}: %{y:.4g}<extra></extra>",
    )


def _ring(i: int, k: int, value: float | None) -> fig.Trace:
    return fig.scatter(
        x=[k],
        y=[value],
        mode="markers",
        name=f"elbow at {k}",
        showlegend=False,
        marker={
            "size": 17,
            "symbol": "circle-open",
            "color": fig.colour(i),
            "line": {"width": 2},
        },
        hovertemplate="elbow at %{x}<extra></extra>",
    )


def _drawn(
    traces: Sequence[fig.Trace], across: str, up: str, axis: Mapping[str, object]
) -> fig.Figure:
    return fig.figure(
        traces,
        xaxis={"title": {"text": fig.label(across), "standoff": 6}, "showgrid": False, **axis},
        yaxis={
            "title": {"text": fig.label(up), "standoff": 8},
            "tickformat": "~g",
            "gridcolor": fig.GRID,
            "zeroline": False,
            "nticks": 7,
        },
    )
