"""Show metrics and effects as text and glyphs, and the scorecard by role."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from abeval.report import assets, glyph, tables
from abeval.report.figures import Block, Closed, of_metrics, places
from abeval.report.next_step import in_order
from abeval.report.tables import Cell, Printed, full, spans
from abeval.results import MetricInfo, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.analysis import ExperimentInfo, Result
from abeval.results.effects import CutRow

DECIDED = frozenset({"better", "worse", "equivalent", "non_inferior"})


def effect_of(row: Row | SliceRow, unit: str, note: str = "") -> Cell:
    """Show the lift of a row, or its difference if there is no lift; the tooltip has all digits."""
    shown = tables.shown_lift(row) or tables.shown_difference(row, unit)
    html = spans(estimate=tables.estimate_of(shown), interval=tables.interval_of(shown), note=note)
    exact = f"lift {full(row.lift)} [{full(row.lift_low)}, {full(row.lift_high)}]"
    return Cell(tables.text_of(shown), html, "effect", exact)


def row_mark(
    info: ExperimentInfo, row: Row, shown: Printed, metric: MetricInfo
) -> glyph.Mark | None:
    """Draw a row of the scorecard, with the interval that decides; None without a lift."""
    if row.lift is None:
        return None
    wide = shown.row
    is_wider = (wide.lift_low, wide.lift_high) != (row.lift_low, row.lift_high)
    name, status = f"{metric.shown}, {row.variant}", codes.status(row.status, row.reason)
    return glyph.Mark(
        row.lift,
        row.lift_low,
        row.lift_high,
        _spoken_label(shown.level, wide, name, status),
        info.alpha,
        places(info).get(row.variant, 1),
        row.status in DECIDED,
        (wide.lift_low, wide.lift_high) if is_wider and wide.lift is not None else None,
        _harm(row, metric),
        math.inf if row.status == "too_little_data" else row.mde or math.inf,
    )


def slice_mark(info: ExperimentInfo, row: SliceRow) -> glyph.Mark | None:
    """Draw a segment or a cut: exploratory, and filled where its interval excludes zero."""
    if row.lift is None:
        return None
    name = f"{row.metric}, {row.cell}, {row.variant}"
    label = _spoken_label(fmt.level(info.alpha), row, name, "exploratory")
    place, clear = places(info).get(row.variant, 1), tables.excludes_zero(row)
    return glyph.Mark(row.lift, row.lift_low, row.lift_high, label, info.alpha, place, clear)


def _spoken_label(level: str, row: Row | SliceRow, name: str, status: str) -> str:
    shown = tables.shown_lift(row)
    numbers = f"{shown.estimate}, {level} interval {shown.span}" if shown else fmt.MISSING
    return f"{name}: lift {numbers}, {status}"


def _harm(row: Row, metric: MetricInfo) -> glyph.Ends:
    """Return the lifts at which a guardrail's margin ends, on its harmful side."""
    size = metric.margin
    if size is not None and not metric.margin_relative:
        size = size / abs(row.control) if row.control else None
    if size is None or metric.role != "guardrail":
        return None, None
    return {"increase": (-size, None), "decrease": (None, size)}.get(metric.direction, (None, None))


class RowView(NamedTuple):
    """A row of the scorecard, or of a segment or cut.

    `of` has its numbers, `absolute` the difference beside a lift.
    """

    of: Row | SliceRow
    metric: MetricInfo
    place: int
    control: str
    treatment: str
    effect: Cell
    mark: glyph.Mark | None
    absolute: str = ""
    reason: str = ""


Rows = tuple[glyph.Axis, list[RowView]]
"""Rows of the scorecard, and the axis that they share."""


def by_role(result: Result) -> list[tuple[str, str, str, Rows]]:
    """Show the scorecard: role, title and hint, and the rows of each on one axis."""
    ordered = in_order(result, result.scorecard)
    of_role = [(one, [row for row in ordered if row.role == one[0]]) for one in tables.ROLES]
    return [(*one, row_views(result, rows)) for one, rows in of_role if rows]


def row_views(result: Result, rows: Sequence[Row]) -> Rows:
    """Show rows on one axis."""
    order, shown = places(result.experiment), tables.printed(result, rows)
    metrics = {row.metric: result.info(row.metric) for row in rows}
    # A control is printed alike beside every variant.
    values: dict[str, list[float | None]] = {}
    for one in shown:
        values.setdefault(one.row.metric, []).extend((one.row.control, one.row.treatment))
    digits = {name: fmt.digits(numbers, metrics[name].unit) for name, numbers in values.items()}
    views = []
    for of, one in zip(rows, shown, strict=True):
        row, metric, decimals = one.row, metrics[of.metric], digits[of.metric]
        absolute = tables.shown_difference(row, metric.unit)
        view = RowView(
            row,
            metric,
            order.get(row.variant, 1),
            fmt.mean(row.control, metric.unit, decimals),
            fmt.mean(row.treatment, metric.unit, decimals) + one.mark,
            effect_of(row, metric.unit),
            row_mark(result.experiment, of, one, metric),
            absolute.text if absolute and row.lift is not None else "",
            one.reason,
        )
        views.append(view)
    return glyph.shared_axis([view.mark for view in views]), views


def slice_blocks(result: Result, rows: Sequence[SliceRow]) -> tuple[Block, ...]:
    """Tabulate the effects of each metric by every dimension, on one axis."""
    order = places(result.experiment)
    blocks: list[tuple[str, Block]] = []
    for name in dict.fromkeys(row.metric for row in rows):
        metric, lines = result.info(name), []
        for row in (row for row in rows if row.metric == name):
            notes = filter(None, ("partial day" * row.partial, codes.reason(row.reason)))
            effect = effect_of(row, metric.unit, ", ".join(notes))
            values = fmt.pair(row.control, row.treatment, metric.unit)
            mark = slice_mark(result.experiment, row)
            lines.append(RowView(row, metric, order.get(row.variant, 1), *values, effect, mark))
        html = assets.block(
            "segments.html",
            result=result,
            metric=metric,
            lines=lines,
            dimensions=list(dict.fromkeys(row.slice for row in rows if row.metric == name)),
            axis=glyph.shared_axis([line.mark for line in lines]),
        )
        blocks.append((name, html))
    return of_metrics(blocks)


def heat_blocks(result: Result, rows: Sequence[SliceRow], opens: str) -> tuple[Block, ...]:
    """Tabulate lifts, metrics × variants × cells, a table for each dimension, shaded by size.

    A metric leads to `opens`, an id of the page.
    """
    blocks: list[Block] = []
    whole = {("", row.metric, row.variant): row for row in result.scorecard}
    for dimension in dict.fromkeys(row.slice for row in rows):
        own = {(r.cell, r.metric, r.variant): r for r in rows if r.slice == dimension}
        judged = {metric for _, metric, _ in own}
        html = assets.block(
            "heat.html",
            dimension=dimension,
            cells=list(dict.fromkeys(["", *(cell for cell, _, _ in own)])),
            variants=list(dict.fromkeys(row.variant for row in result.scorecard)),
            metrics=[result.info(m) for m in dict.fromkeys(m for _, m, _ in whole) if m in judged],
            lifts={**whole, **own},
            tone=_tone,
            opens=opens,
        )
        blocks.append(Closed(f"By {dimension}", (html,), is_open=not blocks))
    return tuple(blocks)


def _tone(metric: MetricInfo, row: SliceRow | Row) -> float:
    """Shade a lift whose interval excludes zero, the more the larger; 20 % and more alike."""
    if row.lift is None or not tables.excludes_zero(row):
        return 0.0
    good = {"increase": 1.0, "decrease": -1.0}.get(metric.direction, 0.0)
    return good * max(-1.0, min(1.0, row.lift / 0.2))


def cut_rows(result: Result) -> list[SliceRow]:
    """Show cuts as segments are shown, with p after Holm."""
    names = {field.name for field in fields(SliceRow)} & {field.name for field in fields(CutRow)}
    return [
        SliceRow(
            **{name: getattr(row, name) for name in names}
            | {"slice": row.cut, "cell": row.cell or "(none)", "partial": False}
            | {"p_value": row.p_adjusted}
        )
        for row in result.cuts
    ]
