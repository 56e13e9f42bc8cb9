"""The parts of the page that effects over time fill: stability, windows, days, looks.

`registry.py` lists them. `time_views.py` has the tables of a metric, `windows_figures.py` draws.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from abeval.report import entry_figures, p_value_figures, templates, time_views, windows_figures
from abeval.report.daily_figures import count_figure, daily_effect
from abeval.report.effect_figures import windows_heat_map
from abeval.report.effects import slugs
from abeval.report.figures import FigureView
from abeval.report.section import Block, Heading, Section, by_role, info_of
from abeval.report.slices import daily_views
from abeval.report.tables import TextTable
from abeval.results import Row, codes
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.windows import Look, Novelty, Stability, TimeResult, WindowRow

_TONES = {"stable": "pass", "settling": "warn", "drifting": "fail", "too_early": "skipped"}
_CLOCKS = (("hour", "by hour of the day"), ("weekday", "by weekday"))


class Cell(NamedTuple):
    """One metric in one variant over time.

    Attributes:
        slug: The end of the ids of its figures.
        title: The metric.
        note: The variant, where there are several.
        key: The end of the keys of its figures.
    """

    metric: str
    variant: str
    slug: str
    title: str
    note: str
    key: tuple[str, ...]
    rows: tuple[WindowRow, ...]
    looks: tuple[Look, ...]


def cells(time: TimeResult) -> tuple[Cell, ...]:
    """Every metric in every variant, in the order of the result."""
    rows: dict[tuple[str, str], list[WindowRow]] = {}
    for row in time.windows:
        rows.setdefault((row.metric, row.variant), []).append(row)
    looks: dict[tuple[str, str], list[Look]] = {}
    for look in time.looks:
        looks.setdefault((look.metric, look.variant), []).append(look)
    metrics, variants = slugs([m for m, _ in rows]), slugs([v for _, v in rows])
    several = len(variants) > 1
    return tuple(
        Cell(
            metric,
            variant,
            f"{metrics[metric]}-{variants[variant]}" if several else metrics[metric],
            metric,
            variant if several else "",
            (metric, variant) if several else (metric,),
            tuple(own),
            tuple(looks.get((metric, variant), ())),
        )
        for (metric, variant), own in rows.items()
    )


def stability_part(study: Study) -> Section | None:
    """Whether the effect is the same on all days."""
    time = study.time
    if time is None or not time.stability:
        return None
    lead = "Whether the effect is the same on all days, and how many days are needed to trust it."
    links = {(c.metric, c.variant): f"cumulative-{c.slug}" for c in cells(time)}
    html = templates.render(
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
        figure=windows_figures.windows_figure(days, cell.looks, unit),
        heads=heads,
        rows=rows,
        note=", ".join(part for part in (cell.note, word) if part),
        key=("cumulative", *cell.key),
    )


def daily_part(study: Study) -> Section | None:
    """The effect by calendar day, by days since entry, and by the clock."""
    calendar = [*_calendar(study)]
    entry = [*_since_entry(study)]
    clocks = [*_by_clock(study)]
    if not (calendar or entry or clocks):
        return None
    blocks: list[Block] = []
    blocks += by_role(study, calendar, "Diagnostics by day")
    if entry:
        blocks.append(Heading("Days since entry", "does the effect wear off, or grow?"))
        blocks += by_role(study, entry, "Diagnostics by days since entry")
    if clocks:
        blocks.append(Heading("By the clock"))
        blocks += by_role(study, clocks, "Diagnostics by the clock")
    lead = (
        f"Each day on its own, with its {fmt.level(study.alpha)} interval; the dashed line is the "
        "effect over the whole period. Shaded: Saturday and Sunday. Hollow: the log covers only "
        "part of the day."
    )
    return Section(lead, tuple(blocks), gated=True)


def _calendar(study: Study) -> Iterator[tuple[str, FigureView]]:
    result = study.analysis
    if result is None:
        return
    several = len({row.variant for row in result.scorecard}) > 1
    for view in daily_views(result):
        rows = [row for row in result.daily if row.metric == view.metric]
        overall: list[Row] = [row for row in result.scorecard if row.metric == view.metric]
        yield (
            view.metric,
            FigureView(
                anchor=f"daily-{view.anchor}",
                title=view.metric,
                takeaway=view.takeaway,
                figure=daily_effect(info_of(study, view.metric), rows, overall),
                heads=time_views.day_heads(fmt.level(study.alpha), several),
                rows=tuple(time_views.day_cells(cell, several) for cell in view.cells),
                note=view.note,
                key=("daily", view.metric),
            ),
        )


def _since_entry(study: Study) -> Iterator[tuple[str, FigureView]]:
    time = study.time
    if time is None:
        return
    fits = {(n.metric, n.variant): n for n in time.novelty if n.cohort == "all"}
    for cell in cells(time):
        rows = [row for row in cell.rows if row.axis == "exposure" and row.kind == "daily"]
        if not any(row.lift is not None for row in rows):
            continue
        fit = fits.get((cell.metric, cell.variant))
        heads, lines = time_views.windows_table(rows, info_of(study, cell.metric).unit)
        yield (
            cell.metric,
            FigureView(
                anchor=f"entry-{cell.slug}",
                title=cell.title,
                takeaway=_novelty_sentence(fit),
                figure=entry_figures.entry_figure(rows, fit),
                heads=heads,
                rows=lines,
                note=cell.note,
                key=("entry", *cell.key),
            ),
        )


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
    time = study.time
    if time is None:
        return
    for cell in cells(time):
        unit = info_of(study, cell.metric).unit
        for axis, title in _CLOCKS:
            rows = [row for row in cell.rows if row.axis == axis]
            if rows:
                tests = [
                    t for t in time.rhythms if (t.metric, t.variant, t.by) == (*cell[:2], axis)
                ]
                heads, lines = time_views.windows_table(rows, unit)
                yield (
                    cell.metric,
                    FigureView(
                        anchor=f"{axis}-{cell.slug}",
                        title=f"{cell.title} {title}",
                        takeaway=time_views.rhythm_sentence(tests),
                        figure=windows_figures.recurring_figure(rows, unit),
                        heads=heads,
                        rows=lines,
                        note=cell.note,
                        key=(axis, *cell.key),
                    ),
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
                figure=p_value_figures.p_values_figure(cell.looks, time.alpha),
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


def before_part(study: Study) -> Section | None:
    """The same groups before the experiment."""
    time = study.time
    if time is None or not time.before:
        return None
    rows = []
    for row in time.before:
        control, treatment = fmt.pair(row.control, row.treatment, info_of(study, row.metric).unit)
        p_values = fmt.p_value(row.p_value), fmt.p_value(row.p_adjusted)
        rows.append((row.metric, row.variant, control, treatment, *p_values))
    heads = ("metric", "variant", "control", "treatment", "p", "p adjusted")
    lead = "The same groups in the pre-period, when nothing differed; Holm over metrics × variants."
    return Section(lead, (TextTable("", "", heads, tuple(rows)),))


def srm_part(study: Study) -> Section | None:
    """Units that entered by each day, by variant."""
    time = study.time
    control = "control" if study.analysis is None else study.analysis.experiment.control
    entered = None if time is None else time_views.entries(time, control)
    if time is None or not entered:
        return None
    shares = time_views.shares_of(entered)
    check = None
    if study.analysis is not None:
        check = next((c for c in study.analysis.trust if c.name == "srm"), None)
    heads = ("Up to", *entered, *(f"share of {name}" for name in entered))
    days = [day for day, _ in next(iter(entered.values()))]
    counts = {name: dict(points) for name, points in entered.items()}
    rows = tuple(
        (
            day,
            *(fmt.count(counts[name].get(day, 0)) for name in entered),
            *(fmt.percent(shares[name][day]) for name in entered),
        )
        for day in days
    )
    view = FigureView(
        anchor="srm-entries",
        title="Units that entered, up to each day",
        takeaway="" if check is None else f"{check.status.capitalize()}: {check.message}",
        figure=count_figure(entered, "units entered"),
        heads=heads,
        rows=rows,
        key=("srm", "entries"),
    )
    return Section("Whether the variants grow in their planned proportion on every day.", (view,))
