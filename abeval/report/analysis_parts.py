"""The parts of the page that an analysis fills: trust, scorecard, segments, rows of the logs.

`registry.py` lists them; `first_part.py` has the verdict, `methods_part.py` the definitions.
"""

import math
from collections.abc import Iterable

from markupsafe import Markup

from abeval.report import assets, effect_figures
from abeval.report import figures as fig
from abeval.report.daily_page import count_figure
from abeval.report.effect_figures import forest_figure, outlook_figure
from abeval.report.effects import either_way, slugs
from abeval.report.figures import Block, Closed, FigureView, Section, by_role
from abeval.report.first_part import size_words
from abeval.report.scorecard import role_views
from abeval.report.slices import cut_views, segment_views, split_tables
from abeval.report.tables import ROLES, TextTable, segment_tables, tables
from abeval.results import AAMetric, Check, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.agreement import PositionRate
from abeval.results.analysis import Result
from abeval.results.power import MetricOutlook
from abeval.results.record import columns_of
from abeval.results.study import Study
from abeval.results.trust import AAResult

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
        f"Lift is the difference over control, with its {level} interval. Detectable: the smallest "
        "lift that this test would detect 80% of the time. Thick bar and filled dot: decided. "
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
        fields=columns_of(Row),
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
        takeaway=f"Fewest units on {lowest}. If the lines diverge or drop to zero, suspect the log "
        "first.",
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


_CURVES = 12
"""Rows that are drawn; the table has them all."""


def power_part(study: Study) -> Section | None:
    """The effect that can be seen against days."""
    outlook = study.outlook
    if outlook is None or not outlook.metrics:
        return None
    several = len({one.variant for one in outlook.metrics}) > 1
    drawn = [one for one in outlook.metrics if len(one.points) > 1][:_CURVES]
    heads = ("metric", "days", "detectable", "asked", "days in all", "why not")
    view = FigureView(
        anchor="power-days",
        title="Smallest lift seen, by days",
        takeaway=" ".join(_sentence(one, several) for one in outlook.metrics[:2] if one.mde),
        figure=outlook_figure(
            {_name(one, several): one.points for one in drawn}, drawn[0].days if drawn else None
        ),
        heads=heads,
        rows=tuple(_cells(one, several) for one in outlook.metrics),
        key=("power",),
    )
    lead = (
        f"The smallest lift that a row finds with {fmt.percent(outlook.power)} by its own test, if "
        "units keep coming as they did."
    )
    return Section(lead, (view,))


def _name(one: MetricOutlook, several: bool) -> str:
    return f"{one.metric}, {one.variant}" if several else one.metric


def _sentence(one: MetricOutlook, several: bool) -> str:
    """What can be seen today, and how long a smaller effect takes."""
    seen = f"{_name(one, several)}: {either_way(one.mde)} so far"
    size = size_words(one)
    return f"{seen}." if size is None else f"{seen}, {either_way(one.target)} in about {size}."


def _cells(one: MetricOutlook, several: bool) -> tuple[str, ...]:
    return (
        _name(one, several),
        fmt.MISSING if one.days is None else f"{one.days:g}",
        either_way(one.mde),
        either_way(one.target),
        fmt.MISSING if one.target_days is None else fmt.count(math.ceil(one.target_days - 1e-6)),
        "" if one.reason is None else codes.words(one.reason),
    )


_HEADS = ("Variant", "Position", "Impressions", "share", "Clicks", "CTR", "interval")


def position_part(study: Study) -> Section | None:
    """Click rates by position, of each variant."""
    if study.agreement is None or not study.agreement.positions:
        return None
    rates = tuple(dict.fromkeys(study.agreement.positions))
    totals: dict[str, int] = {}
    for rate in rates:
        totals[rate.variant] = totals.get(rate.variant, 0) + rate.impressions
    view = fig.FigureView(
        anchor="position-ctr",
        title="CTR by position",
        takeaway=_first_last(rates),
        figure=position_figure(rates),
        heads=_HEADS,
        rows=tuple(_position_cells(rate, totals[rate.variant]) for rate in rates),
        key=("position",),
    )
    lead = (
        "Clicks fall on what is shown on top. Where the variants differ at each position, the "
        "items are better; where one shows more on top, its clicks are helped by the place."
    )
    return Section(lead, (view,), gated=True)


def _position_cells(rate: PositionRate, total: int) -> tuple[str, ...]:
    value, interval = _percent(rate)
    share = fmt.percent(rate.impressions / total) if total else fmt.MISSING
    counts = fmt.count(rate.impressions), share, fmt.count(rate.clicks)
    return (rate.variant, fmt.count(rate.position), *counts, value, interval)


def _percent(rate: PositionRate) -> tuple[str, str]:
    low, high = (None if end is None else 100 * end for end in (rate.low, rate.high))
    value, interval = fmt.estimate(100 * rate.ctr, low, high)
    return f"{value}%", interval


def _first_last(rates: tuple[PositionRate, ...]) -> str:
    first = min(rate.position for rate in rates)
    said = [f"{r.variant} {_percent(r)[0]}" for r in rates if r.position == first]
    return f"At position {first}: {fmt.listing(said)}."


def position_figure(rates: tuple[PositionRate, ...]) -> fig.Figure:
    """CTR by position with intervals, a line for each variant."""
    traces = []
    for i, name in enumerate(dict.fromkeys(rate.variant for rate in rates)):
        own = [rate for rate in rates if rate.variant == name]
        numbers: list[fig.Interval] = [
            (
                100 * r.ctr,
                None if r.low is None else 100 * r.low,
                None if r.high is None else 100 * r.high,
            )
            for r in own
        ]
        traces.append(
            fig.scatter(
                x=[rate.position for rate in own],
                y=[value for value, _, _ in numbers],
                error_y=fig.error_bars(numbers, fig.colour(i), 1.4),
                mode="lines+markers",
                name=fig.label(name),
                line={"color": fig.colour(i), "width": 1.6},
                marker={"symbol": fig.symbol(i), "size": 7},
                said=[f"{r.variant}, position {r.position}: {_percent(r)[0]}" for r in own],
            )
        )
    return fig.figure(
        traces,
        xaxis={"title": {"text": "position", "standoff": 6}, "showgrid": False, "tickformat": "d"},
        yaxis={
            "title": {"text": "CTR", "standoff": 8},
            "ticksuffix": "%",
            "gridcolor": fig.GRID,
            "rangemode": "tozero",
            "zeroline": False,
            "nticks": 7,
        },
    )


_AA_HEADS = ("metric", "test", "rejects", "interval", "uniform p", "replays")


def aa_part(study: Study) -> Section | None:
    """Every metric's replays."""
    aa = study.aa
    if aa is None or not aa.metrics:
        return None
    off = aa.off()
    ids = slugs([row.metric for row in aa.metrics])
    views = [(row.metric, _view(aa, row, ids[row.metric])) for row in aa.metrics]
    rows = tuple(_aa_cells(row, row.metric in off) for row in aa.metrics)
    blocks: list[Block] = [TextTable("", "", _AA_HEADS, rows)]
    refused = tuple((name, why) for name, why in aa.refused.items())
    if refused:
        blocks.append(TextTable("Not replayed", "", ("metric", "why"), refused))
    lead = (
        "P-values when nothing differs. If the test keeps its level on this log, they are flat, "
        f"and {fmt.percent(aa.alpha)} of them are below {aa.alpha:g}."
        f"{f' Off: {fmt.listing(off)}.' if off else ''}"
    )
    return Section(lead, (*blocks, *by_role(study, views)))


def _aa_cells(row: AAMetric, is_off: bool) -> tuple[str, ...]:
    return (
        row.metric,
        "off" if is_off else "holds",
        f"{row.rejection_rate:.2%}",
        f"[{row.rejection_low:.2%}, {row.rejection_high:.2%}]",
        fmt.p_value(row.uniformity_p_value),
        fmt.count(row.runs),
    )


def _view(aa: AAResult, row: AAMetric, slug: str) -> FigureView:
    counts = aa.histograms[row.metric]
    width = 1 / len(counts)
    return FigureView(
        anchor=f"aa-{slug}",
        title=row.metric,
        takeaway=(
            f"Rejects {row.rejection_rate:.2%} of {row.runs:,} replays in which nothing differs."
        ),
        figure=effect_figures.histogram_figure(counts),
        heads=("p from", "to", "replays"),
        rows=tuple(
            (f"{i * width:.3g}", f"{(i + 1) * width:.3g}", fmt.count(n))
            for i, n in enumerate(counts)
        ),
        key=("aa", row.metric),
    )
