"""A history of experiments as one HTML file that works offline.

The `HistoryReport` comes from `write_report` (`report/__init__.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from abeval.report import assets, history_page
from abeval.report.figures import FigureView
from abeval.report.history_short import (
    GAINED,
    PREDICTIONS,
    SENSITIVITY,
    gained_cells,
    prediction_cells,
    sensitivity_cells,
)
from abeval.results import format as fmt
from abeval.results.history import HistoryEffect, HistoryReport, Prediction

_SIDES = {
    "offline": "Offline against online",
    "early": "First against last days",
}


@dataclass(frozen=True)
class TableView:
    """A table of the page.

    Attributes:
        title: Its heading.
        heads: Headers.
        rows: Cells.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def history_page_html(result: HistoryReport) -> str:
    """The whole page."""
    return assets.render_page(
        "history.html",
        draws=True,
        result=result,
        level=fmt.level(result.alpha),
        predictions=_prediction_tables(result),
        sensitivity=TableView(
            "Sensitivity", SENSITIVITY, tuple(map(sensitivity_cells, result.sensitivity))
        ),
        gained=TableView("Gained", GAINED, tuple(map(gained_cells, result.gained))),
        scatters=_scatters(result),
        forests=_forests(result),
    )


def _prediction_tables(result: HistoryReport) -> tuple[TableView, ...]:
    sides = {
        title: tuple(prediction_cells(p) for p in result.predictions if p.side == side)
        for side, title in _SIDES.items()
    }
    return tuple(TableView(title, PREDICTIONS, rows) for title, rows in sides.items() if rows)


def _scatters(result: HistoryReport) -> tuple[FigureView, ...]:
    """One a target: its best predictor, or the one with the highest correlation."""
    views = []
    for i, row in enumerate(_drawn(result)):
        pairs = _pairs(result.effects, row)
        drawn = history_page.scatter_figure(row, pairs)
        title = f"{row.predictor} and {row.target}"
        corrected, ends = fmt.estimate(row.correlation, row.low, row.high)
        naive = fmt.MISSING if row.naive is None else f"{row.naive:.2f}"
        sentence = f"Correlation of true effects {corrected} {ends}; of the estimates {naive}."
        cells = tuple(_pair_cells(one, other) for one, other in pairs)
        heads = ("experiment", "variant", row.predictor, row.target)
        views.append(FigureView(f"pair{i}", title, sentence, drawn, heads=heads, rows=cells))
    return tuple(views)


def _drawn(result: HistoryReport) -> list[Prediction]:
    fitted = [row for row in result.predictions if row.correlation is not None]
    best = {(choice.target, choice.side): choice.best for choice in result.choices}
    targets = dict.fromkeys((row.target, row.side) for row in fitted)
    drawn = []
    for key in targets:
        rows = [row for row in fitted if (row.target, row.side) == key]
        named = [row for row in rows if row.predictor == best.get(key)]
        drawn.append(named[0] if named else max(rows, key=lambda row: abs(row.quality or 0.0)))
    return drawn


def _pairs(
    effects: Sequence[HistoryEffect], row: Prediction
) -> list[tuple[HistoryEffect, HistoryEffect]]:
    by_case = {(e.experiment, e.variant): e for e in effects if e.measure == row.target}
    own = [e for e in effects if e.measure == row.predictor and e.side == row.side]
    return [
        (e, by_case[e.experiment, e.variant]) for e in own if (e.experiment, e.variant) in by_case
    ]


def _pair_cells(one: HistoryEffect, other: HistoryEffect) -> tuple[str, ...]:
    before = fmt.difference(one.effect, one.low, one.high)
    if one.side != "offline":
        before = fmt.lift(one.effect, one.low, one.high)
    after = fmt.lift(other.effect, other.low, other.high)
    shown = (fmt.MISSING if cell is None else cell.text for cell in (before, after))
    return (one.experiment, one.variant, *shown)


def _forests(result: HistoryReport) -> tuple[FigureView, ...]:
    views = []
    for i, row in enumerate(result.gained):
        own = [e for e in result.effects if (e.measure, e.side) == (row.metric, "online")]
        shrunk = [e for e in own if e.shrunk is not None]
        if not shrunk:
            continue
        total = fmt.lift(row.gained, row.low, row.high)
        really = fmt.MISSING if total is None else total.text
        sentence = (
            f"{row.shipped} shipped: {100 * row.naive:+.2f}% as measured, really {really}. "
            "An asterisk marks what was shipped."
        )
        drawn = history_page.forest_figure(shrunk)
        heads = ("experiment", "variant", "measured", "shrunk", "shipped")
        cells = tuple(_effect_cells(one) for one in shrunk)
        views.append(FigureView(f"forest{i}", row.metric, sentence, drawn, heads=heads, rows=cells))
    return tuple(views)


def _effect_cells(one: HistoryEffect) -> tuple[str, ...]:
    measured = fmt.lift(one.effect, one.low, one.high)
    shrunk = fmt.lift(one.shrunk, one.shrunk_low, one.shrunk_high)
    shown = (fmt.MISSING if cell is None else cell.text for cell in (measured, shrunk))
    return (one.experiment, one.variant, *shown, "yes" if one.shipped else "")
