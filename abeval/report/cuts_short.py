"""Tabulate cuts: effects in parts of the traffic, what changed within them and by their mix."""

from abeval.report import tables
from abeval.report.tables import TextTable, estimate_of, interval, table, text_of, with_rows
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CutRow, CutSplit

CELLS = 8
"""So many cells of a cut are shown in the terminal."""


def split_tables(result: Result) -> tuple[TextTable, ...]:
    """Tabulate what changed within cells and by their mix, and which metrics have no cuts."""
    return with_rows(_splits(result), _without(result))


def cut_tables(result: Result) -> tuple[TextTable, ...]:
    """Tabulate the same, after the largest cells of goals and guardrails."""
    return (*with_rows(_cells(result)), *split_tables(result))


def _cells(result: Result) -> TextTable:
    level = fmt.level(result.experiment.alpha)
    judged = {metric.name for metric in result.metrics if metric.role != "diagnostic"}
    rows = [row for row in result.cuts if row.metric in judged]
    by_key: dict[tuple[str, str, str], list[CutRow]] = {}
    for row in sorted(rows, key=lambda row: (-row.units - row.units_control, row.cell)):
        by_key.setdefault((row.cut, row.metric, row.variant), []).append(row)
    keys = dict.fromkeys((row.cut, row.metric, row.variant) for row in rows)
    shown = [row for key in keys for row in by_key[key][:CELLS]]
    more = "" if len(shown) == len(rows) else f" The {CELLS} that most units saw."
    return table(
        "Cuts",
        "effects in parts of the traffic, of which a unit may see several; p is Holm's over the "
        f"cells of a cut.{more}",
        shown,
        "cut",
        ("cell", lambda row: row.cell or "(none)"),
        *("metric", "variant"),
        (f"lift [{level}]", lambda row: _effect(row, result.info(row.metric).unit), "words"),
        ("p", lambda row: fmt.p_value(row.p_adjusted)),
        ("share", _shares, "spare"),
    )


def _effect(row: CutRow, unit: str) -> str:
    """Write the lift, else the difference, else why there is neither."""
    shown = tables.shown_lift(row) or tables.shown_difference(row, unit)
    return text_of(shown, codes.reason(row.reason))


def _shares(row: CutRow) -> str:
    if row.share_control is None or row.share is None:
        return fmt.MISSING
    return f"{fmt.percent(row.share_control)} / {fmt.percent(row.share)}"


def _splits(result: Result) -> TextTable:
    def part(split: CutSplit, name: str) -> str:
        value, low, high = interval(split, name)
        shown = fmt.difference(value, low, high, result.info(split.metric).unit)
        if shown is not None and low is not None:
            return shown.text
        return f"{estimate_of(shown)} {codes.reason(split.reason)}"

    def whole(split: CutSplit) -> str:
        unit = result.info(split.metric).unit
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
