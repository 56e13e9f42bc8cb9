"""Write a study or another result as one HTML file that works offline."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import history_page as history
from abeval.report.analysis_page import group_rows_by_role
from abeval.report.next_step import ORDER, write_next_step, write_verdicts
from abeval.report.parts import Part, load_parts
from abeval.report.short import format_off_policy_value, tabulate
from abeval.report.tables import TextTable, VerdictLine, list_units, rescale, tally_checks, trim
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import AgreementRow
from abeval.results.analysis import Result
from abeval.results.history import HistoryReport
from abeval.results.interleaving import InterleavingResult
from abeval.results.off_policy import OffPolicyResult
from abeval.results.record import Record, write_csv
from abeval.results.replay import ReplayRow
from abeval.results.study import Study, build_study
from abeval.results.trust import Verdict

if TYPE_CHECKING:
    import plotly.graph_objects as go

_MOST_DAYS = 5_000
"""Most rows by day in the JSON that a page offers for download."""


class Panel(NamedTuple):
    """All that is known of one metric, each part as a tab.

    A panel that `is_first` is shown without scripts.
    """

    metric: str
    name: str
    tabs: tuple[Part, ...]
    is_first: bool


def render_study(study: Study) -> str:
    """Write the page of a study."""
    every = tuple(_build_parts(study))
    parts = tuple(part for part in every if part.view != "metric")
    return assets.render_page(
        "study.html",
        has_figures=any(any(fig.list_figures(part.blocks)) for part in every),
        study=study,
        asked=codes.open_questions(study.questions),
        parts=parts,
        views=list(dict.fromkeys(part.view for part in parts)),
        panels=_build_panels(study, every),
        title=study.name if study.analysis is None else study.analysis.experiment.display_name,
        kicker=_write_kicker(study),
        downloads=tuple(_list_downloads(study)),
    )


def _build_panels(study: Study, parts: Sequence[Part]) -> tuple[Panel, ...]:
    """Collect the tabs of each metric, metrics in the order of the scorecard."""
    rows = () if study.analysis is None else study.analysis.scorecard
    goals_first = sorted(rows, key=lambda row: row.role != "goal")
    tabs: dict[str, list[Part]] = {row.metric: [] for row in goals_first}
    for part in parts:
        for block in part.blocks:
            if isinstance(block, fig.MetricBlocks):
                tabs.setdefault(block.metric, []).append(replace(part, blocks=block.blocks))
    shown = [metric for metric, metric_tabs in tabs.items() if metric_tabs]
    return tuple(
        Panel(
            name,
            fig.find_metric_info(study, name).display_name,
            tuple(tabs[name]),
            name == shown[0],
        )
        for name in shown
    )


def _build_parts(study: Study) -> Iterator[Part]:
    info = None if study.analysis is None else study.analysis.experiment
    placeholders = {
        "level": fmt.format_level(study.alpha),
        "alpha": f"{study.alpha:g}",
        "alpha_share": fmt.format_percent(study.alpha),
        "unit": info.unit if info else "",
        "power": fmt.format_percent(study.outlook.power) if study.outlook else "",
    }
    for part in load_parts():
        source = getattr(study, part.result) if part.result else study
        # A part without blocks is not on the page.
        if source is not None and (blocks := tuple(part.build(source))):
            yield replace(part, lead=part.lead.format(**placeholders), blocks=blocks)


def _write_kicker(study: Study) -> str:
    if study.analysis is not None:
        return "A/B test report"
    if study.time is not None and study.time.days:
        return f"Effects over time, {study.time.days[0]} to {study.time.days[-1]}"
    if study.replay is not None:
        return "Offline replay"
    return "A/A replays" if study.agreement is None else "Offline and online"


def _list_downloads(study: Study) -> Iterator[tuple[str, str, str]]:
    """Yield the name, title and text of each file that the page offers."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", study.name) or "experiment"
    if study.analysis is not None and study.analysis.scorecard:
        yield (f"{stem}.csv", "scorecard (CSV)", study.analysis.to_csv())
    # A table without rows is nothing to download.
    if study.replay is not None and study.replay.rows:
        csv = write_csv(study.replay.rows, ReplayRow)
        yield (f"{stem}-replay.csv", "offline values (CSV)", csv)
    if study.agreement is not None and study.agreement.rows:
        csv = write_csv(study.agreement.rows, AgreementRow, {"others"})
        yield (f"{stem}-agreement.csv", "offline against online (CSV)", csv)
    # The page carries its downloads: windows alone can weigh more than all the rest.
    light_study, left_out = _drop_heavy_rows(study)
    without = f" without {fmt.join_items(left_out)}" if left_out else ""
    yield (f"{stem}.json", f"results{without} (JSON)", light_study.to_compact_json())


def _drop_heavy_rows(study: Study) -> tuple[Study, list[str]]:
    """Drop the heaviest rows of a study, and name them; `--json` keeps them."""
    left_out: list[str] = []
    if study.time is not None and study.time.windows:
        study = replace(study, time=replace(study.time, windows=(), looks=()))
        left_out.append("windows")
    if study.analysis is not None and len(study.analysis.daily) > _MOST_DAYS:
        study = replace(study, analysis=replace(study.analysis, daily=()))
        left_out.append("days")
    return study, left_out


class Figures(Mapping[tuple[str, ...], "go.Figure"]):
    """The figures of a result, by part, metric and variant if there are several.

    Plotly figures, to show, change and save: `write_image` needs the extra `images`.

    Example:
        >>> import abeval
        >>> result = abeval.load("sample_logs/experiment.toml").analyze()
        >>> result.figures["daily", "ctr"].layout.yaxis.title.text
        'lift'
    """

    def __init__(self, result: object) -> None:
        parts = _build_parts(build_study(result))
        views = (view for part in parts for view in fig.list_figures(part.blocks))
        self._views = {view.key: view for view in views}

    def __getitem__(self, key: tuple[str, ...] | str) -> "go.Figure":
        """Return the figure of a key, with its title.

        Raises:
            KeyError: There is none; it says which there are.
        """
        figure_key = (key,) if isinstance(key, str) else key
        if figure_key not in self._views:
            raise KeyError(f"{figure_key!r}; there are {', '.join(map(repr, self)) or 'none'}")
        # A page does not need Plotly, which makes a copy that its taker may change.
        import plotly.graph_objects as go

        view = self._views[figure_key]
        figure = go.Figure(view.figure)
        title = {"text": fig.escape_label(view.title), "x": 0.01, "y": 0.98, "yanchor": "top"}
        # On the page the title is a heading: here it needs room of its own.
        top = view.figure["layout"]["margin"]["t"] + _TITLE
        figure.update_layout(title=title, margin={"t": top}, height=figure.layout.height + _TITLE)
        return figure

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        return f"Figures({', '.join(map(repr, self))})"


def render_summary(result: Result) -> str:
    """Write the verdict and the scorecard for a notebook's output cell."""
    lines, shared = write_verdicts(result, None)
    return assets.render(
        "summary.html",
        result=result,
        lines=[line._replace(action="") for line in lines],
        shared=shared,
        said=[*_list_facts(result), ("Next", write_next_step(result))],
        order=ORDER,
        roles=group_rows_by_role(result),
        style=_read_summary_style(),
    )


def _list_facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield what the numbers are of, and whether they can be trusted."""
    info = result.experiment
    units = f"{info.unit} units: {list_units(info)}"
    yield "Log", "; ".join(filter(None, (result.so_far, units)))
    doubtful = [check.name for check in result.trust if check.status in ("fail", "warn")]
    names = f": {fmt.join_items(doubtful)}" if doubtful else ""
    yield "Trust", f"{tally_checks(result.trust)}{names}"


def render_brief(result: Record) -> str:
    """Write the short tables of a result for a notebook's output cell."""
    source = tabulate(result)
    parts = (trim(part) if isinstance(part, TextTable) else part for part in source.parts)
    items = (*filter(None, [source.draft]), *parts, *source.notes)
    return assets.render("brief.html", parts=items, style=_read_summary_style())


def _read_summary_style() -> Markup:
    return Markup(assets.read_asset("tokens.css") + assets.read_asset("summary.css"))  # noqa: S704 (our own file)


class Section(NamedTuple):
    """A section of a page: blocks, and below them sentences."""

    id: str
    title: str
    lead: str = ""
    blocks: Sequence[fig.Block] = ()
    sentences: Sequence[str] = ()

    @classmethod
    def build(cls, table: TextTable, *figures: fig.Block, more: str = "") -> "Section":
        """Make a section of a table; its figures are shown below it."""
        lead = f"{table.lead} {more}".strip()
        # The section has the title and lead already. Without rows it has no figures either.
        blocks = (trim(table)._replace(title="", lead="", kinds=()), *figures) if table.rows else ()
        return cls(assets.write_page_id(table.title.lower()), table.title, lead, blocks)


def _render_sections(
    kicker: str,
    title: str,
    sentences: Sequence[str],
    *sections: Section,
    lines: Sequence[VerdictLine] = (),
) -> str:
    """Write a page of sections, verdicts first; empty sections are left out."""
    return assets.render_page(
        "sections.html",
        has_figures=any(any(fig.list_figures(section.blocks)) for section in sections),
        kicker=kicker,
        title=title,
        sentences=sentences,
        lines=lines,
        said=(),
        sections=[section for section in sections if section.blocks or section.sentences],
    )


def list_verdict_lines(verdicts: Sequence[Verdict]) -> list[VerdictLine]:
    """Write a line for each verdict that has no next step of its own."""
    several, lines = len(verdicts) > 1, list[VerdictLine]()
    for place, verdict in enumerate(verdicts, start=1):
        word, _, sentence = verdict.sentence.partition(": ")
        # One on a failed check begins with its name, which stays as it is.
        if verdict.decision != "do_not_trust":
            sentence = fmt.capitalize_first(sentence)
        name = verdict.variant * several
        lines.append(VerdictLine(name, verdict.decision, word, sentence, place))
    return lines


@singledispatch
def render_result(result: object, aa: object = None) -> str:
    """Write the page of a study or one result; `aa` are its A/A replays."""
    return render_study(build_study(result, aa))


@render_result.register
def _render_off_policy(result: OffPolicyResult, aa: object = None) -> str:
    """Write the page of an off-policy evaluation."""
    valued = [row for row in result.rows if row.value is not None]
    spots = [(r.estimator, (r.value, r.low, r.high), format_off_policy_value(r)) for r in valued]
    # Two estimators make the headline; the table has all of them.
    worth = [f"Worth by {name}: {text}" for name, _, text in spots if name in ("snips", "dr")]
    real = None if result.realised is None else result.realised.value
    result_tables = tabulate(result)
    estimates, *other_tables = (part for part in result_tables.parts if isinstance(part, TextTable))
    return _render_sections(
        "Off-policy evaluation",
        f"{result.experiment}: {estimates.title}",
        worth or [f"The log of {result.source} cannot tell what {result.policy} is worth"],
        Section.build(
            estimates._replace(title="Estimates"),
            *_draw_intervals(spots, "clicks or reward an impression", real),
        ),
        *map(Section.build, other_tables),
        Section("doubts", "What cannot be trusted", sentences=result_tables.notes),
    )


@render_result.register
def _render_interleaving(result: InterleavingResult, aa: object = None) -> str:
    """Write the page of an interleaving experiment."""
    result_tables = tabulate(result, show_all=True)
    preferences, *others = (part for part in result_tables.parts if isinstance(part, TextTable))
    spots = [
        (
            f"{r.metric}, {r.ranker} against {r.base}",
            rescale(100, r.preference, r.low, r.high),
            r.preference_text,
        )
        for r in result.preferences
        if r.preference is not None
    ]
    axis = fig.build_effect_axis((end for _, ends, _ in spots for end in ends), "%")
    return _render_sections(
        " · ".join(filter(None, ("Interleaving", result.experiment.dates))),
        result.experiment.display_name,
        # The banner says the verdicts, which come first.
        [part for part in result_tables.parts if isinstance(part, str)][len(result.verdicts) :],
        Section.build(preferences, *_draw_intervals(spots, "share of all credit", 0.0, axis)),
        *map(Section.build, others),
        Section("notes", "How to read it", sentences=result_tables.notes),
        lines=list_verdict_lines(result.verdicts),
    )


@render_result.register
def render_history(result: HistoryReport, aa: object = None) -> str:
    """Write the page of a history of experiments."""
    learned, *sentences = history.describe_history(result)
    turned = "Effects are turned so that more is better."
    signal = "Signal is the share of true effects in what was measured."
    gained = "Lifts of what was shipped, added up: as measured, and shrunk by the spread of all."
    luck = "To ship what looks best adds up luck too; what is shrunk has less of it."
    return _render_sections(
        "History",
        learned,
        sentences,
        Section.build(
            history.tabulate_predictions(result), *history.draw_scatters(result), more=turned
        ),
        Section.build(history.tabulate_sensitivity(result), more=signal),
        Section("gained", "Gained", f"{gained} {luck}", (*history.draw_forests(result),)),
        Section.build(history.tabulate_lasting_effects(result)),
        Section.build(history.tabulate_launches(result), *history.draw_weeks(result)),
        Section("notes", "Notes", sentences=tabulate(result).notes),
        lines=(history.judge_offline_metrics(result),),
    )


def _draw_intervals(
    rows: Sequence[tuple[str, fmt.Interval, str]],
    title: str,
    reference: float | None,
    xaxis: Mapping[str, object] | None = None,
) -> Iterator[fig.FigureView]:
    """Draw values with intervals, one row per name, and maybe a reference line."""
    spots = [fig.Spot(i, ends, f"{name}: {text}") for i, (name, ends, text) in enumerate(rows)]
    across = {**fig.build_value_axis(title), **(xaxis or {}), **fig.build_axis(title)}
    figure = fig.draw_forest([name for name, *_ in rows], {"estimate": spots}, across)
    figure["layout"]["shapes"] = [] if reference is None else [fig.draw_line_across("x", reference)]
    if rows:
        yield fig.FigureView(f"Estimates and intervals, {title}", "", figure, ("drawn",))


_TITLE = 36
"""Height of a title, in pixels."""
