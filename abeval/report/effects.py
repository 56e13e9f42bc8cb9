"""Show metrics and effects as text and glyphs, and the scorecard by role."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from abeval.report import glyph, tables
from abeval.report.tables import ROLES, Printed, decisive_p, full, printed
from abeval.results import MetricInfo, Row, SliceRow, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result

DECIDED = frozenset({"better", "worse", "equivalent", "non_inferior"})
TONES = {"better": "good", "non_inferior": "good", "worse": "bad", "untrusted": "bad"}


@dataclass(frozen=True)
class EffectView:
    """An effect as the page prints and draws it.

    `estimate` is the lift, or the difference if there is no lift; `absolute` is the difference with
    its interval, if the estimate is a lift. `exact` has all digits. `glyph` is empty without a
    lift.
    """

    estimate: str
    interval: str
    absolute: str
    exact: str
    glyph: Markup

    @property
    def text(self) -> str:
        """Return the estimate and its interval."""
        return f"{self.estimate} {self.interval}".strip()


def anchors(metrics: Sequence[MetricInfo]) -> dict[str, str]:
    """Name metrics for deep links, the same on every run.

    Example:
        >>> info = MetricInfo("Dwell / click", "ratio", "", "s", "increase", "goal", None, None)
        >>> anchors([info])
        {'Dwell / click': 'dwell-click'}
    """
    return slugs([metric.name for metric in metrics])


def slugs(names: Sequence[str]) -> dict[str, str]:
    """Write names in letters and digits, each another.

    Example:
        >>> slugs(["a b", "a-b"])
        {'a b': 'a-b', 'a-b': 'a-b-2'}
    """
    ids: dict[str, str] = {}
    for name in dict.fromkeys(names):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "metric"
        taken = set(ids.values())
        others = (slug, *(f"{slug}-{i}" for i in range(2, len(taken) + 3)))
        ids[name] = next(slug for slug in others if slug not in taken)
    return ids


def metric_note(metric: MetricInfo) -> str:
    """Write unit and direction, as shown under a metric's name."""
    unit = f"{metric.unit}, " if metric.unit and metric.unit not in fmt.RATE_UNITS else ""
    return f"{unit}{codes.direction_words(metric.direction)}"


def definitions(
    result: Result, rows: Sequence[Row] | Sequence[SliceRow]
) -> Mapping[str, MetricInfo]:
    """Map definitions by name; a row without one gets an empty one, so that it still shows."""
    known = {metric.name: metric for metric in result.metrics}
    blanks = {
        row.metric: MetricInfo(row.metric, "mean", "", "", "increase", "diagnostic", None, None)
        for row in rows
    }
    return {**blanks, **known}


def effect_view(
    row: Row | SliceRow, metric: MetricInfo, mark: glyph.Mark | None, axis: glyph.Axis | None
) -> EffectView:
    """Show the effect of a row, drawn if it has a lift and there is an axis."""
    lift, absolute = tables.shown_lift(row), tables.shown_difference(row, metric.unit)
    return EffectView(
        estimate=tables.estimate_of(lift or absolute),
        interval=tables.interval_of(lift or absolute),
        absolute=absolute.text if absolute and lift else "",
        exact=f"lift {full(row.lift)} [{full(row.lift_low)}, {full(row.lift_high)}]",
        glyph=glyph.draw(mark, axis) if mark and axis else Markup(),
    )


def row_mark(row: Row, metric: MetricInfo, level: str) -> glyph.Mark | None:
    """Draw a row of the scorecard; None without a lift."""
    if row.lift is None:
        return None
    status = codes.status(row.status, row.reason)
    return glyph.Mark(
        row.lift,
        row.lift_low,
        row.lift_high,
        TONES.get(row.status, "plain"),
        row.status in DECIDED,
        _spoken_label(level, row, f"{row.metric}, {row.variant}", status),
        tuple(_margins(row, metric)),
    )


def slice_mark(result: Result, row: SliceRow) -> glyph.Mark | None:
    """Draw a day or segment: exploratory, so without colour and with a solid bar."""
    if row.lift is None:
        return None
    level, name = fmt.level(result.experiment.alpha), f"{row.metric}, {row.cell}, {row.variant}"
    label = _spoken_label(level, row, name, "exploratory")
    return glyph.Mark(row.lift, row.lift_low, row.lift_high, "plain", True, label)


def _spoken_label(level: str, row: Row | SliceRow, name: str, status: str) -> str:
    shown = tables.shown_lift(row)
    numbers = f"{shown.estimate}, {level} interval {shown.span}" if shown else fmt.MISSING
    return f"{name}: lift {numbers}, {status}"


def _margins(row: Row, metric: MetricInfo) -> Iterator[float]:
    """Return the margin as lifts: on the harmful side of a guardrail, else on both sides."""
    size = metric.margin
    if size is not None and not metric.margin_relative:
        size = size / abs(row.control) if row.control else None
    if size is None or metric.direction.startswith("toward"):
        return
    harmful = {"increase": (-size,), "decrease": (size,)}.get(metric.direction, ())
    yield from harmful if metric.role == "guardrail" else (-size, size)


def either_way(lift: float | None) -> str:
    """Write a relative effect of either sign.

    Example:
        >>> either_way(0.0953)
        '±9.5%'
    """
    return fmt.MISSING if lift is None else f"±{float(f'{100 * lift:.2g}'):,.10g}%"


def could_see(row: Row) -> str:
    """Write the smallest detectable lift; none where there is too little data to trust it."""
    return either_way(None if row.status == "too_little_data" else row.mde)


@dataclass(frozen=True)
class RowView:
    """A row of the scorecard.

    `lift` and `p_value`, which the status follows, have all digits, to sort by; empty without one.
    """

    metric: str
    role: str
    anchor: str
    note: str
    variant: str
    control: str
    treatment: str
    units: str
    effect: EffectView
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
    """Show the scorecard by role."""
    views = []
    for role, title, hint in ROLES:
        rows = [row for row in result.scorecard if row.role == role]
        if rows:
            p_header = "p" if role == "diagnostic" else "p (adjusted)"
            views.append(RoleView(role, title, hint, p_header, *row_views(result, rows)))
    return tuple(views)


def row_views(result: Result, rows: Sequence[Row]) -> tuple[Markup, tuple[RowView, ...]]:
    """Draw rows on one axis, and return its scale before them."""
    metrics = definitions(result, rows)
    ids, shown = anchors(result.metrics), printed(result, rows)
    marks = [row_mark(one.row, metrics[one.row.metric], one.level) for one in shown]
    axis = glyph.shared_axis([mark for mark in marks if mark])
    digits = _digits([one.row for one in shown], metrics)
    views = tuple(
        _row(one, metrics[name], digits[name], ids.get(name, "metric"), mark, axis)
        for one, name, mark in zip(shown, [row.metric for row in rows], marks, strict=True)
    )
    return (glyph.scale(axis) if any(marks) else Markup()), views


def _digits(rows: Sequence[Row], metrics: Mapping[str, MetricInfo]) -> Mapping[str, int]:
    """Choose digits by metric: a control is printed alike beside every variant."""
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
        note=metric_note(metric),
        variant=row.variant,
        control=fmt.mean(row.control, metric.unit, digits),
        treatment=fmt.mean(row.treatment, metric.unit, digits) + shown.mark,
        units=f"{fmt.count(row.units_control)} and {fmt.count(row.units)} units",
        effect=effect_view(row, metric, mark, axis),
        mde=could_see(row),
        p=fmt.p_value(decisive_p(row)),
        p_exact=f"p {full(row.p_value)}, adjusted {full(row.p_adjusted)}",
        status=codes.status(row.status, row.reason),
        tone=TONES.get(row.status, "plain"),
        reason=shown.reason,
        lift=_sortable(row.lift),
        p_value=_sortable(decisive_p(row)),
        status_code=row.status,
    )


def _sortable(number: float | None) -> str:
    return "" if number is None else repr(number)
