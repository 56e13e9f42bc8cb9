"""How each variant uses the catalogue: coverage by traffic, and the Lorenz curve of exposure.

From `Aggregates.reach`; `judge.py` puts it into the result. `stats/catalogue.py` tests the
differences.
"""

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.inference.compare import Analysis
from abeval.results.effects import CatalogueUse
from abeval.stats.exposure import coverage, gini
from abeval.stats.records import Floats

_STEPS = 20
"""Numbers of units at which coverage is given, from a twentieth of the smaller variant on."""

_POINTS = 50
"""Steps of the Lorenz curve."""


def catalogue_uses(analysis: Analysis) -> tuple[CatalogueUse, ...]:
    """How each variant uses the catalogue; none without a catalogue metric."""
    aggregates = analysis.aggregates
    reach = aggregates.reach
    if not reach.items or not aggregates.catalogue_size:
        return ()
    variants = [name for name in analysis.experiment.variants if len(reach.item[reach.of(name)])]
    fewest = min(aggregates.units_of(name) for name in variants)
    return tuple(_use(aggregates, name, fewest) for name in variants)


def _use(aggregates: Aggregates, variant: str, fewest: int) -> CatalogueUse:
    incidence = aggregates.incidence(variant)
    size, own = incidence.catalogue_size, aggregates.units_of(variant)
    units = np.bincount(incidence.item, incidence.units, size)
    impressions = np.bincount(incidence.item, incidence.impressions, size).astype(np.float64)
    places = sorted({*(-(-fewest * step // _STEPS) for step in range(1, _STEPS + 1)), own})
    shares, of_impressions = lorenz(impressions)
    return CatalogueUse(
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
    """Shares of items, least shown first, and their share of the impressions (Lorenz 1905).

    Args:
        impressions: Of each item of the catalogue, shape (items,).

    Returns:
        At most 51 points of each, from 0 to 1; each is exact, at a whole number of items.

    Example:
        >>> shares, of_impressions = lorenz(np.array([6.0, 1.0, 0.0, 3.0]))
        >>> shares.tolist(), of_impressions.tolist()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.1, 0.4, 1.0])
    """
    items = len(impressions)
    places = np.unique(np.arange(_POINTS + 1) * items // _POINTS)
    below = np.concatenate([[0.0], np.cumsum(np.sort(impressions))])
    return places / items, below[places] / below[-1]
