"""The parts of the page that days fill: effects by day and by the clock, time before, the split.

`registry.py` lists them. `time_views.py` has the tables of a metric, `daily_figures.py`,
`entry_figures.py` and `windows_figures.py` draw.
"""

from collections.abc import Iterator

from abeval.report import effect_figures, time_page, time_views
from abeval.report.daily_page import count_figure, daily_effect
from abeval.report.figures import Block, FigureView, Heading, Section, by_role, info_of
from abeval.report.slices import daily_views
from abeval.report.tables import TextTable
from abeval.report.time_views import cells
from abeval.results import Row, codes
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.windows import Novelty

_CLOCKS = (("hour", "by hour of the day"), ("weekday", "by weekday"))


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
                figure=effect_figures.entry_figure(rows, fit),
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
                        figure=time_page.recurring_figure(rows, unit),
                        heads=heads,
                        rows=lines,
                        note=cell.note,
                        key=(axis, *cell.key),
                    ),
                )


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
