"""Replay A/A tests thousands of times, from sums per sub-bucket."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from abeval.stats import distributions
from abeval.stats.moments import HEAVY
from abeval.stats.records import Bools, Floats, Refusal, finite
from abeval.stats.skewed import as_normal

THIN = 16
"""Splits per matrix product: for so few rows BLAS uses one thread, without spinning."""


class AAReplay(NamedTuple):
    """Statistics and p-values of random splits, shape (resplits, metrics)."""

    z: Floats
    p_values: Floats


class AASummary(NamedTuple):
    """The distribution of p-values of A/A tests.

    `rejections` counts p-values below alpha. Their share `rate`, with its Clopper-Pearson interval,
    should be alpha. The Kolmogorov-Smirnov distance is the distance from the uniform distribution.
    """

    rejections: int
    replays: int
    rate: float
    low: float
    high: float
    ks_statistic: float
    ks_p_value: float


def aa_replay(
    units: ArrayLike,
    sums: ArrayLike,
    share: float = 0.5,
    resplits: int = 1000,
    seed: int = 0,
    skewness: ArrayLike = math.nan,
    heavy: Sequence[Floats] | None = None,
) -> AAReplay:
    """Replay A/A tests of metrics from sums per sub-bucket.

    Metrics are ratios; a mean is a ratio over 1. The tests are t tests of ratios
    (`means.correct_leverage`; Kohavi, Tang & Xu 2020, chapter 19). Metrics with a skewness get the
    permutation test by its moments (`skewed.py`). Refusals: `too_few_units` below eight buckets or
    when a re-split leaves a variant nearly empty; `zero_variance` for a metric that is the same for
    every unit; `zero_denominator`; `not_finite`. Units per bucket cover all variants together,
    shape (buckets,). Sums per bucket are of y, x, y^2, y x and x^2, with numerator y and
    denominator x, shape (buckets, metrics, 5). `share` is the share of the treatment. `skewness` is
    the skewness between units of each metric, NaN for metrics that do not get the test of skewed
    values. `heavy` has bucket, y and x of the heavy units of each metric.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.poisson(2.0, size=(512, 20)).astype(float)
        >>> one = np.full(512, 20.0)
        >>> sums = np.stack([y.sum(1), one, (y**2).sum(1), y.sum(1), one], axis=1)[:, None, :]
        >>> p_values = aa_replay(one, sums).p_values
        >>> p_values.shape, aa_summary(p_values[:, 0]).rate
        ((1000, 1), 0.054)
    """
    n, s = _check_sums(units, sums, share)
    total = n.sum()
    if total < 2:
        raise Refusal("too_few_units", "a variance needs at least two units")
    means = s[:, :, :2].sum(axis=0) / total
    table = np.concatenate([n[:, None], _centre_sums(n, s, means).reshape(len(n), -1)], axis=1)
    heavy = heavy or [np.zeros((0, 3))] * len(means)
    rows = np.concatenate([heavy_units[:, 0] for heavy_units in heavy]).astype(np.intp)
    treated, chosen = _treated_sums(table, share, resplits, seed, rows)
    totals, ends = table.sum(axis=0), np.cumsum([len(heavy_units) for heavy_units in heavy])[:-1]
    value_t, variance_t, df_t = _delta(treated, means, heavy, np.split(chosen, ends, axis=1))
    value_c, variance_c, df_c = _delta(
        totals - treated, means, heavy, np.split(~chosen, ends, axis=1)
    )
    variance = variance_t + variance_c
    if np.any(variance <= 1e-20 * (value_t**2 + value_c**2)):
        raise Refusal("zero_variance", "a metric is the same for every unit")
    z = (value_t - value_c) / np.sqrt(variance)
    # Welch and Satterthwaite.
    df = variance**2 / (variance_t**2 / df_t + variance_c**2 / df_c)
    p_values = np.asarray(2 * special.stdtr(df, -np.abs(z)))
    skewnesses = np.broadcast_to(np.asarray(skewness, dtype=float), len(means))
    skewed = np.flatnonzero(~np.isnan(skewnesses))
    if skewed.size:
        # By the moments of all splits with so many units on either side.
        spread = _delta(totals[None], means)[1][0, skewed] * total
        if len(rows):
            # A heavy unit moves the ratio of each split by what the rest of its variant says.
            n_t, n_c = treated[:, :1], total - treated[:, :1]
            squares = variance_t * n_t * (n_t - 1) + variance_c * n_c * (n_c - 1)
            spread = (squares / (total - 2))[:, skewed]
        of_treatment, of_control = 1 / treated[:, :1], 1 / (total - treated[:, :1])
        both = of_treatment + of_control
        z[:, skewed] = (value_t - value_c)[:, skewed] / np.sqrt(spread * both)
        skew = skewnesses[skewed] * (of_treatment**2 - of_control**2) / both**1.5
        is_heavy = np.array([len(heavy_units) > 0 for heavy_units in heavy])[skewed]
        z[:, skewed] = as_normal(z[:, skewed], np.where(is_heavy, df[:, skewed], np.inf))
        p_values[:, skewed] = distributions.skewed_p_values(z[:, skewed], skew)
    return AAReplay(z, p_values)


def _check_sums(units: ArrayLike, sums: ArrayLike, share: float) -> tuple[Floats, Floats]:
    n, s = finite(units, "bucket sums must be finite"), finite(sums, "bucket sums must be finite")
    if s.ndim != 3 or s.shape[2] != 5 or len(n) != len(s) or not 0 < share < 1:
        raise Refusal("not_applicable", "sums of shape (buckets, metrics, 5), share in (0, 1)")
    if len(n) < 8:
        raise Refusal("too_few_units", f"{len(n)} buckets; use at least 8")
    return n, s


def _treated_sums(
    table: Floats, share: float, resplits: int, seed: int, rows: NDArray[np.intp]
) -> tuple[Floats, Bools]:
    """Sum the treated buckets of each split, shape (resplits, columns).

    Also tell whether it assigns each of some rows, shape (resplits, rows).
    """
    rng = np.random.default_rng(seed)
    sizes = [min(THIN, resplits - start) for start in range(0, resplits, THIN)]
    sums, chosen = list[Floats](), list[Bools]()
    for size in sizes:
        treated = rng.random((size, len(table)), dtype=np.float32) < share
        sums.append(treated @ table)
        chosen.append(treated[:, rows])
    return np.concatenate(sums), np.concatenate(chosen)


def aa_summary(p_values: ArrayLike, alpha: float = 0.05) -> AASummary:
    """Summarise the rejection rate and uniformity of A/A p-values.

    Clopper-Pearson interval (1934) at 95 % and Kolmogorov-Smirnov test (Kohavi, Tang & Xu 2020,
    chapter 19). Refusals: `too_few_units` without p-values; `not_finite`.

    Example:
        >>> summary = aa_summary((np.arange(1000) + 0.5) / 1000)
        >>> summary.rate, round(summary.low, 4), round(summary.high, 4)
        (0.05, 0.0373, 0.0654)
    """
    p = np.asarray(p_values, dtype=float).ravel()
    if len(p) == 0:
        raise Refusal("too_few_units", "no A/A test was replayed")
    finite(p, "p-values must be finite")
    count, replays = int(np.count_nonzero(p < alpha)), len(p)
    ordered, step = np.sort(p), np.arange(replays + 1) / replays
    distance = float(max((step[1:] - ordered).max(), (ordered - step[:-1]).max()))
    # Vrbik (2018), in error by less than 2e-4 from 100 p-values on: importing scipy's exact
    # function takes longer than a small analysis.
    root = math.sqrt(replays)
    x = distance * root
    of_distance = float(special.kolmogorov(x + 1 / (6 * root) + (x - 1) / (4 * replays)))
    low = float(special.betaincinv(count, replays - count + 1, 0.025)) if count else 0.0
    high = float(special.betaincinv(count + 1, replays - count, 0.975)) if count < replays else 1.0
    return AASummary(count, replays, count / replays, low, high, distance, of_distance)


def _centre_sums(n: Floats, s: Floats, means: Floats) -> Floats:
    """Centre sums at the overall means, so that variances keep their digits."""
    y, x = means.T
    units = n[:, None]
    sum_y, sum_x = s[:, :, 0], s[:, :, 1]
    return np.stack(
        [
            sum_y - units * y,
            sum_x - units * x,
            s[:, :, 2] - 2 * y * sum_y + units * y**2,
            s[:, :, 3] - y * sum_x - x * sum_y + units * x * y,
            s[:, :, 4] - 2 * x * sum_x + units * x**2,
        ],
        axis=2,
    )


def _delta(
    table: Floats, means: Floats, heavy: Sequence[Floats] = (), chosen: Sequence[Bools] = ()
) -> tuple[Floats, Floats, Floats]:
    """Return ratio, variance and df by split and metric, from centred sums.

    For each metric, the heavy units come as in `aa_replay`, with a mark for those in each split.
    """
    units = table[:, :1]
    if np.any(units < 2):
        raise Refusal("too_few_units", "a random split has a variant with fewer than two units")
    centred = table[:, 1:].reshape(len(table), -1, 5) / units[:, :, None]
    y_c, x_c, yy, yx, xx = np.moveaxis(centred, 2, 0)
    y, x = means[:, 0] + y_c, means[:, 1] + x_c
    if np.any(x == 0):
        raise Refusal("zero_denominator", "a random split has a denominator of zero")
    ratio, spread_x = y / x, xx - x_c**2
    spread = (yy - y_c**2) - 2 * ratio * (yx - y_c * x_c) + ratio**2 * spread_x
    for metric, (heavy_units, held) in enumerate(zip(heavy, chosen, strict=True)):
        _, of_y, of_x = heavy_units.T
        mean = x[:, [metric]]
        held = held & ((np.abs(of_x) > HEAVY * units * np.abs(mean)) | (units * HEAVY <= 1))
        rest = np.where(held, 1 - (of_x - mean) / ((units - 1) * mean), 1.0)
        if np.any(rest < 1e-13):
            raise Refusal("too_few_units", "one unit holds the denominator of a random split")
        residual = held * (of_y - ratio[:, [metric]] * of_x)
        left = residual / rest
        spread[:, metric] += (left**2 - residual**2).sum(axis=1) / units[:, 0]
    df = np.maximum(units / (1 + spread_x / x**2) - 1, 1.0)
    return ratio, spread / ((units - 1) * x**2), df
