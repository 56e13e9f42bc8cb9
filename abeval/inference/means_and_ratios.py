"""Means and ratios of two variants, by their moments: the test that fits, adjusted or not.

`compare.py` hands it moments of the aggregates, `scorecard.py` and `segments.py` those of days and
cells; `trust/` and `time/axes.py` call it too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import ByStretch, pooled
from abeval.experiment.sections import Adjust
from abeval.inference import special_tests
from abeval.inference.comparison import (
    Arms,
    Comparison,
    Rule,
    limit,
    reason_of,
    refused,
    with_difference,
    with_joint,
    with_skewed,
)
from abeval.inference.special_tests import Stretches
from abeval.metrics.definition import Metric, rounding
from abeval.stats import adjustment, means, off_policy
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Estimate, Refusal
from abeval.stats.shapes import stratified
from abeval.stats.skewed import method
from abeval.stats.split_moments import Skewed

MIN_STRATUM = 30
"""Strata with fewer units than this in a variant are merged."""


def by_covariates(
    metric: Metric, control: Moments, treatment: Moments, adjust: Adjust, alpha: float
) -> Adjusted | None:
    """The effect adjusted by values from before the period; None where no unit has any.

    Args:
        metric: A mean or a ratio.
        control: Moments of (y, x, values before, whether new) over control's units.
        treatment: The same of the treatment.
        adjust: `cuped`: one slope for both variants; `regression`: one each (Lin 2013).
        alpha: Error rate of test and interval.
    """
    picked = of_covariates(metric, control, treatment)
    if picked is None:
        return None
    if adjust == "regression":
        lin = adjustment.lin_moments if metric.kind == "mean" else adjustment.lin_ratio_moments
        return lin(*picked, alpha)
    method = adjustment.mean if metric.kind == "mean" else adjustment.ratio_with
    return method(*picked, alpha)


def of_covariates(
    metric: Metric, control: Moments, treatment: Moments
) -> tuple[Moments, Moments] | None:
    """Moments of the value and what it is adjusted by; None where no unit has any.

    Args:
        metric: A mean or a ratio.
        control: Moments of (y, x, values before, whether new) over control's units.
        treatment: The same of the treatment.
    """
    arms, is_new = (control, treatment), control.mean.size - 1
    # A constant explains nothing, such as the units of a mean, or the past of a table of units.
    before = [k for k in range(2, is_new) if any(arm.covariance[k, k] > 0 for arm in arms)]
    if not all(_known_before(arm, before) for arm in arms):
        return None
    # Units without a pre-period are a stratum of their own, if they are some and not all.
    stratum = (is_new,) if all(0 < arm.mean[is_new] < 1 for arm in arms) else ()
    terms = (0,) if metric.kind == "mean" else (0, 1)
    first, second = (arm.pick(*terms, *before, *stratum) for arm in arms)
    return first, second


def _known_before(arm: Moments, covariates: Sequence[int]) -> bool:
    """Whether a covariate varies: of units that are all new, their own past does not."""
    return any(arm.covariance[k, k] > 0 for k in covariates)


class Strata(NamedTuple):
    """Moments of (y, x, …) of two variants by cell of a segment, within a stretch of entry days."""

    control: Mapping[str, Moments]
    treatment: Mapping[str, Moments]


def by_strata(metric: Metric, strata: Sequence[Strata], alpha: float) -> Adjusted:
    """Differences within the cells of a segment, combined by the cells' shares.

    Args:
        metric: A mean or a ratio.
        strata: The cells of each stretch; small ones are merged within it.
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`, `zero_variance`.
    """
    pairs = pairs_of(strata)
    arms = [c for c, _ in pairs], [t for _, t in pairs]
    method = adjustment.mean_random if metric.kind == "mean" else adjustment.ratio_random
    return method(arms[0], arms[1], alpha).adjusted


def pairs_of(strata: Sequence[Strata]) -> list[tuple[Moments, Moments]]:
    """Control's and treatment's moments of each cell of each stretch, small cells merged."""
    return [pair for one in strata for pair in _merged(one.control, one.treatment)]


def _merged(
    control: Mapping[str, Moments], treatment: Mapping[str, Moments]
) -> list[tuple[Moments, Moments]]:
    """Control's and treatment's moments of each stratum; small cells are merged into one."""
    cells = sorted({*control, *treatment})
    width = next(iter((*control.values(), *treatment.values()))).mean.size
    empty = Moments.of(*[[]] * width)
    pairs = [(control.get(cell, empty), treatment.get(cell, empty)) for cell in cells]
    pairs.sort(key=_smaller)
    while len(pairs) > 1 and _smaller(pairs[0]) < MIN_STRATUM:
        (first, second), rest = pairs[:2], pairs[2:]
        pairs = sorted([(first[0] + second[0], first[1] + second[1]), *rest], key=_smaller)
    return pairs


def _smaller(pair: tuple[Moments, Moments]) -> int:
    return min(arm.n for arm in pair)


_ALIKE = 1e-6
"""Units that differ by less than this share of the value, and only by rounding, are alike."""


@dataclass(frozen=True)
class Adjustment:
    """How variance is taken out of the comparison of two variants, if at all.

    Attributes:
        adjusted: The effect with and without it, None where there is nothing to adjust by.
        skewed: What the test of skewed values is to compare, None where large-sample tests hold.
        name: What the method is called by.
    """

    adjusted: Callable[[], Adjusted | None]
    skewed: Callable[[Adjusted | None], Skewed | None]
    name: str


def compare_moments(
    metric: Metric,
    control: Moments | None,
    treatment: Moments | None,
    rule: Rule,
    stretches: special_tests.Stretches | None = None,
) -> Comparison:
    """Compare two variants by the moments of (y, x, y0, x0, z, …) over their units.

    Args:
        metric: The metric.
        control: Moments of control's units; where the split changed, with its stretches weighed.
        treatment: The same of the treatment.
        rule: How the effect is judged.
        stretches: What they were weighed of: only these have third moments.
    """

    def adjusted() -> Adjusted | None:
        if control is None or treatment is None or not metric.is_mean_or_ratio:
            return None
        if rule.adjust not in ("cuped", "regression"):
            return None
        return by_covariates(metric, control, treatment, rule.adjust, rule.alpha)

    def skewed(adjusted: Adjusted | None) -> Skewed | None:
        if control is None or treatment is None:
            return None
        if adjusted is None:
            if stretches is not None:
                return special_tests.by_strata(metric, *stretches)
            terms = (0,) if metric.kind == "mean" else (0, 1)
            return special_tests.by_moments(metric, control.pick(*terms), treatment.pick(*terms))
        # Variants that do not differ have one slope: CUPED's, also where each has its own.
        one_slope = by_covariates(metric, control, treatment, "cuped", rule.alpha)
        arms = of_covariates(metric, control, treatment)
        if one_slope is None or arms is None:
            return None
        return special_tests.by_moments(metric, *arms, one_slope.theta)

    return _compare(metric, control, treatment, rule, Adjustment(adjusted, skewed, "cuped"))


def compare_with_shape(
    metric: Metric,
    arms: tuple[Moments | None, Moments | None],
    rule: Rule,
    shape: special_tests.Shape,
    days: int,
) -> Comparison:
    """Compare two variants by moments without third ones, whose skewness is known from elsewhere.

    Args:
        metric: A mean or a ratio.
        arms: Moments of (y, x) over units of control and of the treatment.
        rule: How the effect is judged.
        shape: How skewed values are.
        days: Of how many days they are.
    """

    def skewed(_: Adjusted | None) -> Skewed | None:
        control, treatment = arms
        if control is None or treatment is None:
            return None
        has_shares = metric.kind == "mean" and special_tests.has_shares(control, treatment)
        values = _estimate(metric, control), _estimate(metric, treatment)
        return special_tests.by_skewness(*values, shape.skewness(days), shape.scaled, has_shares)

    return _compare(metric, *arms, rule, Adjustment(lambda: None, skewed, ""))


def compare_strata(
    metric: Metric,
    whole: tuple[Moments | None, Moments | None],
    strata: Sequence[Strata],
    rule: Rule,
) -> Comparison:
    """Compare two variants by their moments in each cell of a segment.

    Args:
        metric: A mean or a ratio.
        whole: Moments of control and of the treatment over all cells.
        strata: The cells of each stretch of entry days.
        rule: How the effect is judged.
    """

    def adjusted() -> Adjusted:
        return by_strata(metric, strata, rule.alpha)

    def skewed(_: Adjusted | None) -> Skewed | None:
        pairs = pairs_of(strata)
        return special_tests.by_strata(metric, [c for c, _ in pairs], [t for _, t in pairs])

    return _compare(metric, *whole, rule, Adjustment(adjusted, skewed, "post_stratified"))


def _compare(
    metric: Metric,
    control: Moments | None,
    treatment: Moments | None,
    rule: Rule,
    adjustment: Adjustment,
) -> Comparison:
    units_control = 0 if control is None else control.n
    units = 0 if treatment is None else treatment.n
    if control is None or treatment is None or 0 in (units_control, units):
        return refused(units_control, units, "no_units")
    if control.mean[1] == 0 or treatment.mean[1] == 0:
        return refused(units_control, units, "empty_denominator")
    bare = Comparison(units_control, units, _value(control), _value(treatment))
    try:
        arms = _estimate(metric, control), _estimate(metric, treatment)
        if rule.looks is None and metric.is_mean_or_ratio:
            rare = special_tests.rare(control, treatment)
            if rare is not None:
                return _exact(bare, rare, rule, metric.unit == "share")
        adjusted = adjustment.adjusted()
        if sum(arm.variance for arm in arms) == 0:
            return with_difference(bare, *arms, method_of(metric), rule)
        if metric.is_mean_or_ratio:
            skewed = adjustment.skewed(adjusted)
            if skewed is not None:
                name = method(skewed) if adjusted is None else f"{adjustment.name}_{method(skewed)}"
                return replace(with_skewed(bare, skewed, name, rule), adjusted=adjusted)
        if adjusted is None:
            return with_difference(bare, *arms, method_of(metric), rule)
        return _with_adjusted(bare, metric, adjusted, rule)
    except special_tests.TooSkewed as refusal:
        return replace(bare, reason="too_skewed", units_needed=refusal.units_needed)
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))


def _exact(bare: Comparison, rare: special_tests.Rare, rule: Rule, is_share: bool) -> Comparison:
    effect, lift = special_tests.compare(rare, rule.alpha, is_share)
    return replace(bare, effect=effect, lift=lift, reason=limit(lift), rare=rare)


def _value(moments: Moments) -> float:
    return float(moments.mean[0] / moments.mean[1])


def estimate(metric: Metric, moments: Moments) -> Estimate:
    """The value of a mean or a ratio in one variant."""
    return means.estimate(moments) if metric.kind == "mean" else off_policy.estimate(moments)


def _estimate(metric: Metric, moments: Moments) -> Estimate:
    """A variant's value; its variance is 0 where units differ only by rounding."""
    exact = estimate(metric, moments)
    mean, spread = abs(float(moments.mean[1])), exact.variance * moments.n
    # A rounded value is off by half a step at most, the sum of m by some √m of it.
    noise = (0.75 * rounding(metric)) ** 2 * max(1.0, mean) / mean / mean
    alike = spread <= min(noise, (_ALIKE * exact.value) ** 2)
    return exact._replace(variance=0.0) if alike else exact


def _with_adjusted(bare: Comparison, metric: Metric, adjusted: Adjusted, rule: Rule) -> Comparison:
    named = adjusted.effect
    if rule.adjust == "cuped":
        named = named._replace(method=f"cuped_{method_of(metric)}")
    return replace(with_joint(bare, adjusted._replace(effect=named), rule), adjusted=adjusted)


def method_of(metric: Metric) -> str:
    """Id of the test at a fixed horizon."""
    match metric.kind:
        case "mean":
            return "welch_t"
        case "auc":
            return "influence_t"
        case _:
            return "delta_t"


MIN_STRETCH = 30
"""A stretch with fewer units than this in one of two variants cannot compare them."""


class Pair(NamedTuple):
    """Moments of control and of a variant; None where there are none to compare."""

    control: Moments | None
    treatment: Moments | None


def usable(moments: ByStretch, arms: Arms) -> list[int]:
    """The stretches in which two variants can be compared, if there are several."""
    return [
        place
        for place, one in enumerate(moments)
        if min(one[name].n if name in one else 0 for name in arms) >= MIN_STRETCH
    ]


def weights(moments: ByStretch, places: Sequence[int]) -> list[float]:
    """Each stretch's share of the units of all variants."""
    sizes = [sum(one.n for one in moments[place].values()) for place in places]
    return [size / sum(sizes) for size in sizes]


def pair_of(moments: ByStretch, arms: Arms) -> Pair:
    """Moments of two variants, with the stretches weighed alike in both."""
    if len(moments) == 1:
        return Pair(moments[0].get(arms.control), moments[0].get(arms.treatment))
    places = usable(moments, arms)
    if len(places) < 2:
        one = moments[places[0]] if places else {}
        return Pair(one.get(arms.control), one.get(arms.treatment))
    shares = weights(moments, places)
    return Pair(*(stratified([moments[place][name] for place in places], shares) for name in arms))


def compare_within(metric: Metric, moments: ByStretch, arms: Arms, rule: Rule) -> Comparison:
    """Compare two variants by their moments in each stretch."""
    pair = pair_of(moments, arms)
    if is_unweighable(metric, moments, arms, rule):
        control, treatment = (0 if one is None else one.n for one in pair)
        return refused(control, treatment, "split_changed")
    return compare_moments(metric, *pair, rule, stretches_of(moments, arms))


def stretches_of(moments: ByStretch, arms: Arms) -> Stretches | None:
    """The stretches that a pair was weighed of; None where it is of one."""
    places = usable(moments, arms) if len(moments) > 1 else []
    if len(places) < 2:
        return None
    control, treatment = ([moments[place][name] for place in places] for name in arms)
    return Stretches(control, treatment, weights(moments, places))


def is_unweighable(metric: Metric, moments: ByStretch, arms: Arms, rule: Rule) -> bool:
    """Whether several stretches cannot be combined: AUC, and what an exact test would judge."""
    if len(moments) == 1:
        return False
    if not metric.is_mean_or_ratio:
        return True
    places = usable(moments, arms)
    if len(places) < 2 or rule.looks is not None:
        return False
    whole = pooled([moments[place] for place in places])
    return special_tests.rare(whole[arms.control], whole[arms.treatment]) is not None


def together(cells: Sequence[ByStretch]) -> ByStretch:
    """The units of several cells as one, by stretch and variant."""
    return [pooled(of_stretch) for of_stretch in zip(*cells, strict=True)]


def left_out_of(aggregates: Aggregates, arms: Arms) -> list[int]:
    """The stretches in which two variants cannot be compared, though units entered in them."""
    counts = [stretch.units for stretch in aggregates.stretches]
    return [
        place
        for place, units in enumerate(counts)
        if min(units.get(name, 0) for name in arms) < MIN_STRETCH
        and max(units.get(name, 0) for name in arms) > 0
    ]


class CellSize(NamedTuple):
    """What a cell weighs in one variant.

    Attributes:
        denominator: Its total of the denominator.
        units: Its units.
    """

    denominator: float
    units: float


def cell_sizes(whole: ByStretch, cells: Sequence[ByStretch], arms: Arms) -> list[list[CellSize]]:
    """What each cell weighs in control and in the variant, each stretch weighed alike in both.

    Units are so many as would know the mix as well: 1 / Σ share² / n.

    Args:
        whole: Moments of the units of all cells.
        cells: Moments of each cell.
        arms: The two variants.
    """
    places = usable(whole, arms) if len(whole) > 1 else [0]
    shares = weights(whole, places)
    sizes = []
    for name in arms:
        n = [whole[place][name].n for place in places]
        scale = [1.0]
        if len(places) > 1:
            effective = 1 / sum(share**2 / size for share, size in zip(shares, n, strict=True))
            scale = [effective * share / size for share, size in zip(shares, n, strict=True)]
        sizes.append([_cell_size([cell[place] for place in places], name, scale) for cell in cells])
    return sizes


def _cell_size(cell: ByStretch, name: str, scale: Sequence[float]) -> CellSize:
    known = [(f, one[name]) for f, one in zip(scale, cell, strict=True) if name in one]
    units = [(f * one.n, float(one.mean[1])) for f, one in known]
    return CellSize(sum(n * mean for n, mean in units), sum(n for n, _ in units))
