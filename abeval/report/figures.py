"""Lay out figures as plain values that Plotly reads: checked ones take ten times as long."""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup

from abeval.report import assets
from abeval.report.tables import Interval as Interval
from abeval.report.tables import TextTable
from abeval.results import MetricInfo
from abeval.results.study import Study

# Each has a contrast of 3:1 on the white and on the dark page; readers without red, green or blue
# cones tell any two apart (`tests/report/test_colours.py`). Each has its own symbol too.
BLUE, ORANGE = "#0072B2", "#C46A00"
COLOURS = (BLUE, ORANGE, "#00A860", "#B4789C", "#546C54", "#8478F0")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
GREY = "#7a8699"
GRID = "rgba(128,140,160,0.25)"

TOOLTIP: Mapping[str, object] = {
    "bgcolor": "#1c2430",
    "bordercolor": "#9aa8bd",
    "font": {"color": "#ffffff"},
}
"""Colours of a label that shows on hovering: the same on every mark and in both modes."""

EFFECT_AXIS: Mapping[str, Any] = {
    "tickformat": "+~g",
    "zeroline": True,
    "zerolinewidth": 1.5,
    "zerolinecolor": GREY,
    "gridcolor": GRID,
    "nticks": 7,
}
"""Style of an axis of effects: signed numbers, and a strong line at zero."""


Figure = dict[str, Any]
"""Its traces as `data`, and its `layout`."""

Trace = dict[str, Any]
"""What a figure draws: a trace, or a shape of its layout."""


@dataclass(frozen=True)
class FigureView:
    """A figure on a page, and the same numbers as a table.

    `takeaway` says in one sentence what it shows; it may be empty. `key` is how `figures` of a
    result calls it: `("cumulative", "ctr")`. `slug` is its address, where that is not its key.
    """

    title: str
    takeaway: str
    figure: Figure
    table: TextTable
    key: tuple[str, ...]
    note: str = ""
    slug: str = ""

    @property
    def anchor(self) -> str:
        """Return its address on the page."""
        return self.slug or "-".join(self.key)

    @property
    def island(self) -> Markup:
        """Return its JSON."""
        return assets.island(json.dumps(self.figure, allow_nan=False, separators=(",", ":")))

    @property
    def key_text(self) -> str:
        """Return its key as JSON, for the scripts."""
        return json.dumps(self.key)


def colour(index: int) -> str:
    """Return the colour of the `index`-th line or variant."""
    return COLOURS[index % len(COLOURS)]


def symbol(index: int) -> str:
    """Return the symbol of the `index`-th line or variant."""
    return SYMBOLS[index % len(SYMBOLS)]


def label(text: str) -> str:
    """Escape a string from the user, whom Plotly reads as a kind of HTML.

    Example:
        >>> label("a<b")
        'a&lt;b'
    """
    return html.escape(text, quote=False)


def error_bars(values: Sequence[Interval], colour: str, thickness: float) -> dict[str, object]:
    """Draw intervals; an end without a bound has no bar, and the table says so."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [_length(value, high) for value, _, high in values],
        "arrayminus": [_length(low, value) for value, low, _ in values],
        "color": colour,
        "thickness": thickness,
        "width": 0,
    }


def _length(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else max(high - low, 0.0)


def axis_range(ends: Sequence[float], room: float) -> list[float] | None:
    """Span an axis from the lowest to the highest end and zero, with `room` as a share of it."""
    if not ends:
        return None
    low, high = min(*ends, 0.0), max(*ends, 0.0)
    space = room * (high - low) or 1.0
    return [low - space, high + space]


def figure(
    traces: Sequence[Trace],
    height: int = 300,
    margin: dict[str, int] | None = None,
    **layout: object,
) -> Figure:
    """Lay traces out: transparent, in the page's font, with a horizontal legend; in pixels."""
    plain = {
        "template": {},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": height,
        "margin": {"l": 72, "r": 16, "t": 34, "b": 44} | (margin or {}),
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 12.5},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        # Dragging would catch the finger that scrolls the page.
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": TOOLTIP,
    }
    return {"data": traces, "layout": plain | layout}


def scatter(said: Sequence[str] | None = None, **entries: object) -> Trace:
    """Draw points or a line; `said` is the text of each point's label."""
    if said is None:
        return {"type": "scatter", **entries}
    # Names of the user go in as data: inside a template, `%{x}` in a name would be replaced.
    hover = {"customdata": list(map(label, said)), "hovertemplate": "%{customdata}<extra></extra>"}
    return {"type": "scatter", **hover, **entries}


def points(
    name: str,
    places: Sequence[object],
    values: Sequence[Interval],
    said: Sequence[str],
    tone: str = GREY,
    symbol: str | Sequence[str] = "circle",
    size: int = 8,
    bar: float = 1.4,
    is_lying: bool = False,
    **more: object,
) -> Trace:
    """Draw values with their intervals, up or, lying, across."""
    along, across = ("y", "x") if is_lying else ("x", "y")
    ends = {f"error_{across}": error_bars(values, tone, bar)}
    marker = {"color": tone, "size": size, "symbol": symbol}
    line = {along: list(places), across: [value for value, _, _ in values], **ends}
    return scatter(said, **line, mode="markers", name=label(name), marker=marker, **more)


class Spot(NamedTuple):
    """A value in a row of a forest, and the text of its label."""

    row: int
    value: Interval
    said: str


def forest(names: Sequence[str], series: Mapping[str, Sequence[Spot]], **xaxis: object) -> Figure:
    """Draw values with their intervals across, a row for each name from the top down.

    The series of a row are below each other.
    """
    count = len(series)
    traces = [
        points(
            name,
            [spot.row + (i - (count - 1) / 2) * 0.7 / count for spot in spots],
            [spot.value for spot in spots],
            [spot.said for spot in spots],
            colour(i),
            symbol(i),
            7,
            is_lying=True,
        )
        for i, (name, spots) in enumerate(series.items())
    ]
    rows = {"tickvals": list(range(len(names))), "ticktext": [label(name) for name in names]}
    ends = [len(names) - 0.4, -0.6]
    return figure(
        traces,
        96 + len(names) * (12 + 3 * count),
        {"l": 12, "b": 36},
        showlegend=count > 1,
        xaxis=xaxis,
        yaxis={**rows, "range": ends, "automargin": True, "showgrid": False, "zeroline": False},
    )


class Point(NamedTuple):
    """A point of a line, with the cells of its tooltip and of its row in a table."""

    x: float | str
    y: float
    cells: tuple[str, ...]
    interval: Interval | None = None


Series = Mapping[str, Sequence[Point]]
"""Name of a line → its points."""


def points_table(heads: tuple[str, ...], series: Series) -> TextTable:
    """Tabulate the points of lines; `heads` are of their names and cells."""
    rows = ((name, *point.cells) for name, points in series.items() for point in points)
    return TextTable("", "", heads, tuple(rows))


def lines(
    series: Series,
    across: str,
    up: str,
    xaxis: Mapping[str, object] | None = None,
    yaxis: Mapping[str, object] | None = None,
    heads: Sequence[str] = (),
    mode: str = "lines+markers",
    height: int = 300,
    margin: dict[str, int] | None = None,
    **layout: object,
) -> Figure:
    """Draw a line for each name, with the intervals of its points; `heads` as in a table."""
    traces = []
    for i, (name, points) in enumerate(series.items()):
        intervals = [point.interval for point in points if point.interval is not None]
        bars = {"error_y": error_bars(intervals, colour(i), 1.4)} if intervals else {}
        trace = scatter(
            x=[label(p.x) if isinstance(p.x, str) else p.x for p in points],
            y=[point.y for point in points],
            **bars,
            mode=mode,
            name=label(name),
            line={"color": colour(i), "width": 1.8, "dash": "dot" if i % 2 else "solid"},
            marker={"color": colour(i), "size": 6, "symbol": symbol(i)},
            said=[f"{name}, {_said(heads[1:], point.cells)}" for point in points],
        )
        traces.append(trace)
    bottom = {**axis(label(across), 6, showgrid=False), **(xaxis or {})}
    left = value_axis(label(up), **(yaxis or {}))
    return figure(traces, height, margin, xaxis=bottom, yaxis=left, **layout)


def _said(heads: Sequence[str], cells: Sequence[str]) -> str:
    if not heads:
        return ": ".join(cells)
    return ", ".join(f"{head} {cell}" for head, cell in zip(heads, cells, strict=True))


def axis(title: str, standoff: int = 8, **more: object) -> dict[str, object]:
    """Title an axis."""
    return {"title": {"text": title, "standoff": standoff}, **more}


def value_axis(title: str, **more: object) -> dict[str, object]:
    """Title an axis of values with a grid, and no line at zero."""
    return {**axis(title), "gridcolor": GRID, "zeroline": False, "nticks": 7, **more}


def line_at(
    axis: str, value: float, tone: str = GREY, width: float = 1, dash: str = "dash"
) -> Trace:
    """Draw a line behind the points, right across where an axis (`x` or `y`) has a value."""
    other = "x" if axis == "y" else "y"
    ends = {f"{axis}0": value, f"{axis}1": value, f"{other}0": 0, f"{other}1": 1}
    return _line({f"{other}ref": f"{other} domain", **ends}, tone, width, dash)


def dashed(x: Sequence[float], y: Sequence[float], tone: str = GREY, width: float = 1) -> Trace:
    """Draw a dashed line behind the points, from the first x and y to the second."""
    return _line({"x0": x[0], "y0": y[0], "x1": x[1], "y1": y[1]}, tone, width, "dash")


def _line(ends: Mapping[str, object], tone: str, width: float, dash: str) -> Trace:
    line = {"color": tone, "width": width, "dash": dash}
    return {"type": "line", **ends, "line": line, "layer": "below"}


@dataclass(frozen=True)
class Heading:
    """A heading inside a part, with what stands beside it."""

    text: str
    note: str = ""
    level: int = 3


@dataclass(frozen=True)
class Closed:
    """What is shown when it is opened, in a style of its own; `is_open` from the start."""

    summary: str
    blocks: tuple["Block", ...]
    style: str = "more"
    is_open: bool = False


Block = FigureView | TextTable | Closed | Heading | Markup


def figures_of(blocks: Iterable[Block]) -> Iterable[FigureView]:
    """List every figure, also of what is closed."""
    for block in blocks:
        if isinstance(block, Closed):
            yield from figures_of(block.blocks)
        elif isinstance(block, FigureView):
            yield block


def info_of(study: Study, metric: str) -> MetricInfo:
    """Find a metric's definition, as far as the study has it."""
    infos = () if study.analysis is None else study.analysis.metrics
    units = {} if study.time is None else study.time.units
    blank = MetricInfo(
        metric, "mean", "", units.get(metric, ""), "increase", "diagnostic", None, None
    )
    return next((info for info in infos if info.name == metric), blank)


def by_role(
    study: Study, blocks: Iterable[tuple[str, Block]], summary: str = "Diagnostics"
) -> tuple[Block, ...]:
    """Put goals and guardrails first; close diagnostics under a summary, if there are others."""
    metrics = () if study.analysis is None else study.analysis.metrics
    roles, listed = {metric.name: metric.role for metric in metrics}, list(blocks)
    main = tuple(block for metric, block in listed if roles.get(metric, "goal") != "diagnostic")
    rest = tuple(block for metric, block in listed if roles.get(metric, "goal") == "diagnostic")
    if not main:
        return rest
    return (*main, Closed(summary, rest)) if rest else main
