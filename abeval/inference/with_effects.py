"""A comparison with its effect: of two estimates, of a joint one, or of skewed values.

Each takes a comparison without numbers and gives one with the effect at the look, its lift, and why
the lift is missing or has no ends. `means_and_ratios.py`, `other_kinds.py` and `toward.py` call it.
"""

from collections.abc import Callable
from dataclasses import replace

from abeval.inference import special_tests
from abeval.inference.comparison import Comparison, Draws, Reason, Rule, Spread
from abeval.inference.looks import at_look
from abeval.stats import effects, skewed, split_moments
from abeval.stats.records import Adjusted, Estimate, Lift, Refusal
from abeval.stats.resampling import SEED
from abeval.stats.split_moments import Skewed

_RELATIVE = {
    "fieller": effects.fieller,
    "delta": effects.delta,
    "log_delta": effects.log_delta,
}
_RELATIVE_ADJUSTED = {"fieller": effects.fieller_adjusted, "delta": effects.delta_adjusted}


def with_difference(
    bare: Comparison, control: Estimate, treatment: Estimate, method: str, rule: Rule
) -> Comparison:
    """The comparison with the effect of two independent estimates.

    Raises:
        Refusal: `zero_variance`, `not_finite`.
    """
    plain = effects.compare(control, treatment, rule.alpha, method)
    spread = Spread(control.variance, treatment.variance, -control.variance)
    effect, level, boundary = at_look(plain, rule.looks, rule.alpha, spread[:2])
    lift = _or_none(lambda: _RELATIVE[rule.relative](control, treatment, level))
    return replace(
        bare, effect=effect, lift=lift, reason=limit(lift), boundary=boundary, spread=spread
    )


def with_sides(bare: Comparison, low: Comparison, high: Comparison) -> Comparison:
    """The comparison with the lower end of one effect and lift, and the higher end of another.

    Where each side of an estimate has a standard error of its own, `with_difference` gives both.
    """
    if low.effect is None or high.effect is None:
        raise TypeError("both sides have an effect")
    facing = low if low.effect.difference > 0 else high
    lift = None
    if low.lift is not None and high.lift is not None:
        lift = low.lift._replace(
            high=high.lift.high, bounded=low.lift.bounded and high.lift.bounded
        )
    return replace(
        bare,
        effect=effects.joined(low.effect, high.effect),
        lift=lift,
        reason=limit(lift),
        boundary=facing.boundary,
        spread=facing.spread,
        sides=(low.effect, high.effect),
    )


def with_joint(bare: Comparison, adjusted: Adjusted, rule: Rule) -> Comparison:
    """The comparison with an effect that is correlated with the control's value."""
    spread = Spread(adjusted.control.variance, adjusted.treatment.variance, adjusted.covariance)
    effect, level, boundary = at_look(adjusted.effect, rule.looks, rule.alpha, spread[:2])
    interval = _RELATIVE_ADJUSTED[rule.relative]
    lift = _or_none(lambda: interval(adjusted, level))
    return replace(
        bare, effect=effect, lift=lift, reason=limit(lift), boundary=boundary, spread=spread
    )


def with_skewed(bare: Comparison, values: Skewed, method: str, rule: Rule) -> Comparison:
    """The comparison with the effect of skewed values, by their permutation test.

    Raises:
        TooSkewed: The test does not hold for them either.
        Refusal: `zero_variance`.
    """
    special_tests.check_holds(values)
    fixed = skewed.effect(values, rule.alpha)._replace(method=method)
    spread = Spread(*skewed.variances(values), -skewed.variances(values)[0])
    normal = fixed._replace(difference=skewed.normal_score(values) * fixed.se)
    effect, level, boundary = at_look(normal, rule.looks, rule.alpha, spread[:2])
    low, high = skewed.interval(values, level)
    effect = effect._replace(difference=fixed.difference, low=low, high=high)
    lift = _or_none(lambda: skewed.lift(values, level))
    return replace(
        bare,
        effect=effect,
        lift=lift,
        reason=limit(lift),
        boundary=boundary,
        spread=spread,
        permuted=values,
        draws=None if values.pair is None else Draws(split_moments.DRAWS, SEED),
    )


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
