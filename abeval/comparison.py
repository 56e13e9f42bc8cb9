"""One metric in one variant against control: aggregates in, an effect or a reason out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
import pandas as pd

from abeval.aggregates import QUANTILE, Aggregates, Quantile
from abeval.metrics import Metric, Term
from abeval.stats import catalogue, cuped, effects, means, quantiles, ratios, relative, sequential
from abeval.stats.distributions import tail
from abeval.stats.equal_traffic import Functional
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Lift, Refusal

Reason = Literal[
    "missing_columns",
    "no_units",
    "no_clicks",
    "no_scores",
    "empty_denominator",
    "too_few_units",
    "zero_variance",
    "tied_quantile",
    "control_near_zero",
    "lift_unbounded",
    "not_finite",
    "failed_trust_check",
    "failed_aa",
]

MIN_UNITS = 30
"""Fewer units a variant than this are too little data for a large-sample interval."""

_FROM_STATS: dict[str, Reason] = {
    "too_few_units": "too_few_units",
    "zero_variance": "zero_variance",
    "zero_denominator": "empty_denominator",
    "control_near_zero": "control_near_zero",
}


@dataclass(frozen=True)
class Rule:
    """How effects are judged.

    Attributes:
        alpha: Two-sided level of intervals and tests.
        relative: Interval of the lift.
        cuped: Whether pre-period values take variance out.
        information: For always-valid inference, the share of the planned information that is in;
            None for a fixed horizon.
    """

    alpha: float = 0.05
    relative: Literal["fieller", "delta", "log_delta"] = "fieller"
    cuped: bool = False
    information: float | None = None


@dataclass(frozen=True)
class Comparison:
    """What can be said of a metric in one variant.

    Attributes:
        units_control: Units behind control's value.
        units: Units behind the variant's.
        control: Control's value, None where it has none.
        treatment: The variant's value.
        effect: The difference, None where it was refused.
        lift: The relative effect, None where it was refused.
        reason: Why something is missing or limited.
        adjusted: The effect with and without its covariates, where CUPED was applied.
    """

    units_control: int
    units: int
    control: float | None
    treatment: float | None
    effect: Effect | None
    lift: Lift | None
    reason: Reason | None
    adjusted: Adjusted | None = None


def scales(metric: Metric) -> tuple[float, float]:
    """What one counted unit of the numerator and of the denominator is worth."""
    return _scale(metric.value), _scale(metric.per)


def _scale(term: Term | None) -> float:
    return 1.0 if term is None else term.scale


def compare_moments(
    metric: Metric, control: Moments | None, treatment: Moments | None, rule: Rule
) -> Comparison:
    """Compare two variants by the moments of (y, x, y0, x0, z) over their units."""
    units_control = 0 if control is None else control.n
    units = 0 if treatment is None else treatment.n
    if control is None or treatment is None or 0 in (units_control, units):
        return refused(units_control, units, "no_units")
    if control.mean[1] == 0 or treatment.mean[1] == 0:
        return refused(units_control, units, "empty_denominator")
    bare = Comparison(units_control, units, _value(control), _value(treatment), None, None, None)
    try:
        effect, lift, adjusted = _measured(metric, control, treatment, rule)
    except Refusal as refusal:
        return replace(bare, reason=_FROM_STATS.get(refusal.reason, "not_finite"))
    return replace(bare, effect=effect, lift=lift, reason=_limit(lift), adjusted=adjusted)


def _value(moments: Moments) -> float:
    return float(moments.mean[0] / moments.mean[1])


def _limit(lift: Lift | None) -> Reason | None:
    if lift is None:
        return "control_near_zero"
    return None if lift.bounded else "lift_unbounded"


def _measured(
    metric: Metric, control: Moments, treatment: Moments, rule: Rule
) -> tuple[Effect, Lift | None, Adjusted | None]:
    if rule.cuped and metric.kind in ("mean", "ratio") and _known_before(control, treatment):
        adjusted = _cuped(metric, control, treatment, rule.alpha)
        named = adjusted.effect._replace(method=f"cuped_{_method(metric)}")
        effect, level = _at_looks(named, rule)
        interval = _RELATIVE_ADJUSTED[rule.relative]
        lift = _or_none(lambda: interval(adjusted, level))
        return effect, lift, adjusted
    estimate = means.estimate if metric.kind == "mean" else ratios.estimate
    return (*_difference(estimate(control), estimate(treatment), _method(metric), rule), None)


def _difference(
    control: Estimate, treatment: Estimate, method: str, rule: Rule
) -> tuple[Effect, Lift | None]:
    """Two independent estimates as an effect and a lift."""
    effect, level = _at_looks(effects.compare(control, treatment, rule.alpha, method), rule)
    interval_of = _RELATIVE[rule.relative]
    return effect, _or_none(lambda: interval_of(control, treatment, level))


_RELATIVE = {
    "fieller": relative.fieller,
    "delta": relative.delta,
    "log_delta": relative.log_delta,
}
_RELATIVE_ADJUSTED = {"fieller": relative.fieller_adjusted, "delta": relative.delta_adjusted}


def _or_none(lift: Callable[[], Lift]) -> Lift | None:
    try:
        return lift()
    except Refusal:
        return None


def _known_before(control: Moments, treatment: Moments) -> bool:
    """Whether some unit of both variants was seen before the period."""
    return all(m.mean[4] < 1 and m.covariance[2, 2] > 0 for m in (control, treatment))


def _cuped(metric: Metric, control: Moments, treatment: Moments, alpha: float) -> Adjusted:
    """Pre-period values as covariates; units without any in a stratum of their own."""
    some_new = all(0 < m.mean[4] < 1 for m in (control, treatment))
    stratum = (4,) if some_new else ()
    if metric.kind == "mean":
        chosen = (0, 2, *stratum)
        return cuped.mean(control.pick(*chosen), treatment.pick(*chosen), alpha)
    chosen = (0, 1, 2, 3, *stratum)
    return cuped.ratio_with(control.pick(*chosen), treatment.pick(*chosen), alpha)


def _at_looks(effect: Effect, rule: Rule) -> tuple[Effect, float]:
    """The effect as it may be looked at, and the level whose fixed quantile is as wide."""
    if rule.information is None:
        return effect, rule.alpha
    look = sequential.confidence_sequence(
        effect.difference, effect.se, rule.information, rule.alpha
    )
    level, _ = tail((look.high - effect.difference) / effect.se, effect.df, "two-sided")
    valid = effect._replace(
        low=look.low,
        high=look.high,
        p_value=look.p_value,
        log10_p_value=look.log10_p_value,
        method=f"always_valid_{effect.method.removesuffix('_t')}",
    )
    return valid, level


def refused(units_control: int, units: int, reason: Reason) -> Comparison:
    """A comparison without numbers."""
    return Comparison(units_control, units, None, None, None, None, reason)


def _method(metric: Metric) -> str:
    match metric.kind:
        case "mean":
            return "welch_t"
        case "auc":
            return "influence_t"
        case _:
            return "delta_t"


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
        effect, lift = _difference(estimates[0], estimates[1], "quantile_t", rule)
    except Refusal as refusal:
        return replace(bare, reason=_FROM_STATS.get(refusal.reason, "not_finite"))
    return replace(bare, effect=effect, lift=lift, reason=_limit(lift))


def _clustered(metric: Metric, found: Quantile, counts: Moments) -> Estimate:
    """A quantile with the variance of its units, in the metric's own unit."""
    if found.low is None or found.high is None or metric.level is None:
        raise Refusal("too_few_units", f"{found.events} impressions are too few")
    step = scales(metric)[0]
    ends = (found.value * step, found.low * step, found.high * step)
    independent = quantiles.from_order_statistics(*ends, found.events)
    return quantiles.inflate(independent, counts, metric.level)


def compare_catalogue(
    metric: Metric, aggregates: Aggregates, control: str, variant: str, rule: Rule
) -> Comparison:
    """Compare two variants' coverage, Gini or entropy at equal numbers of units."""
    arms = [incidence(aggregates, name) for name in (control, variant)]
    units_control, units = (int(arm.units_in_group.sum()) for arm in arms)
    functional = cast(Functional, metric.name)
    try:
        found = catalogue.compare(arms[0], arms[1], functional, rule.alpha)
    except Refusal as refusal:
        return refused(units_control, units, _FROM_STATS.get(refusal.reason, "not_finite"))
    effect = found.effect
    return Comparison(
        units_control=units_control,
        units=units,
        control=effect.control,
        treatment=effect.treatment,
        effect=effect,
        lift=found.lift,
        reason=_limit(found.lift),
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
