"""Cuts as text: the effect in each part of the traffic, and what the mix of the parts did.

`terminal.py` and `analysis_parts.py` hand over a `Result`, and lay out what comes back.
"""

from collections.abc import Iterator, Sequence

from abeval.report.tables import TextTable, units_of
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CutRow, CutSplit

CELLS = 8
"""So many cells of a cut are shown in the terminal."""


def split_tables(result: Result) -> tuple[TextTable, ...]:
    """What changed within cells and by their mix, and which metrics have no cuts."""
    return tuple(table for table in (_splits(result), _without(result)) if table.rows)


def cut_tables(result: Result) -> tuple[TextTable, ...]:
    """The same, after the largest cells of goals and guardrails."""
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
    return TextTable(
        "Cuts",
        "effects in parts of the traffic, of which a unit may see several; p is Holm's over the "
        f"cells of a cut.{more}",
        ("cut", "cell", "metric", "variant", f"lift [{level}]", "p", "share"),
        tuple(
            (
                row.cut,
                row.cell or "(none)",
                row.metric,
                row.variant,
                _effect(row, units.get(row.metric, "")),
                fmt.p_value(row.p_adjusted),
                _shares(row),
            )
            for row in shown
        ),
        ("name", "name", "name", "name", "words", "name", "spare"),
    )


def _largest(rows: Sequence[CutRow]) -> list[CutRow]:
    return sorted(rows, key=lambda row: (-row.units - row.units_control, row.cell))[:CELLS]


def _effect(row: CutRow, unit: str) -> str:
    """The lift, else the difference, else why there is neither."""
    lift = fmt.lift(row.lift, row.lift_low, row.lift_high)
    difference = fmt.difference(row.difference, row.difference_low, row.difference_high, unit)
    shown = lift or difference
    return codes.reason(row.reason) if shown is None else shown.text


def _shares(row: CutRow) -> str:
    if row.share_control is None or row.share is None:
        return fmt.MISSING
    return f"{fmt.percent(row.share_control)} / {fmt.percent(row.share)}"


def _splits(result: Result) -> TextTable:
    units = units_of(result)
    return TextTable(
        "Within cuts, and by their mix",
        "the difference of each ratio is what changed within the cells plus what the variants' mix "
        "of cells did.",
        ("cut", "metric", "variant", "cells", "difference", "within", "mix"),
        tuple(
            (
                split.cut,
                split.metric,
                split.variant,
                str(split.cells),
                *_parts(split, units.get(split.metric, "")),
            )
            for split in result.cut_splits
        ),
        ("name", "name", "name", "spare", "words", "words", "words"),
    )


def _parts(split: CutSplit, unit: str) -> Iterator[str]:
    whole = fmt.difference(split.difference, None, None, unit)
    yield fmt.MISSING if whole is None else whole.estimate
    for value, low, high in (
        (split.within, split.within_low, split.within_high),
        (split.mix, split.mix_low, split.mix_high),
    ):
        shown = fmt.difference(value, low, high, unit)
        if shown is None or low is None:
            yield f"{fmt.MISSING if shown is None else shown.estimate} {codes.reason(split.reason)}"
        else:
            yield shown.text


def _without(result: Result) -> TextTable:
    return TextTable(
        "Without cuts",
        "metrics that parts of the traffic do not have.",
        ("metric", "why"),
        tuple((one.metric, one.reason) for one in result.without_cuts),
        ("name", "words"),
    )
