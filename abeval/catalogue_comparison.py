"""Coverage, Gini and entropy of two variants, at equal numbers of units."""

from typing import cast

import numpy as np
import pandas as pd

from abeval.aggregates import Aggregates
from abeval.comparison import Comparison, Rule, limit, reason_of, refused
from abeval.metrics import Metric
from abeval.stats import catalogue
from abeval.stats.equal_traffic import Functional
from abeval.stats.records import Refusal


def compare_catalogue(
    metric: Metric,
    aggregates: Aggregates,
    control: str,
    variant: str,
    rule: Rule,
    permutations: int = 1000,
) -> Comparison:
    """Compare two variants' coverage, Gini or entropy at equal numbers of units.

    Without permutations the p-value is that of the jackknife interval, many times sooner.
    """
    arms = [incidence(aggregates, name) for name in (control, variant)]
    units_control, units = (int(arm.units_in_group.sum()) for arm in arms)
    functional = cast(Functional, metric.name)
    try:
        found = catalogue.compare(arms[0], arms[1], functional, rule.alpha, permutations)
    except Refusal as refusal:
        return refused(units_control, units, reason_of(refusal))
    effect = found.effect
    return Comparison(
        units_control=units_control,
        units=units,
        control=effect.control,
        treatment=effect.treatment,
        effect=effect,
        lift=found.lift,
        reason=limit(found.lift),
    )


def incidence(aggregates: Aggregates, variant: str) -> catalogue.Incidence:
    """Who was shown what in one variant, with items and groups numbered alike in all variants."""
    reach, units = aggregates.reach, aggregates.group_units
    items = pd.Index(np.sort(reach["item_id"].unique()))
    groups = pd.Index(np.sort(units["item_group"].unique()))
    shown = reach[reach["variant"] == variant]
    present = units[units["variant"] == variant]
    in_group = np.zeros(len(groups), dtype=np.int64)
    in_group[groups.get_indexer(present["item_group"])] = present["units"].to_numpy()
    return catalogue.Incidence(
        item=items.get_indexer(shown["item_id"]).astype(np.int64),
        group=groups.get_indexer(shown["item_group"]).astype(np.int64),
        units=shown["units"].to_numpy(dtype=np.int64),
        impressions=shown["impressions"].to_numpy(dtype=np.int64),
        units_in_group=in_group,
        catalogue_size=aggregates.catalogue_size or len(items),
    )
