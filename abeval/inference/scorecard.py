"""Comparisons → the rows that people read: scorecard, days, segments, adjustments, boundaries.

`judge.py` hands it the analysis with its comparisons, and puts the rows into the result.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from abeval.aggregates.sums import DAY, SEGMENT
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, rule_of
from abeval.inference.comparison import (
    MIN_UNITS,
    Arms,
    Comparison,
    Comparisons,
    Reason,
    Rule,
)
from abeval.inference.context import partial_days
from abeval.inference.families import (
    HELD,
    goodness_interval,
    goodness_p_value,
    guardrails_adjusted,
    status_of,
)
from abeval.inference.means_and_ratios import compare_within
from abeval.inference.outlook import critical_now, detectable, error_shown, level_of, treated_part
from abeval.metrics.definition import Metric, scales
from abeval.offline.slices import adjusted
from abeval.results import Adjustment, Boundary, Row, SliceRow, Status, TargetGain


def scorecard(
    analysis: Analysis, doubts: Mapping[str, Reason], totals: Comparisons
) -> tuple[Row, ...]:
    """One row per metric and variant, in the order of both.

    Args:
        analysis: Its metrics and their comparisons.
        doubts: Metrics whose numbers must not be trusted, and why.
        totals: Of the numerators of ratios whose denominators moved.
    """
    plan, own = (analysis.experiment, analysis.metrics), analysis.comparisons
    rows = list(judged_rows(*plan, own))
    if totals:
        beside = judged_rows(*plan, {**own, **totals})
        keys = [(row.metric, row.variant) in totals for row in rows]
        rows = [
            _with_total(row, total) if moved else row
            for row, total, moved in zip(rows, beside, keys, strict=True)
        ]
    return tuple(
        _untrusted(row, doubts[row.metric]) if row.metric in doubts else row for row in rows
    )


def judged_rows(
    experiment: Experiment, metrics: Sequence[Metric], comparisons: Comparisons
) -> Iterator[Row]:
    """The rows by their numbers alone, before trust checks overrule them."""
    p_values = adjusted(experiment, metrics, comparisons)
    p_values |= guardrails_adjusted(experiment, metrics, comparisons)
    for metric in metrics:
        for variant in experiment.treatments:
            key = metric.name, variant
            row = _row(experiment, metric, variant, comparisons[key], p_values.get(key))
            se = error_shown(comparisons[key], experiment.alpha)
            if se is not None and row.control and comparisons[key].lift is not None:
                critical = critical_now(comparisons[key], level_of(experiment, metrics, metric))
                treated = treated_part(experiment, metric, variant)
                row = replace(row, mde=detectable(se, row.control, critical, treated))
            yield row


def _row(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    comparison: Comparison,
    p_adjusted: float | None,
) -> Row:
    effect = comparison.effect
    p_value = goodness_p_value(metric.direction, comparison)
    if p_adjusted is not None:
        p_value = p_adjusted
    status = status_of(metric, comparison, p_value, experiment.alpha)
    return Row(
        metric=metric.name,
        kind=metric.kind,
        role=metric.role,
        direction=metric.direction.label,
        variant=variant,
        **comparison.numbers._asdict(),
        p_adjusted=p_adjusted,
        method=None if effect is None else effect.method,
        status=status,
        reason=comparison.reason or _why_unclear(experiment, metric, comparison, status, p_value),
        units_needed=comparison.units_needed,
        lift_method=None if comparison.lift is None else comparison.lift.method,
        draws=None if comparison.draws is None else comparison.draws.number,
        seed=None if comparison.draws is None else comparison.draws.seed,
    )


def _why_unclear(
    experiment: Experiment,
    metric: Metric,
    comparison: Comparison,
    status: Status,
    p_value: float | None,
) -> Reason | None:
    """Why one of interval and p-value excludes no difference, and decides nothing."""
    ends = goodness_interval(metric.direction, comparison)
    if status != "unclear" or ends is None or p_value is None:
        return None
    if ends[0] <= 0 <= ends[1]:
        return "interval_includes_zero" if p_value <= experiment.alpha else None
    own = goodness_p_value(metric.direction, comparison)
    return "not_after_correction" if own is not None and own < experiment.alpha else None


def _with_total(row: Row, total: Row) -> Row:
    """A ratio whose denominator moved: it decides only what its total says too."""
    if row.status == "too_little_data" or row.status == total.status != "unclear":
        return row
    if row.role == "guardrail" and {row.status, total.status} <= HELD:
        return replace(row, status="non_inferior")
    return replace(row, status="unclear", reason="denominator_moved")


def _untrusted(row: Row, doubt: Reason) -> Row:
    """Keep the original reason if there is no effect; otherwise report the trust failure."""
    reason = row.reason if row.difference is None else doubt
    return replace(row, status="untrusted", reason=reason)


def slice_rows(analysis: Analysis, name: str) -> tuple[SliceRow, ...]:
    """The effect of every metric in every cell of a slice."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    partial = partial_days(experiment, aggregates.days) if name == DAY else frozenset()
    rule = Rule(experiment.alpha, experiment.inference.relative)
    rows = []
    for metric in analysis.metrics:
        for cell in aggregates.cells(metric.name, name):
            moments = analysis.moments(metric, name, cell)
            for variant in experiment.treatments:
                comparison = compare_within(
                    metric, moments, Arms(experiment.control, variant), rule
                )
                rows.append(
                    SliceRow(
                        metric=metric.name,
                        variant=variant,
                        slice=name.removeprefix(SEGMENT),
                        cell=cell,
                        partial=cell in partial,
                        **comparison.numbers._asdict(),
                        reason=_why_not_judged(comparison),
                    )
                )
    return tuple(rows)


def _why_not_judged(comparison: Comparison) -> Reason | None:
    """Why an effect of a slice is missing, says little, or is limited."""
    few = min(comparison.units_control, comparison.units) < MIN_UNITS
    return "too_few_units" if few and comparison.effect is not None else comparison.reason


def segment_rows(analysis: Analysis, moved: Container[str]) -> tuple[SliceRow, ...]:
    """The effect of every metric in every cell of every segment.

    Args:
        analysis: Its metrics and segments.
        moved: Segments that the treatment may have changed: their rows say so, unless they have
            another reason.
    """
    return tuple(
        replace(row, reason=row.reason or "moved_segment") if name in moved else row
        for name in analysis.experiment.segment_names
        for row in slice_rows(analysis, SEGMENT + name)
    )


def boundaries(analysis: Analysis) -> tuple[Boundary, ...]:
    """The boundary of each row, where one looks more than once."""
    return tuple(
        Boundary(metric, variant, *comparison.boundary[:4])
        for (metric, variant), comparison in analysis.comparisons.items()
        if comparison.boundary is not None
    )


def gains(analysis: Analysis) -> tuple[TargetGain, ...]:
    """The effect that decides a row whose metric has a target."""
    rows = ((*row, analysis.comparisons[row[0].name, row[1]].gain) for row in analysis.rows)
    return tuple(
        TargetGain(
            metric=metric.name,
            variant=variant,
            target=metric.direction.toward,
            gain=gain.value,
            gain_low=_finite(gain.low),
            gain_high=_finite(gain.high),
            p_value=gain.p_value,
            margin_low=None if gain.within is None else _finite(gain.within.low),
            margin_high=None if gain.within is None else _finite(gain.within.high),
        )
        for metric, variant, gain in rows
        if gain is not None and metric.direction.toward is not None
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def adjustments(analysis: Analysis) -> tuple[Adjustment, ...]:
    """What variance reduction and capping changed, row by row."""
    comparisons, caps = analysis.comparisons, analysis.aggregates.caps
    return tuple(
        _adjustment(analysis, metric, variant, comparisons[metric.name, variant])
        for metric, variant in analysis.rows
        if metric.name in caps or comparisons[metric.name, variant].adjusted is not None
    )


def _adjustment(
    analysis: Analysis, metric: Metric, variant: str, comparison: Comparison
) -> Adjustment:
    """The row as it would be without capping, covariates and strata."""
    arms = Arms(analysis.experiment.control, variant)
    rule = rule_of(analysis, metric, arms)
    plain = compare_within(metric, analysis.moments(metric), arms, replace(rule, adjust="none"))
    caps, adjusted = analysis.aggregates.caps.get(metric.name), comparison.adjusted
    scale, scale_denominator = scales(metric)
    kinds = ("cap", caps), (rule.adjust, adjusted)
    return Adjustment(
        metric=metric.name,
        variant=variant,
        method="+".join(name for name, applied in kinds if applied is not None),
        difference=plain.numbers.difference,
        difference_low=plain.numbers.difference_low,
        difference_high=plain.numbers.difference_high,
        p_value=plain.numbers.p_value,
        theta=() if adjusted is None else adjusted.theta,
        variance_removed=None if adjusted is None else adjusted.variance_removed,
        cap=None if caps is None else caps[0] * scale,
        cap_denominator=None if caps is None or caps[1] is None else caps[1] * scale_denominator,
    )
