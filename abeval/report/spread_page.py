"""Build the page parts on distributions: `dwell`, `gauc` and `catalog`."""

from collections.abc import Iterator, Sequence

from abeval.report import figures as fig
from abeval.report import tables
from abeval.report.figures import Block, Closed, FigureView
from abeval.report.tables import TextTable, drop_empty, format_lift, interval, share_of
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CatalogueUse, QuantileEffect, UnitAucs


def level_words(level: float) -> str:
    """Write a level as its percentile.

    Example:
        >>> level_words(0.95), level_words(0.5)
        ('p95', 'p50')
    """
    return f"p{100 * level:g}"


_SHARE = {"ticksuffix": "%", "rangemode": "tozero"}
_PART = {"ticksuffix": "%", "range": [0, 100]}

_DWELL = "dwell of clicks"

_WHY = {
    "no_score": "no impression with a score",
    "single_impression": "a single impression",
    "no_click": "no click",
    "only_clicks": "only clicks",
}


def moved_sentences(result: Result) -> Iterator[tuple[str, str]]:
    """Write which quantiles moved, and whom GAUC leaves out."""
    for value, effects in fig.group(result.quantile_effects, lambda one: one.value).items():
        if any(map(tables.excludes_zero, effects)):
            yield f"Quantiles of {value}", _moved(effects)
    # Who is left out matters only if GAUC decides.
    if any(row.metric == "gauc" and row.role != "diagnostic" for row in result.scorecard):
        yield from (("GAUC", _kept(result.unit_aucs)) for _ in result.unit_aucs[:1])


def dwell_part(result: Result) -> Iterator[Block]:
    """Show the distributions of dwell and of the values of quantile metrics."""
    values = list(dict.fromkeys(spread.value for spread in result.spreads))
    for value in sorted(values, key=lambda name: name != _DWELL):
        views = tuple(_value_views(result, value))
        yield from views if value == values[0] else [Closed(value, views)]


def _value_views(result: Result, value: str) -> Iterator[FigureView]:
    """Draw the distribution of a value, and the lift of each quantile."""
    spreads = [one for one in result.spreads if one.value == value]
    effects = [one for one in result.quantile_effects if one.value == value]
    order, unit = fig.places(result.experiment), spreads[0].unit
    below: fig.Series = {
        one.variant: [
            fig.Point(x, 100 * level, f"{fmt.percent(level)} below {fmt.mean(x, unit)}")
            for level, x in zip(one.levels, one.quantiles, strict=True)
        ]
        for one in spreads
    }
    # Dwell and prices are skewed: a log scale shows them, if there are no zeros.
    is_positive = all(x > 0 for one in spreads for x in one.quantiles)
    across = {"type": "log", "dtick": "D2"} if is_positive else {}
    axes = f"{value} ({unit})" if unit else value, "impressions below", across, _PART
    medians = {one.variant: one.quantiles[one.levels.index(0.5)] for one in spreads}
    listed = fmt.listing([f"{fmt.mean(x, unit)} in {name}" for name, x in medians.items()])
    yield FigureView(
        f"Distribution of {value}",
        f"Half of the impressions with a value are below {listed}.",
        fig.lines(below, *axes, order=order),
        ("dwell", "distribution", value),
        ", ".join(f"{one.variant}: {fmt.count(one.events)} values" for one in spreads),
    )
    lifts: dict[str, list[fig.Point]] = {}
    for one in effects:
        lift, name = interval(one, "lift", 100), level_words(one.level)
        if lift[0] is not None:
            point = fig.Point(
                name, lift[0], f"{name}: {fmt.typographic(format_lift(one).text)}", lift
            )
            lifts.setdefault(one.variant, []).append(point)
    if lifts:
        said = f"{_moved(effects)} {_without_lift(effects)}".rstrip()
        axes = "quantile", "lift", {"type": "category"}, {"ticksuffix": "%"}
        drawn = fig.lines(lifts, *axes, is_effect=True, order=order)
        title, key = f"Effect on the quantiles of {value}", ("dwell", "quantiles", value)
        yield FigureView(title, said, drawn, key)


def _moved(effects: Sequence[QuantileEffect]) -> str:
    """Name the quantiles whose interval excludes zero."""
    clear = [one for one in effects if tables.excludes_zero(one)]
    several = len({one.variant for one in effects}) > 1
    if not clear:
        return "No interval excludes zero."
    said = []
    for one in clear:
        shown = format_lift(one)
        name = f"{level_words(one.level)}{f' of {one.variant}' if several else ''}"
        said.append(f"{name} {shown.estimate}" if shown else name)
    return f"Intervals that exclude zero: {fmt.listing(said)}."


def _without_lift(effects: Sequence[QuantileEffect]) -> str:
    """Name the quantiles that cannot be drawn, with the reason."""
    missing = [
        f"{level_words(one.level)} of {one.variant} ({codes.reason(one.reason) or 'no lift'})"
        for one in effects
        if one.lift is None
    ]
    return f"Not drawn: {fmt.listing(missing)}." if missing else ""


def gauc_part(result: Result) -> Iterator[Block]:
    """Show the distribution of AUC by unit, and the units without one."""
    aucs, unit, order = result.unit_aucs, result.experiment.unit, fig.places(result.experiment)
    series: fig.Series = {
        one.variant: [
            fig.Point(
                (b.low + b.high) / 2,
                100 * b.units / one.units,
                f"AUC {b.low:g} to {b.high:g}, units {fmt.count(b.units)}, "
                f"share of units {fmt.percent(b.units / one.units)}, "
                f"impressions {fmt.count(b.impressions)}, "
                f"share of impressions {fmt.percent(b.impressions / one.impressions)}",
            )
            for b in one.bins
        ]
        for one in aucs
        if one.units
    }
    across, middle = {"range": [0, 1]}, [fig.line_at("x", 0.5)]
    axes = f"AUC of one {unit}", "share", across, _SHARE
    if series:
        drawn = fig.lines(series, *axes, order=order, shapes=middle)
        yield FigureView("AUCs of single units", _below_chance(aucs), drawn, ("gauc", "units"))
    heads = ("variant", "why", "units", "share", "impressions", "share", "clicks")
    fates = tuple(fate for one in aucs for fate in _fates(one))
    yield from drop_empty(TextTable("Who has no AUC", _kept(aucs), heads, fates))


def _below_chance(aucs: Sequence[UnitAucs]) -> str:
    low = {one: sum(b.units for b in one.bins if b.high <= 0.5) for one in aucs if one.units}
    said = [f"{fmt.percent(n / one.units)} of {one.variant} units" for one, n in low.items()]
    return f"{fmt.listing(said)} have an AUC below 0.5 (worse than chance)."


def _totals(one: UnitAucs) -> tuple[int, int]:
    """Count all units and impressions of a variant, with an AUC or without."""
    units = one.units + sum(lost.units for lost in one.without)
    return units, one.impressions + sum(lost.impressions for lost in one.without)


def _kept(aucs: Sequence[UnitAucs]) -> str:
    said = []
    for one in aucs:
        units, impressions = _totals(one)
        lost = fmt.percent(1 - one.units / units)
        beside = share_of(impressions - one.impressions, impressions)
        said.append(f"{lost} of the units of {one.variant}, with {beside} of its impressions")
    return f"left out: {fmt.listing(said)}."


def _fates(one: UnitAucs) -> Iterator[tuple[str, ...]]:
    """Yield the units of a variant with an AUC, and those without by reason."""
    all_units, all_shown = _totals(one)
    judged = ("has an AUC", one.units, one.impressions, fmt.MISSING)
    lost = [(_WHY[w.reason], w.units, w.impressions, fmt.count(w.clicks)) for w in one.without]
    for why, units, shown, clicks in (judged, *lost):
        shares = share_of(units, all_units), share_of(shown, all_shown)
        yield one.variant, why, fmt.count(units), shares[0], fmt.count(shown), shares[1], clicks


def catalog_part(result: Result) -> Iterator[Block]:
    """Show how much of the catalogue each variant uses."""
    if not result.catalogue_uses:
        return
    uses, unit, order = result.catalogue_uses, result.experiment.unit, fig.places(result.experiment)
    units: fig.Series = {
        one.variant: [
            fig.Point(at, 100 * share, f"units {fmt.count(at)}, coverage {fmt.percent(share)}")
            for at, share in zip(one.units, one.coverage, strict=True)
        ]
        for one in uses
    }
    up = {"rangemode": "tozero"}
    yield FigureView(
        "Coverage at equal traffic",
        _covered(uses, unit),
        fig.lines(units, f"units ({unit})", "coverage", up, _SHARE, order=order),
        ("catalog", "coverage"),
    )
    items: fig.Series = {
        one.variant: [
            fig.Point(100 * x, 100 * y, f"items {fmt.percent(x)}, impressions {fmt.percent(y)}")
            for x, y in zip(one.item_shares, one.impression_shares, strict=True)
        ]
        for one in uses
    }
    titles = ("items, least shown first", "impressions")
    equal = [fig.dashed((0, 100), (0, 100))]
    yield FigureView(
        "Lorenz curve of impressions over items",
        _gini(result, uses),
        fig.lines(items, *titles, _PART, _PART, "lines", order=order, shapes=equal),
        ("catalog", "lorenz"),
        ", ".join(
            f"{one.variant}: {fmt.count(one.shown)} of {fmt.count(one.items)} items shown"
            for one in uses
        ),
    )


def _covered(uses: Sequence[CatalogueUse], unit: str) -> str:
    # Coverage grows with traffic: variants are compared at the smallest number of units.
    at = min(one.units[-1] for one in uses)
    said = [f"{fmt.percent(one.coverage[one.units.index(at)])} by {one.variant}" for one in uses]
    return f"By {fmt.count(at)} units ({unit}), {fmt.listing(said)}."


def _gini(result: Result, uses: Sequence[CatalogueUse]) -> str:
    said = [f"{fmt.mean(one.gini)} in {one.variant}" for one in uses]
    equal = [row for row in result.scorecard if row.metric == "gini" and row.control is not None]
    beside = "; the scorecard compares it at equal traffic" if equal else ""
    return f"Gini of all impressions: {fmt.listing(said)}{beside}."
