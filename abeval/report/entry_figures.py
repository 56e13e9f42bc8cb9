"""The figure of lifts by days since entry, with the decay that was fitted to them.

`daily_parts.py` hands over rows of a `TimeResult`.
"""

from collections.abc import Sequence
from math import exp, expm1

from abeval.report import figures as fig
from abeval.results import format as fmt
from abeval.results.windows import Novelty, WindowRow


def entry_figure(rows: Sequence[WindowRow], fit: Novelty | None) -> fig.Figure:
    """Lifts by days since entry, with the fit of their decay where there is one.

    Args:
        rows: One-day windows of one metric in one variant.
        fit: Its novelty; drawn if it has a word for it and is of lifts.
    """
    shown = [row for row in rows if row.lift is not None]
    numbers = [_lifts(row) for row in shown]
    points = fig.scatter(
        x=[int(row.start) for row in shown],
        y=[value for value, _, _ in numbers],
        error_y=fig.error_bars(numbers, fig.GREY, 1.4),
        mode="markers",
        name="one day since entry",
        marker={"color": fig.GREY, "size": 8},
        said=[_lift_hover(row) for row in shown],
    )
    drawn = [points, *_decay(shown, fit)]
    ends = sorted(e for number in numbers for e in number if e is not None)
    trimmed = ends[len(ends) // 10 : len(ends) - len(ends) // 10]
    return fig.figure(
        drawn,
        260,
        showlegend=len(drawn) > 1,
        xaxis={
            "title": {"text": "days since entry", "standoff": 6},
            "showgrid": False,
            "zeroline": False,
        },
        yaxis={**fig.EFFECT_AXIS, "ticksuffix": "%", "range": fig.axis_range(trimmed, 0.08)},
    )


def _lifts(row: WindowRow) -> fig.Interval:
    low, value, high = (
        None if n is None else 100 * n for n in (row.lift_low, row.lift, row.lift_high)
    )
    return value, low, high


def _lift_hover(row: WindowRow) -> str:
    shown = fmt.lift(row.lift, row.lift_low, row.lift_high)
    return f"day {row.start}: {fmt.typographic(shown.text) if shown else fmt.MISSING}"


def _decay(rows: Sequence[WindowRow], fit: Novelty | None) -> list[fig.Trace]:
    """The fitted a + b exp(-t / tau), of logarithms of relative effects."""
    if fit is None or fit.word is None or fit.scale != "relative":
        return []
    if fit.start is None or fit.long_run is None or not fit.tau:
        return []
    days = [int(row.start) for row in rows]
    logs = [fit.long_run + (fit.start - fit.long_run) * exp(-day / fit.tau) for day in days]
    return [
        fig.scatter(
            x=days,
            y=[100 * expm1(one) for one in logs],
            mode="lines",
            name=f"{fit.word}, fitted",
            line={"color": fig.ORANGE, "width": 2},
            hoverinfo="skip",
        )
    ]
