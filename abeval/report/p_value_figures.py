"""The figures of p-values: day by day, and of A/A replays.

`time_parts.py` hands over looks, `aa_part.py` the histograms of A/A replays.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from abeval.report.figures import BLUE, GREY, GRID, ORANGE, label, plain_layout
from abeval.report.windows_figures import layout_of
from abeval.results import format as fmt
from abeval.results.windows import Look

_SMALLEST_P = 1e-6
"""P-values below it are drawn at it."""


def p_values_figure(looks: Sequence[Look], alpha: float) -> go.Figure:
    """P-values by day on a logarithmic scale: of one look, and valid at every look.

    Args:
        looks: Of one metric in one variant.
        alpha: The level, drawn as a line.
    """
    days = [look.day for look in looks]
    fixed, always = [k.fixed_p_value for k in looks], [k.always_p_value for k in looks]
    lines = (
        ("one look, not valid for stopping", fixed, GREY, 1.2, "dot"),
        ("always valid", always, BLUE, 2.4, "solid"),
    )
    figure = go.Figure(
        [
            go.Scatter(
                x=days,
                y=[max(p, _SMALLEST_P) for p in values],
                mode="lines+markers",
                name=name,
                line={"color": tone, "width": width, "dash": dash},
                marker={"size": 5},
                customdata=[
                    label(f"{d}: p {fmt.p_value(p)}") for d, p in zip(days, values, strict=True)
                ],
                hovertemplate="%{customdata}<extra></extra>",
            )
            for name, values, tone, width, dash in lines
        ],
        plain_layout(260, {"l": 72, "r": 16, "t": 34, "b": 34}),
    )
    figure.add_hline(alpha, line={"color": ORANGE, "width": 1.5, "dash": "dash"})
    figure.update_xaxes(type="date", tickformat="%a %d %b", showgrid=False)
    figure.update_yaxes(
        type="log",
        title={"text": "p", "standoff": 8},
        gridcolor=GRID,
        dtick=1,
        exponentformat="power",
    )
    return figure


def histogram_figure(counts: Sequence[int]) -> go.Figure:
    """P-values of A/A replays: flat if the test keeps its level.

    Args:
        counts: P-values in each of some bins of equal width from 0 to 1.
    """
    width = 1 / len(counts)
    bars = go.Bar(
        x=[(i + 0.5) * width for i in range(len(counts))],
        y=list(counts),
        width=[0.92 * width] * len(counts),
        marker={"color": BLUE},
        hovertemplate="p about %{x:.2f}: %{y}<extra></extra>",
    )
    figure = go.Figure([bars], layout_of(()))
    figure.add_hline(sum(counts) / len(counts), line={"color": GREY, "dash": "dash", "width": 1})
    figure.update_layout(height=190, showlegend=False)
    figure.update_yaxes(title={"text": "replays"}, tickformat="", zeroline=False)
    figure.update_xaxes(title={"text": "p-value"}, range=[0, 1])
    return figure
