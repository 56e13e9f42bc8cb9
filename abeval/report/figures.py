"""What the figures of all pages share: colours, axes, error bars, and their place on the page.

Imported by the modules that draw (`daily_figures.py`, `replay_figures.py`, `windows_figures.py`)
and by the pages.
"""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from markupsafe import Markup

from abeval.report import assets

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

EFFECT_AXIS: Mapping[str, object] = {
    "tickformat": "+~g",
    "zeroline": True,
    "zerolinewidth": 1.5,
    "zerolinecolor": GREY,
    "gridcolor": GRID,
    "nticks": 7,
}
"""Style of an axis of effects: signed numbers, and a strong line at zero."""

Interval = tuple[float | None, float | None, float | None]
"""A value and the ends of its interval."""


@dataclass(frozen=True)
class FigureView:
    """A figure on a page, and the same numbers as a table.

    Attributes:
        anchor: Its id on the page.
        title: Its heading.
        takeaway: What it shows, in one sentence; may be empty.
        figure: The figure.
        pooled: Whether it is about all traffic together.
        heads: Headers of the table.
        rows: Cells of the table.
        note: What stands beside the heading.
        key: How `figures` of a result calls it, such as `("cumulative", "ctr")`.
    """

    anchor: str
    title: str
    takeaway: str
    figure: go.Figure
    pooled: bool = False
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    key: tuple[str, ...] = ()

    @property
    def island(self) -> Markup:
        """Its JSON."""
        return island(self.figure)

    @property
    def key_text(self) -> str:
        """Its key as JSON, for the scripts."""
        return json.dumps(self.key)


def colour(index: int) -> str:
    """The colour of the `index`-th line or variant."""
    return COLOURS[index % len(COLOURS)]


def symbol(index: int) -> str:
    """Its symbol."""
    return SYMBOLS[index % len(SYMBOLS)]


def island(figure: go.Figure) -> Markup:
    """A figure as JSON inside the page."""
    return assets.island(str(figure.to_json(engine="json")))


def label(text: str) -> str:
    """A string from the user as Plotly shows it literally: its text is a kind of HTML.

    Example:
        >>> label("a<b")
        'a&lt;b'
    """
    return html.escape(text, quote=False)


def error_bars(values: Sequence[Interval], colour: str, thickness: float) -> dict[str, object]:
    """Intervals as error bars; an end without a bound has no bar, and the table says so."""
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
    """Range of an axis from the lowest to the highest end, with zero; None without ends.

    Args:
        ends: Values to be shown.
        room: Free space on each side, as a share of their span.
    """
    if not ends:
        return None
    low, high = min(*ends, 0.0), max(*ends, 0.0)
    space = room * (high - low) or 1.0
    return [low - space, high + space]


def plain_layout(height: int, margin: Mapping[str, int]) -> go.Layout:
    """The layout of every figure: transparent, in the page's font, with a horizontal legend.

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
        hoverlabel=TOOLTIP,
    )
