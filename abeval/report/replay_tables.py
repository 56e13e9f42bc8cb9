"""Tables of a replay: values and differences as text, drawn on one axis per table.

`replay_views.py` chooses the rows of a `ReplayResult` and hands them over as `Line`s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup

from abeval.offline.metrics import OfflineMetric
from abeval.report import glyph
from abeval.report.effects import EffectView, full
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.replay import Gap, PairRow, ReplayRow

_REQUESTS = ("list", "tied", "r_precision")
_BEYOND = ("beyond", "catalogue")


class ValueView(NamedTuple):
    """A value with its interval, or why there is none."""

    text: str
    interval: str
    note: str


@dataclass(frozen=True)
class ComparedView:
    """A row: one metric of two models, or of one.

    Attributes:
        metric: Its id.
        label: The model or stage of the row; often empty.
        values: One per column: two models, the splits, or a single value.
        effect: The difference of two models, or the gap between two splits.
        p: Its p-value.
    """

    metric: str
    label: str
    values: tuple[ValueView, ...]
    effect: EffectView | None
    p: str


@dataclass(frozen=True)
class GroupView:
    """A table: some metrics on one axis.

    Attributes:
        title: Such as `Requests at k = 10`.
        heads: Headers of the columns of values.
        label: Header of the rows' labels; empty without labels.
        scale: The axis of the drawings; empty without any.
        rows: The metrics.
        main: Whether it is open from the start.
    """

    title: str
    heads: tuple[str, ...]
    label: str
    scale: Markup
    rows: tuple[ComparedView, ...]
    main: bool


class Line(NamedTuple):
    """The records of a row before it is drawn, as `replay_views.py` chooses them."""

    metric: str
    label: str
    values: tuple[ReplayRow | None, ...]
    change: PairRow | Gap | None


def kind_of(metric: OfflineMetric) -> str:
    """Title of the table of a metric."""
    family = metric.definition.family
    if family in _BEYOND:
        return f"Beyond accuracy at k = {metric.k}"
    if family not in _REQUESTS:
        return "Scores and pairs"
    return "Whole lists" if metric.k is None else f"Requests at k = {metric.k}"


def group_of(
    title: str,
    heads: tuple[str, ...],
    label: str,
    lines: Sequence[Line],
    level: str,
    main: bool,
) -> GroupView:
    """A table of lines; `level` is the level of their intervals, as text."""
    marks = [_mark(line, level) for line in lines]
    drawn = [mark for mark in marks if mark is not None]
    axis = glyph.shared_axis(drawn)
    rows = tuple(_row(line, mark, axis) for line, mark in zip(lines, marks, strict=True))
    return GroupView(title, heads, label, glyph.scale(axis) if drawn else Markup(), rows, main)


def _row(line: Line, mark: glyph.Mark | None, axis: glyph.Axis) -> ComparedView:
    change = line.change
    places = max(fmt.interval_places(row.low, row.high) if row else 0 for row in line.values)
    values = tuple(value_view(row, places) for row in line.values)
    if change is None:
        return ComparedView(line.metric, line.label, values, None, "")
    drawing = glyph.draw(mark, axis) if mark else Markup()
    effect = replace(_effect(change), glyph=drawing)
    return ComparedView(line.metric, line.label, values, effect, fmt.p_value(change.p_value))


def _effect(change: PairRow | Gap) -> EffectView:
    shown = fmt.difference(change.difference, change.low, change.high)
    ends = f"{full(change.difference)} [{full(change.low)}, {full(change.high)}]"
    return EffectView(
        estimate=shown.estimate if shown else fmt.MISSING,
        interval=shown.interval if shown and change.low is not None else "",
        absolute=codes.reason(change.reason),
        exact=ends,
        glyph=Markup(),
    )


def _mark(line: Line, level: str) -> glyph.Mark | None:
    """The glyph of a difference, as a share of the baseline."""
    change = line.change
    if change is None or change.difference is None or change.low is None or change.high is None:
        return None
    base = _baseline(line)
    if not base:
        return None
    parts = [number / abs(base) for number in (change.difference, change.low, change.high)]
    shown = fmt.difference(change.difference, change.low, change.high)
    words = f", {level} interval {shown.span}" if shown else ""
    spoken = f"{line.metric} {line.label}: difference {shown.estimate if shown else ''}{words}"
    decided = not change.low <= 0 <= change.high
    return glyph.Mark(parts[0], parts[1], parts[2], "plain", decided, spoken)


def _baseline(line: Line) -> float | None:
    if isinstance(line.change, PairRow):
        return line.change.value_control
    row = line.values[0]
    return None if row is None else row.value


def value_view(row: ReplayRow | None, places: int = 0) -> ValueView:
    """The value of a row as printed, with at least some decimals: those of the values beside it."""
    if row is None:
        return ValueView(fmt.MISSING, "", "")
    text, interval = fmt.estimate(row.value, row.low, row.high, places)
    return ValueView(text, interval, codes.reason(row.reason))
