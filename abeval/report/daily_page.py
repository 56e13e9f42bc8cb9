"""Build the parts of the page by days: the effect of each day, time before, units, the split."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from statistics import NormalDist
from typing import Any

from abeval.report import figures as fig
from abeval.report.figures import Block, FigureView, Point, info_of, of_metrics
from abeval.report.tables import excludes_zero, numbers, with_rows
from abeval.report.time_page import clock_views, entry_views, scale_of
from abeval.results import MetricInfo, SliceRow
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study
from abeval.results.trust import Balance
from abeval.results.windows import TimeResult, WindowRow

_WEEKEND = "rgba(128,140,160,0.13)"
_HALF_DAY = timedelta(hours=12)


def daily_part(study: Study) -> tuple[Block, ...]:
    """Show effects by calendar day, by days since entry, and by the clock."""
    return of_metrics([*_calendar(study), *entry_views(study), *clock_views(study)])


def _calendar(study: Study) -> Iterator[tuple[str, FigureView]]:
    if (result := study.analysis) is None:
        return
    order = fig.places(result.experiment)
    for metric, rows in fig.grouped(result.daily, lambda row: row.metric).items():
        info = result.info(metric)
        title, figure = f"{info.shown} by day", daily_effect(info, rows, order)
        yield metric, FigureView(title, _takeaway(rows), figure, ("daily", metric))


def daily_effect(
    metric: MetricInfo, rows: Sequence[SliceRow], order: Mapping[str, int]
) -> fig.Figure:
    """Draw a metric's effect by day, the variants beside each other."""
    scale = scale_of(metric, rows)
    variants = tuple(dict.fromkeys(row.variant for row in rows))
    spread = {v: 10.0 * (i / max(len(variants) - 1, 1) - 0.5) for i, v in enumerate(variants)}
    series: dict[str, list[Point]] = {variant: [] for variant in variants}
    for row in rows:
        value, low, high = scale.of(row)
        if value is not None:
            hours = spread[row.variant] if len(variants) > 1 else 0.0
            place = (datetime.fromisoformat(row.cell) + timedelta(hours=hours)).isoformat()
            said = f"{row.cell}{', partial day' * row.partial}: {scale.text(row)}"
            series[row.variant].append(Point(place, value, said, (value, low, high), row.partial))
    days = sorted({date.fromisoformat(row.cell) for row in rows})
    axes = "", scale.field, _day_axis(days), scale.axis
    room = {"l": 64, "t": 30 if len(variants) > 1 else 12, "b": 28}
    style: dict[str, Any] = {"height": 270, "margin": room, "mode": "markers", "is_effect": True}
    return fig.lines(series, *axes, order=order, shapes=[*_weekends(days)], **style)


def _takeaway(rows: Sequence[SliceRow]) -> str:
    """Say what full days show of each variant: signs and intervals, without a verdict."""
    said = []
    for variant, own in fig.grouped(rows, lambda row: row.variant).items():
        full = [row for row in own if not row.partial and row.difference is not None]
        above, clear = sum((row.difference or 0.0) > 0 for row in full), map(excludes_zero, full)
        days = f"{len(full)} full {'day' if len(full) == 1 else 'days'}"
        words = f"above control on {above} of {days}, an interval excludes zero on {sum(clear)}"
        said.append(f"{variant}: {words}" if full else f"{variant}: no full day has an effect")
    return f"{'; '.join(said)}."


def _day_axis(days: Sequence[date]) -> dict[str, object]:
    axis: dict[str, object] = {**fig.DAYS}
    if days:
        axis["range"] = [_edge(days[0], -1), _edge(days[-1], 1)]
    if 0 < len(days) <= 10:
        axis["tickvals"] = [day.isoformat() for day in days]
    return axis


def _weekends(days: Sequence[date]) -> Iterator[dict[str, object]]:
    for day in days:
        if day.weekday() >= 5:
            ends = {"x0": _edge(day, -1), "x1": _edge(day, 1), "y0": 0, "y1": 1, "yref": "paper"}
            fill = {"fillcolor": _WEEKEND, "line": {"width": 0}, "layer": "below"}
            yield {"type": "rect", **ends, **fill}


def _edge(day: date, side: int) -> str:
    """Noon before a day (side -1) or after it (1): a day is drawn at its midnight."""
    return (datetime.combine(day, datetime.min.time()) + side * _HALF_DAY).isoformat()


def units_view(result: Result) -> Iterator[FigureView]:
    """Count the units of each day, a line for each variant."""
    # Every metric that counts units has the same days.
    if not result.daily:
        return
    days = [row for row in result.daily if row.metric == result.daily[0].metric]
    series = _counts(result.experiment.control, [(row.cell, row) for row in days])
    every = list(dict.fromkeys(day for units in series.values() for day in units))
    lowest = min(every, key=lambda day: sum(units.get(day, 0) for units in series.values()))
    dates = sorted(date.fromisoformat(day) for day in every)
    points = {
        name: [Point(day, n, f"{day}: {fmt.count(n)}") for day, n in units.items()]
        for name, units in series.items()
    }
    axes = "", "units", _day_axis(dates), {"rangemode": "tozero"}
    style: dict[str, Any] = {"height": 260, "margin": {"l": 64, "t": 30, "b": 28}}
    style |= {"order": fig.places(result.experiment), "shapes": [*_weekends(dates)]}
    figure = fig.lines(points, *axes, **style)
    said = f"Fewest units on {lowest}. If the lines diverge or drop to zero, suspect the log first."
    yield FigureView("Units by day", said, figure, ("quality", "units"))


def before_part(study: Study) -> Iterator[Block]:
    """Compare the same groups before the experiment."""

    def value(row: Balance, of: int) -> str:
        return fmt.pair(row.control, row.treatment, info_of(study, row.metric).unit)[of]

    table = numbers(
        () if study.time is None else study.time.before,
        *("metric", "variant"),
        ("control", lambda row: value(row, 0)),
        ("treatment", lambda row: value(row, 1)),
        ("p", lambda row: fmt.p_value(row.p_value)),
        ("p adjusted", lambda row: fmt.p_value(row.p_adjusted)),
    )
    yield from map(fig.listed, with_rows(table))


def srm_part(study: Study) -> Iterator[Block]:
    """Draw each variant's share of the units that entered, with the share that was planned."""
    if study.time is None or study.analysis is None:
        return
    info = study.analysis.experiment
    entered = _entries(study.time, info.control)
    weights = {one.name: one.weight for one in info.variants if one.name in entered}
    if not entered or not sum(weights.values()):
        return
    order, series, bands = fig.places(info), dict[str, list[Point]](), []
    # Of two variants the other share is the rest of this one.
    for name, by_day in list(entered.items())[: 1 if len(entered) == 2 else None]:
        totals = {day: sum(units.get(day, 0) for units in entered.values()) for day in by_day}
        known = [(day, by_day[day], total) for day, total in totals.items() if total]
        expected = weights[name] / sum(weights.values())
        reach = NormalDist().inv_cdf(1 - info.alpha / 2) * (expected * (1 - expected)) ** 0.5
        ends = [
            (100 * expected, 100 * (expected - reach / n**0.5), 100 * (expected + reach / n**0.5))
            for _, _, n in known
        ]
        tone, days = fig.colour(order.get(name, 1)), [day for day, _, _ in known]
        bands.append(fig.band(days, ends, tone, f"{name}, as planned"))
        series[name] = [
            Point(d, 100 * k / n, f"up to {d}: {fmt.count(k)} units, {fmt.percent(k / n)}")
            for d, k, n in known
        ]
    check = next((check for check in study.analysis.trust if check.name == "srm"), None)
    axes, room = ("", "share of units", fig.DAYS, {"ticksuffix": "%"}), {"b": 28}
    figure = fig.lines(series, *axes, height=260, margin=room, order=order, showlegend=True)
    figure["data"] = [*bands, *figure["data"]]
    said = "" if check is None else f"{check.status.capitalize()}: {check.message}"
    yield FigureView("Share of the units that entered", said, figure, ("srm", "entries"))


def _entries(time: TimeResult, control: str) -> dict[str, dict[str, int]]:
    """Count by variant and day the units that entered by its end, of the metric with most."""
    rows = [r for r in time.windows if r.axis == "calendar" and r.kind == "cumulative"]
    if not rows:
        return {}
    most = max(rows, key=lambda row: row.units_control + row.units)
    own = [row for row in rows if row.metric == most.metric]
    return _counts(control, [(row.end, row) for row in own])


def _counts(
    control: str, rows: Sequence[tuple[str, SliceRow | WindowRow]]
) -> dict[str, dict[str, int]]:
    """Count units by variant and day."""
    series = {control: {day: row.units_control for day, row in rows}}
    for day, row in rows:
        series.setdefault(row.variant, {})[day] = row.units
    return series
