"""Build the parts of the page that an analysis fills: trust, scorecard, segments, rows of logs."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from abeval.report import assets, effect_figures, tables
from abeval.report import figures as fig
from abeval.report.daily_page import count_figure
from abeval.report.effect_figures import forest_figure, outlook_figure
from abeval.report.effects import either_way, role_views, slugs
from abeval.report.figures import Block, Closed, FigureView, by_role
from abeval.report.first_part import size_words
from abeval.report.slices import SegmentView, cut_views, slice_views, split_tables
from abeval.report.tables import WHY_NOT, TextTable, aa_table, numbers, scaled, share_of
from abeval.results import AAMetric, Row, codes
from abeval.results import format as fmt
from abeval.results.agreement import Agreement, PositionRate
from abeval.results.analysis import Result
from abeval.results.power import MetricOutlook, PowerOutlook
from abeval.results.record import columns_of
from abeval.results.study import Study
from abeval.results.trust import AAResult

_MANY_ROWS = 12
"""From so many rows on, a drawing of all of them together helps."""


def trust_part(result: Result) -> tuple[Block, ...]:
    """Show every trust check."""
    checks = result.trust
    order = ("fail", "warn", "skipped")
    failed = sorted(
        (check for check in checks if check.status != "pass"),
        key=lambda check: order.index(check.status),
    )
    passed = [check for check in checks if check.status == "pass"]
    table = assets.block("trust.html", result=result, open_checks=failed, passed=passed)
    return (table,)


def scorecard_part(result: Result) -> tuple[Block, ...]:
    """Show all rows, by role."""
    html = assets.block(
        "scorecard.html",
        result=result,
        roles=role_views(result),
        several=several(result),
        level=fmt.level(result.experiment.alpha),
        tables=tables.tables(result),
        fields=columns_of(Row),
    )
    return (html,)


def several(result: Result) -> bool:
    """Tell whether more than one variant is compared with control."""
    return len({row.variant for row in result.scorecard}) > 1


def forest_part(result: Result) -> tuple[Block, ...]:
    """Draw all lifts of the scorecard, a figure for each role."""
    drawn = [row for row in result.scorecard if row.lift is not None]
    blocks: list[Block] = []
    for role, title, _ in tables.ROLES:
        rows = [row for row in drawn if row.role == role]
        if rows and (several(result) or len(rows) >= _MANY_ROWS):
            view = FigureView(
                title=title,
                takeaway=_decided_sentence(rows),
                figure=forest_figure(rows),
                table=numbers(
                    rows,
                    *("metric", "variant"),
                    ("Lift", tables.lift_of),
                    ("Status", lambda row: codes.status(row.status, row.reason)),
                ),
                key=("forest", role),
            )
            is_beside = role == "diagnostic" and bool(blocks)
            blocks.append(Closed(title, (view,)) if is_beside else view)
    return tuple(blocks)


def _decided_sentence(rows: Sequence[Row]) -> str:
    better, worse = (sum(row.status == one for row in rows) for one in ("better", "worse"))
    if any(row.status == "draft" for row in rows):
        return f"Of {len(rows)}, none is judged: questions are open."
    return f"Of {len(rows)}, {better} better and {worse} worse than control."


def segments_part(result: Result) -> tuple[Block, ...]:
    """Show effects by segment."""
    return _by_cell(result, slice_views(result, result.segments), tables.segment_tables(result))


def cuts_part(result: Result) -> tuple[Block, ...]:
    """Show effects in parts of the traffic, of which one unit may see several."""
    return _by_cell(result, cut_views(result), split_tables(result))


def _by_cell(
    result: Result, views: Sequence[SegmentView], beside: Sequence[TextTable]
) -> tuple[Block, ...]:
    html = assets.block(
        "segments.html",
        segments=views,
        segment_tables=beside,
        several=several(result),
        level=fmt.level(result.experiment.alpha),
    )
    return (html,) if views else ()


def quality_part(result: Result) -> tuple[Block, ...]:
    """Count rows read, used and set aside, and units by day and variant."""
    if not (result.accounting or result.daily):
        return ()
    blocks: list[Block] = []
    # Every metric that counts units has the same days.
    first = next((row.metric for row in result.daily), None)
    days = [row for row in result.daily if row.metric == first]
    if days:
        series = {result.experiment.control: {row.cell: row.units_control for row in days}}
        for row in days:
            series.setdefault(row.variant, {})[row.cell] = row.units
        blocks.append(_units_view(series))
    blocks.append(assets.block("rows.html", result=result))
    return tuple(blocks)


def _units_view(series: Mapping[str, Mapping[str, int]]) -> FigureView:
    days = list(dict.fromkeys(day for units in series.values() for day in units))
    lowest = min(days, key=lambda day: sum(units.get(day, 0) for units in series.values()))
    rows = ((day, *(fmt.count(units.get(day, 0)) for units in series.values())) for day in days)
    return FigureView(
        title="Units by day",
        takeaway=f"Fewest units on {lowest}. If the lines diverge or drop to zero, suspect the log "
        "first.",
        figure=count_figure(series, "units"),
        table=TextTable("", "", ("Day", *series), tuple(rows)),
        key=("quality", "units"),
    )


def multiplicity_part(result: Result) -> tuple[Block, ...]:
    """Show families of tests, with raw and adjusted p-values."""
    tested = [row for row in result.scorecard if row.p_adjusted is not None]
    table = numbers(
        sorted(tested, key=lambda row: row.role != "goal"),
        ("family", lambda r: "goals" if r.role == "goal" else f"guardrails of {r.variant}"),
        *("metric", "variant"),
        ("p", lambda row: fmt.p_value(row.p_value)),
        ("p adjusted", lambda row: fmt.p_value(row.p_adjusted)),
        ("status", lambda row: codes.status(row.status, row.reason)),
    )
    return (table,) if tested else ()


def glossary_part(study: Study) -> tuple[Block, ...]:
    """Define every metric."""
    blocks: list[Block] = []
    if study.analysis is not None:
        metrics = numbers(
            study.analysis.metrics,
            ("metric", lambda metric: metric.name),
            "formula",
            ("unit", lambda metric: metric.unit or "no unit"),
            ("direction", lambda metric: codes.direction_words(metric.direction)),
        )
        blocks.append(metrics)
    if study.replay is not None:
        offline = TextTable("Offline metrics", "", ("metric", "formula"), study.replay.definitions)
        blocks.append(offline)
    return (Closed("Every metric and its formula", tuple(blocks)),) if blocks else ()


_CURVES = 12
"""Rows that are drawn; the table has them all."""


def power_part(outlook: PowerOutlook) -> tuple[Block, ...]:
    """Draw the detectable effect against days."""
    if not outlook.metrics:
        return ()
    several = len({one.variant for one in outlook.metrics}) > 1
    drawn = [one for one in outlook.metrics if len(one.points) > 1][:_CURVES]
    view = FigureView(
        title="Smallest lift seen, by days",
        takeaway=" ".join(_sentence(one, several) for one in outlook.metrics[:2] if one.mde),
        figure=outlook_figure(
            {_name(one, several): one.points for one in drawn}, drawn[0].days if drawn else None
        ),
        table=numbers(
            outlook.metrics,
            ("metric", lambda one: _name(one, several)),
            ("days", lambda one: fmt.MISSING if one.days is None else f"{one.days:g}"),
            ("detectable", lambda one: either_way(one.mde)),
            ("asked", lambda one: either_way(one.target)),
            ("days in all", lambda one: _days_in_all(one.target_days)),
            WHY_NOT,
        ),
        key=("power",),
        slug="power-days",
    )
    return (view,)


def _name(one: MetricOutlook, several: bool) -> str:
    return f"{one.metric}, {one.variant}" if several else one.metric


def _sentence(one: MetricOutlook, several: bool) -> str:
    """Say what can be seen today, and how long a smaller effect takes."""
    seen = f"{_name(one, several)}: {either_way(one.mde)} so far"
    size = size_words(one)
    return f"{seen}." if size is None else f"{seen}, {either_way(one.target)} in about {size}."


def _days_in_all(days: float | None) -> str:
    return fmt.MISSING if days is None else fmt.count(math.ceil(days - 1e-6))


def position_part(agreement: Agreement) -> tuple[Block, ...]:
    """Compare click rates of the variants by position."""
    if not agreement.positions:
        return ()
    rates = tuple(dict.fromkeys(agreement.positions))
    totals = Counter[str]()
    for rate in rates:
        totals[rate.variant] += rate.impressions
    heads = ("variant", "position", "impressions", "share", "clicks", "CTR")
    series: dict[str, list[fig.Point]] = {}
    for rate in rates:
        ends = scaled(100, rate.ctr, rate.low, rate.high)
        share = share_of(rate.impressions, totals[rate.variant])
        counts = (fmt.count(rate.position), fmt.count(rate.impressions), share)
        cells = (*counts, fmt.count(rate.clicks), " ".join(_percent(rate)))
        point = fig.Point(rate.position, 100 * rate.ctr, cells, ends)
        series.setdefault(rate.variant, []).append(point)
    up = {"ticksuffix": "%", "rangemode": "tozero"}
    view = FigureView(
        "CTR by position",
        _first_last(rates),
        fig.lines(series, "position", "CTR", {"tickformat": "d"}, up, heads),
        fig.points_table(heads, series),
        ("position",),
        slug="position-ctr",
    )
    return (view,)


def _percent(rate: PositionRate) -> tuple[str, str]:
    value, interval = fmt.estimate(*scaled(100, rate.ctr, rate.low, rate.high))
    return f"{value}%", interval


def _first_last(rates: tuple[PositionRate, ...]) -> str:
    first = min(rate.position for rate in rates)
    said = [f"{r.variant} {_percent(r)[0]}" for r in rates if r.position == first]
    return f"At position {first}: {fmt.listing(said)}."


def aa_part(study: Study) -> tuple[Block, ...]:
    """Show the replays of every metric."""
    aa = study.aa
    if aa is None or not aa.metrics:
        return ()
    off = aa.off()
    ids = slugs([row.metric for row in aa.metrics])
    views = [(row.metric, _view(aa, row, ids[row.metric])) for row in aa.metrics]
    blocks: list[Block] = [
        aa_table("", f"off: {fmt.listing(off)}." if off else "", aa.metrics, off)
    ]
    if aa.refused:
        refused = tuple(aa.refused.items())
        blocks.append(TextTable("Not replayed", "", ("metric", "why"), refused))
    return (*blocks, *by_role(study, views))


def _view(aa: AAResult, row: AAMetric, slug: str) -> FigureView:
    counts = aa.histograms[row.metric]
    width = 1 / len(counts)
    return FigureView(
        title=row.metric,
        takeaway=(
            f"Rejects {row.rejection_rate:.2%} of {row.runs:,} replays in which nothing differs."
        ),
        figure=effect_figures.histogram_figure(counts),
        table=numbers(
            [*enumerate(counts)],
            ("p from", lambda bar: f"{bar[0] * width:.3g}"),
            ("to", lambda bar: f"{(bar[0] + 1) * width:.3g}"),
            ("replays", lambda bar: fmt.count(bar[1])),
        ),
        key=("aa", row.metric),
        slug=f"aa-{slug}",
    )
