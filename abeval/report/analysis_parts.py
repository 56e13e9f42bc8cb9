"""The parts of the page that an analysis fills: trust, scorecard, segments, rows of the logs.

`registry.py` lists them; `first_part.py` has the verdict, `methods_part.py` the definitions.
"""

from collections.abc import Iterable
from dataclasses import fields

from markupsafe import Markup

from abeval.report import assets
from abeval.report.daily_page import count_figure
from abeval.report.effect_figures import forest_figure
from abeval.report.figures import Block, Closed, FigureView, Section
from abeval.report.scorecard import role_views
from abeval.report.slices import cut_views, segment_views, split_tables
from abeval.report.tables import ROLES, TextTable, segment_tables, tables
from abeval.results import Check, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study

_SEVERITY = ("fail", "warn", "pass", "skipped")
_MANY_ROWS = 12
"""From so many rows on, a drawing of all of them together helps."""


def markup(template: str, **values: object) -> Markup:
    """A filled template of this folder, as a block of a part."""
    return Markup(assets.render(template, **values))  # noqa: S704 (the template escapes)


def trust_part(study: Study) -> Section | None:
    """Every trust check."""
    if study.analysis is None:
        return None
    checks = study.analysis.trust
    failed = sorted((c for c in checks if c.status != "pass"), key=_severity)
    lead = (
        "Whether the numbers below can be believed at all. A failed check that touches a goal, a "
        "guardrail or all metrics hides them; any other makes its own rows untrusted."
    )
    passed = [check for check in checks if check.status == "pass"]
    table = markup("trust.html", result=study.analysis, open_checks=failed, passed=passed)
    return Section(lead, (table,))


def _severity(check: Check) -> int:
    return _SEVERITY.index(check.status)


def scorecard_part(study: Study) -> Section | None:
    """All rows, by role."""
    result = study.analysis
    if result is None:
        return None
    level = fmt.level(result.experiment.alpha)
    margin = any(metric.margin is not None for metric in result.metrics)
    lead = (
        f"Lift is the difference over control, with its {level} interval. Could see: the smallest "
        "lift that one test of this size finds with 80%. Thick bar and filled dot: decided. "
        "Dashed bar and open dot: unclear. "
        f"{'Dashed upright line: the margin of a guardrail. ' if margin else ''}"
        "Arrows: the interval continues beyond the scale."
    )
    html = markup(
        "scorecard.html",
        result=result,
        roles=role_views(result),
        several=several(result),
        level=level,
        tables=tables(result),
        fields=[field.name for field in fields(Row)],
    )
    return Section(lead, (html,), gated=True)


def several(result: Result) -> bool:
    """Whether more than one variant is compared with control."""
    return len({row.variant for row in result.scorecard}) > 1


def forest_part(study: Study) -> Section | None:
    """All rows of the scorecard with a lift, in one drawing for each role."""
    result = study.analysis
    if result is None:
        return None
    drawn = [row for row in result.scorecard if row.lift is not None]
    blocks: list[Block] = []
    for role, title, _ in ROLES:
        rows = [row for row in drawn if row.role == role]
        if rows and (several(result) or len(rows) >= _MANY_ROWS):
            view = FigureView(
                anchor=f"forest-{role}",
                title=title,
                takeaway=_decided_sentence(rows),
                figure=forest_figure(rows),
                heads=("Metric", "Variant", "Lift", "Interval", "Status"),
                rows=tuple(_forest_cells(row) for row in rows),
                key=("forest", role),
            )
            is_beside = role == "diagnostic" and bool(blocks)
            blocks.append(Closed(title, (view,)) if is_beside else view)
    if not blocks:
        return None
    lead = "Every lift with its interval, a shape for each variant. Filled: decided; hollow: not."
    return Section(lead, tuple(blocks), gated=True)


def _decided_sentence(rows: Iterable[Row]) -> str:
    counts = dict.fromkeys(("better", "worse"), 0)
    listed = list(rows)
    for row in listed:
        if row.status in counts:
            counts[row.status] += 1
    return f"Of {len(listed)}, {counts['better']} better and {counts['worse']} worse than control."


def _forest_cells(row: Row) -> tuple[str, ...]:
    shown = fmt.lift(row.lift, row.lift_low, row.lift_high)
    estimate, interval = (shown.estimate, shown.interval) if shown else (fmt.MISSING, "")
    return row.metric, row.variant, estimate, interval, codes.status(row.status, row.reason)


def segments_part(study: Study) -> Section | None:
    """Effects by segment."""
    result = study.analysis
    if result is None or not result.segments:
        return None
    lead = (
        "Exploratory: many looks at the same data, without adjustment. A difference between "
        "segments here is a question, not an answer."
    )
    html = markup(
        "segments.html",
        segments=segment_views(result),
        segment_tables=segment_tables(result),
        several=several(result),
        level=fmt.level(result.experiment.alpha),
    )
    return Section(lead, (html,), gated=True)


def cuts_part(study: Study) -> Section | None:
    """Effects in parts of the traffic, of which a unit may see several."""
    result = study.analysis
    views = () if result is None else cut_views(result)
    if result is None or not views:
        return None
    lead = (
        "Parts of the traffic: a unit counts in every part of which it has an impression, and p "
        "is Holm's over the cells of a cut."
    )
    html = markup(
        "segments.html",
        segments=views,
        segment_tables=split_tables(result),
        several=several(result),
        level=fmt.level(result.experiment.alpha),
    )
    return Section(lead, (html,), gated=True)


def quality_part(study: Study) -> Section | None:
    """Rows read, used and set aside; units by day and variant."""
    result = study.analysis
    if result is None or not (result.accounting or result.daily):
        return None
    blocks: list[Block] = []
    if days := _days_of_first(result):
        control = result.experiment.control
        series = {control: [(row.cell, row.units_control) for row in days]}
        for row in days:
            series.setdefault(row.variant, []).append((row.cell, row.units))
        blocks.append(_units_view(series))
    blocks.append(markup("rows.html", result=result))
    return Section("What the logs hold, by day and variant, and what was set aside.", tuple(blocks))


def _days_of_first(result: Result) -> list[SliceRow]:
    """The days of the first metric that counts units, a row for each day and variant."""
    metric = next((row.metric for row in result.daily), None)
    return [row for row in result.daily if row.metric == metric]


def _units_view(series: dict[str, list[tuple[str, int]]]) -> FigureView:
    unique = {name: list(dict(points).items()) for name, points in series.items()}
    days = list(dict.fromkeys(day for points in unique.values() for day, _ in points))
    cells = {name: dict(points) for name, points in unique.items()}
    lowest = min(days, key=lambda day: sum(c.get(day, 0) for c in cells.values()))
    return FigureView(
        anchor="quality-units",
        title="Units by day",
        takeaway=f"Fewest on {lowest}. Lines that part, or a hole, are a fault of the log first.",
        figure=count_figure(unique, "units"),
        heads=("Day", *unique),
        rows=tuple((d, *(fmt.count(cells[n].get(d, 0)) for n in unique)) for d in days),
        key=("quality", "units"),
    )


def multiplicity_part(study: Study) -> Section | None:
    """The families of tests, with raw and adjusted p-values."""
    result = study.analysis
    if result is None:
        return None
    tested = [row for row in result.scorecard if row.p_adjusted is not None]
    if not tested:
        return None
    family = result.experiment.family
    lead = (
        f"One family: the goals of all variants ({family}). Another for each variant: its "
        "guardrails (Holm). Diagnostics are not adjusted, and no verdict uses them."
    )
    rows = tuple(
        (
            "goals" if row.role == "goal" else f"guardrails of {row.variant}",
            row.metric,
            row.variant,
            fmt.p_value(row.p_value),
            fmt.p_value(row.p_adjusted),
            codes.status(row.status, row.reason),
        )
        for row in sorted(tested, key=lambda row: row.role != "goal")
    )
    heads = ("family", "metric", "variant", "p", "p adjusted", "status")
    return Section(lead, (TextTable("", "", heads, rows),), gated=True)


def glossary_part(study: Study) -> Section | None:
    """A line for every metric."""
    if study.analysis is None and study.replay is None:
        return None
    blocks: list[Block] = []
    if study.analysis is not None:
        rows = tuple(
            (m.name, m.formula, m.unit or "no unit", codes.direction_words(m.direction))
            for m in study.analysis.metrics
        )
        blocks.append(TextTable("", "", ("metric", "formula", "unit", "direction"), rows))
    if study.replay is not None:
        offline = TextTable("Offline metrics", "", ("metric", "formula"), study.replay.definitions)
        blocks.append(offline)
    return Section("", (Closed("Every metric and its formula", tuple(blocks)),))
