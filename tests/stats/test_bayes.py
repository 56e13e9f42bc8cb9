from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import integrate, stats

from abeval.stats import decisions
from abeval.stats.records import Refusal


def test_vector_bayes_normal_normal() -> None:
    v = vector("bayes_normal_normal")
    i = v.inputs
    prior = decisions.Prior(i["prior_mean"], i["prior_sd"])
    found = decisions.normal_normal(i["lift"], i["se"], prior, i["alpha"])
    assert found.mean == pytest.approx(v.expected["mean"], abs=v.tol)
    assert found.sd == pytest.approx(v.expected["sd"], abs=v.tol)
    assert found.chance_to_beat == pytest.approx(v.expected["chance_to_win"], abs=v.tol)
    assert (found.low, found.high) == pytest.approx(v.expected["ci"], abs=v.tol)
    assert found.loss_treatment == pytest.approx(v.expected["risk_choose_treatment"], abs=v.tol)
    assert found.loss_control == pytest.approx(v.expected["risk_choose_control"], abs=v.tol)


def test_d7_a_prior_of_the_lift_is_rescaled_for_the_difference() -> None:
    control, prior = -4.0, decisions.Prior(0.02, 0.3)
    lift = decisions.normal_normal(0.03, 0.02, prior)
    scaled = prior.on_absolute_scale(control)
    difference = decisions.normal_normal(0.03 * 4, 0.02 * 4, scaled)
    assert scaled == (0.08, 1.2)
    assert difference.chance_to_beat == pytest.approx(lift.chance_to_beat, abs=1e-12)
    assert difference.mean == pytest.approx(4 * lift.mean, abs=1e-12)
    unscaled = decisions.normal_normal(0.03 * 4, 0.02 * 4, prior)
    assert abs(unscaled.mean - difference.mean) > 1e-4


def test_a_flat_prior_gives_back_the_estimate() -> None:
    found = decisions.normal_normal(0.03, 0.02)
    assert (found.mean, found.sd) == (0.03, 0.02)
    assert found.chance_to_beat == pytest.approx(stats.norm.cdf(1.5), abs=1e-12)
    assert found.low == pytest.approx(0.03 - 1.959963984540054 * 0.02, abs=1e-12)


@quick
@given(st.floats(-3, 3), st.floats(0.05, 3), st.floats(-1, 1), st.floats(0.05, 3))
def test_swapping_arms_mirrors_everything(d: float, se: float, mean: float, sd: float) -> None:
    one = decisions.normal_normal(d, se, decisions.Prior(mean, sd))
    two = decisions.normal_normal(-d, se, decisions.Prior(-mean, sd))
    assert two.chance_to_beat == pytest.approx(1 - one.chance_to_beat, abs=1e-9)
    assert two.loss_treatment == pytest.approx(one.loss_control, abs=1e-12)
    assert one.loss_control - one.loss_treatment == pytest.approx(one.mean, abs=1e-9)


@pytest.mark.parametrize("z", [0.0, 3.0, 9.99, 10.01, 25.0, 35.0, -12.0])
def test_losses_keep_their_digits_in_the_tail(z: float) -> None:
    expected, _ = integrate.quad(
        lambda x: (x - z) * stats.norm.pdf(x), z, max(z, 0) + 12, epsabs=0, epsrel=1e-10, limit=400
    )
    assert decisions.normal_normal(z, 1.0).loss_treatment == pytest.approx(expected, rel=1e-7)


def test_estimate_and_prior_are_weighted_by_their_precision() -> None:
    belief = decisions.normal_normal(0.05, 0.02, decisions.Prior(-0.01, 0.03), alpha=0.1)
    likelihood, prior = 0.02**-2, 0.03**-2
    mean = (0.05 * likelihood - 0.01 * prior) / (likelihood + prior)
    posterior = stats.norm(mean, (likelihood + prior) ** -0.5)
    assert (belief.mean, belief.sd) == pytest.approx((posterior.mean(), posterior.std()))
    assert (belief.low, belief.high) == pytest.approx(posterior.interval(0.9))
    assert belief.chance_to_beat == pytest.approx(posterior.sf(0))
    assert belief.prior == decisions.Prior(-0.01, 0.03)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: decisions.normal_normal(0.1, 0.0), "zero_variance"),
        (lambda: decisions.normal_normal(0.1, 0.1, decisions.Prior(0.0, 0.0)), "zero_variance"),
        (lambda: decisions.normal_normal(0.1, -1.0, decisions.Prior(0.0, 1.0)), "zero_variance"),
        (lambda: decisions.normal_normal(0.1, 0.1, decisions.Prior(0.0, -1.0)), "zero_variance"),
        (lambda: decisions.normal_normal(np.nan, 0.1), "not_finite"),
        (lambda: decisions.normal_normal(0.1, np.inf), "not_finite"),
        (lambda: decisions.normal_normal(0.1, 0.1, decisions.Prior(np.inf, 1.0)), "not_finite"),
        (lambda: decisions.normal_normal(0.1, 0.1, decisions.Prior(0.0, np.nan)), "not_finite"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason
