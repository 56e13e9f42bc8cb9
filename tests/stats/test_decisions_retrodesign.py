import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy.special import ndtr, ndtri

from abeval.stats import decisions
from abeval.stats.records import Refusal


def test_vector_type_s_m() -> None:
    v = vector("type_s_m")
    r = decisions.type_s_m(v.inputs["true_effect"], v.inputs["se"], v.inputs["alpha"])
    assert r.power == pytest.approx(v.expected["power"], abs=v.tol)
    assert r.type_s == pytest.approx(v.expected["type_s"], abs=v.tol)
    assert r.exaggeration == pytest.approx(v.expected["exaggeration"], abs=v.tol)


@pytest.mark.parametrize("effect", [0.2, 1.0, 2.5, -1.0])
def test_agrees_with_simulation(effect: float) -> None:
    draws = np.random.default_rng(1).normal(effect, 1.0, 1_000_000)
    significant = draws[np.abs(draws) > 1.959964]
    r = decisions.type_s_m(effect, 1.0)
    assert r.power == pytest.approx(significant.size / draws.size, abs=0.002)
    assert r.type_s == pytest.approx(np.mean(significant * effect < 0), abs=0.004)
    assert r.exaggeration == pytest.approx(np.mean(np.abs(significant / effect)), rel=0.01)


@quick
@given(st.floats(0.01, 8), st.floats(0.001, 0.5))
def test_bounds(effect: float, alpha: float) -> None:
    r, z = decisions.type_s_m(effect, 1.0, alpha), ndtri(alpha / 2)
    assert r.power == pytest.approx(ndtr(effect + z) + ndtr(z - effect), rel=1e-12)
    assert 0 <= r.type_s <= 0.5
    assert r.exaggeration > 1 - 1e-9


def test_limits() -> None:
    assert decisions.type_s_m(0.0, 1.0)[1:] == (0.5, math.inf)
    sure = decisions.type_s_m(1e6, 1.0)
    assert sure == pytest.approx((1.0, 0.0, 1.0))
    for effect, se in ((1.0, 0.0), (1.0, -1.0), (math.nan, 1.0), (1.0, math.inf)):
        with pytest.raises(Refusal):
            decisions.type_s_m(effect, se)


def test_the_level_is_five_percent_where_none_is_named() -> None:
    assert decisions.type_s_m(0.4, 0.2) == decisions.type_s_m(0.4, 0.2, 0.05)
    # An effect below its unit is an effect.
    small = decisions.type_s_m(0.5, 1.0)
    assert small.type_s < 0.5
    assert small.exaggeration < 10
