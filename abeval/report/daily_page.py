"""Build the parts of the page by days: effects by day and by the clock, time before, the split."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from abeval.report import effect_figures, time_page, time_views
from abeval.report import figures as fig
from abeval.report.figures import Block, FigureView, Heading, by_role, info_of
from abeval.report.slices import daily_views
from abeval.report.tables import (
    TextTable,
    filled,
    interval,
    numbers,
    shown_difference,
    shown_lift,
    text_of,
)
from abeval.report.time_views import cells
from abeval.results import MetricInfo, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.trust import Balance
from abeval.results.windows import Novelty

_WEEKEND = "rgba(128,140,160,0.13)"
_HALF_DAY = timedelta(hours=12)


class _Scale(NamedTuple):
    """The unit of a figure: lifts, or differences if no day has a lift."""

    field: str
    factor: float
    suffix: str

    def of(self, row: SliceRow | Row) -> fig.Interval:
        """Return value and interval of a row."""
        return interval(row, self.field, self.factor)


def daily_effect(
    metric: MetricInfo, rows: Sequence[SliceRow], overall: Sequence[Row] = ()
) -> fig.Figure:
    """Draw a metric's effect by day, and that of the whole period if it has one row."""
    scale = _scale_of(metric, rows)
    variants = tuple(dict.fromkeys(row.variant for row in rows))
    several = len(variants) > 1
    days = sorted({date.fromisoformat(row.cell) for row in rows})
    effect = scale.of(overall[0])[0] if len(overall) == 1 else None
    return fig.figure(
        [
            trace
            for i in range(len(variants))
            for trace in _traces(scale, metric, rows, variants, i)
        ],
        270,
        {"l": 64, "t": 30 if several else 12, "b": 28},
        showlegend=several,
        shapes=[*_weekends(days), *([] if effect is None else [fig.line_at("y", effect)])],
        xaxis=_day_axis(days),
        yaxis=_effect_axis(scale, rows),
    )


def _scale_of(metric: MetricInfo, rows: Sequence[SliceRow]) -> _Scale:
    """Choose lifts if any day has one, else differences in the metric's unit."""
    if any(row.lift is not None for row in rows):
        return _Scale("lift", 100.0, "%")
    if metric.unit in fmt.RATE_UNITS:
        return _Scale("difference", 100.0, " pp")
    return _Scale("difference", 1.0, f" {metric.unit}" if metric.unit else "")


def _traces(
    scale: _Scale, metric: MetricInfo, rows: Sequence[SliceRow], variants: Sequence[str], i: int
) -> Iterator[fig.Trace]:
    """Draw a variant beside the others: full days, then partial ones, hollow."""
    shift = timedelta(hours=10.0 * (i / (len(variants) - 1) - 0.5) if len(variants) > 1 else 0.0)
    own = [row for row in rows if row.variant == variants[i] and scale.of(row)[0] is not None]
    parts = [[row for row in own if row.partial is partial] for partial in (False, True)]
    for place, part in enumerate(part for part in parts if part):
        yield fig.points(
            variants[i],
            [(datetime.fromisoformat(row.cell) + shift).isoformat() for row in part],
            [scale.of(row) for row in part],
            [_hover(metric, row) for row in part],
            fig.colour(i),
            f"{fig.symbol(i)}-open" if part[0].partial else fig.symbol(i),
            9,
            legendgroup=fig.label(variants[i]),
            showlegend=place == 0,
        )


def _day_axis(days: Sequence[date]) -> dict[str, object]:
    axis: dict[str, object] = {"type": "date", "showgrid": False, "tickformat": "%a %d %b"}
    if days:
        axis["range"] = [_edge(days[0], -1), _edge(days[-1], 1)]
    if 0 < len(days) <= 10:
        axis["tickvals"] = [day.isoformat() for day in days]
    return axis


def _effect_axis(scale: _Scale, rows: Sequence[SliceRow]) -> dict[str, object]:
    """Make room for the intervals of full days, and for the values of partial ones."""
    axis = fig.axis(scale.field, ticksuffix=fig.label(scale.suffix), **fig.EFFECT_AXIS)
    full = [row for row in rows if not row.partial] or list(rows)
    ends = [end for row in full for end in scale.of(row) if end is not None]
    ends += [value for row in rows if (value := scale.of(row)[0]) is not None]
    if bounds := fig.axis_range(ends, 0.1):
        axis["range"] = bounds
    return axis


def _hover(metric: MetricInfo, row: SliceRow) -> str:
    effect = fmt.typographic(text_of(shown_lift(row) or shown_difference(row, metric.unit)))
    return f"{row.cell}{', partial day' if row.partial else ''}, {row.variant}: {effect}"


def _weekends(days: Sequence[date]) -> Iterator[dict[str, object]]:
    for day in days:
        if day.weekday() >= 5:
            yield {
                "type": "rect",
                "yref": "paper",
                "x0": _edge(day, -1),
                "x1": _edge(day, 1),
                "y0": 0,
                "y1": 1,
                "fillcolor": _WEEKEND,
                "line": {"width": 0},
                "layer": "below",
            }


def _edge(day: date, side: int) -> str:
    """Noon before a day (side -1) or after it (1): a day is drawn at its midnight."""
    return (datetime.combine(day, datetime.min.time()) + side * _HALF_DAY).isoformat()


def count_figure(series: Mapping[str, Mapping[str, int]], title: str) -> fig.Figure:
    """Draw counts by day, a line for each name."""
    lines = {
        name: [fig.Point(day, n, (day, fmt.count(n))) for day, n in counts.items()]
        for name, counts in series.items()
    }
    days = sorted({date.fromisoformat(day) for counts in series.values() for day in counts})
    return fig.lines(
        lines,
        "",
        title,
        _day_axis(days),
        {"rangemode": "tozero"},
        height=260,
        margin={"l": 64, "t": 30, "b": 28},
        shapes=[*_weekends(days)],
    )


_CLOCKS = (("hour", "by hour of the day"), ("weekday", "by weekday"))


def daily_part(study: Study) -> tuple[Block, ...]:
    """Show effects by calendar day, by days since entry, and by the clock."""
    blocks: list[Block] = [*by_role(study, _calendar(study), "Diagnostics by day")]
    if entry := by_role(study, _since_entry(study), "Diagnostics by days since entry"):
        blocks += [Heading("Days since entry", "does the effect wear off, or grow?"), *entry]
    if clocks := by_role(study, _by_clock(study), "Diagnostics by the clock"):
        blocks += [Heading("By the clock"), *clocks]
    return tuple(blocks)


def _calendar(study: Study) -> Iterator[tuple[str, FigureView]]:
    result = study.analysis
    if result is None:
        return
    for view in daily_views(result):
        rows = [row for row in result.daily if row.metric == view.metric]
        overall: list[Row] = [row for row in result.scorecard if row.metric == view.metric]
        yield (
            view.metric,
            FigureView(
                title=view.metric,
                takeaway=view.takeaway,
                figure=daily_effect(info_of(study, view.metric), rows, overall),
                table=filled(view.table),
                note=view.note,
                key=("daily", view.metric),
                slug=f"daily-{view.anchor}",
            ),
        )


def _since_entry(study: Study) -> Iterator[tuple[str, FigureView]]:
    novelty = () if study.time is None else study.time.novelty
    fits = {(n.metric, n.variant): n for n in novelty if n.cohort == "all"}
    for cell in cells(study):
        rows = [row for row in cell.rows if row.axis == "exposure" and row.kind == "daily"]
        if any(row.lift is not None for row in rows):
            fit = fits.get((cell.metric, cell.variant))
            figure = effect_figures.entry_figure(rows, fit)
            table = time_views.windows_table(rows, cell.info.unit)
            yield cell.view("entry", _novelty_sentence(fit), figure, table)


def _novelty_sentence(fit: Novelty | None) -> str:
    if fit is None:
        return ""
    if fit.reason is not None:
        return f"Novelty was not tested: {codes.words(fit.reason)}."
    p = fmt.p_value(fit.p_value)
    if fit.word is None:
        return f"No decay with the days since entry was detected (p {p} over {fit.days} days)."
    return f"{fit.word.capitalize()}: p {p}; time constant {fit.tau:.2g} days."


def _by_clock(study: Study) -> Iterator[tuple[str, FigureView]]:
    rhythms = () if study.time is None else study.time.rhythms
    for cell in cells(study):
        tests = [t for t in rhythms if (t.metric, t.variant) == (cell.metric, cell.variant)]
        for axis, words in _CLOCKS:
            if rows := [row for row in cell.rows if row.axis == axis]:
                said = time_views.rhythm_sentence([test for test in tests if test.by == axis])
                figure = time_page.recurring_figure(rows, cell.info.unit)
                table = time_views.windows_table(rows, cell.info.unit)
                yield cell.view(axis, said, figure, table, words)


def before_part(study: Study) -> tuple[Block, ...]:
    """Compare the same groups before the experiment."""
    time = study.time
    if time is None or not time.before:
        return ()

    def values(row: Balance) -> tuple[str, str]:
        return fmt.pair(row.control, row.treatment, info_of(study, row.metric).unit)

    table = numbers(
        time.before,
        *("metric", "variant"),
        ("control", lambda row: values(row)[0]),
        ("treatment", lambda row: values(row)[1]),
        ("p", lambda row: fmt.p_value(row.p_value)),
        ("p adjusted", lambda row: fmt.p_value(row.p_adjusted)),
    )
    return (table,)


def srm_part(study: Study) -> tuple[Block, ...]:
    """Count the units that entered by each day, by variant."""
    time = study.time
    control = "control" if study.analysis is None else study.analysis.experiment.control
    entered = None if time is None else time_views.entries(time, control)
    if time is None or not entered:
        return ()
    checks = () if study.analysis is None else study.analysis.trust
    check = next((check for check in checks if check.name == "srm"), None)
    rows = []
    for day in next(iter(entered.values())):
        units = [by_day.get(day, 0) for by_day in entered.values()]
        shares = (fmt.percent(n / sum(units) if sum(units) else 0.0) for n in units)
        rows.append((day, *map(fmt.count, units), *shares))
    heads = ("Up to", *entered, *(f"share of {name}" for name in entered))
    view = FigureView(
        title="Units that entered, up to each day",
        takeaway="" if check is None else f"{check.status.capitalize()}: {check.message}",
        figure=count_figure(entered, "units entered"),
        table=TextTable("", "", heads, tuple(rows)),
        key=("srm", "entries"),
    )
    return (view,)
