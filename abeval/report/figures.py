"""Lay out figures as plain dictionaries for Plotly."""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
from statistics import median_low
from typing import Any, Literal, NamedTuple

from markupsafe import Markup

from abeval.report import assets
from abeval.report.tables import Record, TextTable
from abeval.results.analysis import ExperimentInfo, MetricInfo
from abeval.results.format import Interval, typeset_numbers
from abeval.results.record import group_rows
from abeval.results.study import Study

GREY = "#7a8699"
GRID = "rgba(128,140,160,0.25)"

COLOURS = ("#64748B", "#0072B2", "#C46A00", "#8526FC", "#159CEC", "#948453")
"""Of control, then of the variants.

Each has a contrast of 3:1 on the white and on the dark page; readers without red, green or blue
cones tell any two apart, and none is the green or red of what is good or bad.
"""

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")

LAYOUT: Mapping[str, Any] = {
    "template": {},
    # Transparent, in the font of the page; the legend is above the figure.
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "height": 300,
    "margin": {"l": 72, "r": 16, "t": 34, "b": 44},
    "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 14},
    "showlegend": True,
    "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    # As `format.typographic` writes numbers.
    "separators": ".\u202f",
    # Dragging would catch the finger that scrolls the page.
    "dragmode": False,
    "hovermode": "closest",
    # A label that shows on hovering is the same on every mark, on the white and the dark page.
    "hoverlabel": {
        "bgcolor": "#1c2430",
        "bordercolor": "#9aa8bd",
        "font": {"color": "#ffffff"},
    },
}

EFFECT_AXIS: Mapping[str, Any] = {
    "tickformat": "+~g",
    "zeroline": True,
    "zerolinewidth": 1.5,
    "zerolinecolor": GREY,
    "gridcolor": GRID,
    "nticks": 7,
}
"""Signed numbers, and a strong line at zero."""

DAYS: Mapping[str, object] = {
    **{"type": "date", "tickformat": "%a %d %b", "showgrid": False},
    "ticklabelstandoff": 6,
    # On a phone and on paper some days have no label (boot.js), and none is turned.
    "tickangle": 0,
}


LOG_AXIS: Mapping[str, object] = {"type": "log", "dtick": "D2", "tickformat": ",~r"}
"""Of positive values, with a tick at 1, 2 and 5 of each power of ten."""


def choose_days(days: Iterable[str]) -> list[str]:
    """Choose at most eight days, evenly from the first, that an axis names.

    Example:
        >>> choose_days(f"2026-03-{day:02}" for day in range(1, 11))
        ['2026-03-01', '2026-03-03', '2026-03-05', '2026-03-07', '2026-03-09']
    """
    every = sorted(set(days))
    return every[:: ceil(len(every) / 8) or 1]


Figure = dict[str, Any]
"""Its traces as `data`, and its `layout`."""

Trace = dict[str, Any]
"""What a figure draws: a trace, or a shape of its layout."""


class FigureView(NamedTuple):
    """A figure on a page.

    `takeaway` says in one sentence what it shows; it may be empty. `key` is how `figures` of a
    result calls it: `("cumulative", "ctr")`. The page's scripts list its numbers from the texts of
    its points.
    """

    title: str
    takeaway: str
    figure: Figure
    key: tuple[str, ...]
    note: str = ""

    @property
    def anchor(self) -> str:
        """Return its address on the page."""
        return assets.write_page_id(*self.key)

    @property
    def island(self) -> Markup:
        """Return its JSON."""
        text = json.dumps(self.figure, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return assets.escape_json(_round_fractions(text))

    @property
    def key_text(self) -> str:
        """Return its key as JSON, for the scripts."""
        return json.dumps(self.key)


_DIGITS = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+\.\d{4,}(?:e-?\d+)?')


def _round_fractions(json_text: str) -> str:
    """Round every fraction in JSON text to four digits.

    Example:
        >>> _round_fractions('{"y":[0.123456789,12],"name":"v0.123456789"}')
        '{"y":[0.1235,12],"name":"v0.123456789"}'
    """
    # A screen shows no more digits, and the page weighs half. Text in quotes stays as it is.
    return _DIGITS.sub(lambda m: m[0] if m[0][0] == '"' else f"{float(m[0]):.4g}", json_text)


def number_variants(info: ExperimentInfo) -> dict[str, int]:
    """Number the variants, control first, so that each has one colour on a page."""
    treatment_names = (variant.name for variant in info.variants if variant.name != info.control)
    return {name: index for index, name in enumerate((info.control, *treatment_names))}


def fade_colour(tone: str) -> str:
    """Make a colour of `COLOURS` faint, as the fill of a band.

    Example:
        >>> fade_colour("#0072B2")
        'rgba(0,114,178,0.16)'
    """
    return f"rgba({','.join(str(int(tone[i : i + 2], 16)) for i in (1, 3, 5))},0.16)"


def choose_colour(index: int) -> str:
    """Return the colour of a line or variant; index 0 is control's alone.

    Example:
        >>> choose_colour(0) == choose_colour(6), choose_colour(1) == choose_colour(6)
        (False, True)
    """
    return COLOURS[index if index == 0 else 1 + (index - 1) % (len(COLOURS) - 1)]


def choose_symbol(index: int) -> str:
    """Return the symbol of a line or variant."""
    # There are more symbols than colours: variants that share a colour differ in it.
    return SYMBOLS[index % len(SYMBOLS)]


def escape_label(text: str) -> str:
    """Escape text from the user; Plotly reads it as a kind of HTML.

    Example:
        >>> escape_label("a<b")
        'a&lt;b'
    """
    return html.escape(text, quote=False)


def draw_error_bars(values: Sequence[Interval], colour: str, thickness: float) -> dict[str, object]:
    """Draw intervals as error bars; an unbounded end has no bar."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [_measure_bar(value, high) for value, _, high in values],
        "arrayminus": [_measure_bar(low, value) for value, low, _ in values],
        "color": colour,
        "thickness": thickness,
        "width": 0,
    }


def _measure_bar(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else max(high - low, 0.0)


def _span_axis(ends: Sequence[float], room: float) -> list[float] | None:
    """Span an axis over all ends and zero, with `room` as a share of it."""
    if not ends:
        return None
    low, high = min(*ends, 0.0), max(*ends, 0.0)
    # If all ends are zero, the axis still needs a width.
    space = room * (high - low) or 1.0
    return [low - space, high + space]


def lay_out_figure(
    traces: Sequence[Trace],
    height: int = 300,
    margin: dict[str, int] | None = None,
    **layout: object,
) -> Figure:
    """Lay out traces in the page's style; `height` and `margin` are in pixels."""
    size = {"height": height, "margin": LAYOUT["margin"] | (margin or {})}
    return {"data": traces, "layout": {**LAYOUT, **size, **layout}}


def draw_trace(texts: Sequence[str] | None = None, **entries: object) -> Trace:
    """Draw points or a line; `texts` are the labels of the points."""
    if texts is None:
        return {"type": "scatter", **entries}
    # Names of the user go in as data: inside a template, `%{x}` in a name would be replaced.
    hover = {
        "customdata": [escape_label(typeset_numbers(text)) for text in texts],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    return {"type": "scatter", **hover, **entries}


class Spot(NamedTuple):
    """A value in a row of a forest, and the text of its label."""

    row: int
    value: Interval
    text: str


def list_ends(series: Mapping[str, Sequence[Spot]]) -> Iterable[float | None]:
    """List the values of a forest, and the ends of their intervals."""
    return (end for spots in series.values() for spot in spots for end in spot.value)


def draw_forest(
    names: Sequence[str],
    series: Mapping[str, Sequence[Spot]],
    xaxis: Mapping[str, object],
    order: Mapping[str, int] | None = None,
) -> Figure:
    """Draw values with horizontal intervals, one row per name from the top down.

    The series of a row are below each other; `order` gives their places in `COLOURS`.
    """
    count, places = len(series), order or {name: i for i, name in enumerate(series)}
    traces = [
        draw_trace(
            [spot.text for spot in spots],
            x=[spot.value[0] for spot in spots],
            # Series share a row: each is shifted a little so that none covers another.
            y=[spot.row + (i - (count - 1) / 2) * 0.7 / count for spot in spots],
            error_x=draw_error_bars(
                [spot.value for spot in spots], choose_colour(places[name]), 1.4
            ),
            mode="markers",
            name=escape_label(name),
            marker={
                "color": choose_colour(places[name]),
                "size": 7,
                "symbol": choose_symbol(places[name]),
            },
        )
        for i, (name, spots) in enumerate(series.items())
    ]
    rows = {"tickvals": list(range(len(names))), "ticktext": [escape_label(name) for name in names]}
    ends = [len(names) - 0.4, -0.6]
    return lay_out_figure(
        traces,
        96 + len(names) * (12 + 3 * count),
        {"l": 12, "b": 36},
        showlegend=count > 1,
        xaxis=xaxis,
        yaxis={**rows, "range": ends, "automargin": True, "showgrid": False, "zeroline": False},
    )


class Point(NamedTuple):
    """A point of a line, with the text of its label; partial days are `hollow`."""

    x: float | str
    y: float
    text: str
    interval: Interval | None = None
    hollow: bool = False


Series = Mapping[str, Sequence[Point]]
"""Name of a line → its points."""


def draw_lines(
    series: Series,
    across: str,
    up: str,
    xaxis: Mapping[str, object] | None = None,
    yaxis: Mapping[str, object] | None = None,
    mode: str = "lines+markers",
    order: Mapping[str, int] | None = None,
    shape: Literal["bars", "band"] = "bars",
    is_effect: bool = False,
    **layout: Any,  # noqa: ANN401 (as `figure` takes it)
) -> Figure:
    """Draw one line per name, with the intervals of its points as bars or a band.

    `order` gives names their place in `COLOURS`; without one,
    places follow the lines. Lines of effects have a frame that holds most intervals; arrows mark
    those that leave it.
    """
    traces: list[Trace] = []
    for i, (name, points) in enumerate(series.items()):
        colour_index = i if order is None else order.get(name, i)
        tone, mark = choose_colour(colour_index), choose_symbol(colour_index)
        x_intervals = [(point.x, point.interval) for point in points if point.interval is not None]
        intervals = [ends for _, ends in x_intervals]
        bars: dict[str, object] = {}
        if intervals and shape == "band":
            area = fill_band([x for x, _ in x_intervals], intervals, tone, f"{name}, interval")
            # A legend of lines alone leaves the figure its height.
            traces.append(area | {"showlegend": False})
        elif intervals:
            bars = {"error_y": draw_error_bars(intervals, tone, 1.4)}
        marks = [f"{mark}-open" if point.hollow else mark for point in points]
        trace = draw_trace(
            x=[escape_label(p.x) if isinstance(p.x, str) else p.x for p in points],
            y=[point.y for point in points],
            **bars,
            mode=mode,
            name=escape_label(name),
            line={"color": tone, "width": 1.8, "dash": "dot" if i % 2 else "solid"},
            marker={"color": tone, "size": 6, "symbol": marks if len(set(marks)) > 1 else mark},
            texts=[f"{name}, {point.text}" for point in points],
        )
        traces.append(trace)
    bottom = {
        **build_axis(escape_label(across), 6, showgrid=False, separatethousands=True),
        **(xaxis or {}),
    }
    if bottom.get("type") == "date" and "tickvals" not in bottom:
        bottom["tickvals"] = choose_days(str(p.x) for points in series.values() for p in points)
    left = build_value_axis(escape_label(up), **(yaxis or {}))
    if is_effect:
        bounds, arrows = frame_points([point for points in series.values() for point in points])
        left |= EFFECT_AXIS
        if bounds is not None:
            left |= {
                "range": bounds,
                **_label_effect_ticks(bounds, str(left.get("ticksuffix", ""))),
            }
        traces += arrows
    options = {"showlegend": len(series) > 1, **layout}
    return lay_out_figure(traces, xaxis=bottom, yaxis=left, **options)


_WIDEST = 4.0
"""Times the median reach of intervals that an axis goes; what reaches further is cut."""


def choose_axis_reach(reaches: Sequence[float]) -> float:
    """Choose how far an axis reaches, without letting one wide interval decide.

    Example:
        >>> choose_axis_reach([2.0, 3.0, 5.0]), choose_axis_reach([2.0, 3.0, 90.0])
        (5.0, 12.0)
    """
    return min(max(reaches), _WIDEST * median_low(reaches))


def frame_points(points: Sequence[Point]) -> tuple[list[float] | None, list[Trace]]:
    """Choose the range of an axis, and mark intervals that leave it by arrows."""
    ends = [
        (point.x, [end for end in (point.y, *point.interval) if end is not None])
        for point in points
        if point.interval is not None
    ]
    if not ends:
        return None, []
    reaches = [max(map(abs, reach)) for _, reach in ends]
    # The first days have wide intervals, which would flatten all others.
    limit = choose_axis_reach(reaches) or 1.0
    bounds = _span_axis([max(-limit, min(limit, end)) for _, reach in ends for end in reach], 0.06)
    beyond = [
        (x, side)
        for x, reach in ends
        for side in (-1, 1)
        if max(side * end for end in reach) > limit
    ]
    if not beyond or bounds is None:
        return bounds, []
    symbols = [{-1: "triangle-down", 1: "triangle-up"}[side] for _, side in beyond]
    arrows = draw_trace(
        x=[escape_label(x) if isinstance(x, str) else x for x, _ in beyond],
        y=[bounds[side > 0] for _, side in beyond],
        mode="markers",
        marker={"color": GREY, "size": 9, "symbol": symbols},
        name="goes on beyond the frame",
        hoverinfo="skip",
        cliponaxis=False,
    )
    return bounds, [arrows]


_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def round_up(value: float) -> float:
    """Round up to the next step of an axis: 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(value))
    # The tolerance keeps a step such as 0.1 from being rounded up for its last binary digit.
    step = next(step for step in _STEPS if step * power >= value * (1 - 1e-9))
    return float(f"{step * power:.6g}")


def _label_effect_ticks(bounds: Sequence[float], suffix: str) -> dict[str, object]:
    """Label an axis of effects at round numbers, zero without a sign.

    Example:
        >>> _label_effect_ticks((-12.0, 31.0), "%")["ticktext"]
        ['−10%', '0', '+10%', '+20%', '+30%']
    """
    low, high = bounds
    step = round_up((high - low) / 6)
    values = [float(f"{i * step:.6g}") for i in range(ceil(low / step), floor(high / step) + 1)]
    texts = [typeset_numbers(f"{value:+.6g}") + suffix if value else "0" for value in values]
    return {"tickvals": values, "ticktext": texts}


def build_effect_axis(
    ends: Iterable[float | None], suffix: str = "", title: str = ""
) -> dict[str, Any]:
    """Make an axis of effects that spans all ends and zero, with round ticks."""
    bounds = _span_axis([end for end in ends if end is not None], 0.06)
    ticks = {} if bounds is None else {"range": bounds, **_label_effect_ticks(bounds, suffix)}
    return {**EFFECT_AXIS, **build_axis(escape_label(title)), **ticks}


def fill_band(x: Sequence[object], ends: Sequence[Interval], tone: str, name: str) -> Trace:
    """Fill the band between the lower and the upper ends of intervals."""
    low, high = [end for _, end, _ in ends], [end for _, _, end in ends]
    return draw_trace(
        # The outline goes forward along the lower ends and back along the upper ones.
        x=[*x, *reversed(x)],
        y=[*low, *reversed(high)],
        fill="toself",
        fillcolor=fade_colour(tone),
        line={"width": 0},
        mode="lines",
        name=escape_label(name),
        hoverinfo="skip",
    )


def build_axis(title: str, standoff: int = 8, **more: object) -> dict[str, object]:
    """Make an axis with a title."""
    font = {"size": LAYOUT["font"]["size"]}
    return {"title": {"text": title, "standoff": standoff, "font": font}, **more}


def build_value_axis(title: str, **more: object) -> dict[str, object]:
    """Make an axis of values, with a grid and no line at zero."""
    style = {"gridcolor": GRID, "zeroline": False, "nticks": 7}
    style |= {"separatethousands": True, "automargin": True}
    return {**build_axis(title), **style, **more}


def draw_line_across(axis: str, value: float, width: float = 1, dash: str = "dash") -> Trace:
    """Draw a line across the figure where an axis (`x` or `y`) has a value."""
    here, across = (value, value), (0, 1)
    if axis == "x":
        return draw_line(here, across, width=width, dash=dash) | {"yref": "y domain"}
    return draw_line(across, here, width=width, dash=dash) | {"xref": "x domain"}


def note_at(x: float, text: str, anchor: Literal["top", "bottom"]) -> Trace:
    """Write a note at the top of the figure, to the right of a place."""
    style = {"showarrow": False, "xanchor": "left", "yanchor": anchor}
    return {"x": x, "y": 1, "yref": "paper", "text": text, **style}


def draw_line(
    x: Sequence[float], y: Sequence[float], tone: str = GREY, width: float = 1, dash: str = "dash"
) -> Trace:
    """Draw a line behind the points, from the first x and y to the second."""
    ends = {"x0": x[0], "y0": y[0], "x1": x[1], "y1": y[1]}
    line = {"color": tone, "width": width, "dash": dash}
    return {"type": "line", **ends, "line": line, "layer": "below"}


class Closed(NamedTuple):
    """Blocks that are shown when opened."""

    summary: str
    blocks: tuple["Block", ...]


class MetricBlocks(NamedTuple):
    """Blocks of the panel of a metric."""

    metric: str
    blocks: tuple["Block", ...]


class Beside(NamedTuple):
    """Blocks that stand beside each other where there is room."""

    blocks: tuple["Block", ...]


Block = FigureView | TextTable | Closed | MetricBlocks | Beside | str
"""What a part of the page consists of; text is a sentence, or markup."""


def list_figures(blocks: Iterable[Block]) -> Iterable[FigureView]:
    """List every figure, those inside other blocks too."""
    for block in blocks:
        if isinstance(block, FigureView):
            yield block
        elif isinstance(block, Closed | MetricBlocks | Beside):
            yield from list_figures(block.blocks)


def find_metric_info(study: Study, metric: str) -> MetricInfo:
    """Find a metric's definition; without an analysis, only its unit is known."""
    if study.analysis is not None:
        return study.analysis.info(metric)
    unit = "" if study.time is None else study.time.units.get(metric, "")
    return MetricInfo(metric, "mean", "", unit, "increase", "diagnostic", None, None)


def fold_calm(
    records: Iterable[Record],
    needs_reading: Callable[[Record], bool],
    tabulate: Callable[[Sequence[Record]], TextTable],
    calm: str,
) -> Iterator[Block]:
    """Tabulate the records that need reading, and close the table of the others.

    The closed table is named by its number of records and `calm`.
    """
    groups = group_rows(records, needs_reading)
    if loud := groups.get(True):
        yield tabulate(loud)
    if rest := groups.get(False):
        yield Closed(f"{len(rest)} {calm}", (tabulate(rest),))
