"""Show distributions behind the numbers: values, unit AUCs, catalogue use."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import cast

import numpy as np

from abeval.aggregates.wanted import COMPARED, CURVE, set_level, spread_metrics, spread_title
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms
from abeval.metrics.definition import Metric, list_scales
from abeval.results import effects
from abeval.results.effects import AucBin, CatalogueUse, Distribution, QuantileEffect, UnitAucs
from abeval.stats.item_exposure import coverage, gini
from abeval.stats.records import Floats

_BINS = 20
_JUDGED = "judged"


def build_distributions(analysis: Analysis) -> Iterator[Distribution]:
    """Yield the distribution of each value in each variant that has it."""
    quantiles = analysis.aggregates.quantiles
    for spread, variant in product(_find_collected_spreads(analysis), analysis.experiment.variants):
        curve = [quantiles[set_level(spread, level).name].get(variant) for level in CURVE]
        points = [point for point in curve if point is not None]
        if points:
            values = tuple(point.value * list_scales(spread)[0] for point in points)
            name = spread_title(spread)
            yield Distribution(name, spread.unit, variant, points[0].events, CURVE, values)


def compare_value_quantiles(analysis: Analysis) -> Iterator[QuantileEffect]:
    """Compare the quantiles of each value with control's, as quantile metrics are."""
    experiment = analysis.experiment
    for spread, variant, level in product(
        _find_collected_spreads(analysis), experiment.treatments, COMPARED
    ):
        arms = Arms(experiment.control, variant)
        comparison = compare(analysis, set_level(spread, level), arms)
        yield QuantileEffect(
            **comparison.values,
            value=spread_title(spread),
            variant=variant,
            level=level,
            reason=comparison.reason,
        )


def _find_collected_spreads(analysis: Analysis) -> Iterator[Metric]:
    """Yield the values whose quantiles were collected."""
    for spread in spread_metrics(analysis.metrics):
        if analysis.aggregates.quantiles.get(set_level(spread, COMPARED[0]).name):
            yield spread


def count_units_by_auc(analysis: Analysis) -> Iterator[UnitAucs]:
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
            yield UnitAucs(variant, units, impressions, _merge_small_bins(bins, least), without)


def _merge_small_bins(bins: Sequence[AucBin], least: int) -> tuple[AucBin, ...]:
    """Merge bins with fewer than `least` units into their neighbours.

    Example:
        >>> [b.units for b in _merge_small_bins([AucBin(0, 0.1, 2, 9), AucBin(0.1, 0.2, 9, 9)], 5)]
        [11]
    """
    merged: list[AucBin] = []
    for auc_bin in bins:
        if merged and merged[-1].units < least:
            merged[-1] = _merge_bins(merged[-1], auc_bin)
        else:
            merged.append(auc_bin)
    if len(merged) > 1 and merged[-1].units < least:
        merged[-2:] = [_merge_bins(*merged[-2:])]
    return tuple(merged)


def _merge_bins(first: AucBin, second: AucBin) -> AucBin:
    units, impressions = first.units + second.units, first.impressions + second.impressions
    return AucBin(first.low, second.high, units, impressions)


# Points of the coverage curve, up to the smaller variant's units.
_STEPS = 20

# Steps of the Lorenz curve.
_POINTS = 50


def measure_catalogue_use(analysis: Analysis) -> Iterator[CatalogueUse]:
    """Yield how each variant uses the catalogue; nothing without such a metric."""
    aggregates, reach = analysis.aggregates, analysis.aggregates.reach
    if not reach.items or not aggregates.catalogue_size:
        return
    variants = [
        name for name in analysis.experiment.variants if len(reach.item[reach.find_entries(name)])
    ]
    fewest = min(aggregates.count_units(name) for name in variants)
    for variant in variants:
        incidence = aggregates.incidence(variant)
        size, variant_units = incidence.catalogue_size, aggregates.count_units(variant)
        units = np.bincount(incidence.item, incidence.units, size)
        impressions = np.bincount(incidence.item, incidence.impressions, size).astype(np.float64)
        unit_counts = sorted(
            {*(-(-fewest * step // _STEPS) for step in range(1, _STEPS + 1)), variant_units}
        )
        shares, of_impressions = compute_lorenz_curve(impressions)
        yield CatalogueUse(
            variant=variant,
            items=size,
            shown=int(np.count_nonzero(impressions)),
            impressions=int(impressions.sum()),
            gini=gini(impressions, size),
            units=tuple(unit_counts),
            coverage=tuple(
                coverage(units[units > 0], variant_units, at, size) for at in unit_counts
            ),
            item_shares=tuple(shares.tolist()),
            impression_shares=tuple(of_impressions.tolist()),
        )


def compute_lorenz_curve(impressions: Floats) -> tuple[Floats, Floats]:
    """Return the Lorenz curve: shares of items and of impressions (Lorenz 1905).

    At most 51 points, from 0 to 1. Each is exact, at a whole number of items.

    Example:
        >>> shares, of_impressions = compute_lorenz_curve(np.array([6.0, 1.0, 0.0, 3.0]))
        >>> shares.tolist(), of_impressions.tolist()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.1, 0.4, 1.0])
    """
    items = len(impressions)
    indices = np.unique(np.arange(_POINTS + 1) * items // _POINTS)
    below = np.concatenate([[0.0], np.cumsum(np.sort(impressions))])
    return indices / items, below[indices] / below[-1]
