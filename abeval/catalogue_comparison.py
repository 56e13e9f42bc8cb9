"""Coverage, Gini and entropy of two variants, at equal numbers of units."""

from typing import cast

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
    arms = [aggregates.incidence(name) for name in (control, variant)]
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
