"""The parts of the page behind single numbers: `dwell`, `gauc` and `catalog`.

`registry.py` lists them; the records are those of `results/spreads.py`, the figures those of
`spread_figures.py`.
"""

from collections.abc import Iterator, Sequence

from abeval.report.figures import Block, Closed, FigureView, Section
from abeval.report.spread_page import (
    coverage_figure,
    distribution_figure,
    level_words,
    lorenz_figure,
    quantile_figure,
    unit_auc_figure,
)
from abeval.report.tables import TextTable
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import CatalogueUse, QuantileEffect, Spread, UnitAucs
from abeval.results.study import Study

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
        f"GAUC weighs the AUC of each {unit} by its impressions. Only who has impressions with "
        "and without a click has one: if variants differ in who drops out, they differ in whom "
        "GAUC is about."
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
        said.append(f"{fmt.percent(low / one.units)} in {one.variant}")
    return f"An AUC below .5, worse than chance, have {fmt.listing(said)} of those with one."


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
