"""Show distributions behind the numbers: values, unit AUCs, catalogue use."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import cast

import numpy as np

from abeval.aggregates.wanted import COMPARED, CURVE, at_level, spread_metrics, title_of
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms
from abeval.metrics.definition import Metric, scales
from abeval.results import effects
from abeval.results.effects import AucBin, CatalogueUse, QuantileEffect, Spread, UnitAucs
from abeval.stats.catalogue import coverage, gini
from abeval.stats.records import Floats

_BINS = 20
_JUDGED = "judged"


def spreads(analysis: Analysis) -> Iterator[Spread]:
    """Yield the distribution of each value in each variant that has it."""
    quantiles = analysis.aggregates.quantiles
    for spread, variant in product(_collected(analysis), analysis.experiment.variants):
        curve = [quantiles[at_level(spread, level).name].get(variant) for level in CURVE]
        known = [one for one in curve if one is not None]
        if known:
            values = tuple(one.value * scales(spread)[0] for one in known)
            name = title_of(spread)
            yield Spread(name, spread.unit, variant, known[0].events, CURVE, values)


def quantile_effects(analysis: Analysis) -> Iterator[QuantileEffect]:
    """Compare the quantiles of each value with control's, as quantile metrics are."""
    experiment = analysis.experiment
    for spread, variant, level in product(_collected(analysis), experiment.treatments, COMPARED):
        arms = Arms(experiment.control, variant)
        comparison = compare(analysis, at_level(spread, level), arms)
        yield QuantileEffect(
            **vars(comparison.values),
            value=title_of(spread),
            variant=variant,
            level=level,
            reason=comparison.reason,
        )


def _collected(analysis: Analysis) -> Iterator[Metric]:
    """Yield the values whose quantiles were collected."""
    for spread in spread_metrics(analysis.metrics):
        if analysis.aggregates.quantiles.get(at_level(spread, COMPARED[0]).name):
            yield spread


def unit_aucs(analysis: Analysis) -> Iterator[UnitAucs]:
    """Count units by their own AUC, and those without one; none without GAUC."""
    least = analysis.experiment.privacy.min_units or 1
    for variant in analysis.experiment.variants:
        rows = [row for row in analysis.aggregates.unit_aucs if row.variant == variant]
        bins = [
            AucBin(row.bin / _BINS, (row.bin + 1) / _BINS, row.units, row.impressions)
            for row in rows
            if row.fate == _JUDGED
        ]
        without = tuple(
            effects.WithoutAuc(
                cast(effects.Fate, row.fate), row.units, row.impressions, row.left_out_clicks
            )
            for row in rows
            if row.fate != _JUDGED
        )
        if rows:
            units, impressions = sum(b.units for b in bins), sum(b.impressions for b in bins)
            yield UnitAucs(variant, units, impressions, joined_bins(bins, least), without)


def joined_bins(bins: Sequence[AucBin], least: int) -> tuple[AucBin, ...]:
    """Merge bins with fewer than `least` units into their neighbours.

    Example:
        >>> [b.units for b in joined_bins([AucBin(0, 0.1, 2, 9), AucBin(0.1, 0.2, 9, 9)], 5)]
        [11]
    """
    joined: list[AucBin] = []
    for one in bins:
        if joined and joined[-1].units < least:
            joined[-1] = _together(joined[-1], one)
        else:
            joined.append(one)
    if len(joined) > 1 and joined[-1].units < least:
        joined[-2:] = [_together(*joined[-2:])]
    return tuple(joined)


def _together(first: AucBin, second: AucBin) -> AucBin:
    units, impressions = first.units + second.units, first.impressions + second.impressions
    return AucBin(first.low, second.high, units, impressions)


# Points of the coverage curve, up to the smaller variant's units.
_STEPS = 20

# Steps of the Lorenz curve.
_POINTS = 50


def catalogue_uses(analysis: Analysis) -> Iterator[CatalogueUse]:
    """Yield how each variant uses the catalogue; nothing without such a metric."""
    aggregates, reach = analysis.aggregates, analysis.aggregates.reach
    if not reach.items or not aggregates.catalogue_size:
        return
    variants = [name for name in analysis.experiment.variants if len(reach.item[reach.of(name)])]
    fewest = min(aggregates.units_of(name) for name in variants)
    for variant in variants:
        incidence = aggregates.incidence(variant)
        size, own = incidence.catalogue_size, aggregates.units_of(variant)
        units = np.bincount(incidence.item, incidence.units, size)
        impressions = np.bincount(incidence.item, incidence.impressions, size).astype(np.float64)
        places = sorted({*(-(-fewest * step // _STEPS) for step in range(1, _STEPS + 1)), own})
        shares, of_impressions = lorenz(impressions)
        yield CatalogueUse(
            variant=variant,
            items=size,
            shown=int(np.count_nonzero(impressions)),
            impressions=int(impressions.sum()),
            gini=gini(impressions, size),
            units=tuple(places),
            coverage=tuple(coverage(units[units > 0], own, at, size) for at in places),
            item_shares=tuple(shares.tolist()),
            impression_shares=tuple(of_impressions.tolist()),
        )


def lorenz(impressions: Floats) -> tuple[Floats, Floats]:
    """Return the Lorenz curve: shares of items and of impressions (Lorenz 1905).

    At most 51 points, from 0 to 1. Each is exact, at a whole number of items.

    Example:
        >>> shares, of_impressions = lorenz(np.array([6.0, 1.0, 0.0, 3.0]))
        >>> shares.tolist(), of_impressions.tolist()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.1, 0.4, 1.0])
    """
    items = len(impressions)
    places = np.unique(np.arange(_POINTS + 1) * items // _POINTS)
    below = np.concatenate([[0.0], np.cumsum(np.sort(impressions))])
    return places / items, below[places] / below[-1]
