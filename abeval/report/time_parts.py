"""The parts of the page that windows fill: stability, effects up to each day, p-values, windows.

`registry.py` lists them. `time_views.py` has the tables of a metric, `windows_figures.py`,
`p_value_figures.py` and `effect_figures.py` draw.
"""

from collections.abc import Sequence

from markupsafe import Markup

from abeval.report import assets, effect_figures, time_page, time_views
from abeval.report.effect_figures import windows_heat_map
from abeval.report.figures import FigureView, Section, by_role, info_of
from abeval.report.time_views import Cell, cells
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.windows import Stability, TimeResult, WindowRow

_TONES = {"stable": "pass", "settling": "warn", "drifting": "fail", "too_early": "skipped"}


def stability_part(study: Study) -> Section | None:
    """Whether the effect is the same on all days."""
    time = study.time
    if time is None or not time.stability:
        return None
    lead = "Whether the effect is the same on all days, and how many days are needed to trust it."
    links = {(c.metric, c.variant): f"cumulative-{c.slug}" for c in cells(time)}
    html = assets.render(
        "stability.html",
        rows=time.stability,
        tones=_TONES,
        links=links,
        several=len({row.variant for row in time.stability}) > 1,
        notes=(*time.notes, *(f"{n} is not shown: {why}" for n, why in time.refused.items())),
    )
    return Section(lead, (Markup(html),), gated=True)  # noqa: S704 (the template escapes)


def cumulative_part(study: Study) -> Section | None:
    """The effect of all days up to each day, with the band that is valid at every look."""
    time = study.time
    if time is None:
        return None
    verdicts = {(row.metric, row.variant): row for row in time.stability}
    views = [
        (cell.metric, _cumulative(study, time, cell, verdicts.get((cell.metric, cell.variant))))
        for cell in cells(time)
    ]
    if not views:
        return None
    level = fmt.level(time.alpha)
    lead = (
        f"Line and band: all days up to it, with the {level} interval for one look. Dashed: the "
        "band that is valid however often you look. At the right end: the final interval. "
        "Dots: one day; hollow where the log covers it in part."
    )
    return Section(lead, by_role(study, views), gated=True)


def _cumulative(
    study: Study, time: TimeResult, cell: Cell, verdict: Stability | None
) -> FigureView:
    unit = info_of(study, cell.metric).unit
    days = [row for row in cell.rows if row.axis == "calendar"]
    word = "" if verdict is None else codes.words(verdict.verdict)
    heads, rows = time_views.looks_table(cell.looks, unit)
    if not rows:
        heads, rows = time_views.windows_table([r for r in days if r.kind == "cumulative"], unit)
    return FigureView(
        anchor=f"cumulative-{cell.slug}",
        title=cell.title,
        takeaway=time_views.looks_sentence(cell.looks),
        figure=time_page.windows_figure(days, cell.looks, unit),
        heads=heads,
        rows=rows,
        note=", ".join(part for part in (cell.note, word) if part),
        key=("cumulative", *cell.key),
    )


def pvalue_part(study: Study) -> Section | None:
    """Fixed against always-valid p-values, day by day."""
    time = study.time
    if time is None or not time.looks:
        return None
    views = [
        (
            cell.metric,
            FigureView(
                anchor=f"pvalue-{cell.slug}",
                title=cell.title,
                takeaway=time_views.looks_sentence(cell.looks),
                figure=effect_figures.p_values_figure(cell.looks, time.alpha),
                heads=("Day", "p of one look", "p always valid"),
                rows=tuple(
                    (k.day, fmt.p_value(k.fixed_p_value), fmt.p_value(k.always_p_value))
                    for k in cell.looks
                ),
                note=cell.note,
                key=("pvalue", *cell.key),
            ),
        )
        for cell in cells(time)
        if cell.looks
    ]
    lead = (
        "Why one must not stop at the first small p: the thin line is the p-value of a single "
        "look, which is not valid for stopping. The thick one may be looked at every day."
    )
    return Section(lead, by_role(study, views), gated=True)


def windows_part(study: Study) -> Section | None:
    """All windows of all lengths, as heat maps."""
    time = study.time
    if time is None:
        return None
    views = []
    for cell in cells(time):
        rows = [r for r in cell.rows if r.axis == "calendar" and r.kind in ("daily", "rolling")]
        if any(row.lift is not None for row in rows):
            info = info_of(study, cell.metric)
            heads, lines = time_views.windows_table(rows, info.unit)
            view = FigureView(
                anchor=f"windows-{cell.slug}",
                title=cell.title,
                takeaway=_windows_sentence(rows),
                figure=windows_heat_map(rows, info.direction != "decrease"),
                heads=heads,
                rows=lines,
                note=cell.note,
                key=("windows", *cell.key),
            )
            views.append((cell.metric, view))
    if not views:
        return None
    lead = (
        "Each cell is a window: its first day across, its length up. Colour: the lift, blue where "
        "it is good. A dot: the interval excludes zero."
    )
    return Section(lead, by_role(study, views), gated=True)


def _windows_sentence(rows: Sequence[WindowRow]) -> str:
    longest = max(row.days for row in rows)
    signs = [row.lift > 0 for row in rows if row.lift is not None and row.days == longest]
    above = sum(signs)
    return f"Above control in {above} of {len(signs)} windows of {longest} days."
