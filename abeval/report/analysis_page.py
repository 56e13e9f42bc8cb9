"""Build the page parts of an analysis: verdict, trust, scorecard, segments."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from markupsafe import Markup

from abeval.report import agreement_page as agreement
from abeval.report import assets, glyph, tables
from abeval.report import figures as fig
from abeval.report.figures import Block, Closed, FigureView, MetricBlocks, number_variants
from abeval.report.next_step import ORDER, describe_size, sort_rows, write_verdicts
from abeval.report.parts import page_part
from abeval.report.replay_tables import conclude_replay
from abeval.report.tables import (
    Cell,
    DisplayRow,
    TextTable,
    format_lift,
    format_share,
    write_all_digits,
)
from abeval.report.time_page import draw_daily_units, list_plots
from abeval.report.worth import expect_less, write_worth_lines
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import Agreement
from abeval.results.analysis import ExperimentInfo, MetricInfo, Result
from abeval.results.effects import CutRow, Row, SliceRow
from abeval.results.power import MetricOutlook, PowerOutlook
from abeval.results.record import group_rows
from abeval.results.study import Study
from abeval.results.trust import AAMetric, AAResult, select_checks

_MOST_ROWS = 24
"""Most rows on the first screen; the scorecard has all of them."""

_MOST_OFFLINE = 6
"""Most offline metrics on the first screen of an agreement; the others are folded."""

_CHECK_WORDS = 20
"""Most words of a check's message on the first screen; the trust section has all of it."""

_SAID = 60
"""A verdict that has so many characters of a message says it, perhaps shorter."""


def _move_title_to_lead(table: tables.TextTable) -> tables.TextTable:
    """Put the title of a table before its first sentence."""
    return table._replace(title="", lead=f"{table.title}: {table.lead}")


@page_part("verdict", view="decision", short="Verdict")
def _build_verdict_part(study: Study) -> Iterator[Block]:
    """Build the first screen; without an analysis, that of the agreement."""
    joint = study.agreement
    if study.analysis is not None:
        yield from _show_verdicts(study, study.analysis)
    elif joint is not None and joint.explanations and not study.questions:
        yield from _show_agreement(joint)
    elif study.replay is not None and (lines := conclude_replay(study.replay)):
        yield assets.render_block("lines.html", lines=lines, said=())


def _show_agreement(joint: Agreement) -> Iterator[Block]:
    """Show what was promised and what came, conclusions and the clearest metrics."""
    # Under the title of the page no heading fits, so tables begin with their own.
    yield from map(_move_title_to_lead, agreement.tabulate_gaps(joint))
    lines, trust_lines = (
        agreement.conclude_variants(joint),
        agreement.write_trust_and_guardrails(joint),
    )
    yield assets.render_block("lines.html", lines=lines, said=trust_lines)
    table = tables.trim(agreement.tabulate_standings(joint))._replace(kinds=())
    yield _move_title_to_lead(table._replace(rows=table.rows[:_MOST_OFFLINE]))
    if rest := table.rows[_MOST_OFFLINE:]:
        more = table._replace(title="", lead="", rows=rest)
        yield Closed(f"{len(rest)} more offline metrics", (more,))


def _show_verdicts(study: Study, result: Result) -> Iterator[Block]:
    """Show the verdicts with their next steps, goals and guardrails, trust and units."""
    judged = sort_rows(result, (row for row in result.scorecard if row.role != "diagnostic"))
    axis, rows = _make_row_views(result, judged[:_MOST_ROWS])
    lines, shared = write_verdicts(result, study.outlook)
    order = number_variants(result.experiment)
    lines = tuple(line._replace(place=order.get(line.variant, 1)) for line in lines)
    offline = [("Offline", line) for line in agreement.write_standings(study)]
    labelled_lines = [*write_worth_lines(result), *expect_less(result), *offline]
    # A message that a verdict says is not said again, nor is one step of all variants.
    sentences = " ".join(verdict.sentence for verdict in result.verdicts)
    unmet = [check for check in result.trust if check.status in ("fail", "warn")]
    if len(lines) > 1 and len({line.action for line in lines}) == 1:
        labelled_lines.insert(0, ("Next", lines[0].action))
        lines = tuple(line._replace(action="") for line in lines)
    yield assets.render_block(
        "lines.html", lines=lines, shared=shared, said=labelled_lines, order=ORDER
    )
    yield assets.render_block(
        "first.html",
        result=result,
        order=order,
        splits=_describe_splits(result),
        axis=axis,
        rows=rows,
        more=max(len(judged) - _MOST_ROWS, 0),
        guarded=any(row.role == "guardrail" for row in judged),
        sparks=_draw_sparklines(
            study, {(row.metric, row.variant) for row in judged if row.role == "goal"}
        ),
        tally=tables.tally_checks(result.trust),
        open_checks=[
            (c.name, "" if c.message[:_SAID] in sentences else fmt.clip(c.message, _CHECK_WORDS))
            for c in unmet
        ],
        left_out=study.left_out,
    )


def _describe_splits(result: Result) -> dict[str, str]:
    """Write each variant's share of the units, and the planned share if known."""
    # Without a test of the split there is no plan to compare with.
    if not any(check.name == "srm" and check.status != "skipped" for check in result.trust):
        return {}
    variants = result.experiment.variants
    # A ramp has several plans, one for each split period.
    plans = [ramp.weights for ramp in result.ramps if ramp.weights is not None]
    plans = plans or [{variant.name: variant.weight for variant in variants}]
    units = sum(variant.units for variant in variants)
    return {
        variant.name: f"{format_share(variant.units, units)}, planned "
        + " then ".join(
            fmt.format_percent(plan[variant.name] / sum(plan.values())) for plan in plans
        )
        for variant in variants
    }


def _draw_sparklines(
    study: Study, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Markup]:
    """Draw a sparkline of each goal's cumulative effect, by metric and variant."""
    sparks = {}
    for plot in list_plots(study, "calendar", "cumulative"):
        for variant, rows in plot.rows.items():
            ends = [
                (value, low, high)
                for value, low, high in map(plot.scale.scale_interval, rows)
                if value is not None and low is not None and high is not None
            ]
            if (plot.metric, variant) in keys and len(ends) > 2:
                label = f"{plot.info.display_name}, {variant}, up to each day"
                # The first days have too little data for a scale.
                spark = glyph.draw_sparkline(ends[len(ends) // 7 :], plot.colours[variant], label)
                sparks[plot.metric, variant] = spark
    return sparks


@page_part(
    "trust",
    view="evidence",
    title="Trust checks",
    short="Trust",
    result="analysis",
    printed=True,
    lead=(
        "Whether the numbers below can be believed at all. A failed check that touches a goal, a "
        "guardrail or all metrics hides them; any other makes its own rows untrusted."
    ),
)
def _build_trust_part(result: Result) -> Iterator[Block]:
    """Show every trust check."""
    unmet = select_checks(result.trust, "fail", "warn", "skipped")
    passed = select_checks(result.trust, "pass")
    yield assets.render_block("trust.html", result=result, open_checks=unmet, passed=passed)


@page_part(
    "scorecard",
    view="explore",
    title="Every lift",
    result="analysis",
    gated=True,
    printed=True,
    lead=(
        "A metric opens by its name: its time, segments, distribution, method and SQL. Lift is the "
        "difference over control, with its {level} interval."
    ),
)
def _build_scorecard_part(result: Result) -> Iterator[Block]:
    """Show all rows, by role."""
    roles = group_rows_by_role(result)
    yield assets.render_block("scorecard.html", result=result, opens="explore", roles=roles)
    if forest := _draw_forest(result):
        view = FigureView("Every lift", "", forest, ("forest",))
        yield Closed("The forest as a picture", (view,))
    yield from (Closed(table.title, (table,)) for table in tables.list_adjustment_tables(result))


def _draw_forest(result: Result) -> fig.Figure | None:
    """Draw every lift with its interval, in scorecard order; None without lifts."""
    rows = [row for row in sort_rows(result, result.scorecard) if row.lift is not None]
    names = list(dict.fromkeys(row.metric for row in rows))

    def make_spot(row: Row) -> fig.Spot:
        text = f"{result.label(row.metric)}, {row.variant}: {format_lift(row).text}"
        return fig.Spot(names.index(row.metric), tables.read_interval(row, "lift", 100), text)

    by_variant = group_rows(rows, lambda row: row.variant)
    series = {name: [*map(make_spot, same)] for name, same in by_variant.items()}
    axis, order = (
        fig.build_effect_axis(fig.list_ends(series), "%"),
        number_variants(result.experiment),
    )
    return fig.draw_forest([*map(result.label, names)], series, axis, order) if series else None


@page_part(
    "heat",
    view="explore",
    title="Metrics by segment",
    result="analysis",
    gated=True,
    lead=(
        "Exploratory: many looks at the same data, without adjustment. Shaded: the interval "
        "excludes zero; green is good, red is bad, darker is larger. A difference between "
        "segments is a question, not an answer."
    ),
)
def _build_heat_part(result: Result) -> Iterator[Block]:
    """Show all metrics' lifts in all segments and cuts, and the tests over segments."""
    yield from build_heat_maps(result, [*result.segments, *convert_cut_rows(result)])
    if test_tables := tables.list_segment_tables(result):
        yield Closed("Tests over segments", test_tables)
    if mix_tables := tables.list_split_tables(result):
        yield Closed("Within cells and by mix", mix_tables)


@page_part(
    "segments",
    view="metric",
    title="Segments",
    result="analysis",
    lead=(
        "Exploratory: many looks at the same data, without adjustment. A difference between "
        "segments here is a question, not an answer."
    ),
)
def _build_segments_part(result: Result) -> Iterator[Block]:
    """Show effects by segment."""
    return build_slice_blocks(result, result.segments)


@page_part(
    "cuts",
    view="metric",
    title="Cuts",
    result="analysis",
    lead=(
        "Parts of the traffic: a unit counts in every part of which it has an impression, and p "
        "is Holm's over the cells of a cut."
    ),
)
def _build_cuts_part(result: Result) -> Iterator[Block]:
    """Show effects by cut; one unit may be in several cells of a cut."""
    return build_slice_blocks(result, convert_cut_rows(result))


@page_part(
    "quality",
    view="evidence",
    title="Data quality",
    short="Data",
    result="analysis",
    printed=True,
    lead="What the logs hold, by day and variant, and what was set aside.",
)
def _build_quality_part(result: Result) -> Iterator[Block]:
    """Show units by day and variant, and rows read, used and set aside."""
    yield from draw_daily_units(result)
    if result.accounting or result.daily:
        yield assets.render_block("rows.html", result=result)


@page_part(
    "power",
    view="metric",
    title="Detectable effect",
    short="Power",
    result="outlook",
    lead=("The smallest lift detected with {power} power, if traffic stays as it was."),
)
def _build_power_part(outlook: PowerOutlook) -> Iterator[MetricBlocks]:
    """Draw the detectable effect of each metric against days."""
    order = {name: i for i, name in enumerate(dict.fromkeys(v.variant for v in outlook.metrics), 1)}
    for metric, outlooks in group_rows(outlook.metrics, lambda plan: plan.metric).items():
        sentences = (_describe_outlook(plan, len(outlooks) > 1) for plan in outlooks)
        takeaway = " ".join(filter(None, sentences))
        block: Block = takeaway
        # A single point makes no line.
        if curves := {plan.variant: plan for plan in outlooks if len(plan.points) > 1}:
            title, key = f"{metric}, detectable effect", ("power", metric)
            block = FigureView(title, takeaway, _draw_outlook(curves, order), key)
        if block:
            yield MetricBlocks(metric, (block,))


def _draw_outlook(outlooks: Mapping[str, MetricOutlook], order: Mapping[str, int]) -> fig.Figure:
    """Draw detectable effects by days, a line per variant; mark the days of this log."""
    series = {
        name: [
            fig.Point(x, 100 * y, f"{x:g} days: {fmt.format_plus_minus(y)}")
            for x, y in outlook.points
        ]
        for name, outlook in outlooks.items()
    }
    up = {"tickformat": "~g", "ticksuffix": "%", "rangemode": "tozero"}
    axes = "days", "smallest lift seen", {"rangemode": "tozero"}, up
    marks: dict[str, Any] = {}
    if (days := next(iter(outlooks.values())).days) is not None:
        marks["annotations"] = [fig.note_at(days, "this log", "top")]
        marks["shapes"] = [fig.draw_line_across("x", days, width=1.5)]
    return fig.draw_lines(series, *axes, order=order, **marks)


def _describe_outlook(outlook: MetricOutlook, several: bool) -> str:
    """Write the effect that this log detects, and how long a smaller one takes."""
    prefix = f"{outlook.variant}: " if several else ""
    if outlook.mde is None:
        return f"{prefix}{codes.describe_reason(outlook.reason)}." if outlook.reason else ""
    size = describe_size(outlook)
    smaller = "" if size is None else f", {fmt.format_plus_minus(outlook.target)} in about {size}"
    return f"{prefix}{fmt.format_plus_minus(outlook.mde)} in this log{smaller}."


@page_part(
    "aa",
    view="evidence",
    title="A/A replays",
    short="A/A",
    result="aa",
    lead="How often each test rejects when nothing differs: {alpha_share} of replays, if it holds.",
)
def _build_aa_part(aa: AAResult) -> Iterator[Block]:
    """Show the replays of every metric."""
    off = aa.off()

    def tabulate_replays(rows: Sequence[AAMetric]) -> TextTable:
        return tables.tabulate_aa_replays("", "", rows, off)

    hold = "tests keep their level"
    yield from fig.fold_calm(aa.metrics, lambda row: row.metric in off, tabulate_replays, hold)
    if aa.metrics and aa.refused:
        yield TextTable("Not replayed", "", ("metric", "why"), tuple(aa.refused.items()))


@page_part(
    "replays",
    view="metric",
    title="A/A replays",
    short="A/A",
    result="aa",
    lead=(
        "P-values when nothing differs. If the test keeps its level on this log, they are flat, "
        "and {alpha_share} of them are below {alpha}."
    ),
)
def _build_replays_part(aa: AAResult) -> Iterator[MetricBlocks]:
    """Draw the p-values of each metric's A/A replays."""
    return (MetricBlocks(row.metric, (_draw_replay(aa, row),)) for row in aa.metrics)


def _draw_replay(aa: AAResult, row: AAMetric) -> FigureView:
    """Draw a histogram of A/A p-values; it is flat if the test keeps its level."""
    counts = aa.histograms[row.metric]
    width = 1 / len(counts)
    bins = [(i * width, (i + 1) * width, count) for i, count in enumerate(counts)]
    texts = [f"p {low:.3g} to {high:.3g}: {fmt.format_count(n)} replays" for low, high, n in bins]
    centres, widths = [(i + 0.5) * width for i in range(len(counts))], [0.92 * width] * len(counts)
    bars = fig.draw_trace(texts, x=centres, y=[*counts], width=widths, marker={"color": fig.GREY})
    figure = fig.lay_out_figure(
        [bars | {"type": "bar"}],
        240,
        {"b": 44},
        xaxis={"title": {"text": "p-value"}, "range": [0, 1], "showgrid": False},
        yaxis=fig.build_value_axis("replays"),
        # The height of all bins if p-values are uniform, and alpha.
        shapes=[
            fig.draw_line_across("y", sum(counts) / len(counts)),
            fig.draw_line_across("x", aa.alpha, dash="dot"),
        ],
        annotations=[fig.note_at(aa.alpha, f"α {aa.alpha:g}", "bottom")],
        showlegend=False,
    )
    rejects = f"Rejects {row.rejection_rate:.2%} of {row.runs:,} replays in which nothing differs."
    return FigureView(f"{row.metric}, p-values of A/A replays", rejects, figure, ("aa", row.metric))


_DECIDED = frozenset({"better", "worse", "equivalent", "non_inferior"})


def _build_effect_cell(row: Row | SliceRow, unit: str, note: str = "") -> Cell:
    """Make the cell of a lift, or of a difference; its tooltip has all digits."""
    effect = tables.format_effect(row, unit)
    html = tables.render_spans(estimate=effect.estimate, interval=effect.interval, note=note)
    lift, low, high = map(write_all_digits, (row.lift, row.lift_low, row.lift_high))
    return Cell(effect.text, html, "effect", f"lift {lift} [{low}, {high}]")


def make_row_mark(info: ExperimentInfo, row: Row, display_row: DisplayRow) -> glyph.Mark | None:
    """Make the mark of a scorecard row; None without a lift."""
    if row.lift is None:
        return None
    wide = display_row.row
    # Only an adjusted interval is drawn as a second, thinner line.
    is_wider = (wide.lift_low, wide.lift_high) != (row.lift_low, row.lift_high)
    name = f"{display_row.name}, {row.variant}"
    return glyph.Mark(
        row.lift,
        row.lift_low,
        row.lift_high,
        _write_mark_label(display_row.level, wide, name, display_row.status),
        info.alpha,
        number_variants(info).get(row.variant, 1),
        row.status in _DECIDED,
        (wide.lift_low, wide.lift_high) if is_wider and wide.lift is not None else None,
        _find_harm_limits(row, display_row.metric),
        # With too little data the detectable lift is itself a rough estimate.
        math.inf if row.status == "too_little_data" else row.mde or math.inf,
    )


def _make_slice_mark(info: ExperimentInfo, row: SliceRow) -> glyph.Mark | None:
    """Make the mark of a segment or cut; filled if its interval excludes zero."""
    if row.lift is None:
        return None
    name = f"{row.metric}, {row.cell}, {row.variant}"
    label = _write_mark_label(fmt.format_level(info.alpha), row, name, "exploratory")
    colour_index, clear = number_variants(info).get(row.variant, 1), tables.excludes_zero(row)
    return glyph.Mark(row.lift, row.lift_low, row.lift_high, label, info.alpha, colour_index, clear)


def _write_mark_label(level: str, row: Row | SliceRow, name: str, status: str) -> str:
    lift = format_lift(row)
    numbers = f"{lift.estimate}, {level} interval {lift.span}" if lift else fmt.MISSING
    return f"{name}: lift {numbers}, {status}"


def _find_harm_limits(row: Row, metric: MetricInfo) -> glyph.Ends:
    """Return the lifts beyond which a guardrail's margin is broken."""
    size = metric.margin
    if size is not None and not metric.margin_relative:
        # The axis shows lifts: an absolute margin becomes a share of control.
        size = size / abs(row.control) if row.control else None
    if size is None or metric.role != "guardrail":
        return None, None
    return {"increase": (-size, None), "decrease": (None, size)}.get(metric.direction, (None, None))


class RowView(NamedTuple):
    """A row of the scorecard, or of a segment or cut.

    `of` is the row with the numbers; `absolute` is the difference beside a lift. `shown` has the
    cells of a row of the scorecard.
    """

    of: Row | SliceRow
    place: int
    control: str
    treatment: str
    effect: Cell
    mark: glyph.Mark | None
    absolute: str = ""
    shown: DisplayRow | None = None


Rows = tuple[glyph.Axis, list[RowView]]
"""Rows of the scorecard, and the axis that they share."""


def group_rows_by_role(result: Result) -> list[tuple[str, str, str, Rows]]:
    """Group the scorecard by role, each with title, hint and rows on one axis."""
    by_role = group_rows(sort_rows(result, result.scorecard), lambda row: row.role)
    shown = [role for role in tables.ROLES if role[0] in by_role]
    return [(*role, _make_row_views(result, by_role[role[0]])) for role in shown]


def _make_row_views(result: Result, rows: Sequence[Row]) -> Rows:
    """Make the views of scorecard rows, on one axis."""
    order, views = number_variants(result.experiment), list[RowView]()
    for source_row, display_row in zip(rows, tables.fit_rows(result, rows), strict=True):
        row, unit = display_row.row, display_row.metric.unit
        absolute = tables.format_difference(row, unit)
        view = RowView(
            row,
            order.get(row.variant, 1),
            *display_row.values,
            _build_effect_cell(row, unit),
            make_row_mark(result.experiment, source_row, display_row),
            # Without a lift the effect itself is the difference.
            absolute.text if absolute and row.lift is not None else "",
            display_row,
        )
        views.append(view)
    return glyph.choose_mark_axis([view.mark for view in views]), views


def build_slice_blocks(result: Result, rows: Sequence[SliceRow]) -> Iterator[Block]:
    """Tabulate each metric's effects by dimension, on one axis per metric."""
    order = number_variants(result.experiment)
    for name, metric_rows in group_rows(rows, lambda row: row.metric).items():
        metric, lines = result.info(name), []
        # One axis for all cells of a metric, so that they can be compared.
        for row in metric_rows:
            notes = filter(None, ("partial day" * row.partial, codes.describe_reason(row.reason)))
            effect = _build_effect_cell(row, metric.unit, ", ".join(notes))
            values = fmt.format_pair(row.control, row.treatment, metric.unit)
            mark = _make_slice_mark(result.experiment, row)
            lines.append(RowView(row, order.get(row.variant, 1), *values, effect, mark))
        html = assets.render_block(
            "segments.html",
            result=result,
            metric=metric,
            lines=lines,
            dimensions=list(dict.fromkeys(row.slice for row in metric_rows)),
            axis=glyph.choose_mark_axis([line.mark for line in lines]),
        )
        yield MetricBlocks(name, (html,))


def build_heat_maps(result: Result, rows: Sequence[SliceRow]) -> Iterator[Block]:
    """Tabulate lifts by metric, variant and cell, one heat map per dimension."""
    overall_rows = {("", row.metric, row.variant): row for row in result.scorecard}
    for dimension, cells in group_rows(rows, lambda row: row.slice).items():
        dimension_rows = {(row.cell, row.metric, row.variant): row for row in cells}
        judged = {row.metric for row in cells}
        names = dict.fromkeys(row.metric for row in result.scorecard if row.metric in judged)
        html = assets.render_block(
            "heat.html",
            dimension=dimension,
            cells=list(dict.fromkeys(["", *(row.cell for row in cells)])),
            variants=list(dict.fromkeys(row.variant for row in result.scorecard)),
            metrics=[*map(result.info, names)],
            lifts={**overall_rows, **dimension_rows},
            tone=_shade_lift,
        )
        yield Closed(f"By {dimension}", (html,))


def _shade_lift(metric: MetricInfo, row: SliceRow | Row) -> float:
    """Return the shade of a lift, from -1 (bad) to 1 (good); 0 if unclear."""
    if row.lift is None or not tables.excludes_zero(row):
        return 0.0
    good = {"increase": 1.0, "decrease": -1.0}.get(metric.direction, 0.0)
    # A few huge lifts of small cells would leave the others pale: 20 % is the darkest.
    return good * max(-1.0, min(1.0, row.lift / 0.2))


def convert_cut_rows(result: Result) -> list[SliceRow]:
    """Turn rows of cuts into rows of segments, with p after Holm."""
    shared = {field.name for field in fields(SliceRow)} & {field.name for field in fields(CutRow)}

    def make_slice_row(row: CutRow) -> SliceRow:
        values = {name: getattr(row, name) for name in shared}
        values |= {"cell": row.cell or "(none)", "p_value": row.p_adjusted}
        return SliceRow(**values, slice=row.cut, partial=False)

    return [*map(make_slice_row, result.cuts)]


page_part(
    "design",
    view="evidence",
    title="What was randomised",
    short="Design",
    result="analysis",
    gated=True,
)(tables.list_design_tables)
