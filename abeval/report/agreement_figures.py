"""The figure of an agreement: the quadrant of offline against online.

`agreement_parts.py` hands over the rows of an `Agreement`, and puts what comes back into the page.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from abeval.report.figures import EFFECT_AXIS, GREY, colour, label, plain_layout, symbol
from abeval.results.agreement import AgreementRow

_STANDINGS = ("conflict", "agree", "offline only", "online only", "inconclusive")
"""In the order of their colours."""


def quadrant_figure(rows: Sequence[AgreementRow]) -> go.Figure:
    """Every offline metric against every online metric, both in half-widths of their intervals.

    Points in the upper right are better on both sides; inside the dashed lines an interval
    contains zero.

    Args:
        rows: Those with a strength on both sides are drawn.
    """
    figure = go.Figure(
        [_points(i, name, rows) for i, name in enumerate(_STANDINGS) if _of(rows, name)],
        plain_layout(380, {"l": 72, "r": 16, "t": 34, "b": 48}).update(
            showlegend=True,
            xaxis={**EFFECT_AXIS, "title": {"text": "offline, on control's traffic"}},
            yaxis={**EFFECT_AXIS, "title": {"text": "online"}},
        ),
    )
    for place in (-1, 1):
        line = {"color": GREY, "width": 1, "dash": "dot"}
        figure.add_vline(x=place, line=line, layer="below")
        figure.add_hline(y=place, line=line, layer="below")
    return figure


def _of(rows: Sequence[AgreementRow], standing: str) -> list[AgreementRow]:
    return [
        row
        for row in rows
        if row.standing == standing
        and row.offline_strength is not None
        and row.online_strength is not None
    ]


def _points(i: int, standing: str, rows: Sequence[AgreementRow]) -> go.Scatter:
    own = _of(rows, standing)
    return go.Scatter(
        x=[row.offline_strength for row in own],
        y=[row.online_strength for row in own],
        mode="markers",
        name=standing,
        marker={"color": colour(i), "symbol": symbol(i), "size": 8},
        customdata=[label(f"{row.offline} and {row.online}: {row.standing}") for row in own],
        hovertemplate="%{customdata}<extra></extra>",
    )
