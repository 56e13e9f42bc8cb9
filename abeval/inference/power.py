"""How much an experiment like this one can see, and how long it needs: from its own logs."""

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from abeval.aggregates.aggregates import WHOLE, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.compare import compare
from abeval.inference.comparison import scales
from abeval.inference.looks import planned_fractions
from abeval.metrics.definition import Metric
from abeval.results.power import Plan, Plans
from abeval.stats import design, duration, group_sequential, means, ratios
from abeval.stats.records import Refusal


def plan(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    mde: float | None,
    days: float | None,
    power: float,
) -> Plans:
    """Plan each metric for a relative effect, or for a number of days.

    Args:
        experiment: Its variants' weights give the split, its `[inference]` the method.
        metrics: Means and ratios; others have no plan.
        aggregates: What was measured.
        mde: Relative effect to find; the days follow from it.
        days: Length of the experiment; the effect follows from it. Without either, the effect
            that the units seen so far can find.
        power: Wanted probability of finding it.
    """
    plans = tuple(
        _plan_of(experiment, metric, aggregates, mde, days, power)
        for metric in metrics
        if metric.kind in ("mean", "ratio")
    )
    return Plans(experiment.alpha, power, experiment.inference.looks, plans)


def _plan_of(
    experiment: Experiment,
    metric: Metric,
    aggregates: Aggregates,
    mde: float | None,
    days: float | None,
    power: float,
) -> Plan:
    empty = Plan(metric.name, None, None, mde, None, None, days, None)
    try:
        baseline, sd = _spread(experiment, metric, aggregates)
        critical = _critical(experiment)
        if mde is None:
            return _reach(experiment, metric, aggregates, baseline, sd, days, power, critical)
        effect = abs(baseline) * mde
        size = design.sample_size(sd, effect, experiment.alpha, power, _ratio(experiment), critical)
        needed = _days_for(experiment, aggregates, size.control)
    except Refusal as refusal:
        return Plan(**{**asdict(empty), "reason": refusal.reason})
    return Plan(metric.name, baseline, sd, mde, size.control, size.treatment, needed, None)


def _critical(experiment: Experiment) -> float | None:
    """What z has to reach at the end; None for one look."""
    match experiment.inference.looks:
        case "fixed":
            return None
        case "always_valid":
            return design.always_valid_critical(experiment.alpha)
        case "group_sequential":
            fractions, spending = planned_fractions(experiment), experiment.inference.spending
            return group_sequential.bounds(fractions, experiment.alpha, spending).z[-1]


def _reach(
    experiment: Experiment,
    metric: Metric,
    aggregates: Aggregates,
    baseline: float,
    sd: float,
    days: float | None,
    power: float,
    critical: float | None,
) -> Plan:
    """The effect that so many days, or the units seen, can find."""
    seen = float(aggregates.units["units"].sum())
    total = seen if days is None else _units_at(_growth(aggregates), days)
    weights = _weights(experiment)
    control, treatment = total * weights[0], total * weights[1]
    found = design.mde(sd, control, treatment, experiment.alpha, power, critical)
    observed = float(len(aggregates.days)) if len(aggregates.days) else None
    took = observed if days is None else days
    return Plan(metric.name, baseline, sd, found / abs(baseline), control, treatment, took, None)


def _spread(experiment: Experiment, metric: Metric, aggregates: Aggregates) -> tuple[float, float]:
    """Control's value, and the standard deviation between its units."""
    if metric.name in aggregates.refused:
        raise Refusal("not_applicable", "the logs lack a column")
    arms = aggregates.of(metric.name, WHOLE, "", scales(metric))
    if experiment.control not in arms:
        raise Refusal("too_few_units", "control has no units")
    estimate = means.estimate if metric.kind == "mean" else ratios.estimate
    found = estimate(arms[experiment.control])
    if found.value == 0:
        raise Refusal("control_near_zero", "no relative effect of zero")
    sd = design.sd_of(found)
    adjusted = compare(experiment, metric, experiment.treatments[0], aggregates).adjusted
    return found.value, sd if adjusted is None else design.with_cuped(sd, adjusted.variance_removed)


def _weights(experiment: Experiment) -> tuple[float, float]:
    """Shares of all units in control, and in the first other variant."""
    weights = {name: variant.weight for name, variant in experiment.variants.items()}
    total = sum(weights.values())
    return weights[experiment.control] / total, weights[experiment.treatments[0]] / total


def _ratio(experiment: Experiment) -> float:
    control, treatment = _weights(experiment)
    return treatment / control


def _growth(aggregates: Aggregates) -> list[float]:
    """Distinct units up to and with each day."""
    if not len(aggregates.days):
        raise Refusal("not_applicable", "the log has no time, so traffic per day is unknown")
    return [float(n) for n in np.cumsum(aggregates.days["new_units"])]


def _days_for(experiment: Experiment, aggregates: Aggregates, control: float) -> float | None:
    if not len(aggregates.days):
        return None
    return duration.days_for_units(_growth(aggregates), control / _weights(experiment)[0])


def _units_at(growth: Sequence[float], days: float) -> float:
    """Distinct units after so many days, by the growth that `days_for_units` goes by."""
    if days <= len(growth):
        return growth[max(math.ceil(days), 1) - 1]
    low, high = growth[-1], growth[-1] * 2
    while duration.days_for_units(growth, high) < days:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        below = duration.days_for_units(growth, middle) < days
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2
