"""Metrics with a target: the gain, how much nearer to it the variant is than control, as an effect.

A gain is proven by two differences: of the variant and control, and of the variant and control's
mirror image in the target. Each has the test that its values need and the look of the plan;
`stats/toward.py` makes one effect of both. `compare.py` adds it to each comparison of such a
metric, `status.py` decides by it.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.aggregates.sums import ByStretch
from abeval.inference import special_tests
from abeval.inference.comparison import Arms, Comparison, Rule, reason_of, with_skewed
from abeval.inference.looks import LookBoundary, at_look
from abeval.inference.means_and_ratios import compare_within, pair_of, stretches_of
from abeval.metrics.definition import Margin, Metric
from abeval.results.history import Gained
from abeval.stats import effects, proportions, skewed, toward
from abeval.stats.decisions import Gain
from abeval.stats.distributions import upper_tail
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Interval, Lift, Refusal

_UNKNOWN = Interval(-math.inf, math.inf)


class Contrast(NamedTuple):
    """One of the two differences.

    Attributes:
        comparison: At a fixed horizon or at a look; its interval at any level is at a fixed one.
        effect: The fixed-horizon effect whose z has the p-value of its test; None if refused.
        variance: Of the difference.
        covariance: Of the difference and control's value; None where it is not known.
    """

    comparison: Comparison
    effect: Effect | None
    variance: float
    covariance: float | None


class AtLevel(NamedTuple):
    """A contrast at an error rate, as it may be read at this look."""

    interval: Interval
    statistic: float
    p_value: float
    boundary: LookBoundary | None
    level: float


def compare_with_image(
    metric: Metric, moments: ByStretch, arms: Arms, rule: Rule
) -> Comparison | None:
    """The variant against control's mirror image in the target, at a fixed horizon, unadjusted.

    Args:
        metric: A mean or a ratio with a target.
        moments: Of (y, x, …) by stretch and variant.
        arms: The variants.
        rule: How the effect is judged.
    """
    target = metric.direction.toward
    if target is None:
        return None
    mirrored = [
        {name: _mirror(one, target) if name == arms.control else one for name, one in own.items()}
        for own in moments
    ]
    fixed = replace(rule, looks=None, adjust="none")
    image = compare_within(metric, mirrored, arms, fixed)
    if image.effect is None or image.rare is not None:
        return image
    return _if_skewed(metric, image, mirrored, arms, fixed)


def _if_skewed(
    metric: Metric, image: Comparison, mirrored: ByStretch, arms: Arms, rule: Rule
) -> Comparison:
    """By the test of skewed values where the skewness of both variants together asks for it."""
    pair, stretches = pair_of(mirrored, arms), stretches_of(mirrored, arms)
    if pair.control is None or pair.treatment is None:
        return image
    stretches = stretches or special_tests.Stretches([pair.control], [pair.treatment], [1.0])
    values = special_tests.of_image(metric, *stretches)
    if values is None:
        return image
    try:
        return with_skewed(image, values, skewed.method(values), rule)
    except special_tests.TooSkewed:
        return replace(image, effect=None, reason="too_skewed")
    except Refusal as refusal:
        return replace(image, effect=None, reason=reason_of(refusal))


def _mirror(moments: Moments, target: float) -> Moments:
    change = np.eye(moments.mean.size)
    change[0, :2] = -1.0, 2 * target
    third = moments.third
    if third is not None:
        third = np.einsum("ai,bj,ck,ijk->abc", change, change, change, third, optimize=True)
    mean, comoment = change @ moments.mean, change @ moments.comoment @ change.T
    # A mirror image is no variant that units could have been in: they are not permuted with it.
    return replace(moments, mean=mean, comoment=comoment, third=third, each=None)


def with_gain(
    metric: Metric, own: Comparison, rule: Rule, mirrored: Comparison | None = None
) -> Comparison:
    """The comparison of a metric with a target, with its gain; of another metric as it is.

    Args:
        metric: Its target and margin.
        own: The variant against control.
        rule: How its effect was judged.
        mirrored: The variant against control's mirror image, at a fixed horizon; without, its
            effect follows from the errors of the two values.
    """
    target = metric.direction.toward
    if target is None or own.effect is None:
        return own
    # Catalogue metrics have one look, whatever the plan.
    rule = rule if own.boundary is not None else replace(rule, looks=None)
    contrasts = _own(own, rule), _mirrored(own, mirrored, target)
    shown = Interval(own.effect.low, own.effect.high)
    effect = own.effect
    plain = AtLevel(shown, effect.statistic, effect.p_value, own.boundary, rule.alpha)
    image = _at_level(contrasts[1], own.effect, rule, rule.alpha)
    # The gain is proven where both differences are: the less certain one decides.
    decides = max(plain, image, key=lambda one: (one.p_value, -abs(one.statistic)))
    distance = _control(own) - target
    ends = toward.gain_interval(plain.interval, image.interval)
    judged = contrasts[1].comparison.effect
    apart = own.effect.difference + 2 * distance if judged is None else judged.difference
    gained = Gained(
        value=toward.gain(own.effect.difference, apart),
        low=ends.low,
        high=ends.high,
        p_value=decides.p_value,
        across=decides is not plain,
        within=_within(metric.margin, own, contrasts, rule, distance),
    )
    boundary = decides.boundary
    if boundary is None and own.boundary is not None:
        boundary = own.boundary._replace(crossed=False)
    return replace(own, gain=gained, boundary=boundary)


def _control(own: Comparison) -> float:
    """Control's value that the variance of `spread` is of."""
    if own.effect is None:
        raise TypeError("a comparison without an effect has no values")
    return own.effect.control if own.adjusted is None else own.adjusted.control.value


def _own(own: Comparison, rule: Rule) -> Contrast:
    effect = own.effect
    if effect is None:
        raise TypeError("a comparison without an effect has no contrast")
    covariance = None if own.spread is None else own.spread.covariance
    fixed = effect
    if own.permuted is not None:
        fixed = _normal(skewed.effect(own.permuted, rule.alpha), own)
    elif rule.looks is not None:
        numbers = effect.control, effect.treatment, effect.difference, effect.se, effect.df
        fixed = effects.from_difference(*numbers, rule.alpha, effect.method)
    return Contrast(own, fixed, effect.se**2, covariance)


def _normal(effect: Effect, comparison: Comparison) -> Effect:
    """The effect of skewed values with the difference that has their p-value in a normal test."""
    if comparison.permuted is None:
        return effect
    return effect._replace(difference=skewed.normal_score(comparison.permuted) * effect.se)


def _mirrored(own: Comparison, mirrored: Comparison | None, target: float) -> Contrast:
    """The variant against control's mirror image: the sum of both values, less twice the target."""
    effect, spread = own.effect, own.spread
    if effect is None:
        raise TypeError("a comparison without an effect has no contrast")
    variance, covariance = max(one.se for one in own.sides or (effect,)) ** 2, None
    if spread is not None:
        # The variance of D + 2c; of independent variants it is that of D.
        if spread.covariance != -spread.control:
            variance += 4 * (spread.control + spread.covariance)
        covariance = spread.covariance + 2 * spread.control
    if mirrored is not None:
        judged = mirrored.effect
        variance = variance if judged is None else judged.se**2
        judged = None if judged is None else _normal(judged, mirrored)
        # It is unadjusted: the sum of two independent values.
        covariance = None if spread is None else spread.control
        return Contrast(mirrored, judged, variance, covariance)
    control = _control(own)
    difference, se = effect.difference + 2 * (control - target), math.sqrt(max(variance, 0.0))
    numbers = 2 * target - control, control + effect.difference, difference, se, effect.df
    try:
        judged = effects.from_difference(*numbers, method=effect.method)
    except Refusal:
        judged = None
    image = Comparison(own.units_control, own.units, effect=judged)
    return Contrast(image, judged, variance, covariance)


def _at_level(contrast: Contrast, own: Effect, rule: Rule, alpha: float) -> AtLevel:
    """A contrast at this look; without an effect, or where its interval has no end, unknown."""
    effect, comparison = contrast.effect, contrast.comparison
    if effect is None:
        return AtLevel(_UNKNOWN, 0.0, 1.0, None, alpha)
    spread = comparison.spread or (0.0, 0.0)
    # Looks begin by the precision of the metric's own value, not of a mirror image's.
    seen = effect._replace(control=own.control, treatment=own.treatment)
    try:
        look = at_look(seen, rule.looks, alpha, (spread[0], spread[1]))
        ends = comparison.interval(look.level)
        return AtLevel(ends, effect.statistic, look.effect.p_value, look.boundary, look.level)
    except Refusal:
        return AtLevel(_UNKNOWN, 0.0, 1.0, None, alpha)


def _within(
    margin: Margin | None,
    own: Comparison,
    contrasts: tuple[Contrast, Contrast],
    rule: Rule,
    distance: float,
) -> Gain | None:
    """The gain at worst and at best on the margin's scale, each end one-sided at alpha / 2."""
    effect, spread = own.effect, own.spread
    if margin is None or effect is None:
        return None
    if margin.relative and effect.control == 0:
        return None
    ends = []
    for value in (0, 1):
        level = rule.alpha / 2
        if rule.looks is None and spread is not None:
            # On which side a value lies is proven for one look only.
            se = math.sqrt(max(one.variance for one in contrasts))
            se *= 1 + (margin.size if margin.relative else 0.0)
            away = distance + (effect.difference if value else 0.0)
            df = min(effect.df, (own.units if value else own.units_control) - 1)
            level = toward.contrast_level(away, math.sqrt(spread[value]), se, rule.alpha, df)
        limits = [_on_scale(margin, own, contrast, rule, level) for contrast in contrasts]
        ends.append(toward.gain_interval(*limits))
    return Gain(ends[0].low, ends[1].high)


def _on_scale(
    margin: Margin, own: Comparison, contrast: Contrast, rule: Rule, alpha: float
) -> Interval:
    """The interval of a contrast in the metric's unit, or over control's value."""
    if own.effect is None:
        return _UNKNOWN
    at = _at_level(contrast, own.effect, rule, alpha)
    if not margin.relative or not math.isfinite(at.interval.low + at.interval.high):
        return at.interval
    try:
        return _over_control(own, contrast, at)
    except Refusal:
        return _UNKNOWN


def _over_control(own: Comparison, contrast: Contrast, at: AtLevel) -> Interval:
    """A contrast over control's value, which is uncertain too."""
    effect, spread = contrast.comparison.effect, own.spread
    if own.permuted is not None and contrast.comparison is own:
        return _ends(skewed.lift(own.permuted, at.level))
    if own.rare is not None:
        is_own = contrast.comparison is own
        return _ends(proportions.exact_lift(*own.rare, at.level)) if is_own else _UNKNOWN
    if effect is None or spread is None or contrast.covariance is None:
        size = abs(_control(own))
        return Interval(at.interval.low / size, at.interval.high / size)
    low, high = (_ends(_fieller(own, effect, contrast, spread.control, end)) for end in at.interval)
    return Interval(low.low, high.high)


def _fieller(
    own: Comparison, effect: Effect, contrast: Contrast, control_variance: float, end: float
) -> Lift:
    """Fieller's interval with as many standard errors as an end of the interval has."""
    se = math.sqrt(contrast.variance)
    reach = abs(end - effect.difference) / se
    control = Estimate(_control(own), control_variance, own.units_control, math.inf)
    plain = effect._replace(se=se, df=math.inf)
    adjusted = Adjusted(plain, plain, (), 0.0, control, control, contrast.covariance or 0.0)
    return effects.fieller_adjusted(adjusted, 2 * upper_tail(reach).p_value)


def _ends(lift: Lift) -> Interval:
    return Interval(lift.low, lift.high)
