"""An analysis, and how each of its metrics is compared: by its kind, as the plan says.

`judge.py`, `pairwise.py` and `power.py` make an `Analysis` of the aggregates, `time/cut.py` one per
window; the rows of the result are read from its comparisons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from abeval.aggregates.aggregates import CAPPED, SEGMENT, WHOLE, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.comparison import Arms, Comparison, Key, Reason, Rule, refused
from abeval.inference.looks import looks_of
from abeval.inference.means_and_ratios import compare_moments, compare_strata
from abeval.inference.other_kinds import compare_catalogue, compare_quantiles, compare_resampled
from abeval.metrics.definition import Metric, covariate_scales, scales
from abeval.stats.moments import Moments


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

    @cached_property
    def exact(self) -> frozenset[str]:
        """Metrics of 0s and 1s that an exact test judges in every variant."""
        rows = self.comparisons.items()
        large = {name for (name, _), comparison in rows if comparison.rare is None}
        return frozenset(metric.name for metric in self.metrics if metric.name not in large)

    def moments(
        self, metric: Metric, slice_name: str = WHOLE, cell: str = ""
    ) -> dict[str, Moments]:
        """Moments of (y, x, y0, x0, z) by variant, in the metric's own unit."""
        return self.aggregates.of(metric.name, slice_name, cell, scales(metric))


def _compare_catalogues(analysis: Analysis) -> dict[Key, Comparison]:
    experiment, aggregates = analysis.experiment, analysis.aggregates
    metrics = [
        metric
        for metric in analysis.metrics
        if metric.kind == "catalogue" and _empty_log(metric, aggregates) is None
    ]
    if not metrics:
        return {}
    control = aggregates.incidence(experiment.control)
    return {
        (name, variant): comparison
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
    aggregates = analysis.aggregates
    units = arms.units(aggregates)
    empty = _empty_log(metric, aggregates)
    if empty is not None:
        return refused(*units, empty)
    rule = rule_of(analysis, units)
    if metric.kind == "catalogue":
        control, treatment = (aggregates.incidence(name) for name in arms)
        return compare_catalogue([metric], (control, treatment), rule.alpha)[metric.name]
    if metric.kind == "quantile":
        return compare_quantiles(metric, aggregates, arms, rule)
    if metric.kind == "function" or (rule.resample and metric.is_mean_or_ratio):
        return compare_resampled(metric, aggregates, arms, rule)
    segment = analysis.experiment.inference.stratify_by
    if segment is not None and metric.is_mean_or_ratio:
        cells = [_by_cell(analysis, metric, SEGMENT + segment, name) for name in arms]
        return compare_strata(metric, cells[0], cells[1], rule)
    if metric.covariates:
        moments = aggregates.with_covariates(metric.name, covariate_scales(metric))
    else:
        moments = analysis.moments(metric, CAPPED if metric.name in aggregates.caps else WHOLE)
    return compare_moments(metric, moments.get(arms.control), moments.get(arms.treatment), rule)


def _by_cell(
    analysis: Analysis, metric: Metric, slice_name: str, variant: str
) -> dict[str, Moments]:
    """A variant's moments in each cell of a segment."""
    cells = {
        cell: analysis.moments(metric, slice_name, cell)
        for cell in analysis.aggregates.cells(metric.name, slice_name)
    }
    return {cell: moments[variant] for cell, moments in cells.items() if variant in moments}


def rule_of(analysis: Analysis, units: tuple[int, int]) -> Rule:
    """The rule for a comparison of so many units of control and of a variant."""
    experiment, inference = analysis.experiment, analysis.experiment.inference
    looks = looks_of(experiment, units, analysis.aggregates.days)
    return Rule(experiment.alpha, inference.relative, inference.adjust, looks, inference.resample)


def _empty_log(metric: Metric, aggregates: Aggregates) -> Reason | None:
    """Why the whole log has nothing for a metric to measure."""
    if metric.name in aggregates.refused:
        return "missing_columns"
    if "score" in metric.needs and aggregates.facts["scored"] == 0:
        return "no_scores"
    if "click" in metric.needs and aggregates.facts["clicks"] == 0:
        return "no_clicks"
    return None
