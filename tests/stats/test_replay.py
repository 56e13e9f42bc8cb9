from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from reference_vectors import vector
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from abeval.stats import distributions, means, replay
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]


def draw(seed: int, shape: tuple[int, int]) -> np.ndarray:
    """Draw the numbers of splits, from 0 to 1."""
    return np.random.default_rng(seed).integers(0, 2**16, shape, np.uint16) / 2**16


def bucket_sums(bucket: NDArray[np.int64], y: Floats, x: Floats, buckets: int) -> Floats:
    columns = (y, x, y * y, y * x, x * x)
    return np.stack([np.bincount(bucket, c, minlength=buckets) for c in columns], axis=1)


def log(
    rng: np.random.Generator, units: int, buckets: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    shown = 1.0 + rng.geometric(0.1, units)
    return (
        rng.integers(0, buckets, units),
        rng.binomial(shown.astype(int), 0.1).astype(float),
        shown,
    )


def test_vector_aa_uniformity() -> None:
    v = vector("aa_uniformity")
    p = np.arange(1, 201) * 0.6180339887498949 % 1
    found = replay.summarise_aa_tests(p, v.inputs["alpha"])
    assert found.rejections == v.expected["n_below"]
    assert found.rate == v.expected["fpr"]
    assert (found.low, found.high) == pytest.approx(v.expected["cp"], abs=v.tol)
    assert found.ks_statistic == pytest.approx(v.expected["ks"], abs=v.tol)
    assert found.ks_p_value == pytest.approx(v.expected["ks_p"], abs=v.tol)


@pytest.mark.parametrize("n", [100, 500, 2000])
@pytest.mark.parametrize("power", [0.9, 1.0, 1.08])
def test_uniformity_is_judged_as_by_the_exact_distribution(n: int, power: float) -> None:
    p = np.random.default_rng(n).random(n) ** power
    exact = stats.kstest(p, "uniform", method="exact")
    found = replay.summarise_aa_tests(p)
    assert found.ks_statistic == pytest.approx(exact.statistic, abs=1e-12)
    assert found.ks_p_value == pytest.approx(exact.pvalue, abs=2e-4 * 100 / n)


@pytest.mark.parametrize("below", [0, 3, 50])
def test_summary_is_clopper_pearson_to_the_edges(below: int) -> None:
    p = np.concatenate([np.full(below, 0.01), np.full(50 - below, 0.9)])
    found = replay.summarise_aa_tests(p)
    assert (found.low, found.high) == pytest.approx(
        proportion_confint(below, 50, method="beta"), abs=1e-9
    )


def test_a_replay_is_the_delta_method_on_the_units_of_the_re_split() -> None:
    rng = np.random.default_rng(1)
    bucket, y, x = log(rng, 600, 16)
    x[:3], y[:3] = (900, 300, 120), (50, 60, 2)
    sums = bucket_sums(bucket, y, x, 16)[:, None, :]
    heavy = [np.stack([bucket, y, x], axis=1)]
    units = np.bincount(bucket, minlength=16)
    found = replay.replay_aa_tests(units, sums, resplits=3, seed=9, heavy=heavy)
    dealt = draw(9, (3, 16)) < 0.5
    found_of = zip(dealt, found.z[:, 0], found.p_values[:, 0], strict=True)
    for row, z, p_value in found_of:
        treated = row[bucket]
        expected = means.delta(
            Moments.of(y[~treated], x[~treated]), Moments.of(y[treated], x[treated])
        )
        assert z == pytest.approx(expected.statistic, rel=1e-9)
        assert p_value == pytest.approx(expected.p_value, rel=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_replays_of_a_log_are_calibrated(share: float) -> None:
    rng = np.random.default_rng(2)
    bucket, y, x = log(rng, 40_000, 1024)
    sums = np.stack(
        [bucket_sums(bucket, y, x, 1024), bucket_sums(bucket, x, np.ones_like(x), 1024)], axis=1
    )
    found = replay.replay_aa_tests(np.bincount(bucket, minlength=1024), sums, share, resplits=2000)
    for metric in (0, 1):
        summary = replay.summarise_aa_tests(found.p_values[:, metric])
        assert summary.low <= 0.05 <= summary.high or summary.rate == pytest.approx(0.05, abs=0.015)
        assert found.z[:, metric].std() == pytest.approx(1, abs=0.06)


def test_d5_an_offset_of_a_billion_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    bucket, y, _ = log(rng, 4000, 64)
    one, n = np.ones_like(y), np.bincount(bucket, minlength=64)
    plain = replay.replay_aa_tests(n, bucket_sums(bucket, y, one, 64)[:, None, :], resplits=50)
    shifted = replay.replay_aa_tests(
        n, bucket_sums(bucket, y + 1e6, one, 64)[:, None, :], resplits=50
    )
    assert shifted.z == pytest.approx(plain.z, abs=1e-3)


def test_metrics_are_replayed_over_the_same_re_splits() -> None:
    rng = np.random.default_rng(4)
    bucket, y, x = log(rng, 100_000, 4096)
    sums = np.repeat(bucket_sums(bucket, y, x, 4096)[:, None, :], 4, axis=1)
    result = replay.replay_aa_tests(np.bincount(bucket, minlength=4096), sums, resplits=1000)
    assert result.p_values.shape == (1000, 4)
    assert np.all(result.p_values == result.p_values[:, :1])


def test_a_clustered_metric_treated_as_independent_is_caught() -> None:
    # Users' impressions as units: the impression-level test, which A/A replay is there to expose.
    rng = np.random.default_rng(5)
    users, rows = 2000, 20
    rate = np.repeat(rng.beta(0.5, 4.5, users), rows)
    bucket = np.repeat(rng.integers(0, 256, users), rows)
    y, x = (rng.random(len(rate)) < rate).astype(float), np.ones(len(rate))
    found = replay.replay_aa_tests(
        np.bincount(bucket, minlength=256), bucket_sums(bucket, y, x, 256)[:, None, :]
    )
    assert replay.summarise_aa_tests(found.p_values).low > 0.1


N = np.full(16, 5.0)
SUMS = np.ones((16, 1, 5)) * 5


@pytest.mark.parametrize("factor", [0.1, 0.37, 7.0])
@pytest.mark.parametrize("units", [300, 3_000, 9_000])
def test_a_metric_that_is_the_same_for_every_unit_is_refused(units: int, factor: float) -> None:
    """Rounding of its sums is no variance: half of such metrics got p-values."""
    x = np.random.default_rng(units).integers(1, 9, units).astype(float)
    for denominator in (x, np.ones(units)):
        y = factor * denominator
        sums = np.stack([y, denominator, y * y, y * denominator, denominator**2], axis=1)
        with pytest.raises(Refusal, match="same for every unit"):
            replay.replay_aa_tests(np.ones(units), sums[:, None, :], resplits=200)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: replay.replay_aa_tests(N, SUMS), "zero_variance"),
        (lambda: replay.replay_aa_tests(N[:4], SUMS[:4]), "too_few_units"),
        (lambda: replay.replay_aa_tests(N, SUMS * np.nan), "not_finite"),
        (lambda: replay.replay_aa_tests(N, SUMS[:, 0]), "not_applicable"),
        (lambda: replay.replay_aa_tests(N, SUMS, share=1.0), "not_applicable"),
        (lambda: replay.replay_aa_tests(N, SUMS, share=1e-4), "too_few_units"),
        (lambda: replay.replay_aa_tests(N, SUMS * [1, 0, 1, 0, 0]), "zero_denominator"),
        (lambda: replay.summarise_aa_tests([]), "too_few_units"),
        (lambda: replay.summarise_aa_tests([np.nan]), "not_finite"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


@pytest.mark.parametrize("skew", [0.0, 3.0, -2.0])
def test_a_skewed_metric_has_the_moments_of_all_splits(skew: float) -> None:
    """The variance of a permutation; its skewness where the variants differ in size."""
    rng = np.random.default_rng(7)
    bucket, y, x = log(rng, 500, 16)
    one = np.ones_like(y)
    sums = np.stack([bucket_sums(bucket, c, one, 16) for c in (x, y)], axis=1)
    units = np.bincount(bucket, minlength=16)
    tested = replay.replay_aa_tests(units, sums, 0.25, 6, 9, [np.nan, skew])
    plain = replay.replay_aa_tests(units, sums, 0.25, 6, 9)
    assert np.array_equal(tested.z[:, 0], plain.z[:, 0])
    assert np.array_equal(tested.p_values[:, 0], plain.p_values[:, 0])
    dealt = draw(9, (6, 16)) < 0.25
    for row, z, p in zip(dealt, tested.z[:, 1], tested.p_values[:, 1], strict=True):
        treated = row[bucket]
        m, n = treated.sum(), (~treated).sum()
        difference = y[treated].mean() - y[~treated].mean()
        assert z == pytest.approx(difference / np.sqrt(y.var(ddof=1) * (1 / n + 1 / m)), rel=1e-9)
        of_splits = skew * (1 / m**2 - 1 / n**2) / (1 / m + 1 / n) ** 1.5
        sides = [distributions.skewed_tail(side * z, side * of_splits)[0] for side in (1, -1)]
        assert p == pytest.approx(min(1.0, 2 * min(sides)), rel=1e-9)


def test_eight_buckets_can_be_split_and_seven_cannot() -> None:
    bucket, y, x = log(np.random.default_rng(8), 400, 8)
    units, sums = np.bincount(bucket, minlength=8), bucket_sums(bucket, y, x, 8)[:, None, :]
    assert replay.replay_aa_tests(units, sums, resplits=3).z.shape == (3, 1)
    with pytest.raises(Refusal, match="7 buckets") as refused:
        replay.replay_aa_tests(units[:7], sums[:7], resplits=3)
    assert refused.value.reason == "too_few_units"


def test_a_split_may_leave_a_variant_with_two_units() -> None:
    rng = np.random.default_rng(2)
    y, x, bucket = rng.random(8), 1 + rng.random(8), np.arange(8)
    splits = (draw(s, (1, 8)) < 0.25 for s in range(99))
    seed, treated = next((s, row[0]) for s, row in enumerate(splits) if row.sum() == 2)
    sums = bucket_sums(bucket, y, x, 8)[:, None, :]
    heavy = [np.stack([bucket, y, x], axis=1)]
    z = replay.replay_aa_tests(np.ones(8), sums, 0.25, 1, seed, heavy=heavy).z[0, 0]
    arms = (Moments.of(y[side], x[side]) for side in (~treated, treated))
    assert z == pytest.approx(means.delta(*arms).statistic, rel=1e-9)
