"""Build the parts of the page that an analysis fills: trust, scorecard, segments, rows of logs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from abeval.report import assets, tables
from abeval.report import figures as fig
from abeval.report.daily_page import units_view
from abeval.report.effects import by_role, cut_rows, heat_blocks, slice_blocks
from abeval.report.figures import Block, Closed, FigureView, of_metrics
from abeval.report.next_step import size_words
from abeval.report.tables import TextTable, aa_table, scaled, share_of, with_rows
from abeval.results import AAMetric, codes
from abeval.results import format as fmt
from abeval.results.agreement import Agreement, PositionRate
from abeval.results.analysis import Result
from abeval.results.power import MetricOutlook, PowerOutlook
from abeval.results.study import Study
from abeval.results.trust import AAResult, worst_first


def trust_part(result: Result) -> Iterator[Block]:
    """Show every trust check."""
    unmet = worst_first(result.trust, "fail", "warn", "skipped")
    passed = worst_first(result.trust, "pass")
    yield assets.block("trust.html", result=result, open_checks=unmet, passed=passed)


def design_part(result: Result) -> Iterator[Block]:
    """Show what clusters cost, or what slots of time show after a switch."""
    yield from tables.design_tables(result)


def scorecard_part(study: Study) -> Iterator[Block]:
    """Show all rows, by role."""
    if result := study.analysis:
        opens, roles = _opens(study), by_role(result)
        yield assets.block("scorecard.html", result=result, opens=opens, roles=roles)
        yield from tables.tables(result)


def heat_part(study: Study) -> Iterator[Block]:
    """Show lifts of all metrics in all segments and cuts."""
    if result := study.analysis:
        yield from heat_blocks(result, [*result.segments, *cut_rows(result)], _opens(study))


def _opens(study: Study) -> str:
    """Return the id of what a metric opens: its effects up to each day, by day, or none."""
    if study.time is not None and study.time.windows:
        return "cumulative"
    return "daily" if study.analysis is not None and study.analysis.daily else "explore"


def segments_part(result: Result) -> Iterator[Block]:
    """Show effects by segment."""
    yield from slice_blocks(result, result.segments)
    if beside := tables.segment_tables(result):
        yield Closed("Tests over segments", beside)


def cuts_part(result: Result) -> Iterator[Block]:
    """Show effects in parts of the traffic, of which one unit may see several."""
    yield from slice_blocks(result, cut_rows(result))
    if beside := tables.split_tables(result):
        yield Closed("Within cells and by mix", beside)


def quality_part(result: Result) -> Iterator[Block]:
    """Count rows read, used and set aside, and units by day and variant."""
    yield from units_view(result)
    if result.accounting or result.daily:
        yield assets.block("rows.html", result=result)


def power_part(outlook: PowerOutlook) -> tuple[Block, ...]:
    """Draw the detectable effect of each metric against days."""
    views: list[tuple[str, Block]] = []
    order = {name: i for i, name in enumerate(dict.fromkeys(v.variant for v in outlook.metrics), 1)}
    for metric, own in fig.grouped(outlook.metrics, lambda one: one.metric).items():
        said = " ".join(filter(None, (_sentence(one, len(own) > 1) for one in own)))
        drawn = {one.variant: one for one in own if len(one.points) > 1}
        if drawn:
            figure = _outlook_figure(drawn, order)
            views.append((metric, FigureView("", said, figure, ("power", metric))))
        elif said:
            views.append((metric, Markup("<p>{}</p>").format(fmt.typographic(said))))
    return of_metrics(views)


def _outlook_figure(outlooks: Mapping[str, MetricOutlook], order: Mapping[str, int]) -> fig.Figure:
    """Draw a line for each variant; today is marked."""
    series = {
        name: [fig.Point(x, 100 * y, f"{x:g} days: {fmt.either_way(y)}") for x, y in one.points]
        for name, one in outlooks.items()
    }
    up = {"tickformat": "~g", "ticksuffix": "%", "rangemode": "tozero"}
    axes = "days", "smallest lift seen", {"rangemode": "tozero"}, up
    marks: dict[str, Any] = {}
    if (here := next(iter(outlooks.values())).days) is not None:
        note = {"x": here, "y": 1, "yref": "paper", "text": "today", "showarrow": False}
        marks["annotations"] = [{**note, "xanchor": "left", "yanchor": "top"}]
        marks["shapes"] = [fig.line_at("x", here, width=1.5)]
    return fig.lines(series, *axes, order=order, **marks)


def _sentence(one: MetricOutlook, several: bool) -> str:
    """Say what can be seen today, and how long a smaller effect takes."""
    of = f"{one.variant}: " if several else ""
    if one.mde is None:
        return f"{of}{codes.reason(one.reason)}." if one.reason else ""
    size = size_words(one)
    seen = f"{of}{fmt.either_way(one.mde)} so far"
    return f"{seen}." if size is None else f"{seen}, {fmt.either_way(one.target)} in about {size}."


def position_part(agreement: Agreement) -> Iterator[Block]:
    """Compare click rates of the variants by position."""
    rates = tuple(dict.fromkeys(agreement.positions))
    totals = Counter[str]()
    for rate in rates:
        totals[rate.variant] += rate.impressions
    series: dict[str, list[fig.Point]] = {}
    for rate in rates:
        ends = scaled(100, rate.ctr, rate.low, rate.high)
        said = (
            f"position {fmt.count(rate.position)}, impressions {fmt.count(rate.impressions)}, "
            f"share {share_of(rate.impressions, totals[rate.variant])}, "
            f"clicks {fmt.count(rate.clicks)}, CTR {' '.join(_percent(rate))}"
        )
        point = fig.Point(rate.position, 100 * rate.ctr, said, ends)
        series.setdefault(rate.variant, []).append(point)
    up = {"ticksuffix": "%", "rangemode": "tozero"}
    if rates:
        drawn = fig.lines(series, "position", "CTR", {"tickformat": "d"}, up)
        first = min(rate.position for rate in rates)
        on_top = [f"{r.variant} {_percent(r)[0]}" for r in rates if r.position == first]
        said = f"At position {first}: {fmt.listing(on_top)}."
        yield FigureView("CTR by position", said, drawn, ("position", "ctr"))


def _percent(rate: PositionRate) -> tuple[str, str]:
    value, interval = fmt.estimate(*scaled(100, rate.ctr, rate.low, rate.high))
    return f"{value}%", interval


def aa_part(study: Study) -> Iterator[Block]:
    """Show the replays of every metric."""
    if (aa := study.aa) and aa.metrics:
        off = aa.off()
        yield aa_table("", f"off: {fmt.listing(off)}." if off else "", aa.metrics, off)
        refused = TextTable("Not replayed", "", ("metric", "why"), tuple(aa.refused.items()))
        yield from with_rows(refused)


def replays_part(aa: AAResult) -> tuple[Block, ...]:
    """Draw the p-values of each metric's A/A replays."""
    return of_metrics((row.metric, _replays(aa, row)) for row in aa.metrics)


def _replays(aa: AAResult, row: AAMetric) -> FigureView:
    """Count p-values in bins of equal width: flat if the test keeps its level."""
    counts = aa.histograms[row.metric]
    width = 1 / len(counts)
    said = [
        f"p {i * width:.3g} to {(i + 1) * width:.3g}: {fmt.count(count)} replays"
        for i, count in enumerate(counts)
    ]
    places, widths = [(i + 0.5) * width for i in range(len(counts))], [0.92 * width] * len(counts)
    bars = fig.scatter(said, x=places, y=list(counts), width=widths, marker={"color": fig.GREY})
    even = fig.line_at("y", sum(counts) / len(counts))
    alpha = fig.line_at("x", aa.alpha, dash="dot")
    at, named = {"x": aa.alpha, "y": 1, "yref": "paper"}, {"text": f"α {aa.alpha:g}"}
    beside = {"showarrow": False, "xanchor": "left", "yanchor": "bottom"}
    marks = {"shapes": [even, alpha], "annotations": [at | named | beside], "showlegend": False}
    across = {"title": {"text": "p-value"}, "range": [0, 1], "showgrid": False}
    axes = {"xaxis": across, "yaxis": fig.value_axis("replays")}
    figure = fig.figure([bars | {"type": "bar"}], 190, {"b": 34}, **axes, **marks)
    rejects = f"Rejects {row.rejection_rate:.2%} of {row.runs:,} replays in which nothing differs."
    return FigureView("", rejects, figure, ("aa", row.metric))
