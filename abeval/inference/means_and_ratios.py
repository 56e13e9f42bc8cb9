"""Means and ratios of two variants, by their moments: the test that fits, adjusted or not.

`compare.py` hands it moments of the aggregates, `scorecard.py` and `segments.py` those of days and
cells; `trust/` and `time/axes.py` call it too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from abeval.inference import special_tests
from abeval.inference.comparison import (
    Comparison,
    Rule,
    limit,
    reason_of,
    refused,
    with_difference,
    with_joint,
    with_skewed,
)
from abeval.inference.means_and_ratios import of_covariates, pairs_of
from abeval.inference.special_tests import by_strata
from abeval.metrics.definition import Metric, rounding
from abeval.stats import means, off_policy
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Estimate, Refusal
from abeval.stats.skewed import method
from abeval.stats.split_moments import Skewed

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
