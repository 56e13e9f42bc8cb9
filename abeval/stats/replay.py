"""Replay A/A tests thousands of times, from sums per sub-bucket."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats import distributions
from abeval.stats.moments import HEAVY
from abeval.stats.proportions import clopper_pearson
from abeval.stats.records import Bools, Floats, Integers, Refusal, check_finite
from abeval.stats.skewed import as_normal

# Of more buckets, so many groups are dealt, drawn anew at each call: they move the rejection rate
# of 500 splits by .25 points, a quarter of what chance does.
_GROUPS = 4_096

# A spread below this share of its terms is rounding.
_ROUNDING = 1e-13

# Numbers, of which one decides where a group is dealt.
_DRAWN = 2**16

# Splits per matrix product: for so few rows BLAS uses one thread, without spinning.
_THIN = 16


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


def replay_aa_tests(
    units: ArrayLike,
    sums: ArrayLike,
    share: float = 0.5,
    resplits: int = 1000,
    seed: int | np.random.Generator = 0,
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
        >>> p_values = replay_aa_tests(one, sums).p_values
        >>> p_values.shape, summarise_aa_tests(p_values[:, 0]).rate
        ((1000, 1), 0.053)
    """
    n, s = _check_sums(units, sums, share)
    if n.sum() < 2:
        raise Refusal("too_few_units", "a variance needs at least two units")
    means = s[:, :, :2].sum(axis=0) / n.sum()
    splits = _deal_groups(n, s, means, share, resplits, np.random.default_rng(seed))
    heavy = [
        np.column_stack([splits.group[units_of[:, 0].astype(np.intp)], units_of[:, 1:]])
        for units_of in heavy or [np.zeros((0, 3))] * len(means)
    ]
    return _test_splits(
        splits, means, np.broadcast_to(np.asarray(skewness, float), len(means)), heavy
    )


class _Splits(NamedTuple):
    """Random splits of groups of buckets.

    Attributes:
        treated: Whether a split assigns a group to the treatment, shape (splits, groups).
        group: The group of each bucket, shape (buckets,).
        sums: Units and centred sums of each split's treatment, shape (splits, 1 + 5 × metrics).
        totals: The same of all units, shape (1 + 5 × metrics,).
    """

    treated: Bools
    group: Integers
    sums: Floats
    totals: Floats


def _deal_groups(
    n: Floats, s: Floats, means: Floats, share: float, splits: int, rng: np.random.Generator
) -> _Splits:
    """Deal the buckets at random, in groups if they are many."""
    group = np.arange(len(n))
    if len(n) > _GROUPS:
        order = rng.permutation(len(n))
        group[order] = np.arange(len(n)) % _GROUPS
        n, s = _add_layers(n, order), _add_layers(s, order)
    table = np.column_stack([n, _centre_sums(n, s, means).reshape(len(n), -1)])
    # Whole numbers of 16 bits are drawn three times as fast, and their share is near enough.
    treated = rng.integers(0, _DRAWN, (splits, len(table)), np.uint16) < round(share * _DRAWN)
    thin = (treated[start : start + _THIN] for start in range(0, splits, _THIN))
    sums = np.concatenate([few @ table for few in thin])
    return _Splits(treated, group, sums, table.sum(axis=0))


def _add_layers(buckets: Floats, order: Integers) -> Floats:
    """Add buckets in groups, by layers of `order`.

    The first bucket of each group is in the first layer, and so on.
    """
    sums = buckets[order[:_GROUPS]]
    for start in range(_GROUPS, len(buckets), _GROUPS):
        layer = buckets[order[start : start + _GROUPS]]
        sums[: len(layer)] += layer
    return sums


def _test_splits(
    splits: _Splits, means: Floats, skewness: Floats, heavy: Sequence[Floats]
) -> AAReplay:
    """Test the metrics of each split.

    `heavy` has group, y and x of the heavy units of each metric.
    """
    totals = splits.totals
    value_t, variance_t, df_t = _estimate_ratios(splits.sums, means, heavy, splits.treated)
    value_c, variance_c, df_c = _estimate_ratios(
        totals - splits.sums, means, heavy, ~splits.treated
    )
    variance = variance_t + variance_c
    if np.any(variance <= 1e-20 * (value_t**2 + value_c**2)):
        raise Refusal("zero_variance", "a metric is the same for every unit")
    z = (value_t - value_c) / np.sqrt(variance)
    # Welch and Satterthwaite.
    df = variance**2 / (variance_t**2 / df_t + variance_c**2 / df_c)
    p_values = np.asarray(2 * special.stdtr(df, -np.abs(z)))
    skewed = np.flatnonzero(~np.isnan(skewness))
    if skewed.size:
        n_t, n_c = splits.sums[:, :1], totals[0] - splits.sums[:, :1]
        # By the moments of all splits with so many units on either side.
        spread = _estimate_ratios(totals[None], means)[1] * totals[0]
        # A heavy unit moves the ratio of each split by what the rest of its variant says.
        squares = variance_t * n_t * (n_t - 1) + variance_c * n_c * (n_c - 1)
        is_heavy = np.array([len(heavy_units) > 0 for heavy_units in heavy])
        spread = np.where(is_heavy, squares / (totals[0] - 2), spread)[:, skewed]
        both = 1 / n_t + 1 / n_c
        z[:, skewed] = (value_t - value_c)[:, skewed] / np.sqrt(spread * both)
        skew = skewness[skewed] * (1 / n_t**2 - 1 / n_c**2) / both**1.5
        z[:, skewed] = as_normal(z[:, skewed], np.where(is_heavy, df, np.inf)[:, skewed])
        p_values[:, skewed] = distributions.compute_skewed_p_values(z[:, skewed], skew)
    return AAReplay(z, p_values)


def _check_sums(units: ArrayLike, sums: ArrayLike, share: float) -> tuple[Floats, Floats]:
    n, s = (
        check_finite(units, "bucket sums must be finite"),
        check_finite(sums, "bucket sums must be finite"),
    )
    if s.ndim != 3 or s.shape[2] != 5 or len(n) != len(s) or not 0 < share < 1:
        raise Refusal("not_applicable", "sums of shape (buckets, metrics, 5), share in (0, 1)")
    if len(n) < 8:
        raise Refusal("too_few_units", f"{len(n)} buckets; use at least 8")
    return n, s


def summarise_aa_tests(p_values: ArrayLike, alpha: float = 0.05) -> AASummary:
    """Summarise the rejection rate and uniformity of A/A p-values.

    Clopper-Pearson interval (1934) at 95 % and Kolmogorov-Smirnov test (Kohavi, Tang & Xu 2020,
    chapter 19). Refusals: `too_few_units` without p-values; `not_finite`.

    Example:
        >>> summary = summarise_aa_tests((np.arange(1000) + 0.5) / 1000)
        >>> summary.rate, round(summary.low, 4), round(summary.high, 4)
        (0.05, 0.0373, 0.0654)
    """
    p = np.asarray(p_values, dtype=float).ravel()
    if len(p) == 0:
        raise Refusal("too_few_units", "no A/A test was replayed")
    check_finite(p, "p-values must be finite")
    count, replays = int(np.count_nonzero(p < alpha)), len(p)
    ordered, step = np.sort(p), np.arange(replays + 1) / replays
    distance = float(max((step[1:] - ordered).max(), (ordered - step[:-1]).max()))
    # Vrbik (2018), in error by less than 2e-4 from 100 p-values on: importing scipy's exact
    # function takes longer than a small analysis.
    root = math.sqrt(replays)
    x = distance * root
    of_distance = float(special.kolmogorov(x + 1 / (6 * root) + (x - 1) / (4 * replays)))
    low, high = clopper_pearson(count, replays)
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


def _estimate_ratios(
    sums: Floats, means: Floats, heavy: Sequence[Floats] = (), dealt: Bools | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return ratio, variance and df by split and metric, from centred sums.

    `heavy` has group, y and x of each metric's heavy units, `dealt` the groups of each split.
    """
    units = sums[:, :1]
    if np.any(units < 2):
        raise Refusal("too_few_units", "a random split has a variant with fewer than two units")
    centred = sums[:, 1:].reshape(len(sums), -1, 5) / units[:, :, None]
    y_c, x_c, yy, yx, xx = np.moveaxis(centred, 2, 0)
    y, x = means[:, 0] + y_c, means[:, 1] + x_c
    if np.any(x == 0):
        raise Refusal("zero_denominator", "a random split has a denominator of zero")
    ratio, spread_x = y / x, xx - x_c**2
    terms = np.stack([yy - y_c**2, -2 * ratio * (yx - y_c * x_c), ratio**2 * spread_x])
    spread, size = terms.sum(axis=0), np.abs(terms).sum(axis=0) + y**2
    # Of units that are all alike, nothing but rounding is left.
    spread = np.where(spread > _ROUNDING * size, spread, 0.0)
    for metric, (group, of_y, of_x) in enumerate(units_of.T for units_of in heavy):
        mean, least = x[:, [metric]], HEAVY * units * np.abs(x[:, [metric]])
        are_few = units * HEAVY <= 1
        # Most of them are heavy in a tenth of the units, and in none of these splits.
        near = (np.abs(of_x) > least.min()) | are_few.any()
        if dealt is None or not near.any():
            continue
        of_y, of_x = of_y[near], of_x[near]
        held = dealt[:, group[near].astype(np.intp)] & ((np.abs(of_x) > least) | are_few)
        rest = np.where(held, 1 - (of_x - mean) / ((units - 1) * mean), 1.0)
        if np.any(rest < 1e-13):
            raise Refusal("too_few_units", "one unit holds the denominator of a random split")
        residual = held * (of_y - ratio[:, [metric]] * of_x)
        left = residual / rest
        spread[:, metric] += (left**2 - residual**2).sum(axis=1) / units[:, 0]
    df = np.maximum(units / (1 + spread_x / x**2) - 1, 1.0)
    return ratio, spread / ((units - 1) * x**2), df
