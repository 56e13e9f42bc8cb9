"""How much an experiment like this one can see, and how long it needs: from its own logs.

`api.py` calls it on collected aggregates, for `abeval power`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms
from abeval.inference.looks import planned_fractions
from abeval.inference.means_and_ratios import estimate
from abeval.inference.stretches import population
from abeval.logs.stretches import planned_splits
from abeval.metrics.definition import Metric
from abeval.results.power import Plan, Plans
from abeval.stats import design, duration, group_sequential
from abeval.stats.records import Refusal


class Target(NamedTuple):
    """The relative effect to find, or the days to run (at most one of them), and the power."""

    mde: float | None
    days: float | None
    power: float


class Baseline(NamedTuple):
    """Control's value of a metric, and the standard deviation between its units."""

    value: float
    sd: float


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
        aggregates: What the logs add up to.
        mde: Relative effect to find; the days follow from it.
        days: Length of the experiment; the effect follows from it. Without either, the effect
            that the units seen so far can find.
        power: Wanted probability of finding it.
    """
    analysis, target = Analysis(experiment, metrics, aggregates), Target(mde, days, power)
    plans = tuple(_plan(analysis, metric, target) for metric in metrics if metric.is_mean_or_ratio)
    return Plans(experiment.alpha, power, experiment.inference.looks, plans)


def _plan(analysis: Analysis, metric: Metric, target: Target) -> Plan:
    try:
        baseline = _baseline(analysis, metric)
        if target.mde is None:
            return _plan_for_days(analysis, metric, baseline, target)
        return _plan_for_effect(analysis, metric, baseline, target)
    except Refusal as refusal:
        return Plan(metric.name, None, None, target.mde, None, None, target.days, refusal.reason)


def _baseline(analysis: Analysis, metric: Metric) -> Baseline:
    """Control's value and spread, the spread after CUPED if the experiment uses it."""
    if metric.name in analysis.aggregates.refused:
        raise Refusal("not_applicable", "the logs lack a column")
    arms = Arms(analysis.experiment.control, analysis.experiment.treatments[0])
    units = population(analysis.moments(metric), arms)
    if units is None:
        raise Refusal("too_few_units", "control has no units")
    control = estimate(metric, units)
    if control.value == 0:
        raise Refusal("control_near_zero", "the control is zero: a relative effect has no meaning")
    sd = design.sd_of(control)
    adjusted = compare(analysis, metric, arms).adjusted
    if adjusted is not None:
        sd = design.with_cuped(sd, adjusted.variance_removed)
    return Baseline(control.value, sd)


def _critical(experiment: Experiment) -> float | None:
    """The critical z at the end; None for one look."""
    match experiment.inference.looks:
        case "fixed":
            return None
        case "always_valid":
            return design.always_valid_critical(experiment.alpha)
        case "group_sequential":
            fractions, spending = planned_fractions(experiment), experiment.inference.spending
            return group_sequential.bounds(fractions, experiment.alpha, spending).z[-1]


def _plan_for_effect(
    analysis: Analysis, metric: Metric, baseline: Baseline, target: Target
) -> Plan:
    """The units and days needed to find the effect."""
    experiment, days = analysis.experiment, analysis.aggregates.days
    control_share, treatment_share = _shares(experiment)
    mde = target.mde or 0.0
    size = design.sample_size(
        baseline.sd,
        abs(baseline.value) * mde,
        experiment.alpha,
        target.power,
        treatment_share / control_share,
        _critical(experiment),
    )
    needed = None
    if len(days):
        needed = duration.days_for_units(_growth(analysis.aggregates), size.control / control_share)
    return Plan(metric.name, *baseline, mde, size.control, size.treatment, needed, None)


def _plan_for_days(analysis: Analysis, metric: Metric, baseline: Baseline, target: Target) -> Plan:
    """The smallest effect that the target's days, or the units seen so far, can find."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    units = float(aggregates.units["units"].sum())
    days = float(len(aggregates.days)) or None
    if target.days is not None:
        units, days = _units_at(_growth(aggregates), target.days), target.days
    control, treatment = (units * share for share in _shares(experiment))
    effect = design.mde(
        baseline.sd, control, treatment, experiment.alpha, target.power, _critical(experiment)
    )
    mde = effect / abs(baseline.value)
    return Plan(metric.name, *baseline, mde, control, treatment, days, None)


def _shares(experiment: Experiment) -> tuple[float, float]:
    """Shares of all units in control, and in the first other variant, by the latest split."""
    weights = planned_splits(experiment)[-1].weights
    total = sum(weights.values())
    return weights[experiment.control] / total, weights[experiment.treatments[0]] / total


def _growth(aggregates: Aggregates) -> list[float]:
    """Distinct units up to and including each day."""
    if not len(aggregates.days):
        raise Refusal("not_applicable", "the log has no timestamps, so traffic per day is unknown")
    return [float(n) for n in np.cumsum(aggregates.days["new_units"])]


def _units_at(growth: Sequence[float], days: float) -> float:
    """Distinct units after so many days, where `days_for_units` takes that long to reach them."""
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
