"""Goals × variants as one family of tests, and the guardrails of each variant as another.

It gets all comparisons of the analysis: `scorecard.py` shows the p-values, `judge.py` puts the
intervals into the result.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms, Comparisons, Key
from abeval.inference.families import goodness_p_value
from abeval.metrics.definition import Metric
from abeval.results import FamilyInterval
from abeval.stats import multiplicity, split_moments


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
        p_values = split_moments.p_values(
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
        _interval(analysis, key, level)
        for key, level in _levels(experiment, family, comparisons).items()
        if (gain := comparisons[key].gain) is None or not gain.across
    )


def _interval(analysis: Analysis, key: Key, level: float) -> FamilyInterval:
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
