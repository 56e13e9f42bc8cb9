"""Build the parts of the page that an agreement fills: why, the quadrant, models on traffics."""

from collections.abc import Iterator, Sequence

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report.agreement_short import model_tables, number, pair_table, sentences, share_of_gap
from abeval.report.figures import Block, Closed, FigureView
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import Agreement, AgreementRow, Cause, Explanation
from abeval.results.study import Study

_STANDINGS = ("conflict", "agree", "offline only", "online only", "inconclusive")
"""In the order of their symbols."""

_NAMED = 12
"""Points that have their names written beside them; the others show theirs on hovering."""


def quadrant_figure(rows: Sequence[AgreementRow], place: int) -> fig.Figure:
    """Draw offline against online metrics that have a strength on both sides, in half-widths."""
    return fig.figure(
        [
            _points(i, name, rows, fig.colour(place))
            for i, name in enumerate(_STANDINGS)
            if _of(rows, name)
        ],
        380,
        {"b": 48},
        xaxis={**fig.EFFECT_AXIS, "title": {"text": "offline, on control's traffic"}},
        yaxis={**fig.EFFECT_AXIS, "title": {"text": "online"}},
        shapes=[fig.line_at(axis, at, dash="dot") for at in (-1, 1) for axis in "xy"],
    )


def _of(rows: Sequence[AgreementRow], standing: str) -> list[AgreementRow]:
    return [
        row
        for row in rows
        if row.standing == standing
        and row.offline_strength is not None
        and row.online_strength is not None
    ]


def _points(i: int, standing: str, rows: Sequence[AgreementRow], tone: str) -> fig.Trace:
    own = _of(rows, standing)
    clear = sum(row.standing in _STANDINGS[:2] for row in rows)
    named = {"text": [fig.label(row.offline) for row in own], "textposition": "top center"}
    is_named = i < 2 and clear <= _NAMED
    return fig.scatter(
        [f"{row.offline} and {row.online}: {row.standing}" for row in own],
        x=[row.offline_strength for row in own],
        y=[row.online_strength for row in own],
        mode="markers+text" if is_named else "markers",
        name=standing,
        marker={"color": tone, "symbol": fig.symbol(i) + "-open" * (i > 1), "size": 9},
        **(named if is_named else {}),
    )


_WORDS = {
    "agree": "agree",
    "offline only": "differ: offline moved, online did not",
    "online only": "differ: online moved, offline did not",
    "inconclusive": "say nothing together: neither moved clearly",
}


def standings(study: Study) -> tuple[str, ...]:
    """Write a line for each variant: whether its offline and online results agree, or why not."""
    if study.agreement is None or study.questions or not study.trusted:
        return ()
    agreement = study.agreement
    several = len(agreement.explanations) > 1
    return tuple(
        _conflict(agreement, one, several)
        if one.standing == "conflict"
        else f"{f'{one.variant}: ' * several}{one.offline} offline and {one.online} online"
        f" {_WORDS[one.standing]}."
        for one in agreement.explanations
        if one.standing == "conflict" or one.standing in _WORDS
    )


def _conflict(agreement: Agreement, said: Explanation, several: bool) -> str:
    name = f"{said.variant}: " if several else ""
    causes = [cause for cause in agreement.found if cause.variant == said.variant]
    why = f"the first cause is {_cause_words(causes[0])}" if causes else "no cause explains it"
    return f"{name}{said.offline} offline and {said.online} online contradict each other; {why}."


def _cause_words(cause: Cause) -> str:
    share = share_of_gap(cause)
    return codes.words(cause.name) + (f", {share} of the gap" if share else "")


def causes_part(result: Agreement) -> tuple[Block, ...]:
    """Show what the results say together, and every cause."""
    html = assets.block(
        "causes.html",
        sentences=_heads(result),
        notes=result.notes,
        causes=[
            (
                cause,
                share_of_gap(cause),
                [(e.name, e.where, number(e.value, e.low, e.high)) for e in cause.evidence],
            )
            for cause in result.causes
        ],
        several=len({cause.variant for cause in result.causes}) > 1,
        level=fmt.level(result.alpha),
    )
    return (html,)


def _heads(result: Agreement) -> tuple[str, ...]:
    """Return what the results say, without the causes: each follows with its evidence."""
    causes = {f"{cause.rank}. {cause.message}" for cause in result.found}
    return tuple(s for s in sentences(result) if not any(cause in s for cause in causes))


def quadrant_part(result: Agreement) -> tuple[Block, ...]:
    """Show every offline metric against every online metric."""
    if not result.rows:
        return ()
    table = pair_table(result)
    closed = Closed(f"{table.title}, all metrics ({len(table.rows)})", (table,))
    return (*_quadrants(result), closed)


def _quadrants(result: Agreement) -> Iterator[FigureView]:
    """Draw every offline metric against the goals, a figure for each variant."""
    for i, variant in enumerate(dict.fromkeys(row.variant for row in result.rows)):
        own = [row for row in result.rows if row.variant == variant]
        shown = [row for row in own if row.role == "goal"] or own
        count = sum(row.standing == "conflict" for row in shown)
        yield FigureView(
            f"Offline against online, {variant}",
            f"{count} of {len(shown)} pairs of metrics contradict each other.",
            quadrant_figure(shown, i + 1),
            key=("quadrant", variant),
            slug=f"quadrant-{i}",
        )


def traffics_part(result: Agreement) -> tuple[Block, ...]:
    """Show both models on both variants' traffic, the logged difference, off-policy backtests."""
    return model_tables(result)
