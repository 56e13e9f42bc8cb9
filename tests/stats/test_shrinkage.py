"""Effects shrunk by their own spread, against quadrature and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from scipy import stats as scipy_stats

from abeval.stats import shrinkage
from abeval.stats.records import Refusal

# Rubin (1981): coaching in eight schools.
SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def density(share: float) -> float:
    """The likelihood of a share of noise, means integrated out; its prior is uniform."""
    variance = (1 / share - 1) / np.mean(1 / ERRORS**2)
    covariance = np.diag(variance + ERRORS**2)
    inverse = np.linalg.inv(covariance)
    ones = np.ones(8)
    known = ones @ inverse @ ones
    mean = ones @ inverse @ SCHOOLS / known
    misfit = (SCHOOLS - mean) @ inverse @ (SCHOOLS - mean)
    return float(np.exp(-0.5 * misfit) / np.sqrt(np.linalg.det(covariance) * known) * 1e12)


def posterior_mean(school: int) -> float:
    def shrunk(share: float) -> float:
        variance = (1 / share - 1) / np.mean(1 / ERRORS**2)
        weight = 1 / (variance + ERRORS**2)
        mean = weight @ SCHOOLS / weight.sum()
        kept = variance / (variance + ERRORS[school] ** 2)
        return density(share) * (kept * SCHOOLS[school] + (1 - kept) * mean)

    return integrate.quad(shrunk, 0, 1)[0] / integrate.quad(density, 0, 1)[0]


def test_posterior_means_are_those_of_quadrature() -> None:
    shrunk = shrinkage.shrink(SCHOOLS, ERRORS)
    expected = [posterior_mean(school) for school in range(8)]
    assert shrunk.value == pytest.approx(expected, abs=0.01)
    assert (shrunk.low < shrunk.value).all()
    assert (shrunk.value < shrunk.high).all()


def test_a_sum_is_the_sum_of_its_parts_and_its_interval_is_wider() -> None:
    shrunk = shrinkage.shrink(SCHOOLS, ERRORS)
    picked = SCHOOLS > 10
    total = shrinkage.total(SCHOOLS, ERRORS, picked)
    assert total.value == pytest.approx(shrunk.value[picked].sum())
    assert total.naive == SCHOOLS[picked].sum()
    assert total.effects == 3
    # Shrunk by one prior, the parts err together.
    apart = np.sqrt(np.sum((shrunk.high - shrunk.low)[picked] ** 2))
    assert total.high - total.low > apart


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_without_noise_the_prior_is_mean_and_sd(scale: float) -> None:
    random = np.random.default_rng(0)
    true = scale * random.normal(3, 1, 4_000)
    prior = shrinkage.prior(true, np.full(4_000, scale * 0.01))
    assert prior.mean == pytest.approx(true.mean(), abs=scale * 0.01)
    assert prior.sd == pytest.approx(true.std(), rel=0.03)
    half = scipy_stats.norm.ppf(0.975) * true.std() / np.sqrt(4_000)
    assert prior.mean_high - prior.mean == pytest.approx(half, rel=0.05)
    shrunk = shrinkage.shrink(true[:50], np.full(50, scale * 0.01))
    assert shrunk.value == pytest.approx(true[:50], abs=scale * 0.001)


def test_noise_alone_is_shrunk_to_the_mean() -> None:
    random = np.random.default_rng(1)
    seen = random.standard_normal(400)
    shrunk = shrinkage.shrink(seen, np.ones(400))
    assert np.std(shrunk.value) < 0.1
    assert abs(shrunk.chance_positive - 0.5).max() < 0.5


def test_nothing_shipped_gained_nothing() -> None:
    total = shrinkage.total(SCHOOLS, ERRORS, np.zeros(8, dtype=bool))
    assert total == (0.0, 0.0, 0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("effects", "ses", "reason"),
    [
        ([1, 2, 3, 4], [1] * 4, "too_few_units"),
        ([1, 2, 3, 4, 5], [1, 1, 1, 1, 0], "zero_variance"),
        ([1, 2, 3, 4, np.nan], [1] * 5, "not_finite"),
        ([1, 2, 3, 4, 5], [1] * 4, "inconsistent"),
    ],
)
def test_what_cannot_be_shrunk_is_refused(effects: object, ses: object, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        shrinkage.prior(effects, ses)
    assert refused.value.reason == reason
    with pytest.raises(Refusal):
        shrinkage.total([1, 2, 3, 4, 5], [1] * 5, [True])
