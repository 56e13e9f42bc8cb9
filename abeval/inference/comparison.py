"""Result of comparing one metric in one variant with control, at this look."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple, TypeVar, cast, get_args

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.sections import Adjust, Relative, Resample
from abeval.inference import special_tests
from abeval.inference.looks import LookBoundary, Looks, adjust_to_look
from abeval.results.effects import Numbers
from abeval.stats import effects, multiplicity, skewed
from abeval.stats.randomisation import RandomisationTest
from abeval.stats.records import Adjusted, Effect, Estimate, Interval, Lift, Refusal
from abeval.stats.skewed import Skewed

Reason = Literal[
    "missing_columns",
    "no_units",
    "no_clicks",
    "no_scores",
    "empty_denominator",
    "too_few_units",
    "zero_variance",
    "all_items_shown",
    "too_skewed",
    "tied_quantile",
    "control_near_zero",
    "lift_unbounded",
    "before_first_look",
    "not_finite",
    "interval_includes_zero",
    "not_after_correction",
    "denominator_moved",
    "split_changed",
    "clustered",
    "switched",
    "moved_segment",
    "failed_trust_check",
    "failed_aa",
]

Number = TypeVar("Number")

MIN_UNITS = 30
"""With fewer units per variant, a large-sample interval is not reliable."""

LARGE_UNIT_SHARE = 0.1
"""If one unit holds more than this share of a ratio's denominator, few units decide."""

_RELATIVE = {"fieller": effects.fieller, "delta": effects.delta, "log_delta": effects.log_delta}
_RELATIVE_ADJUSTED = {"fieller": effects.fieller_adjusted, "delta": effects.delta_adjusted}


class Rule(NamedTuple):
    """How to judge effects: level, lift method, adjustment and looks.

    Without `resample`, functions use the jackknife, and means and ratios their moments.
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
        """Return the analysed units of each."""
        return aggregates.count_units(self.control), aggregates.count_units(self.treatment)


class Spread(NamedTuple):
    """Sampling variances of both values, and Cov(difference, control)."""

    control: float
    treatment: float
    covariance: float


class Draws(NamedTuple):
    """Random draws: how many, and their seed."""

    number: int
    seed: int


class Comparison(NamedTuple):
    """A metric in one variant against control; None if refused or not used.

    Attributes:
        adjusted: The effect with and without covariates or strata.
        spread: Sampling variances of both values, if the test has them.
        treatment_estimate: The variant's unadjusted estimate, if a large-sample test decides.
        rare: Successes of a metric of 0s and 1s, if they are few and the test is exact.
        permuted: Both variants, if values are skewed and the permutation test decides.
        randomisation_test: The re-randomisation test of clusters, if it decides.
        units_needed: Units needed in the smaller variant, if values are too skewed.
        min_units: Minimum units of a variant for a reliable interval.
        sides: The effects for the lower and the upper end, if their errors differ.
        largest_share: Largest share of a ratio's denominator that one unit holds; 0 if small.
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
    spread: Spread | None = None
    treatment_estimate: Estimate | None = None
    rare: special_tests.Rare | None = None
    permuted: Skewed | None = None
    randomisation_test: RandomisationTest | None = None
    units_needed: int | None = None
    sides: tuple[Effect, Effect] | None = None
    draws: Draws | None = None
    min_units: int = MIN_UNITS
    largest_share: float = 0.0

    @property
    def few_units_decide(self) -> bool:
        """Tell whether one unit holds a large share of a ratio's denominator."""
        return self.largest_share > LARGE_UNIT_SHARE

    @property
    def is_skewed(self) -> bool:
        """Tell whether values are too skewed for large-sample tests."""
        return self.permuted is not None or self.reason == "too_skewed"

    @property
    def is_small(self) -> bool:
        """Tell whether a variant has too few units for a large-sample interval."""
        return min(self.units_control, self.units) < self.min_units

    def interval(self, alpha: float) -> Interval:
        """Return the interval of the difference at `alpha`, by the test that was used.

        Raises:
            TypeError: The comparison was refused.
        """
        # At most one special test replaced the large-sample test.
        if self.rare is not None:
            exact = special_tests.compare_counts(self.rare, alpha, is_share=True)
            return Interval(exact.low, exact.high)
        if self.permuted is not None:
            return skewed.compute_difference_interval(self.permuted, alpha)
        if self.randomisation_test is not None:
            return self.randomisation_test.interval(alpha)
        if self.effect is None:
            raise TypeError("a comparison without an effect has no interval")
        low, high = self.sides or (self.effect, self.effect)
        return Interval(
            effects.compute_interval(low.difference, low.se, low.df, alpha).low,
            effects.compute_interval(high.difference, high.se, high.df, alpha).high,
        )

    @property
    def values(self) -> dict[str, float | None]:
        """Return the values of an effect row by name; an unbounded lift has no ends."""
        effect, lift = self.effect, self.lift
        # JSON has no infinity: an unbounded lift has no ends.
        ends = lift if lift is not None and lift.bounded else None
        return {
            "control": self.control,
            "treatment": self.treatment,
            "difference": effect and effect.difference,
            "difference_low": effect and effect.low,
            "difference_high": effect and effect.high,
            "lift": lift and lift.value,
            "lift_low": ends and ends.low,
            "lift_high": ends and ends.high,
            "p_value": effect and effect.p_value,
        }

    @property
    def numbers(self) -> Numbers:
        """Return the values of an effect row with the numbers of units."""
        return Numbers(**self.values, units_control=self.units_control, units=self.units)


Key = tuple[str, str]
"""A metric and a variant, or two variants."""

Comparisons = Mapping[Key, Comparison]


def adjust_p_values(
    comparisons: Comparisons, method: multiplicity.Method = "holm"
) -> dict[Key, float]:
    """Adjust the p-values of the comparisons that have one, over all of them."""
    p_values = {key: c.effect.p_value for key, c in comparisons.items() if c.effect is not None}
    adjusted = multiplicity.adjust(list(p_values.values()), method)
    return dict(zip(p_values, adjusted.tolist(), strict=True))


def refuse_comparison(units_control: int, units: int, reason: Reason) -> Comparison:
    """Build a comparison without numbers, for a reason."""
    return Comparison(units_control, units, reason=reason)


def translate_refusal(refusal: Refusal) -> Reason:
    """Translate a refusal of the statistics into a reason of the result."""
    # The result calls this reason otherwise.
    if refusal.reason == "zero_denominator":
        return "empty_denominator"
    return cast(Reason, refusal.reason) if refusal.reason in get_args(Reason) else "not_finite"


def none_if_refused(number: Callable[[], Number]) -> Number | None:
    """Compute a number; return None if the computation is refused."""
    try:
        return number()
    except Refusal:
        return None


def add_difference(
    bare: Comparison, control: Estimate, treatment: Estimate, method: str, rule: Rule
) -> Comparison:
    """Add the effect of two independent estimates to a comparison.

    Raises:
        Refusal: `zero_variance`, `not_finite`.
    """
    plain = effects.compare(control, treatment, rule.alpha, method)
    spread = Spread(control.variance, treatment.variance, -control.variance)
    lift = partial(_RELATIVE[rule.relative], control, treatment)
    return _add_effect_at_look(bare, plain, spread, lift, rule)


def add_adjusted(bare: Comparison, adjusted: Adjusted, rule: Rule) -> Comparison:
    """Add an effect that is correlated with control's value."""
    spread = Spread(adjusted.control.variance, adjusted.treatment.variance, adjusted.covariance)
    lift = partial(_RELATIVE_ADJUSTED[rule.relative], adjusted)
    return _add_effect_at_look(bare, adjusted.effect, spread, lift, rule)


def combine_one_sided(low: Comparison, high: Comparison) -> Comparison:
    """Combine the lower end of one effect with the higher end of another."""
    if low.effect is None or high.effect is None:
        raise TypeError("both sides have an effect")
    lift = None
    if low.lift is not None and high.lift is not None:
        bounded = low.lift.bounded and high.lift.bounded
        lift = low.lift._replace(high=high.lift.high, bounded=bounded)
    # The side towards no difference reads the look.
    facing = low if low.effect.difference > 0 else high
    return facing._replace(
        effect=effects.merge_sides(low.effect, high.effect),
        lift=lift,
        reason=lift_reason(lift),
        sides=(low.effect, high.effect),
    )


def add_permutation_test(bare: Comparison, values: Skewed, method: str, rule: Rule) -> Comparison:
    """Add the effect of skewed values, from the permutation test.

    Raises:
        Refusal: `zero_variance`.
    """
    fixed = skewed.effect(values, rule.alpha)._replace(method=method)
    control, treatment = skewed.estimate_variances(values)
    spread = Spread(control, treatment, -control)
    # The difference that has their p-value in a normal test reads the look.
    normal = fixed._replace(difference=skewed.convert_test_to_z(values) * fixed.se)
    effect, level, boundary = adjust_to_look(normal, rule.looks, rule.alpha, spread[:2])
    low, high = skewed.compute_difference_interval(values, level)
    lift = none_if_refused(lambda: skewed.lift(values, level))
    return bare._replace(
        effect=effect._replace(difference=fixed.difference, low=low, high=high),
        lift=lift,
        reason=lift_reason(lift),
        boundary=boundary,
        spread=spread,
        treatment_estimate=None,
        permuted=values,
    )


def lift_reason(lift: Lift | None) -> Reason | None:
    """Return why a lift is missing or unbounded; None if it has an interval."""
    if lift is None:
        return "control_near_zero"
    return None if lift.bounded else "lift_unbounded"


def _add_effect_at_look(
    bare: Comparison, fixed: Effect, spread: Spread, lift: Callable[[float], Lift], rule: Rule
) -> Comparison:
    """Add an effect and its lift, corrected for the looks so far."""
    effect, level, boundary = adjust_to_look(fixed, rule.looks, rule.alpha, spread[:2])
    bounds = none_if_refused(lambda: lift(level))
    return bare._replace(
        effect=effect,
        lift=bounds,
        reason=lift_reason(bounds),
        boundary=boundary,
        spread=spread,
    )
