"""Tables of text that the terminal and the page share, beside the scorecard.

`terminal.py` and `page.py` hand over a `Result`, and lay out what comes back.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from abeval.report.layout import Kind
from abeval.results import Adjustment, FamilyInterval, Row, SegmentContrast, SegmentTest, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result

ROLES = (
    ("goal", "Goals", "what the experiment is meant to move"),
    ("guardrail", "Guardrails", "what it must not harm"),
    ("diagnostic", "Diagnostics", "what helps to understand the result; no verdict uses these"),
)
"""Role, title and hint of each part of the scorecard."""


_ENDS = ("difference_low", "difference_high", "lift_low", "lift_high")


class TextTable(NamedTuple):
    """A table, formatted as text.

    Attributes:
        title: Its heading.
        lead: What it shows, in one sentence.
        headers: Of its columns.
        rows: A cell for each column.
        kinds: How columns give way on a narrow terminal; those without one keep every letter.
    """

    title: str
    lead: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kinds: tuple[Kind, ...] = ()


def decisive_p(row: Row) -> float | None:
    """The p-value that the status of a row follows: adjusted for goals."""
    return row.p_value if row.p_adjusted is None else row.p_adjusted


class Printed(NamedTuple):
    """A row as it is printed: numbers that fit together, and the interval that decides.

    Attributes:
        row: With the treatment that control and an adjusted difference make, and the interval that
            the status follows.
        mark: Behind the treatment, if it is not the observed one.
        reason: In words, with the level of the interval if it is another one.
        level: Of the interval.
    """

    row: Row
    mark: str
    reason: str
    level: str


def printed(result: Result, rows: Iterable[Row]) -> list[Printed]:
    """Rows as they are printed; the JSON has the observed value and the uncorrected interval."""
    adjusted = {(one.metric, one.variant) for one in result.adjustments if one.method != "cap"}
    wide = {(one.metric, one.variant): one for one in result.family_intervals}
    level = fmt.level(result.experiment.alpha)
    return [
        _printed(
            row, level, (row.metric, row.variant) in adjusted, wide.get((row.metric, row.variant))
        )
        for row in rows
    ]


def _printed(row: Row, level: str, adjusted: bool, wide: FamilyInterval | None) -> Printed:
    reason, mark = codes.reason(row.reason, row.units_needed), ""
    if adjusted and row.control is not None and row.difference is not None:
        row, mark = replace(row, treatment=row.control + row.difference), " adj"
    own = level if wide is None else fmt.level(float(f"{1 - wide.level:.3g}"))
    if wide is not None and own != level:
        # Results of earlier versions have no ends of the lift: they show the difference.
        lift = None if wide.lift_low is None else row.lift
        row = replace(row, lift=lift, **{name: getattr(wide, name) for name in _ENDS})
        reason = ": ".join(filter(None, (reason, f"{own} interval")))
    return Printed(row, mark, reason, own)


def tables(result: Result) -> tuple[TextTable, ...]:
    """The tables that have rows."""
    return _filled(result, _adjustments, _boundaries, _beliefs)


def segment_tables(result: Result) -> tuple[TextTable, ...]:
    """The tables about segments that have rows."""
    return _filled(result, _segment_tests, _contrasts)


def _filled(result: Result, *makers: Callable[[Result], TextTable]) -> tuple[TextTable, ...]:
    return tuple(table for make in makers if (table := make(result)).rows)


def units_of(result: Result) -> dict[str, str]:
    """Metric → the unit of its value."""
    return {metric.name: metric.unit for metric in result.metrics}


def _difference(row: Adjustment | Row | SegmentContrast, unit: str) -> str:
    shown = fmt.difference(row.difference, row.difference_low, row.difference_high, unit)
    return fmt.MISSING if shown is None else shown.text


def _adjustments(result: Result) -> TextTable:
    units = units_of(result)
    rows = []
    for change in result.adjustments:
        unit, row = units.get(change.metric, ""), result[change.metric, change.variant]
        rows.append(
            (
                change.metric,
                change.variant,
                change.method,
                _difference(change, unit),
                _difference(row, unit),
                f"{fmt.p_value(change.p_value)}, {fmt.p_value(row.p_value)}",
                changes(change, unit),
            )
        )
    return TextTable(
        "Adjustments",
        "each difference without variance reduction and caps, and with them.",
        ("metric", "variant", "by", "without", "with", "p without, with", "what changed"),
        tuple(rows),
        ("name", "name", "words", "name", "name", "name", "words"),
    )


def changes(change: Adjustment, unit: str) -> str:
    """What an adjustment removed, its coefficients, and caps."""
    parts = []
    if change.variance_removed is not None:
        parts.append(f"{fmt.percent(change.variance_removed)} of the variance removed")
    if change.theta:
        parts.append("theta " + ", ".join(f"{theta:.3g}" for theta in change.theta))
    if change.cap is not None:
        cap = f"capped at {fmt.mean(change.cap, '' if unit in fmt.RATE_UNITS else unit)}"
        denominator = change.cap_denominator
        parts.append(cap if denominator is None else f"{cap} over {fmt.mean(denominator)}")
    return "; ".join(parts)


def _boundaries(result: Result) -> TextTable:
    return TextTable(
        "This look",
        "the effect in standard errors, and the boundary at this look.",
        ("metric", "variant", "information", "z", "boundary", "crossed"),
        tuple(
            (
                look.metric,
                look.variant,
                _information(look.information),
                f"{look.z:+.2f}",
                f"{look.boundary:.2f}",
                "yes" if look.crossed else "no",
            )
            for look in result.boundaries
        ),
    )


def _information(share: float) -> str:
    return fmt.percent(share) if share <= 1 else f"{share:,.3g}×"


def _beliefs(result: Result) -> TextTable:
    rows = []
    for belief in result.beliefs:
        lift = fmt.lift(belief.lift, belief.lift_low, belief.lift_high)
        rows.append(
            (
                belief.metric,
                belief.variant,
                fmt.MISSING if lift is None else lift.text,
                f"{100 * belief.chance_to_beat_control:.1f}%",
                f"{100 * belief.expected_loss:.3g}%",
                f"{100 * belief.expected_loss_of_control:.3g}%",
            )
        )
    lead = ""
    if result.beliefs:
        first = result.beliefs[0]
        lead = (
            f"with the prior that a lift is normal around {100 * first.prior_mean:g}%, standard "
            f"deviation {100 * first.prior_sd:g}%: a credible interval, the probability to be "
            "better, and the average loss of each choice."
        )
    headers = ("metric", "variant", "lift", "beats control", "loss", "loss with control")
    return TextTable("Beliefs", lead, headers, tuple(rows))


def _segment_tests(result: Result) -> TextTable:
    return TextTable(
        "Segments",
        "one effect in all of them? Cochran's Q on lifts, or on differences where control is near "
        "zero or negative, of cells with 30 units in each variant; Holm over this table; I2: share "
        "of the variation that is not noise.",
        ("segment", "metric", "variant", "cells", "scale", "Q", "p", "I2", "mix of cells"),
        tuple(
            (
                test.segment,
                test.metric,
                test.variant,
                _tested(test),
                test.scale,
                f"{test.q:.2f}",
                fmt.p_value(test.p_adjusted),
                fmt.percent(test.i_squared),
                _mix(test),
            )
            for test in result.segment_tests
        ),
        ("name", "name", "name", "spare", "spare", "spare", "name", "spare", "words"),
    )


def _tested(test: SegmentTest) -> str:
    """How many cells were tested, and of how many if not of all."""
    every = test.cells + test.cells_left_out
    return str(test.cells) if test.cells == every else f"{test.cells} of {every}"


def _mix(test: SegmentTest) -> str:
    if test.reversed:
        return f"REVERSES the difference (Simpson), p {fmt.p_value(test.reversal_p_value)}"
    return f"p {fmt.p_value(test.mix_p_value)}"


def _contrast(one: SegmentContrast, unit: str) -> str:
    """How much larger the lift is than that of the others, or the difference of differences."""
    lift = fmt.lift(one.lift, one.lift_low, one.lift_high)
    return _difference(one, unit) if lift is None else lift.text


def _contrasts(result: Result) -> TextTable:
    units, alpha = units_of(result), result.experiment.alpha
    clear = [contrast for contrast in result.segment_contrasts if contrast.p_adjusted <= alpha]
    return TextTable(
        "Segments that differ from the rest",
        "lift in the segment against the lift in all others (differences where there is no lift), "
        "where p after Holm is below alpha.",
        ("segment", "cell", "metric", "variant", "against the others", "p"),
        tuple(
            (
                one.segment,
                one.cell,
                one.metric,
                one.variant,
                _contrast(one, units.get(one.metric, "")),
                fmt.p_value(one.p_adjusted),
            )
            for one in clear
        ),
    )
