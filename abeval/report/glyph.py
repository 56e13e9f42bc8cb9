"""Draw effects as inline SVG, as wide as their column: intervals on one axis of log lifts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from markupsafe import Markup

from abeval.report.figures import farthest, round_up
from abeval.report.tables import Cell
from abeval.results.format import typographic

HEIGHT = 34
_MIDDLE = HEIGHT / 2
_PADDING = 4.0


@dataclass(frozen=True)
class Axis:
    """Lifts from `low` to `high`, equal steps for equal ratios."""

    low: float
    high: float

    def x(self, lift: float) -> float:
        """Place a lift in per cent of the width; beyond the axis, at its end."""
        low, high = math.log1p(self.low), math.log1p(self.high)
        share = (math.log1p(min(max(lift, self.low), self.high)) - low) / (high - low)
        return _PADDING + (100 - 2 * _PADDING) * share

    def cuts(self, lift: float | None, side: int) -> bool:
        """Tell whether an end on a side (-1 or 1) lies beyond the axis; None has no bound."""
        return lift is None or (lift < self.low if side < 0 else lift > self.high)


@dataclass(frozen=True)
class Mark:
    """The content of one glyph.

    `low` and `high` are the ends of the interval at `1 - alpha`, `widest` those of the adjusted
    interval where it decides; an end is None without a bound. `place` is the variant's
    (`figures.places`): its colour. What is not `decided` is hollow. `harm` are the lifts from which
    a guardrail's margin is broken, below and above; `detectable` the lift that the test finds.
    """

    lift: float
    low: float | None
    high: float | None
    label: str
    alpha: float = 0.05
    place: int = 1
    decided: bool = False
    widest: tuple[float | None, float | None] | None = None
    harm: tuple[float | None, float | None] = (None, None)
    detectable: float | None = None

    @property
    def ends(self) -> list[float]:
        """List the lifts that the axis should hold."""
        ends = (self.lift, self.low, self.high, *(self.widest or ()), *self.harm)
        return [end for end in ends if end is not None]

    @property
    def reach(self) -> float:
        """Return the largest distance from zero in the glyph, of logarithms."""
        return max(abs(_log(end)) for end in self.ends)


def _log(lift: float) -> float:
    return math.log1p(max(lift, -0.999))


def shared_axis(marks: Sequence[Mark]) -> Axis:
    """Choose one axis for all marks, with zero; a mark far wider than the others is cut.

    Example:
        >>> marks = [Mark(0.01, -0.02, reach, "") for reach in (0.04, 0.05, 0.9)]
        >>> axis = shared_axis(marks)
        >>> axis.low < -0.02, 0.05 < axis.high < 0.9
        (True, True)
    """
    if not marks:
        return Axis(-0.01, 0.01)
    limit = farthest([mark.reach for mark in marks])
    logs = [0.0, *(max(-limit, min(limit, _log(end))) for mark in marks for end in mark.ends)]
    room = 0.04 * (max(logs) - min(logs)) or 0.01
    return Axis(math.expm1(min(logs) - room), math.expm1(max(logs) + room))


def draw(mark: Mark, axis: Axis) -> Markup:
    """Draw one row: zones of harm, detectable lifts, the interval and its half, the estimate."""
    below, above = mark.harm
    parts = [
        _zone(_PADDING / 2, axis.x(below)) if below is not None else Markup(),
        _zone(axis.x(above), 100 - _PADDING / 2) if above is not None else Markup(),
        _upright("zero", 0.0, axis),
        *(_upright("detectable", sign * (mark.detectable or 0.0), axis) for sign in (-1, 1)),
        _bar("whisker", *mark.widest, axis) if mark.widest else Markup(),
        _bar("bar", mark.low, mark.high, axis),
        _half(mark, axis),
        _arrows(mark, axis),
        _dot(mark, axis),
    ]
    return Markup(
        '<svg class="glyph v{} {}" width="100%" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(
        mark.place,
        "decided" if mark.decided else "open",
        HEIGHT,
        typographic(mark.label),
        Markup().join(parts),
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
    labels = Markup().join(
        Markup('<text x="{:.1f}%" y="11" text-anchor="middle">{}</text>').format(
            axis.x(lift), _tick(lift)
        )
        for lift in ticks(axis)
    )
    return Markup('<svg class="scale" width="100%" height="14" aria-hidden="true">{}</svg>').format(
        labels
    )


def ticks(axis: Axis) -> list[float]:
    """Choose round lifts that stand apart, zero among them.

    Example:
        >>> ticks(Axis(-0.04, 0.11))
        [0.0, 0.05, 0.1]
    """
    step = round_up((axis.high - axis.low) / 5)
    first, last = math.ceil(axis.low / step), math.floor(axis.high / step)
    kept: list[float] = [0.0]
    for lift in sorted((i * step for i in range(first, last + 1) if i), key=abs):
        if all(abs(axis.x(lift) - axis.x(other)) >= 13 for other in kept):
            kept.append(float(f"{lift:.6g}"))
    return sorted(kept)


def sparkline(values: Sequence[tuple[float, float, float]], place: int, label: str) -> Markup:
    """Draw an effect up to each day, a value with its two ends, as a small line with its band."""
    ends = [end for value in values for end in value] + [0.0]
    bottom, top = min(ends), max(ends)
    height, across = (top - bottom) or 1.0, 100 / max(len(values) - 1, 1)

    def path(end: int) -> list[str]:
        return [
            f"{i * across:.1f},{28 * (top - value[end]) / height:.1f}"
            for i, value in enumerate(values)
        ]

    zero, band = 28 * top / height, " ".join([*path(1), *reversed(path(2))])
    return Markup(
        '<svg class="spark v{}" viewBox="0 -1 100 30" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><polygon points="{}"/><line class="zero" x1="0" x2="100" y1="{:.1f}" '
        'y2="{:.1f}"/><polyline points="{}"/></svg>'
    ).format(place, typographic(label), band, zero, zero, " ".join(path(0)))


def _zone(left: float, right: float) -> Markup:
    return Markup('<rect class="harm" x="{:.1f}%" width="{:.1f}%" y="2" height="{}"/>').format(
        left, max(right - left, 0.0), HEIGHT - 4
    )


def _upright(name: str, lift: float, axis: Axis) -> Markup:
    if name != "zero" and (not lift or axis.cuts(lift, -1) or axis.cuts(lift, 1)):
        return Markup()
    top, bottom = (0, HEIGHT) if name == "zero" else (_MIDDLE + 8, HEIGHT - 2)
    x = axis.x(lift)
    return Markup('<line class="{}" x1="{:.1f}%" x2="{:.1f}%" y1="{}" y2="{}"/>').format(
        name, x, x, top, bottom
    )


def _bar(name: str, low: float | None, high: float | None, axis: Axis) -> Markup:
    left = axis.x(axis.low if low is None else low)
    right = axis.x(axis.high if high is None else high)
    return Markup('<line class="{}" x1="{:.1f}%" x2="{:.1f}%" y1="{}" y2="{}"/>').format(
        name, left, right, _MIDDLE, _MIDDLE
    )


def _half(mark: Mark, axis: Axis) -> Markup:
    """Draw the interval at 50 %: that at `1 - alpha`, narrower by the normal quantiles."""
    if mark.low is None or mark.high is None:
        return Markup()
    shade = NormalDist().inv_cdf(0.75) / NormalDist().inv_cdf(1 - mark.alpha / 2)
    low, high = (mark.lift + shade * (end - mark.lift) for end in (mark.low, mark.high))
    return _bar("half", low, high, axis)


def _arrows(mark: Mark, axis: Axis) -> Markup:
    """Draw an arrow where an interval goes on beyond the axis."""
    ends = [(mark.low, -1), (mark.high, 1)]
    if mark.widest:
        ends += [(mark.widest[0], -1), (mark.widest[1], 1)]
    sides = {side for end, side in ends if axis.cuts(end, side)}
    form = Markup(
        '<svg class="arrow" x="{:.1f}%" y="{}" overflow="visible"><path d="M{} 0l{} -5v10z"/></svg>'
    )
    return Markup().join(
        form.format(axis.x(axis.low if side < 0 else axis.high), _MIDDLE, side * 8, -side * 8)
        for side in sorted(sides)
    )


def _dot(mark: Mark, axis: Axis) -> Markup:
    if axis.cuts(mark.lift, -1) or axis.cuts(mark.lift, 1):
        return Markup()
    return Markup('<circle class="dot" cx="{:.1f}%" cy="{}" r="4.5"/>').format(
        axis.x(mark.lift), _MIDDLE
    )


def _tick(lift: float) -> str:
    return typographic(f"{100 * lift:+.6g}%") if lift else "0"
