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
from abeval.stats.sequential import Spending

SPENDINGS: tuple[Spending, ...] = ("obrien_fleming", "obrien_fleming_total", "pocock", "power")


@pytest.mark.parametrize(
    ("spending", "key"),
    list(zip(SPENDINGS, ["obf", "obf_total", "pocock", "power_rho2"], strict=True)),
)
def test_vector_group_sequential_bounds(spending: Spending, key: str) -> None:
    v = vector("group_sequential_bounds")
    found = sequential.bounds(v.inputs["information_fractions"], v.inputs["alpha"], spending)
    # Held tighter than the vector's tolerance, which allows for published three-digit tables.
    assert found.z == pytest.approx(v.expected[key], abs=1e-9)
    if key == "obf":
        assert found.spent == pytest.approx(v.expected["spent_obf"], abs=1e-9)


def test_d12_the_second_bound_of_the_power_family_is_exact() -> None:
    second = sequential.bounds([0.2, 0.4, 0.6, 0.8, 1.0], 0.05, "power").z[1]
    assert second == pytest.approx(2.714111575530905, abs=1e-10)
    assert abs(second - 2.71408) > 2e-5


def test_one_look_is_the_fixed_test() -> None:
    for spending in SPENDINGS:
        assert sequential.bounds([1.0], 0.05, spending).z[0] == pytest.approx(
            stats.norm.isf(0.025), abs=1e-9
        )


def test_two_looks_against_the_bivariate_normal() -> None:
    found = sequential.bounds([0.3, 1.0], 0.05, "pocock")
    law = stats.multivariate_normal(cov=[[1, math.sqrt(0.3)], [math.sqrt(0.3), 1]])
    a, b = found.z
    inside = law.cdf([a, b], lower_limit=[-a, -b])
    assert 1 - inside == pytest.approx(0.05, abs=1e-6)
    assert found.spent[0] == pytest.approx(2 * stats.norm.sf(a), abs=1e-9)


@quick
@given(
    st.lists(st.floats(0.02, 1.0), min_size=1, max_size=8, unique_by=lambda t: round(t, 2)),
    st.sampled_from(SPENDINGS),
)
def test_unequal_looks_spend_what_they_should(times: list[float], spending: Spending) -> None:
    times = sorted(times)
    found = sequential.bounds(times, 0.05, spending)
    shares = [sequential.spend_alpha(t, 0.05, spending) for t in times]
    assert found.spent == pytest.approx(shares, abs=1e-12)
    # Leaving out later looks does not move earlier bounds.
    assert sequential.bounds(times[:1], 0.05, spending).z[0] == found.z[0]
    # The bound never exceeds that of a test spending this look's share alone.
    for z, share in zip(found.z, np.diff(shares, prepend=0.0), strict=True):
        assert z <= -stats.norm.ppf(share / 2) + 1e-9


def test_alpha_is_spent_from_the_start_to_the_end() -> None:
    for spending in SPENDINGS:
        assert sequential.spend_alpha(0.0, 0.03, spending) == 0
        assert sequential.spend_alpha(1.0, 0.03, spending) == 0.03
        assert sequential.spend_alpha(1.5, 0.03, spending) == 0.03
    # Where none is named the exponent is two.
    assert sequential.spend_alpha(0.5, 0.04, "power") == pytest.approx(0.01)
    look = sequential.bounds([0.5], 0.04, "power")
    assert look.spent == pytest.approx((0.01,))
    p = sequential.repeated_p_value(look.z[0], [0.5], "power")
    assert p.value == pytest.approx(0.04, rel=1e-6)


def test_alpha_may_be_spent_by_the_calendar() -> None:
    planned = sequential.bounds([0.1, 0.4], 0.05, "pocock", spent_at=[0.5, 1.0])
    assert planned.spent == pytest.approx((sequential.spend_alpha(0.5, 0.05, "pocock"), 0.05))
    # Information then counts by its ratios alone.
    other = sequential.bounds([0.25, 1.0], 0.05, "pocock", spent_at=[0.5, 1.0])
    assert planned.z == pytest.approx(other.z, abs=1e-9)
    assert planned.z[1] != pytest.approx(sequential.bounds([0.5, 1.0], 0.05, "pocock").z[1])
    p = sequential.repeated_p_value(planned.z[1], [0.1, 0.4], "pocock", spent_at=[0.5, 1.0])
    assert p.value == pytest.approx(0.05, rel=1e-6)
    for shares in ([0.5], [1.0, 0.5], [0.5, 1.5]):
        with pytest.raises(Refusal) as refused:
            sequential.bounds([0.1, 0.4], spent_at=shares)
        assert refused.value.reason == "not_applicable"


def test_simulated_walks_cross_as_often_as_planned() -> None:
    rng = np.random.default_rng(4)
    times = np.array([0.1, 0.35, 0.5, 0.9, 1.0])
    walk = np.cumsum(rng.normal(size=(200_000, 5)) * np.sqrt(np.diff(times, prepend=0)), axis=1)
    z = np.abs(walk / np.sqrt(times))
    for spending in SPENDINGS:
        crossed = np.mean(np.any(z >= sequential.bounds(times, 0.05, spending).z, axis=1))
        assert crossed == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 200_000))


def test_many_looks_are_fast_and_an_early_obrien_fleming_bound_is_out_of_reach() -> None:
    found = sequential.bounds(np.arange(1, 201) / 200)
    assert found.z[0] > 30
    assert 2.0 < found.z[-1] < 2.4
    assert np.all(np.diff(found.z) < 0)
    assert math.isinf(sequential.bounds([0.001, 1.0]).z[0])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: sequential.bounds([]), "not_applicable"),
        (lambda: sequential.bounds([0.5, 0.5]), "not_applicable"),
        (lambda: sequential.bounds([0.5, 1.2]), "not_applicable"),
        (lambda: sequential.bounds([0.0, 1.0]), "not_applicable"),
        (lambda: sequential.bounds([-0.5, 1.0]), "not_applicable"),
        (lambda: sequential.spend_alpha(-0.1), "not_applicable"),
        (lambda: sequential.spend_alpha(0.5, 0.05, "nothing"), "not_applicable"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


@quick
@given(
    st.floats(0.1, 0.9),
    st.floats(0.001, 0.3),
    st.sampled_from(["obrien_fleming", "pocock", "power"]),
)
def test_the_repeated_p_value_is_alpha_exactly_on_the_bound(first, alpha, spending) -> None:
    fractions = [first, 1.0]
    z = sequential.bounds(fractions, alpha, spending).z[-1]
    p = sequential.repeated_p_value(z, fractions, spending)
    assert p.value == pytest.approx(alpha, rel=1e-6)
    assert sequential.repeated_p_value(z + 0.1, fractions, spending).value < alpha
    assert sequential.repeated_p_value(z - 0.1, fractions, spending).value > alpha


def test_repeated_p_values_at_the_ends() -> None:
    for z in (0.0, 1.3e-9, -1.3e-9, 2e-9):
        assert sequential.repeated_p_value(z, [0.5, 1.0]) == (1.0, 0.0)
    far = sequential.repeated_p_value(45.0, [0.5, 1.0])
    assert far.value == 0.0
    assert far.log10 == pytest.approx(-441.7, abs=0.5)
    one = sequential.repeated_p_value(1.96, [1.0])
    assert one.value == pytest.approx(2 * stats.norm.sf(1.96), rel=1e-9)
