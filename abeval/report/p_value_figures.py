"""The figures of p-values: day by day, and of A/A replays.

`time_parts.py` hands over looks, `aa_part.py` the histograms of A/A replays.
"""

from collections.abc import Sequence

from abeval.report.figures import BLUE, GREY, GRID, ORANGE, Figure, figure, line_at, scatter
from abeval.results import format as fmt
from abeval.results.windows import Look

_SMALLEST_P = 1e-6
"""P-values below it are drawn at it."""


def p_values_figure(looks: Sequence[Look], alpha: float) -> Figure:
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
    return figure(
        [
            scatter(
                x=days,
                y=[max(p, _SMALLEST_P) for p in values],
                mode="lines+markers",
                name=name,
                line={"color": tone, "width": width, "dash": dash},
                marker={"size": 5},
                said=[f"{d}: p {fmt.p_value(p)}" for d, p in zip(days, values, strict=True)],
            )
            for name, values, tone, width, dash in lines
        ],
        260,
        {"b": 34},
        shapes=[line_at("y", alpha, ORANGE, 1.5)],
        xaxis={"type": "date", "tickformat": "%a %d %b", "showgrid": False},
        yaxis={
            "type": "log",
            "title": {"text": "p", "standoff": 8},
            "gridcolor": GRID,
            "dtick": 1,
            "exponentformat": "power",
        },
    )


def histogram_figure(counts: Sequence[int]) -> Figure:
    """P-values of A/A replays: flat if the test keeps its level.

    Args:
        counts: P-values in each of some bins of equal width from 0 to 1.
    """
    width = 1 / len(counts)
    bars = {
        "type": "bar",
        "x": [(i + 0.5) * width for i in range(len(counts))],
        "y": list(counts),
        "width": [0.92 * width] * len(counts),
        "marker": {"color": BLUE},
        "hovertemplate": "p about %{x:.2f}: %{y}<extra></extra>",
    }
    return figure(
        [bars],
        190,
        {"b": 34},
        showlegend=False,
        shapes=[line_at("y", sum(counts) / len(counts))],
        xaxis={"title": {"text": "p-value"}, "range": [0, 1], "showgrid": False},
        yaxis={
            "title": {"text": "replays", "standoff": 8},
            "gridcolor": GRID,
            "zeroline": False,
            "nticks": 7,
        },
    )
