"""Resample sub-buckets: errors and p-values of any function of sums.

A variant is an array of sums, one row per sub-bucket and one column per additive aggregate (units,
clicks, impressions, ...). A statistic maps sums of shape (..., aggregates) to values of shape
(...). It should not depend on scale, such as a ratio or a mean: a total also varies with the number
of units drawn.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.records import Adjusted, Effect, Estimate, Floats, Refusal, check_finite

DRAWS, SEED = 2000, 0
"""Default number of draws of bootstrap and permutation test, and their seed."""

_MIN_BUCKETS, MIN_DAYS = 8, 7
"""With fewer sub-buckets, or days instead, no standard error is reliable."""

Statistic = Callable[[Floats], Floats]

_BATCH = 256
"""Replicates whose bucket weights are held in memory at once."""


def _cut_batches(count: int) -> list[int]:
    """Cut `count` replicates into batches; return their sizes."""
    return [min(_BATCH, count - start) for start in range(0, count, _BATCH)]


def evaluate_replicates(sums: ArrayLike, weights: ArrayLike, statistic: Statistic) -> Floats:
    """Evaluate a statistic for re-weighted buckets or units, shape (replicates,).

    Sums have the shape (buckets, aggregates), weights (replicates, buckets). Refusals: `not_finite`
    if the statistic is not finite on some replicate.
    """
    return _apply(statistic, np.asarray(weights, dtype=float) @ np.asarray(sums, dtype=float))


def bootstrap(
    control: ArrayLike,
    treatment: ArrayLike,
    statistic: Statistic,
    alpha: float = 0.05,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Adjusted:
    """Test by the Poisson bootstrap of sub-buckets.

    Interval and p-value are from t with buckets - 1 degrees of freedom (Hanley & MacGibbon 2006;
    Chamandy et al. 2012, "Estimating Uncertainty for Massive Data Streams"). The standard error is
    good to about `1 / sqrt(2 draws)`. Refusals: `too_few_units` below eight buckets;
    `zero_variance`; `not_finite` if the statistic is not finite on some replicate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> sums = np.stack([rng.poisson(20, 256), np.full(256, 100)], axis=1)
        >>> ctr = lambda s: s[..., 0] / s[..., 1]
        >>> round(bootstrap(sums[:128], sums[128:], ctr).effect.se, 4)
        0.0058
    """
    arms, rng = (_check_sums(control), _check_sums(treatment)), np.random.default_rng(seed)
    values = []
    for arm in arms:
        weights = (rng.poisson(1.0, size=(size, len(arm))) for size in _cut_batches(draws))
        values.append(
            np.concatenate([evaluate_replicates(arm, batch, statistic) for batch in weights])
        )
    return _build_effect(arms, statistic, np.cov(values), alpha, "poisson_bootstrap")


def jackknife(
    control: ArrayLike, treatment: ArrayLike, statistic: Statistic, alpha: float = 0.05
) -> Adjusted:
    """Test by the jackknife: leave out each sub-bucket of both variants.

    The test uses t with buckets - 1 degrees of freedom (Efron & Stein 1981; Chamandy et al. 2012).
    Refusals: As `bootstrap`, but `too_few_units` below seven buckets (the days of a week); also
    `not_applicable` if the buckets of the variants differ.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> sums = np.stack([rng.poisson(20, 256), np.full(256, 100)], axis=1)
        >>> round(jackknife(sums[:128], sums[128:], lambda s: s[..., 0] / s[..., 1]).effect.se, 4)
        0.0059
    """
    arms = _check_arms(control, treatment, MIN_DAYS)
    left_out = [_apply(statistic, arm.sum(axis=0) - arm) for arm in arms]
    count = len(arms[0])
    # (B − 1) / B · Σ(θᵢ − θ̄)², from NumPy's divisor B − 1.
    spread = np.cov(left_out) * (count - 1) ** 2 / count
    return _build_effect(arms, statistic, spread, alpha, "bucket_jackknife")


def jackknife_se(without: Floats) -> float:
    """Return the jackknife standard error of leave-one-out values, (groups,).

    The delete-a-group jackknife (Efron & Stein 1981).

    Example:
        >>> round(jackknife_se(np.array([1.0, 2.0, 3.0])), 4)
        1.1547
    """
    groups = len(without)
    return float(np.sqrt((groups - 1) / groups * np.sum((without - without.mean()) ** 2)))


def permutation(
    control: ArrayLike,
    treatment: ArrayLike,
    statistic: Statistic,
    alpha: float = 0.05,
    permutations: int = DRAWS,
    seed: int = SEED,
) -> Adjusted:
    """Test by permutation: reassign pooled sub-buckets at random.

    Control's and treatment's sums of a bucket are pooled and never swapped, because they differ in
    size at a 90/10 split. The interval is the one that `jackknife` gives. The null differences are
    scaled as in `scale_null_differences`. Sums have units first; the p-value is no smaller than 1 /
    (permutations + 1). Refusals: As `jackknife`; `too_few_units` if the smaller variant has fewer
    units than two sub-buckets.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> arm = lambda rate: np.stack([np.full(64, 50), rng.poisson(rate, 64)], axis=1)
        >>> permutation(arm(100), arm(105), lambda s: s[..., 1] / s[..., 0]).effect.p_value < 0.05
        True
    """
    arms = _check_arms(control, treatment)
    by_jackknife = jackknife(*arms, statistic, alpha)
    null = _draw_null_differences(*arms, statistic, permutations, np.random.default_rng(seed))
    effect = replace_p_value(by_jackknife.effect, null, "bucket_permutation")
    return by_jackknife._replace(effect=effect)


def replace_p_value(effect: Effect, null: Floats, method: str) -> Effect:
    """Replace the p-value of an effect by the p-value from null differences.

    Example:
        >>> observed = effects.effect_from_difference(0.0, 1.0, 1.0, 0.1)
        >>> replace_p_value(observed, np.array([0.5, -2.0, 0.1]), "bucket_permutation").p_value
        0.5
    """
    p_value = compute_permutation_p_value(null, effect.difference)
    return effect._replace(p_value=p_value, method=method)


def compute_permutation_p_value(null: Floats, observed: float) -> float:
    """Return the two-sided permutation p-value, (1 + b) / (1 + B).

    Source: Phipson & Smyth (2010).
    """
    return (1 + int(np.count_nonzero(np.abs(null) >= abs(observed)))) / (1 + len(null))


def scale_null_differences(
    null: Floats, units: Floats, buckets: int, sizes: tuple[int, int], rng: np.random.Generator
) -> Floats:
    """Scale null differences to the variance of the observed difference.

    The variance of a permuted difference depends on the units in its two sets of buckets (`sizes`).
    The variance of the observed one depends on the units of the two variants (`units`). Permuted
    differences are also divided by sqrt(chi2/df), because the variance is estimated from finitely
    many buckets: the step from z to t.
    """
    permuted_variance = buckets / units.sum() * (1 / sizes[0] + 1 / sizes[1])
    scale = np.sqrt(np.sum(1 / units) / permuted_variance)
    spread = np.sqrt((buckets - 1) / rng.chisquare(buckets - 1, size=null.shape[-1]))
    return np.asarray(null * scale * spread)


def _check_sums(sums: ArrayLike, least: int = _MIN_BUCKETS) -> Floats:
    array = np.asarray(sums, dtype=float)
    if array.ndim != 2 or len(array) < least:
        what = f"bucket sums of shape {array.shape}; use {least} buckets or more"
        raise Refusal("too_few_units", what)
    return check_finite(array, "bucket sums must be finite")


def _check_arms(
    control: ArrayLike, treatment: ArrayLike, least: int = _MIN_BUCKETS
) -> tuple[Floats, Floats]:
    arms = _check_sums(control, least), _check_sums(treatment, least)
    if arms[0].shape != arms[1].shape:
        raise Refusal("not_applicable", "the variants have different buckets or aggregates")
    return arms


def _apply(statistic: Statistic, sums: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return check_finite(statistic(sums), "the statistic is not finite on some resample")


def _build_effect(
    arms: tuple[Floats, Floats], statistic: Statistic, spread: Floats, alpha: float, method: str
) -> Adjusted:
    """Build the effect from the covariance of the two values."""
    control, treatment = (float(_apply(statistic, arm.sum(axis=0))) for arm in arms)
    se = float(np.sqrt(max(spread[0, 0] + spread[1, 1] - 2 * spread[0, 1], 0.0)))
    if se <= 1e-12 * (abs(control) + abs(treatment)):
        raise Refusal("zero_variance", "the statistic is the same on every resample")
    df = min(len(arm) for arm in arms) - 1
    effect = effects.effect_from_difference(
        control, treatment, treatment - control, se, df, alpha, method
    )
    of_control = Estimate(control, float(spread[0, 0]), 0, effect.df)
    of_treatment = Estimate(treatment, float(spread[1, 1]), 0, effect.df)
    shared = float(spread[0, 1] - spread[0, 0])
    return Adjusted(effect, (), 0.0, of_control, of_treatment, shared)


def _draw_null_differences(
    control: Floats,
    treatment: Floats,
    statistic: Statistic,
    permutations: int,
    rng: np.random.Generator,
) -> Floats:
    """Draw differences of buckets assigned at random, shape (permutations,)."""
    pooled, units = control + treatment, np.array([control[:, 0].sum(), treatment[:, 0].sum()])
    buckets, total = len(pooled), pooled.sum(axis=0)
    exact = buckets * units[1] / units.sum() if units.sum() else 0.0
    if not 2 <= exact <= buckets - 2:
        raise Refusal("too_few_units", "the smaller variant has fewer units than two sub-buckets")
    size = round(exact)
    differences = []
    for batch in _cut_batches(permutations):
        order = rng.random((batch, buckets)).argpartition(size, axis=1)
        treated = np.zeros(order.shape)
        np.put_along_axis(treated, order[:, :size], 1.0, axis=1)
        sums = treated @ pooled
        differences.append(_apply(statistic, sums) - _apply(statistic, total - sums))
    null = np.concatenate(differences)
    return scale_null_differences(null, units, buckets, (size, buckets - size), rng)
