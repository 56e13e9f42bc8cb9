"""Goals × variants as one family of tests, and the guardrails of each variant as another.

It gets all comparisons of the analysis: `scorecard.py` shows the p-values, `judge.py` puts the
intervals into the result.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import MIN_UNITS, Arms, Comparison, Comparisons, Key
from abeval.metrics.definition import Direction, Margin, Metric
from abeval.results import FamilyInterval, Status
from abeval.stats import decisions, multiplicity

HELD: frozenset[Status] = frozenset({"better", "non_inferior", "equivalent"})
"""Statuses of a guardrail that holds: equivalence within a margin implies non-inferiority."""


def goodness(direction: Direction, comparison: Comparison) -> float | None:
    """How much better the variant is, in the metric's unit; negative is worse.

    Of a metric with a target it is how much nearer to it the variant is.
    """
    if comparison.effect is None:
        return None
    if direction.toward is None:
        return direction.sign * comparison.effect.difference
    return None if comparison.gain is None else comparison.gain.value


def goodness_p_value(direction: Direction, comparison: Comparison) -> float | None:
    """Two-sided p-value of `goodness`: the effect's own, or that of the gain toward a target."""
    if direction.toward is None or comparison.effect is None:
        return None if comparison.effect is None else comparison.effect.p_value
    return None if comparison.gain is None else comparison.gain.p_value


def goodness_interval(direction: Direction, comparison: Comparison) -> tuple[float, float] | None:
    """The interval that has to exclude zero: of the difference, or of the gain toward a target."""
    judged = comparison.effect if direction.toward is None else comparison.gain
    return None if judged is None else (judged.low, judged.high)


def status_of(
    metric: Metric, comparison: Comparison, p_value: float | None, alpha: float
) -> Status:
    """The status of a scorecard row, before trust checks overrule it.

    Args:
        metric: Its direction, role and margin.
        comparison: The effect.
        p_value: Of a goal or a guardrail, the p-value after the correction for multiple tests; else
            that of `goodness`.
        alpha: The level of the experiment.
    """
    gain = goodness(metric.direction, comparison)
    ends = goodness_interval(metric.direction, comparison)
    few = min(comparison.units_control, comparison.units) < MIN_UNITS
    if few or p_value is None or gain is None or ends is None:
        return "too_little_data"
    proven = decisions.conclusive(p_value, ends, alpha)
    if proven and gain > 0:
        return "better"
    if metric.role == "guardrail":
        return _guardrail(metric, comparison, proven, gain)
    if proven and gain < 0:
        return "worse"
    interval = _gain_interval(metric, comparison)
    if metric.margin is not None and interval is not None:
        return "equivalent" if decisions.equivalent(interval, metric.margin.size) else "unclear"
    return "unclear"


def _guardrail(metric: Metric, comparison: Comparison, proven: bool, gain: float) -> Status:
    """A guardrail holds only if the harmful end of its interval lies inside the margin.

    A proven gain is inside any margin: it does not come here.
    """
    if _holds(metric, comparison):
        return "non_inferior"
    return "worse" if proven and gain < 0 else "unclear"


def _holds(metric: Metric, comparison: Comparison) -> bool:
    if metric.margin is None:
        return False
    interval = _gain_interval(metric, comparison)
    if interval is not None:
        return decisions.not_worse(interval, metric.margin.size)
    return _holds_without_lift(metric, metric.margin, comparison)


def _holds_without_lift(metric: Metric, margin: Margin, comparison: Comparison) -> bool:
    """A share of control as margin, where control is so near zero that the lift has no interval."""
    effect, spread = comparison.effect, comparison.spread
    if effect is None or spread is None or metric.direction.toward is not None:
        return False
    if effect.control == 0:
        return False
    return decisions.not_worse_relative(
        effect, spread.control, spread.covariance, margin.size, _way(metric.direction)
    )


def _gain_interval(metric: Metric, comparison: Comparison) -> decisions.Gain | None:
    """How much better the variant is at worst and at best, on the margin's scale."""
    if metric.direction.toward is not None:
        return None if comparison.gain is None else comparison.gain.within
    interval = _interval(metric.margin, comparison)
    if interval is None:
        return None
    return decisions.gain(interval, _way(metric.direction))


def _way(direction: Direction) -> decisions.Direction:
    return "increase" if direction.sign == 1 else "decrease"


def _interval(margin: Margin | None, comparison: Comparison) -> tuple[float, float] | None:
    if margin is None or comparison.effect is None:
        return None
    if not margin.relative:
        return comparison.effect.low, comparison.effect.high
    lift = comparison.lift
    return (lift.low, lift.high) if lift is not None and lift.bounded else None


def family_of(metrics: Sequence[Metric], comparisons: Comparisons) -> dict[Key, float]:
    """The p-value of every goal in every variant that has one."""
    by_name = {metric.name: metric for metric in metrics}
    return {
        key: p_value
        for key, comparison in comparisons.items()
        if by_name[key[0]].role == "goal"
        and (p_value := goodness_p_value(by_name[key[0]].direction, comparison)) is not None
    }


def adjusted(
    experiment: Experiment, metrics: Sequence[Metric], comparisons: Comparisons
) -> dict[Key, float]:
    """P-values adjusted over goals × variants."""
    family = family_of(metrics, comparisons)
    method = experiment.inference.family
    if not family or method == "none":
        return family
    p_values = list(family.values())
    match method:
        case "dunnett":
            return _dunnett(family, comparisons)
        case "weighted":
            changed = multiplicity.weighted(p_values, _weights(experiment, family))
        case _:
            changed = multiplicity.adjust(p_values, method)
    return dict(zip(family, (float(p) for p in changed), strict=True))


def guardrails_adjusted(
    experiment: Experiment, metrics: Sequence[Metric], comparisons: Comparisons
) -> dict[Key, float]:
    """P-values of guardrails, Holm over those of one variant: each could stop it by chance.

    They decide whether a guardrail is worse. Whether it holds needs no correction, because all
    of them must (Schultzberg et al. 2024, arXiv:2402.11609).
    """
    adjusted: dict[Key, float] = {}
    for variant in experiment.treatments:
        own = {
            (metric.name, variant): p_value
            for metric in metrics
            if metric.role == "guardrail"
            and (p_value := goodness_p_value(metric.direction, comparisons[metric.name, variant]))
            is not None
        }
        p_values = list(own.values())
        if own and experiment.inference.family != "none":
            p_values = multiplicity.adjust(p_values, "holm").tolist()
        adjusted |= dict(zip(own, p_values, strict=True))
    return adjusted


def _weights(experiment: Experiment, family: Mapping[Key, float]) -> list[float]:
    weights = {choice.name: choice.weight for choice in experiment.metrics}
    return [weights.get(metric) or 1.0 for metric, _ in family]


def _dunnett(family: Mapping[Key, float], comparisons: Comparisons) -> dict[Key, float]:
    """Dunnett over the variants of each goal, Bonferroni over the goals."""
    goals = list(dict.fromkeys(metric for metric, _ in family))
    changed: dict[Key, float] = {}
    for goal in goals:
        keys = [key for key in family if key[0] == goal]
        p_values = multiplicity.p_values(
            [family[key] for key in keys], _loadings(keys, comparisons), _df(keys, comparisons)
        )
        changed |= {k: min(1.0, len(goals) * p) for k, p in zip(keys, p_values, strict=True)}
    return {key: changed[key] for key in family}


def _loadings(keys: Sequence[Key], comparisons: Comparisons) -> list[float]:
    """Correlation of each difference with control's value, which all of them share."""
    loadings = []
    for comparison in (comparisons[key] for key in keys):
        effect, spread = comparison.effect, comparison.spread
        if effect is None or spread is None or spread.covariance != -spread.control:
            share = comparison.units / (comparison.units + comparison.units_control)
        else:
            share = spread.control / effect.se**2
        loadings.append(math.sqrt(share))
    return loadings


def _df(keys: Sequence[Key], comparisons: Comparisons) -> float:
    return min(effect.df for key in keys if (effect := comparisons[key].effect) is not None)


def family_intervals(analysis: Analysis) -> tuple[FamilyInterval, ...]:
    """Intervals of goals that agree with the adjusted p-values (`multiplicity.interval_levels`).

    Dunnett's hold together. There are none of repeated looks, nor of goals whose p-value is not of
    the difference, because their target lies between both values.
    """
    experiment, comparisons = analysis.experiment, analysis.comparisons
    family = family_of(analysis.metrics, comparisons)
    if not family or experiment.inference.looks != "fixed":
        return ()
    return tuple(
        _family_interval(analysis, key, level)
        for key, level in _levels(experiment, family, comparisons).items()
        if (gain := comparisons[key].gain) is None or not gain.across
    )


def _family_interval(analysis: Analysis, key: Key, level: float) -> FamilyInterval:
    """The comparison again, at an error rate of its own."""
    experiment = analysis.experiment.model_copy(update={"alpha": level})
    metric = next(metric for metric in analysis.metrics if metric.name == key[0])
    arms = Arms(experiment.control, key[1])
    numbers = compare(replace(analysis, experiment=experiment), metric, arms).numbers
    ends = analysis.comparisons[key].interval(level)
    return FamilyInterval(*key, 1 - level, *ends, numbers.lift_low, numbers.lift_high)


def _levels(
    experiment: Experiment, family: Mapping[Key, float], comparisons: Comparisons
) -> dict[Key, float]:
    """The error rate of each interval."""
    alpha, method = experiment.alpha, experiment.inference.family
    if method == "none":
        return {}
    if method == "dunnett":
        goals = list(dict.fromkeys(metric for metric, _ in family))
        return {
            key: level
            for goal in goals
            for key, level in _dunnett_levels(goal, family, comparisons, alpha / len(goals)).items()
        }
    weights = _weights(experiment, family) if method == "weighted" else None
    levels = multiplicity.interval_levels(list(family.values()), method, alpha, weights)
    return {key: level for key, level in zip(family, levels, strict=True) if level is not None}


def _dunnett_levels(
    goal: str, family: Mapping[Key, float], comparisons: Comparisons, alpha: float
) -> dict[Key, float]:
    keys = [key for key in family if key[0] == goal]
    level = multiplicity.level(alpha, _loadings(keys, comparisons), _df(keys, comparisons))
    return dict.fromkeys(keys, level)
