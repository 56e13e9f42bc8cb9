"""One metric in one variant against control: aggregates in, an effect or a reason out."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from abeval.aggregates import Aggregates
from abeval.metrics import Metric, Term
from abeval.stats import catalogue, effects, means, ratios, relative
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Lift, Refusal

Reason = Literal[
    "missing_columns",
    "no_units",
    "no_clicks",
    "no_scores",
    "empty_denominator",
    "too_few_units",
    "zero_variance",
    "control_near_zero",
    "lift_unbounded",
    "no_lift_interval",
    "not_finite",
    "failed_trust_check",
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
    """

    units_control: int
    units: int
    control: float | None
    treatment: float | None
    effect: Effect | None
    lift: Lift | None
    reason: Reason | None


def scales(metric: Metric) -> tuple[float, float]:
    """What one counted unit of the numerator and of the denominator is worth."""
    return _scale(metric.value), _scale(metric.per)


def _scale(term: Term | None) -> float:
    return 1.0 if term is None else term.scale


def compare_moments(
    metric: Metric, control: Moments | None, treatment: Moments | None, alpha: float
) -> Comparison:
    """Compare two variants by the moments of (y, x) over their units."""
    units = (0 if m is None else m.n for m in (control, treatment))
    units_control, units_treatment = units
    if control is None or treatment is None or 0 in (units_control, units_treatment):
        return refused(units_control, units_treatment, "no_units")
    if control.mean[1] == 0 or treatment.mean[1] == 0:
        return refused(control.n, treatment.n, "empty_denominator")
    estimate = means.estimate if metric.kind == "mean" else ratios.estimate
    values = [float(m.mean[0] / m.mean[1]) for m in (control, treatment)]
    try:
        arms = (estimate(control), estimate(treatment))
        effect = effects.compare(*arms, alpha, _method(metric))
    except Refusal as refusal:
        reason = _FROM_STATS.get(refusal.reason, "not_finite")
        return Comparison(control.n, treatment.n, values[0], values[1], None, None, reason)
    lift, reason_of_lift = _lift(*arms, alpha)
    return Comparison(
        control.n, treatment.n, effect.control, effect.treatment, effect, lift, reason_of_lift
    )


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


def _lift(control: Estimate, treatment: Estimate, alpha: float) -> tuple[Lift | None, Reason | None]:
    try:
        lift = relative.fieller(control, treatment, alpha)
    except Refusal:
        return None, "control_near_zero"
    return lift, None if lift.bounded else "lift_unbounded"


def compare_catalogue(
    metric: Metric, aggregates: Aggregates, control: str, variant: str, alpha: float
) -> Comparison:
    """Compare two variants' coverage, Gini or entropy at equal numbers of units."""
    arms = [incidence(aggregates, name) for name in (control, variant)]
    units_control, units = (int(arm.units_in_group.sum()) for arm in arms)
    functional: catalogue.Functional = metric.name  # type: ignore[assignment]  # the catalogue metrics are named after their functional
    try:
        found = catalogue.compare(arms[0], arms[1], functional, alpha)
    except Refusal as refusal:
        return refused(units_control, units, _FROM_STATS.get(refusal.reason, "not_finite"))
    effect = found.effect
    if effect.control == 0:
        lift = None
    else:
        value = effect.difference / abs(effect.control)
        lift = Lift(value, -math.inf, math.inf, False, "none")
    return Comparison(
        units_control, units, effect.control, effect.treatment, effect, lift, "no_lift_interval"
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
