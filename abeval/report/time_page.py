"""Build the parts of the page about effects over time: up to a day, windows, entry, the clock."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, expm1
from typing import Any, NamedTuple

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report.figures import Block, FigureView, Point, info_of, of_metrics
from abeval.report.short import tabulate
from abeval.report.tables import interval, scaled, shown_difference, shown_lift, text_of, with_rows
from abeval.report.time_short import stability_table
from abeval.results import MetricInfo, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.windows import Look, Novelty, Rhythm, TimeResult, WindowRow


class Scale(NamedTuple):
    """The unit of a figure: lifts, or differences if nothing in it has a lift."""

    field: str
    factor: float
    axis: dict[str, str]
    unit: str

    def of(self, row: SliceRow | Row | WindowRow) -> fig.Interval:
        """Return value and interval of a row."""
        return interval(row, self.field, self.factor)

    def text(self, row: SliceRow | WindowRow) -> str:
        """Write the effect of a row."""
        return fmt.typographic(text_of(shown_lift(row) or shown_difference(row, self.unit)))

    def points(self, rows: Iterable[WindowRow], by: str = "end") -> list[Point]:
        """Place rows at their first or last day; without those that have no effect."""
        return [
            Point(
                getattr(row, by),
                value,
                f"{row.start}{f' to {row.end}' * (row.start != row.end)}: {self.text(row)}"
                + f", p {fmt.p_value(row.p_value)}" * (row.kind == "rolling"),
                (value, low, high),
                row.partial and row.kind == "daily",
            )
            for row in rows
            for value, low, high in [self.of(row)]
            if value is not None
        ]


def scale_of(metric: MetricInfo, rows: Sequence[SliceRow] | Sequence[WindowRow]) -> Scale:
    """Choose lifts if any row has one, else differences in the metric's unit."""
    if any(row.lift is not None for row in rows):
        return Scale("lift", 100.0, {"ticksuffix": "%"}, metric.unit)
    if metric.unit in fmt.RATE_UNITS:
        return Scale("difference", 100.0, {"ticksuffix": " pp"}, metric.unit)
    suffix = {"ticksuffix": f" {fig.label(metric.unit)}"} if metric.unit else {}
    return Scale("difference", 1.0, suffix, metric.unit)


class Cell(NamedTuple):
    """One metric in one variant over time; `several` where it has other variants beside it.

    `place` is the variant's in `COLOURS`.
    """

    metric: str
    variant: str
    info: MetricInfo
    several: bool
    place: int
    rows: Sequence[WindowRow]
    looks: Sequence[Look]

    def drawn(
        self,
        rows: Sequence[WindowRow],
        name: str,
        across: str = "",
        xaxis: Mapping[str, object] = fig.DAYS,
        by: str = "end",
        **more: Any,  # noqa: ANN401 (as `figures.lines` takes them)
    ) -> fig.Figure:
        """Draw effects as one line, at the first or the last days of their rows."""
        scale = scale_of(self.info, rows)
        series, order = {name: scale.points(rows, by)}, {name: self.place}
        axes = (across, scale.field, xaxis, scale.axis)
        return fig.lines(series, *axes, is_effect=True, order=order, **more)

    def of(self, axis: str, kind: str) -> list[WindowRow]:
        """List its rows along an axis, of one kind."""
        return [row for row in self.rows if row.axis == axis and row.kind == kind]

    def view(
        self, part: str, title: str, takeaway: str, figure: fig.Figure, *words: str
    ) -> tuple[str, FigureView]:
        """Return its metric and its figure in a part; `words` stand beside the variant."""
        own = [self.variant] * self.several
        note = ", ".join(filter(None, (*own, *words)))
        return self.metric, FigureView(title, takeaway, figure, (part, self.metric, *own), note)


def _cell(one: WindowRow | Look | Rhythm) -> tuple[str, str]:
    return one.metric, one.variant


def cells(study: Study) -> tuple[Cell, ...]:
    """List every metric in every variant, in the order of the windows."""
    if study.time is None:
        return ()
    rows, looks = fig.grouped(study.time.windows, _cell), fig.grouped(study.time.looks, _cell)
    order = {name: place for place, name in enumerate(dict.fromkeys(v for _, v in rows), 1)}
    several = len(order) > 1
    if study.analysis is not None:
        order = fig.places(study.analysis.experiment)
    return tuple(
        Cell(m, v, info_of(study, m), several, order.get(v, 1), own, looks.get((m, v), ()))
        for (m, v), own in rows.items()
    )


def cumulative_part(study: Study) -> tuple[Block, ...]:
    """Draw effects up to each day, with the band that is valid at every look."""
    stability = () if study.time is None else study.time.stability
    verdicts = {(row.metric, row.variant): codes.words(row.verdict) for row in stability}
    views = []
    for cell in cells(study):
        if rows := cell.of("calendar", "cumulative"):
            said, figure = _looks_sentence(cell.looks), _cumulative_figure(cell, rows)
            verdict = verdicts.get((cell.metric, cell.variant), "")
            views.append(cell.view("cumulative", cell.info.shown, said, figure, verdict))
    return of_metrics(views)


def _cumulative_figure(cell: Cell, rows: Sequence[WindowRow]) -> fig.Figure:
    """Draw the effect up to each day and of each day, with fixed and always-valid bands."""
    scale, tone = scale_of(cell.info, rows), fig.colour(cell.place)
    style: dict[str, Any] = {"mode": "lines", "shape": "band", "margin": {"b": 34}}
    figure = cell.drawn(rows, "up to the day", showlegend=True, **style)
    if days := scale.points(cell.of("calendar", "daily")):
        # Their numbers are those of the figure by day.
        symbols = ["circle" + "-open" * day.hollow for day in days]
        mark = {"color": tone, "size": 6, "symbol": symbols}
        x, y = [day.x for day in days], [day.y for day in days]
        style = {"mode": "markers", "name": "one day", "hoverinfo": "skip"}
        figure["data"].append(fig.scatter(x=x, y=y, marker=mark, **style))
    figure["data"] += _always_valid(cell.looks, rows, scale, tone)
    return figure


def _always_valid(
    looks: Sequence[Look], rows: Sequence[WindowRow], scale: Scale, tone: str
) -> list[fig.Trace]:
    """Draw the ends that hold at every look; as shares of control where the figure is of lifts."""
    is_lift = scale.field == "lift"
    controls = {row.end: abs(row.control or 0.0) for row in rows if is_lift}
    shares = [(look, controls.get(look.day, 0.0) if is_lift else 1.0) for look in looks]
    shown = [(look, scale.factor / share) for look, share in shares if share]
    # The text of a look, with both ends, is that of its lower end alone.
    said = [
        f"up to {look.day}: "
        + text_of(fmt.difference(look.difference, look.always_low, look.always_high, scale.unit))
        + f", p {fmt.p_value(look.always_p_value)}; "
        + f"for one look p {fmt.p_value(look.fixed_p_value)}{_planned(look)}"
        for look, _ in shown
    ]
    ends = [scaled(factor, None, look.always_low, look.always_high) for look, factor in shown]
    return [
        fig.scatter(
            None if side > 1 else said,
            x=[look.day for look, _ in shown],
            y=[one[side] for one in ends],
            mode="lines",
            name="always valid, for every look",
            legendgroup="always",
            showlegend=side == 1,
            line={"color": tone, "width": 1.6, "dash": "dash"},
            **({"hoverinfo": "skip"} if side > 1 else {}),
        )
        for side in (1, 2)
        if shown
    ]


def _planned(look: Look) -> str:
    """Say whether a planned look crossed its boundary; nothing of the other days."""
    if look.bound is None:
        return ""
    way = "not crossed" if look.planned_declares == "unclear" else "crossed"
    return f"; planned look, boundary p {fmt.p_of(look.bound)} {way}"


def _looks_sentence(looks: Sequence[Look]) -> str:
    """Say what daily looks would have declared."""
    if not looks:
        return ""
    naive = next((look.day for look in looks if look.fixed_declares != "unclear"), None)
    valid = next((look.day for look in looks if look.always_declares != "unclear"), None)
    early = "never looked significant" if naive is None else f"looked significant on {naive}"
    late = "it never was" if valid is None else f"it was on {valid}"
    planned = [look for look in looks if look.bound is not None]
    day = next((look.day for look in planned if look.planned_declares != "unclear"), None)
    ended = "it never was" if day is None else f"it was on {day}"
    at_looks = f" At the {len(planned)} planned looks, {ended}." if planned else ""
    return f"Checked daily without correction, this {early}. With correction, {late}.{at_looks}"


def windows_part(study: Study) -> tuple[Block, ...]:
    """Draw the effect in moving windows of the longest length."""
    views = []
    for cell in cells(study):
        rows = [row for row in cell.of("calendar", "rolling") if row.lift is not None]
        most = max((row.days for row in rows), default=0)
        longest = [row for row in rows if row.days == most]
        if longest:
            name, up_to = f"{most} days", "last day of the window"
            figure = cell.drawn(longest, name, up_to, shape="band", showlegend=True)
            above = sum((row.lift or 0.0) > 0 for row in longest)
            said = f"Above control in {above} of {len(longest)} windows of {most} days."
            views.append(cell.view("windows", cell.info.shown, said, figure))
    return of_metrics(views)


def entry_views(study: Study) -> Iterator[tuple[str, FigureView]]:
    """Draw effects by days since entry, with the fit of their decay where it has a word."""
    novelty = () if study.time is None else study.time.novelty
    fits = {(n.metric, n.variant): n for n in novelty}
    for cell in cells(study):
        rows = cell.of("exposure", "daily")
        if any(row.lift is not None for row in rows):
            fit, plain = fits.get((cell.metric, cell.variant)), {"zeroline": False}
            axis = ("days since entry", plain, "start")
            figure = cell.drawn(rows, cell.variant, *axis, mode="markers", height=260)
            line = figure["data"][0]
            line["x"] = [int(day) for day in line["x"]]
            decay = _decay(rows, fit, fig.colour(cell.place))
            figure["data"] += decay
            figure["layout"]["showlegend"] = bool(decay)
            said = _novelty_sentence(fit)
            yield cell.view("entry", f"{cell.info.shown} by days since entry", said, figure)


def _decay(rows: Sequence[WindowRow], fit: Novelty | None, tone: str) -> list[fig.Trace]:
    """Draw the fitted a + b exp(-t / tau), of logarithms of relative effects."""
    if fit is None or fit.word is None or fit.scale != "relative":
        return []
    if fit.start is None or fit.long_run is None or not fit.tau:
        return []
    days = [int(row.start) for row in rows]
    logs = [fit.long_run + (fit.start - fit.long_run) * exp(-day / fit.tau) for day in days]
    line = {"color": tone, "width": 2}
    values, name = [100 * expm1(one) for one in logs], f"{fit.word}, fitted"
    return [fig.scatter(x=days, y=values, mode="lines", name=name, line=line, hoverinfo="skip")]


def _novelty_sentence(fit: Novelty | None) -> str:
    if fit is None:
        return ""
    if fit.reason is not None:
        return f"Novelty was not tested: {codes.words(fit.reason)}."
    p = fmt.p_value(fit.p_value)
    if fit.word is None:
        return f"No decay with the days since entry was detected (p {p} over {fit.days} days)."
    return f"{fit.word.capitalize()}: p {p}; time constant {fit.tau:.2g} days."


_CLOCKS = (("hour", "by hour of the day"), ("weekday", "by weekday"))


def clock_views(study: Study) -> Iterator[tuple[str, FigureView]]:
    """Draw effects by hour and by weekday."""
    rhythms = fig.grouped(() if study.time is None else study.time.rhythms, _cell)
    for cell in cells(study):
        tests = rhythms.get((cell.metric, cell.variant), ())
        for axis, words in _CLOCKS:
            if rows := [row for row in cell.rows if row.axis == axis]:
                category, by = {"type": "category"}, "start"
                figure = cell.drawn(rows, cell.variant, "", category, by, mode="markers")
                said = " ".join(
                    f"Not tested: {test.reason}."
                    if test.p_value is None
                    else f"One effect in all {test.parts} of them: p {fmt.p_value(test.p_value)}."
                    for test in tests
                    if test.by == axis
                )
                yield cell.view(axis, f"{cell.info.shown} {words}", said, figure)


def stability_part(time: TimeResult) -> Iterator[Block]:
    """Show whether the effect is the same on all days."""
    for table in with_rows(stability_table(time, time.stability, whole=True)):
        yield fig.listed(table._replace(title=""))
        yield assets.block("stability.html", notes=tabulate(time).notes)
