"""The scorecard as the page shows it: by role, formatted as text.

`page.py` hands over a `Result`; the page shows the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from abeval.report import effects, glyph
from abeval.report.tables import ROLES, Printed, decisive_p, printed
from abeval.results import MetricInfo, Row, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result


@dataclass(frozen=True)
class RowView:
    """A row of the scorecard.

    Attributes:
        lift: All digits, to sort by; empty without one.
        p_value: The p that the status follows, likewise.
        status_code: The status as in the JSON.
    """

    metric: str
    role: str
    anchor: str
    note: str
    variant: str
    control: str
    treatment: str
    units: str
    effect: effects.EffectView
    mde: str
    p: str
    p_exact: str
    status: str
    tone: str
    reason: str
    lift: str
    p_value: str
    status_code: str


@dataclass(frozen=True)
class RoleView:
    """The metrics of one role, on one axis."""

    role: str
    title: str
    hint: str
    p_header: str
    scale: Markup
    rows: tuple[RowView, ...]


def role_views(result: Result) -> tuple[RoleView, ...]:
    """The scorecard by role."""
    views = []
    for role, title, hint in ROLES:
        rows = [row for row in result.scorecard if row.role == role]
        if rows:
            p_header = "p" if role == "diagnostic" else "p (adjusted)"
            views.append(RoleView(role, title, hint, p_header, *row_views(result, rows)))
    return tuple(views)


def row_views(result: Result, rows: Sequence[Row]) -> tuple[Markup, tuple[RowView, ...]]:
    """The scale of the axis that rows share, and the rows."""
    metrics = effects.definitions(result, rows)
    ids, shown = effects.anchors(result.metrics), printed(result, rows)
    marks = [effects.row_mark(one.row, metrics[one.row.metric], one.level) for one in shown]
    axis = glyph.shared_axis([mark for mark in marks if mark])
    digits = _digits([one.row for one in shown], metrics)
    views = tuple(
        _row(one, metrics[name], digits[name], ids.get(name, "metric"), mark, axis)
        for one, name, mark in zip(shown, [row.metric for row in rows], marks, strict=True)
    )
    return (glyph.scale(axis) if any(marks) else Markup()), views


def _digits(rows: Sequence[Row], metrics: Mapping[str, MetricInfo]) -> Mapping[str, int]:
    """Digits by metric: a control is printed alike beside every variant."""
    values = {row.metric: [row.control] for row in rows}
    for row in rows:
        values[row.metric] += [row.control, row.treatment]
    return {name: fmt.digits(numbers, metrics[name].unit) for name, numbers in values.items()}


def _row(
    shown: Printed,
    metric: MetricInfo,
    digits: int,
    anchor: str,
    mark: glyph.Mark | None,
    axis: glyph.Axis,
) -> RowView:
    row = shown.row
    return RowView(
        metric=row.metric,
        role=row.role,
        anchor=anchor,
        note=effects.metric_note(metric),
        variant=row.variant,
        control=fmt.mean(row.control, metric.unit, digits),
        treatment=fmt.mean(row.treatment, metric.unit, digits) + shown.mark,
        units=f"{fmt.count(row.units_control)} and {fmt.count(row.units)} units",
        effect=effects.effect_view(row, metric, mark, axis),
        mde=effects.could_see(row),
        p=fmt.p_value(decisive_p(row)),
        p_exact=f"p {effects.full(row.p_value)}, adjusted {effects.full(row.p_adjusted)}",
        status=codes.status(row.status, row.reason),
        tone=effects.TONES.get(row.status, "plain"),
        reason=shown.reason,
        lift=_sortable(row.lift),
        p_value=_sortable(decisive_p(row)),
        status_code=row.status,
    )


def _sortable(number: float | None) -> str:
    return "" if number is None else repr(number)
