"""Show days, segments and cuts, formatted as text."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from abeval.report import assets, effects, glyph, tables
from abeval.report.effects import effect_of, slice_mark
from abeval.report.figures import Block, Closed, of_metrics, places
from abeval.report.tables import (
    Cell,
    TextTable,
    estimate_of,
    interval,
    table,
    text_of,
    units_of,
)
from abeval.results import MetricInfo, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CutRow, CutSplit


class SliceLine(NamedTuple):
    """An effect in one cell of a segment or cut, as the page shows it."""

    of: SliceRow
    place: int
    units: str
    control: str
    treatment: str
    effect: Cell
    drawing: str
    p: str


def slice_blocks(result: Result, rows: Sequence[SliceRow]) -> tuple[Block, ...]:
    """Tabulate the effects of each metric by every dimension, on one axis."""
    metrics, order = effects.definitions(result, rows), places(result.experiment)
    several = len({row.variant for row in result.scorecard}) > 1
    blocks: list[tuple[str, Block]] = []
    for name in dict.fromkeys(row.metric for row in rows):
        own = [row for row in rows if row.metric == name]
        of_dimension: dict[str, list[SliceRow]] = {}
        for row in own:
            of_dimension.setdefault(row.slice, []).append(row)
        scale, drawings = glyph.column([slice_mark(result.experiment, row) for row in own])
        drawing_of = dict(zip(map(id, own), drawings, strict=True))
        dimensions = [
            (one, [_line(r, metrics[name].unit, order, drawing_of[id(r)]) for r in lines])
            for one, lines in of_dimension.items()
        ]
        html = assets.block(
            "segments.html",
            metric=metrics[name],
            note=effects.metric_note(metrics[name]),
            dimensions=dimensions,
            scale=scale,
            several=several,
            level=fmt.level(result.experiment.alpha),
        )
        blocks.append((name, html))
    return of_metrics(blocks)


def _line(row: SliceRow, unit: str, order: Mapping[str, int], drawing: str) -> SliceLine:
    control, treatment = fmt.pair(row.control, row.treatment, unit)
    notes = filter(None, ("partial day" * row.partial, codes.reason(row.reason)))
    return SliceLine(
        row,
        order.get(row.variant, 1),
        f"{fmt.count(row.units_control)} / {fmt.count(row.units)}",
        control,
        treatment,
        effect_of(row, unit, ", ".join(notes)),
        drawing,
        fmt.p_value(row.p_value),
    )


class HeatCell(NamedTuple):
    """A lift in a table of many: its text, what to say of it, and how good it is, -1 to 1."""

    text: str
    said: str
    tone: float


def heat_blocks(result: Result, rows: Sequence[SliceRow]) -> tuple[Block, ...]:
    """Tabulate lifts, metrics × variants × cells, a table for each dimension, shaded by size."""
    names = [row.metric for row in result.scorecard]
    metrics = effects.definitions(result, rows)
    blocks: list[Block] = []
    variants = list(dict.fromkeys(row.variant for row in result.scorecard))
    whole = {("", row.metric, row.variant): row for row in result.scorecard}
    for dimension in dict.fromkeys(row.slice for row in rows):
        own = {(r.cell, r.metric, r.variant): r for r in rows if r.slice == dimension}
        lifts: dict[tuple[str, str, str], Row | SliceRow] = {**whole, **own}
        cells = list(dict.fromkeys(cell for cell, _, _ in own))
        judged = {metric for _, metric, _ in own}
        heat = [
            (metrics[name], [_heat(metrics[name], lifts.get((c, name, v))) for c, v in columns])
            for columns in [[(cell, variant) for cell in ("", *cells) for variant in variants]]
            for name in dict.fromkeys(names)
            if name in judged
        ]
        html = assets.block(
            "heat.html", dimension=dimension, cells=("all", *cells), variants=variants, rows=heat
        )
        blocks.append(Closed(f"By {dimension}", (html,), is_open=not blocks))
    return tuple(blocks)


def _heat(metric: MetricInfo, row: SliceRow | Row | None) -> HeatCell:
    """Shade a lift whose interval excludes zero, the more the larger; 20 % and more alike."""
    shown = None if row is None else tables.shown_lift(row)
    if row is None or shown is None or row.lift is None:
        return HeatCell("", "", 0.0)
    good = {"increase": 1.0, "decrease": -1.0}.get(metric.direction, 0.0)
    tone = good * max(-1.0, min(1.0, row.lift / 0.2)) if tables.excludes_zero(row) else 0.0
    return HeatCell(shown.estimate, shown.text, tone)


def cut_rows(result: Result) -> list[SliceRow]:
    """Show cuts as segments are shown, with p after Holm."""
    return [_as_slice(row) for row in result.cuts]


def _as_slice(row: CutRow) -> SliceRow:
    own: dict[str, Any] = {"slice": row.cut, "cell": row.cell or "(none)", "partial": False}
    own["p_value"] = row.p_adjusted
    same = {field.name for field in fields(SliceRow)} - own.keys()
    return SliceRow(**own, **{name: getattr(row, name) for name in same})


CELLS = 8
"""So many cells of a cut are shown in the terminal."""


def split_tables(result: Result) -> tuple[TextTable, ...]:
    """Tabulate what changed within cells and by their mix, and which metrics have no cuts."""
    return tuple(table for table in (_splits(result), _without(result)) if table.rows)


def cut_tables(result: Result) -> tuple[TextTable, ...]:
    """Tabulate the same, after the largest cells of goals and guardrails."""
    cells = _cells(result)
    return (*((cells,) if cells.rows else ()), *split_tables(result))


def _cells(result: Result) -> TextTable:
    units, level = units_of(result), fmt.level(result.experiment.alpha)
    judged = {metric.name for metric in result.metrics if metric.role != "diagnostic"}
    rows = [row for row in result.cuts if row.metric in judged]
    keys = dict.fromkeys((row.cut, row.metric, row.variant) for row in rows)
    shown = [
        row
        for key in keys
        for row in _largest([r for r in rows if (r.cut, r.metric, r.variant) == key])
    ]
    more = "" if len(shown) == len(rows) else f" The {CELLS} that most units saw."
    return table(
        "Cuts",
        "effects in parts of the traffic, of which a unit may see several; p is Holm's over the "
        f"cells of a cut.{more}",
        shown,
        "cut",
        ("cell", lambda row: row.cell or "(none)"),
        *("metric", "variant"),
        (f"lift [{level}]", lambda row: _effect(row, units.get(row.metric, "")), "words"),
        ("p", lambda row: fmt.p_value(row.p_adjusted)),
        ("share", _shares, "spare"),
    )


def _largest(rows: Sequence[CutRow]) -> list[CutRow]:
    return sorted(rows, key=lambda row: (-row.units - row.units_control, row.cell))[:CELLS]


def _effect(row: CutRow, unit: str) -> str:
    """Write the lift, else the difference, else why there is neither."""
    shown = tables.shown_lift(row) or tables.shown_difference(row, unit)
    return text_of(shown, codes.reason(row.reason))


def _shares(row: CutRow) -> str:
    if row.share_control is None or row.share is None:
        return fmt.MISSING
    return f"{fmt.percent(row.share_control)} / {fmt.percent(row.share)}"


def _splits(result: Result) -> TextTable:
    units = units_of(result)

    def part(split: CutSplit, name: str) -> str:
        value, low, high = interval(split, name)
        shown = fmt.difference(value, low, high, units.get(split.metric, ""))
        if shown is not None and low is not None:
            return shown.text
        return f"{estimate_of(shown)} {codes.reason(split.reason)}"

    def whole(split: CutSplit) -> str:
        unit = units.get(split.metric, "")
        return estimate_of(fmt.difference(split.difference, None, None, unit))

    return table(
        "Within cuts, and by their mix",
        "the difference of each ratio is what changed within the cells plus what the variants' mix "
        "of cells did.",
        result.cut_splits,
        *("cut", "metric", "variant"),
        ("cells", lambda split: str(split.cells), "spare"),
        ("difference", whole, "words"),
        ("within", lambda split: part(split, "within"), "words"),
        ("mix", lambda split: part(split, "mix"), "words"),
    )


def _without(result: Result) -> TextTable:
    return table(
        "Without cuts",
        "metrics that parts of the traffic do not have.",
        result.without_cuts,
        "metric",
        ("why", lambda one: one.reason, "words"),
    )
