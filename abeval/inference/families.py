"""Correct p-values within families of tests, and give each row its status.

This module alone decides whether an effect is good or bad.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms, Comparison, Comparisons, Key
from abeval.inference.looks import adjust_to_same_look
from abeval.metrics.definition import Margin, Metric, Role
from abeval.results.effects import FamilyInterval, Status
from abeval.stats import decisions, effects, multiplicity
from abeval.stats.records import Interval, Refusal

HELD: frozenset[Status] = frozenset({"better", "non_inferior", "equivalent"})
"""Statuses of a guardrail that holds: equivalence implies non-inferiority."""


class InRange(NamedTuple):
    """A variant's value with its interval at this look, against its bounds.

    The two-sided p-value tests that the value is no farther out than its nearer bound; it is 1
    inside. The range holds if both one-sided tests reject a value out of bounds.
    """

    value: float
    interval: Interval
    p_value: float
    holds: bool


def check_range(metric: Metric, comparison: Comparison, alpha: float) -> InRange | None:
    """Test whether a variant's value lies within its bounds (TOST).

    Both one-sided tests at alpha / 2 reject if the interval at 1 − alpha lies within the bounds
    (Schuirmann 1987). None without bounds, or if no large-sample test decides the row.
    """
    estimate, effect = comparison.treatment_estimate, comparison.effect
    if metric.within is None or estimate is None or effect is None:
        return None
    low, high = metric.within
    bound = low if estimate.value < (low + high) / 2 else high
    # The value rests on the variant's units alone: take the smaller df.
    df = min(effect.df, estimate.units - 1)
    try:
        fixed = effects.effect_from_difference(
            bound, estimate.value, estimate.value - bound, math.sqrt(estimate.variance), df, alpha
        )
    except Refusal:
        return None
    beyond = adjust_to_same_look(fixed, comparison.boundary, alpha)
    interval = Interval(bound + beyond.low, bound + beyond.high)
    is_inside = low <= estimate.value <= high
    holds = low < interval.low and interval.high < high
    return InRange(estimate.value, interval, 1.0 if is_inside else beyond.p_value, holds)


def find_uncorrected_p_value(metric: Metric, comparison: Comparison, alpha: float) -> float | None:
    """Return the p-value of a row before correction; None without a test."""
    if metric.within is not None:
        value = check_range(metric, comparison, alpha)
        return value and value.p_value
    return comparison.effect and comparison.effect.p_value


def decide_status(
    metric: Metric, comparison: Comparison, p_value: float | None, alpha: float
) -> Status:
    """Return the status of a scorecard row, before trust checks."""
    effect = comparison.effect
    if comparison.is_small or p_value is None or effect is None:
        return "too_little_data"
    if metric.within is not None:
        value = check_range(metric, comparison, alpha)
        if value is not None and value.holds:
            return "non_inferior"
        return "worse" if p_value <= alpha else "unclear"
    # Neither direction is better, so that the row cannot be judged.
    if metric.has_target:
        return "unclear"
    gain = metric.direction.sign * effect.difference
    proven = decisions.conclusive(p_value, (effect.low, effect.high), alpha)
    if proven and gain > 0:
        return "better"
    margin, interval = metric.margin, _gain_interval(metric, comparison)
    if metric.role == "guardrail" and margin is not None:
        if interval is not None:
            holds = decisions.not_worse(interval, margin.size)
        else:
            holds = _holds_near_zero(metric, margin, comparison)
        if holds:
            return "non_inferior"
    if proven and gain < 0:
        return "worse"
    if metric.role == "guardrail" or margin is None or interval is None:
        return "unclear"
    return "equivalent" if decisions.equivalent(interval, margin.size) else "unclear"


def _holds_near_zero(metric: Metric, margin: Margin, comparison: Comparison) -> bool:
    """Tell whether a relative margin holds when control is too near zero for a lift."""
    effect, spread = comparison.effect, comparison.spread
    if effect is None or spread is None or effect.control == 0:
        return False
    return decisions.not_worse_relative(
        effect, spread.control, spread.covariance, margin.size, _gain_direction(metric)
    )


def _gain_interval(metric: Metric, comparison: Comparison) -> decisions.Gain | None:
    """Return the least and greatest gain, on the scale of the margin."""
    effect, lift, margin = comparison.effect, comparison.lift, metric.margin
    if margin is None or effect is None:
        return None
    if not margin.relative:
        return decisions.gain((effect.low, effect.high), _gain_direction(metric))
    if lift is None or not lift.bounded:
        return None
    return decisions.gain((lift.low, lift.high), _gain_direction(metric))


def _gain_direction(metric: Metric) -> decisions.Direction:
    """Return which way a gain goes, for a metric without a target value."""
    return "increase" if metric.direction.sign == 1 else "decrease"


def adjust_goal_p_values(
    experiment: Experiment, metrics: Sequence[Metric], comparisons: Comparisons
) -> dict[Key, float]:
    """Adjust the p-values of goals over goals × variants."""
    family = _collect_uncorrected_p_values(experiment, metrics, comparisons, "goal")
    method = experiment.inference.family
    if not family or method == "none":
        return family
    p_values, changed = list(family.values()), list[float]()
    names = [name for name, _ in family]
    match method:
        case "dunnett":
            # Over the variants of each goal; Bonferroni over the goals.
            goals = _group_by_goal(family)
            for keys in goals:
                uncorrected = [family[key] for key in keys]
                changed += multiplicity.dunnett_p_values(
                    uncorrected, *_compute_dunnett_loadings(keys, comparisons)
                ).tolist()
            changed = [min(1.0, len(goals) * p) for p in changed]
        case "weighted":
            changed = multiplicity.adjust_weighted(
                p_values, list_goal_weights(experiment, names)
            ).tolist()
        case _:
            changed = multiplicity.adjust(p_values, method).tolist()
    return dict(zip(family, changed, strict=True))


def adjust_guardrail_p_values(
    experiment: Experiment, metrics: Sequence[Metric], comparisons: Comparisons
) -> dict[Key, float]:
    """Adjust the p-values of a variant's guardrails by Holm."""
    p_values = _collect_uncorrected_p_values(experiment, metrics, comparisons, "guardrail")
    if experiment.inference.family == "none":
        return p_values
    for variant in experiment.treatments:
        keys = [key for key in p_values if key[1] == variant]
        adjusted = multiplicity.adjust([p_values[key] for key in keys], "holm")
        p_values |= dict(zip(keys, adjusted.tolist(), strict=True))
    return p_values


def _collect_uncorrected_p_values(
    experiment: Experiment, metrics: Sequence[Metric], comparisons: Comparisons, role: Role
) -> dict[Key, float]:
    """Map (metric, variant) to its uncorrected p-value, for metrics of one role.

    Rows without a test are left out.
    """
    p_values = {
        (metric.name, variant): find_uncorrected_p_value(
            metric, comparisons[metric.name, variant], experiment.alpha
        )
        for metric in metrics
        for variant in experiment.treatments
        if metric.role == role
    }
    return {key: p_value for key, p_value in p_values.items() if p_value is not None}


def list_goal_weights(experiment: Experiment, names: Iterable[str]) -> list[float]:
    """Return the weight of each goal in a weighted family."""
    stated = {choice.name: choice.weight for choice in experiment.metrics}
    return [stated.get(name) or 1.0 for name in names]


def _group_by_goal(family: Mapping[Key, float]) -> list[list[Key]]:
    return [list(keys) for _, keys in groupby(family, key=itemgetter(0))]


def _compute_dunnett_loadings(
    keys: Sequence[Key], comparisons: Comparisons
) -> tuple[list[float], float]:
    """Return the correlation of each difference with control, and the least df."""
    loadings, dfs = [], []
    for comparison in (comparisons[key] for key in keys):
        effect, spread = comparison.effect, comparison.spread
        if effect is None or spread is None or spread.covariance != -spread.control:
            # Without variances, by the numbers of units.
            share = comparison.units / (comparison.units + comparison.units_control)
        else:
            share = spread.control / effect.se**2
        loadings.append(math.sqrt(share))
        dfs += [] if effect is None else [effect.df]
    return loadings, min(dfs)


def estimate_family_intervals(
    analysis: Analysis, comparisons: Comparisons
) -> Iterator[FamilyInterval]:
    """Yield intervals of goals that agree with the adjusted p-values.

    There are none with repeated looks.
    """
    experiment = analysis.experiment
    family = _collect_uncorrected_p_values(experiment, analysis.metrics, comparisons, "goal")
    if not family or experiment.inference.looks != "fixed":
        return
    by_name = {metric.name: metric for metric in analysis.metrics}
    for (name, variant), level in _compute_interval_levels(experiment, family, comparisons).items():
        # The lift again, at an error rate of its own.
        at_level = replace(analysis, experiment=experiment.model_copy(update={"alpha": level}))
        arms = Arms(experiment.control, variant)
        lift = compare(at_level, by_name[name], arms).numbers
        ends = comparisons[name, variant].interval(level)
        yield FamilyInterval(name, variant, 1 - level, *ends, lift.lift_low, lift.lift_high)


def _compute_interval_levels(
    experiment: Experiment, family: Mapping[Key, float], comparisons: Comparisons
) -> dict[Key, float]:
    """Return the error rate of each goal's interval."""
    alpha, method = experiment.alpha, experiment.inference.family
    if method == "none":
        return {}
    if method == "dunnett":
        goals = _group_by_goal(family)
        levels: list[float | None] = []
        for keys in goals:
            shared = _compute_dunnett_loadings(keys, comparisons)
            levels += [multiplicity.dunnett_level(alpha / len(goals), *shared)] * len(keys)
    else:
        shares = list_goal_weights(experiment, [name for name, _ in family])
        levels = multiplicity.interval_levels(list(family.values()), method, alpha, shares)
    return {key: level for key, level in zip(family, levels, strict=True) if level is not None}
