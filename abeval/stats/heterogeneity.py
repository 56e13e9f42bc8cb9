"""Test whether the effect differs between segments."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.heterogeneity import log_contrast, with_rest
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Floats, Refusal


class Heterogeneity(NamedTuple):
    """Whether segments share one effect.

    Attributes:
        q: Cochran's Q.
        df: Segments less one.
        p_value: Upper tail of Q, with its errors estimated.
        i_squared: Share of the variation between segments that is not noise, in [0, 1].
        tau_squared: Variance of the true effects (DerSimonian-Laird).
        fixed: Inverse-variance pooled effect.
        fixed_se: Its standard error.
        random: Effect pooled with tau squared added.
        random_se: Its standard error.
    """

    q: float
    df: int
    p_value: float
    i_squared: float
    tau_squared: float
    fixed: float
    fixed_se: float
    random: float
    random_se: float


class LiftHeterogeneity(NamedTuple):
    """Whether segments share one relative effect.

    Attributes:
        q: How far the segments are from the common lift that fits them best.
        df: Segments less one.
        p_value: Upper tail of Q, with its errors estimated.
        i_squared: Share of the variation between segments that is not noise, in [0, 1].
        lift: The common lift, as a fraction.
    """

    q: float
    df: int
    p_value: float
    i_squared: float
    lift: float


def cochran(differences: ArrayLike, ses: ArrayLike, dfs: ArrayLike | None = None) -> Heterogeneity:
    """Test whether the effects of disjoint segments are one.

    Args:
        differences: Effects, shape (segments,).
        ses: Standard errors, shape (segments,), positive.
        dfs: Degrees of freedom of the standard errors; without them these count as known, and with
            many small segments the test rejects too often.

    Returns:
        Q with p-value, I squared, and fixed and random pooled effects.

    Raises:
        Refusal: `too_few_units` for fewer than two segments; `zero_variance`; `not_finite`.

    Source:
        Cochran (1954); Welch (1951) and Kulinskaya et al. (2004) for estimated errors;
        DerSimonian & Laird (1986); Higgins et al. (2003).

    Example:
        >>> test = cochran([0.05, 0.01, -0.02], [0.01, 0.01, 0.02])
        >>> round(test.q, 3), round(test.p_value, 4), round(test.i_squared, 3)
        (13.556, 0.0011, 0.852)
    """
    effect, error = np.asarray(differences, dtype=float), np.asarray(ses, dtype=float)
    if effect.shape != error.shape or effect.ndim != 1 or len(effect) < 2:
        raise Refusal("too_few_units", "heterogeneity needs two segments with one error each")
    if not (np.isfinite(effect).all() and np.isfinite(error).all()):
        raise Refusal("not_finite", "effects and standard errors must be finite")
    if np.any(error <= 0):
        raise Refusal("zero_variance", "a segment's effect needs a positive standard error")
    weight = 1 / error**2
    known = np.full(effect.shape, np.inf) if dfs is None else np.asarray(dfs, dtype=float)
    fixed, fixed_se = _pooled(effect, weight)
    q, df = float(np.sum(weight * (effect - fixed) ** 2)), len(effect) - 1
    spread = float(weight.sum() - np.sum(weight**2) / weight.sum())
    tau_squared = max(0.0, (q - df) / spread)
    random, random_se = _pooled(effect, 1 / (error**2 + tau_squared))
    return Heterogeneity(
        q,
        df,
        welch_tail(q, df, weight / weight.sum(), known),
        _shared(q, df),
        tau_squared,
        fixed,
        fixed_se,
        random,
        random_se,
    )


def lifts(control: Sequence[Estimate], treatment: Sequence[Estimate]) -> LiftHeterogeneity:
    """Test whether the relative effects of disjoint segments are one.

    Q(ρ) = Σ (t − ρc)² / (v_t + ρ²v_c) at the ratio ρ that makes it smallest, with one degree of
    freedom less than segments: chi-square, or F where variances are estimated. No ratio of a
    segment is taken, so segments whose control is near zero do no harm; one effect of the same
    relative size over unlike baselines is one.

    Args:
        control: Control's value in each segment, none negative.
        treatment: The treatment's value in each segment.

    Raises:
        Refusal: `too_few_units` for fewer than two segments; `zero_variance`; `not_finite`;
            `not_applicable` where no segment has a positive value in both variants.

    Source:
        Cochran (1954) on the residuals of Fieller (1940); Creasy (1954); Johansen (1980).

    Example:
        >>> value = lambda one: Estimate(one, 0.0001, 900, 899.0)
        >>> control, treatment = [value(0.2), value(2.0)], [value(0.22), value(2.2)]
        >>> test = lifts(control, treatment)
        >>> round(test.lift, 3), round(test.p_value, 3)
        (0.1, 1.0)
    """
    arms = arms_of(control, treatment)
    ratio = common_ratio(arms)
    q, df = arms.q(ratio), len(control) - 1
    return LiftHeterogeneity(q, df, arms.p_value(ratio), _shared(q, df), ratio - 1)


def segments_against_rest(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    estimate: Callable[[Moments], Estimate],
    alpha: float = 0.05,
    others: Sequence[tuple[Moments, Moments]] | None = None,
) -> tuple[Effect, ...]:
    """Every segment against the others, from moments per segment.

    Args:
        control: Moments of control per segment, disjoint, shape (segments,).
        treatment: Moments of treatment, same order.
        estimate: Such as `means.estimate` or `ratios.estimate`.
        alpha: Level of the intervals; adjust the p-values for their number.
        others: Moments of control and treatment outside each segment, where they are more than
            the other segments merged, such as weighted strata.

    Returns:
        One effect per segment, as `against_rest`.

    Raises:
        Refusal: What `estimate` refuses; `too_few_units` for fewer than two segments.

    Example:
        >>> from abeval.stats import means
        >>> control = [Moments.of([1, 2, 3]), Moments.of([1, 2, 4])]
        >>> treatment = [Moments.of([4, 5, 7]), Moments.of([1, 2, 3])]
        >>> contrasts = segments_against_rest(control, treatment, means.estimate)
        >>> [round(effect.statistic, 3) for effect in contrasts]
        [2.46, -2.46]
    """
    return tuple(
        against_rest(effects.compare(*inside), effects.compare(*outside), alpha)
        for inside, outside in with_rest(control, treatment, estimate, others)
    )


def lifts_against_rest(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    estimate: Callable[[Moments], Estimate],
    alpha: float = 0.05,
    others: Sequence[tuple[Moments, Moments]] | None = None,
) -> tuple[Effect | None, ...]:
    """The relative effect in every segment against that in the others, from moments per segment.

    The difference of the two log(treatment / control), with errors by the delta method: 0.05 says
    that the segment's treatment over control is e^0.05 times that of the others.

    Args:
        control: Moments of control per segment, disjoint, shape (segments,).
        treatment: Moments of treatment, same order.
        estimate: Such as `means.estimate` or `ratios.estimate`.
        alpha: Level of the intervals; adjust the p-values for their number.
        others: As for `segments_against_rest`.

    Returns:
        One effect per segment, on the scale of logarithms; None where a value is not positive, or
        does not vary.

    Raises:
        Refusal: What `estimate` refuses; `too_few_units` for fewer than two segments.

    Example:
        >>> from abeval.stats import means
        >>> control = [Moments.of([1, 2, 3]), Moments.of([10, 20, 40])]
        >>> treatment = [Moments.of([2, 4, 6]), Moments.of([20, 40, 80])]
        >>> contrasts = lifts_against_rest(control, treatment, means.estimate)
        >>> [round(abs(effect.difference), 6) for effect in contrasts]
        [0.0, 0.0]
    """
    return tuple(
        log_contrast(inside, outside, alpha)
        for inside, outside in with_rest(control, treatment, estimate, others)
    )


def _shared(q: float, df: int) -> float:
    """I squared."""
    return 1 - df / q if q > df else 0.0


def _pooled(effect: Floats, weight: Floats) -> tuple[float, float]:
    return float(np.sum(weight * effect) / weight.sum()), float(1 / math.sqrt(weight.sum()))
