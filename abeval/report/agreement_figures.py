"""The figure of an agreement: the quadrant of offline against online.

`agreement_parts.py` hands over the rows of an `Agreement`, and puts what comes back into the page.
"""

from collections.abc import Sequence

from abeval.report import figures as fig
from abeval.results.agreement import AgreementRow

_STANDINGS = ("conflict", "agree", "offline only", "online only", "inconclusive")
"""In the order of their colours."""


def quadrant_figure(rows: Sequence[AgreementRow]) -> fig.Figure:
    """Every offline metric against every online metric, both in half-widths of their intervals.

    Points in the upper right are better on both sides; inside the dashed lines an interval
    contains zero.

    Args:
        rows: Those with a strength on both sides are drawn.
    """
    return fig.figure(
        [_points(i, name, rows) for i, name in enumerate(_STANDINGS) if _of(rows, name)],
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


def _points(i: int, standing: str, rows: Sequence[AgreementRow]) -> fig.Trace:
    own = _of(rows, standing)
    return fig.scatter(
        x=[row.offline_strength for row in own],
        y=[row.online_strength for row in own],
        mode="markers",
        name=standing,
        marker={"color": fig.colour(i), "symbol": fig.symbol(i), "size": 8},
        said=[f"{row.offline} and {row.online}: {row.standing}" for row in own],
    )
