"""The figure of a metric's effect by day, for the page of an analysis.

`daily_parts.py` hands over a metric's rows by day, and puts what comes back into the page as JSON.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple

from abeval.report import figures as fig
from abeval.results import MetricInfo, Row, SliceRow
from abeval.results import format as fmt

_WEEKEND = "rgba(128,140,160,0.13)"
_HALF_DAY = timedelta(hours=12)


@dataclass(frozen=True)
class _Scale:
    """The unit of a figure: lifts, or differences if no day has a lift."""

    relative: bool
    factor: float
    suffix: str
    title: str


class _Style(NamedTuple):
    """Colour and shape of a variant, and the shift that keeps it beside the others."""

    colour: str
    symbol: str
    shift: timedelta


def daily_effect(
    metric: MetricInfo, rows: Sequence[SliceRow], overall: Sequence[Row] = ()
) -> fig.Figure:
    """The effect of one metric day by day, with intervals, each variant in its own shape.

    Args:
        metric: The metric.
        rows: Its daily rows, of all variants.
        overall: The scorecard rows of the metric; if there is one, its effect is drawn as a line.

    Returns:
        A transparent figure. Days only partly in the log are hollow, weekends shaded.
    """
    scale = _scale_of(metric, rows)
    variants = tuple(dict.fromkeys(row.variant for row in rows))
    traces = [
        trace
        for i, name in enumerate(variants)
        for trace in _traces(scale, metric, rows, name, _style(i, len(variants)))
    ]
    several = len(variants) > 1
    days = sorted({date.fromisoformat(row.cell) for row in rows})
    effect = _numbers(scale, overall[0])[0] if len(overall) == 1 else None
    return fig.figure(
        traces,
        270,
        {"l": 64, "t": 30 if several else 12, "b": 28},
        showlegend=several,
        shapes=[*_weekends(days), *([] if effect is None else [fig.line_at("y", effect)])],
        xaxis=_day_axis(days),
        yaxis=_effect_axis(scale, rows),
    )


def _style(index: int, count: int) -> _Style:
    hours = 0.0 if count == 1 else 10.0 * (index / (count - 1) - 0.5)
    return _Style(fig.colour(index), fig.symbol(index), timedelta(hours=hours))


def _scale_of(metric: MetricInfo, rows: Sequence[SliceRow]) -> _Scale:
    """Lifts if any day has one, else differences in the metric's unit."""
    if any(row.lift is not None for row in rows):
        return _Scale(True, 100.0, "%", "lift")
    if metric.unit in fmt.RATE_UNITS:
        return _Scale(False, 100.0, " pp", "difference")
    return _Scale(False, 1.0, f" {metric.unit}" if metric.unit else "", "difference")


def _traces(
    scale: _Scale, metric: MetricInfo, rows: Sequence[SliceRow], variant: str, style: _Style
) -> Iterator[fig.Trace]:
    """Full days, then partial ones: separate traces, so that the legend shows the filled shape."""
    own = [row for row in rows if row.variant == variant and _numbers(scale, row)[0] is not None]
    parts = [[row for row in own if row.partial is partial] for partial in (False, True)]
    for i, part in enumerate(part for part in parts if part):
        yield _trace(scale, metric, part, style, named=i == 0)


def _trace(
    scale: _Scale, metric: MetricInfo, rows: Sequence[SliceRow], style: _Style, named: bool
) -> fig.Trace:
    values = [_numbers(scale, row) for row in rows]
    variant = fig.label(rows[0].variant)
    return fig.scatter(
        x=[(datetime.fromisoformat(row.cell) + style.shift).isoformat() for row in rows],
        y=[value for value, _, _ in values],
        error_y=fig.error_bars(values, style.colour, 1.6),
        mode="markers",
        name=variant,
        legendgroup=variant,
        showlegend=named,
        marker={
            "color": style.colour,
            "size": 9,
            "symbol": f"{style.symbol}-open" if rows[0].partial else style.symbol,
            "line": {"width": 2, "color": style.colour},
        },
        said=[_hover(metric, row) for row in rows],
    )


def _day_axis(days: Sequence[date]) -> dict[str, object]:
    axis: dict[str, object] = {"type": "date", "showgrid": False, "tickformat": "%a %d %b"}
    if days:
        axis["range"] = [_edge(days[0], -1), _edge(days[-1], 1)]
    if 0 < len(days) <= 10:
        axis["tickvals"] = [day.isoformat() for day in days]
    return axis


def _effect_axis(scale: _Scale, rows: Sequence[SliceRow]) -> dict[str, object]:
    """The y axis: room for the intervals of full days, and for the values of partial ones."""
    axis: dict[str, object] = {
        "title": {"text": scale.title, "standoff": 8},
        "ticksuffix": fig.label(scale.suffix),
        **fig.EFFECT_AXIS,
    }
    full = [row for row in rows if not row.partial] or list(rows)
    ends = [end for row in full for end in _numbers(scale, row) if end is not None]
    ends += [value for row in rows if (value := _numbers(scale, row)[0]) is not None]
    if bounds := fig.axis_range(ends, 0.1):
        axis["range"] = bounds
    return axis


def _numbers(scale: _Scale, row: SliceRow | Row) -> fig.Interval:
    """Value and interval of a row, in the figure's scale."""
    if scale.relative:
        numbers = (row.lift, row.lift_low, row.lift_high)
    else:
        numbers = (row.difference, row.difference_low, row.difference_high)
    value, low, high = (None if n is None else n * scale.factor for n in numbers)
    return value, low, high


def _hover(metric: MetricInfo, row: SliceRow) -> str:
    shown = fmt.lift(row.lift, row.lift_low, row.lift_high) or fmt.difference(
        row.difference, row.difference_low, row.difference_high, metric.unit
    )
    partial = ", partial day" if row.partial else ""
    effect = fmt.typographic(shown.text) if shown else fmt.MISSING
    return f"{row.cell}{partial}, {row.variant}: {effect}"


def _weekends(days: Sequence[date]) -> Iterator[dict[str, object]]:
    for day in days:
        if day.weekday() >= 5:
            yield {
                "type": "rect",
                "yref": "paper",
                "x0": _edge(day, -1),
                "x1": _edge(day, 1),
                "y0": 0,
                "y1": 1,
                "fillcolor": _WEEKEND,
                "line": {"width": 0},
                "layer": "below",
            }


def _edge(day: date, side: int) -> str:
    """Noon before a day (side -1) or after it (1): a day is drawn at its midnight."""
    return (datetime.combine(day, datetime.min.time()) + side * _HALF_DAY).isoformat()


def count_figure(series: Mapping[str, Sequence[tuple[str, int]]], title: str) -> fig.Figure:
    """Counts by day, a line for each name.

    Args:
        series: Name → days and counts.
        title: What is counted.
    """
    traces = [
        fig.scatter(
            x=[day for day, _ in points],
            y=[count for _, count in points],
            mode="lines+markers",
            name=fig.label(name),
            line={"color": fig.colour(i), "width": 1.6},
            marker={"symbol": fig.symbol(i), "size": 6},
            said=[f"{day}, {name}: {fmt.count(count)}" for day, count in points],
        )
        for i, (name, points) in enumerate(series.items())
    ]
    days = sorted({date.fromisoformat(day) for points in series.values() for day, _ in points})
    return fig.figure(
        traces,
        260,
        {"l": 64, "t": 30, "b": 28},
        shapes=[*_weekends(days)],
        xaxis=_day_axis(days),
        yaxis={
            "title": {"text": title, "standoff": 8},
            "rangemode": "tozero",
            "gridcolor": fig.GRID,
            "zeroline": False,
            "nticks": 6,
        },
    )
