"""Compare quantiles, catalogue metrics and functions of metrics."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from abeval.aggregates.aggregates import Aggregates, Quantile
from abeval.aggregates.sums import BUCKETS
from abeval.inference import comparison
from abeval.inference.comparison import Arms, Comparison, Draws, Rule, limit, reason_of, refused
from abeval.inference.means_and_ratios import comparable
from abeval.metrics.definition import Metric, scales
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
        return refused(*units, "no_units")
    if not by_variant.keys() >= set(arms):
        return refused(*units, "empty_denominator")
    control, treatment = (by_variant[name] for name in arms)
    scale = scales(metric)[0]
    bare = Comparison(*units, control.value * scale, treatment.value * scale)
    try:
        arms_sided = _sided(control, units[0], scale), _sided(treatment, units[1], scale)
        low, high = (
            comparison.with_difference(bare, *side, "mid_quantile_t", rule)
            for side in quantiles.sides(*arms_sided)
        )
        return comparison.with_sides(low, high)
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))


def _sided(quantile: Quantile, units: int, scale: float) -> quantiles.SidedEstimate:
    """Convert a quantile to the metric's unit."""
    if quantile.low is None or quantile.high is None:
        raise Refusal(quantile.refused or "too_few_units", "the quantile has no interval")
    return quantiles.from_ends(
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
    comparisons = {str(name): _of_catalogue(units, one) for name, one in results.items()}
    coverage = comparisons.get("coverage")
    shows_all = all(len(np.unique(one.item)) == one.catalogue_size for one in incidences)
    if shows_all and coverage is not None and coverage.reason == "zero_variance":
        whole = replace(coverage, control=1.0, treatment=1.0, reason="all_items_shown")
        comparisons["coverage"] = whole
    return comparisons


def _of_catalogue(
    units: tuple[int, int], result: catalogue.CatalogueComparison | Refusal
) -> Comparison:
    if isinstance(result, Refusal):
        return refused(*units, reason_of(result))
    effect, lift = result.effect, result.lift
    bare = Comparison(*units, effect.control, effect.treatment, effect, lift, limit(lift))
    # Without permutations only the order of the groups is random: it decides which are left over.
    return replace(bare, draws=Draws(result.permutations, catalogue.SEED))


def compare_resampled(metric: Metric, aggregates: Aggregates, arms: Arms, rule: Rule) -> Comparison:
    """Compare two variants by resampling sub-buckets of units."""
    parts = metric.parts or (metric,)
    places, shares = _stretches(aggregates, arms)
    control, treatment = sums = [_sums(parts, aggregates, name, places) for name in arms]
    # Columns of a split period: units, then y and x of each part.
    width = 1 + 2 * len(parts)
    units = int(control[:, ::width].sum()), int(treatment[:, ::width].sum())
    if 0 in units:
        return refused(*units, "no_units")
    if any((_weighed(one.sum(axis=0), shares)[2::2] == 0).any() for one in sums):
        return refused(*units, "empty_denominator")
    statistic = _statistic(metric, shares)
    values = [float(statistic(buckets.sum(axis=0))) for buckets in sums]
    if not np.isfinite(values).all():
        return refused(*units, "not_finite")
    # Each day is left out of both variants, so that what days have in common is no error.
    least = resampling.MIN_DAYS if aggregates.days_are_units else comparison.MIN_UNITS
    bare = Comparison(*units, values[0], values[1], least=least)
    occupied = (control[:, ::width].sum(axis=1) > 0) | (treatment[:, ::width].sum(axis=1) > 0)
    try:
        resample = _METHODS.get(rule.resample or "", resampling.jackknife)
        adjusted = resample(control[occupied], treatment[occupied], statistic, rule.alpha)
        # A jackknife leaves out each group of units once: nothing of it is random.
        draws = Draws(resampling.DRAWS, resampling.SEED) if rule.resample in _METHODS else None
        return replace(
            comparison.with_joint(bare, adjusted, rule), own=adjusted.treatment, draws=draws
        )
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))


def _stretches(aggregates: Aggregates, arms: Arms) -> tuple[list[int], list[float]]:
    """Return the comparable split periods and their weights."""
    stretches = aggregates.stretches
    if not stretches:
        return [0], [1.0]
    places = comparable(aggregates, arms)
    sizes = [sum(stretches[place].units.values()) for place in places]
    return places, [size / sum(sizes) for size in sizes]


def _weighed(sums: Floats, shares: Sequence[float]) -> Floats:
    """Combine sums over split periods, weighing each period's mean.

    Sums have the shape (..., periods × columns), units first. With one period they stay as they
    are.
    """
    if len(shares) == 1:
        return sums
    # Divide by units first: periods weigh means, not sums.
    apart = sums.reshape(*sums.shape[:-1], len(shares), -1)
    return np.asarray(np.einsum("...kc,k->...c", apart / apart[..., :1], np.asarray(shares)))


def _statistic(metric: Metric, shares: Sequence[float]) -> resampling.Statistic:
    """Build the metric as a function of the sums of its parts."""
    parts = metric.parts or (metric,)
    text = metric.function or metric.name
    factors = [scales(part)[0] / scales(part)[1] for part in parts]

    def of_sums(sums: Floats) -> Floats:
        with np.errstate(all="ignore"):
            sums = _weighed(sums, shares)
            values = {
                part.name: sums[..., 1 + 2 * k] / sums[..., 2 + 2 * k] * factor
                for k, (part, factor) in enumerate(zip(parts, factors, strict=True))
            }
            return evaluate(text, values)

    return of_sums


def _sums(
    parts: Sequence[Metric], aggregates: Aggregates, variant: str, places: Sequence[int]
) -> Floats:
    """Return units and each part's sums by sub-bucket, stretches side by side.

    The shape is (buckets, periods × (1 + 2 parts)).
    """
    stretches = []
    for place in places:
        columns = [aggregates.buckets_of(part.name, variant, place) for part in parts]
        stretches += [columns[0][:, :1], *(part[:, 1:] for part in columns)]
    return np.column_stack(stretches) if stretches else np.zeros((BUCKETS, 1 + 2 * len(parts)))
