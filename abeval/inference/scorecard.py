"""Comparisons → the rows that people read: scorecard, days, segments, adjustments, boundaries.

`judge.py` hands it the analysis with its comparisons, and puts the rows into the result.
"""

from collections.abc import Mapping
from dataclasses import replace

from abeval.aggregates.aggregates import DAY, SEGMENT
from abeval.inference.compare import Analysis, rule_of
from abeval.inference.comparison import Comparison, Reason, Rule
from abeval.inference.context import partial_days
from abeval.inference.families import adjusted
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.status import goodness_p_value, status_of
from abeval.metrics.definition import Metric, scales
from abeval.results import Adjustment, Boundary, Row, SliceRow


def scorecard(analysis: Analysis, doubts: Mapping[str, Reason]) -> tuple[Row, ...]:
    """One row per metric and variant, in the order of both.

    Args:
        analysis: Its metrics and their comparisons.
        doubts: Metrics whose numbers must not be trusted, and why.
    """
    p_values = adjusted(analysis.experiment, analysis.metrics, analysis.comparisons)
    rows = (
        _row(analysis, metric, variant, p_values.get((metric.name, variant)))
        for metric, variant in analysis.rows
    )
    return tuple(
        _untrusted(row, doubts[row.metric]) if row.metric in doubts else row for row in rows
    )


def _row(analysis: Analysis, metric: Metric, variant: str, p_adjusted: float | None) -> Row:
    comparison = analysis.comparisons[metric.name, variant]
    effect = comparison.effect
    p_value = None if effect is None else goodness_p_value(metric.direction, effect)
    if p_adjusted is not None:
        p_value = p_adjusted
    return Row(
        metric=metric.name,
        kind=metric.kind,
        role=metric.role,
        direction=metric.direction.label,
        variant=variant,
        **comparison.numbers._asdict(),
        p_adjusted=p_adjusted,
        method=None if effect is None else effect.method,
        status=status_of(metric, comparison, p_value, analysis.experiment.alpha),
        reason=comparison.reason,
    )


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
            control = moments.get(experiment.control)
            for variant in experiment.treatments:
                comparison = compare_moments(metric, control, moments.get(variant), rule)
                rows.append(
                    SliceRow(
                        metric=metric.name,
                        variant=variant,
                        slice=name.removeprefix(SEGMENT),
                        cell=cell,
                        partial=cell in partial,
                        **comparison.numbers._asdict(),
                        reason=comparison.reason,
                    )
                )
    return tuple(rows)


def boundaries(analysis: Analysis) -> tuple[Boundary, ...]:
    """The boundary of each row, where one looks more than once."""
    return tuple(
        Boundary(metric, variant, *comparison.boundary)
        for (metric, variant), comparison in analysis.comparisons.items()
        if comparison.boundary is not None
    )


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
    moments = analysis.moments(metric)
    rule = rule_of(analysis, (comparison.units_control, comparison.units))
    control = moments.get(analysis.experiment.control)
    plain = compare_moments(metric, control, moments.get(variant), replace(rule, adjust="none"))
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
