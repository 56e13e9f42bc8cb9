"""Build the parts of the page that an agreement fills: why, the quadrant, models on traffics."""

from collections.abc import Iterator, Sequence

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report.agreement_short import (
    WORDS,
    conclusions,
    model_tables,
    number,
    pair_table,
    share_of_gap,
)
from abeval.report.figures import Block, Closed, FigureView
from abeval.report.tables import with_rows
from abeval.results import codes
from abeval.results.agreement import Agreement, AgreementRow, Explanation
from abeval.results.study import Study

_STANDINGS = ("conflict", "agree", "offline only", "online only", "inconclusive")
"""In the order of their symbols."""

_STRENGTHS = ("offline_strength", "online_strength")

_NAMED = 12
"""Points that have their names written beside them; the others show theirs on hovering."""


def quadrant_figure(rows: Sequence[AgreementRow], place: int) -> fig.Figure:
    """Draw offline against online metrics that have a strength on both sides, in half-widths."""
    known = [row for row in rows if all(getattr(row, name) is not None for name in _STRENGTHS)]
    across, up = ([1.5, -1.5, *(getattr(row, name) for row in known)] for name in _STRENGTHS)
    is_named = sum(row.standing in _STANDINGS[:2] for row in rows) <= _NAMED
    traces = []
    for i, name in enumerate(_STANDINGS):
        own = [row for row in known if row.standing == name]
        names = {"text": [fig.label(row.offline) for row in own], "textposition": "top center"}
        mark = fig.symbol(i) + "-open" * (i > 1)
        points = fig.scatter(
            [f"{row.offline} and {row.online}: {name}" for row in own],
            x=[row.offline_strength for row in own],
            y=[row.online_strength for row in own],
            mode="markers+text" if is_named and i < 2 else "markers",
            name=name,
            marker={"color": fig.colour(place), "symbol": mark, "size": 9},
            **(names if is_named and i < 2 else {}),
        )
        traces += [points] * bool(own)
    return fig.figure(
        traces,
        380,
        {"b": 48},
        xaxis=fig.effect_axis(across, title="offline, on control's traffic"),
        yaxis=fig.effect_axis(up, title="online"),
        shapes=[fig.line_at(axis, at, dash="dot") for at in (-1, 1) for axis in "xy"],
    )


def standings(study: Study) -> tuple[str, ...]:
    """Write a line for each variant: whether its offline and online results agree, or why not."""
    if study.agreement is None or study.questions or not study.trusted:
        return ()
    agreement = study.agreement
    return tuple(
        f"{f'{one.variant}: ' * (len(agreement.explanations) > 1)}{one.offline} offline and "
        f"{one.online} online {WORDS[one.standing]}{_first_cause(agreement, one)}."
        for one in agreement.explanations
    )


def _first_cause(agreement: Agreement, of: Explanation) -> str:
    """Name the first cause of a conflict, with its share of the gap."""
    if of.standing != "conflict":
        return ""
    cause = next((cause for cause in agreement.found if cause.variant == of.variant), None)
    if cause is None:
        return "; no cause explains it"
    share = share_of_gap(cause)
    return f"; the first cause is {codes.words(cause.name)}{f', {share} of the gap' * bool(share)}"


def causes_part(result: Agreement) -> Iterator[Block]:
    """Show what the results say together, and every cause."""
    yield assets.block(
        "causes.html",
        sentences=[one.sentence for one in conclusions(result)],
        result=result,
        share_of_gap=share_of_gap,
        number=number,
    )


def quadrant_part(result: Agreement) -> Iterator[Block]:
    """Draw every offline metric against the goals, a figure for each variant; list all pairs."""
    for i, variant in enumerate(dict.fromkeys(row.variant for row in result.rows)):
        own = [row for row in result.rows if row.variant == variant]
        shown = [row for row in own if row.role == "goal"] or own
        count = sum(row.standing == "conflict" for row in shown)
        yield FigureView(
            f"Offline against online, {variant}",
            f"{count} of {len(shown)} pairs of metrics contradict each other.",
            quadrant_figure(shown, i + 1),
            key=("quadrant", variant),
        )
    for table in with_rows(pair_table(result)):
        yield Closed(f"{table.title}, all metrics ({len(table.rows)})", (table,))


def traffics_part(result: Agreement) -> tuple[Block, ...]:
    """Show both models on both variants' traffic, the logged difference, off-policy backtests."""
    return model_tables(result)
