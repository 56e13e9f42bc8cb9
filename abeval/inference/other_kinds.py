"""Compare quantiles, catalogue metrics and functions of metrics."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from abeval.aggregates.aggregates import Aggregates, Quantile
from abeval.aggregates.sums import BUCKETS
from abeval.inference import comparison
from abeval.inference.comparison import (
    Arms,
    Comparison,
    Draws,
    Rule,
    lift_reason,
    refuse_comparison,
    translate_refusal,
)
from abeval.inference.means_and_ratios import find_comparable_periods
from abeval.metrics.definition import Metric, list_scales
from abeval.metrics.row_text import evaluate
from abeval.stats import catalogue, quantiles, resampling
from abeval.stats.catalogue import Functional, Incidence
from abeval.stats.records import Floats, Refusal

# Resampling with random draws; any other plan uses the jackknife.
_METHODS = {"bootstrap": resampling.bootstrap, "permutation": resampling.permutation}


def compare_quantiles(metric: Metric, aggregates: Aggregates, arms: Arms, rule: Rule) -> Comparison:
    """Compare quantiles, with a standard error towards each side."""
    by_variant = aggregates.quantiles.get(metric.name, {})
    units = arms.units(aggregates)
    if 0 in units:
        return refuse_comparison(*units, "no_units")
    if not by_variant.keys() >= set(arms):
        return refuse_comparison(*units, "empty_denominator")
    control, treatment = (by_variant[name] for name in arms)
    scale = list_scales(metric)[0]
    bare = Comparison(*units, control.value * scale, treatment.value * scale)
    try:
        pairs = zip((control, treatment), units, strict=True)
        first, second = (_scale_quantile(quantile, n, scale) for quantile, n in pairs)
        low, high = (
            comparison.add_difference(bare, *side, "mid_quantile_t", rule)
            for side in quantiles.sides(first, second)
        )
        return comparison.combine_one_sided(low, high)
    except Refusal as refusal:
        return bare._replace(reason=translate_refusal(refusal))


def _scale_quantile(quantile: Quantile, units: int, scale: float) -> quantiles.SidedEstimate:
    """Convert a quantile to the metric's unit."""
    if quantile.low is None or quantile.high is None:
        raise Refusal(quantile.refused or "too_few_units", "the quantile has no interval")
    return quantiles.estimate_from_ends(
        quantile.value * scale, quantile.low * scale, quantile.high * scale, units
    )


def compare_catalogue(
    metrics: Sequence[Metric],
    incidences: tuple[Incidence, Incidence],
    alpha: float,
    permutations: int = 1000,
) -> dict[str, Comparison]:
    """Compare coverage, Gini and entropy at equal numbers of units, by metric.

    With 0 permutations the p-value comes from the jackknife interval, which is many times faster.
    """
    functionals = [cast(Functional, metric.name) for metric in metrics]
    results = catalogue.compare_all(*incidences, functionals, alpha, permutations)
    control, treatment = (int(incidence.units_in_group.sum()) for incidence in incidences)
    units = control, treatment
    comparisons = {
        str(name): _build_catalogue_comparison(units, result) for name, result in results.items()
    }
    coverage = comparisons.get("coverage")
    shows_all = all(len(np.unique(arm.item)) == arm.catalogue_size for arm in incidences)
    if shows_all and coverage is not None and coverage.reason == "zero_variance":
        full_coverage = coverage._replace(control=1.0, treatment=1.0, reason="all_items_shown")
        comparisons["coverage"] = full_coverage
    return comparisons


def _build_catalogue_comparison(
    units: tuple[int, int], result: catalogue.CatalogueComparison | Refusal
) -> Comparison:
    if isinstance(result, Refusal):
        return refuse_comparison(*units, translate_refusal(result))
    effect, lift = result.effect, result.lift
    return Comparison(
        *units,
        control=effect.control,
        treatment=effect.treatment,
        effect=effect,
        lift=lift,
        reason=lift_reason(lift),
        # Without permutations only the order of the groups is random: it decides which are left.
        draws=Draws(result.permutations, catalogue.SEED),
    )


def compare_resampled(metric: Metric, aggregates: Aggregates, arms: Arms, rule: Rule) -> Comparison:
    """Compare two variants by resampling sub-buckets of units."""
    parts = metric.parts or (metric,)
    indices, shares = _weigh_periods(aggregates, arms)
    control, treatment = sums = [
        _stack_bucket_sums(parts, aggregates, name, indices) for name in arms
    ]
    # Columns of a split period: units, then y and x of each part.
    width = 1 + 2 * len(parts)
    units = int(control[:, ::width].sum()), int(treatment[:, ::width].sum())
    if 0 in units:
        return refuse_comparison(*units, "no_units")
    if any((_weigh_sums(buckets.sum(axis=0), shares)[2::2] == 0).any() for buckets in sums):
        return refuse_comparison(*units, "empty_denominator")
    statistic = _build_statistic(metric, shares)
    values = [float(statistic(buckets.sum(axis=0))) for buckets in sums]
    if not np.isfinite(values).all():
        return refuse_comparison(*units, "not_finite")
    # Each day is left out of both variants, so that what days have in common is no error.
    least = resampling.MIN_DAYS if aggregates.days_are_units else comparison.MIN_UNITS
    bare = Comparison(*units, values[0], values[1], min_units=least)
    occupied = (control[:, ::width].sum(axis=1) > 0) | (treatment[:, ::width].sum(axis=1) > 0)
    try:
        resample = _METHODS.get(rule.resample or "", resampling.jackknife)
        adjusted = resample(control[occupied], treatment[occupied], statistic, rule.alpha)
        # A jackknife leaves out each group of units once: nothing of it is random.
        draws = Draws(resampling.DRAWS, resampling.SEED) if rule.resample in _METHODS else None
        bare = bare._replace(treatment_estimate=adjusted.treatment, draws=draws)
        return comparison.add_adjusted(bare, adjusted, rule)
    except Refusal as refusal:
        return bare._replace(reason=translate_refusal(refusal))


def _weigh_periods(aggregates: Aggregates, arms: Arms) -> tuple[list[int], list[float]]:
    """Return the comparable split periods and their weights."""
    split_periods = aggregates.split_periods
    if not split_periods:
        return [0], [1.0]
    indices = find_comparable_periods(aggregates, arms)
    sizes = [sum(split_periods[index].units.values()) for index in indices]
    return indices, [size / sum(sizes) for size in sizes]


def _weigh_sums(sums: Floats, shares: Sequence[float]) -> Floats:
    """Combine sums over split periods, weighing each period's mean.

    Sums have the shape (..., periods × columns), units first. With one period they stay as they
    are.
    """
    if len(shares) == 1:
        return sums
    # Divide by units first: periods weigh means, not sums.
    apart = sums.reshape(*sums.shape[:-1], len(shares), -1)
    return np.asarray(np.einsum("...kc,k->...c", apart / apart[..., :1], np.asarray(shares)))


def _build_statistic(metric: Metric, shares: Sequence[float]) -> resampling.Statistic:
    """Build the metric as a function of the sums of its parts."""
    parts = metric.parts or (metric,)
    text = metric.function or metric.name
    factors = [list_scales(part)[0] / list_scales(part)[1] for part in parts]

    def evaluate_sums(sums: Floats) -> Floats:
        with np.errstate(all="ignore"):
            sums = _weigh_sums(sums, shares)
            values = {
                part.name: sums[..., 1 + 2 * k] / sums[..., 2 + 2 * k] * factor
                for k, (part, factor) in enumerate(zip(parts, factors, strict=True))
            }
            return evaluate(text, values)

    return evaluate_sums


def _stack_bucket_sums(
    parts: Sequence[Metric], aggregates: Aggregates, variant: str, indices: Sequence[int]
) -> Floats:
    """Return units and each part's sums by sub-bucket, split periods side by side.

    The shape is (buckets, periods × (1 + 2 parts)).
    """
    if not indices:
        return np.zeros((BUCKETS, 1 + 2 * len(parts)))
    split_periods = []
    for index in indices:
        columns = [aggregates.find_bucket_sums(part.name, variant, index) for part in parts]
        split_periods += [columns[0][:, :1], *(part[:, 1:] for part in columns)]
    return np.column_stack(split_periods)
