"""What a part of the page is made of: a lead, figures, tables, and what is closed.

The builders of `registry.py` return a `Section`; `blocks.html` lays it out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from abeval.report.figures import FigureView
from abeval.report.tables import TextTable
from abeval.results import MetricInfo
from abeval.results.study import Study


@dataclass(frozen=True)
class Heading:
    """A heading inside a part, with what stands beside it."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Closed:
    """What is shown when it is opened."""

    summary: str
    blocks: tuple["Block", ...]


Block = FigureView | TextTable | Closed | Heading | Markup


@dataclass(frozen=True)
class Section:
    """The content of a part.

    Attributes:
        lead: What the part shows, and how to read it.
        blocks: In order.
        gated: Whether it shows effects, which a failed trust check hides.
    """

    lead: str
    blocks: tuple[Block, ...]
    gated: bool = False


def figures_of(blocks: Iterable[Block]) -> Iterable[FigureView]:
    """Every figure, also of what is closed."""
    for block in blocks:
        if isinstance(block, Closed):
            yield from figures_of(block.blocks)
        elif isinstance(block, FigureView):
            yield block


def roles_of(study: Study) -> Mapping[str, str]:
    """Metric → its role, where the study has an analysis."""
    return {} if study.analysis is None else {m.name: m.role for m in study.analysis.metrics}


def info_of(study: Study, metric: str) -> MetricInfo:
    """A metric's definition, as far as the study has it."""
    infos = () if study.analysis is None else study.analysis.metrics
    units = {} if study.time is None else study.time.units
    blank = MetricInfo(
        metric, "mean", "", units.get(metric, ""), "increase", "diagnostic", None, None
    )
    return next((info for info in infos if info.name == metric), blank)


def by_role(
    study: Study, blocks: Iterable[tuple[str, Block]], summary: str = "Diagnostics"
) -> tuple[Block, ...]:
    """Blocks of goals and guardrails first; those of diagnostics closed, if there are others.

    Args:
        study: It knows the roles.
        blocks: Metric and block.
        summary: Of what is closed.
    """
    roles, listed = roles_of(study), list(blocks)
    main = tuple(block for metric, block in listed if roles.get(metric, "goal") != "diagnostic")
    rest = tuple(block for metric, block in listed if roles.get(metric, "goal") == "diagnostic")
    if not main:
        return rest
    return (*main, Closed(summary, rest)) if rest else main
