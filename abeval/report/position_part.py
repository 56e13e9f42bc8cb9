"""The part of the page on positions: click rates and the share of impressions by position.

`registry.py` lists it beside the other parts of the agreement (`agreement_parts.py`).
"""

from abeval.report import figures as fig
from abeval.report.figures import Section
from abeval.results import format as fmt
from abeval.results.agreement import PositionRate
from abeval.results.study import Study

_HEADS = ("Variant", "Position", "Impressions", "share", "Clicks", "CTR", "interval")


def position_part(study: Study) -> Section | None:
    """Click rates by position, of each variant."""
    if study.agreement is None or not study.agreement.positions:
        return None
    rates = tuple(dict.fromkeys(study.agreement.positions))
    totals: dict[str, int] = {}
    for rate in rates:
        totals[rate.variant] = totals.get(rate.variant, 0) + rate.impressions
    view = fig.FigureView(
        anchor="position-ctr",
        title="CTR by position",
        takeaway=_first_last(rates),
        figure=position_figure(rates),
        heads=_HEADS,
        rows=tuple(_cells(rate, totals[rate.variant]) for rate in rates),
        key=("position",),
    )
    lead = (
        "Clicks fall on what is shown on top. Where the variants differ at each position, the "
        "items are better; where one shows more on top, its clicks are helped by the place."
    )
    return Section(lead, (view,), gated=True)


def _cells(rate: PositionRate, total: int) -> tuple[str, ...]:
    value, interval = _percent(rate)
    share = fmt.percent(rate.impressions / total) if total else fmt.MISSING
    counts = fmt.count(rate.impressions), share, fmt.count(rate.clicks)
    return (rate.variant, fmt.count(rate.position), *counts, value, interval)


def _percent(rate: PositionRate) -> tuple[str, str]:
    low, high = (None if end is None else 100 * end for end in (rate.low, rate.high))
    value, interval = fmt.estimate(100 * rate.ctr, low, high)
    return f"{value}%", interval


def _first_last(rates: tuple[PositionRate, ...]) -> str:
    first = min(rate.position for rate in rates)
    said = [f"{r.variant} {_percent(r)[0]}" for r in rates if r.position == first]
    return f"At position {first}: {fmt.listing(said)}."


def position_figure(rates: tuple[PositionRate, ...]) -> fig.Figure:
    """CTR by position with intervals, a line for each variant."""
    traces = []
    for i, name in enumerate(dict.fromkeys(rate.variant for rate in rates)):
        own = [rate for rate in rates if rate.variant == name]
        numbers: list[fig.Interval] = [
            (
                100 * r.ctr,
                None if r.low is None else 100 * r.low,
                None if r.high is None else 100 * r.high,
            )
            for r in own
        ]
        traces.append(
            fig.scatter(
                x=[rate.position for rate in own],
                y=[value for value, _, _ in numbers],
                error_y=fig.error_bars(numbers, fig.colour(i), 1.4),
                mode="lines+markers",
                name=fig.label(name),
                line={"color": fig.colour(i), "width": 1.6},
                marker={"symbol": fig.symbol(i), "size": 7},
                said=[f"{r.variant}, position {r.position}: {_percent(r)[0]}" for r in own],
            )
        )
    return fig.figure(
        traces,
        xaxis={"title": {"text": "position", "standoff": 6}, "showgrid": False, "tickformat": "d"},
        yaxis={
            "title": {"text": "CTR", "standoff": 8},
            "ticksuffix": "%",
            "gridcolor": fig.GRID,
            "rangemode": "tozero",
            "zeroline": False,
            "nticks": 7,
        },
    )
