"""An analysis, and how each of its metrics is compared: by its kind, as the plan says.

`judge.py`, `pairwise.py` and `power.py` make an `Analysis` of the aggregates, `time/cut.py` one per
window; the rows of the result are read from its comparisons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import CAPPED, SEGMENT, WHOLE, ByStretch
from abeval.experiment.model import Experiment
from abeval.inference import compare
from abeval.inference.comparison import Arms, Comparison, Key, Reason, Rule, refused
from abeval.inference.looks import looks_of
from abeval.inference.means_and_ratios import (
    Strata,
    compare_strata,
    compare_within,
    is_unweighable,
    pair_of,
    together,
    usable,
)
from abeval.inference.other_kinds import compare_catalogue, compare_quantiles, compare_resampled
from abeval.metrics.definition import (
    CATEGORY_DIVERSITY,
    GAUC,
    SERVED_RANKING,
    Metric,
    covariate_scales,
    scales,
)
from abeval.stats.effects import compare_with_image, with_gain
from abeval.stats.moments import Moments

_AVERAGES = (GAUC, SERVED_RANKING, CATEGORY_DIVERSITY)
"""Sources of averages of a quality, whose numerators are totals of nothing."""


@dataclass(frozen=True)
class Analysis:
    """What every part of a result is computed from.

    Attributes:
        experiment: The plan.
        metrics: The metrics of the scorecard, in order.
        aggregates: What the logs add up to.
        permutations: Of catalogue metrics in `comparisons`; with 0 the jackknife tests them.
    """

    experiment: Experiment
    metrics: Sequence[Metric]
    aggregates: Aggregates
    permutations: int = 1000

    @property
    def rows(self) -> list[tuple[Metric, str]]:
        """Every metric in every variant but control: the rows of the scorecard."""
        return [(metric, name) for metric in self.metrics for name in self.experiment.treatments]

    @cached_property
    def comparisons(self) -> dict[Key, Comparison]:
        """Every metric in every variant against control.

        Catalogue metrics are compared together, because they count the same items.
        """
        together = _compare_catalogues(self)
        return {
            (metric.name, variant): together.get((metric.name, variant))
            or compare(self, metric, Arms(self.experiment.control, variant))
            for metric, variant in self.rows
        }

    def moments(self, metric: Metric, slice_name: str = WHOLE, cell: str = "") -> ByStretch:
        """Moments of (y, x, y0, x0, z) by stretch and variant, in the metric's own unit."""
        return self.aggregates.of(metric.name, slice_name, cell, scales(metric))


def _compare_catalogues(analysis: Analysis) -> dict[Key, Comparison]:
    experiment, aggregates = analysis.experiment, analysis.aggregates
    metrics = [
        metric
        for metric in analysis.metrics
        if metric.kind == "catalogue" and _refusal(metric, analysis) is None
    ]
    if not metrics:
        return {}
    control = aggregates.incidence(experiment.control)
    by_name, rule = {metric.name: metric for metric in metrics}, Rule(experiment.alpha)
    return {
        (name, variant): with_gain(by_name[name], comparison, rule)
        for variant in experiment.treatments
        for name, comparison in compare_catalogue(
            metrics,
            (control, aggregates.incidence(variant)),
            experiment.alpha,
            analysis.permutations,
        ).items()
    }


def compare(analysis: Analysis, metric: Metric, arms: Arms) -> Comparison:
    """Compare two variants on one metric, by the method of its kind and of the plan."""
    own = _compare(analysis, metric, arms)
    if metric.direction.toward is None or own.effect is None:
        return own
    rule = rule_of(analysis, metric, arms)
    return with_gain(metric, own, rule, _mirrored(analysis, metric, arms, rule))


def compare_total(analysis: Analysis, metric: Metric, arms: Arms) -> Comparison:
    """Compare the total of a ratio's numerator per unit, adjusted by its own past alone.

    It is divided by control's mean denominator, so that the ratio's margin fits it. Averages of a
    quality, and ratios with a target, have no total that says whether the variant is better.
    """
    moments = _moments(analysis, metric)
    control = pair_of(moments, arms).control
    if metric.source in _AVERAGES or metric.direction.toward is not None or control is None:
        return refused(*arms.units(analysis.aggregates), "denominator_moved")
    base = float(control.mean[1])
    totals = [{name: per_unit(one, base) for name, one in arm.items()} for arm in moments]
    mean = replace(metric, kind="mean", per=None, unit="", covariates=())
    return compare_within(mean, totals, arms, rule_of(analysis, metric, arms))


def per_unit(moments: Moments, base: float = 1.0) -> Moments:
    """Moments of (y / base, 1, y0, 1, z) of those of (y, x, y0, x0, z), or of the first two."""
    size = moments.mean.size
    factor = np.array([1.0 / base, 0.0, 1.0, 0.0, 1.0])[:size]
    ones = np.array([0.0, 1.0, 0.0, 1.0, 0.0])[:size]
    square = np.outer(factor, factor)
    third = None if moments.third is None else moments.third * np.multiply.outer(square, factor)
    comoment = moments.comoment * square
    return Moments(moments.n, moments.mean * factor + ones, comoment, moments.effective, third)


def _mirrored(analysis: Analysis, metric: Metric, arms: Arms, rule: Rule) -> Comparison | None:
    """The variant against control's mirror image in the target, where moments can be mirrored."""
    if not metric.is_mean_or_ratio or rule.resample or analysis.experiment.inference.stratify_by:
        return None
    return compare_with_image(metric, _moments(analysis, metric), arms, rule)


def _moments(analysis: Analysis, metric: Metric) -> ByStretch:
    """Moments of all units, with its cap if the metric has one."""
    is_capped = metric.name in analysis.aggregates.caps
    return analysis.moments(metric, CAPPED if is_capped else WHOLE)


def _compare(analysis: Analysis, metric: Metric, arms: Arms) -> Comparison:
    aggregates = analysis.aggregates
    units = arms.units(aggregates)
    why = _refusal(metric, analysis)
    if why is not None:
        return refused(*units, why)
    rule = rule_of(analysis, metric, arms)
    if metric.kind == "catalogue":
        control, treatment = (aggregates.incidence(name) for name in arms)
        return compare_catalogue([metric], (control, treatment), rule.alpha)[metric.name]
    if metric.kind == "quantile":
        return compare_quantiles(metric, aggregates, arms, rule)
    if metric.kind == "function" or (rule.resample and metric.is_mean_or_ratio):
        return compare_resampled(metric, aggregates, arms, rule)
    segment = analysis.experiment.inference.stratify_by
    if segment is not None and metric.is_mean_or_ratio:
        return _compare_cells(analysis, metric, SEGMENT + segment, arms)
    own = compare_within(metric, _moments(analysis, metric), arms, rule)
    # Skewed values are adjusted by their own past alone: three covariates have no known product.
    if not metric.covariates or own.is_skewed:
        return own
    moments = aggregates.with_covariates(metric.name, covariate_scales(metric))
    return compare_within(metric, moments, arms, rule)


def _compare_cells(analysis: Analysis, metric: Metric, slice_name: str, arms: Arms) -> Comparison:
    """Compare two variants within the cells of a segment, in each stretch."""
    cells = {
        cell: analysis.moments(metric, slice_name, cell)
        for cell in analysis.aggregates.cells(metric.name, slice_name)
    }
    if not cells:
        return refused(*arms.units(analysis.aggregates), "no_units")
    whole = together(list(cells.values()))
    places = usable(whole, arms) if len(whole) > 1 else [0]
    strata = [Strata(*(_of_variant(cells, place, name) for name in arms)) for place in places]
    units = arms.units(analysis.aggregates)
    rule = rule_of(analysis, metric, arms)
    if is_unweighable(metric, whole, arms, rule):
        return refused(*units, "split_changed")
    return compare_strata(metric, pair_of(whole, arms), strata, rule)


def _of_variant(cells: Mapping[str, ByStretch], place: int, variant: str) -> dict[str, Moments]:
    """A variant's moments in each cell that it has in a stretch."""
    return {cell: one[place][variant] for cell, one in cells.items() if variant in one[place]}


def rule_of(analysis: Analysis, metric: Metric, arms: Arms) -> Rule:
    """The rule for a comparison of two variants on a metric."""
    experiment, inference = analysis.experiment, analysis.experiment.inference
    aggregates, gathered = analysis.aggregates, None
    if inference.looks == "group_sequential":
        gathered = compare.by_day(metric, analysis.metrics, aggregates, arms)
    looks = looks_of(experiment, arms.units(aggregates), aggregates.days, gathered)
    return Rule(experiment.alpha, inference.relative, inference.adjust, looks, inference.resample)


def _refusal(metric: Metric, analysis: Analysis) -> Reason | None:
    """Why a metric has nothing to compare, whatever the variants."""
    return _empty_log(metric, analysis.aggregates) or _changed_split(metric, analysis)


def _changed_split(metric: Metric, analysis: Analysis) -> Reason | None:
    """Only sums over units can be compared within stretches of entry days."""
    if not analysis.aggregates.stretches:
        return None
    by_permutation = analysis.experiment.inference.resample == "permutation"
    if metric.kind in ("quantile", "catalogue", "auc") or by_permutation:
        return "split_changed"
    return None


def _empty_log(metric: Metric, aggregates: Aggregates) -> Reason | None:
    """Why the whole log has nothing for a metric to measure."""
    if metric.name in aggregates.refused:
        return "missing_columns"
    if "score" in metric.needs and aggregates.facts["scored"] == 0:
        return "no_scores"
    if "click" in metric.needs and aggregates.facts["clicks"] == 0:
        return "no_clicks"
    return None
