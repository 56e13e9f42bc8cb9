"""Write which ranker users prefer as one HTML file: verdict, preferences, trust, notes."""

from abeval.report.figures import FigureView
from abeval.report.off_policy_page import intervals_figure
from abeval.report.sections import Section, sections_html
from abeval.report.short import interleaving_parts, notes
from abeval.report.tables import TextTable
from abeval.results.interleaving import InterleavingResult


def interleaving_html(result: InterleavingResult) -> str:
    """Write the page."""
    parts = interleaving_parts(result, whole=True)
    first, *others = [part for part in parts if isinstance(part, TextTable)]
    known = [row for row in result.preferences if row.preference is not None]
    names = [f"{row.metric}, {row.ranker} against {row.base}" for row in known]
    ends = (((row.preference, row.low, row.high), row.shown) for row in known)
    rows = dict(zip(names, ends, strict=True))
    figure = intervals_figure(rows, "share of all credit", 0.0)
    drawn = FigureView("", "", figure, ("interleaving",))
    return sections_html(
        "Interleaving",
        result.experiment.shown,
        [part for part in parts if isinstance(part, str)],
        Section.of(first, *[drawn] * bool(rows)),
        *map(Section.of, others),
        Section("notes", "How to read it", sentences=notes(result)),
    )
