"""Draw many effects together: a forest of lifts, a heat map of windows, effects against days."""

from collections.abc import Mapping, Sequence
from math import exp, expm1

from abeval.report import figures as fig
from abeval.report.effects import DECIDED, either_way
from abeval.report.figures import BLUE, GREY, GRID, ORANGE, Figure, figure, line_at, scatter
from abeval.report.tables import excludes_zero, interval, lift_of
from abeval.results import Row, codes
from abeval.results import format as fmt
from abeval.results.windows import Look, Novelty, WindowRow

_ROW, _BESIDE = 26, 9
"""Pixels of a metric's row, and of one more variant in it."""

_DIVERGING = ((0.0, "#B34700"), (0.5, "#F2F2F2"), (1.0, "#0072B2"))


def forest_figure(rows: Sequence[Row]) -> fig.Figure:
    """Draw rows of one role with a lift: a line for each metric, variants beside each other."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    variants = list(dict.fromkeys(row.variant for row in rows))
    traces = []
    for i, variant in enumerate(variants):
        own = [row for row in rows if row.variant == variant]
        shift = (i - (len(variants) - 1) / 2) * 0.7 / len(variants)
        mark = fig.symbol(i)
        trace = fig.points(
            variant,
            [metrics.index(row.metric) + shift for row in own],
            [interval(row, "lift", 100) for row in own],
            [_said(row) for row in own],
            fig.colour(i),
            [mark if row.status in DECIDED else f"{mark}-open" for row in own],
            is_lying=True,
        )
        traces.append(trace)
    height = 70 + len(metrics) * (_ROW + _BESIDE * (len(variants) - 1))
    longest = max(len(name) for name in metrics)
    ends = [end for row in rows for end in interval(row, "lift", 100) if end is not None]
    return fig.figure(
        traces,
        height,
        {"l": min(60 + 6 * longest, 240), "b": 30},
        showlegend=len(variants) > 1,
        xaxis={
            **fig.EFFECT_AXIS,
            "ticksuffix": "%",
            "range": fig.axis_range(
                sorted(ends)[len(ends) // 20 : len(ends) - len(ends) // 20], 0.05
            ),
        },
        yaxis={
            "tickvals": list(range(len(metrics))),
            "ticktext": [
                fig.label(name if len(name) <= 30 else f"{name[:29]}…") for name in metrics
            ],
            "range": [len(metrics) - 0.4, -0.6],
            "showgrid": False,
            "zeroline": False,
        },
    )


def _said(row: Row) -> str:
    status = codes.status(row.status, row.reason)
    return f"{row.metric}, {row.variant}: {fmt.typographic(lift_of(row))}, {status}"


def windows_heat_map(rows: Sequence[WindowRow], rising_is_good: bool = True) -> fig.Figure:
    """Draw lifts by first day and length of a window; blue is good, a dot excludes zero."""
    starts = sorted({row.start for row in rows})
    lengths = sorted({row.days for row in rows})
    cells = {(row.days, row.start): row for row in rows}
    grid = [[cells.get((days, start)) for start in starts] for days in lengths]
    values = [[_lift(cell) for cell in line] for line in grid]
    most = max((abs(v) for line in values for v in line if v is not None), default=1.0) or 1.0
    clear = [cell for line in grid for cell in line if cell is not None and excludes_zero(cell)]
    turned = tuple((1 - at, tone) for at, tone in reversed(_DIVERGING))
    heat = {
        "type": "heatmap",
        "x": [fig.label(start) for start in starts],
        "y": [_days(days) for days in lengths],
        "z": values,
        "zmin": -most,
        "zmax": most,
        "colorscale": _DIVERGING if rising_is_good else turned,
        "xgap": 1,
        "ygap": 1,
        "text": [[_cell_said(cell) for cell in line] for line in grid],
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        "colorbar": {"ticksuffix": "%", "thickness": 10, "outlinewidth": 0, "tickformat": "+~g"},
    }
    dots = fig.scatter(
        x=[fig.label(cell.start) for cell in clear],
        y=[_days(cell.days) for cell in clear],
        mode="markers",
        # White to be seen on the darkest cells, with a rim to be seen on the lightest.
        marker={"size": 5, "color": "#ffffff", "line": {"color": "#1c2430", "width": 1.5}},
        hoverinfo="skip",
    )
    return fig.figure(
        [heat, dots],
        90 + 30 * len(lengths),
        {"t": 12, "b": 34},
        showlegend=False,
        xaxis={"type": "category", "showgrid": False, "nticks": 8},
        yaxis={"type": "category", "showgrid": False},
    )


def _days(days: int) -> str:
    return f"{days} day" if days == 1 else f"{days} days"


def _lift(row: WindowRow | None) -> float | None:
    return None if row is None or row.lift is None else 100 * row.lift


def _cell_said(row: WindowRow | None) -> str:
    if row is None:
        return ""
    until = "" if row.end == row.start else f" to {row.end}"
    return fig.label(f"{row.start}{until}: {fmt.typographic(lift_of(row))}")


def outlook_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]], here: float | None
) -> fig.Figure:
    """Draw the detectable effect against days, a line for each metric; `here` marks today."""
    series = {
        name: [fig.Point(x, 100 * y, (f"{x:g} days", either_way(y))) for x, y in points]
        for name, points in curves.items()
    }
    note = {"x": here, "y": 1, "yref": "paper", "text": "you are here", "showarrow": False}
    return fig.lines(
        series,
        "days",
        "smallest lift seen",
        {"rangemode": "tozero"},
        {"tickformat": "~g", "ticksuffix": "%", "rangemode": "tozero"},
        shapes=[] if here is None else [fig.line_at("x", here, width=1.5)],
        annotations=[] if here is None else [{**note, "xanchor": "left", "yanchor": "top"}],
    )


_SMALLEST_P = 1e-6
"""P-values below it are drawn at it."""


def p_values_figure(looks: Sequence[Look], alpha: float) -> Figure:
    """Draw p-values by day on a logarithmic scale: of one look, and valid at every look."""
    days = [look.day for look in looks]
    fixed, always = [k.fixed_p_value for k in looks], [k.always_p_value for k in looks]
    lines = (
        ("one look, not valid for stopping", fixed, GREY, 1.2, "dot"),
        ("always valid", always, BLUE, 2.4, "solid"),
    )
    return figure(
        [
            scatter(
                x=days,
                y=[max(p, _SMALLEST_P) for p in values],
                mode="lines+markers",
                name=name,
                line={"color": tone, "width": width, "dash": dash},
                marker={"size": 5},
                said=[f"{d}: p {fmt.p_value(p)}" for d, p in zip(days, values, strict=True)],
            )
            for name, values, tone, width, dash in lines
        ],
        260,
        {"b": 34},
        shapes=[line_at("y", alpha, ORANGE, 1.5)],
        xaxis={"type": "date", "tickformat": "%a %d %b", "showgrid": False},
        yaxis={"type": "log", **fig.axis("p", gridcolor=GRID, dtick=1, exponentformat="power")},
    )


def histogram_figure(counts: Sequence[int]) -> Figure:
    """Draw p-values of A/A replays in bins of equal width: flat if the test keeps its level."""
    width = 1 / len(counts)
    bars = {
        "type": "bar",
        "x": [(i + 0.5) * width for i in range(len(counts))],
        "y": list(counts),
        "width": [0.92 * width] * len(counts),
        "marker": {"color": BLUE},
        "hovertemplate": "p about %{x:.2f}: %{y}<extra></extra>",
    }
    return figure(
        [bars],
        190,
        {"b": 34},
        showlegend=False,
        shapes=[line_at("y", sum(counts) / len(counts))],
        xaxis={"title": {"text": "p-value"}, "range": [0, 1], "showgrid": False},
        yaxis=fig.value_axis("replays"),
    )


def entry_figure(rows: Sequence[WindowRow], fit: Novelty | None) -> fig.Figure:
    """Draw lifts by days since entry, with the fit of their decay where it has a word."""
    shown = [row for row in rows if row.lift is not None]
    numbers = [interval(row, "lift", 100) for row in shown]
    days = [int(row.start) for row in shown]
    said = [f"day {row.start}: {fmt.typographic(lift_of(row))}" for row in shown]
    points = fig.points("one day since entry", days, numbers, said)
    drawn = [points, *_decay(shown, fit)]
    ends = sorted(e for number in numbers for e in number if e is not None)
    trimmed = ends[len(ends) // 10 : len(ends) - len(ends) // 10]
    return fig.figure(
        drawn,
        260,
        showlegend=len(drawn) > 1,
        xaxis=fig.axis("days since entry", 6, showgrid=False, zeroline=False),
        yaxis={**fig.EFFECT_AXIS, "ticksuffix": "%", "range": fig.axis_range(trimmed, 0.08)},
    )


def _decay(rows: Sequence[WindowRow], fit: Novelty | None) -> list[fig.Trace]:
    """Draw the fitted a + b exp(-t / tau), of logarithms of relative effects."""
    if fit is None or fit.word is None or fit.scale != "relative":
        return []
    if fit.start is None or fit.long_run is None or not fit.tau:
        return []
    days = [int(row.start) for row in rows]
    logs = [fit.long_run + (fit.start - fit.long_run) * exp(-day / fit.tau) for day in days]
    return [
        fig.scatter(
            x=days,
            y=[100 * expm1(one) for one in logs],
            mode="lines",
            name=f"{fit.word}, fitted",
            line={"color": fig.ORANGE, "width": 2},
            hoverinfo="skip",
        )
    ]
