import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats

from abeval.stats import sequential
from abeval.stats.records import Refusal

numbers = st.floats(-5, 5)
errors = st.floats(0.01, 10)
fractions = st.floats(0.001, 100)


def test_vector_asympcs() -> None:
    v = vector("asympcs")
    alpha, planned = v.inputs["alpha"], v.inputs["N_star"]
    assert sequential.tune_mixture(alpha) / math.sqrt(planned) == pytest.approx(
        v.expected["rho"], abs=v.tol
    )
    for look in v.expected["looks"]:
        found = sequential.confidence_sequence(look["est"], look["se"], look["n"] / planned, alpha)
        assert (found.low, found.high) == pytest.approx(look["ci"], abs=v.tol)
        assert found.p_value == pytest.approx(look["p"], abs=v.tol)
        assert (found.high - found.low) / 2 == pytest.approx(look["halfwidth"], abs=v.tol)


@quick
@given(numbers, errors, fractions, st.sampled_from([0.01, 0.05, 0.2]))
def test_p_value_and_interval_agree(effect: float, se: float, t: float, alpha: float) -> None:
    look = sequential.confidence_sequence(effect, se, t, alpha)
    edge = min(abs(look.low), abs(look.high))
    if edge > 1e-9:
        assert (look.p_value <= alpha) == (look.low > 0 or look.high < 0)


@quick
@given(numbers, errors, fractions, st.floats(0.01, 100))
def test_arms_swapped_and_scale_changed(effect: float, se: float, t: float, scale: float) -> None:
    look = sequential.confidence_sequence(effect, se, t)
    swapped = sequential.confidence_sequence(-effect, se, t)
    assert (swapped.low, swapped.high) == (-look.high, -look.low)
    scaled = sequential.confidence_sequence(effect * scale, se * scale, t)
    assert scaled.p_value == pytest.approx(look.p_value, rel=1e-9)


def returning_users(
    rng: np.random.Generator, runs: int, days: int, units: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Totals per user, everyone back every day, no effect: differences, ses and pooled means."""
    activity = rng.gamma(0.7, 1.0, size=(2, runs, units))
    totals = np.cumsum(rng.poisson(activity[..., None], size=(2, runs, units, days)), axis=3)
    means, variances = totals.mean(axis=2), totals.var(axis=2, ddof=1)
    return means[1] - means[0], np.sqrt(variances.sum(axis=0) / units), means.mean(axis=0)


@pytest.mark.slow
def test_always_valid_holds_over_28_days_of_returning_users() -> None:
    runs = 600
    effects, ses, means = returning_users(np.random.default_rng(3), runs, 28, 150)
    rejected = 0
    for d, se, mean in zip(effects, ses, means, strict=True):
        clock = np.maximum.accumulate(sequential.measure_information(se, mean)) * 0.13**2
        rejected += any(
            sequential.confidence_sequence(*look).p_value <= 0.05
            for look in zip(d, se, clock, strict=True)
        )
    assert rejected / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    # What it protects from: daily fixed-horizon looks reject far too often.
    assert np.mean(np.any(np.abs(effects / ses) > 1.96, axis=1)) > 0.08


def test_always_valid_finds_a_real_effect() -> None:
    assert sequential.confidence_sequence(0.9, 1 / math.sqrt(28), 1.0).p_value < 0.01


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: sequential.confidence_sequence(0.1, 0.0, 1.0), "zero_variance"),
        (lambda: sequential.confidence_sequence(math.nan, 0.1, 1.0), "not_finite"),
        (lambda: sequential.confidence_sequence(0.1, 0.1, 0.0), "too_few_units"),
        (lambda: sequential.measure_information([0.1], scale=0.0), "control_near_zero"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


@quick
@given(numbers, errors, st.floats(1, 1e4), st.sampled_from([0.01, 0.05, 0.2]))
def test_looks_without_a_plan_are_chi_square_with_three_degrees(
    effect: float, se: float, growth: float, alpha: float
) -> None:
    look = sequential.look_from_start(effect, se, growth, alpha)
    z, gathered = effect / se, math.log(growth)
    width = math.sqrt(stats.chi2.isf(alpha, 3) + gathered)
    assert (look.low, look.high) == pytest.approx((effect - width * se, effect + width * se))
    assert sequential.find_bound_from_start(growth, alpha) == pytest.approx(width)
    p_value = stats.chi2.sf(max(z * z - gathered, 0.0), 3)
    assert look.p_value == pytest.approx(p_value, rel=1e-9, abs=1e-300)


def test_looks_begin_where_the_first_has_enough_information() -> None:
    assert sequential.look_from_start(1.0, 0.5, 1.0).p_value < 1
    with pytest.raises(Refusal) as refused:
        sequential.look_from_start(1.0, 0.5, 0.999)
    assert refused.value.reason == "before_first_look"


def test_levels_and_scales_that_are_not_named() -> None:
    assert sequential.confidence_sequence(0.1, 0.2, 1.0) == sequential.confidence_sequence(
        0.1, 0.2, 1.0, 0.05
    )
    assert sequential.look_from_start(0.1, 0.2, 2.0) == sequential.look_from_start(
        0.1, 0.2, 2.0, 0.05
    )
    assert sequential.find_bound_from_start(7.0) == sequential.find_bound_from_start(7.0, 0.05)
    assert (
        sequential.measure_information([0.5]).tolist()
        == sequential.measure_information([0.5], 1.0).tolist()
    )


def test_numbers_without_a_look_are_refused() -> None:
    inf, nan = math.inf, math.nan
    for call, reason in (
        (lambda: sequential.measure_information([0.1], inf), "not_finite"),
        (lambda: sequential.measure_information([nan], 1.0), "not_finite"),
        (lambda: sequential.measure_information([0.1, 0.0]), "zero_variance"),
        (lambda: sequential.confidence_sequence(0.1, nan, 1.0), "not_finite"),
        (lambda: sequential.look_from_start(nan, 0.1, 2.0), "not_finite"),
        (lambda: sequential.look_from_start(0.1, 0.0, 2.0), "zero_variance"),
    ):
        with pytest.raises(Refusal) as refused:
            call()
        assert refused.value.reason == reason
