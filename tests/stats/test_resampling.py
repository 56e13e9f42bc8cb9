from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from reference_vectors import small, vector

from abeval.stats import means, resampling
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Refusal

Floats = NDArray[np.float64]


def bootstrap(*arms: Floats, **options: object) -> Effect:
    return resampling.bootstrap(*arms, **options).effect  # type: ignore[arg-type]


def jackknife(*arms: Floats, **options: object) -> Effect:
    return resampling.jackknife(*arms, **options).effect  # type: ignore[arg-type]


def permutation(*arms: Floats, **options: object) -> Effect:
    return resampling.permutation(*arms, **options).effect  # type: ignore[arg-type]


def ctr(sums: Floats) -> Floats:
    return sums[..., 0] / sums[..., 1]


def second(sums: Floats) -> Floats:
    return sums[..., 1] / sums[..., 0]


def per_user(variant: int) -> Floats:
    kept = small("variant") == variant
    columns = [small("clicks")[kept], small("impressions")[kept]]
    return np.stack(columns, axis=1).astype(float)


def per_bucket(variant: int) -> Floats:
    users, bucket = per_user(variant), small("bucket")[small("variant") == variant]
    return np.stack([np.bincount(bucket, users[:, i], minlength=10) for i in (0, 1)], axis=1)


def test_vector_poisson_bootstrap_weights() -> None:
    v = vector("poisson_bootstrap_weights")
    weights = np.array(v.inputs["weights"])
    variant = small("variant")
    control, treatment = (
        resampling.evaluate_replicates(per_user(arm), weights[:, variant == arm], ctr)
        for arm in (0, 1)
    )
    assert treatment - control == pytest.approx(v.expected["theta_star"], abs=v.tol)


def test_vector_poisson_bootstrap_se() -> None:
    v = vector("poisson_bootstrap_se")
    found = bootstrap(per_user(0), per_user(1), ctr, draws=v.inputs["replicates"])
    assert found.se == pytest.approx(v.expected["se_bootstrap"], rel=v.tol)
    assert found.se / v.expected["se_delta"] == pytest.approx(v.expected["ratio"], rel=v.tol)


def test_bucket_jackknife_leaves_each_bucket_out_of_both_variants() -> None:
    control, treatment = per_bucket(0), per_bucket(1)
    left_out = []
    for bucket in range(10):
        keep = np.arange(10) != bucket
        left_out.append(ctr(treatment[keep].sum(axis=0)) - ctr(control[keep].sum(axis=0)))
    se = np.sqrt(9 / 10 * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    found = jackknife(control, treatment, ctr)
    assert found.se == pytest.approx(se, abs=1e-12)
    assert found.df == 9
    assert found.difference == pytest.approx(47 / 170 - 37 / 148, abs=1e-12)


def test_jackknife_of_a_mean_is_the_textbook_standard_error() -> None:
    rng = np.random.default_rng(1)
    arms = [np.stack([np.ones(40), rng.exponential(size=40)], axis=1) for _ in range(2)]
    found = jackknife(*arms, second)
    differences = arms[1][:, 1] - arms[0][:, 1]
    assert found.se == pytest.approx(np.std(differences, ddof=1) / np.sqrt(40), rel=1e-9)


def logs(rng: np.random.Generator, share: float, lift: float = 0.0) -> tuple[Floats, Floats]:
    units, buckets = 4000, 128
    bucket, treated = rng.integers(0, buckets, units), rng.random(units) < share
    shown = 1 + rng.geometric(0.05, units)
    rate = rng.beta(1, 9, units) * (1 + lift * treated)
    clicked = rng.binomial(shown, np.minimum(rate, 1.0))
    return tuple(
        np.stack(
            [
                np.bincount(bucket[m], x[m], minlength=buckets)
                for x in (np.ones(units), shown, clicked)
            ],
            axis=1,
        )
        for m in (~treated, treated)
    )


def rate_of(sums: Floats) -> Floats:
    return sums[..., 2] / sums[..., 1]


def test_the_three_methods_agree_with_the_delta_method_on_logs() -> None:
    control, treatment = logs(np.random.default_rng(2), 0.5)
    rng = np.random.default_rng(2)
    units, bucket = 4000, rng.integers(0, 128, 4000)
    treated = rng.random(units) < 0.5
    shown = 1 + rng.geometric(0.05, units)
    clicked = rng.binomial(shown, rng.beta(1, 9, units))
    delta = means.delta(
        Moments.of(clicked[~treated], shown[~treated]), Moments.of(clicked[treated], shown[treated])
    )
    assert len(np.unique(bucket)) == 128
    for found in (
        jackknife(control, treatment, rate_of),
        bootstrap(control, treatment, rate_of),
    ):
        assert found.difference == pytest.approx(delta.difference, abs=1e-12)
        assert found.se == pytest.approx(delta.se, rel=0.2)


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.slow
def test_a_a_rejections_of_permutation_jackknife_and_bootstrap(share: float) -> None:
    rng, runs = np.random.default_rng(3), 400
    p = np.array(
        [
            [
                permutation(*arms, rate_of, permutations=200, seed=i).p_value,
                jackknife(*arms, rate_of).p_value,
                bootstrap(*arms, rate_of, draws=200, seed=i).p_value,
            ]
            for i, arms in enumerate(logs(rng, share) for _ in range(runs))
        ]
    )
    assert np.all(np.mean(p <= 0.05, axis=0) <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / runs))
    assert np.all(np.mean(p <= 0.05, axis=0) > 0.01)


def test_a_real_effect_is_found_and_swapping_negates_it() -> None:
    control, treatment = logs(np.random.default_rng(5), 0.3, lift=0.4)
    for method in (permutation, jackknife, bootstrap):
        found, swapped = method(control, treatment, rate_of), method(treatment, control, rate_of)
        assert found.p_value < 0.01
        assert swapped.difference == -found.difference
    assert permutation(control, treatment, rate_of, permutations=99).p_value == 0.01


def test_seeded() -> None:
    arms = logs(np.random.default_rng(6), 0.5)
    for method in (bootstrap, permutation):
        assert method(*arms, rate_of, seed=1) == method(*arms, rate_of, seed=1)
        assert method(*arms, rate_of, seed=1) != method(*arms, rate_of, seed=2)


FLAT = np.ones((16, 2))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: jackknife(FLAT, FLAT, ctr), "zero_variance"),
        (lambda: bootstrap(FLAT, FLAT, ctr), "zero_variance"),
        (lambda: jackknife(FLAT[:4], FLAT[:4], ctr), "too_few_units"),
        (lambda: jackknife(FLAT, FLAT[:9], ctr), "not_applicable"),
        (lambda: jackknife(FLAT, FLAT * np.nan, ctr), "not_finite"),
        (lambda: jackknife(FLAT, FLAT * [1, 0], ctr), "not_finite"),
        (
            lambda: permutation(
                np.random.default_rng(0).random((16, 2)) * 100,
                np.random.default_rng(1).random((16, 2)),
                second,
            ),
            "too_few_units",
        ),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


def test_null_differences_have_the_variance_of_the_observed_one() -> None:
    """Of buckets in two even halves, where the variants are of 900 and 100 units."""
    units, buckets = np.array([900.0, 100.0]), 64
    halves = np.random.default_rng(3).normal(0, np.sqrt(buckets / 1000 * 2 / 32), 20_000)
    null = resampling.scale_null_differences(
        halves, units, buckets, (32, 32), np.random.default_rng(4)
    )
    # t of 63 degrees of freedom has the variance 63 / 61.
    assert null.var() == pytest.approx((1 / 900 + 1 / 100) * 63 / 61, rel=0.05)


def test_draws_seeds_and_levels_that_are_not_named() -> None:
    arms = logs(np.random.default_rng(7), 0.5)
    assert bootstrap(*arms, rate_of) == bootstrap(*arms, rate_of, 0.05, 2000, 0)
    assert jackknife(*arms, rate_of) == jackknife(*arms, rate_of, 0.05)
    named = permutation(*arms, rate_of, 0.05, 2000, 0)
    assert permutation(*arms, rate_of) == named


def test_a_null_difference_as_large_as_the_observed_one_counts() -> None:
    null = np.array([1.0, 0.5, -1.0, 0.2])
    assert resampling.compute_permutation_p_value(null, 1.0) == 3 / 5
    assert resampling.compute_permutation_p_value(null, -1.1) == 1 / 5


def test_few_buckets_make_null_differences_those_of_t() -> None:
    units, draws = np.array([300.0, 100.0]), 200_000
    plain = np.random.default_rng(3).normal(0, np.sqrt(8 / 400 * (1 / 5 + 1 / 3)), draws)
    null = resampling.scale_null_differences(plain, units, 8, (5, 3), np.random.default_rng(4))
    # t of 7 degrees of freedom has the variance 7 / 5.
    assert null.var() == pytest.approx((1 / 300 + 1 / 100) * 7 / 5, rel=0.03)


def test_eight_buckets_are_enough_and_the_fewer_of_both_count() -> None:
    rng = np.random.default_rng(8)
    sums = np.stack([np.full(24, 10.0), rng.poisson(30, 24)], axis=1)
    uneven = bootstrap(sums[:10], sums[8:24], second, draws=50)
    assert uneven.df == 9
    assert bootstrap(sums[8:24], sums[:10], second, draws=50).df == 9
    assert jackknife(sums[:8], sums[8:16], second).df == 7
    for few in (sums[:7], sums[:, 0]):
        with pytest.raises(Refusal) as refused:
            bootstrap(few, sums, second)
        assert refused.value.reason == "too_few_units"
    with pytest.raises(Refusal) as refused:
        jackknife(sums, np.hstack([sums, sums]), second)
    assert refused.value.reason == "not_applicable"


@pytest.mark.parametrize(("error", "varies"), [(5e-13, False), (5e-12, True)])
def test_a_statistic_that_varies_by_rounding_does_not_vary(error: float, varies: bool) -> None:
    """Its error is compared with both values together."""
    bend = np.tile([1.0, -1.0], 8) * np.sqrt(15) * error * 2
    control = np.stack([np.ones(16), np.ones(16)], axis=1)
    treatment = np.stack([np.ones(16), 1 + bend], axis=1)
    if varies:
        assert jackknife(control, treatment, second).se == pytest.approx(1e-11, rel=0.01)
    else:
        with pytest.raises(Refusal, match="the same on every resample"):
            jackknife(control, treatment, second)


@pytest.mark.parametrize(
    ("share", "is_refused"),
    [(2 / 16, False), (14 / 16, False), (1.9 / 16, True), (14.1 / 16, True)],
)
def test_each_variant_needs_the_units_of_two_buckets(share: float, is_refused: bool) -> None:
    rng = np.random.default_rng(9)
    both = np.stack([np.full(16, 100.0), rng.poisson(200, 16) + 0.0], axis=1)
    noise = 1 + 0.1 * rng.random((16, 2)) * [0, 1]
    arms = both * (1 - share), both * share * noise
    if is_refused:
        with pytest.raises(Refusal, match="two sub-buckets"):
            permutation(*arms, second, permutations=50)
    else:
        assert 0 < permutation(*arms, second, permutations=50).p_value <= 1


def test_variants_without_a_unit_cannot_be_permuted() -> None:
    none = np.stack([np.zeros(16), np.arange(16.0)], axis=1)
    with pytest.raises(Refusal, match="two sub-buckets") as refused:
        permutation(none, none[::-1] * 2, lambda s: s[..., 1] ** 2)
    assert refused.value.reason == "too_few_units"
