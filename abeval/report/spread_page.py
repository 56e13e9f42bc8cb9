"""Build the page parts on distributions: `dwell`, `gauc` and `catalog`."""

from collections.abc import Iterator, Mapping, Sequence

from abeval.report import figures as fig
from abeval.report import tables
from abeval.report.figures import Block, FigureView, MetricBlocks
from abeval.report.parts import page_part
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CatalogueUse, QuantileEffect, UnitAucs
from abeval.results.record import group_rows


def _format_level(level: float) -> str:
    """Write a level as its percentile.

    Example:
        >>> _format_level(0.95), _format_level(0.5)
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


def describe_quantiles_and_gauc(result: Result) -> Iterator[tuple[str, str]]:
    """Write which quantiles moved, and whom GAUC leaves out."""
    for value, effects in group_rows(result.quantile_effects, lambda effect: effect.value).items():
        if any(map(tables.excludes_zero, effects)):
            yield f"Quantiles of {value}", _list_clear_quantiles(effects)
    # Who is left out matters only if GAUC decides.
    decides = any(row.metric == "gauc" and row.role != "diagnostic" for row in result.scorecard)
    if decides and result.unit_aucs:
        yield "GAUC", _describe_exclusions(result.unit_aucs)


@page_part(
    "dwell",
    view="metric",
    title="Distribution",
    result="analysis",
    lead=(
        "A mean can rise while most visits get shorter: each quantile is compared with its own "
        "{level} interval, without adjustment for their number."
    ),
)
def _build_dwell_part(result: Result) -> Iterator[MetricBlocks]:
    """Show the distributions of dwell and of the values of quantile metrics."""
    for value in dict.fromkeys(spread.value for spread in result.spreads):
        yield MetricBlocks(_find_metric(result, value), tuple(_draw_distribution(result, value)))


def _find_metric(result: Result, value: str) -> str:
    """Find the first metric that is made of a value, or else the first of all."""
    # Dwell is not named in the formulas of its metrics as people call it.
    word = "dwell" if value == _DWELL else value
    made = (info.name for info in result.metrics if word in f"{info.name} {info.formula}")
    return next(made, result.metrics[0].name)


def _draw_distribution(result: Result, value: str) -> Iterator[FigureView]:
    """Draw the distribution of a value, and the lift of each quantile."""
    spreads = [record for record in result.spreads if record.value == value]
    effects = [record for record in result.quantile_effects if record.value == value]
    order, unit = fig.number_variants(result.experiment), spreads[0].unit
    below: fig.Series = {
        record.variant: [
            fig.Point(
                x, 100 * level, f"{fmt.format_percent(level)} below {fmt.format_value(x, unit)}"
            )
            for level, x in zip(record.levels, record.quantiles, strict=True)
        ]
        for record in spreads
    }
    # Dwell and prices are skewed: a log scale shows them, if there are no zeros.
    is_positive = all(x > 0 for record in spreads for x in record.quantiles)
    across = fig.LOG_AXIS if is_positive else {}
    axes = f"{value} ({unit})" if unit else value, "impressions below", across, _PART
    medians = {record.variant: record.quantiles[record.levels.index(0.5)] for record in spreads}
    medians_text = fmt.join_items(
        [f"{fmt.format_value(x, unit)} in {name}" for name, x in medians.items()]
    )
    yield FigureView(
        f"Distribution of {value}",
        f"Half of the impressions with a value are below {medians_text}.",
        fig.draw_lines(below, *axes, order=order),
        ("dwell", "distribution", value),
        ", ".join(
            f"{record.variant}: {fmt.format_count(record.events)} values" for record in spreads
        ),
    )
    lifts: dict[str, list[fig.Point]] = {}
    for record in effects:
        lift, name = tables.read_interval(record, "lift", 100), _format_level(record.level)
        if lift[0] is not None:
            text = f"{name}: {fmt.typeset_numbers(tables.format_lift(record).text)}"
            point = fig.Point(name, lift[0], text, lift)
            lifts.setdefault(record.variant, []).append(point)
    if lifts:
        takeaway = f"{_list_clear_quantiles(effects)} {_list_missing_lifts(effects)}".rstrip()
        axes = "quantile", "lift", {"type": "category"}, {"ticksuffix": "%"}
        figure = fig.draw_lines(lifts, *axes, is_effect=True, order=order)
        title, key = f"Effect on the quantiles of {value}", ("dwell", "quantiles", value)
        yield FigureView(title, takeaway, figure, key)


def _list_clear_quantiles(effects: Sequence[QuantileEffect]) -> str:
    """Name the quantiles whose interval excludes zero."""
    several = len({effect.variant for effect in effects}) > 1
    phrases = [
        f"{_format_level(effect.level)}{f' of {effect.variant}' * several}"
        f"{f' {lift.estimate}' if (lift := tables.format_lift(effect)) else ''}"
        for effect in effects
        if tables.excludes_zero(effect)
    ]
    if not phrases:
        return "No interval excludes zero."
    return f"Intervals that exclude zero: {fmt.join_items(phrases)}."


def _list_missing_lifts(effects: Sequence[QuantileEffect]) -> str:
    """Name the quantiles that cannot be drawn, with the reason."""
    missing = [
        f"{_format_level(effect.level)} of {effect.variant} "
        f"({codes.describe_reason(effect.reason) or 'no lift'})"
        for effect in effects
        if effect.lift is None
    ]
    return f"Not drawn: {fmt.join_items(missing)}." if missing else ""


@page_part(
    "gauc",
    view="metric",
    title="AUC by unit",
    result="analysis",
    lead=(
        "GAUC weighs the AUC of each {unit} by its impressions. It counts only those with both "
        "clicked and unclicked impressions. If the variants leave out different ones, their GAUCs "
        "are not comparable."
    ),
)
def _build_gauc_part(result: Result) -> Iterator[MetricBlocks]:
    """Put what is known of single AUCs into the panel of GAUC."""
    if blocks := tuple(_build_gauc_blocks(result)):
        yield MetricBlocks("gauc", blocks)


def _build_gauc_blocks(result: Result) -> Iterator[Block]:
    """Show the distribution of AUC by unit, and the units without one."""
    aucs, unit = result.unit_aucs, result.experiment.unit
    order = fig.number_variants(result.experiment)
    series: fig.Series = {
        variant_aucs.variant: [
            fig.Point(
                (b.low + b.high) / 2,
                100 * b.units / variant_aucs.units,
                f"AUC {b.low:g} to {b.high:g}, units {fmt.format_count(b.units)}, "
                f"share of units {fmt.format_percent(b.units / variant_aucs.units)}, "
                f"impressions {fmt.format_count(b.impressions)}, "
                "share of impressions "
                f"{fmt.format_percent(b.impressions / variant_aucs.impressions)}",
            )
            for b in variant_aucs.bins
        ]
        for variant_aucs in aucs
        if variant_aucs.units
    }
    across, middle = {"range": [0, 1]}, [fig.draw_line_across("x", 0.5)]
    axes = f"AUC of one {unit}", "share", across, _SHARE
    if series:
        figure = fig.draw_lines(series, *axes, order=order, shapes=middle)
        yield FigureView(
            "AUCs of single units", _describe_low_aucs(aucs), figure, ("gauc", "units")
        )
    heads = ("variant", "why", "units", "share", "impressions", "share", "clicks")
    fates = tuple(fate for variant_aucs in aucs for fate in _list_unit_fates(variant_aucs))
    kinds: tuple[tables.Kind, ...] = ("name", "words", *("number",) * 5)
    lead = _describe_exclusions(aucs)
    yield from tables.drop_empty(tables.TextTable("Who has no AUC", lead, heads, fates, kinds))


def _describe_low_aucs(aucs: Sequence[UnitAucs]) -> str:
    phrases = []
    for variant_aucs in filter(lambda variant_aucs: variant_aucs.units, aucs):
        low = sum(b.units for b in variant_aucs.bins if b.high <= 0.5)
        phrases.append(
            f"{fmt.format_percent(low / variant_aucs.units)} of {variant_aucs.variant} units"
        )
    return f"{fmt.join_items(phrases)} have an AUC below 0.5 (worse than chance)."


def _count_units_and_impressions(variant_aucs: UnitAucs) -> tuple[int, int]:
    """Count all units and impressions of a variant, with an AUC or without."""
    units = variant_aucs.units + sum(lost.units for lost in variant_aucs.without)
    return units, variant_aucs.impressions + sum(lost.impressions for lost in variant_aucs.without)


def _describe_exclusions(aucs: Sequence[UnitAucs]) -> str:
    phrases = []
    for variant_aucs in aucs:
        units, impressions = _count_units_and_impressions(variant_aucs)
        lost = fmt.format_percent(1 - variant_aucs.units / units)
        impression_share = tables.format_share(impressions - variant_aucs.impressions, impressions)
        what = f"{lost} of the units of {variant_aucs.variant}"
        phrases.append(f"{what}, with {impression_share} of its impressions")
    return f"left out: {fmt.join_items(phrases)}."


def _list_unit_fates(variant_aucs: UnitAucs) -> Iterator[tuple[str, ...]]:
    """Yield the units of a variant with an AUC, and those without by reason."""
    all_units, all_shown = _count_units_and_impressions(variant_aucs)
    judged = ("has an AUC", variant_aucs.units, variant_aucs.impressions, fmt.MISSING)
    without = variant_aucs.without
    lost = [(_WHY[w.reason], w.units, w.impressions, fmt.format_count(w.clicks)) for w in without]
    for why, units, shown, clicks in (judged, *lost):
        of_units = fmt.format_count(units), tables.format_share(units, all_units)
        of_shown = fmt.format_count(shown), tables.format_share(shown, all_shown)
        yield (variant_aucs.variant, why, *of_units, *of_shown, clicks)


@page_part(
    "catalog",
    view="metric",
    title="Catalogue",
    result="analysis",
    lead=(
        "Treatment minus control. More traffic covers more of the catalogue by itself, so variants "
        "are compared at equal numbers of units; the bar is the {level} interval of the scorecard."
    ),
)
def _build_catalog_part(result: Result) -> Iterator[MetricBlocks]:
    """Show how the variants use the catalogue, as differences from control."""
    uses = {use.variant: use for use in result.catalogue_uses}
    control = uses.pop(result.experiment.control, None)
    # The panel of the first metric of the catalogue has it.
    names = [info.name for info in result.metrics if info.name in ("coverage", "gini", "entropy")]
    if control is None or not uses or not names:
        return
    everyone = (control, *uses.values())
    yield MetricBlocks(names[0], (_coverage_view(result, everyone), _lorenz_view(result, everyone)))


def _coverage_view(result: Result, uses: Sequence[CatalogueUse]) -> FigureView:
    """Draw how much of the catalogue each variant shows to so many units."""
    unit = result.experiment.unit
    curves: Mapping[str, Mapping[float, float]] = {
        use.variant: dict(zip(use.units, use.coverage, strict=True)) for use in uses
    }
    figure = _draw_differences(result, curves, (f"units ({unit})", "coverage"))
    # Coverage grows with traffic: variants are compared at the smallest number of units.
    at = min(use.units[-1] for use in uses)
    for row in (row for row in result.scorecard if row.metric == "coverage"):
        # What the scorecard judges stands at the end, with its interval.
        ends = tables.read_interval(row, "difference", 100)
        tone = fig.choose_colour(fig.number_variants(result.experiment).get(row.variant, 1))
        judged = fig.draw_trace(
            [f"{row.variant}, scorecard: {tables.format_difference(row, 'share').text}"],
            x=[at],
            y=[ends[0]],
            error_y=fig.draw_error_bars([ends], tone, 2.2),
            mode="markers",
            name=fig.escape_label(row.variant),
            showlegend=False,
            marker={"color": tone, "size": 9},
        )
        figure["data"].append(judged)
        reach = [*figure["layout"]["yaxis"]["range"], *ends]
        figure["layout"]["yaxis"] |= fig.build_effect_axis(reach, " pp", "coverage")
    shares = [
        f"{fmt.format_percent(use.coverage[use.units.index(at)])} by {use.variant}" for use in uses
    ]
    title = "Coverage at equal traffic, treatment minus control"
    sentence = f"By {fmt.format_count(at)} units ({unit}), {fmt.join_items(shares)}."
    return FigureView(title, sentence, figure, ("catalog", "coverage"))


def _lorenz_view(result: Result, uses: Sequence[CatalogueUse]) -> FigureView:
    """Draw which share of the impressions the least shown items have."""
    curves = {
        use.variant: {
            100 * x: y for x, y in zip(use.item_shares, use.impression_shares, strict=True)
        }
        for use in uses
    }
    figure = _draw_differences(result, curves, ("items, least shown first (%)", "impressions"))
    ginis = fmt.join_items([f"{fmt.format_value(use.gini)} in {use.variant}" for use in uses])
    judged = any(row.metric == "gini" and row.control is not None for row in result.scorecard)
    note = "; the scorecard compares it at equal traffic" * judged
    shown = [
        f"{u.variant}: {fmt.format_count(u.shown)} of {fmt.format_count(u.items)} items shown"
        for u in uses
    ]
    title = "Lorenz curve, treatment minus control"
    sentence = f"Gini of all impressions: {ginis}{note}."
    return FigureView(title, sentence, figure, ("catalog", "lorenz"), ", ".join(shown))


def _draw_differences(
    result: Result, curves: Mapping[str, Mapping[float, float]], titles: tuple[str, str]
) -> fig.Figure:
    """Draw shares of each variant minus those of control at the same x, in points."""
    control = curves[result.experiment.control]
    series = {
        name: [
            fig.Point(
                x,
                100 * (share - control[x]),
                f"{x:,.6g}: {fmt.format_percent(share)} against {fmt.format_percent(control[x])}",
            )
            for x, share in curve.items()
            if x in control
        ]
        for name, curve in curves.items()
        if name != result.experiment.control
    }
    figure = fig.draw_lines(series, *titles, order=fig.number_variants(result.experiment))
    ends = [point.y for points in series.values() for point in points]
    figure["layout"]["yaxis"] |= fig.build_effect_axis(ends, " pp", titles[1])
    return figure
