"""Write the page of a result that is no study: what it says, tables and figures below it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import history_page as history
from abeval.report.figures import Block, FigureView, Interval, figures_of
from abeval.report.short import notes, off_policy_value, parts
from abeval.report.tables import TextTable, VerdictLine, filled
from abeval.results.history import HistoryReport
from abeval.results.interleaving import InterleavingResult
from abeval.results.off_policy import OffPolicyResult


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


def off_policy_html(result: OffPolicyResult) -> str:
    """Write the value of a policy: estimates, how far the log supports it, what to doubt."""
    values = {row.estimator: row for row in result.rows if row.value is not None}
    worth = [
        f"Worth by {name}: {off_policy_value(row)}"
        for name, row in values.items()
        if name in ("snips", "dr")
    ]
    spots = {
        name: ((row.value, row.low, row.high), off_policy_value(row))
        for name, row in values.items()
    }
    real = None if result.realised is None else result.realised.value
    estimates, *others = (part for part in parts(result) if isinstance(part, TextTable))
    return sections_html(
        "Off-policy evaluation",
        f"{result.experiment}: {estimates.title}",
        worth or [f"The log of {result.source} cannot tell what {result.policy} is worth"],
        Section.of(
            estimates._replace(title="Estimates"),
            *_intervals(spots, "clicks or reward an impression", real),
        ),
        *map(Section.of, others),
        Section("doubts", "What cannot be trusted", sentences=notes(result)),
    )


def interleaving_html(result: InterleavingResult) -> str:
    """Write which ranker users prefer: verdict, preferences, trust, notes."""
    shown = parts(result, whole=True)
    preferences, *others = (part for part in shown if isinstance(part, TextTable))
    spots = {
        f"{row.metric}, {row.ranker} against {row.base}": (
            (row.preference, row.low, row.high),
            row.shown,
        )
        for row in result.preferences
        if row.preference is not None
    }
    return sections_html(
        "Interleaving",
        result.experiment.shown,
        [part for part in shown if isinstance(part, str)],
        Section.of(preferences, *_intervals(spots, "share of all credit", 0.0)),
        *map(Section.of, others),
        Section("notes", "How to read it", sentences=notes(result)),
    )


def history_html(result: HistoryReport) -> str:
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
        Section("notes", "Notes", sentences=notes(result)),
        lines=(history.verdict(result),),
    )


def _intervals(
    rows: Mapping[str, tuple[Interval, str]], axis: str, at: float | None
) -> Iterator[FigureView]:
    """Draw values with their intervals and words, by name, and maybe a dashed line."""
    spots = [
        fig.Spot(i, ends, f"{name}: {words}")
        for i, (name, (ends, words)) in enumerate(rows.items())
    ]
    drawn = fig.forest([*rows], {"estimate": spots}, **fig.value_axis(axis))
    drawn["layout"]["shapes"] = [] if at is None else [fig.line_at("x", at)]
    if rows:
        yield FigureView("", "", drawn, ("drawn",))
