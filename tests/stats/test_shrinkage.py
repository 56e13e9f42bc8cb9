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
    assert total == (0.0, 0.0, 0.0, 0.0, 0, 0.0)


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


def normals(share: float, school: int | None) -> tuple[float, float]:
    """Mean and variance, at a share of noise, of a school's true effect or of the mean."""
    variance = (1 / share - 1) / np.mean(1 / ERRORS**2)
    weight = 1 / (variance + ERRORS**2)
    mean, known = weight @ SCHOOLS / weight.sum(), 1 / weight.sum()
    if school is None:
        return mean, known
    kept = variance / (variance + ERRORS[school] ** 2)
    own = kept * SCHOOLS[school] + (1 - kept) * mean
    return own, kept * ERRORS[school] ** 2 + (1 - kept) ** 2 * known


def below(at: float, school: int | None) -> float:
    """Posterior probability that it is below a value."""

    def both(share: float) -> float:
        mean, variance = normals(share, school)
        return density(share) * scipy_stats.norm.cdf(at, mean, np.sqrt(variance))

    return integrate.quad(both, 0, 1, epsrel=1e-9)[0] / integrate.quad(density, 0, 1)[0]


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_ends_and_chances_are_those_of_quadrature(alpha: float) -> None:
    shrunk = shrinkage.shrink(SCHOOLS, ERRORS, alpha)
    for school in (0, 2, 7):
        assert below(shrunk.low[school], school) == pytest.approx(alpha / 2, abs=1e-4)
        assert below(shrunk.high[school], school) == pytest.approx(1 - alpha / 2, abs=1e-4)
        chance = 1 - below(0.0, school)
        assert shrunk.chance_positive[school] == pytest.approx(chance, abs=1e-4)
    prior = shrinkage.prior(SCHOOLS, ERRORS, alpha)
    assert below(prior.mean_low, None) == pytest.approx(alpha / 2, abs=1e-4)
    assert below(prior.mean_high, None) == pytest.approx(1 - alpha / 2, abs=1e-4)


def test_the_spread_of_true_effects_is_that_of_quadrature() -> None:
    whole = integrate.quad(density, 0, 1)[0]
    scale = np.mean(1 / ERRORS**2)

    def second(share: float) -> float:
        return density(share) * ((1 / share - 1) / scale + normals(share, None)[1])

    prior = shrinkage.prior(SCHOOLS, ERRORS)
    assert prior.sd**2 == pytest.approx(integrate.quad(second, 0, 1)[0] / whole, rel=1e-3)
    mean = integrate.quad(lambda s: density(s) * normals(s, None)[0], 0, 1)[0] / whole
    assert prior.mean == pytest.approx(mean, rel=1e-4)
    for end, level in ((prior.sd_low, 0.025), (prior.sd_high, 0.975)):
        share = 1 / (1 + end**2 * scale)
        smaller = integrate.quad(density, share, 1)[0] / whole
        assert smaller == pytest.approx(level, abs=0.004)


def test_five_effects_are_enough_and_levels_are_five_percent() -> None:
    five = SCHOOLS[:5], ERRORS[:5]
    assert shrinkage.prior(*five).effects == 5
    assert shrinkage.prior(*five) == shrinkage.prior(*five, 0.05)
    assert shrinkage.shrink(*five).low.tolist() == shrinkage.shrink(*five, 0.05).low.tolist()
    chosen = [True, False, True, False, False]
    assert shrinkage.total(*five, chosen) == shrinkage.total(*five, chosen, 0.05)
    with pytest.raises(Refusal) as refused:
        shrinkage.prior([SCHOOLS, SCHOOLS], [ERRORS, ERRORS])
    assert refused.value.reason == "inconsistent"
