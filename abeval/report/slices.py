"""Show days, segments and cuts, formatted as text."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from abeval.report import effects, glyph, tables
from abeval.report.effects import effect_of, slice_mark
from abeval.report.tables import (
    ROLES,
    Column,
    TextTable,
    estimate_of,
    interval,
    numbers,
    table,
    text_of,
    units_of,
)
from abeval.results import SliceRow, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CutRow, CutSplit


class SliceView(NamedTuple):
    """One metric's days, or its segments."""

    metric: str
    anchor: str
    note: str
    takeaway: str
    table: TextTable


class SegmentView(NamedTuple):
    """One segment dimension: each metric's effect in each of its values, on one axis.

    `main` is whether these are the goals and guardrails; otherwise the diagnostics.
    """

    name: str
    main: bool
    scale: str
    slices: tuple[SliceView, ...]


def daily_views(result: Result) -> tuple[SliceView, ...]:
    """Show every metric with days, goals and guardrails first."""
    return _slices(result, result.daily, [""] * len(result.daily))


def slice_views(result: Result, rows: Sequence[SliceRow]) -> tuple[SegmentView, ...]:
    """Show every dimension of some rows in order, diagnostics in a view of their own."""
    views = []
    metrics = effects.definitions(result, rows)
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
    scale, drawings = glyph.column([slice_mark(result, row) for row in rows])
    return SegmentView(name, main, scale, _slices(result, rows, drawings))


def _slices(
    result: Result, rows: Sequence[SliceRow], drawings: Sequence[str]
) -> tuple[SliceView, ...]:
    metrics, ids = effects.definitions(result, rows), effects.anchors(result.metrics)
    order = [role for role, _, _ in ROLES]
    names = dict.fromkeys(row.metric for row in rows)
    views = []
    for name in sorted(names, key=lambda name: order.index(metrics[name].role)):
        own = [one for one in zip(rows, drawings, strict=True) if one[0].metric == name]
        said, note = _takeaway([row for row, _ in own]), effects.metric_note(metrics[name])
        shown = _table(result, metrics[name].unit, own)
        views.append(SliceView(name, ids.get(name, "metric"), note, said, shown))
    return tuple(views)


def _table(result: Result, unit: str, rows: Sequence[tuple[SliceRow, str]]) -> TextTable:
    """Tabulate effects, each beside its drawing; with variants where there are several."""

    def effect(row: SliceRow) -> str:
        notes = filter(None, ("partial day" * row.partial, codes.reason(row.reason)))
        return effect_of(row, unit, ", ".join(notes))

    variant: tuple[Column[tuple[SliceRow, str]], ...] = (("variant", lambda one: one[0].variant),)
    several = len({row.variant for row in result.scorecard}) > 1
    return numbers(
        rows,
        ("day", lambda one: one[0].cell),
        *(variant if several else ()),
        ("units", lambda one: f"{fmt.count(one[0].units_control)} / {fmt.count(one[0].units)}"),
        ("control", lambda one: fmt.pair(one[0].control, one[0].treatment, unit)[0]),
        ("treatment", lambda one: fmt.pair(one[0].control, one[0].treatment, unit)[1]),
        (f"lift [{fmt.level(result.experiment.alpha)} interval]", lambda one: effect(one[0])),
        ("", lambda one: one[1]),
        ("p", lambda one: fmt.p_value(one[0].p_value)),
    )


def _takeaway(rows: Sequence[SliceRow]) -> str:
    """Say in one sentence what days show: signs and intervals, without a verdict."""
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
    clear = sum(map(tables.excludes_zero, full))
    days = f"{len(full)} full {'day' if len(full) == 1 else 'days'}"
    return f"above control on {above} of {days}, with an interval that excludes zero on {clear}"


def cut_views(result: Result) -> tuple[SegmentView, ...]:
    """Show cuts as segments are shown, with p after Holm."""
    return slice_views(result, [_as_slice(row) for row in result.cuts])


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
