"""Every metric of an experiment compared, each as its kind and the plan ask."""

from collections.abc import Mapping, Sequence

from abeval.aggregates.aggregates import CAPPED, SEGMENT, WHOLE, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.catalogue_comparison import compare_catalogue
from abeval.inference.comparison import (
    Comparison,
    Reason,
    Rule,
    compare_moments,
    compare_strata,
    covariate_scales,
    refused,
    scales,
)
from abeval.inference.families import Key
from abeval.inference.looks import looks_of
from abeval.inference.quantile_comparison import compare_quantiles
from abeval.inference.resampled_comparison import compare_resampled
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments


def compare_all(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    permutations: int = 1000,
) -> dict[Key, Comparison]:
    """Every metric in every variant against control, as `compare` has each.

    Those of the catalogue are compared together, for they share what is counted.

    Args:
        experiment: What was planned.
        metrics: Those wanted.
        aggregates: What the engine brought back.
        permutations: Of those of the catalogue; with 0 the jackknife tests them.
    """
    together = _catalogues(experiment, metrics, aggregates, permutations)
    keys = [(metric, variant) for metric in metrics for variant in experiment.treatments]
    return {
        (metric.name, variant): together.get((metric.name, variant))
        or compare(experiment, metric, variant, aggregates)
        for metric, variant in keys
    }


def judged_exactly(comparisons: Mapping[Key, Comparison]) -> frozenset[str]:
    """Metrics of 0s and 1s that an exact test judges in every variant."""
    names = {name for name, _ in comparisons}
    return frozenset(names - {name for (name, _), one in comparisons.items() if one.rare is None})


def _catalogues(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates, permutations: int
) -> dict[Key, Comparison]:
    chosen = [m for m in metrics if m.kind == "catalogue" and _emptiness(m, aggregates) is None]
    if not chosen:
        return {}
    control = aggregates.incidence(experiment.control)
    found: dict[Key, Comparison] = {}
    for variant in experiment.treatments:
        several = compare_catalogue(
            chosen, control, aggregates.incidence(variant), experiment.alpha, permutations
        )
        found |= {(name, variant): one for name, one in several.items()}
    return found


def compare(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    aggregates: Aggregates,
    control: str | None = None,
) -> Comparison:
    """One metric in one variant against control, or against another variant."""
    base = experiment.control if control is None else control
    units_base, units = aggregates.units_of(base), aggregates.units_of(variant)
    empty = _emptiness(metric, aggregates)
    if empty is not None:
        return refused(units_base, units, empty)
    rule = rule_of(experiment, aggregates, units_base + units)
    if metric.kind == "catalogue":
        shown = aggregates.incidence(base), aggregates.incidence(variant)
        return compare_catalogue([metric], *shown, rule.alpha)[metric.name]
    if metric.kind == "quantile":
        return compare_quantiles(metric, aggregates, base, variant, rule)
    if metric.kind == "function" or (rule.resample and metric.kind in ("mean", "ratio")):
        return compare_resampled(metric, aggregates, base, variant, rule)
    by = experiment.inference.stratify_by
    if by is not None and metric.kind in ("mean", "ratio"):
        cells = [_by_cell(metric, aggregates, by, name) for name in (base, variant)]
        return compare_strata(metric, cells[0], cells[1], rule)
    slice_name = CAPPED if metric.name in aggregates.caps else WHOLE
    if metric.covariates:
        arms = aggregates.with_covariates(metric.name, covariate_scales(metric))
    else:
        arms = aggregates.of(metric.name, slice_name, "", scales(metric))
    return compare_moments(metric, arms.get(base), arms.get(variant), rule)


def _by_cell(
    metric: Metric, aggregates: Aggregates, segment: str, variant: str
) -> dict[str, Moments]:
    """The variant's moments in each cell of a segment."""
    name = SEGMENT + segment
    cells = {
        cell: aggregates.of(metric.name, name, cell, scales(metric))
        for cell in aggregates.cells(metric.name, name)
    }
    return {cell: arms[variant] for cell, arms in cells.items() if variant in arms}


def rule_of(experiment: Experiment, aggregates: Aggregates, units: int) -> Rule:
    """How the effects of a comparison of so many units are judged."""
    inference = experiment.inference
    looks = looks_of(experiment, units, aggregates.days)
    return Rule(experiment.alpha, inference.relative, inference.adjust, looks, inference.resample)


def _emptiness(metric: Metric, aggregates: Aggregates) -> Reason | None:
    """Why a metric has nothing to measure in the whole log."""
    if metric.name in aggregates.refused:
        return "missing_columns"
    if "score" in metric.needs and aggregates.facts["scored"] == 0:
        return "no_scores"
    if "click" in metric.needs and aggregates.facts["clicks"] == 0:
        return "no_clicks"
    return None
