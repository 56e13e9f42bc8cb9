"""Build the parts of the page that windows fill: effects up to each day, stability, p-values."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from abeval.report import assets, effect_figures, time_views
from abeval.report import figures as fig
from abeval.report.effect_figures import windows_heat_map
from abeval.report.figures import Block, by_role
from abeval.report.short import notes
from abeval.report.tables import interval, numbers, text_of
from abeval.report.time_short import stability_table
from abeval.report.time_views import cells
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.windows import Look, TimeResult, WindowRow

_BAND = "rgba(0,114,178,0.18)"


def windows_figure(rows: Sequence[WindowRow], looks: Sequence[Look], unit: str = "") -> fig.Figure:
    """Draw the effect of each day and up to it, with fixed and always-valid bands."""
    daily = [r for r in rows if r.kind == "daily" and r.difference is not None]
    cumulative = [r for r in rows if r.kind == "cumulative" and r.difference is not None]
    traces = [
        _band(cumulative),
        _line(cumulative, "up to the day", unit),
        *_always_valid(looks, unit),
        *(_days([r for r in daily if r.partial is part], part, unit) for part in (False, True)),
    ]
    shown = [trace for trace in traces if trace["x"]]
    figure = fig.figure(
        [*shown, _final(cumulative[-1], unit)] if cumulative else shown,
        margin={"b": 34},
        xaxis={"type": "date", "tickformat": "%a %d %b", "showgrid": False},
        yaxis=_effect_axis([*daily, *cumulative], unit),
    )
    if cumulative:
        _add_lifts(figure, cumulative[-1])
    return figure


def _final(row: WindowRow, unit: str) -> fig.Trace:
    """Draw the interval of the whole period, half a day after its end."""
    ends = interval(row, "difference")
    after = (datetime.fromisoformat(row.end) + timedelta(hours=12)).isoformat()
    said = [_hover("whole period", unit, *ends)]
    return fig.points("the whole period", [after], [ends], said, fig.BLUE, "diamond", 10, 4)


def _add_lifts(figure: fig.Figure, row: WindowRow) -> None:
    """Add a second axis: differences as a share of control's value at the end."""
    layout = figure["layout"]
    bounds = layout["yaxis"].get("range")
    if not row.control or not bounds:
        return
    # The point is not seen; it gives the axis its place.
    point = fig.scatter(
        x=[row.end],
        y=[100 * (row.difference or 0.0) / abs(row.control)],
        yaxis="y2",
        mode="markers",
        marker={"opacity": 0},
        name="lift",
        hoverinfo="skip",
        showlegend=False,
    )
    figure["data"].append(point)
    layout["margin"]["r"] = 76
    layout["yaxis2"] = {
        **fig.EFFECT_AXIS,
        "overlaying": "y",
        "side": "right",
        "showgrid": False,
        "zeroline": False,
        "range": [100 * bound / abs(row.control) for bound in bounds],
        "ticksuffix": "%",
        "tickmode": "auto",
        "tickformat": "+.3~g",
        "title": {"text": "lift", "standoff": 8},
    }


def recurring_figure(rows: Sequence[WindowRow], unit: str = "") -> fig.Figure:
    """Draw the effect in each hour, or on each weekday."""
    shown = [r for r in rows if r.difference is not None]
    return fig.figure(
        [_days(shown, partial=False, unit=unit)],
        margin={"b": 34},
        showlegend=False,
        xaxis={"type": "category", "showgrid": False},
        yaxis=_effect_axis(shown, unit),
    )


def _hover(day: str, unit: str, value: float | None, low: float | None, high: float | None) -> str:
    """Write a day, its effect and the interval of it."""
    return f"{day}: {fmt.typographic(text_of(fmt.difference(value, low, high, unit)))}"


def _days(rows: Sequence[WindowRow], partial: bool, unit: str) -> fig.Trace:
    values = [interval(row, "difference") for row in rows]
    said = [_hover(r.start, unit, *v) for r, v in zip(rows, values, strict=True)]
    name, symbol = ("partial day", "circle-open") if partial else ("one day", "circle")
    return fig.points(name, [fig.label(r.start) for r in rows], values, said, symbol=symbol)


def _band(rows: Sequence[WindowRow]) -> fig.Trace:
    """Close one path: forward along the lower ends, back along the upper ends."""
    days = [r.end for r in rows]
    return fig.scatter(
        x=[*days, *reversed(days)],
        y=[*(r.difference_low for r in rows), *(r.difference_high for r in reversed(rows))],
        fill="toself",
        fillcolor=_BAND,
        line={"width": 0},
        mode="lines",
        name="its interval, for one look",
        hoverinfo="skip",
    )


def _line(rows: Sequence[WindowRow], name: str, unit: str) -> fig.Trace:
    return fig.scatter(
        x=[r.end for r in rows],
        y=[r.difference for r in rows],
        mode="lines",
        name=name,
        line={"color": fig.BLUE, "width": 2.2},
        said=[_hover(f"up to {row.end}", unit, *interval(row, "difference")) for row in rows],
    )


def _always_valid(looks: Sequence[Look], unit: str) -> list[fig.Trace]:
    hovers = [
        _hover(f"up to {look.day}", unit, look.difference, look.always_low, look.always_high)
        for look in looks
    ]
    ends = [look.always_low for look in looks], [look.always_high for look in looks]
    return [
        fig.scatter(
            x=[look.day for look in looks],
            y=values,
            mode="lines",
            name="always valid, for every look",
            legendgroup="always",
            showlegend=i == 0,
            line={"color": fig.ORANGE, "width": 1.8, "dash": "dash"},
            said=hovers,
        )
        for i, values in enumerate(ends)
    ]


def _title(unit: str) -> str:
    """Say what the axis measures. Per cent of a rate are points: they are differences."""
    if unit in fmt.RATE_UNITS:
        return "difference, in points"
    return fig.label(f"difference, {unit}") if unit else "difference"


def _effect_axis(rows: Sequence[WindowRow], unit: str) -> dict[str, object]:
    """Make room for every whole day; first looks and partial days may leave the figure."""
    whole = [r for r in rows if not (r.partial and r.kind == "daily")]
    fitted = [r for r in whole if r.kind != "cumulative"] or whole
    ends = [e for r in fitted for e in (r.difference_low, r.difference_high) if e is not None]
    axis = fig.axis(_title(unit), **fig.EFFECT_AXIS)
    if unit in fmt.RATE_UNITS:
        axis["tickformat"] = "+~%"
    if bounds := fig.axis_range(ends, 0.08):
        axis["range"] = bounds
    return axis


def stability_part(time: TimeResult) -> tuple[Block, ...]:
    """Show whether the effect is the same on all days."""
    if not time.stability:
        return ()
    table = stability_table(time, time.stability, whole=True)
    said = assets.block("stability.html", notes=notes(time))
    return (table._replace(title=""), said)


def cumulative_part(study: Study) -> tuple[Block, ...]:
    """Draw effects up to each day, with the band that is valid at every look."""
    stability = () if study.time is None else study.time.stability
    verdicts = {(row.metric, row.variant): codes.words(row.verdict) for row in stability}
    views = []
    for cell in cells(study):
        notes = (cell.note, verdicts.get((cell.metric, cell.variant), ""))
        noted = cell._replace(note=", ".join(filter(None, notes)))
        days = [row for row in cell.rows if row.axis == "calendar"]
        table = time_views.looks_table(cell.looks, cell.info.unit)
        if not cell.looks:
            cumulative = [row for row in days if row.kind == "cumulative"]
            table = time_views.windows_table(cumulative, cell.info.unit)
        figure = windows_figure(days, cell.looks, cell.info.unit)
        said = time_views.looks_sentence(cell.looks)
        views.append(noted.view("cumulative", said, figure, table))
    return by_role(study, views)


def pvalue_part(study: Study) -> tuple[Block, ...]:
    """Draw fixed against always-valid p-values, day by day."""
    views = []
    for cell in (each for each in cells(study) if each.looks):
        table = numbers(
            cell.looks,
            "day",
            ("p of one look", lambda look: fmt.p_value(look.fixed_p_value)),
            ("p always valid", lambda look: fmt.p_value(look.always_p_value)),
        )
        figure = effect_figures.p_values_figure(cell.looks, study.alpha)
        views.append(cell.view("pvalue", time_views.looks_sentence(cell.looks), figure, table))
    return by_role(study, views)


def windows_part(study: Study) -> tuple[Block, ...]:
    """Draw windows of all lengths, as heat maps."""
    views = []
    for cell in cells(study):
        rows = [r for r in cell.rows if r.axis == "calendar" and r.kind in ("daily", "rolling")]
        if any(row.lift is not None for row in rows):
            figure = windows_heat_map(rows, cell.info.direction != "decrease")
            table = time_views.windows_table(rows, cell.info.unit)
            views.append(cell.view("windows", _windows_sentence(rows), figure, table))
    return by_role(study, views)


def _windows_sentence(rows: Sequence[WindowRow]) -> str:
    longest = max(row.days for row in rows)
    signs = [row.lift > 0 for row in rows if row.lift is not None and row.days == longest]
    above = sum(signs)
    return f"Above control in {above} of {len(signs)} windows of {longest} days."
