"""Comparisons → the rows that people read: scorecard, days, segments, adjustments."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.aggregates.aggregates import DAY, SEGMENT, WHOLE, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.compare import rule_of
from abeval.inference.comparison import (
    Comparison,
    Reason,
    Rule,
    compare_moments,
    scales,
)
from abeval.inference.context import partial_days
from abeval.inference.families import Key, adjusted
from abeval.inference.status import goodness_p_value, status_of
from abeval.metrics.definition import Metric
from abeval.results import Adjustment, Boundary, Row, SliceRow


def scorecard(
    experiment: Experiment,
    metrics: Sequence[Metric],
    found: Mapping[Key, Comparison],
    trusted: bool,
    off: Collection[str] = (),
) -> tuple[Row, ...]:
    """One row per metric and variant, in the order of both.

    Args:
        experiment: What was planned.
        metrics: The metrics of the scorecard.
        found: Their effects.
        trusted: Whether no trust check failed.
        off: Metrics whose test does not keep its level in A/A replays.
    """
    doubt: dict[str, Reason] = dict.fromkeys(off, "failed_aa")
    if not trusted:
        doubt = {metric.name: "failed_trust_check" for metric in metrics}
    p_values = adjusted(experiment, metrics, found)
    return tuple(
        _row(
            metric,
            variant,
            found[metric.name, variant],
            p_values,
            experiment.alpha,
            doubt.get(metric.name),
        )
        for metric in metrics
        for variant in experiment.treatments
    )


def _row(
    metric: Metric,
    variant: str,
    found: Comparison,
    p_values: Mapping[Key, float],
    alpha: float,
    doubt: Reason | None,
) -> Row:
    effect = found.effect
    own = None if effect is None else goodness_p_value(metric.direction, effect)
    p_adjusted = p_values.get((metric.name, variant))
    status = status_of(metric, found, own if p_adjusted is None else p_adjusted, alpha)
    return Row(
        metric=metric.name,
        kind=metric.kind,
        role=metric.role,
        direction=metric.direction.label,
        variant=variant,
        **numbers_of(found)._asdict(),
        p_adjusted=p_adjusted,
        method=None if effect is None else effect.method,
        status=status if doubt is None else "untrusted",
        # What a row lacks outlives why it is doubted; a lift without ends does not.
        reason=found.reason if effect is None or doubt is None else doubt,
    )


class Numbers(NamedTuple):
    """The fields that every row of effects has."""

    units_control: int
    units: int
    control: float | None
    treatment: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float | None


def numbers_of(found: Comparison) -> Numbers:
    """The numbers of a comparison, None where it has none."""
    effect, lift = found.effect, found.lift
    bounded = lift is not None and lift.bounded
    return Numbers(
        units_control=found.units_control,
        units=found.units,
        control=found.control,
        treatment=found.treatment,
        difference=None if effect is None else effect.difference,
        difference_low=None if effect is None else effect.low,
        difference_high=None if effect is None else effect.high,
        lift=None if lift is None else lift.value,
        lift_low=lift.low if lift is not None and bounded else None,
        lift_high=lift.high if lift is not None and bounded else None,
        p_value=None if effect is None else effect.p_value,
    )


def slice_rows(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates, name: str
) -> tuple[SliceRow, ...]:
    """The effect of every metric in every cell of a slice."""
    partial = partial_days(experiment, aggregates.days) if name == DAY else frozenset()
    return tuple(
        _slice_row(experiment, metric, variant, aggregates, name, cell, cell in partial)
        for metric in metrics
        for cell in aggregates.cells(metric.name, name)
        for variant in experiment.treatments
    )


def _slice_row(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    aggregates: Aggregates,
    name: str,
    cell: str,
    partial: bool,
) -> SliceRow:
    arms = aggregates.of(metric.name, name, cell, scales(metric))
    rule = Rule(experiment.alpha, experiment.inference.relative)
    found = compare_moments(metric, arms.get(experiment.control), arms.get(variant), rule)
    return SliceRow(
        metric=metric.name,
        variant=variant,
        slice=name.removeprefix(SEGMENT),
        cell=cell,
        partial=partial,
        **numbers_of(found)._asdict(),
        reason=found.reason,
    )


def boundaries(
    experiment: Experiment, metrics: Sequence[Metric], found: Mapping[Key, Comparison]
) -> tuple[Boundary, ...]:
    """What each row is held against, where one looks more than once."""
    return tuple(
        Boundary(metric.name, variant, *held)
        for metric in metrics
        for variant in experiment.treatments
        if (held := found[metric.name, variant].boundary) is not None
    )


def adjustments(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    found: Mapping[Key, Comparison],
) -> tuple[Adjustment, ...]:
    """What variance reduction and capping changed, row by row."""
    return tuple(
        _adjustment(experiment, metric, variant, aggregates, found[metric.name, variant])
        for metric in metrics
        for variant in experiment.treatments
        if metric.name in aggregates.caps or found[metric.name, variant].adjusted is not None
    )


def _adjustment(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    aggregates: Aggregates,
    found: Comparison,
) -> Adjustment:
    """The row as it would be without capping, covariates and strata."""
    arms = aggregates.of(metric.name, WHOLE, "", scales(metric))
    rule = rule_of(experiment, aggregates, found.units_control + found.units)
    plain = replace(rule, adjust="none")
    before = compare_moments(metric, arms.get(experiment.control), arms.get(variant), plain).effect
    caps = aggregates.caps.get(metric.name)
    counted = scales(metric)
    kinds = ("cap", caps), (rule.adjust, found.adjusted)
    return Adjustment(
        metric=metric.name,
        variant=variant,
        method="+".join(name for name, applied in kinds if applied is not None),
        difference=None if before is None else before.difference,
        difference_low=None if before is None else before.low,
        difference_high=None if before is None else before.high,
        p_value=None if before is None else before.p_value,
        theta=() if found.adjusted is None else found.adjusted.theta,
        variance_removed=None if found.adjusted is None else found.adjusted.variance_removed,
        cap=None if caps is None else caps[0] * counted[0],
        cap_denominator=None if caps is None or caps[1] is None else caps[1] * counted[1],
    )
