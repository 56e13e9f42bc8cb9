"""Effects over time as short tables: is each effect stable, and how large is it a day.

`short.py` asks for them.
"""

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from abeval.report.layout import Kind
from abeval.report.tables import TextTable
from abeval.results import codes
from abeval.results import format as fmt

if TYPE_CHECKING:
    from abeval.results.windows import EventRow, Novelty, Stability, TimeResult

ROWS = 20
"""Metrics of a short table; effects that change are shown however many there are."""

_WHY: tuple[Kind, ...] = ("words",)
_CHANGES = ("settling", "drifting")


def time_tables(result: "TimeResult", whole: bool) -> tuple[TextTable | str, ...]:
    """The stability of effects; with `whole`, all of its evidence."""
    rows = [
        row
        for i, row in enumerate(result.stability)
        if whole or i < ROWS or row.verdict in _CHANGES
    ]
    tables: list[TextTable | str] = [_evidence(result, rows) if whole else _short(result, rows)]
    if hidden := len(result.stability) - len(rows):
        tables.append(f"{hidden} more: --all")
    novelty = [row for row in result.novelty if whole or row.word is not None]
    tables += [_novelty(result, novelty)] if novelty else []
    tables += [_events(result.events)] if result.events else []
    return (*tables, *(_rhythm(result, i) for i in range(len(result.rhythms))))


def _short(result: "TimeResult", rows: "list[Stability]") -> TextTable:
    return TextTable(
        "Stability",
        f"the mean daily effect with {fmt.level(result.alpha)} interval, and whether it changed.",
        ("metric", "variant", "verdict", "effect", "why"),
        tuple(
            (
                row.metric,
                row.variant,
                codes.words(row.verdict),
                _effect(row, result.alpha),
                row.reason,
            )
            for row in rows
        ),
        ("name", "name", "name", "name", "note"),
    )


def _evidence(result: "TimeResult", rows: "list[Stability]") -> TextTable:
    """Every test of stability."""
    headers = (
        *("metric", "variant", "verdict", "effect", "days", "weeks", "late less early"),
        *("p one effect", "p slope", "p change", "p rhythm", "change", "shocks", "same sign"),
        *("same conclusion", "settled after days", "days needed", "why"),
    )
    names: tuple[Kind, ...] = ("name",)
    kinds = (*names * (len(headers) - 1), *_WHY)
    return TextTable(
        "Stability",
        f"the mean daily effect with {fmt.level(result.alpha)} interval, and the tests of change.",
        headers,
        tuple(_evidence_cells(row, result.alpha) for row in rows),
        kinds,
    )


def _evidence_cells(row: "Stability", alpha: float) -> tuple[str, ...]:
    late = (row.late_less_early, row.late_less_early_low, row.late_less_early_high)
    tests = (row.wald_p_value, row.slope_p_value, row.change_p_value, row.rhythm_p_value)
    return (
        *(row.metric, row.variant, codes.words(row.verdict), _effect(row, alpha)),
        *(str(row.days), str(row.weeks), _in_scale(row.scale, *late)),
        *("" if p is None else fmt.p_value(p) for p in tests),
        *(row.change or "", ", ".join(row.shocks)),
        *("" if x is None else fmt.percent(x) for x in (row.sign_share, row.significance_share)),
        "" if row.window_days is None else str(row.window_days),
        "" if row.days_needed is None else f"{row.days_needed:,.0f}",
        row.reason,
    )


def _effect(row: "Stability", alpha: float) -> str:
    if row.effect is None or row.effect_se is None:
        return ""
    reach = NormalDist().inv_cdf(1 - alpha / 2) * row.effect_se
    return _in_scale(row.scale, row.effect, row.effect - reach, row.effect + reach)


def _in_scale(scale: str | None, value: float | None, low: float | None, high: float | None) -> str:
    """An effect as a lift where it is a logarithm of a ratio, else as a difference."""
    if value is None:
        return ""
    if scale == "relative":
        ends = (None if end is None else math.expm1(end) for end in (low, high))
        shown = fmt.lift(math.expm1(value), *ends)
    else:
        shown = fmt.difference(value, low, high)
    return "" if shown is None else shown.text


def _novelty(result: "TimeResult", rows: "list[Novelty]") -> TextTable:
    return TextTable(
        "Novelty",
        "effects that change with the days since a unit's entry.",
        (
            "metric",
            "variant",
            "units entered",
            "word",
            "p",
            "at entry",
            "in the long run",
            "why not",
        ),
        tuple(
            (
                *(
                    row.metric,
                    row.variant,
                    row.cohort,
                    row.word or "none",
                    fmt.p_value(row.p_value),
                ),
                _in_scale(row.scale, row.start, None, None).partition(" [")[0],
                _in_scale(row.scale, row.long_run, row.long_run_low, row.long_run_high),
                codes.reason(row.reason),
            )
            for row in rows
        ),
        ("name", "name", "name", "name", "name", "spare", "name", "note"),
    )


def _events(rows: "tuple[EventRow, ...]") -> TextTable:
    return TextTable(
        "Events",
        "the daily effect inside an event less that outside.",
        ("metric", "variant", "event", "difference", "p", "why not"),
        tuple(
            (
                *(row.metric, row.variant, row.event),
                _in_scale(row.scale, row.difference, row.difference_low, row.difference_high),
                fmt.p_value(row.p_value),
                codes.reason(row.reason),
            )
            for row in rows
        ),
        ("name", "name", "name", "name", "name", "note"),
    )


def _rhythm(result: "TimeResult", place: int) -> str:
    test = result.rhythms[place]
    same = (
        codes.reason(test.reason)
        if test.p_value is None
        else f"one effect in all: p {fmt.p_value(test.p_value)}"
    )
    return f"{test.metric}, {test.variant}, {test.parts} by {test.by}: {same}"
