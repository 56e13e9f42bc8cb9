"""Draw effects as inline SVG: intervals on one axis per table."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from markupsafe import Markup

from abeval.report.tables import Cell
from abeval.results.format import typographic

WIDTH = 204
HEIGHT = 34
_MIDDLE = HEIGHT / 2
_PADDING = 11.0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Axis:
    """Lifts from `-limit` to `limit`, zero in the middle."""

    limit: float

    def x(self, lift: float) -> float:
        """Place a lift in pixels; beyond the axis, at its end."""
        share = max(-1.0, min(1.0, lift / self.limit))
        return WIDTH / 2 + share * (WIDTH / 2 - _PADDING)


@dataclass(frozen=True)
class Mark:
    """The content of one glyph.

    `low` and `high` are None without a bound. `tone` is `good`, `bad` or `plain`: its colour, which
    is never the only sign. What is not `decided` is dashed and hollow. `margins` are lifts marked
    by a dashed line.
    """

    lift: float
    low: float | None
    high: float | None
    tone: str
    decided: bool
    label: str
    margins: tuple[float, ...] = ()

    @property
    def reach(self) -> float:
        """Return the largest distance from zero in the glyph."""
        ends = (self.lift, self.low, self.high, *self.margins)
        return max(abs(end) for end in ends if end is not None)


def shared_axis(marks: Sequence[Mark]) -> Axis:
    """Choose one axis for all marks; a mark far wider than the others is clipped.

    Example:
        >>> marks = [Mark(0.01, -0.02, reach, "plain", False, "") for reach in (0.04, 0.05, 0.9)]
        >>> shared_axis(marks).limit
        0.2
    """
    reaches = [mark.reach for mark in marks]
    typical = 3 * median_low(reaches) if reaches else 0.0
    limit = min(max(reaches, default=0.0), typical)
    return Axis(_round_up(limit) if limit > 0 else 0.01)


def draw(mark: Mark, axis: Axis) -> Markup:
    """Draw one row."""
    style = f"glyph {mark.tone} {'decided' if mark.decided else 'open'}"
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
        "{}{}{}{}</svg>"
    ).format(
        style,
        WIDTH,
        HEIGHT,
        WIDTH,
        HEIGHT,
        typographic(mark.label),
        _line("zero", 0.0, axis),
        _join(_line("margin", lift, axis) for lift in mark.margins if abs(lift) <= axis.limit),
        _bar(mark, axis),
        _dot(mark, axis),
    )


def column(marks: Sequence[Mark | None]) -> tuple[str, list[str]]:
    """Draw a column on one axis: its header, and a cell for each mark."""
    drawn = [mark for mark in marks if mark]
    axis = shared_axis(drawn)
    labels = (scale(axis) if drawn else Markup()) + _UNSEEN
    cells = [Cell("", draw(mark, axis) if mark else Markup(), "drawn") for mark in marks]
    return Cell("", labels, "drawn"), list(cells)


_UNSEEN = Markup('<span class="unseen">Interval, drawn</span>')


def scale(axis: Axis) -> Markup:
    """Label the axis over a column of glyphs."""
    labels = _join(
        Markup('<text x="{:.1f}" y="11" text-anchor="middle">{}</text>').format(
            axis.x(lift), _tick(lift)
        )
        for lift in (-axis.limit, 0.0, axis.limit)
    )
    width = WIDTH + 24
    return Markup(
        '<svg class="scale" viewBox="-12 0 {} 14" width="{}" height="14" aria-hidden="true">'
        "{}</svg>"
    ).format(width, width, labels)


def _line(name: str, lift: float, axis: Axis) -> Markup:
    x = axis.x(lift)
    return Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="0" y2="{}"/>').format(
        name, x, x, HEIGHT
    )


def _bar(mark: Mark, axis: Axis) -> Markup:
    left, right = _end(mark.low, -1, axis), _end(mark.high, 1, axis)
    bar = Markup('<line class="bar" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(
        left, right, _MIDDLE, _MIDDLE
    )
    arrows = [_arrow(left, -1)] if _clipped(mark.low, axis) else []
    arrows += [_arrow(right, 1)] if _clipped(mark.high, axis) else []
    return _join([bar, *arrows])


def _dot(mark: Mark, axis: Axis) -> Markup:
    if abs(mark.lift) > axis.limit:
        return Markup()
    return Markup('<circle class="dot" cx="{:.1f}" cy="{}" r="4.5"/>').format(
        axis.x(mark.lift), _MIDDLE
    )


def _end(lift: float | None, side: int, axis: Axis) -> float:
    return axis.x(side * axis.limit if lift is None else lift)


def _clipped(lift: float | None, axis: Axis) -> bool:
    return lift is None or abs(lift) > axis.limit


def _arrow(x: float, side: int) -> Markup:
    """Draw an arrow past the end of the axis: the interval goes on."""
    tip = x + side * 9
    return Markup('<path class="arrow" d="M{:.1f} {}l{} -5v10z"/>').format(tip, _MIDDLE, -side * 9)


def _tick(lift: float) -> str:
    return typographic(f"{100 * lift:+.6g}%") if lift else "0"


def _round_up(value: float) -> float:
    """Find the next round number, as the end of an axis."""
    power = 10.0 ** math.floor(math.log10(value))
    step = next(step for step in _STEPS if step * power >= value * (1 - 1e-9))
    return float(f"{step * power:.6g}")


def _join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)
