"""One metric in one variant against control: moments in, an effect or a reason out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Adjust, Relative, Resample
from abeval.inference import proportions
from abeval.inference.adjust import by_covariates, by_strata
from abeval.inference.looks import LookBoundary, Looks, at_look
from abeval.metrics.definition import Metric, rounding
from abeval.stats import effects, means, multiplicity, ratios, relative
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Lift, Refusal

Reason = Literal[
    "missing_columns",
    "no_units",
    "no_clicks",
    "no_scores",
    "empty_denominator",
    "too_few_units",
    "zero_variance",
    "tied_quantile",
    "control_near_zero",
    "lift_unbounded",
    "not_finite",
    "failed_trust_check",
    "failed_aa",
]

MIN_UNITS = 30
"""Fewer units a variant than this are too little data for a large-sample interval."""

_ALIKE = 1e-6
"""Units that differ by less than this share of the value, and only by rounding, are alike."""

_FROM_STATS: dict[str, Reason] = {
    "too_few_units": "too_few_units",
    "zero_variance": "zero_variance",
    "zero_denominator": "empty_denominator",
    "control_near_zero": "control_near_zero",
}


@dataclass(frozen=True)
class Rule:
    """How effects are judged.

    Attributes:
        alpha: Two-sided level of intervals and tests.
        relative: Interval of the lift.
        adjust: How variance is taken out of means and ratios.
        looks: How often one may look; None for a fixed horizon.
        resample: How functions of metrics, means and ratios are resampled; without it, functions
            by the jackknife and the others not at all.
    """

    alpha: float = 0.05
    relative: Relative = "fieller"
    adjust: Adjust = "none"
    looks: Looks | None = None
    resample: Resample | None = None


class Arms(NamedTuple):
    """The names of the two variants of a comparison."""

    control: str
    treatment: str

    def units(self, aggregates: Aggregates) -> tuple[int, int]:
        """Analysed units of each."""
        return aggregates.units_of(self.control), aggregates.units_of(self.treatment)


class Numbers(NamedTuple):
    """The numbers that every row of effects shows; None where there is none."""

    units_control: int
    units: int
    control: float | None
    treatment: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float | None


@dataclass(frozen=True)
class Comparison:
    """A metric in one variant against control.

    Attributes:
        units_control: Units behind control's value.
        units: Units behind the variant's.
        control: Control's value, None where it has none.
        treatment: The variant's value.
        effect: The difference, None where it was refused.
        lift: The relative effect, None where it was refused.
        reason: Why something is missing or limited.
        adjusted: The effect with and without its covariates or strata, where there are any.
        boundary: The stopping boundary of this look, where looks are not fixed.
        control_variance: Sampling variance of control's value, where the variants are independent.
        rare: Successes of a metric of 0s and 1s, where they are few and the test is exact.
    """

    units_control: int
    units: int
    control: float | None = None
    treatment: float | None = None
    effect: Effect | None = None
    lift: Lift | None = None
    reason: Reason | None = None
    adjusted: Adjusted | None = None
    boundary: LookBoundary | None = None
    control_variance: float | None = None
    rare: proportions.Rare | None = None

    @property
    def numbers(self) -> Numbers:
        """The numbers of a row of effects; a lift without bounds has no ends."""
        effect, lift = self.effect, self.lift
        bounded = lift is not None and lift.bounded
        return Numbers(
            units_control=self.units_control,
            units=self.units,
            control=self.control,
            treatment=self.treatment,
            difference=None if effect is None else effect.difference,
            difference_low=None if effect is None else effect.low,
            difference_high=None if effect is None else effect.high,
            lift=None if lift is None else lift.value,
            lift_low=lift.low if lift is not None and bounded else None,
            lift_high=lift.high if lift is not None and bounded else None,
            p_value=None if effect is None else effect.p_value,
        )


Key = tuple[str, str]
"""A metric and a variant, or two variants."""

Comparisons = Mapping[Key, Comparison]


def adjusted_p_values(
    comparisons: Comparisons, method: multiplicity.Method = "holm"
) -> dict[Key, float]:
    """P-values of the comparisons that have one, adjusted over all of them."""
    p_values = {key: c.effect.p_value for key, c in comparisons.items() if c.effect is not None}
    adjusted = multiplicity.adjust(list(p_values.values()), method)
    return dict(zip(p_values, adjusted.tolist(), strict=True))


def refused(units_control: int, units: int, reason: Reason) -> Comparison:
    """A comparison without numbers, and why."""
    return Comparison(units_control, units, reason=reason)


def reason_of(refusal: Refusal) -> Reason:
    """A refusal of the statistics as a reason of the result."""
    return _FROM_STATS.get(refusal.reason, "not_finite")


def compare_moments(
    metric: Metric, control: Moments | None, treatment: Moments | None, rule: Rule
) -> Comparison:
    """Compare two variants by the moments of (y, x, y0, x0, z, …) over their units."""
    return _compare(metric, control, treatment, rule, _by_covariates)


def compare_strata(
    metric: Metric, control: Mapping[str, Moments], treatment: Mapping[str, Moments], rule: Rule
) -> Comparison:
    """Compare two variants by their moments in each cell of a segment."""

    def stratified(metric: Metric, _: Moments, __: Moments, rule: Rule) -> Adjusted:
        return by_strata(metric, control, treatment, rule.alpha)

    return _compare(metric, _whole(control), _whole(treatment), rule, stratified)


def _whole(cells: Mapping[str, Moments]) -> Moments | None:
    parts = list(cells.values())
    return sum(parts[1:], parts[0]) if parts else None


Adjustment = Callable[[Metric, Moments, Moments, Rule], Adjusted | None]


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
        rare = proportions.rare(control, treatment)
        if rare is not None and rule.looks is None and metric.kind in ("mean", "ratio"):
            return _exact(bare, rare, rule)
        adjusted = adjustment(metric, control, treatment, rule)
        if adjusted is None or sum(arm.variance for arm in arms) == 0:
            return with_difference(bare, *arms, method_of(metric), rule)
        return _with_adjusted(bare, metric, adjusted, rule)
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))


def _exact(bare: Comparison, rare: proportions.Rare, rule: Rule) -> Comparison:
    effect, lift = proportions.compare(rare, rule.alpha)
    return replace(bare, effect=effect, lift=lift, reason=limit(lift), rare=rare)


def _value(moments: Moments) -> float:
    return float(moments.mean[0] / moments.mean[1])


def estimate(metric: Metric, moments: Moments) -> Estimate:
    """The value of a mean or a ratio in one variant."""
    return means.estimate(moments) if metric.kind == "mean" else ratios.estimate(moments)


def _estimate(metric: Metric, moments: Moments) -> Estimate:
    """A variant's value; its variance is 0 where units differ only by rounding."""
    exact = estimate(metric, moments)
    mean, spread = abs(float(moments.mean[1])), exact.variance * moments.n
    # A rounded value is off by half a step at most, the sum of m by some √m of it.
    noise = (0.75 * rounding(metric)) ** 2 * max(1.0, mean) / mean / mean
    alike = spread <= min(noise, (_ALIKE * exact.value) ** 2)
    return exact._replace(variance=0.0) if alike else exact


def _by_covariates(
    metric: Metric, control: Moments, treatment: Moments, rule: Rule
) -> Adjusted | None:
    if rule.adjust not in ("cuped", "regression") or not metric.is_mean_or_ratio:
        return None
    return by_covariates(metric, control, treatment, rule.adjust, rule.alpha)


_RELATIVE = {
    "fieller": relative.fieller,
    "delta": relative.delta,
    "log_delta": relative.log_delta,
}
_RELATIVE_ADJUSTED = {"fieller": relative.fieller_adjusted, "delta": relative.delta_adjusted}


def with_difference(
    bare: Comparison, control: Estimate, treatment: Estimate, method: str, rule: Rule
) -> Comparison:
    """The comparison with the effect of two independent estimates.

    Raises:
        Refusal: `zero_variance`, `not_finite`.
    """
    effect, level, boundary = at_look(
        effects.compare(control, treatment, rule.alpha, method), rule.looks, rule.alpha
    )
    lift = _or_none(lambda: _RELATIVE[rule.relative](control, treatment, level))
    return replace(
        bare,
        effect=effect,
        lift=lift,
        reason=limit(lift),
        boundary=boundary,
        control_variance=control.variance,
    )


def _with_adjusted(bare: Comparison, metric: Metric, adjusted: Adjusted, rule: Rule) -> Comparison:
    named = adjusted.effect
    if rule.adjust == "cuped":
        named = named._replace(method=f"cuped_{method_of(metric)}")
    return replace(with_joint(bare, adjusted._replace(effect=named), rule), adjusted=adjusted)


def with_joint(bare: Comparison, adjusted: Adjusted, rule: Rule) -> Comparison:
    """The comparison with an effect that is correlated with the control's value."""
    effect, level, boundary = at_look(adjusted.effect, rule.looks, rule.alpha)
    interval = _RELATIVE_ADJUSTED[rule.relative]
    lift = _or_none(lambda: interval(adjusted, level))
    return replace(bare, effect=effect, lift=lift, reason=limit(lift), boundary=boundary)


def limit(lift: Lift | None) -> Reason | None:
    """Why a lift is missing or has no interval."""
    if lift is None:
        return "control_near_zero"
    return None if lift.bounded else "lift_unbounded"


def _or_none(lift: Callable[[], Lift]) -> Lift | None:
    try:
        return lift()
    except Refusal:
        return None


def method_of(metric: Metric) -> str:
    """Id of the test at a fixed horizon."""
    match metric.kind:
        case "mean":
            return "welch_t"
        case "auc":
            return "influence_t"
        case _:
            return "delta_t"
