"""Build the rows of the result: scorecard, slices and adjustments."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from abeval.aggregates.sums import DAY, SEGMENT
from abeval.experiment.model import Experiment
from abeval.inference import families, outlook
from abeval.inference.compare import Analysis, build_rule
from abeval.inference.comparison import Arms, Comparison, Comparisons, Reason, Rule
from abeval.inference.context import find_partial_days
from abeval.inference.means_and_ratios import compare_within
from abeval.inference.site import compute_site_lifts
from abeval.metrics.definition import Metric, list_scales
from abeval.results.effects import Adjustment, Boundary, RangeRow, Row, SliceRow, Status


def build_scorecard(
    analysis: Analysis,
    comparisons: Comparisons,
    doubts: Mapping[str, Reason],
    totals: Comparisons,
) -> tuple[Row, ...]:
    """Return one row per metric and variant, in the order of both.

    `doubts` say why a metric is untrusted. `totals` are of ratios whose denominators moved. A draft
    judges no row.
    """
    plan = analysis.experiment, analysis.metrics
    rows = {(row.metric, row.variant): row for row in build_rows(*plan, comparisons)}
    for total in build_rows(*plan, {**comparisons, **totals}) if totals else ():
        key = total.metric, total.variant
        rows[key] = _combine_with_total(rows[key], total) if key in totals else rows[key]
    for key, site in compute_site_lifts(analysis, comparisons).items():
        rows[key] = replace(
            rows[key], site_lift=site.value, site_lift_low=site.low, site_lift_high=site.high
        )
    for key, row in rows.items():
        if row.metric in doubts:
            # A row without an effect keeps the reason for that.
            reason = row.reason if row.difference is None else doubts[row.metric]
            rows[key] = replace(row, status="untrusted", reason=reason)
        elif analysis.experiment.questions and row.status != "too_little_data":
            rows[key] = replace(row, status="draft")
    return tuple(rows.values())


def build_rows(
    experiment: Experiment, metrics: Sequence[Metric], comparisons: Comparisons
) -> Iterator[Row]:
    """Yield the rows by their numbers alone, before trust checks overrule them."""
    plan, alpha = (experiment, metrics, comparisons), experiment.alpha
    p_values = families.adjust_goal_p_values(*plan) | families.adjust_guardrail_p_values(*plan)
    for metric, variant in ((m, v) for m in metrics for v in experiment.treatments):
        key = metric.name, variant
        comparison, p_adjusted = comparisons[key], p_values.get(key)
        uncorrected = families.find_uncorrected_p_value(metric, comparison, alpha)
        p_value = uncorrected if p_adjusted is None else p_adjusted
        status = families.decide_status(metric, comparison, p_value, alpha)
        draws = comparison.draws
        yield Row(
            **vars(comparison.numbers),
            metric=metric.name,
            kind=metric.kind,
            role=metric.role,
            direction=metric.direction.label,
            variant=variant,
            p_adjusted=p_adjusted,
            method=comparison.effect and comparison.effect.method,
            status=status,
            reason=_find_row_reason(metric, comparison, status, (uncorrected, p_value), alpha),
            units_needed=comparison.units_needed,
            mde=outlook.estimate_detectable_lift(experiment, metrics, metric, variant, comparison),
            lift_method=comparison.lift and comparison.lift.method,
            draws=draws and draws.number,
            seed=draws and draws.seed,
            few_units_decide=comparison.few_units_decide,
        )


def _find_row_reason(
    metric: Metric,
    comparison: Comparison,
    status: Status,
    p_values: tuple[float | None, float | None],
    alpha: float,
) -> Reason | None:
    """Return why a row is not judged; None if it is."""
    uncorrected, p_value = p_values
    if metric.within is not None and uncorrected is None and comparison.effect is not None:
        return "too_skewed" if comparison.is_skewed else "too_few_units"
    if comparison.reason is not None:
        return comparison.reason
    ends, is_range = comparison.effect, metric.within is not None
    if status != "unclear" or ends is None or uncorrected is None or p_value is None:
        return None
    if metric.has_target and not is_range:
        return None
    if ends.low <= 0 <= ends.high and not is_range:
        return "interval_includes_zero" if p_value <= alpha else None
    return "not_after_correction" if uncorrected < alpha else None


def _combine_with_total(row: Row, total: Row) -> Row:
    """Let a ratio with a moved denominator decide only what its total confirms."""
    if row.status == "too_little_data" or row.status == total.status != "unclear":
        return row
    if row.role == "guardrail" and {row.status, total.status} <= families.HELD:
        return replace(row, status="non_inferior")
    return replace(row, status="unclear", reason="denominator_moved")


def slice_rows(analysis: Analysis, name: str, moved: Container[str] = ()) -> Iterator[SliceRow]:
    """Yield the effect of every metric in every cell of a slice.

    Rows of segments that the treatment may have moved say so, unless they have another reason.
    """
    experiment, aggregates = analysis.experiment, analysis.aggregates
    partial = find_partial_days(experiment, aggregates.days) if name == DAY else {}
    rule = Rule(experiment.alpha, experiment.inference.relative)
    segment = name.removeprefix(SEGMENT)
    for metric in analysis.metrics:
        for cell in aggregates.cells(metric.name, name):
            moments = analysis.moments(metric, name, cell)
            for variant in experiment.treatments:
                arms = Arms(experiment.control, variant)
                comparison = compare_within(metric, moments, arms, rule)
                reason = comparison.reason
                if comparison.is_small and comparison.effect is not None:
                    reason = "too_few_units"
                yield SliceRow(
                    **vars(comparison.numbers),
                    metric=metric.name,
                    variant=variant,
                    slice=segment,
                    cell=cell,
                    partial=cell in partial,
                    reason=reason or ("moved_segment" if segment in moved else None),
                )


def list_boundaries(comparisons: Comparisons) -> Iterator[Boundary]:
    """Yield the boundary of each row that has several looks."""
    for (metric, variant), comparison in comparisons.items():
        at_look = comparison.boundary
        if at_look is not None:
            yield Boundary(
                metric=metric,
                variant=variant,
                information=at_look.information,
                z=at_look.z,
                boundary=at_look.boundary,
                crossed=at_look.crossed,
            )


def list_range_rows(analysis: Analysis, comparisons: Comparisons) -> Iterator[RangeRow]:
    """Yield the value of each guardrail that has bounds, with its interval."""
    for metric, variant in analysis.rows:
        comparison = comparisons[metric.name, variant]
        row = families.check_range(metric, comparison, analysis.experiment.alpha)
        if row is not None and metric.within is not None:
            low, high = metric.within
            yield RangeRow(
                metric=metric.name,
                variant=variant,
                low=low,
                high=high,
                value=row.value,
                value_low=row.interval.low,
                value_high=row.interval.high,
                p_value=row.p_value,
            )


def list_adjustments(analysis: Analysis, comparisons: Comparisons) -> Iterator[Adjustment]:
    """Yield what variance reduction and capping changed, row by row."""
    for metric, variant in analysis.rows:
        caps = analysis.aggregates.caps.get(metric.name)
        adjusted = comparisons[metric.name, variant].adjusted
        if caps is None and adjusted is None:
            continue
        arms = Arms(analysis.experiment.control, variant)
        rule = build_rule(analysis, metric, arms)
        # The row as it would be without capping, covariates and strata.
        moments = analysis.moments(metric)
        plain = compare_within(metric, moments, arms, rule._replace(adjust="none")).numbers
        scale, below = list_scales(metric)
        kinds = ("cap", caps), (rule.adjust, adjusted)
        yield Adjustment(
            metric=metric.name,
            variant=variant,
            method="+".join(name for name, applied in kinds if applied is not None),
            difference=plain.difference,
            difference_low=plain.difference_low,
            difference_high=plain.difference_high,
            p_value=plain.p_value,
            theta=() if adjusted is None else adjusted.theta,
            variance_removed=adjusted and adjusted.variance_removed,
            cap=None if caps is None else caps[0] * scale,
            cap_denominator=None if caps is None or caps[1] is None else caps[1] * below,
        )
