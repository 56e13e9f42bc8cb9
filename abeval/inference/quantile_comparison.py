"""Quantiles over impressions: two variants' order statistics, clustered by unit."""

from dataclasses import replace

from abeval.aggregates.aggregates import QUANTILE, Aggregates, Quantile
from abeval.inference.comparison import (
    Comparison,
    Rule,
    reason_of,
    refused,
    scales,
    with_difference,
)
from abeval.metrics.definition import Metric
from abeval.stats import quantiles
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Refusal


def compare_quantiles(
    metric: Metric, aggregates: Aggregates, control: str, variant: str, rule: Rule
) -> Comparison:
    """Compare two variants' quantiles over impressions, clustered by unit."""
    arms = aggregates.of(metric.name, QUANTILE, "", (1.0, 1.0))
    found = aggregates.quantiles.get(metric.name, {})
    units_control, units = (aggregates.units_of(name) for name in (control, variant))
    if 0 in (units_control, units):
        return refused(units_control, units, "no_units")
    if control not in found or variant not in found:
        return refused(units_control, units, "empty_denominator")
    scale = scales(metric)[0]
    values = [found[name].value * scale for name in (control, variant)]
    bare = Comparison(units_control, units, values[0], values[1], None, None, None)
    if any(q.low is not None and q.low == q.high for q in (found[control], found[variant])):
        return replace(bare, reason="tied_quantile")
    try:
        estimates = [_clustered(metric, found[name], arms[name]) for name in (control, variant)]
        return with_difference(bare, estimates[0], estimates[1], "quantile_t", rule)
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))


def _clustered(metric: Metric, found: Quantile, counts: Moments) -> Estimate:
    """A quantile with the variance of its units, in the metric's own unit."""
    if found.low is None or found.high is None or metric.level is None:
        raise Refusal("too_few_units", f"{found.events} impressions are too few")
    step = scales(metric)[0]
    ends = (found.value * step, found.low * step, found.high * step)
    independent = quantiles.from_order_statistics(*ends, found.events)
    return quantiles.inflate(independent, counts, metric.level)
