"""Build the page parts on time: cumulative and daily effects, entry, split."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from math import exp, expm1
from statistics import NormalDist
from typing import Any, NamedTuple

from abeval.report import assets, tables
from abeval.report import figures as fig
from abeval.report.figures import Block, FigureView, MetricBlocks, Point, find_metric_info
from abeval.report.parts import page_part
from abeval.report.short import tabulate
from abeval.report.tables import excludes_zero, read_interval
from abeval.report.time_short import tabulate_effect_stability
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import MetricInfo, Result
from abeval.results.effects import Row, SliceRow
from abeval.results.record import group_rows
from abeval.results.study import Study
from abeval.results.trust import Balance
from abeval.results.windows import Look, Novelty, Rhythm, Stability, TimeResult, WindowRow


class Scale(NamedTuple):
    """The scale of a figure: lifts, or differences if no row has a lift."""

    field: str
    factor: float
    axis: dict[str, str]
    unit: str

    def scale_interval(self, row: SliceRow | Row | WindowRow) -> fmt.Interval:
        """Return the value and the interval of a row on this scale."""
        return read_interval(row, self.field, self.factor)

    def text(self, row: SliceRow | WindowRow) -> str:
        """Write the effect of a row."""
        return fmt.typeset_numbers(tables.format_effect(row, self.unit).text)

    def points(self, rows: Iterable[WindowRow], by: str = "end") -> list[Point]:
        """Make points at the first or last day of rows that have an effect."""
        return [
            Point(
                getattr(row, by),
                value,
                f"{row.start}{f' to {row.end}' * (row.start != row.end)}: {self.text(row)}"
                + f", p {fmt.format_p_value(row.p_value)}" * (row.kind == "rolling"),
                (value, low, high),
                row.partial and row.kind == "daily",
            )
            for row in rows
            for value, low, high in [self.scale_interval(row)]
            if value is not None
        ]


def choose_scale(metric: MetricInfo, rows: Sequence[SliceRow] | Sequence[WindowRow]) -> Scale:
    """Choose a scale: lifts if any row has one, else differences."""
    if any(row.lift is not None for row in rows):
        return Scale("lift", 100.0, {"ticksuffix": "%"}, metric.unit)
    if metric.unit in fmt.RATE_UNITS:
        return Scale("difference", 100.0, {"ticksuffix": " pp"}, metric.unit)
    suffix = {"ticksuffix": f" {fig.escape_label(metric.unit)}"} if metric.unit else {}
    return Scale("difference", 1.0, suffix, metric.unit)


def _identify_series(row: WindowRow | Look | Rhythm | Novelty | Stability) -> tuple[str, str]:
    return row.metric, row.variant


class TimePlot(NamedTuple):
    """The rows of one metric on one axis of time, by variant, for one figure.

    `colours` are the places in `COLOURS` of all variants of the metric, those without rows too.
    """

    metric: str
    info: MetricInfo
    colours: Mapping[str, int]
    rows: Mapping[str, Sequence[WindowRow]]

    @property
    def scale(self) -> Scale:
        """Choose the scale that all variants share."""
        return choose_scale(self.info, [row for rows in self.rows.values() for row in rows])

    def draw(
        self,
        across: str = "",
        xaxis: Mapping[str, object] = fig.DAYS,
        by: str = "end",
        **style: Any,  # noqa: ANN401 (as `figures.lines` takes it)
    ) -> fig.Figure:
        """Draw the effects of all variants, at the first or last days of their rows."""
        scale = self.scale
        points = {variant: scale.points(rows, by) for variant, rows in self.rows.items()}
        axes = (across, scale.field, xaxis, scale.axis)
        return fig.draw_lines(points, *axes, is_effect=True, order=self.colours, **style)

    def view(self, part: str, title: str, takeaway: str, figure: fig.Figure) -> MetricBlocks:
        """Make the figure a block of the metric's panel."""
        title, key = f"{self.info.display_name}, {title}", (part, self.metric)
        return MetricBlocks(self.metric, (FigureView(title, takeaway, figure, key),))

    def say(self, sentences: Mapping[str, str]) -> str:
        """Join a sentence of each variant, named where there are several."""
        several = len(self.colours) > 1
        return " ".join(f"{f'{name}: ' * several}{s}" for name, s in sentences.items() if s)


def list_plots(study: Study, axis: str, kind: str = "", lifts: bool = False) -> Iterator[TimePlot]:
    """Yield the rows of each metric on an axis.

    With `lifts`, variants without a lift are left out.
    """
    windows = () if study.time is None else study.time.windows
    order = {name: i for i, name in enumerate(dict.fromkeys(row.variant for row in windows), 1)}
    if study.analysis is not None:
        # Variants have the same colours on all of the page.
        order = fig.number_variants(study.analysis.experiment)
    for metric, rows in group_rows(windows, lambda row: row.metric).items():
        by_variant = group_rows(rows, lambda row: row.variant)
        selected = {
            variant: [row for row in same if row.axis == axis and row.kind in (kind or row.kind,)]
            for variant, same in by_variant.items()
        }
        shown = {
            variant: same
            for variant, same in selected.items()
            if (any(row.lift is not None for row in same) if lifts else same)
        }
        if shown:
            colours = {variant: order.get(variant, 1) for variant in by_variant}
            yield TimePlot(metric, find_metric_info(study, metric), colours, shown)


@page_part("metrics", view="explore", title="Metrics")
def _build_metrics_part(study: Study) -> Iterator[Block]:
    """List the metrics where no scorecard does; each opens its panel."""
    if study.analysis is None and (study.time is not None or study.aa is not None):
        rows = dict.fromkeys(row.metric for row in (study.time.windows if study.time else ()))
        rows |= dict.fromkeys(row.metric for row in (study.aa.metrics if study.aa else ()))
        yield assets.render_block("metrics.html", metrics=[*rows])


@page_part(
    "cumulative",
    view="metric",
    title="Up to each day",
    lead=(
        "Line and band: all days up to it, with the {level} interval for one look. Dashed: the "
        "band that is valid however often you look. Dots: one day; hollow where the log covers it "
        "in part."
    ),
)
def _build_cumulative_part(study: Study) -> Iterator[MetricBlocks]:
    """Draw cumulative effects, with the band that is valid at every look."""
    stability = () if study.time is None else study.time.stability
    verdicts = {
        _identify_series(row): f"{codes.describe_code(row.verdict).capitalize()}"
        f"{' to say whether it lasts' * (row.verdict == 'too_early')}. "
        for row in stability
    }
    looks = {} if study.time is None else group_rows(study.time.looks, _identify_series)
    daily = {plot.metric: plot.rows for plot in list_plots(study, "calendar", "daily")}
    for plot in list_plots(study, "calendar", "cumulative"):
        figure, takeaway = plot.draw("up to the day", mode="lines", shape="band"), {}
        for variant, colour_index in plot.colours.items():
            # Of several variants, the dots of single days would hide the lines.
            if len(plot.colours) == 1:
                days = daily.get(plot.metric, {}).get(variant, ())
                figure["data"] += _draw_days(plot.scale.points(days), colour_index)
            seen = looks.get((plot.metric, variant), ())
            figure["data"] += _draw_always_valid_band(plot, variant, seen)
            verdict = verdicts.get((plot.metric, variant), "")
            takeaway[variant] = f"{verdict}{_describe_looks(seen)}"
        yield plot.view("cumulative", "effect up to each day", plot.say(takeaway), figure)


def _draw_days(days: Sequence[Point], colour_index: int) -> list[fig.Trace]:
    """Draw the effect of each day alone as dots."""
    # Their numbers are those of the figure by day.
    symbols = ["circle" + "-open" * day.hollow for day in days]
    mark = {"color": fig.choose_colour(colour_index), "size": 6, "symbol": symbols}
    x, y = [day.x for day in days], [day.y for day in days]
    style = {"mode": "markers", "name": "one day", "hoverinfo": "skip"}
    return [fig.draw_trace(x=x, y=y, marker=mark, **style)] if days else []


def _draw_always_valid_band(plot: TimePlot, variant: str, looks: Sequence[Look]) -> list[fig.Trace]:
    """Draw the always-valid band; on a figure of lifts, relative to control."""
    scale, tone = plot.scale, fig.choose_colour(plot.colours[variant])
    controls = {row.end: abs(row.control or 0.0) for row in plot.rows.get(variant, ())}
    shares = [
        (look, controls.get(look.day, 0.0) if scale.field == "lift" else 1.0) for look in looks
    ]
    scaled_looks = [(look, scale.factor / share) for look, share in shares if share]
    if not scaled_looks:
        return []
    days = [look.day for look, _ in scaled_looks]
    style: dict[str, Any] = {
        "mode": "lines",
        "name": f"{fig.escape_label(variant)}, always valid",
        "showlegend": False,
        "line": {"color": tone, "width": 1.6, "dash": "dash"},
    }
    low = [factor * look.always_low for look, factor in scaled_looks]
    high = [factor * look.always_high for look, factor in scaled_looks]
    # The text of a look, with both ends, is that of its lower end alone.
    texts = [_describe_look(look, scale.unit) for look, _ in scaled_looks]
    upper = fig.draw_trace(x=days, y=high, **style, hoverinfo="skip")
    return [fig.draw_trace(texts, x=days, y=low, **style), upper]


def _describe_look(look: Look, unit: str) -> str:
    """Write what is always valid at a look.

    At a planned look, also write whether the effect crossed the boundary.
    """
    seen = fmt.format_difference(look.difference, look.always_low, look.always_high, unit).text
    planned = ""
    if look.bound is not None:
        way = "not crossed" if look.planned_declares == "unclear" else "crossed"
        planned = f"; planned look, boundary p {fmt.format_z_p_value(look.bound)} {way}"
    return (
        f"up to {look.day}: {seen}, p {fmt.format_p_value(look.always_p_value)}; "
        f"for one look p {fmt.format_p_value(look.fixed_p_value)}{planned}"
    )


def _describe_looks(looks: Sequence[Look]) -> str:
    """Write when daily looks would have declared an effect."""
    if not looks:
        return ""
    naive = next((look.day for look in looks if look.fixed_declares != "unclear"), None)
    valid = next((look.day for look in looks if look.always_declares != "unclear"), None)
    early = f"{naive or 'never'} if checked daily (not valid)"
    late = f"{valid or 'never'} with a band valid at every look"
    planned = [look for look in looks if look.bound is not None]
    crossed = (n for n, look in enumerate(planned, 1) if look.planned_declares != "unclear")
    at_looks = f", never at the {len(planned)} planned looks" if planned else ""
    if number := next(crossed, None):
        day = planned[number - 1].day
        at_looks = f", {day} at a planned look ({number} of {len(planned)})"
    return f"First significant: {early}, {late}{at_looks}."


@page_part(
    "windows",
    view="metric",
    title="Windows",
    lead="Each point is a window that ends on its day; the band is its {level} interval.",
)
def _build_windows_part(study: Study) -> Iterator[MetricBlocks]:
    """Draw the effect in rolling windows of the longest width."""
    for plot in list_plots(study, "calendar", "rolling", lifts=True):
        # Short windows are noisy: the page shows the steadiest ones, the JSON has all.
        most = max(row.days for rows in plot.rows.values() for row in rows if row.lift is not None)
        longest = plot._replace(
            rows={
                name: [row for row in rows if row.lift is not None and row.days == most]
                for name, rows in plot.rows.items()
            }
        )
        above = {
            name: f"Above control in {sum((row.lift or 0.0) > 0 for row in rows)} of {len(rows)} "
            f"overlapping windows of {most} days."
            for name, rows in longest.rows.items()
        }
        figure = longest.draw("last day of the window", shape="band")
        yield longest.view("windows", f"effect in windows of {most} days", plot.say(above), figure)


@page_part(
    "entry",
    view="metric",
    title="Since entry",
    lead="Each day since a unit's first exposure on its own, with its {level} interval.",
)
def _build_entry_part(study: Study) -> Iterator[MetricBlocks]:
    """Draw effects by days since entry, with their decay if one was detected."""
    novelty = () if study.time is None else study.time.novelty
    fits = {_identify_series(fit): fit for fit in novelty}
    for plot in list_plots(study, "exposure", "daily", lifts=True):
        figure = plot.draw("days since entry", {"zeroline": False}, "start", mode="markers")
        for i, line in enumerate(figure["data"][: len(plot.rows)]):
            # Beside each other, so that none covers another.
            line["x"] = [int(day) + 0.16 * i for day in line["x"]]
        takeaway = {}
        for variant, colour_index in plot.colours.items():
            fit = fits.get((plot.metric, variant))
            takeaway[variant] = _describe_novelty(fit)
            figure["data"] += _draw_decay(plot.rows.get(variant, ()), fit, colour_index)
        yield plot.view("entry", "effect by days since entry", plot.say(takeaway), figure)


def _draw_decay(
    rows: Sequence[WindowRow], fit: Novelty | None, colour_index: int
) -> list[fig.Trace]:
    """Draw the fitted decay of relative effects since entry."""
    if fit is None or fit.word is None or fit.scale != "relative":
        return []
    if fit.start is None or fit.long_run is None or not fit.tau:
        return []
    days = [int(row.start) for row in rows]
    # The model is a + b · exp(-t / tau), fitted to log(1 + lift).
    logs = [fit.long_run + (fit.start - fit.long_run) * exp(-day / fit.tau) for day in days]
    line = {"color": fig.choose_colour(colour_index), "width": 2}
    values, name = [100 * expm1(value) for value in logs], f"{fit.word}, fitted"
    return [fig.draw_trace(x=days, y=values, mode="lines", name=name, line=line, hoverinfo="skip")]


def _describe_novelty(fit: Novelty | None) -> str:
    if fit is None:
        return ""
    if fit.reason is not None:
        return f"Novelty was not tested: {codes.describe_code(fit.reason)}."
    p = fmt.format_p_value(fit.p_value)
    if fit.word is None:
        return f"No decay with the days since entry was detected (p {p} over {fit.days} days)."
    return f"{fit.word.capitalize()}: p {p}; time constant {fit.tau:.2g} days."


@page_part(
    "clock",
    view="metric",
    title="By hour and weekday",
    lead="Each hour or weekday on its own, with its {level} interval.",
)
def _build_clock_part(study: Study) -> Iterator[MetricBlocks]:
    """Draw effects by hour and by weekday."""
    rhythms = () if study.time is None else study.time.rhythms
    for axis, title in (("hour", "effect by hour of the day"), ("weekday", "effect by weekday")):
        for plot in list_plots(study, axis):
            figure = plot.draw("", {"type": "category"}, "start", mode="markers")
            takeaway = {
                test.variant: f"Not tested: {test.reason}."
                if test.p_value is None
                else f"One effect in all {test.parts} of them: p "
                f"{fmt.format_p_value(test.p_value)}."
                for test in rhythms
                if (test.by, test.metric) == (axis, plot.metric)
            }
            yield plot.view(axis, title, plot.say(takeaway), figure)


@page_part(
    "stability",
    view="evidence",
    title="Stability",
    result="time",
    gated=True,
    lead="Whether the effect is the same on all days, and how many days are needed to trust it.",
)
def _build_stability_part(time: TimeResult) -> Iterator[Block]:
    """Show whether the effect is stable over the days."""

    def tabulate_stability(rows: Sequence[Stability]) -> tables.TextTable:
        return tables.trim(
            tabulate_effect_stability(time, rows, show_tests=True)._replace(title="")
        )

    if time.stability:
        yield from fig.fold_calm(
            time.stability, lambda row: row.verdict != "stable", tabulate_stability, "are stable"
        )
        yield assets.render_block("stability.html", notes=tabulate(time).notes)


_WEEKEND = "rgba(128,140,160,0.13)"
_HALF_DAY = timedelta(hours=12)


@page_part(
    "daily",
    view="metric",
    title="By day",
    result="analysis",
    lead=(
        "Each day on its own, with its {level} interval. Shaded: Saturday and Sunday. Hollow: the "
        "log covers only part of the day."
    ),
)
def _build_daily_part(result: Result) -> Iterator[MetricBlocks]:
    """Draw effects by calendar day."""
    order = fig.number_variants(result.experiment)
    for metric, rows in group_rows(result.daily, lambda row: row.metric).items():
        info = result.info(metric)
        title, figure = f"{info.display_name}, effect by day", draw_daily_effect(info, rows, order)
        yield MetricBlocks(
            metric, (FigureView(title, _describe_full_days(rows), figure, ("daily", metric)),)
        )


def draw_daily_effect(
    metric: MetricInfo, rows: Sequence[SliceRow], order: Mapping[str, int]
) -> fig.Figure:
    """Draw a metric's effect by day, variants side by side."""
    scale = choose_scale(metric, rows)
    variants = tuple(dict.fromkeys(row.variant for row in rows))
    # Points of one day stand some hours apart, so that none covers another.
    spread = {v: 10.0 * (i / max(len(variants) - 1, 1) - 0.5) for i, v in enumerate(variants)}
    series: dict[str, list[Point]] = {variant: [] for variant in variants}
    for row in rows:
        value, low, high = scale.scale_interval(row)
        if value is not None:
            hours = spread[row.variant] if len(variants) > 1 else 0.0
            timestamp = (datetime.fromisoformat(row.cell) + timedelta(hours=hours)).isoformat()
            text = f"{row.cell}{', partial day' * row.partial}: {scale.text(row)}"
            point = Point(timestamp, value, text, (value, low, high), row.partial)
            series[row.variant].append(point)
    days = sorted({date.fromisoformat(row.cell) for row in rows})
    axes = "", scale.field, _build_day_axis(days), scale.axis
    room = {"l": 64, "t": 30 if len(variants) > 1 else 12, "b": 28}
    style: dict[str, Any] = {"height": 270, "margin": room, "mode": "markers", "is_effect": True}
    return fig.draw_lines(series, *axes, order=order, shapes=[*_shade_weekends(days)], **style)


def _describe_full_days(rows: Sequence[SliceRow]) -> str:
    """Count, for each variant, the full days above control and clear of zero."""
    sentences = []
    for variant, variant_rows in group_rows(rows, lambda row: row.variant).items():
        # A partial day has only some of its hours, often with other users.
        full = [row for row in variant_rows if not row.partial and row.difference is not None]
        above, clear = sum((row.difference or 0.0) > 0 for row in full), map(excludes_zero, full)
        days = f"{len(full)} full {'day' if len(full) == 1 else 'days'}"
        summary = f"above control on {above} of {days}, an interval excludes zero on {sum(clear)}"
        sentences.append(f"{variant}: {summary if full else 'no full day has an effect'}")
    return f"{'; '.join(sentences)}."


def _build_day_axis(days: Sequence[date]) -> dict[str, object]:
    axis: dict[str, object] = {**fig.DAYS}
    if days:
        axis["range"] = [_write_day_edge(days[0], -1), _write_day_edge(days[-1], 1)]
        axis["tickvals"] = fig.choose_days(day.isoformat() for day in days)
    return axis


def _shade_weekends(days: Sequence[date]) -> Iterator[dict[str, object]]:
    for day in days:
        if day.weekday() >= 5:
            ends = {
                "x0": _write_day_edge(day, -1),
                "x1": _write_day_edge(day, 1),
                "y0": 0,
                "y1": 1,
                "yref": "paper",
            }
            fill = {"fillcolor": _WEEKEND, "line": {"width": 0}, "layer": "below"}
            yield {"type": "rect", **ends, **fill}


def _write_day_edge(day: date, side: int) -> str:
    """Return the noon before a day (side -1) or after it (side 1)."""
    # A day is drawn at its midnight, so its shade goes from noon to noon.
    return (datetime.combine(day, datetime.min.time()) + side * _HALF_DAY).isoformat()


def draw_daily_units(result: Result) -> Iterator[FigureView]:
    """Draw the units of each day, a line per variant."""
    # Every metric that counts units has the same days.
    if not result.daily:
        return
    days = [row for row in result.daily if row.metric == result.daily[0].metric]
    series = _count_units(result.experiment.control, [(row.cell, row) for row in days])
    totals = Counter[str]()
    for units in series.values():
        totals.update(units)
    dates = sorted(map(date.fromisoformat, totals))
    points = {
        name: [Point(day, n, f"{day}: {fmt.format_count(n)}") for day, n in units.items()]
        for name, units in series.items()
    }
    axes = "", "units", _build_day_axis(dates), {"rangemode": "tozero"}
    style: dict[str, Any] = {"height": 260, "margin": {"l": 64, "t": 30, "b": 28}}
    style |= {"order": fig.number_variants(result.experiment), "shapes": [*_shade_weekends(dates)]}
    figure = fig.draw_lines(points, *axes, **style)
    lowest = min(totals, key=lambda day: totals[day])
    suspect = "If the lines diverge or drop to zero, suspect the log first."
    takeaway = f"Fewest units on {lowest}. {suspect}"
    yield FigureView("Units by day", takeaway, figure, ("quality", "units"))


@page_part(
    "before",
    view="evidence",
    title="Before the experiment",
    short="Before",
    lead="The same groups in the pre-period, when nothing differed; Holm over metrics × variants.",
)
def _build_before_part(study: Study) -> Iterator[Block]:
    """Tabulate the same groups before the experiment."""

    def value(row: Balance, index: int) -> str:
        return fmt.format_pair(
            row.control, row.treatment, find_metric_info(study, row.metric).unit
        )[index]

    def tabulate_balance(rows: Sequence[Balance]) -> tables.TextTable:
        return tables.bare_table(
            rows,
            *("metric", "variant"),
            ("control", lambda row: value(row, 0)),
            ("treatment", lambda row: value(row, 1)),
            ("p", lambda row: fmt.format_p_value(row.p_value)),
            ("p adjusted", lambda row: fmt.format_p_value(row.p_adjusted)),
        )

    def is_off(row: Balance) -> bool:
        return row.p_adjusted is None or row.p_adjusted <= study.alpha

    before = () if study.time is None else study.time.before
    yield from fig.fold_calm(before, is_off, tabulate_balance, "rows were alike before")


@page_part(
    "srm",
    view="evidence",
    title="Split over time",
    short="Split",
    lead=(
        "The share of each variant among the units that entered up to a day. The band is where a "
        "split as planned lies on {level} of days."
    ),
)
def _build_srm_part(study: Study) -> Iterator[Block]:
    """Draw each variant's share of the entered units, and the planned share."""
    if study.time is None or study.analysis is None:
        return
    info = study.analysis.experiment
    entries = _count_entries(study.time, info.control)
    weights = {variant.name: variant.weight for variant in info.variants if variant.name in entries}
    if not entries or not sum(weights.values()):
        return
    order, series, bands = fig.number_variants(info), dict[str, list[Point]](), []
    # Of two variants the other share is the rest of this one.
    for name, by_day in list(entries.items())[: 1 if len(entries) == 2 else None]:
        totals = {day: sum(units.get(day, 0) for units in entries.values()) for day in by_day}
        day_counts = [(day, by_day[day], total) for day, total in totals.items() if total]
        expected = weights[name] / sum(weights.values())
        # Normal approximation of the binomial share at the planned split.
        reach = NormalDist().inv_cdf(1 - info.alpha / 2) * (expected * (1 - expected)) ** 0.5
        ends = [
            (100 * expected, 100 * (expected - reach / n**0.5), 100 * (expected + reach / n**0.5))
            for _, _, n in day_counts
        ]
        tone, days = fig.choose_colour(order.get(name, 1)), [day for day, _, _ in day_counts]
        bands.append(fig.fill_band(days, ends, tone, f"{name}, as planned"))
        series[name] = [
            Point(
                d,
                100 * k / n,
                f"up to {d}: {fmt.format_count(k)} units, {fmt.format_percent(k / n)}",
            )
            for d, k, n in day_counts
        ]
    check = next((check for check in study.analysis.trust if check.name == "srm"), None)
    axes, room = ("", "share of units", fig.DAYS, {"ticksuffix": "%"}), {"b": 28}
    figure = fig.draw_lines(series, *axes, height=260, margin=room, order=order, showlegend=True)
    figure["data"] = [*bands, *figure["data"]]
    takeaway = "" if check is None else f"{check.status.capitalize()}: {check.message}"
    yield FigureView("Share of the units that entered", takeaway, figure, ("srm", "entries"))


def _count_entries(time: TimeResult, control: str) -> dict[str, dict[str, int]]:
    """Count the units entered up to each day, by variant."""
    rows = [r for r in time.windows if r.axis == "calendar" and r.kind == "cumulative"]
    if not rows:
        return {}
    # Metrics may lack units: the one with most has everybody who entered.
    most = max(rows, key=lambda row: row.units_control + row.units)
    metric_rows = [row for row in rows if row.metric == most.metric]
    return _count_units(control, [(row.end, row) for row in metric_rows])


def _count_units(
    control: str, rows: Sequence[tuple[str, SliceRow | WindowRow]]
) -> dict[str, dict[str, int]]:
    """Count units by variant and day."""
    series = {control: {day: row.units_control for day, row in rows}}
    for day, row in rows:
        series.setdefault(row.variant, {})[day] = row.units
    return series
