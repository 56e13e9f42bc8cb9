"""Test whether the effect differs between segments."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats import effects
from abeval.stats.distributions import brentq
from abeval.stats.effects import satterthwaite
from abeval.stats.records import Effect, Estimate, Floats, Refusal, check_finite

Pair = tuple[Estimate, Estimate]
"""Control and treatment."""


class Heterogeneity(NamedTuple):
    """A test whether segments share one effect.

    `q` measures how far the segments are from the common effect that fits best. `df` is the number
    of segments minus one. `i_squared` is the share of the variation between segments that is not
    noise, in [0, 1].
    """

    q: float
    df: int
    p_value: float
    i_squared: float


def cochran(differences: ArrayLike, ses: ArrayLike, dfs: ArrayLike) -> Heterogeneity:
    """Test whether disjoint segments share one effect.

    Standard errors are positive; their degrees of freedom are infinite if the errors are known
    exactly. Source: Cochran (1954); Welch (1951) and Kulinskaya et al. (2004) for estimated errors;
    Higgins et al. (2003) for I². Refusals: `too_few_units` for fewer than two segments;
    `zero_variance`; `not_finite`.

    Example:
        >>> test = cochran([0.05, 0.01, -0.02], [0.01, 0.01, 0.02], [np.inf] * 3)
        >>> round(test.q, 3), round(test.p_value, 4), round(test.i_squared, 3)
        (13.556, 0.0011, 0.852)
    """
    effect, error = np.asarray(differences, dtype=float), np.asarray(ses, dtype=float)
    if effect.shape != error.shape or effect.ndim != 1 or len(effect) < 2:
        raise Refusal("too_few_units", "heterogeneity needs two segments with one error each")
    check_finite([effect, error], "effects and standard errors must be finite")
    if np.any(error <= 0):
        raise Refusal("zero_variance", "a segment's effect needs a positive standard error")
    weight = 1 / error**2
    pooled = float(np.sum(weight * effect) / weight.sum())
    q = float(np.sum(weight * (effect - pooled) ** 2))
    return _test_q(q, weight, np.asarray(dfs, dtype=float))


def lifts(control: Sequence[Estimate], treatment: Sequence[Estimate]) -> Heterogeneity:
    """Test whether disjoint segments share one relative effect.

    Q(ρ) = Σ (t − ρc)² / (v_t + ρ²v_c) at the ratio ρ that makes it smallest, with one degree of
    freedom less than segments: chi-square, or F if variances are estimated. No ratio of a segment
    is taken, so segments whose control is near zero do no harm. No value is negative. Source:
    Cochran (1954) on the residuals of Fieller (1940); Creasy (1954); Johansen (1980). Refusals:
    `too_few_units` for fewer than two segments; `zero_variance`; `not_finite`; `not_applicable` if
    no segment has a positive value in both variants.

    Example:
        >>> value = lambda one: Estimate(one, 0.0001, 900, 899.0)
        >>> control, treatment = [value(0.2), value(2.0)], [value(0.22), value(2.2)]
        >>> round(lifts(control, treatment).p_value, 3)
        1.0
    """
    arms = stack_arms(control, treatment)
    ratio = fit_common_ratio(arms)
    variances = arms.variances * np.array([[ratio**2], [1.0]])
    terms = zip(variances.T.tolist(), arms.dfs.T.tolist(), strict=True)
    dfs = np.array([satterthwaite(*term) for term in terms])
    return _test_q(arms.q(ratio), arms.values[0] ** 2 / arms.variance(ratio), dfs)


def _test_q(q: float, weight: Floats, dfs: Floats) -> Heterogeneity:
    df = len(dfs) - 1
    p_value = _welch_tail(q, df, weight / weight.sum(), dfs)
    return Heterogeneity(q, df, p_value, 1 - df / q if q > df else 0.0)


def against_rest(inside: Pair, outside: Pair, alpha: float = 0.05) -> Effect:
    """Test the effect in a segment against the effect in all other units, by z.

    In the returned effect, control is the difference outside the segment and treatment the
    difference inside (Welch 1947; Statsig, "differential impact detection"). Refusals:
    `zero_variance`; `not_finite`.

    Example:
        >>> value = lambda one: Estimate(one, 0.005, 900, 899.0)
        >>> test = against_rest((value(1.0), value(1.3)), (value(1.0), value(1.1)))
        >>> round(test.difference, 4), round(test.statistic, 4)
        (0.2, 1.4142)
    """
    segment, rest = effects.compare(*inside), effects.compare(*outside)
    se, difference = math.hypot(segment.se, rest.se), segment.difference - rest.difference
    values = rest.difference, segment.difference, difference
    return effects.effect_from_difference(*values, se, math.inf, alpha, "segment_against_rest")


def lift_against_rest(inside: Pair, outside: Pair, alpha: float = 0.05) -> Effect | None:
    """Test the relative effect in a segment against that in all other units.

    Returns the difference of the two log(treatment / control), with errors by the delta method. A
    value of 0.05 says: treatment over control is e^0.05 times as large in the segment as in the
    others. Returns None if a value is not positive, or if none varies.

    Example:
        >>> inside = Estimate(2.0, 0.1, 50, 49), Estimate(4.0, 0.1, 50, 49)
        >>> outside = Estimate(3.0, 0.1, 50, 49), Estimate(3.0, 0.1, 50, 49)
        >>> round(lift_against_rest(inside, outside).difference, 4)
        0.6931
    """
    if min(arm.value for arm in (*inside, *outside)) <= 0:
        return None
    rest, segment = (math.log(t.value / c.value) for c, t in (outside, inside))
    se = math.sqrt(sum(arm.variance / arm.value**2 for arm in (*inside, *outside)))
    if se == 0:
        return None
    values = rest, segment, segment - rest
    return effects.effect_from_difference(*values, se, math.inf, alpha, "lift_against_rest")


def _welch_tail(q: float, df: int, leverages: Floats, dfs: Floats) -> float:
    """Test a weighted sum of squares whose weights are one over estimated variances.

    `q` is Σ weight × residual². `df` is the number of residuals minus one fitted parameter.
    `leverages` say how much each residual moves its own fit, in [0, 1]. The test is a chi-square
    test if all `dfs` of the variances are infinite. Source: Welch (1951); Johansen (1980) for any
    linear fit; Kulinskaya, Dollinger, Knight and Gao (2004) for differences of two variants with
    Satterthwaite's degrees of freedom.

    Example:
        >>> even, known = np.full(40, 1 / 40), np.full(40, np.inf)
        >>> [round(_welch_tail(54.6, 39, even, dfs), 3) for dfs in (known, np.full(40, 58.0))]
        [0.05, 0.073]
    """
    noise = float(np.sum((1 - leverages) ** 2 / dfs))
    if noise == 0:
        return float(special.chdtrc(df, q))
    n = df + 1
    # Welch: q / mean follows F(df, (n² − 1) / (3·noise)).
    mean = df * (1 + 2 * (n - 2) * noise / (n**2 - 1))
    return float(special.fdtrc(df, (n**2 - 1) / (3 * noise), q / mean))


def pool_variances(control: Estimate, treatment: Estimate) -> tuple[Estimate, Estimate]:
    """Give two estimates the variance of their pooled units.

    If values are skewed and the variants uneven, a variant's own variance depends on its value, and
    the test rejects too often. The pooled variances add up to the variance of a permutation of the
    units. The treatment's variance still grows with the square of its values, so that a lift
    divides it out.

    Example:
        >>> large, small = Estimate(5.0, 0.01, 900, 899.0), Estimate(5.0, 0.09, 100, 99.0)
        >>> [round(one.variance, 4) for one in pool_variances(large, small)]
        [0.0901, 0.0099]
    """
    c, t = control.units, treatment.units
    share = (1 / c + 1 / t) / (c + t - 2)
    return (
        control._replace(variance=control.variance * c * (c - 1) * share),
        treatment._replace(variance=treatment.variance * t * (t - 1) * share),
    )


class Arms(NamedTuple):
    """Values, variances and df of both variants, shape (2, segments) each."""

    values: Floats
    variances: Floats
    dfs: Floats

    def q(self, ratio: float) -> float:
        """Return Cochran's Q of the segments at a common ratio."""
        return float(np.sum(self._measure_residuals(ratio) ** 2 / self.variance(ratio)))

    def slope(self, ratio: float) -> float:
        """Return the derivative of `q` by the ratio."""
        apart = self._measure_residuals(ratio) / self.variance(ratio)
        return -2 * float(np.sum(apart * (self.values[0] + apart * ratio * self.variances[0])))

    def variance(self, ratio: float) -> Floats:
        """Return the variance of treatment − ratio × control in each segment."""
        return np.asarray(self.variances[1] + ratio**2 * self.variances[0])

    def _measure_residuals(self, ratio: float) -> Floats:
        return np.asarray(self.values[1] - ratio * self.values[0])


def stack_arms(control: Sequence[Estimate], treatment: Sequence[Estimate]) -> Arms:
    """Stack the estimates of segments; refuse those without a common ratio."""
    if len(control) != len(treatment) or len(control) < 2:
        raise Refusal("too_few_units", "heterogeneity needs two segments or more")
    values, variances, _, dfs = np.moveaxis(np.array([control, treatment], dtype=float), 2, 0)
    check_finite([values, variances], "values and variances must be finite")
    if np.any(variances.sum(axis=0) <= 0):
        raise Refusal("zero_variance", "one of a segment's two values needs a positive variance")
    return Arms(values, variances, dfs)


def fit_common_ratio(arms: Arms) -> float:
    """Find the ratio that fits the segments best: on a grid, then refined."""
    positive = (arms.values > 0).all(axis=0)
    if not positive.any():
        raise Refusal("not_applicable", "no segment has a positive value in both variants")
    # Q falls towards the ratio of each segment, so its minimum lies among them.
    ratios = arms.values[1, positive] / arms.values[0, positive]
    grid = np.linspace(ratios.min(), ratios.max(), 65).tolist()
    best = int(np.argmin([arms.q(ratio) for ratio in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 64)]
    if arms.slope(low) >= 0 or arms.slope(high) <= 0:
        return float(grid[best])
    return brentq(arms.slope, low, high, xtol=1e-15 * (grid[-1] - grid[0]))
