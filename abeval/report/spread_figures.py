"""Figures of what lies behind the numbers: distributions, quantiles, AUCs of units, coverage.

`spread_parts.py` hands over the records of `results/spreads.py`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.report import figures as fig
from abeval.results import format as fmt
from abeval.results.effects import CatalogueUse, QuantileEffect, Spread, UnitAucs


class Point(NamedTuple):
    """A point of a line, and what its tooltip says."""

    x: float | str
    y: float
    said: str
    interval: fig.Interval | None = None


def distribution_figure(spreads: Sequence[Spread]) -> fig.Figure:
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
    positive = all(value > 0 for one in spreads for value in one.quantiles)
    return _figure(
        lines,
        f"{first.value} ({first.unit})" if first.unit else first.value,
        "impressions below",
        xaxis={"type": "log", "dtick": "D2"} if positive else {},
        yaxis={"ticksuffix": "%", "range": [0, 100]},
    )


def quantile_figure(effects: Sequence[QuantileEffect]) -> fig.Figure:
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
    return _figure(
        lines,
        "quantile",
        "lift",
        xaxis={"type": "category"},
        yaxis={**fig.EFFECT_AXIS, "ticksuffix": "%"},
    )


def level_words(level: float) -> str:
    """A level as its percentile.

    Example:
        >>> level_words(0.95), level_words(0.5)
        ('p95', 'p50')
    """
    return f"p{100 * level:g}"


def unit_auc_figure(aucs: Sequence[UnitAucs], unit: str) -> fig.Figure:
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
    return _figure(
        lines,
        f"AUC of one {unit}",
        "share",
        xaxis={"range": [0, 1]},
        yaxis=_SHARE,
        shapes=[fig.line_at("x", 0.5)],
    )


def coverage_figure(uses: Sequence[CatalogueUse], unit: str) -> fig.Figure:
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
    across = {"rangemode": "tozero"}
    return _figure(lines, f"units ({unit})", "coverage", xaxis=across, yaxis=_SHARE)


def lorenz_figure(uses: Sequence[CatalogueUse]) -> fig.Figure:
    """The share of impressions of the least shown items, a line for each variant; dashed: equal."""
    lines = {
        one.variant: [
            Point(100 * items, 100 * shown, f"{fmt.percent(items)} have {fmt.percent(shown)}")
            for items, shown in zip(one.item_shares, one.impression_shares, strict=True)
        ]
        for one in uses
    }
    part = {"ticksuffix": "%", "range": [0, 100]}
    diagonal = fig.dashed((0, 100), (0, 100))
    titles = ("items, least shown first", "impressions")
    return _figure(lines, *titles, xaxis=part, yaxis=part, shapes=[diagonal], mode="lines")


_SHARE: Mapping[str, object] = {"ticksuffix": "%", "rangemode": "tozero"}


def _figure(
    lines: Mapping[str, Sequence[Point]],
    across: str,
    up: str,
    xaxis: Mapping[str, object],
    yaxis: Mapping[str, object],
    shapes: Sequence[fig.Trace] = (),
    mode: str = "lines+markers",
) -> fig.Figure:
    title = {"text": up, "standoff": 8}
    return fig.figure(
        [_trace(i, name, points, mode) for i, (name, points) in enumerate(lines.items())],
        xaxis={"title": {"text": fig.label(across), "standoff": 6}, "showgrid": False, **xaxis},
        yaxis={"title": title, "gridcolor": fig.GRID, "zeroline": False, "nticks": 7, **yaxis},
        shapes=shapes,
    )


def _trace(i: int, name: str, points: Sequence[Point], mode: str) -> fig.Trace:
    intervals = [point.interval for point in points if point.interval is not None]
    return fig.scatter(
        x=[point.x for point in points],
        y=[point.y for point in points],
        **({"error_y": fig.error_bars(intervals, fig.colour(i), 1.4)} if intervals else {}),
        mode=mode,
        name=fig.label(name),
        line={"color": fig.colour(i), "width": 1.8, "dash": "solid" if i % 2 == 0 else "dot"},
        marker={"color": fig.colour(i), "size": 6, "symbol": fig.symbol(i)},
        said=[f"{name}, {point.said}" for point in points],
    )
