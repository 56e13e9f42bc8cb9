"""Test whether the effect differs between segments."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats import effects
from abeval.stats.distributions import brentq
from abeval.stats.effects import satterthwaite
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Floats, Refusal


def welch_tail(q: float, df: int, leverages: Floats, dfs: Floats) -> float:
    """P-value of a weighted sum of squares whose weights are one over estimated variances.

    Args:
        q: Σ weight × residual², shape ().
        df: Residuals less fitted parameters, of which there is one.
        leverages: How much each residual moves its own fit, in [0, 1], shape (residuals,).
        dfs: Degrees of freedom of each variance; infinite where it is known.

    Returns:
        Upper tail of F at q over its mean; of chi-square where all variances are known.

    Source:
        Welch (1951); Johansen (1980) for any linear fit; Kulinskaya, Dollinger, Knight and Gao
        (2004) for differences of two variants with Satterthwaite's degrees of freedom.

    Example:
        >>> even, known = np.full(40, 1 / 40), np.full(40, np.inf)
        >>> [round(welch_tail(54.6, 39, even, dfs), 3) for dfs in (known, np.full(40, 58.0))]
        [0.05, 0.073]
    """
    noise = float(np.sum((1 - leverages) ** 2 / dfs))
    if noise == 0:
        return float(special.chdtrc(df, q))
    n = df + 1
    mean = df * (1 + 2 * (n - 2) * noise / (n**2 - 1))
    return float(special.fdtrc(df, (n**2 - 1) / (3 * noise), q / mean))


def pooled(control: Estimate, treatment: Estimate) -> tuple[Estimate, Estimate]:
    """Two estimates with the variances of values that spread alike in both variants.

    Where values are skewed and units uneven, a variant's own variance follows its own value, and
    the difference over its error is too often large. A permutation of the units has this variance.

    Args:
        control: Control's value.
        treatment: The treatment's.

    Returns:
        Both, with variances that sum to that of the difference under pooling. The treatment's
        still grows with the square of its values, so that a lift divides it out.

    Example:
        >>> large, small = Estimate(5.0, 0.01, 900, 899.0), Estimate(5.0, 0.09, 100, 99.0)
        >>> [round(one.variance, 4) for one in pooled(large, small)]
        [0.0901, 0.0099]
    """
    c, t = control.units, treatment.units
    share = (1 / c + 1 / t) / (c + t - 2)
    return (
        control._replace(variance=control.variance * c * (c - 1) * share),
        treatment._replace(variance=treatment.variance * t * (t - 1) * share),
    )


Pair = tuple[Estimate, Estimate]
"""Control and treatment."""


def against_rest(segment: Effect, rest: Effect, alpha: float = 0.05) -> Effect:
    """Effect in a segment against the effect in all other units.

    Args:
        segment: Effect in the segment.
        rest: Effect among the units outside it.
        alpha: Level of the interval.

    Returns:
        Effect whose control is the rest's difference and whose treatment is the segment's; z.

    Raises:
        Refusal: `zero_variance`; `not_finite`.

    Source:
        Welch (1947) on the difference of differences; Statsig, "differential impact detection".

    Example:
        >>> inside = effects.from_difference(1.0, 1.3, 0.3, 0.10)
        >>> outside = effects.from_difference(1.0, 1.1, 0.1, 0.05)
        >>> round(against_rest(inside, outside).statistic, 4)
        1.7889
    """
    se = math.hypot(segment.se, rest.se)
    return effects.from_difference(
        rest.difference,
        segment.difference,
        segment.difference - rest.difference,
        se,
        math.inf,
        alpha,
        "segment_against_rest",
    )


def with_rest(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    estimate: Callable[[Moments], Estimate],
    others: Sequence[tuple[Moments, Moments]] | None,
) -> Iterator[tuple[Pair, Pair]]:
    """Control and treatment in every segment, and outside of it."""
    if len(control) != len(treatment) or len(control) < 2:
        raise Refusal("too_few_units", "a comparison with the rest needs two segments or more")
    for i in range(len(control)):
        rest = (_others(control, i), _others(treatment, i)) if others is None else others[i]
        yield (
            (estimate(control[i]), estimate(treatment[i])),
            (estimate(rest[0]), estimate(rest[1])),
        )


def log_contrast(inside: Pair, outside: Pair, alpha: float) -> Effect | None:
    """The difference of log(treatment / control); None where a value is not positive, or is fixed.

    Example:
        >>> inside = Estimate(2.0, 0.1, 50, 49), Estimate(4.0, 0.1, 50, 49)
        >>> outside = Estimate(3.0, 0.1, 50, 49), Estimate(3.0, 0.1, 50, 49)
        >>> round(log_contrast(inside, outside, 0.05).difference, 4)
        0.6931
    """
    if min(arm.value for arm in (*inside, *outside)) <= 0:
        return None
    logs = [math.log(t.value / c.value) for c, t in (outside, inside)]
    se = math.sqrt(sum(arm.variance / arm.value**2 for arm in (*inside, *outside)))
    if se == 0:
        return None
    difference = logs[1] - logs[0]
    return effects.from_difference(
        logs[0], logs[1], difference, se, math.inf, alpha, "lift_against_rest"
    )


def _others(moments: Sequence[Moments], left_out: int) -> Moments:
    rest = [m for i, m in enumerate(moments) if i != left_out]
    merged = rest[0]
    for m in rest[1:]:
        merged = merged.merge(m)
    return merged


class Arms(NamedTuple):
    """Values, variances and their degrees of freedom of both variants, shape (segments,) each."""

    control: Floats
    treatment: Floats
    control_variance: Floats
    treatment_variance: Floats
    control_df: Floats
    treatment_df: Floats

    def q(self, ratio: float) -> float:
        """How far the segments are from one ratio of treatment to control."""
        distance = self.treatment - ratio * self.control
        return float(np.sum(distance**2 / self.variance(ratio)))

    def slope(self, ratio: float) -> float:
        """The derivative of `q` by the ratio."""
        apart = (self.treatment - ratio * self.control) / self.variance(ratio)
        terms = apart * (self.control + apart * ratio * self.control_variance)
        return -2 * float(np.sum(terms))

    def variance(self, ratio: float) -> Floats:
        """Variance of treatment − ratio × control in each segment."""
        return self.treatment_variance + ratio**2 * self.control_variance

    def p_value(self, ratio: float) -> float:
        """Of one ratio in all segments, at the ratio that fits them best."""
        variance = self.variance(ratio)
        parts = self.treatment_variance, ratio**2 * self.control_variance
        terms = zip(*parts, self.treatment_df, self.control_df, strict=True)
        dfs = np.array([satterthwaite((t, c), (t_df, c_df)) for t, c, t_df, c_df in terms])
        weight = self.control**2 / variance
        return welch_tail(self.q(ratio), len(dfs) - 1, weight / weight.sum(), dfs)


def arms_of(control: Sequence[Estimate], treatment: Sequence[Estimate]) -> Arms:
    """The segments, refused where no ratio can be fitted to them."""
    if len(control) != len(treatment) or len(control) < 2:
        raise Refusal("too_few_units", "heterogeneity needs two segments or more")
    arms = Arms(
        *(np.array([one.value for one in variant]) for variant in (control, treatment)),
        *(np.array([one.variance for one in variant]) for variant in (control, treatment)),
        *(np.array([one.df for one in variant]) for variant in (control, treatment)),
    )
    if not np.isfinite(np.concatenate(arms[:4])).all():
        raise Refusal("not_finite", "values and variances must be finite")
    if np.any(arms.control_variance + arms.treatment_variance <= 0):
        raise Refusal("zero_variance", "one of a segment's two values needs a positive variance")
    return arms


def common_ratio(arms: Arms) -> float:
    """The ratio that fits the segments best."""
    positive = (arms.control > 0) & (arms.treatment > 0)
    if not positive.any():
        raise Refusal("not_applicable", "no segment has a positive value in both variants")
    # Q falls towards the ratio of each segment, so its minimum lies among them.
    ratios = arms.treatment[positive] / arms.control[positive]
    low, high = float(ratios.min()), float(ratios.max())
    return _lowest(arms, low, high) if high > low else low


def _lowest(arms: Arms, low: float, high: float) -> float:
    """Where the segments are nearest: by the best of a grid, between its neighbours."""
    grid = np.linspace(low, high, 65)
    best = int(np.argmin([arms.q(float(one)) for one in grid]))
    ends = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 64)])
    if arms.slope(ends[0]) >= 0 or arms.slope(ends[1]) <= 0:
        return float(grid[best])
    return brentq(arms.slope, *ends, xtol=1e-15 * (high - low))


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
    fixed, fixed_se = _fixed_effect(effect, weight)
    q, df = float(np.sum(weight * (effect - fixed) ** 2)), len(effect) - 1
    spread = float(weight.sum() - np.sum(weight**2) / weight.sum())
    tau_squared = max(0.0, (q - df) / spread)
    random, random_se = _fixed_effect(effect, 1 / (error**2 + tau_squared))
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
        estimate: Such as `means.estimate_mean` or `means.estimate_ratio`.
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
        >>> contrasts = segments_against_rest(control, treatment, means.estimate_mean)
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
        estimate: Such as `means.estimate_mean` or `means.estimate_ratio`.
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
        >>> contrasts = lifts_against_rest(control, treatment, means.estimate_mean)
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


def _fixed_effect(effect: Floats, weight: Floats) -> tuple[float, float]:
    return float(np.sum(weight * effect) / weight.sum()), float(1 / math.sqrt(weight.sum()))
