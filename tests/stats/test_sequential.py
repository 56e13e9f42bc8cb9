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
    assert sequential.tuning(alpha, planned) == pytest.approx(v.expected["rho"], abs=v.tol)
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
    assert 10**look.log10_p_value == pytest.approx(look.p_value, rel=1e-9)


@quick
@given(numbers, errors, fractions, st.floats(0.01, 100))
def test_arms_swapped_and_scale_changed(effect: float, se: float, t: float, scale: float) -> None:
    look = sequential.confidence_sequence(effect, se, t)
    swapped = sequential.confidence_sequence(-effect, se, t)
    assert (swapped.low, swapped.high) == (-look.high, -look.low)
    scaled = sequential.confidence_sequence(effect * scale, se * scale, t)
    assert scaled.p_value == pytest.approx(look.p_value, rel=1e-9)


def test_d4_extreme_p_values_keep_a_logarithm() -> None:
    look = sequential.confidence_sequence(1.0, 0.01, 1.0)
    assert look.p_value == 0.0 or look.p_value < 1e-300
    assert -2200 < look.log10_p_value < -1500


def test_path_is_the_running_minimum_and_intersection() -> None:
    effects, ses = [0.01, 0.06, 0.03], [0.05, 0.02, 0.015]
    path = sequential.always_valid(effects, ses, planned_information=1 / 0.015**2)
    singles = [look.p_value for look in path.looks]
    assert path.p_values == tuple(np.minimum.accumulate(singles))
    assert path.running == (max(x.low for x in path.looks), min(x.high for x in path.looks))
    assert not path.drifted


def test_an_effect_that_moved_empties_the_intersection_and_says_so() -> None:
    path = sequential.always_valid([1.0, -1.0], [0.1, 0.05], planned_information=400)
    assert path.drifted
    assert path.running == (path.looks[-1].low, path.looks[-1].high)


def test_a_clock_that_runs_backwards_stands_still() -> None:
    path = sequential.always_valid([0.1, 0.1], [0.02, 0.04], planned_information=2500)
    still = sequential.confidence_sequence(0.1, 0.04, 1.0)
    assert path.looks[1] == still


def returning_users(
    rng: np.random.Generator, runs: int, days: int, units: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Totals per user, everyone back every day, no effect: differences, ses and pooled means."""
    activity = rng.gamma(0.7, 1.0, size=(2, runs, units))
    totals = np.cumsum(rng.poisson(activity[..., None], size=(2, runs, units, days)), axis=3)
    means, variances = totals.mean(axis=2), totals.var(axis=2, ddof=1)
    return means[1] - means[0], np.sqrt(variances.sum(axis=0) / units), means.mean(axis=0)


def test_always_valid_holds_over_28_days_of_returning_users() -> None:
    runs = 600
    effects, ses, means = returning_users(np.random.default_rng(3), runs, 28, 150)
    rejected = 0
    for d, se, mean in zip(effects, ses, means, strict=True):
        planned = float(sequential.information(0.13, 1.0)[0])
        path = sequential.always_valid(d, se, planned, scale=mean)
        rejected += path.p_values[-1] <= 0.05
    assert rejected / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    # What it protects from: daily fixed-horizon looks reject far too often.
    assert np.mean(np.any(np.abs(effects / ses) > 1.96, axis=1)) > 0.08


def test_always_valid_finds_a_real_effect() -> None:
    ses = 1 / np.sqrt(np.arange(1, 29))
    path = sequential.always_valid(np.full(28, 0.9), ses, planned_information=28)
    assert path.p_values[-1] < 0.01


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: sequential.confidence_sequence(0.1, 0.0, 1.0), "zero_variance"),
        (lambda: sequential.confidence_sequence(math.nan, 0.1, 1.0), "not_finite"),
        (lambda: sequential.confidence_sequence(0.1, 0.1, 0.0), "too_few_units"),
        (lambda: sequential.always_valid([], [], 1.0), "not_applicable"),
        (lambda: sequential.always_valid([1.0], [1.0, 1.0], 1.0), "not_applicable"),
        (lambda: sequential.information([0.1], scale=0.0), "control_near_zero"),
        (lambda: sequential.tuning(0.05, 0.0), "too_few_units"),
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
    look = sequential.from_start(effect, se, growth, alpha)
    z, gathered = effect / se, math.log(growth)
    width = math.sqrt(stats.chi2.isf(alpha, 3) + gathered)
    assert (look.low, look.high) == pytest.approx((effect - width * se, effect + width * se))
    assert sequential.critical_from_start(growth, alpha) == pytest.approx(width)
    p_value = stats.chi2.sf(max(z * z - gathered, 0.0), 3)
    assert look.p_value == pytest.approx(p_value, rel=1e-9, abs=1e-300)


def test_looks_begin_where_the_first_has_enough_information() -> None:
    assert sequential.from_start(1.0, 0.5, 1.0).p_value < 1
    with pytest.raises(Refusal) as refused:
        sequential.from_start(1.0, 0.5, 0.999)
    assert refused.value.reason == "before_first_look"
    at_start = sequential.always_valid_from_start([1.0, 1.0], [0.5, 0.25], 4.0)
    assert at_start.looks[0] == sequential.from_start(1.0, 0.5, 1.0)
    assert at_start.looks[1] == sequential.from_start(1.0, 0.25, 4.0)
    # A second look with enough does not make up for the first.
    with pytest.raises(Refusal) as refused:
        sequential.always_valid_from_start([1.0, 1.0], [0.5, 0.25], 8.0)
    assert refused.value.reason == "before_first_look"


def test_intervals_that_touch_are_no_drift() -> None:
    half = sequential.confidence_sequence(0.0, 0.5, 1.0).high
    path = sequential.always_valid([-half, half], [0.5, 0.5], planned_information=4.0)
    assert path.running == (0.0, 0.0)
    assert not path.drifted


def test_an_effect_that_moved_is_as_the_last_of_many_looks_has_it() -> None:
    path = sequential.always_valid([1.0, -1.0, -1.1], [0.1, 0.05, 0.04], 400)
    assert path.drifted
    assert path.running == (path.looks[2].low, path.looks[2].high)


def test_levels_and_scales_that_are_not_named() -> None:
    pair = [0.1, 0.3], [0.2, 0.1]
    for follow in (sequential.always_valid, sequential.always_valid_from_start):
        assert follow(*pair, 20.0) == follow(*pair, 20.0, 0.05, 1.0)
    assert sequential.confidence_sequence(0.1, 0.2, 1.0) == sequential.confidence_sequence(
        0.1, 0.2, 1.0, 0.05
    )
    assert sequential.from_start(0.1, 0.2, 2.0) == sequential.from_start(0.1, 0.2, 2.0, 0.05)
    assert sequential.critical_from_start(7.0) == sequential.critical_from_start(7.0, 0.05)
    assert sequential.information([0.5]).tolist() == sequential.information([0.5], 1.0).tolist()
    # A plan of less than one unit of information is a plan.
    assert sequential.tuning(0.05, 0.5) == pytest.approx(sequential.tuning(0.05, 2.0) * 2)
    assert sequential.always_valid([0.1], [2.0], 0.5).looks[0].p_value <= 1


def test_numbers_without_a_look_are_refused() -> None:
    inf, nan = math.inf, math.nan
    for call, reason in (
        (lambda: sequential.information([0.1], inf), "not_finite"),
        (lambda: sequential.information([nan], 1.0), "not_finite"),
        (lambda: sequential.information([0.1, 0.0]), "zero_variance"),
        (lambda: sequential.confidence_sequence(0.1, nan, 1.0), "not_finite"),
        (lambda: sequential.from_start(nan, 0.1, 2.0), "not_finite"),
        (lambda: sequential.from_start(0.1, 0.0, 2.0), "zero_variance"),
        (lambda: sequential.always_valid([nan], [0.1], 1.0), "not_finite"),
        (lambda: sequential.always_valid([0.1], [0.1], -1.0), "too_few_units"),
        (lambda: sequential.always_valid_from_start([], [], 1.0), "not_applicable"),
        (lambda: sequential.always_valid_from_start([1.0], [1.0, 1.0], 1.0), "not_applicable"),
        (lambda: sequential.always_valid_from_start([nan], [0.1], 1.0), "not_finite"),
    ):
        with pytest.raises(Refusal) as refused:
            call()
        assert refused.value.reason == reason
