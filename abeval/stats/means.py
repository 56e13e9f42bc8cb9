"""Estimate means, ratios and smooth functions of means, and compare them."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from abeval.stats import effects
from abeval.stats.moments import Moments, are_heavy
from abeval.stats.records import Effect, Estimate, Floats, Refusal

# A variance below this share of its terms is an exact zero plus rounding.
_ROUNDING = 1e-13

Smooth = Callable[[Floats], tuple[float, Floats]]
"""A smooth function of the means: returns its value and its gradient."""


def estimate_mean(moments: Moments) -> Estimate:
    """Estimate the mean of variable 0, variance s²/n; refuses fewer than two units.

    Example:
        >>> e = estimate_mean(Moments.of([1, 2, 3, 4]))
        >>> e.value, round(e.variance, 6), e.units, e.df
        (2.5, 0.416667, 4, 3.0)
    """
    variance = float(moments.covariance[0, 0]) / moments.n
    return Estimate(float(moments.mean[0]), variance, moments.n, moments.df)


def estimate_ratio(moments: Moments) -> Estimate:
    """Estimate the ratio of variables 0 and 1, by the delta method.

    Var(R) = (s_y² − 2R s_xy + R² s_x²) / (n x̄²), with divisor n − 1 in the covariances (Deng,
    Knoblich and Lu 2018) and with `correct_leverage`. Clicks over impressions have this form, and
    so has GAUC, as Σ n·AUC / Σ n. Refusals: `too_few_units`, `zero_denominator`.

    Example:
        >>> e = estimate_ratio(Moments.of([1, 0, 2, 1], [4, 5, 6, 5]))
        >>> e.value, round(e.variance, 6), e.units, round(e.df, 2)
        (0.2, 0.0059, 4, 2.92)
    """
    return estimate_smooth(correct_leverage(moments.pick(0, 1)), ratio(0, 1))


# An estimate, its adjustment and a permutation test correct the same variants in turn.
@lru_cache(maxsize=4)
def correct_leverage(
    moments: Moments, divisor: float | None = None, blocks: tuple[Sequence[int], ...] = ((0, 1),)
) -> Moments:
    """Correct the variance of ratios for heavy units, as HC3 does.

    The residual of a heavy unit becomes its residual from the ratio of all others, (y − R x) / (1 −
    g), as in the jackknife (Miller 1974) and in HC3 (MacKinnon and White 1985). g is the unit's
    share of the denominator. The degrees of freedom are those of the effective number of units,
    (Σx)² / Σx² − 1 (Kish 1965). If all denominators are equal, nothing changes. Refusals:
    `too_few_units` if one unit holds all of a denominator.

    Args:
        moments: Moments of numerator, denominator and other variables.
        divisor: Mean of the denominator from which shares follow; for strata, the mean over all
            units divided by the stratum's share.
        blocks: Groups of variables that share one denominator, which is the second of each group.

    Example:
        >>> m = Moments.of([1, 0, 2, 1, 9], [4, 5, 6, 5, 30])
        >>> both = [estimate_smooth(own, ratio(0, 1)) for own in (m, correct_leverage(m))]
        >>> [round(one.variance, 4) for one in both]
        [0.0017, 0.0037]
    """
    n, below = moments.n, [block[1] for block in blocks]
    mean = sum(float(moments.mean[k]) for k in below)
    square = sum(float(moments.comoment[k, j]) for k in below for j in below)
    if n < 2 or mean == 0:
        return moments
    # Kish's effective number of units, (Σx)² / Σx².
    effective = min(moments.df, max(n / (1 + square / n / mean / mean) - 1, 1.0)) + 1
    heavy, comoment = moments.heavy, moments.comoment
    if len(heavy):
        left = heavy.copy()
        for block in blocks:
            apart, block_mean = heavy[:, block[1]], float(moments.mean[block[1]])
            held = are_heavy(apart + block_mean, n, n * block_mean)
            rest = np.where(held, 1 - apart / ((n - 1) * (divisor or block_mean)), 1.0)
            if rest.min() < _ROUNDING:
                raise Refusal("too_few_units", "one unit holds the whole denominator")
            for variable in block:
                left[:, variable] /= rest
        comoment = comoment + left.T @ left - heavy.T @ heavy
    return moments.copy(comoment=comoment, effective=effective, heavy=heavy[:0])


def linearise_ratio(moments: Moments) -> Moments:
    """Make the ratio of variables 0 and 1 one variable of each unit.

    The variable is R + (y − R x) / x̄. Its mean is R, and its variance that of the delta method
    (Deng, Knoblich and Lu 2018). Other variables stay. Refusals: `zero_denominator`.

    Example:
        >>> linearise_ratio(Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [1, 1, 2, 0])).mean.tolist()
        [0.2, 1.0]
    """
    mean = moments.mean
    rows = np.vstack([differentiate_ratio(mean), np.eye(mean.size)[2:]])
    # What rounding leaves of an exactly constant combination must not be divided by.
    varies = [compute_quadratic_form(row, moments.comoment) > 0 for row in rows]
    return moments.copy(
        mean=np.array([float(mean[0] / mean[1]), *mean[2:]]),
        comoment=rows @ moments.comoment @ rows.T * np.outer(varies, varies),
        third=None,
        heavy=np.zeros((0, len(rows))),
    )


def centre_strata(
    strata: Sequence[Moments], shares: Sequence[float], is_ratio: bool
) -> tuple[Floats, Floats, list[Moments]]:
    """Return the mean of all strata, and the gradient of the metric there.

    Both have the shape (k,). The metric is variable 0, or its ratio to variable 1. Third, the
    strata themselves, of a ratio corrected for heavy units. Refusals: `zero_denominator`,
    `too_few_units`.
    """
    centre = np.asarray(shares) @ np.array([stratum.mean for stratum in strata])
    if not is_ratio:
        return centre, np.eye(1, centre.size)[0], [*strata]
    if len(strata) == 1:
        return centre, differentiate_ratio(centre), [correct_leverage(strata[0])]
    pairs = zip(shares, strata, strict=True)
    corrected = [correct_leverage(stratum, float(centre[1]) / share) for share, stratum in pairs]
    return centre, differentiate_ratio(centre), corrected


def estimate_smooth(moments: Moments, function: Smooth) -> Estimate:
    """Estimate a smooth function of means, by the delta method.

    Var(g(x̄)) = ∇g' Σ ∇g / n, Σ with divisor n − 1 (Deng, Knoblich and Lu 2018). Refusals:
    `too_few_units`, `zero_denominator`.
    """
    covariance = moments.covariance
    value, slope = function(moments.mean)
    return Estimate(
        value, compute_quadratic_form(slope, covariance) / moments.n, moments.n, moments.df
    )


def welch(control: Moments, treatment: Moments, alpha: float = 0.05) -> Effect:
    """Compare means of variable 0 by Welch's t (1947).

    Refusals: `too_few_units`, `zero_variance`.

    Example:
        >>> e = welch(Moments.of([1, 2, 3, 4]), Moments.of([3, 4, 5, 9]))
        >>> e.difference, round(e.df, 4), round(e.p_value, 4)
        (2.75, 4.3664, 0.1277)
    """
    return effects.compare(estimate_mean(control), estimate_mean(treatment), alpha, "welch_t")


def delta(control: Moments, treatment: Moments, alpha: float = 0.05) -> Effect:
    """Compare two ratios of variables 0 and 1, by the delta method.

    Source: Deng, Knoblich and Lu (2018).

    The test uses t with the degrees of freedom of Welch and Satterthwaite, which keeps the error
    rate with few units. Refusals: `too_few_units`, `zero_denominator`, `zero_variance`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5])
        >>> e = delta(control, Moments.of([2, 1, 3, 1], [4, 6, 6, 5]))
        >>> round(e.difference, 4), round(e.p_value, 4)
        (0.1333, 0.3215)
    """
    method = name_ratio_method(control, treatment)
    return effects.compare(estimate_ratio(control), estimate_ratio(treatment), alpha, method)


def name_ratio_method(*arms: Moments) -> str:
    """Return the id of a ratio's test: `jackknife_t` with heavy units."""
    return "jackknife_t" if any(len(m.heavy) for m in arms) else "delta_t"


def compare_within_units(
    moments: Moments, control: Smooth, treatment: Smooth, alpha: float = 0.05
) -> Effect:
    """Compare two smooth functions of the same units' means, against t with n − 1 df.

    The delta method is applied to treatment − control as one function of the means. The gradient is
    the difference of the two gradients, so their covariance is included (Deng, Knoblich and Lu
    2018, for one ratio). Refusals: `too_few_units`, `zero_denominator`, `zero_variance`.

    Example:
        >>> m = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [2, 1, 3, 1], [4, 5, 6, 5])
        >>> e = compare_within_units(m, ratio(0, 1), ratio(2, 3))
        >>> round(e.difference, 4), round(e.se, 4), round(e.p_value, 4)
        (0.15, 0.0515, 0.0618)
    """
    before, slope_before = control(moments.mean)
    after, slope_after = treatment(moments.mean)
    se = math.sqrt(
        compute_quadratic_form(slope_after - slope_before, moments.covariance) / moments.n
    )
    values = before, after, after - before, se, moments.df
    return effects.effect_from_difference(*values, alpha, method="paired_delta_t")


def ratio(numerator: int, denominator: int) -> Smooth:
    """Make the ratio of two means, by their indices, a smooth function.

    Example:
        >>> value, slope = ratio(0, 1)(np.array([1.0, 4.0]))
        >>> value, slope.tolist()
        (0.25, [0.25, -0.0625])
    """

    def evaluate(mean: Floats) -> tuple[float, Floats]:
        slope = differentiate_ratio(mean, numerator, denominator)
        return float(mean[numerator] / mean[denominator]), slope

    return evaluate


def differentiate_ratio(mean: Floats, numerator: int = 0, denominator: int = 1) -> Floats:
    """Return the gradient of mean[numerator] / mean[denominator], shape (k,).

    Refusals: `zero_denominator`.
    """
    above, divisor = float(mean[numerator]), float(mean[denominator])
    if divisor == 0:
        raise Refusal("zero_denominator", "the denominator of the ratio sums to zero")
    of_above, of_divisor = 1 / divisor, above / divisor / divisor
    if not (math.isfinite(of_above) and math.isfinite(of_divisor)):
        raise Refusal("zero_denominator", "the denominator of the ratio is almost zero")
    weights = np.zeros(mean.size)
    weights[numerator] = of_above
    weights[denominator] -= of_divisor
    return weights


def compute_quadratic_form(weights: Floats, covariance: Floats) -> float:
    """Return w'Σw; zero if only rounding error is left."""
    terms = weights[:, None] * covariance * weights
    total = float(terms.sum())
    return total if total > _ROUNDING * float(np.abs(terms).sum()) else 0.0
