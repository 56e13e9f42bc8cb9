"""Draw effects as inline SVG: intervals on one axis of log lifts."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from markupsafe import Markup

from abeval.report import assets
from abeval.report.figures import choose_axis_reach, round_up

Ends = tuple[float | None, float | None]
"""The ends of an interval, or of where harm begins; None without one."""

_PADDING = 4.0


class Axis(NamedTuple):
    """Lifts from `low` to `high`, equal steps for equal ratios."""

    low: float
    high: float

    def x(self, lift: float) -> float:
        """Return the place of a lift in per cent of the width, at most at the ends."""
        # Doubling and halving are as far from zero: the axis is linear in log(1 + lift).
        low, high = math.log1p(self.low), math.log1p(self.high)
        share = (math.log1p(min(max(lift, self.low), self.high)) - low) / (high - low)
        return _PADDING + (100 - 2 * _PADDING) * share

    def holds(self, lift: float) -> bool:
        """Tell whether a lift lies on the axis."""
        return self.low <= lift <= self.high

    def ends(self, low: float | None, high: float | None) -> tuple[float, float]:
        """Place the ends of an interval; None has no bound."""
        return self.x(self.low if low is None else low), self.x(self.high if high is None else high)

    def zones(self, harm: "Ends") -> list[tuple[float, float]]:
        """Place the zones of harm, from an end of the column to its lift."""
        below, above = harm
        left = [] if below is None else [(_PADDING / 2, self.x(below))]
        return left if above is None else [*left, (self.x(above), 100 - _PADDING / 2)]

    @property
    def ticks(self) -> list[float]:
        """Choose round lifts that stand apart, zero among them.

        Example:
            >>> Axis(-0.04, 0.11).ticks
            [0.0, 0.05, 0.1]
        """
        step = round_up((self.high - self.low) / 5)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        kept: list[float] = [0.0]
        for lift in sorted((i * step for i in range(first, last + 1) if i), key=abs):
            # Labels this close in a narrow column would touch, in per cent; that of zero is short.
            if all(abs(self.x(lift) - self.x(tick)) >= (28 if tick else 18) for tick in kept):
                kept.append(float(f"{lift:.6g}"))
        return sorted(kept)

    def arrows(self, mark: "Mark") -> list[int]:
        """List the sides (-1, 1) on which an interval continues beyond the axis."""
        spans = [(mark.low, mark.high), mark.widest or (mark.low, mark.high)]
        below = any(low is None or low < self.low for low, _ in spans)
        above = any(high is None or high > self.high for _, high in spans)
        return [-1] * below + [1] * above


class Mark(NamedTuple):
    """The content of one glyph.

    `low` and `high` are the ends of the interval at `1 - alpha`, `widest` those of the adjusted
    interval if it decides; an unbounded end is None. `place` numbers the variant's colour
    (`figures.colour_indices`). A mark that is not `decided` is hollow. `harm` has the lifts beyond
    which a guardrail's margin is broken, `detectable` the lift that the test can detect.
    """

    lift: float
    low: float | None
    high: float | None
    label: str
    alpha: float = 0.05
    place: int = 1
    decided: bool = False
    widest: Ends | None = None
    harm: Ends = (None, None)
    detectable: float = math.inf

    @property
    def half(self) -> Ends | None:
        """Return the 50 % interval, scaled from the one at `1 - alpha`."""
        if self.low is None or self.high is None:
            return None
        # Only for the eye: ends of a t or Fieller interval are scaled as normal ones.
        shade = NormalDist().inv_cdf(0.75) / NormalDist().inv_cdf(1 - self.alpha / 2)
        low, high = (self.lift + shade * (end - self.lift) for end in (self.low, self.high))
        return low, high

    @property
    def ends(self) -> list[float]:
        """List the lifts that the axis should show."""
        ends = (self.lift, self.low, self.high, *(self.widest or ()), *self.harm)
        return [end for end in ends if end is not None]


def _log(lift: float) -> float:
    # A lift of -100 % has no logarithm.
    return math.log1p(max(lift, -0.999))


def choose_mark_axis(column: Sequence[Mark | None]) -> Axis:
    """Choose one axis for all marks, with zero; cut a mark far wider than most.

    Example:
        >>> marks = [Mark(0.01, -0.02, reach, "") for reach in (0.04, 0.05, 0.9)]
        >>> axis = choose_mark_axis(marks)
        >>> axis.low < -0.02, 0.05 < axis.high < 0.9
        (True, True)
    """
    marks = [mark for mark in column if mark]
    if not marks:
        return Axis(-0.01, 0.01)
    limit = choose_axis_reach([max(abs(_log(end)) for end in mark.ends) for mark in marks])
    logs = [0.0, *(max(-limit, min(limit, _log(end))) for mark in marks for end in mark.ends)]
    room = 0.04 * (max(logs) - min(logs)) or 0.01
    return Axis(math.expm1(min(logs) - room), math.expm1(max(logs) + room))


def draw_sparkline(
    values: Sequence[tuple[float, float, float]], colour_index: int, label: str
) -> Markup:
    """Draw a cumulative effect as a small line with its band."""
    ends = [end for value in values for end in value] + [0.0]
    bottom, top = min(ends), max(ends)
    height, across = (top - bottom) or 1.0, 100 / max(len(values) - 1, 1)

    def path(end: int) -> list[str]:
        heights = (28 * (top - value[end]) / height for value in values)
        return [f"{i * across:.1f},{y:.1f}" for i, y in enumerate(heights)]

    band = [*path(1), *reversed(path(2))]
    zero = 28 * top / height
    return assets.fill_macro("glyph.html", "spark", colour_index, label, band, zero, path(0))
