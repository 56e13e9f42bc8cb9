"""Compare means and ratios of two variants by their moments.

If the traffic split changed, moments are kept by split period, and every period has the same weight
in both variants: its share of all units (post-stratification).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import MomentsByPeriod, pool_moments
from abeval.errors import ExperimentError
from abeval.experiment.added import find_test
from abeval.inference import comparison, special_tests
from abeval.inference.comparison import (
    Arms,
    Comparison,
    Rule,
    lift_reason,
    refuse_comparison,
    translate_refusal,
)
from abeval.metrics.definition import Metric, find_rounding_step
from abeval.stats import adjustment, means, proportions
from abeval.stats.moments import Moments, weigh_strata
from abeval.stats.records import Adjusted, Estimate, Refusal
from abeval.stats.skewed import METHOD, Skewed

MIN_PERIOD_UNITS = 30
"""A split period with fewer units in a variant is not compared."""

# Strata with fewer units in a variant are merged.
_MIN_STRATUM = 30

# Units that differ by less than this share of the value, by rounding, count as equal.
_ALIKE = 1e-6


class Pair(NamedTuple):
    """Moments of control and of a variant; None if there is nothing to compare."""

    control: Moments | None
    treatment: Moments | None


class Strata(NamedTuple):
    """Groups of units that are compared separately, with equal weights.

    Attributes:
        pairs: Moments of control and of the variant in each stratum.
        shares: Weight of each stratum; None to weigh by units.
        adjusts: Whether the strata reduce variance, as cells do; split periods do not.
    """

    pairs: Sequence[tuple[Moments, Moments]]
    shares: Sequence[float] | None = None
    adjusts: bool = False


class _Sample(NamedTuple):
    """Input of one test: moments of two variants, the rule and the strata."""

    metric: Metric
    arms: tuple[Moments, Moments]
    rule: Rule
    strata: Strata
    skewness: tuple[float, bool] | None


def compare_within(
    metric: Metric, moments: MomentsByPeriod, arms: Arms, rule: Rule, cells: Strata | None = None
) -> Comparison:
    """Compare two variants within split periods, and within cells if given."""
    pair, indices, can_be_weighed = pool_pair(moments, arms), list[int](), True
    if len(moments) > 1:
        indices, can_be_weighed = find_usable_periods(moments, arms), metric.is_mean_or_ratio
    if can_be_weighed and len(indices) > 1 and rule.looks is None:
        # Split periods cannot be weighed where an exact test would judge.
        pooled_moments = pool_moments([moments[index] for index in indices])
        can_be_weighed = (
            special_tests.count_rare_successes(
                pooled_moments[arms.control], pooled_moments[arms.treatment]
            )
            is None
        )
    if not can_be_weighed:
        control, treatment = (0 if arm is None else arm.n for arm in pair)
        return refuse_comparison(control, treatment, "split_changed")
    strata = cells
    if strata is None and len(indices) > 1:
        both = [(moments[p][arms.control], moments[p][arms.treatment]) for p in indices]
        strata = Strata(both, weigh_split_periods(moments, indices))
    return compare_moments(metric, *pair, rule, strata)


def compare_moments(
    metric: Metric,
    control: Moments | None,
    treatment: Moments | None,
    rule: Rule,
    strata: Strata | None = None,
    skewness: tuple[float, bool] | None = None,
) -> Comparison:
    """Compare two variants by their moments of (y, x, y0, x0, z, …).

    Moments are of all units, already weighted if there are split periods. `strata` are cells to
    adjust by, or the split periods; only these have third moments. `skewness` replaces third
    moments: the skewness of unit values, and whether an effect multiplies values.
    """
    units = 0 if control is None else control.n, 0 if treatment is None else treatment.n
    if control is None or treatment is None or 0 in units:
        return refuse_comparison(*units, "no_units")
    if control.mean[1] == 0 or treatment.mean[1] == 0:
        return refuse_comparison(*units, "empty_denominator")
    arms = control, treatment
    first, second = (float(arm.mean[0] / arm.mean[1]) for arm in arms)
    largest = max(control.largest, treatment.largest) if metric.kind == "ratio" else 0.0
    bare = Comparison(*units, first, second, largest_share=largest)
    try:
        return _add_effect(bare, _Sample(metric, arms, rule, strata or Strata([arms]), skewness))
    except special_tests.TooSkewed as refusal:
        return bare._replace(reason="too_skewed", units_needed=refusal.units_needed)
    except Refusal as refusal:
        return bare._replace(reason=translate_refusal(refusal))


def _add_effect(bare: Comparison, sample: _Sample) -> Comparison:
    """Add the effect by the first test that applies.

    In order: the metric's own, exact, permutation, adjusted, plain.
    """
    metric, arms, rule, strata, _ = sample
    if metric.test is not None:
        return _add_tested_effect(bare, metric, metric.test, arms, rule)
    control, treatment = (_estimate(metric, arm) for arm in arms)
    bare, method = bare._replace(treatment_estimate=treatment), _choose_method(metric, *arms)
    if not metric.is_mean_or_ratio:
        return comparison.add_difference(bare, control, treatment, method, rule)
    # Exact tests have no correction for looks.
    counts = special_tests.count_rare_successes(*arms) if rule.looks is None else None
    if counts is not None:
        effect = special_tests.compare_counts(counts, rule.alpha, metric.unit == "share")
        lift = comparison.none_if_refused(lambda: proportions.exact_lift(*counts, rule.alpha))
        return bare._replace(
            effect=effect,
            lift=lift,
            reason=lift_reason(lift),
            treatment_estimate=None,
            rare=counts,
        )
    is_planned = rule.adjust in ("cuped", "regression") and not strata.adjusts
    past = _pick_covariates(metric, *arms) if is_planned else None
    adjusted = _adjust_effect(sample, past)
    if control.variance + treatment.variance > 0:
        permuted = _select_skewed(sample, (control, treatment), past)
        if permuted is not None:
            prefix = "post_stratified_" if strata.adjusts else "cuped_"
            name = METHOD if adjusted is None else prefix + METHOD
            judged = comparison.add_permutation_test(bare, permuted, name, rule)
            return judged._replace(adjusted=adjusted)
        if adjusted is not None:
            if rule.adjust == "cuped":
                cuped_effect = adjusted.effect._replace(method=f"cuped_{method}")
                adjusted = adjusted._replace(effect=cuped_effect)
            return comparison.add_adjusted(bare, adjusted, rule)._replace(adjusted=adjusted)
    return comparison.add_difference(bare, control, treatment, method, rule)


def _add_tested_effect(
    bare: Comparison, metric: Metric, test: str, arms: tuple[Moments, Moments], rule: Rule
) -> Comparison:
    """Add the effect by the test statistic that the metric names.

    Raises:
        Refusal: The test, or the comparison of its estimates, is refused.
        ExperimentError: The test fails.
    """
    # Moments may have the past and covariates behind numerator and denominator.
    moments = [arm.pick(0, 1) for arm in arms]
    try:
        control, treatment = (Estimate(*estimate) for estimate in find_test(test)(*moments))
    except Refusal:
        raise
    except Exception as error:
        what = f"the test statistic {test!r} fails for {metric.name}: {error!r}"
        raise ExperimentError(
            what, "it returns an Estimate of control and one of the treatment"
        ) from error
    named = bare._replace(
        control=control.value, treatment=treatment.value, treatment_estimate=treatment
    )
    return comparison.add_difference(named, control, treatment, test, rule)


_Past = tuple[Moments, Moments] | None
"""Moments of the value and its covariates in both variants, if any covariate varies."""


_ADJUST: Mapping[tuple[str, str], Callable[..., Adjusted]] = {
    ("mean", "stratify"): adjustment.stratified_mean,
    ("ratio", "stratify"): adjustment.stratified_ratio,
    ("mean", "cuped"): adjustment.cuped_mean,
    ("ratio", "cuped"): adjustment.cuped_ratio,
    ("mean", "regression"): adjustment.lin_mean,
    ("ratio", "regression"): adjustment.lin_ratio,
}


def _adjust_effect(sample: _Sample, past: _Past) -> Adjusted | None:
    """Adjust the effect by strata or by pre-period values, as planned."""
    metric, _, rule, strata, _ = sample
    if strata.adjusts:
        arms = zip(*strata.pairs, strict=True)
        return _ADJUST[metric.kind, "stratify"](*map(list, arms), rule.alpha)
    return past and _ADJUST[metric.kind, rule.adjust](*past, rule.alpha)


def _select_skewed(
    sample: _Sample, values: tuple[Estimate, Estimate], past: _Past
) -> Skewed | None:
    """Select the input of the permutation test; None if values are not skewed."""
    metric, arms, rule, strata, skewness = sample
    is_ratio = metric.kind != "mean"
    if skewness is not None:
        are_shares = not is_ratio and special_tests.has_shares(*arms)
        return special_tests.find_skewed_by_skewness(values, *skewness, are_shares, is_ratio)
    if past is None:
        return special_tests.find_skewed_by_moments(strata.pairs, is_ratio, strata.shares)
    # Variants that do not differ have one slope: CUPED's, also where each has its own.
    theta = _ADJUST[metric.kind, "cuped"](*past, rule.alpha).theta
    return special_tests.find_skewed_by_moments([past], is_ratio, theta=theta)


def _pick_covariates(metric: Metric, control: Moments, treatment: Moments) -> _Past:
    """Pick the value and its covariates; None if no covariate varies."""
    arms, is_new = (control, treatment), control.mean.size - 1
    # A constant explains nothing, such as the units of a mean, or the past of a table of units.
    before = [k for k in range(2, is_new) if any(arm.covariance[k, k] > 0 for arm in arms)]
    # Of units that are all new, their own past does not vary.
    if not all(any(arm.covariance[k, k] > 0 for k in before) for arm in arms):
        return None
    # Units without a pre-period are a stratum of their own, if they are some and not all.
    stratum = (is_new,) if all(0 < arm.mean[is_new] < 1 for arm in arms) else ()
    terms = (0,) if metric.kind == "mean" else (0, 1)
    first, second = (arm.pick(*terms, *before, *stratum) for arm in arms)
    return first, second


def build_strata(cells: Sequence[MomentsByPeriod], arms: Arms) -> Strata:
    """Build strata from the cells of a segment; merge small ones within a period."""
    all_cells, strata = pool_cells(cells), list[tuple[Moments, Moments]]()
    for index in find_usable_periods(all_cells, arms) if len(all_cells) > 1 else [0]:
        period_cells = [cell[index] for cell in cells if any(name in cell[index] for name in arms)]
        if not period_cells:
            continue
        empty = Moments.of(*[[]] * next(iter(period_cells[0].values())).mean.size)
        pairs = [
            (by_variant.get(arms.control, empty), by_variant.get(arms.treatment, empty))
            for by_variant in period_cells
        ]
        # Merge the smallest stratum with the next, until all are large enough.
        pairs.sort(key=_count_fewest_units)
        while len(pairs) > 1 and _count_fewest_units(pairs[0]) < _MIN_STRATUM:
            (first, second), rest = pairs[:2], pairs[2:]
            pairs = sorted(
                [(first[0] + second[0], first[1] + second[1]), *rest], key=_count_fewest_units
            )
        strata += pairs
    return Strata(strata, adjusts=True)


def _count_fewest_units(pair: tuple[Moments, Moments]) -> int:
    return min(arm.n for arm in pair)


def estimate(metric: Metric, moments: Moments) -> Estimate:
    """Return the value of a mean or a ratio in one variant."""
    return means.estimate_mean(moments) if metric.kind == "mean" else means.estimate_ratio(moments)


def _estimate(metric: Metric, moments: Moments) -> Estimate:
    """Estimate a variant's value; variance 0 if units differ only by rounding."""
    exact = estimate(metric, moments)
    mean, spread = abs(float(moments.mean[1])), exact.variance * moments.n
    # A rounded value is off by half a step at most, the sum of m by some √m of it.
    noise = (0.75 * find_rounding_step(metric)) ** 2 * max(1.0, mean) / mean / mean
    alike = spread <= min(noise, (_ALIKE * exact.value) ** 2)
    return exact._replace(variance=0.0) if alike else exact


def _choose_method(metric: Metric, *arms: Moments) -> str:
    """Choose the id of the test at a fixed horizon."""
    methods = {"mean": "welch_t", "auc": "influence_t"}
    return methods.get(metric.kind) or means.name_ratio_method(*arms)


def find_usable_periods(moments: MomentsByPeriod, arms: Arms) -> list[int]:
    """Find the split periods in which both variants have enough units."""
    return [
        index
        for index, by_variant in enumerate(moments)
        if min(by_variant[name].n if name in by_variant else 0 for name in arms) >= MIN_PERIOD_UNITS
    ]


def weigh_split_periods(moments: MomentsByPeriod, indices: Sequence[int]) -> list[float]:
    """Return each split period's share of all units."""
    sizes = [
        sum(variant_moments.n for variant_moments in moments[index].values()) for index in indices
    ]
    return [size / sum(sizes) for size in sizes]


def pool_pair(moments: MomentsByPeriod, arms: Arms) -> Pair:
    """Pool the moments of two variants over comparable split periods."""
    indices = [0] if len(moments) == 1 else find_usable_periods(moments, arms)
    if len(indices) < 2:
        by_variant = moments[indices[0]] if indices else {}
        return Pair(by_variant.get(arms.control), by_variant.get(arms.treatment))
    shares = weigh_split_periods(moments, indices)
    return Pair(
        *(weigh_strata([moments[index][name] for index in indices], shares) for name in arms)
    )


def pool_cells(cells: Sequence[MomentsByPeriod]) -> MomentsByPeriod:
    """Pool the units of several cells, by split period and variant."""
    return [pool_moments(of_stretch) for of_stretch in zip(*cells, strict=True)]


def find_comparable_periods(aggregates: Aggregates, arms: Arms) -> list[int]:
    """Find the split periods in which both variants have enough units."""
    counts = [
        [split_period.units.get(name, 0) for name in arms]
        for split_period in aggregates.split_periods
    ]
    return [index for index, units in enumerate(counts) if min(units) >= MIN_PERIOD_UNITS]
