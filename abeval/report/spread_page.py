"""The parts of the page behind single numbers: `dwell`, `gauc` and `catalog`.

`registry.py` lists them; the records are those of `results/effects.py`, the figures those of
`spread_figures.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from abeval.report import figures as fig
from abeval.report.figures import Block, Closed, FigureView, Section
from abeval.report.tables import TextTable
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CatalogueUse, QuantileEffect, Spread, UnitAucs
from abeval.results.study import Study


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


_DWELL = "dwell of clicks"

_WHY = {
    "no_score": "no impression with a score",
    "single_impression": "a single impression",
    "no_click": "no click",
    "only_clicks": "only clicks",
}


def moved_sentences(result: Result) -> Iterator[tuple[str, str]]:
    """What the Markdown says of distributions: what it is about, and the sentence.

    Quantiles whose interval excludes zero; who has no AUC, where GAUC is judged.
    """
    for value in dict.fromkeys(one.value for one in result.quantile_effects):
        effects = [one for one in result.quantile_effects if one.value == value]
        if any(map(_excludes_zero, effects)):
            yield f"Quantiles of {value}", _moved(effects)
    if any(row.metric == "gauc" and row.role != "diagnostic" for row in result.scorecard):
        yield from (("GAUC", _kept(result.unit_aucs)) for _ in result.unit_aucs[:1])


def dwell_part(study: Study) -> Section | None:
    """Distributions of dwell, and of what quantile metrics are of."""
    result = study.analysis
    if result is None or not result.spreads:
        return None
    blocks: list[Block] = []
    values = list(dict.fromkeys(spread.value for spread in result.spreads))
    for value in sorted(values, key=lambda name: name != _DWELL):
        views = _value_views(result, value)
        several = len(values) > 1 and value != values[0]
        blocks += [Closed(value, views)] if several else views
    lead = (
        "A mean can rise while most visits get shorter: each quantile is compared with its own "
        f"{fmt.level(result.experiment.alpha)} interval, without adjustment for their number."
    )
    return Section(lead, tuple(blocks), gated=True)


def _value_views(result: Result, value: str) -> tuple[FigureView, ...]:
    spreads = [one for one in result.spreads if one.value == value]
    effects = [one for one in result.quantile_effects if one.value == value]
    unit = spreads[0].unit
    index = list(dict.fromkeys(one.value for one in result.spreads)).index(value)
    anchor = "dwell" if value == _DWELL else f"dwell-{index}"
    distribution = FigureView(
        anchor=f"{anchor}-distribution",
        title=f"Distribution of {value}",
        takeaway=_medians(spreads),
        figure=distribution_figure(spreads),
        heads=("Below", *(one.variant for one in spreads)),
        rows=_quantile_rows(spreads),
        note=_events(spreads),
        key=("dwell", "distribution", value),
    )
    if not any(one.lift is not None for one in effects):
        return (distribution,)
    return (
        distribution,
        FigureView(
            anchor=f"{anchor}-quantiles",
            title=f"Effect on the quantiles of {value}",
            takeaway=_moved(effects),
            figure=quantile_figure(effects),
            heads=("Quantile", "Variant", "Control", "Variant's", "Difference", "Lift", "p"),
            rows=tuple(_effect_cells(one, unit) for one in effects),
            key=("dwell", "quantiles", value),
        ),
    )


def _medians(spreads: Sequence[Spread]) -> str:
    said = []
    for one in spreads:
        median = dict(zip(one.levels, one.quantiles, strict=True))[0.5]
        said.append(f"{fmt.mean(median, one.unit)} in {one.variant}")
    return f"Half of the impressions with a value are below {fmt.listing(said)}."


def _events(spreads: Sequence[Spread]) -> str:
    return ", ".join(f"{one.variant}: {fmt.count(one.events)} values" for one in spreads)


def _quantile_rows(spreads: Sequence[Spread]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (fmt.percent(level), *(fmt.mean(one.quantiles[i], one.unit) for one in spreads))
        for i, level in enumerate(spreads[0].levels)
    )


def _moved(effects: Sequence[QuantileEffect]) -> str:
    """Which quantiles moved, one test at a time."""
    clear = [one for one in effects if _excludes_zero(one)]
    several = len({one.variant for one in effects}) > 1
    if not clear:
        return "No interval excludes zero."
    said = []
    for one in clear:
        shown = fmt.lift(one.lift, one.lift_low, one.lift_high)
        name = f"{level_words(one.level)}{f' of {one.variant}' if several else ''}"
        said.append(name if shown is None else f"{name} {shown.estimate}")
    return f"Intervals that exclude zero: {fmt.listing(said)}."


def _excludes_zero(one: QuantileEffect) -> bool:
    low, high = one.difference_low, one.difference_high
    return low is not None and high is not None and not low <= 0 <= high


def _effect_cells(one: QuantileEffect, unit: str) -> tuple[str, ...]:
    control, treatment = fmt.pair(one.control, one.treatment, unit)
    difference = fmt.difference(one.difference, one.difference_low, one.difference_high, unit)
    lift = fmt.lift(one.lift, one.lift_low, one.lift_high)
    why = codes.reason(one.reason)
    return (
        level_words(one.level),
        one.variant,
        control,
        treatment,
        difference.text if difference else why or fmt.MISSING,
        lift.text if lift else fmt.MISSING,
        fmt.p_value(one.p_value),
    )


def gauc_part(study: Study) -> Section | None:
    """The AUCs of single units, and who has none."""
    result = study.analysis
    if result is None or not result.unit_aucs:
        return None
    aucs, unit = result.unit_aucs, result.experiment.unit
    lead = (
        f"GAUC weighs the AUC of each {unit} by its impressions. It needs clicked and "
        "unclicked impressions of the same one. If the variants leave out different ones, their "
        "GAUCs are not comparable."
    )
    blocks: list[Block] = []
    if any(one.units for one in aucs):
        blocks.append(
            FigureView(
                anchor="gauc-units",
                title="AUCs of single units",
                takeaway=_below_chance(aucs),
                figure=unit_auc_figure(aucs, unit),
                heads=("Variant", "AUC", "Units", "share", "Impressions", "share"),
                rows=tuple(cells for one in aucs for cells in _bin_cells(one)),
                key=("gauc", "units"),
            )
        )
    heads = ("variant", "why", "units", "share", "impressions", "share", "clicks")
    rows = tuple(cells for one in aucs for cells in _fate_cells(one))
    blocks.append(TextTable("Who has no AUC", _kept(aucs), heads, rows))
    return Section(lead, tuple(blocks), gated=True)


def _below_chance(aucs: Sequence[UnitAucs]) -> str:
    said = []
    for one in (each for each in aucs if each.units):
        low = sum(b.units for b in one.bins if b.high <= 0.5)
        said.append(f"{fmt.percent(low / one.units)} of {one.variant} units")
    return f"{fmt.listing(said)} have an AUC below 0.5 (worse than chance)."


def _bin_cells(one: UnitAucs) -> list[tuple[str, ...]]:
    return [
        (
            one.variant,
            f"{b.low:g} to {b.high:g}",
            fmt.count(b.units),
            fmt.percent(b.units / one.units),
            fmt.count(b.impressions),
            fmt.percent(b.impressions / one.impressions),
        )
        for b in one.bins
    ]


def _totals(one: UnitAucs) -> tuple[int, int]:
    """Units and impressions of a variant, with an AUC or without."""
    units = one.units + sum(lost.units for lost in one.without)
    return units, one.impressions + sum(lost.impressions for lost in one.without)


def _kept(aucs: Sequence[UnitAucs]) -> str:
    said = []
    for one in aucs:
        units, impressions = _totals(one)
        shares = (
            fmt.percent(1 - one.units / units),
            _share(impressions - one.impressions, impressions),
        )
        said.append(
            f"{shares[0]} of the units of {one.variant}, with {shares[1]} of its impressions"
        )
    return f"left out: {fmt.listing(said)}."


def _share(part: int, whole: int) -> str:
    return fmt.percent(part / whole) if whole else fmt.MISSING


def _fate_cells(one: UnitAucs) -> list[tuple[str, ...]]:
    units, impressions = _totals(one)
    judged = ("has an AUC", one.units, one.impressions, fmt.MISSING)
    lost = [(_WHY[w.reason], w.units, w.impressions, fmt.count(w.clicks)) for w in one.without]
    return [
        (
            one.variant,
            why,
            fmt.count(n),
            _share(n, units),
            fmt.count(shown),
            _share(shown, impressions),
            clicks,
        )
        for why, n, shown, clicks in (judged, *lost)
    ]


def catalog_part(study: Study) -> Section | None:
    """How the variants use the catalogue."""
    result = study.analysis
    if result is None or not result.catalogue_uses:
        return None
    uses, unit = result.catalogue_uses, result.experiment.unit
    coverage = FigureView(
        anchor="catalog-coverage",
        title="Coverage at equal traffic",
        takeaway=_covered(uses, unit),
        figure=coverage_figure(uses, unit),
        heads=("Variant", "Units", "Coverage"),
        rows=tuple(
            (one.variant, fmt.count(at), fmt.percent(share))
            for one in uses
            for at, share in zip(one.units, one.coverage, strict=True)
        ),
        key=("catalog", "coverage"),
    )
    lorenz = FigureView(
        anchor="catalog-lorenz",
        title="Lorenz curve of impressions over items",
        takeaway=_gini(result, uses),
        figure=lorenz_figure(uses),
        heads=("Variant", "Items", "Impressions"),
        rows=tuple(
            (one.variant, fmt.percent(items), fmt.percent(shown))
            for one in uses
            for items, shown in zip(one.item_shares, one.impression_shares, strict=True)
        ),
        note=", ".join(
            f"{one.variant}: {fmt.count(one.shown)} of {fmt.count(one.items)} items shown"
            for one in uses
        ),
        key=("catalog", "lorenz"),
    )
    lead = (
        "More traffic covers more of the catalogue by itself, so variants are compared at equal "
        "numbers of units. The further a Lorenz curve hangs below the dashed line, the fewer items "
        "have most of the impressions."
    )
    return Section(lead, (coverage, lorenz), gated=True)


def _covered(uses: Sequence[CatalogueUse], unit: str) -> str:
    at = min(one.units[-1] for one in uses)
    said = [
        f"{fmt.percent(dict(zip(one.units, one.coverage, strict=True))[at])} by {one.variant}"
        for one in uses
    ]
    return f"By {fmt.count(at)} units ({unit}), {fmt.listing(said)}."


def _gini(result: Result, uses: Sequence[CatalogueUse]) -> str:
    said = [f"{fmt.mean(one.gini)} in {one.variant}" for one in uses]
    equal = [row for row in result.scorecard if row.metric == "gini" and row.control is not None]
    beside = "; the scorecard compares it at equal traffic" if equal else ""
    return f"Gini of all impressions: {fmt.listing(said)}{beside}."
