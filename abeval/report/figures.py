"""The figures of the report, one function each: records in, a plain Plotly figure out."""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import plotly.graph_objects as go

from abeval.results import MetricInfo, Row, SliceRow
from abeval.results import format as fmt

# Okabe and Ito's colours that keep 3:1 on white and on the dark page; shape says it again.
_COLOURS = ("#0072B2", "#C46A00", "#009E73", "#B5639A", "#6B7F99", "#8A7A00")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_GREY = "#7a8699"
_WEEKEND = "rgba(128,140,160,0.13)"
_HALF_DAY = timedelta(hours=12)

EFFECT_AXIS: Mapping[str, object] = {
    "tickformat": "+~g",
    "zeroline": True,
    "zerolinewidth": 1.5,
    "zerolinecolor": _GREY,
    "gridcolor": "rgba(128,140,160,0.25)",
    "nticks": 7,
}
"""Of an axis of effects: signs are said, and zero stands out."""


@dataclass(frozen=True)
class Scale:
    """What a daily figure is drawn in: lifts, or differences where there is no lift."""

    relative: bool
    factor: float
    suffix: str
    title: str


@dataclass(frozen=True)
class _Look:
    """How a variant is told apart from the others: the `index`-th of `of`."""

    index: int
    of: int

    @property
    def colour(self) -> str:
        return _COLOURS[self.index % len(_COLOURS)]

    @property
    def symbol(self) -> str:
        return _SYMBOLS[self.index % len(_SYMBOLS)]


def daily_effect(
    metric: MetricInfo, rows: Sequence[SliceRow], overall: Sequence[Row] = ()
) -> go.Figure:
    """The effect of one metric day by day, with intervals, each variant in its shape.

    Args:
        metric: Whose days these are.
        rows: Its daily rows, of all variants.
        overall: Its scorecard rows; with a single variant, its effect is drawn across.

    Returns:
        A figure on a transparent ground. Days only partly in the log are hollow, weekends shaded.
    """
    scale = daily_scale(metric, rows)
    variants = tuple(dict.fromkeys(row.variant for row in rows))
    traces = [
        trace
        for i, name in enumerate(variants)
        for trace in _traces(scale, metric, rows, name, _Look(i, len(variants)))
    ]
    figure = go.Figure(traces, _layout(scale, rows, len(variants) > 1))
    if len(overall) == 1 and (effect := _numbers(scale, overall[0])[0]) is not None:
        figure.add_hline(effect, line={"color": _GREY, "width": 1, "dash": "dash"}, layer="below")
    return figure


def daily_scale(metric: MetricInfo, rows: Sequence[SliceRow]) -> Scale:
    """Lifts if any day has one, else differences in the metric's unit."""
    if any(row.lift is not None for row in rows):
        return Scale(True, 100.0, "%", "lift")
    if metric.unit in fmt.RATE_UNITS:
        return Scale(False, 100.0, " pp", "difference")
    return Scale(False, 1.0, f" {metric.unit}" if metric.unit else "", "difference")


def label(text: str) -> str:
    """A string from the user as Plotly shows it literally: its text is a kind of HTML.

    Example:
        >>> label("a<b")
        'a&lt;b'
    """
    return html.escape(text, quote=False)


def _traces(
    scale: Scale, metric: MetricInfo, rows: Sequence[SliceRow], variant: str, look: _Look
) -> Iterator[go.Scatter]:
    """Full days, then partial ones: apart, so that the legend shows the filled shape."""
    own = [row for row in rows if row.variant == variant and _numbers(scale, row)[0] is not None]
    parts = [[row for row in own if row.partial is partial] for partial in (False, True)]
    drawn = [part for part in parts if part]
    for i, part in enumerate(drawn):
        yield _trace(scale, metric, part, look, named=i == 0)


def _trace(
    scale: Scale, metric: MetricInfo, rows: Sequence[SliceRow], look: _Look, named: bool
) -> go.Scatter:
    values = [_numbers(scale, row) for row in rows]
    variant = label(rows[0].variant)
    return go.Scatter(
        x=[_beside(row.cell, look) for row in rows],
        y=[value for value, _, _ in values],
        error_y=_bars(values, look.colour),
        mode="markers",
        name=variant,
        legendgroup=variant,
        showlegend=named,
        marker={
            "color": look.colour,
            "size": 9,
            "symbol": f"{look.symbol}-open" if rows[0].partial else look.symbol,
            "line": {"width": 2, "color": look.colour},
        },
        # User strings go in as data: inside a template, `%{x}` in a name would be replaced.
        customdata=[label(_hover(metric, row)) for row in rows],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _bars(values: Sequence[tuple[float | None, ...]], colour: str) -> dict[str, object]:
    """Error bars; an end without a bound has none, and the table beside the figure says so."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [_reach(value, high) for value, _, high in values],
        "arrayminus": [_reach(low, value) for value, low, _ in values],
        "color": colour,
        "thickness": 1.6,
        "width": 0,
    }


def _reach(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else max(high - low, 0.0)


def plain_layout(height: int, margin: Mapping[str, int]) -> go.Layout:
    """What every figure of a report has: no ground of its own, the page's font, a row of names.

    Args:
        height: In pixels.
        margin: In pixels, by the first letter of each side.
    """
    return go.Layout(
        template=go.layout.Template(),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        height=height,
        margin=dict(margin),
        font={"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 12.5},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        # Dragging would catch the finger that scrolls the page.
        dragmode=False,
        hovermode="closest",
    )


def _layout(scale: Scale, rows: Sequence[SliceRow], several: bool) -> go.Layout:
    days = sorted({date.fromisoformat(row.cell) for row in rows})
    margin = {"l": 64, "r": 16, "t": 30 if several else 12, "b": 28}
    return plain_layout(270, margin).update(
        showlegend=several,
        shapes=[*_weekends(days)],
        xaxis=_day_axis(days),
        yaxis=_effect_axis(scale, rows),
    )


def _day_axis(days: Sequence[date]) -> dict[str, object]:
    axis: dict[str, object] = {"type": "date", "showgrid": False, "tickformat": "%a %d %b"}
    if days:
        axis["range"] = [_noon(days[0], -1), _noon(days[-1], 1)]
    if 0 < len(days) <= 10:
        axis["tickvals"] = [day.isoformat() for day in days]
    return axis


def _effect_axis(scale: Scale, rows: Sequence[SliceRow]) -> dict[str, object]:
    axis: dict[str, object] = {
        "title": {"text": scale.title, "standoff": 8},
        "ticksuffix": label(scale.suffix),
        **EFFECT_AXIS,
    }
    if bounds := _bounds(scale, rows):
        axis["range"] = list(bounds)
    return axis


def _bounds(scale: Scale, rows: Sequence[SliceRow]) -> tuple[float, float] | None:
    """Room for every full day; the wide interval of a partial one must not flatten the others."""
    full = [row for row in rows if not row.partial] or list(rows)
    ends = [end for row in full for end in _numbers(scale, row) if end is not None]
    ends += [value for row in rows if (value := _numbers(scale, row)[0]) is not None]
    if not ends:
        return None
    low, high = min(*ends, 0.0), max(*ends, 0.0)
    room = 0.1 * (high - low) or 1.0
    return low - room, high + room


def _numbers(scale: Scale, row: SliceRow | Row) -> tuple[float | None, float | None, float | None]:
    """Value and ends of a row, in the figure's scale."""
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


def _beside(cell: str, look: _Look) -> str:
    """The day, moved a little so that variants stand beside each other."""
    hours = 0.0 if look.of == 1 else 10.0 * (look.index / (look.of - 1) - 0.5)
    return (datetime.fromisoformat(cell) + timedelta(hours=hours)).isoformat()


def _weekends(days: Sequence[date]) -> Iterator[dict[str, object]]:
    for day in days:
        if day.weekday() >= 5:
            yield {
                "type": "rect",
                "yref": "paper",
                "x0": _noon(day, -1),
                "x1": _noon(day, 1),
                "y0": 0,
                "y1": 1,
                "fillcolor": _WEEKEND,
                "line": {"width": 0},
                "layer": "below",
            }


def _noon(day: date, side: int) -> str:
    return (datetime.combine(day, datetime.min.time()) + side * _HALF_DAY).isoformat()
