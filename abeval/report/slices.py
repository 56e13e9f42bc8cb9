"""Days and segments as the page shows them, formatted as text.

`page.py` hands over a `Result`; the page shows the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from abeval.report import glyph
from abeval.report.effects import (
    EffectView,
    anchors,
    definitions,
    effect_view,
    metric_note,
    slice_mark,
)
from abeval.report.tables import ROLES
from abeval.results import MetricInfo, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result


@dataclass(frozen=True)
class CellView:
    """An effect on one day, or in one segment."""

    cell: str
    partial: bool
    variant: str
    units_control: str
    units: str
    control: str
    treatment: str
    effect: EffectView
    p: str
    reason: str


@dataclass(frozen=True)
class SliceView:
    """One metric's days, or its segments."""

    metric: str
    anchor: str
    role: str
    note: str
    takeaway: str
    cells: tuple[CellView, ...]


@dataclass(frozen=True)
class SegmentView:
    """One segment dimension: each metric's effect in each of its values, on one axis.

    Attributes:
        main: Whether these are the goals and guardrails; otherwise the diagnostics.
    """

    name: str
    main: bool
    scale: Markup
    slices: tuple[SliceView, ...]


def daily_views(result: Result) -> tuple[SliceView, ...]:
    """Every metric with days, goals and guardrails first."""
    return _slices(result, result.daily, axis=None)


def segment_views(result: Result) -> tuple[SegmentView, ...]:
    """Every segment dimension in the result's order, diagnostics in a view of their own."""
    return slice_views(result, result.segments)


def slice_views(result: Result, rows: Sequence[SliceRow]) -> tuple[SegmentView, ...]:
    """Every dimension of some rows in their order, diagnostics in a view of their own."""
    views = []
    metrics = definitions(result, rows)
    for name in dict.fromkeys(row.slice for row in rows):
        for main in (True, False):
            own = [
                row
                for row in rows
                if row.slice == name and (metrics[row.metric].role != "diagnostic") is main
            ]
            if own:
                views.append(_segment(result, name, main, own))
    return tuple(views)


def _segment(result: Result, name: str, main: bool, rows: Sequence[SliceRow]) -> SegmentView:
    axis = glyph.shared_axis([mark for row in rows if (mark := slice_mark(result, row))])
    return SegmentView(name, main, glyph.scale(axis), _slices(result, rows, axis))


def _slices(
    result: Result, rows: Sequence[SliceRow], axis: glyph.Axis | None
) -> tuple[SliceView, ...]:
    metrics = definitions(result, rows)
    ids = anchors(result.metrics)
    order = [role for role, _, _ in ROLES]
    names = sorted(
        dict.fromkeys(row.metric for row in rows), key=lambda n: order.index(metrics[n].role)
    )
    return tuple(
        _slice(result, metrics[name], ids.get(name, "metric"), rows, axis) for name in names
    )


def _slice(
    result: Result,
    metric: MetricInfo,
    anchor: str,
    rows: Sequence[SliceRow],
    axis: glyph.Axis | None,
) -> SliceView:
    own = [row for row in rows if row.metric == metric.name]
    cells = tuple(_cell(result, row, metric, axis) for row in own)
    return SliceView(metric.name, anchor, metric.role, metric_note(metric), _takeaway(own), cells)


def _cell(result: Result, row: SliceRow, metric: MetricInfo, axis: glyph.Axis | None) -> CellView:
    control, treatment = fmt.pair(row.control, row.treatment, metric.unit)
    return CellView(
        cell=row.cell,
        partial=row.partial,
        variant=row.variant,
        units_control=fmt.count(row.units_control),
        units=fmt.count(row.units),
        control=control,
        treatment=treatment,
        effect=effect_view(row, metric, slice_mark(result, row) if axis else None, axis),
        p=fmt.p_value(row.p_value),
        reason=codes.reason(row.reason),
    )


def _takeaway(rows: Sequence[SliceRow]) -> str:
    """One sentence on the days of a metric: signs and intervals, without a verdict."""
    variants = tuple(dict.fromkeys(row.variant for row in rows))
    clauses = [_days_clause([r for r in rows if r.variant == name]) for name in variants]
    if len(variants) == 1:
        return f"{clauses[0][:1].upper()}{clauses[0][1:]}."
    return "; ".join(f"{v}: {c}" for v, c in zip(variants, clauses, strict=True)) + "."


def _days_clause(rows: Sequence[SliceRow]) -> str:
    full = [row for row in rows if row.difference is not None and not row.partial]
    if not full:
        return "no full day has an effect"
    above = sum(1 for row in full if (row.difference or 0.0) > 0)
    clear = sum(1 for row in full if _clear(row))
    days = f"{len(full)} full {'day' if len(full) == 1 else 'days'}"
    return f"above control on {above} of {days}, with an interval that excludes zero on {clear}"


def _clear(row: SliceRow) -> bool:
    low, high = row.difference_low, row.difference_high
    return low is not None and high is not None and not low <= 0 <= high
