"""Write a page of one result that is no study: what it says, and tables and figures below it."""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report.figures import Block, FigureView, figures_of
from abeval.report.short import notes, off_policy_value, parts
from abeval.report.tables import TextTable, VerdictLine, filled
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
    spots = [
        fig.Spot(i, (row.value, row.low, row.high), f"{name}: {off_policy_value(row)}")
        for i, (name, row) in enumerate(values.items())
    ]
    drawn = fig.forest([*values], {"estimate": spots}, **fig.value_axis("clicks or reward a row"))
    if result.realised is not None:
        drawn["layout"]["shapes"] = [fig.line_at("x", result.realised.value)]
    estimates, *others = (part for part in parts(result) if isinstance(part, TextTable))
    return sections_html(
        "Off-policy evaluation",
        f"{result.experiment}: {estimates.title}",
        worth or [f"The log of {result.source} cannot tell what {result.policy} is worth"],
        Section.of(estimates._replace(title="Estimates"), *_drawn(spots, drawn)),
        *map(Section.of, others),
        Section("doubts", "What cannot be trusted", sentences=notes(result)),
    )


def interleaving_html(result: InterleavingResult) -> str:
    """Write which ranker users prefer: verdict, preferences, trust, notes."""
    shown = parts(result, whole=True)
    preferences, *others = (part for part in shown if isinstance(part, TextTable))
    known = [row for row in result.preferences if row.preference is not None]
    names = [f"{row.metric}, {row.ranker} against {row.base}" for row in known]
    spots = [
        fig.Spot(i, (row.preference, row.low, row.high), f"{names[i]}: {row.shown}")
        for i, row in enumerate(known)
    ]
    axis = fig.value_axis("share of all credit")
    drawn = fig.forest(names, {"estimate": spots}, **axis)
    drawn["layout"]["shapes"] = [fig.line_at("x", 0.0)]
    return sections_html(
        "Interleaving",
        result.experiment.shown,
        [part for part in shown if isinstance(part, str)],
        Section.of(preferences, *_drawn(spots, drawn)),
        *map(Section.of, others),
        Section("notes", "How to read it", sentences=notes(result)),
    )


def _drawn(spots: Sequence[fig.Spot], drawn: fig.Figure) -> list[FigureView]:
    """Show a figure that has something in it."""
    return [FigureView("", "", drawn, ("drawn",))] if spots else []
