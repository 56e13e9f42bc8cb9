"""Compare every metric of an experiment: by its kind, as the plan says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import CAPPED, DAY, SEGMENT, WHOLE, MomentsByPeriod, pool_moments
from abeval.experiment.model import Experiment
from abeval.inference import clustered
from abeval.inference import means_and_ratios as means
from abeval.inference.comparison import (
    Arms,
    Comparison,
    Comparisons,
    Key,
    Reason,
    Rule,
    refuse_comparison,
)
from abeval.inference.looks import InformationByDay, build_looks
from abeval.inference.other_kinds import compare_catalogue, compare_quantiles, compare_resampled
from abeval.metrics.definition import Metric, list_scales
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


@dataclass(frozen=True)
class Analysis:
    """What comparisons read: an experiment, its metrics and their sums.

    Attributes:
        experiment: As the experiment file says it.
        metrics: In the order of the scorecard.
        aggregates: Sums over the units of each variant; no result yet.
    """

    experiment: Experiment
    metrics: Sequence[Metric]
    aggregates: Aggregates

    @property
    def rows(self) -> list[tuple[Metric, str]]:
        """Return every metric in every variant but control: the rows of the scorecard."""
        return [(metric, name) for metric in self.metrics for name in self.experiment.treatments]

    def moments(self, metric: Metric, slice_name: str = WHOLE, cell: str = "") -> MomentsByPeriod:
        """Return moments of (y, x, y0, x0, z) by split period and variant.

        They are in the metric's own unit.
        """
        return self.aggregates.find_moments(metric.name, slice_name, cell, list_scales(metric))


def compare_all(analysis: Analysis, permutations: int = 1000) -> Comparisons:
    """Compare every metric in every variant with control.

    With 0 permutations, catalogue metrics are tested by the jackknife.

    Catalogue metrics are compared together, because they count the same items.
    """
    catalogue = _compare_catalogues(analysis, permutations)
    return {
        (metric.name, variant): catalogue.get((metric.name, variant))
        or compare(analysis, metric, Arms(analysis.experiment.control, variant))
        for metric, variant in analysis.rows
    }


def _compare_catalogues(analysis: Analysis, permutations: int) -> dict[Key, Comparison]:
    experiment, aggregates = analysis.experiment, analysis.aggregates
    catalogue = [metric for metric in analysis.metrics if metric.kind == "catalogue"]
    metrics = [metric for metric in catalogue if _find_refusal(metric, analysis) is None]
    compared: dict[Key, Comparison] = {}
    for variant in experiment.treatments if metrics else ():
        pair = aggregates.incidence(experiment.control), aggregates.incidence(variant)
        comparisons = compare_catalogue(metrics, pair, experiment.alpha, permutations)
        compared |= {(name, variant): comparison for name, comparison in comparisons.items()}
    return compared


def compare(analysis: Analysis, metric: Metric, arms: Arms) -> Comparison:
    """Compare two variants on one metric, by the method for its kind."""
    aggregates = analysis.aggregates
    why = _find_refusal(metric, analysis)
    if why is not None:
        return refuse_comparison(*arms.units(aggregates), why)
    rule = build_rule(analysis, metric, arms)
    if clustered.is_few(analysis.experiment, aggregates, arms):
        sums = clustered.read_cluster_sums(metric, aggregates)
        return clustered.compare_clusters(sums, analysis.experiment, aggregates, arms, rule)
    if metric.kind == "catalogue":
        control, treatment = (aggregates.incidence(name) for name in arms)
        return compare_catalogue([metric], (control, treatment), rule.alpha)[metric.name]
    if metric.kind == "quantile":
        return compare_quantiles(metric, aggregates, arms, rule)
    if metric.kind == "function" or (rule.resample and metric.is_mean_or_ratio):
        return compare_resampled(metric, aggregates, arms, rule)
    segment = analysis.experiment.inference.stratify_by
    if segment is not None and metric.is_mean_or_ratio:
        return _compare_cells(analysis, metric, SEGMENT + segment, arms, rule)
    comparison = means.compare_within(metric, select_metric_moments(analysis, metric), arms, rule)
    # Skewed values are adjusted by their own past alone: three covariates have no known product.
    if not metric.covariates or comparison.is_skewed:
        return comparison
    return means.compare_within(metric, aggregates.find_covariate_moments(metric.name), arms, rule)


def compare_total(analysis: Analysis, metric: Metric, arms: Arms) -> Comparison:
    """Compare the per-unit total of a ratio's numerator.

    It is adjusted by its own pre-period value, and divided by control's mean denominator so that
    the ratio's margin applies. Averages of a quality and ratios with a target have no such total.
    """
    moments, aggregates = select_metric_moments(analysis, metric), analysis.aggregates
    control = means.pool_pair(moments, arms).control
    if metric.source.is_average or metric.has_target or control is None:
        return refuse_comparison(*arms.units(aggregates), "denominator_moved")
    if aggregates.clusters is not None:
        top, below = (clustered.read_sums_per_unit(metric, aggregates, column) for column in (0, 1))
        first = aggregates.clusters.variant == [*analysis.experiment.variants].index(arms.control)
        # Scale to control's mean denominator, so that the ratio's margin applies.
        top[:, [0, 2]] *= below[first, 1].sum() / below[first, 0].sum()
        rule = build_rule(analysis, metric, arms)
        return clustered.compare_clusters(top, analysis.experiment, aggregates, arms, rule)
    base = float(control.mean[1])
    totals = [
        {name: drop_denominator(variant_moments, base) for name, variant_moments in arm.items()}
        for arm in moments
    ]
    mean = replace(metric, kind="mean", per=None, unit="", covariates=(), test=None)
    return means.compare_within(mean, totals, arms, build_rule(analysis, metric, arms))


def drop_denominator(moments: Moments, base: float = 1.0) -> Moments:
    """Replace the denominator by 1 and scale the numerator by 1 / base.

    Turns moments of (y, x, y0, x0, z) into moments of (y / base, 1, y0, 1, z), and (y, x) into (y /
    base, 1).
    """
    size = moments.mean.size
    factor = np.array([1.0 / base, 0.0, 1.0, 0.0, 1.0])[:size]
    ones = np.array([0.0, 1.0, 0.0, 1.0, 0.0])[:size]
    square = np.outer(factor, factor)
    third = None if moments.third is None else moments.third * np.multiply.outer(square, factor)
    comoment = moments.comoment * square
    return Moments(moments.n, moments.mean * factor + ones, comoment, moments.effective, third)


def select_metric_moments(analysis: Analysis, metric: Metric) -> MomentsByPeriod:
    """Return moments of all units, with its cap if the metric has one."""
    is_capped = metric.name in analysis.aggregates.caps
    return analysis.moments(metric, CAPPED if is_capped else WHOLE)


def _compare_cells(
    analysis: Analysis, metric: Metric, slice_name: str, arms: Arms, rule: Rule
) -> Comparison:
    """Compare two variants within the cells of a segment, by split period."""
    names = analysis.aggregates.cells(metric.name, slice_name)
    if not names:
        return refuse_comparison(*arms.units(analysis.aggregates), "no_units")
    cells = [analysis.moments(metric, slice_name, cell) for cell in names]
    strata = means.build_strata(cells, arms)
    return means.compare_within(metric, means.pool_cells(cells), arms, rule, strata)


def build_rule(analysis: Analysis, metric: Metric, arms: Arms) -> Rule:
    """Build the rule for comparing two variants on a metric at this look."""
    experiment, inference = analysis.experiment, analysis.experiment.inference
    aggregates, information = analysis.aggregates, None
    if inference.looks == "group_sequential":
        information = _estimate_information_by_day(analysis, metric, arms)
    looks = build_looks(experiment, arms.units(aggregates), aggregates.days, information)
    return Rule(experiment.alpha, inference.relative, inference.adjust, looks, inference.resample)


def _estimate_information_by_day(
    analysis: Analysis, metric: Metric, arms: Arms
) -> InformationByDay | None:
    """Return the information on a metric's effect up to the end of each day.

    Days of one unit are treated as independent. This never understates new information, so the
    bounds stay valid. A metric that is not a sum over days borrows the days of one that is.
    """
    aggregates = analysis.aggregates
    adds_up = metric.is_mean_or_ratio and bool(aggregates.cells(metric.name, DAY))
    daily_metrics = (
        candidate for candidate in analysis.metrics if aggregates.cells(candidate.name, DAY)
    )
    source = metric if adds_up else next(daily_metrics, None)
    if source is None:
        return None
    days = aggregates.cells(source.name, DAY)
    by_day = [pool_moments(analysis.moments(source, DAY, day)) for day in days]

    def information_until(count: int) -> float:
        by_arm = [[of_day[name] for of_day in by_day[:count] if name in of_day] for name in arms]
        return _estimate_information(metric if adds_up else None, by_arm)

    return InformationByDay(days, information_until)


def _estimate_information(metric: Metric | None, arms: Sequence[Sequence[Moments]]) -> float:
    """Return the information of unit-days, 1 / variance of their effect.

    Without a metric, the information is computed from the numbers of unit-days.
    """
    if not all(arms):
        return 0.0
    if metric is None:
        # Unit-days take the place of a variance, up to a constant.
        return 1 / sum(1 / sum(day.n for day in days) for days in arms)
    try:
        totals = [first.drop_third().merge(*days) for first, *days in arms]
        values = [means.estimate(metric, total) for total in totals]
    except Refusal:
        return 0.0
    variance = sum(value.variance for value in values)
    units = sum(value.units for value in values)
    # A total per unit grows while units return; its mean is the scale of its information.
    average = sum(value.units * value.value for value in values) / units
    scale = average if metric.kind == "mean" else 1.0
    return scale**2 / variance if variance > 0 else 0.0


def _find_refusal(metric: Metric, analysis: Analysis) -> Reason | None:
    """Return why a metric cannot be compared in any variant; None if it can."""
    aggregates, inference = analysis.aggregates, analysis.experiment.inference
    if metric.name in aggregates.refused:
        return "missing_columns"
    if "score" in metric.needs and aggregates.facts["scored"] == 0:
        return "no_scores"
    if "click" in metric.needs and aggregates.facts["clicks"] == 0:
        return "no_clicks"
    if aggregates.clusters is not None and not metric.is_mean_or_ratio:
        return "clustered"
    if analysis.experiment.switchback is not None and not clustered.is_row_ratio(metric):
        return "switched"
    # Only sums over units can be compared within split periods.
    apart = metric.kind in ("quantile", "catalogue", "auc") or inference.resample == "permutation"
    return "split_changed" if aggregates.split_periods and apart else None
