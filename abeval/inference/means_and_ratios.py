"""Compare means and ratios of two variants by their moments.

If the traffic split changed, moments are kept by split period, and every period has the same weight
in both variants: its share of all units (post-stratification).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import ByStretch, pooled
from abeval.experiment.sections import Adjust
from abeval.inference import comparison, special_tests
from abeval.inference.comparison import Arms, Comparison, Rule, limit, reason_of, refused
from abeval.metrics.definition import Metric, rounding
from abeval.stats import adjustment, means, proportions
from abeval.stats.moments import Moments, stratified
from abeval.stats.records import Adjusted, Estimate, Refusal
from abeval.stats.skewed import METHOD, Skewed

MIN_STRETCH = 30
"""A split period with fewer units in a variant is not compared."""

MIN_STRATUM = 30
"""Strata with fewer units in a variant are merged."""

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
    metric: Metric, moments: ByStretch, arms: Arms, rule: Rule, cells: Strata | None = None
) -> Comparison:
    """Compare two variants within split periods, and within cells if given."""
    pair, places, can_be_weighed = pair_of(moments, arms), list[int](), True
    if len(moments) > 1:
        places, can_be_weighed = usable(moments, arms), metric.is_mean_or_ratio
    if can_be_weighed and len(places) > 1 and rule.looks is None:
        # Stretches cannot be weighed where an exact test would judge.
        whole = pooled([moments[place] for place in places])
        can_be_weighed = special_tests.rare(whole[arms.control], whole[arms.treatment]) is None
    if not can_be_weighed:
        control, treatment = (0 if one is None else one.n for one in pair)
        return refused(control, treatment, "split_changed")
    strata = cells
    if strata is None and len(places) > 1:
        both = [(moments[p][arms.control], moments[p][arms.treatment]) for p in places]
        strata = Strata(both, weights(moments, places))
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
        return refused(*units, "no_units")
    if control.mean[1] == 0 or treatment.mean[1] == 0:
        return refused(*units, "empty_denominator")
    arms = control, treatment
    first, second = (float(one.mean[0] / one.mean[1]) for one in arms)
    largest = max(control.largest, treatment.largest) if metric.kind == "ratio" else 0.0
    bare = Comparison(*units, first, second, largest=largest)
    try:
        return _judged(bare, _Sample(metric, arms, rule, strata or Strata([arms]), skewness))
    except special_tests.TooSkewed as refusal:
        return replace(bare, reason="too_skewed", units_needed=refusal.units_needed)
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))


def _judged(bare: Comparison, sample: _Sample) -> Comparison:
    """Add the effect by the first test that applies.

    In order: exact, permutation, adjusted, plain.
    """
    metric, arms, rule, strata, _ = sample
    control, treatment = (_estimate(metric, arm) for arm in arms)
    bare, method = replace(bare, own=treatment), method_of(metric, *arms)
    if not metric.is_mean_or_ratio:
        return comparison.with_difference(bare, control, treatment, method, rule)
    # Exact tests have no correction for looks.
    counts = special_tests.rare(*arms) if rule.looks is None else None
    if counts is not None:
        effect = special_tests.compare_counts(counts, rule.alpha, metric.unit == "share")
        lift = comparison.or_none(lambda: proportions.exact_lift(*counts, rule.alpha))
        return replace(bare, effect=effect, lift=lift, reason=limit(lift), own=None, rare=counts)
    adjusted = _adjusted(sample)
    if control.variance + treatment.variance > 0:
        permuted = _skewed(sample, adjusted)
        if permuted is not None:
            prefix = "post_stratified_" if strata.adjusts else "cuped_"
            name = METHOD if adjusted is None else prefix + METHOD
            return replace(comparison.with_skewed(bare, permuted, name, rule), adjusted=adjusted)
        if adjusted is not None:
            if rule.adjust == "cuped":
                named = adjusted.effect._replace(method=f"cuped_{method}")
                adjusted = adjusted._replace(effect=named)
            return replace(comparison.with_joint(bare, adjusted, rule), adjusted=adjusted)
    return comparison.with_difference(bare, control, treatment, method, rule)


def _adjusted(sample: _Sample) -> Adjusted | None:
    """Adjust the effect by strata or by pre-period values, as planned."""
    metric, arms, rule, strata, _ = sample
    if strata.adjusts:
        is_mean = metric.kind == "mean"
        combine = adjustment.stratified_mean if is_mean else adjustment.stratified_ratio
        control, treatment = ([pair[arm] for pair in strata.pairs] for arm in (0, 1))
        return combine(control, treatment, rule.alpha)
    past = of_past(metric, *arms) if rule.adjust in ("cuped", "regression") else None
    return past and by_past(metric, past, rule.adjust, rule.alpha)


def _skewed(sample: _Sample, adjusted: Adjusted | None) -> Skewed | None:
    """Select the input of the permutation test; None if values are not skewed."""
    metric, arms, rule, strata, skewness = sample
    is_ratio = metric.kind != "mean"
    if skewness is not None:
        are_shares = not is_ratio and special_tests.has_shares(*arms)
        values = [_estimate(metric, arm) for arm in arms]
        return special_tests.by_skewness(values, *skewness, are_shares, is_ratio)
    past = None if adjusted is None or strata.adjusts else of_past(metric, *arms)
    if past is None:
        return special_tests.by_moments(strata.pairs, is_ratio, strata.shares)
    # Variants that do not differ have one slope: CUPED's, also where each has its own.
    theta = by_past(metric, past, "cuped", rule.alpha).theta
    return special_tests.by_moments([past], is_ratio, theta=theta)


def by_past(
    metric: Metric, past: tuple[Moments, Moments], adjust: Adjust, alpha: float
) -> Adjusted:
    """Adjust by covariates: CUPED with one slope, or Lin's regression with two."""
    is_mean = metric.kind == "mean"
    if adjust == "regression":
        return (adjustment.lin_mean if is_mean else adjustment.lin_ratio)(*past, alpha)
    return (adjustment.cuped_mean if is_mean else adjustment.cuped_ratio)(*past, alpha)


def of_past(metric: Metric, control: Moments, treatment: Moments) -> tuple[Moments, Moments] | None:
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


def strata_of(cells: Sequence[ByStretch], arms: Arms) -> Strata:
    """Build strata from the cells of a segment; merge small ones within a period."""
    whole, strata = together(cells), list[tuple[Moments, Moments]]()
    for place in usable(whole, arms) if len(whole) > 1 else [0]:
        own = [one[place] for one in cells if any(name in one[place] for name in arms)]
        if not own:
            continue
        empty = Moments.of(*[[]] * next(iter(own[0].values())).mean.size)
        pairs = [(one.get(arms.control, empty), one.get(arms.treatment, empty)) for one in own]
        # Merge the smallest stratum with the next, until all are large enough.
        pairs.sort(key=_smaller)
        while len(pairs) > 1 and _smaller(pairs[0]) < MIN_STRATUM:
            (first, second), rest = pairs[:2], pairs[2:]
            pairs = sorted([(first[0] + second[0], first[1] + second[1]), *rest], key=_smaller)
        strata += pairs
    return Strata(strata, adjusts=True)


def _smaller(pair: tuple[Moments, Moments]) -> int:
    return min(arm.n for arm in pair)


def estimate(metric: Metric, moments: Moments) -> Estimate:
    """Return the value of a mean or a ratio in one variant."""
    return means.estimate_mean(moments) if metric.kind == "mean" else means.estimate_ratio(moments)


def _estimate(metric: Metric, moments: Moments) -> Estimate:
    """Estimate a variant's value; variance 0 if units differ only by rounding."""
    exact = estimate(metric, moments)
    mean, spread = abs(float(moments.mean[1])), exact.variance * moments.n
    # A rounded value is off by half a step at most, the sum of m by some √m of it.
    noise = (0.75 * rounding(metric)) ** 2 * max(1.0, mean) / mean / mean
    alike = spread <= min(noise, (_ALIKE * exact.value) ** 2)
    return exact._replace(variance=0.0) if alike else exact


def method_of(metric: Metric, *arms: Moments) -> str:
    """Choose the id of the test at a fixed horizon."""
    known = {"mean": "welch_t", "auc": "influence_t"}
    return known.get(metric.kind) or means.method_of_ratio(*arms)


def usable(moments: ByStretch, arms: Arms) -> list[int]:
    """Find the split periods in which both variants have enough units."""
    return [
        place
        for place, one in enumerate(moments)
        if min(one[name].n if name in one else 0 for name in arms) >= MIN_STRETCH
    ]


def weights(moments: ByStretch, places: Sequence[int]) -> list[float]:
    """Return each split period's share of all units."""
    sizes = [sum(one.n for one in moments[place].values()) for place in places]
    return [size / sum(sizes) for size in sizes]


def pair_of(moments: ByStretch, arms: Arms) -> Pair:
    """Pool the moments of two variants over comparable split periods."""
    places = [0] if len(moments) == 1 else usable(moments, arms)
    if len(places) < 2:
        one = moments[places[0]] if places else {}
        return Pair(one.get(arms.control), one.get(arms.treatment))
    shares = weights(moments, places)
    return Pair(*(stratified([moments[place][name] for place in places], shares) for name in arms))


def together(cells: Sequence[ByStretch]) -> ByStretch:
    """Pool the units of several cells, by split period and variant."""
    return [pooled(of_stretch) for of_stretch in zip(*cells, strict=True)]


def comparable(aggregates: Aggregates, arms: Arms) -> list[int]:
    """Find the split periods in which both variants have enough units."""
    counts = [[stretch.units.get(name, 0) for name in arms] for stretch in aggregates.stretches]
    return [place for place, of in enumerate(counts) if min(of) >= MIN_STRETCH]
