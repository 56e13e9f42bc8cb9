"""One metric in one variant against control: moments in, an effect or a reason out.

`with_effects.py` fills it with what `means_and_ratios.py` and `other_kinds.py` estimate;
`compare.py` collects them, for the scorecard, families, segments and `time/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.sections import Adjust, Relative, Resample
from abeval.inference import special_tests
from abeval.inference.looks import LookBoundary, Looks
from abeval.stats import effects, multiplicity, skewed
from abeval.stats.decisions import Gain
from abeval.stats.records import Adjusted, Effect, Interval, Lift, Refusal
from abeval.stats.split_moments import Skewed

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
    "moved_segment",
    "failed_trust_check",
    "failed_aa",
]

MIN_UNITS = 30
"""Fewer units a variant than this are too little data for a large-sample interval."""


_FROM_STATS: dict[str, Reason] = {
    "too_few_units": "too_few_units",
    "zero_variance": "zero_variance",
    "tied_quantile": "tied_quantile",
    "zero_denominator": "empty_denominator",
    "control_near_zero": "control_near_zero",
    "before_first_look": "before_first_look",
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


class Spread(NamedTuple):
    """How uncertain the two values of a comparison are.

    Attributes:
        control: Sampling variance of control's value.
        treatment: Of the variant's value.
        covariance: Of the difference and control's value; for independent variants, less the
            variance of control's.
    """

    control: float
    treatment: float
    covariance: float


class Gained(NamedTuple):
    """How much nearer to the target of its metric a variant is than control; negative is farther.

    Attributes:
        value: The gain, in the metric's unit.
        low: Lower end of its interval, at the level and the look of the effect.
        high: Upper end; both are on one side of 0 where `p_value` is below the level.
        p_value: Two-sided, of no gain.
        across: Whether it is that of the difference to control's mirror image in the target, not of
            the difference to control: where the target lies between, or near.
        within: The gain that a margin is compared with, each end one-sided at half the level; on
            the margin's scale, None without a margin.
    """

    value: float
    low: float
    high: float
    p_value: float
    across: bool
    within: Gain | None


class Draws(NamedTuple):
    """Random draws: how many, and their seed."""

    number: int
    seed: int


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
        spread: How uncertain the two values are, where the test knows it.
        rare: Successes of a metric of 0s and 1s, where they are few and the test is exact.
        permuted: Both variants, where values are skewed and the permutation test judges them.
        units_needed: Units of the smaller variant that would do, where values are too skewed.
        sides: The effects that give the lower and the higher end, where their errors differ.
        draws: What is random in it, None where nothing is.
        gain: How much nearer to its target a metric is, where it has one.
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
    rare: special_tests.Rare | None = None
    permuted: Skewed | None = None
    units_needed: int | None = None
    sides: tuple[Effect, Effect] | None = None
    draws: Draws | None = None
    gain: Gained | None = None

    @property
    def is_skewed(self) -> bool:
        """Whether values are too skewed for large-sample tests."""
        return self.permuted is not None or self.reason == "too_skewed"

    def interval(self, level: float) -> Interval:
        """Interval of the difference at an error rate, by the test of the comparison.

        Raises:
            TypeError: There is no effect.
        """
        if self.rare is not None:
            return special_tests.interval(self.rare, level)
        if self.permuted is not None:
            return skewed.interval(self.permuted, level)
        if self.effect is None:
            raise TypeError("a comparison without an effect has no interval")
        low, high = self.sides or (self.effect, self.effect)
        return Interval(
            effects.interval(low.difference, low.se, low.df, level).low,
            effects.interval(high.difference, high.se, high.df, level).high,
        )

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
