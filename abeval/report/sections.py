"""Write a page of what a result says, and sections of tables and figures below it."""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.report import assets
from abeval.report.figures import Block, figures_of
from abeval.report.tables import TextTable, VerdictLine, filled


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
        plain = filled(table)._replace(title="", lead="")
        lead = f"{table.lead} {more}".strip()
        return cls(table.title.lower(), table.title, lead, (plain, *figures))


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
