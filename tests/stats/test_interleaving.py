import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from abeval.stats import interleaving
from abeval.stats.records import Refusal


def test_vector_interleaving() -> None:
    v = vector("interleaving")
    found = interleaving.team_draft(v.inputs["wins_A"], v.inputs["wins_B"], v.inputs["ties"])
    assert found.delta == pytest.approx(v.expected["delta"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["sign_p"], abs=v.tol)
    assert found.z == pytest.approx(v.expected["z"], abs=v.tol)


@quick
@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_sign_test_and_interval_are_scipys(a: int, b: int, ties: int) -> None:
    if a + b == 0:
        return
    found = interleaving.team_draft(a, b, ties)
    assert found.p_value == pytest.approx(stats.binomtest(b, a + b).pvalue, rel=1e-9)
    low, high = proportion_confint(b, a + b, method="beta")
    share = (a + b) / (a + b + ties)
    assert found.low == pytest.approx(share * (low - 0.5), abs=1e-9)
    assert found.high == pytest.approx(share * (high - 0.5), abs=1e-9)
    assert found.low - 1e-12 <= found.delta <= found.high + 1e-12
    swapped = interleaving.team_draft(b, a, ties)
    assert swapped.delta == pytest.approx(-found.delta, abs=1e-12)
    assert swapped.p_value == found.p_value


def test_one_user_is_a_test_of_one() -> None:
    one = interleaving.team_draft(0, 1, 0)
    assert (one.delta, one.z, one.p_value, one.users) == (0.5, 1.0, 1.0, 1)
    assert (one.low, one.high) == pytest.approx((0.025 - 0.5, 0.5))
    assert interleaving.team_draft(1, 0, 1).delta == -0.25


@quick
@given(st.integers(1, 60), st.integers(1, 60))
def test_interval_and_p_value_agree(a: int, b: int) -> None:
    found = interleaving.team_draft(a, b, 5)
    # Both double the binomial tail, so they are dual.
    assert (found.p_value <= 0.05) == (found.low > 0 or found.high < 0)


def test_a_user_counts_once_however_often_they_click() -> None:
    rng = np.random.default_rng(1)
    heavy_a, heavy_b = np.array([100, 0, 0, 2]), np.array([0, 1, 1, 2])
    assert interleaving.wins(heavy_a, heavy_b) == interleaving.Wins(1, 2, 1)
    clicks = rng.poisson(1.0, size=(2, 500))
    counted = interleaving.wins(*clicks)
    assert counted.a + counted.b + counted.ties == 500


def test_the_sign_test_is_conservative_at_no_preference() -> None:
    rng = np.random.default_rng(2)
    wins = rng.binomial(40, 0.5, 4000)
    rejected = [interleaving.team_draft(40 - int(w), int(w), 0).p_value <= 0.05 for w in wins]
    assert 0.01 < np.mean(rejected) <= 0.05


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: interleaving.team_draft(0, 0, 5), "too_few_units"),
        (lambda: interleaving.team_draft(-1, 3, 5), "not_applicable"),
        (lambda: interleaving.team_draft(3, -1, 5), "not_applicable"),
        (lambda: interleaving.team_draft(3, 1, -5), "not_applicable"),
        (lambda: interleaving.wins([[1, 2]], [[1, 1]]), "not_applicable"),
        (lambda: interleaving.wins([1, 2], [1, math.inf]), "not_finite"),
        (lambda: interleaving.wins([1, 2], [1]), "not_applicable"),
        (lambda: interleaving.wins([1, math.nan], [1, 1]), "not_finite"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason
