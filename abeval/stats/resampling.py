"""Resampling on sub-buckets: any function of aggregates gets a standard error and a p-value.

A variant is an array of sums, one row per sub-bucket and one column per additive aggregate (units,
clicks, impressions, ...). A statistic maps sums, aggregates last, to numbers: it is called on
arrays of shape (..., aggregates) and returns shape (...). It should be scale-free, such as a ratio
or a mean: a bare total also moves with the number of units drawn.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats import effects
from abeval.stats.records import Effect, Refusal

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]

BATCH = 256
"""Replicates whose bucket weights are held in memory at once."""


def replicates(sums: ArrayLike, weights: ArrayLike, statistic: Statistic) -> Floats:
    """The statistic of re-weighted buckets (or units).

    Args:
        sums: Shape (buckets, aggregates).
        weights: Shape (replicates, buckets).
        statistic: Function of sums.

    Returns:
        Shape (replicates,).

    Raises:
        Refusal: `not_finite` if the statistic is not finite on some replicate.

    Source:
        Chamandy et al. (2012), "Estimating Uncertainty for Massive Data Streams".

    Example:
        >>> replicates([[2, 10], [1, 10]], [[1, 1], [2, 0]], lambda s: s[..., 0] / s[..., 1])
        array([0.15, 0.2 ])
    """
    return _apply(statistic, np.asarray(weights, dtype=float) @ np.asarray(sums, dtype=float))


def bootstrap(
    control: ArrayLike,
    treatment: ArrayLike,
    statistic: Statistic,
    alpha: float = 0.05,
    draws: int = 2000,
    seed: int = 0,
) -> Effect:
    """Poisson bootstrap: every sub-bucket enters a replicate Poisson(1) times.

    Args:
        control: Sums, shape (buckets, aggregates).
        treatment: Sums, shape (buckets, aggregates).
        statistic: Function of sums.
        alpha: Level of the interval.
        draws: Replicates; the standard error is good to about `1 / sqrt(2 draws)`.
        seed: Of the weights.

    Returns:
        Effect with the standard error of the replicates; t with buckets - 1 degrees of freedom.

    Raises:
        Refusal: `too_few_units` below eight buckets; `zero_variance`; `not_finite` if the
            statistic is not finite on some replicate.

    Source:
        Chamandy et al. (2012); Hanley & MacGibbon (2006).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> sums = np.stack([rng.poisson(20, 256), np.full(256, 100)], axis=1)
        >>> ctr = lambda s: s[..., 0] / s[..., 1]
        >>> round(bootstrap(sums[:128], sums[128:], ctr).se, 4)
        0.0058
    """
    arms = _sums(control), _sums(treatment)
    spread = bootstrap_spread(*arms, statistic, draws, seed)
    return _effect(arms, statistic, _se(spread), alpha, "poisson_bootstrap")


def bootstrap_spread(
    control: ArrayLike, treatment: ArrayLike, statistic: Statistic, draws: int = 2000, seed: int = 0
) -> Floats:
    """Covariance of the two variants' values by the Poisson bootstrap, shape (2, 2).

    Arguments and refusals as in `bootstrap`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> sums = np.stack([rng.poisson(20, 256), np.full(256, 100)], axis=1)
        >>> bootstrap_spread(sums[:128], sums[128:], lambda s: s[..., 0] / s[..., 1]).shape
        (2, 2)
    """
    arms = _sums(control), _sums(treatment)
    rng = np.random.default_rng(seed)
    values = [
        np.concatenate(
            [
                replicates(arm, rng.poisson(1.0, size=(min(BATCH, draws - i), len(arm))), statistic)
                for i in range(0, draws, BATCH)
            ]
        )
        for arm in arms
    ]
    return np.cov(values)


def jackknife(
    control: ArrayLike, treatment: ArrayLike, statistic: Statistic, alpha: float = 0.05
) -> Effect:
    """Delete-a-bucket jackknife: each sub-bucket is left out of both variants in turn.

    Args:
        control: Sums, shape (buckets, aggregates).
        treatment: Sums over the same buckets, shape (buckets, aggregates).
        statistic: Function of sums.
        alpha: Level of the interval.

    Returns:
        Effect; t with buckets - 1 degrees of freedom.

    Raises:
        Refusal: As `bootstrap`; `not_applicable` if the buckets differ.

    Source:
        Efron & Stein (1981); Chamandy et al. (2012).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> sums = np.stack([rng.poisson(20, 256), np.full(256, 100)], axis=1)
        >>> round(jackknife(sums[:128], sums[128:], lambda s: s[..., 0] / s[..., 1]).se, 4)
        0.0059
    """
    arms = _pair(control, treatment)
    spread = jackknife_spread(*arms, statistic)
    return _effect(arms, statistic, _se(spread), alpha, "bucket_jackknife")


def jackknife_spread(control: ArrayLike, treatment: ArrayLike, statistic: Statistic) -> Floats:
    """Covariance of the two variants' values by the delete-a-bucket jackknife, shape (2, 2).

    Arguments and refusals as in `jackknife`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> sums = np.stack([rng.poisson(20, 256), np.full(256, 100)], axis=1)
        >>> jackknife_spread(sums[:128], sums[128:], lambda s: s[..., 0] / s[..., 1]).shape
        (2, 2)
    """
    arms = _pair(control, treatment)
    left_out = [_apply(statistic, arm.sum(axis=0) - arm) for arm in arms]
    count = len(arms[0])
    return np.cov(left_out) * (count - 1) ** 2 / count


def _se(spread: Floats) -> float:
    """Standard error of the difference of two values with this covariance."""
    return float(np.sqrt(max(spread[0, 0] + spread[1, 1] - 2 * spread[0, 1], 0.0)))


def permutation(
    control: ArrayLike,
    treatment: ArrayLike,
    statistic: Statistic,
    alpha: float = 0.05,
    permutations: int = 2000,
    seed: int = 0,
) -> Effect:
    """Re-deal the pooled sub-buckets at the observed share and see how often chance does as much.

    Control's and treatment's cells of a bucket, which differ in size at 90/10, are pooled and
    never swapped. Re-dealt differences are brought to the observed numbers of units and divided
    by sqrt(chi2/df), because they know the variance from finitely many buckets: as t is to z.

    Args:
        control: Sums, units first, shape (buckets, aggregates).
        treatment: Sums over the same buckets, shape (buckets, aggregates).
        statistic: Function of sums.
        alpha: Level of the jackknife interval that goes with the p-value.
        permutations: Re-deals; the p-value is no smaller than 1 / (permutations + 1).
        seed: Of the re-deals.

    Returns:
        Effect with the jackknife's interval and the permutation's p-value.

    Raises:
        Refusal: As `jackknife`; `too_few_units` if the smaller variant has less than two buckets'
            worth of units.

    Source:
        Phipson & Smyth (2010) for (1 + b) / (1 + B).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> arm = lambda rate: np.stack([np.full(64, 50), rng.poisson(rate, 64)], axis=1)
        >>> found = permutation(arm(100), arm(105), lambda s: s[..., 1] / s[..., 0])
        >>> found.p_value < 0.05
        True
    """
    arms = _pair(control, treatment)
    effect = jackknife(*arms, statistic, alpha)
    deals = _redeals(*arms, statistic, permutations, np.random.default_rng(seed))
    p_value = float(1 + np.count_nonzero(np.abs(deals) >= abs(effect.difference)))
    p_value /= 1 + permutations
    return effect._replace(
        p_value=p_value, log10_p_value=float(np.log10(p_value)), method="bucket_permutation"
    )


def _sums(sums: ArrayLike) -> Floats:
    array = np.asarray(sums, dtype=float)
    if array.ndim != 2 or len(array) < 8:
        raise Refusal("too_few_units", f"bucket sums of shape {array.shape}; use 8 buckets or more")
    if not np.isfinite(array).all():
        raise Refusal("not_finite", "bucket sums must be finite")
    return array


def _pair(control: ArrayLike, treatment: ArrayLike) -> tuple[Floats, Floats]:
    arms = _sums(control), _sums(treatment)
    if arms[0].shape != arms[1].shape:
        raise Refusal("not_applicable", "the variants have different buckets or aggregates")
    return arms


def _apply(statistic: Statistic, sums: Floats) -> Floats:
    with np.errstate(all="ignore"):
        values = np.asarray(statistic(sums), dtype=float)
    if not np.isfinite(values).all():
        raise Refusal("not_finite", "the statistic is not finite on some resample")
    return values


def _effect(
    arms: tuple[Floats, Floats], statistic: Statistic, se: float, alpha: float, method: str
) -> Effect:
    control, treatment = (float(_apply(statistic, arm.sum(axis=0))) for arm in arms)
    if se <= 1e-12 * (abs(control) + abs(treatment)):
        raise Refusal("zero_variance", "the statistic is the same on every resample")
    df = min(len(arm) for arm in arms) - 1
    return effects.from_difference(control, treatment, treatment - control, se, df, alpha, method)


def _redeals(
    control: Floats,
    treatment: Floats,
    statistic: Statistic,
    permutations: int,
    rng: np.random.Generator,
) -> Floats:
    pooled, units = control + treatment, np.array([control[:, 0].sum(), treatment[:, 0].sum()])
    buckets, total = len(pooled), pooled.sum(axis=0)
    exact = buckets * units[1] / units.sum() if units.sum() else 0.0
    if not 2 <= exact <= buckets - 2:
        raise Refusal("too_few_units", "the smaller variant has less than two buckets' worth")
    size = round(exact)
    differences = []
    for start in range(0, permutations, BATCH):
        order = rng.random((min(BATCH, permutations - start), buckets)).argpartition(size, axis=1)
        dealt = np.zeros(order.shape)
        np.put_along_axis(dealt, order[:, :size], 1.0, axis=1)
        sums = dealt @ pooled
        differences.append(_apply(statistic, sums) - _apply(statistic, total - sums))
    redealt = buckets / units.sum() * (1 / size + 1 / (buckets - size))
    scale = np.sqrt(np.sum(1 / units) / redealt)
    finite = np.sqrt((buckets - 1) / rng.chisquare(buckets - 1, size=permutations))
    return np.asarray(np.concatenate(differences) * scale * finite)
