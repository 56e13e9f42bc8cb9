"""The parts of the page that an agreement fills: why, the quadrant, and models on traffics.

`registry.py` lists them; tables are those of `agreement_short.py`, the figure is from
`agreement_figures.py`. CTR by position is in `position_part.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from abeval.report import assets
from abeval.report.agreement_page import quadrant_figure
from abeval.report.agreement_short import model_tables, number, pair_table, sentences
from abeval.report.figures import Block, Closed, FigureView, Section
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import Agreement, Cause, Evidence, Explanation
from abeval.results.study import Study


@dataclass(frozen=True)
class CauseView:
    """A cause as the page shows it."""

    cause: Cause
    share: str
    evidence: tuple[tuple[str, str, str], ...]


def conflicts(study: Study) -> tuple[str, ...]:
    """A line for each variant whose offline and online results contradict each other."""
    if study.agreement is None or not study.trusted:
        return ()
    agreement = study.agreement
    several = len(agreement.explanations) > 1
    said = (one for one in agreement.explanations if one.standing == "conflict")
    return tuple(_conflict(agreement, one, several) for one in said)


def _conflict(agreement: Agreement, said: Explanation, several: bool) -> str:
    name = f"{said.variant}: " if several else ""
    causes = [cause for cause in agreement.found if cause.variant == said.variant]
    why = f"the first cause is {_cause_words(causes[0])}" if causes else "no cause explains it"
    return f"{name}{said.offline} offline and {said.online} online contradict each other; {why}."


def _cause_words(cause: Cause) -> str:
    share = cause.accounts_for
    part = "" if share is None else f", {fmt.percent(share)} of the gap"
    return f"{codes.words(cause.name)}{part}"


def causes_part(study: Study) -> Section | None:
    """What the results say together, and every cause."""
    result = study.agreement
    if result is None:
        return None
    lead = (
        "Whether offline and online say the same, and why not. Causes that were found come first, "
        "by the share of the gap that closes without them; p after Holm over all causes checked."
    )
    html = assets.render(
        "causes.html",
        sentences=_heads(result),
        notes=result.notes,
        causes=tuple(_cause(cause) for cause in result.causes),
        several=len({cause.variant for cause in result.causes}) > 1,
        level=fmt.level(result.alpha),
    )
    return Section(lead, (Markup(html),), gated=True)  # noqa: S704 (the template escapes)


def _heads(result: Agreement) -> tuple[str, ...]:
    """What the results say, without the causes that were found: each follows with its evidence."""
    causes = {f"{cause.rank}. {cause.message}" for cause in result.found}
    return tuple(s for s in sentences(result) if not any(cause in s for cause in causes))


def quadrant_part(study: Study) -> Section | None:
    """Every offline metric against every online metric."""
    result = study.agreement
    if result is None or not result.rows:
        return None
    lead = (
        "Each offline metric, on control's traffic, against each goal online, both in half-widths "
        f"of their {fmt.level(result.alpha)} intervals and turned so that more is better. Inside "
        "the dotted lines an interval contains zero; upper left and lower right contradict each "
        "other."
    )
    table = pair_table(result, whole=True)
    closed = Closed(f"{table.title}, all metrics ({len(table.rows)})", (table,))
    return Section(lead, (*_quadrants(result), closed), gated=True)


def _quadrants(result: Agreement) -> Iterator[FigureView]:
    """A figure for each variant: every offline metric against the goals."""
    for i, variant in enumerate(dict.fromkeys(row.variant for row in result.rows)):
        own = [row for row in result.rows if row.variant == variant]
        shown = [row for row in own if row.role == "goal"] or own
        count = sum(row.standing == "conflict" for row in shown)
        yield FigureView(
            f"quadrant-{i}",
            f"Offline against online, {variant}",
            f"{count} of {len(shown)} pairs of metrics contradict each other.",
            quadrant_figure(shown),
            heads=("Offline", "Online", "Offline, half-widths", "Online, half-widths", "Standing"),
            rows=tuple(
                (
                    *(row.offline, row.online),
                    *(_half_widths(row.offline_strength), _half_widths(row.online_strength)),
                    row.standing,
                )
                for row in shown
            ),
            key=("quadrant", variant),
        )


def _half_widths(strength: float | None) -> str:
    return fmt.MISSING if strength is None else f"{strength:+.2f}"


def traffics_part(study: Study) -> Section | None:
    """Both models on both variants' traffic, the logged difference, off-policy backtests."""
    result = study.agreement
    tables: tuple[Block, ...] = () if result is None else model_tables(result, whole=True)
    if not tables:
        return None
    lead = (
        "The logged difference is what dashboards show: each model on its own traffic. It is the "
        "sum of what the model changes on the same traffic, and what the traffic changes."
    )
    return Section(lead, tables)


def _cause(cause: Cause) -> CauseView:
    share = "" if cause.accounts_for is None else fmt.percent(cause.accounts_for)
    return CauseView(cause, share, tuple(_evidence(item) for item in cause.evidence))


def _evidence(item: Evidence) -> tuple[str, str, str]:
    return item.name, item.where, number(item.value, item.low, item.high)
