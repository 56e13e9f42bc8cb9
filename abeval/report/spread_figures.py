"""Figures of what lies behind the numbers: distributions, quantiles, AUCs of units, coverage.

`spread_parts.py` hands over the records of `results/spreads.py`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from abeval.report.figures import (
    EFFECT_AXIS,
    GREY,
    GRID,
    Interval,
    colour,
    error_bars,
    label,
    plain_layout,
    symbol,
)
from abeval.results import format as fmt
from abeval.results.spreads import CatalogueUse, QuantileEffect, Spread, UnitAucs


class Point(NamedTuple):
    """A point of a line, and what its tooltip says."""

    x: float | str
    y: float
    said: str
    interval: Interval | None = None


def distribution_figure(spreads: Sequence[Spread]) -> go.Figure:
    """The share of impressions below a value, a line for each variant; a log axis where it can be.

    Args:
        spreads: Of one value, one for each variant.
    """
    lines = {
        one.variant: [
            Point(value, 100 * level, f"{fmt.percent(level)} are below {fmt.mean(value, one.unit)}")
            for level, value in zip(one.levels, one.quantiles, strict=True)
        ]
        for one in spreads
    }
    first = spreads[0]
    figure = _figure(lines, f"{first.value} ({first.unit})" if first.unit else first.value)
    figure.update_yaxes(title_text="impressions below", ticksuffix="%", range=[0, 100])
    if all(value > 0 for one in spreads for value in one.quantiles):
        figure.update_xaxes(type="log", dtick="D2")
    return figure


def quantile_figure(effects: Sequence[QuantileEffect]) -> go.Figure:
    """The lift of each quantile with its interval, a line for each variant."""
    lines: dict[str, list[Point]] = {}
    for one in effects:
        shown = fmt.lift(one.lift, one.lift_low, one.lift_high)
        if one.lift is None or shown is None:
            continue
        low, high = (None if end is None else 100 * end for end in (one.lift_low, one.lift_high))
        said = f"{level_words(one.level)}: {fmt.typographic(shown.text)}"
        point = Point(level_words(one.level), 100 * one.lift, said, (100 * one.lift, low, high))
        lines.setdefault(one.variant, []).append(point)
    figure = _figure(lines, "quantile")
    figure.update_xaxes(type="category")
    figure.update_yaxes(**EFFECT_AXIS, ticksuffix="%", title_text="lift")
    return figure


def level_words(level: float) -> str:
    """A level as its percentile.

    Example:
        >>> level_words(0.95), level_words(0.5)
        ('p95', 'p50')
    """
    return f"p{100 * level:g}"


def unit_auc_figure(aucs: Sequence[UnitAucs], unit: str) -> go.Figure:
    """The share of a variant's judged units in each range of AUC; a dashed line at chance.

    Args:
        aucs: One for each variant.
        unit: What is randomised.
    """
    lines = {
        one.variant: [
            Point(
                (b.low + b.high) / 2,
                100 * b.units / one.units,
                f"AUC {b.low:g} to {b.high:g}: {fmt.percent(b.units / one.units)}",
            )
            for b in one.bins
        ]
        for one in aucs
        if one.units
    }
    figure = _figure(lines, f"AUC of one {unit}")
    figure.update_yaxes(title_text="share", ticksuffix="%", rangemode="tozero")
    figure.update_xaxes(range=[0, 1])
    return figure.add_vline(0.5, line={"color": GREY, "width": 1, "dash": "dash"})


def coverage_figure(uses: Sequence[CatalogueUse], unit: str) -> go.Figure:
    """Coverage by the number of units, a line for each variant.

    Args:
        uses: One for each variant.
        unit: What is randomised.
    """
    lines = {
        one.variant: [
            Point(at, 100 * share, f"{fmt.count(at)} units: {fmt.percent(share)}")
            for at, share in zip(one.units, one.coverage, strict=True)
        ]
        for one in uses
    }
    figure = _figure(lines, f"units ({unit})")
    figure.update_yaxes(title_text="coverage", ticksuffix="%", rangemode="tozero")
    return figure.update_xaxes(rangemode="tozero")


def lorenz_figure(uses: Sequence[CatalogueUse]) -> go.Figure:
    """The share of impressions of the least shown items, a line for each variant; dashed: equal."""
    lines = {
        one.variant: [
            Point(100 * items, 100 * shown, f"{fmt.percent(items)} have {fmt.percent(shown)}")
            for items, shown in zip(one.item_shares, one.impression_shares, strict=True)
        ]
        for one in uses
    }
    figure = _figure(lines, "items, least shown first", mode="lines")
    figure.update_yaxes(title_text="impressions", ticksuffix="%", range=[0, 100])
    figure.update_xaxes(ticksuffix="%", range=[0, 100])
    return figure.add_shape(
        type="line",
        **{"x0": 0, "y0": 0, "x1": 100, "y1": 100, "layer": "below"},
        line={"color": GREY, "width": 1, "dash": "dash"},
    )


def _figure(
    lines: Mapping[str, Sequence[Point]], across: str, mode: str = "lines+markers"
) -> go.Figure:
    traces = [_trace(i, name, points, mode) for i, (name, points) in enumerate(lines.items())]
    figure = go.Figure(traces, plain_layout(300, {"l": 72, "r": 16, "t": 34, "b": 44}))
    return figure.update_layout(
        showlegend=True,
        xaxis={"title": {"text": label(across), "standoff": 6}, "showgrid": False},
        yaxis={"title": {"standoff": 8}, "gridcolor": GRID, "zeroline": False, "nticks": 7},
    )


def _trace(i: int, name: str, points: Sequence[Point], mode: str) -> go.Scatter:
    intervals = [point.interval for point in points if point.interval is not None]
    return go.Scatter(
        x=[point.x for point in points],
        y=[point.y for point in points],
        error_y=error_bars(intervals, colour(i), 1.4) if intervals else None,
        mode=mode,
        name=label(name),
        line={"color": colour(i), "width": 1.8, "dash": "solid" if i % 2 == 0 else "dot"},
        marker={"color": colour(i), "size": 6, "symbol": symbol(i)},
        customdata=[label(f"{name}, {point.said}") for point in points],
        hovertemplate="%{customdata}<extra></extra>",
    )
