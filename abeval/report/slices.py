"""Show segments and cuts: a table for each metric, and one of lifts for each dimension."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from abeval.report import assets, glyph, tables
from abeval.report.effects import effect_of, slice_mark
from abeval.report.figures import Block, Closed, of_metrics, places
from abeval.report.tables import Cell
from abeval.results import MetricInfo, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CutRow


class SliceLine(NamedTuple):
    """An effect in one cell of a segment or cut, as the page shows it."""

    of: SliceRow
    place: int
    control: str
    treatment: str
    effect: Cell
    mark: glyph.Mark | None


def slice_blocks(result: Result, rows: Sequence[SliceRow]) -> tuple[Block, ...]:
    """Tabulate the effects of each metric by every dimension, on one axis."""
    order = places(result.experiment)
    blocks: list[tuple[str, Block]] = []
    for name in dict.fromkeys(row.metric for row in rows):
        metric, lines = result.info(name), []
        for row in (row for row in rows if row.metric == name):
            notes = filter(None, ("partial day" * row.partial, codes.reason(row.reason)))
            line = SliceLine(
                row,
                order.get(row.variant, 1),
                *fmt.pair(row.control, row.treatment, metric.unit),
                effect_of(row, metric.unit, ", ".join(notes)),
                slice_mark(result.experiment, row),
            )
            lines.append(line)
        html = assets.block(
            "segments.html",
            result=result,
            metric=metric,
            lines=lines,
            dimensions=list(dict.fromkeys(line.of.slice for line in lines)),
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
    return [_as_slice(row) for row in result.cuts]


def _as_slice(row: CutRow) -> SliceRow:
    own: dict[str, Any] = {"slice": row.cut, "cell": row.cell or "(none)", "partial": False}
    own["p_value"] = row.p_adjusted
    same = {field.name for field in fields(SliceRow)} - own.keys()
    return SliceRow(**own, **{name: getattr(row, name) for name in same})
