"""Write the page of a result: of one that is no study what it says, tables and figures below it."""

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import NamedTuple

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import history_page as history
from abeval.report.figures import Block, FigureView, Interval, figures_of
from abeval.report.page import page_html
from abeval.report.short import off_policy_value, tabulate
from abeval.report.tables import TextTable, VerdictLine, filled
from abeval.results.history import HistoryReport
from abeval.results.interleaving import InterleavingResult
from abeval.results.off_policy import OffPolicyResult
from abeval.results.study import study_of


class Section(NamedTuple):
    """A section of a page: blocks, and below them sentences."""

    id: str
    title: str
    lead: str = ""
    blocks: Sequence[Block] = ()
    sentences: Sequence[str] = ()

    @classmethod
    def of(cls, table: TextTable, *figures: Block, more: str = "") -> "Section":
        """Make the section of a table with its title and lead; its figures are below it."""
        lead = f"{table.lead} {more}".strip()
        shown = (filled(table)._replace(title="", lead=""), *figures) if table.rows else ()
        return cls(assets.slug(table.title.lower()), table.title, lead, shown)


def sections_html(
    kicker: str,
    title: str,
    sentences: Sequence[str],
    *sections: Section,
    lines: Sequence[VerdictLine] = (),
) -> str:
    """Write the page, with verdicts on top; sections without content are left out."""
    return assets.render_page(
        "sections.html",
        draws=any(any(figures_of(section.blocks)) for section in sections),
        kicker=kicker,
        title=title,
        sentences=sentences,
        lines=lines,
        said=(),
        sections=[one for one in sections if one.blocks or one.sentences],
    )


@singledispatch
def result_html(result: object, aa: object = None) -> str:
    """Write the page of a study, or of one result; `aa` are A/A replays beside it."""
    return page_html(study_of(result, aa))


@result_html.register
def off_policy_html(result: OffPolicyResult, aa: object = None) -> str:
    """Write the value of a policy: estimates, how far the log supports it, what to doubt."""
    spots = [
        (row.estimator, (row.value, row.low, row.high), off_policy_value(row))
        for row in result.rows
        if row.value is not None
    ]
    worth = [f"Worth by {name}: {words}" for name, _, words in spots if name in ("snips", "dr")]
    real = None if result.realised is None else result.realised.value
    shown = tabulate(result)
    estimates, *others = (part for part in shown.parts if isinstance(part, TextTable))
    return sections_html(
        "Off-policy evaluation",
        f"{result.experiment}: {estimates.title}",
        worth or [f"The log of {result.source} cannot tell what {result.policy} is worth"],
        Section.of(
            estimates._replace(title="Estimates"),
            *_intervals(spots, "clicks or reward an impression", real),
        ),
        *map(Section.of, others),
        Section("doubts", "What cannot be trusted", sentences=shown.notes),
    )


@result_html.register
def interleaving_html(result: InterleavingResult, aa: object = None) -> str:
    """Write which ranker users prefer: verdict, preferences, trust, notes."""
    shown = tabulate(result, whole=True)
    preferences, *others = (part for part in shown.parts if isinstance(part, TextTable))
    spots = [
        (f"{r.metric}, {r.ranker} against {r.base}", (r.preference, r.low, r.high), r.shown)
        for r in result.preferences
        if r.preference is not None
    ]
    return sections_html(
        "Interleaving",
        result.experiment.shown,
        [part for part in shown.parts if isinstance(part, str)],
        Section.of(preferences, *_intervals(spots, "share of all credit", 0.0)),
        *map(Section.of, others),
        Section("notes", "How to read it", sentences=shown.notes),
    )


@result_html.register
def history_html(result: HistoryReport, aa: object = None) -> str:
    """Write a history: which offline metric to trust, what moves, what was gained."""
    learned, *said = history.sentences(result)
    turned = "Effects are turned so that more is better."
    signal = "Signal is the share of true effects in what was measured."
    gained = "Lifts of what was shipped, added up: as measured, and shrunk by the spread of all."
    luck = "To ship what looks best adds up luck too; what is shrunk has less of it."
    return sections_html(
        "History",
        learned,
        said,
        Section.of(history.prediction_table(result), *history.scatters(result), more=turned),
        Section.of(history.sensitivity_table(result), more=signal),
        Section("gained", "Gained", f"{gained} {luck}", (*history.forests(result),)),
        Section("notes", "Notes", sentences=tabulate(result).notes),
        lines=(history.verdict(result),),
    )


def _intervals(
    rows: Sequence[tuple[str, Interval, str]], axis: str, at: float | None
) -> Iterator[FigureView]:
    """Draw values by name, with their intervals and words, and maybe a dashed line."""
    spots = [fig.Spot(i, ends, f"{name}: {words}") for i, (name, ends, words) in enumerate(rows)]
    drawn = fig.forest([name for name, *_ in rows], {"estimate": spots}, **fig.value_axis(axis))
    drawn["layout"]["shapes"] = [] if at is None else [fig.line_at("x", at)]
    if rows:
        yield FigureView("", "", drawn, ("drawn",))
