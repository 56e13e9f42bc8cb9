"""Make tables of text, and write the effects in their cells."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

from markupsafe import Markup, escape

from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import ExperimentInfo, MetricInfo, Pair, Result
from abeval.results.effects import Adjustment, CutRow, CutSplit, Row, SegmentContrast, SegmentTest
from abeval.results.interleaving import PreferenceRow
from abeval.results.record import group_rows
from abeval.results.trust import AAMetric, Check

ROLES = (
    ("goal", "Goals", "what the experiment is meant to move"),
    ("guardrail", "Guardrails", "what it must not harm"),
    ("diagnostic", "Diagnostics", "what helps to understand the result; no verdict uses these"),
)
"""Role, title and hint of each part of the scorecard."""


Kind = Literal["name", "number", "spare", "extra", "words", "note"]
"""How a column gives way where there is little room.

`name` and `number` are never broken; `words` is a sentence that takes several lines. A `spare`
number and an `extra` word are left out first; a `note` then goes below the table, a line a row.
"""

_ENDS = ("difference_low", "difference_high", "lift_low", "lift_high")


class TextTable(NamedTuple):
    """A table whose cells are text.

    `kinds` say how columns give way on a narrow terminal; those without one keep every letter.
    """

    title: str
    lead: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kinds: tuple[Kind, ...] = ()


Part = TextTable | str
"""A table, or a sentence."""


class Tables(NamedTuple):
    """A result as tables and sentences, in the order of reading.

    `notes` say what was left out, and why. `draft` says that the experiment has open questions; it
    is empty if it has none.
    """

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    draft: str = ""


class Cell(str):
    """A text cell that a page shows as `html`, with a class and a tooltip."""

    html: Markup
    style: str
    exact: str

    def __new__(cls, text: str, html: Markup, style: str, exact: str = "") -> "Cell":
        """Make a cell."""
        cell = super().__new__(cls, text)
        cell.html, cell.style, cell.exact = html, style, exact
        return cell


class VerdictLine(NamedTuple):
    """A verdict as one line: word, sentence, reason and next step.

    `decision` chooses the colours of the line; `place` numbers the variant's colour.
    """

    variant: str
    decision: str
    word: str
    sentence: str
    place: int = 1
    why: str = ""
    action: str = ""


def write_verdict_lines(line: VerdictLine, before: str = "") -> Iterator[str]:
    """Write a verdict as lines of text, each with the same prefix."""
    yield f"{before}{line.word}: {line.sentence}"
    labelled = ("Why", line.why), ("Next", line.action)
    yield from (f"{before}{name}: {text}" for name, text in labelled if text)


def render_spans(**texts: str) -> Markup:
    """Write the texts that are not empty, each in a span of its class."""
    escaped = {name: escape(fmt.typeset_numbers(text)) for name, text in texts.items() if text}
    markup = (f'<span class="{name}">{text}</span>' for name, text in escaped.items())
    return Markup(" ".join(markup))  # noqa: S704 (escaped above)


def drop_empty(*tables: TextTable) -> tuple[TextTable, ...]:
    """Drop the tables without rows."""
    return tuple(table for table in tables if table.rows)


def trim(table: TextTable) -> TextTable:
    """Drop the columns without text."""
    kept = [i for i in range(len(table.headers)) if any(row[i] for row in table.rows)]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    kinds = tuple(table.kinds[i] for i in kept if table.kinds)
    return table._replace(headers=tuple(table.headers[i] for i in kept), rows=rows, kinds=kinds)


Record = TypeVar("Record")
_Filling = Callable[[Record], str]
Column = str | tuple[str, _Filling[Record]] | tuple[str, _Filling[Record], Kind]
"""A column: header, text of a record, and kind; or the name of a field of text."""


def table(title: str, lead: str, records: Iterable[Record], *columns: Column[Record]) -> TextTable:
    """Make a table with one row per record."""
    # A name alone is a field of text.
    normal_columns = [(c, attrgetter(c)) if isinstance(c, str) else c for c in columns]
    rows = tuple(tuple(column[1](record) for column in normal_columns) for record in records)
    kinds = tuple(column[2] if len(column) > 2 else "name" for column in normal_columns)
    return TextTable(title, lead, tuple(column[0] for column in normal_columns), rows, kinds)


def bare_table(records: Iterable[Record], *columns: Column[Record]) -> TextTable:
    """Make a table without a heading, such as the numbers of a figure."""
    return table("", "", records, *columns)


_SHORT = 20
"""Most rows of a short table; what needs attention is always shown."""


def shorten(
    records: Sequence[Record], show_all: bool, needs_attention: Callable[[Record], bool]
) -> tuple[list[Record], list[str]]:
    """Choose the rows of a short table, and write how many others there are."""
    if show_all:
        return [*records], []
    rows = [*records[:_SHORT], *filter(needs_attention, records[_SHORT:])]
    more = len(records) - len(rows)
    return rows, [f"{more} more: --all"] * bool(more)


REASON_COLUMN: tuple[str, _Filling[Any], Kind] = (
    "why not",
    lambda row: codes.describe_reason(row.reason),
    "note",
)
"""The column that says why a value is missing."""


def explain_refusals(refused: Mapping[str, str]) -> Iterator[str]:
    """Write why each refused metric is missing."""
    return (f"{name} is not shown: {why}" for name, why in refused.items())


def read_interval(record: object, name: str, scale: float = 1.0) -> fmt.Interval:
    """Return the fields NAME, NAME_low and NAME_high of a record."""
    return rescale(scale, *(getattr(record, f"{name}{end}") for end in ("", "_low", "_high")))


def rescale(scale: float, *numbers: float | None) -> fmt.Interval:
    """Multiply a value and the ends of its interval by a scale."""
    value, low, high = (None if number is None else scale * number for number in numbers)
    return value, low, high


def list_units(info: ExperimentInfo) -> str:
    """Write the units of each variant."""
    return ", ".join(f"{v.name} {fmt.format_count(v.units)}" for v in info.variants)


def format_share(part: int, total: int) -> str:
    """Write a share in per cent; missing if the total is 0."""
    return fmt.format_percent(part / total) if total else fmt.MISSING


def excludes_zero(row: object) -> bool:
    """Tell whether the interval of a difference excludes zero."""
    _, low, high = read_interval(row, "difference")
    return low is not None and high is not None and not low <= 0 <= high


def format_lift(row: object) -> fmt.FormattedEffect:
    """Write the lift of a row."""
    return fmt.format_lift(*read_interval(row, "lift"))


def format_difference(row: object, unit: str = "") -> fmt.FormattedEffect:
    """Write the difference of a row."""
    return fmt.format_difference(*read_interval(row, "difference"), unit)


def format_effect(row: object, unit: str) -> fmt.FormattedEffect:
    """Write the lift of a row, or its difference if there is no lift."""
    return format_lift(row) or format_difference(row, unit)


def write_all_digits(value: float | None) -> str:
    """Write every digit of a number."""
    return fmt.MISSING if value is None else repr(value)


def choose_decisive_p(row: Row | Pair | PreferenceRow) -> float | None:
    """Return the p-value that decides the status: the adjusted one if there is one."""
    return row.p_value if row.p_adjusted is None else row.p_adjusted


class DisplayRow(NamedTuple):
    """A row of the scorecard for display: consistent numbers, and its cells as text.

    `row` has the treatment that fits control and the adjusted difference, and the interval that
    decides the status. `mark` follows a treatment that is not the observed one. `reason` has the
    level of an adjusted interval, and a guardrail's margin. `digits` distinguish the metric's
    values in all variants.
    """

    row: Row
    metric: MetricInfo
    mark: str
    reason: str
    level: str
    digits: int = 3

    @property
    def name(self) -> str:
        """Write the name of the metric."""
        return self.metric.display_name

    @property
    def values(self) -> tuple[str, str]:
        """Write the values of control and treatment."""
        unit, digits = self.metric.unit, self.digits
        treatment = fmt.format_value(self.row.treatment, unit, digits)
        return fmt.format_value(self.row.control, unit, digits), treatment + self.mark

    @property
    def has_only_difference(self) -> bool:
        """Tell whether its difference is shown because its lift has no interval."""
        row = self.row
        return row.difference is not None and None in (row.lift, row.lift_low, row.lift_high)

    @property
    def effect(self) -> str:
        """Write the lift, or the difference if the lift has no interval."""
        return (
            fmt.format_row_effect(self.row, self.metric.unit).text
            + " abs" * self.has_only_difference
        )

    @property
    def detectable(self) -> str:
        """Write the smallest detectable lift, if there is enough data to trust it."""
        return fmt.format_plus_minus(None if self.row.status == "too_little_data" else self.row.mde)

    @property
    def p(self) -> str:
        """Write the p-value that decides."""
        return fmt.format_p_value(choose_decisive_p(self.row))

    @property
    def status(self) -> str:
        """Write the status."""
        return codes.describe_status(self.row.status, self.row.reason)


def fit_rows(result: Result, rows: Iterable[Row]) -> list[DisplayRow]:
    """Make rows for display; the JSON has the observed, unadjusted numbers."""
    adjusted = {(a.metric, a.variant) for a in result.adjustments if a.method != "cap"}
    by_row = {(entry.metric, entry.variant): entry for entry in result.family_intervals}
    level, display_rows = fmt.format_level(result.experiment.alpha), []
    for row in rows:
        key, mark = (row.metric, row.variant), ""
        reason = codes.describe_reason(row.reason, row.units_needed)
        if key in adjusted and row.control is not None and row.difference is not None:
            # Control plus the adjusted difference: the observed mean would contradict the lift.
            row, mark = replace(row, treatment=row.control + row.difference), " adj"
        wide = by_row.get(key)
        row_level = level if wide is None else fmt.format_level(float(f"{1 - wide.level:.3g}"))
        # A corrected interval decides, so it is the one to print, with its level named.
        if wide is not None and row_level != level:
            # Results of earlier versions have no ends of the lift: they show the difference.
            lift = None if wide.lift_low is None else row.lift
            row = replace(row, lift=lift, **{name: getattr(wide, name) for name in _ENDS})
            reason = ": ".join(filter(None, (reason, f"{row_level} interval")))
        metric = result.info(row.metric)
        margin = format_margin(metric) if row.role == "guardrail" else ""
        reason = "; ".join(filter(None, (reason, margin)))
        display_rows.append(DisplayRow(row, metric, mark, reason, row_level))
    # A control is printed alike beside every variant.
    digits = {
        metric.name: fmt.choose_digits(
            [n for r in same for n in (r.row.control, r.row.treatment)], metric.unit
        )
        for metric, same in group_rows(display_rows, lambda r: r.metric).items()
    }
    return [r._replace(digits=digits[r.row.metric]) for r in display_rows]


def format_margin(metric: MetricInfo) -> str:
    """Write the margin of a guardrail, or its range, or that it has none."""
    if metric.within is not None:
        return f"within {fmt.format_range(*metric.within)}"
    if metric.margin is None:
        return "no margin"
    return f"margin {fmt.format_margin(metric.margin, bool(metric.margin_relative), metric.unit)}"


def tally_checks(checks: Sequence[Check]) -> str:
    """Count checks by status; skipped ones are not counted.

    Example:
        >>> statuses = ("pass", "fail", "skipped")
        >>> tally_checks([Check(status, status, None, None, "") for status in statuses])
        '1 check passed, 1 failed'
    """
    counts = Counter[str](check.status for check in checks)
    passed = f"{counts['pass']} {'check' if counts['pass'] == 1 else 'checks'} passed"
    words = {"fail": "failed", "warn": "warned"}
    return ", ".join([passed, *(f"{counts[s]} {word}" for s, word in words.items() if counts[s])])


def tabulate_trust_checks(checks: Iterable[Check]) -> TextTable:
    """Tabulate trust checks: what was measured, and what to do."""
    result: Column[Check] = ("result", codes.check_text, "words")
    lead, name = "What was measured, and what to do.", ("check", lambda check: check.name)
    return table("Checks", lead, checks, name, "status", result)


def list_adjustment_tables(result: Result) -> tuple[TextTable, ...]:
    """List the tables on adjustments and looks that have rows."""
    return drop_empty(_tabulate_adjustments(result), _tabulate_boundaries(result))


def list_segment_tables(result: Result) -> tuple[TextTable, ...]:
    """List the tables on segments that have rows."""
    return drop_empty(_tabulate_segment_tests(result), _tabulate_contrasts(result))


def list_design_tables(result: Result) -> tuple[TextTable, ...]:
    """List the tables on clusters and switchbacks that have rows."""
    costs = table(
        "Clusters",
        "how alike the units of one cluster are, and how many independent ones say as much.",
        result.cluster_costs,
        _build_metric_column(result),
        ("clusters", lambda row: fmt.format_count(row.clusters)),
        ("units", lambda row: fmt.format_count(row.units)),
        ("ICC", lambda row: fmt.format_value(row.icc)),
        ("design effect", lambda row: fmt.format_value(row.design_effect)),
        ("worth", lambda row: fmt.format_count(round(row.worth))),
    )
    quarters = table(
        "After a switch",
        "slots after one of treatment less slots after one of control, within cluster, time of day "
        "and own variant, by schedules drawn again; p unadjusted.",
        result.slot_quarters,
        _build_metric_column(result),
        ("minutes", lambda row: f"{row.start:g} to {row.end:g}"),
        ("value", lambda row: fmt.format_value(row.value, result.info(row.metric).unit)),
        ("difference", lambda row: format_difference(row, result.info(row.metric).unit).text),
        ("p", lambda row: fmt.format_p_value(row.p_value)),
    )
    return drop_empty(costs, quarters)


def _build_metric_column(result: Result) -> tuple[str, _Filling[Any]]:
    """Make the column of the metrics' labels."""
    return "metric", lambda row: result.label(row.metric)


def _tabulate_adjustments(result: Result) -> TextTable:
    def unit(change: Adjustment) -> str:
        return result.info(change.metric).unit

    def row(change: Adjustment) -> Row:
        return result[change.metric, change.variant]

    return table(
        "Adjustments",
        "each difference without variance reduction and caps, and with them.",
        result.adjustments,
        *(_build_metric_column(result), "variant"),
        ("by", lambda change: change.method, "words"),
        ("without", lambda change: format_difference(change, unit(change)).text),
        ("with", lambda change: format_difference(row(change), unit(change)).text),
        (
            "p without, with",
            lambda c: f"{fmt.format_p_value(c.p_value)}, {fmt.format_p_value(row(c).p_value)}",
        ),
        ("what changed", lambda change: _describe_changes(change, unit(change)), "words"),
    )


def _describe_changes(change: Adjustment, unit: str) -> str:
    """Describe what an adjustment removed, its coefficients and its caps."""
    phrases = []
    if change.variance_removed is not None:
        phrases.append(f"{fmt.format_percent(change.variance_removed)} of the variance removed")
    if change.theta:
        phrases.append("theta " + ", ".join(f"{theta:.3g}" for theta in change.theta))
    if change.cap is not None:
        cap = f"capped at {fmt.format_value(change.cap, '' if unit in fmt.RATE_UNITS else unit)}"
        denominator = change.cap_denominator
        phrases.append(
            cap if denominator is None else f"{cap} over {fmt.format_value(denominator)}"
        )
    return "; ".join(phrases)


def _tabulate_boundaries(result: Result) -> TextTable:
    def information(share: float) -> str:
        return fmt.format_percent(share) if share <= 1 else f"{share:,.3g}×"

    return table(
        "This look",
        "the effect in standard errors, and the boundary at this look.",
        result.boundaries,
        *(_build_metric_column(result), "variant"),
        ("information", lambda look: information(look.information)),
        ("z", lambda look: f"{look.z:+.2f}"),
        ("boundary", lambda look: f"{look.boundary:.2f}"),
        ("crossed", lambda look: "yes" if look.crossed else "no"),
    )


def _tabulate_segment_tests(result: Result) -> TextTable:
    return table(
        "Segments",
        "one effect in all of them? Cochran's Q on lifts, or on differences where control is near "
        "zero or negative, of cells with 30 units in each variant; Holm over this table; I2: share "
        "of the variation that is not noise.",
        result.segment_tests,
        *("segment", _build_metric_column(result), "variant"),
        ("cells", _count_tested_cells, "spare"),
        ("scale", lambda test: test.scale, "spare"),
        ("Q", lambda test: f"{test.q:.2f}", "spare"),
        ("p", lambda test: fmt.format_p_value(test.p_adjusted)),
        ("I2", lambda test: fmt.format_percent(test.i_squared), "spare"),
        ("mix of cells", _format_mix, "words"),
    )


def _count_tested_cells(test: SegmentTest) -> str:
    """Count the tested cells, and all of them if some were not tested."""
    every = test.cells + test.cells_left_out
    return str(test.cells) if test.cells == every else f"{test.cells} of {every}"


def _format_mix(test: SegmentTest) -> str:
    if test.reversed:
        return f"REVERSES the difference (Simpson), p {fmt.format_p_value(test.reversal_p_value)}"
    return f"p {fmt.format_p_value(test.mix_p_value)}"


def _tabulate_contrasts(result: Result) -> TextTable:
    alpha = result.experiment.alpha

    def against(contrast: SegmentContrast) -> str:
        return format_effect(contrast, result.info(contrast.metric).unit).text

    return table(
        "Segments that differ from the rest",
        "lift in the segment against the lift in all others (differences where there is no lift), "
        "where p after Holm is below alpha.",
        [contrast for contrast in result.segment_contrasts if contrast.p_adjusted <= alpha],
        *("segment", "cell", _build_metric_column(result), "variant"),
        ("against the others", against),
        ("p", lambda contrast: fmt.format_p_value(contrast.p_adjusted)),
    )


CELLS = 8
"""Most cells of a cut in the terminal."""


def list_split_tables(result: Result) -> tuple[TextTable, ...]:
    """Tabulate effects within cells and by their mix, and metrics without cuts."""
    without = table(
        "Without cuts",
        "metrics that parts of the traffic do not have.",
        result.without_cuts,
        "metric",
        ("why", lambda row: row.reason, "words"),
    )
    return drop_empty(_tabulate_splits(result), without)


def list_cut_tables(result: Result) -> tuple[TextTable, ...]:
    """Tabulate the largest cells of goals and guardrails, then the splits."""
    return (*drop_empty(_tabulate_cells(result)), *list_split_tables(result))


def _tabulate_cells(result: Result) -> TextTable:
    level = fmt.format_level(result.experiment.alpha)
    judged = {metric.name for metric in result.metrics if metric.role != "diagnostic"}
    rows = [row for row in result.cuts if row.metric in judged]
    groups = group_rows(rows, lambda row: (row.cut, row.metric, row.variant))
    visible_rows = [
        row
        for cells in groups.values()
        # Largest cells first; equal ones by name, so that the order is always the same.
        for row in sorted(cells, key=lambda r: (-r.units - r.units_control, r.cell))[:CELLS]
    ]
    more = "" if len(visible_rows) == len(rows) else f" The {CELLS} that most units saw."

    def effect(row: CutRow) -> str:
        lift = format_effect(row, result.info(row.metric).unit)
        return lift.text if lift else codes.describe_reason(row.reason)

    return table(
        "Cuts",
        "effects in parts of the traffic, of which a unit may see several; p is Holm's over the "
        f"cells of a cut.{more}",
        visible_rows,
        "cut",
        ("cell", lambda row: row.cell or "(none)"),
        *("metric", "variant"),
        (f"lift [{level}]", effect, "words"),
        ("p", lambda row: fmt.format_p_value(row.p_adjusted)),
        ("share", _format_shares, "spare"),
    )


def _format_shares(row: CutRow) -> str:
    if row.share_control is None or row.share is None:
        return fmt.MISSING
    return f"{fmt.format_percent(row.share_control)} / {fmt.format_percent(row.share)}"


def _tabulate_splits(result: Result) -> TextTable:
    def part(split: CutSplit, name: str) -> str:
        value, low, high = read_interval(split, name)
        difference = fmt.format_difference(value, low, high, result.info(split.metric).unit)
        if difference and low is not None:
            return difference.text
        return f"{difference.estimate} {codes.describe_reason(split.reason)}"

    def whole(split: CutSplit) -> str:
        unit = result.info(split.metric).unit
        return fmt.format_difference(split.difference, None, None, unit).estimate

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


def tabulate_aa_replays(
    title: str, lead: str, replays: Iterable[AAMetric], off: Collection[str]
) -> TextTable:
    """Tabulate A/A replays; `off` names the tests that do not keep their level."""
    return table(
        title,
        lead,
        replays,
        "metric",
        ("test", lambda row: "off" if row.metric in off else "holds"),
        ("rejects", lambda row: f"{row.rejection_rate:.2%}", "number"),
        ("interval", lambda row: f"[{row.rejection_low:.2%}, {row.rejection_high:.2%}]", "extra"),
        ("uniform p", lambda row: fmt.format_p_value(row.uniformity_p_value), "spare"),
        ("replays", lambda row: fmt.format_count(row.runs), "spare"),
    )
