"""Roots are SciPy's, to the last bit."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, special

from abeval.stats.distributions import brentq

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "cubic": lambda x: x**3 - 2 * x - 5,
    "root": lambda x: math.copysign(math.sqrt(abs(x - 1.5)), x - 1.5),
    "steep": lambda x: math.tanh(400 * (x - 2.2)),
    "normal": lambda x: float(special.ndtr(x - 3)) - 0.3,
    "step": lambda x: -1.0 if x < math.pi else 1.0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("tolerances", [{}, {"xtol": 1e-14, "rtol": 1e-14}, {"xtol": 1e-6}])
def test_the_root_is_that_of_scipy(name: str, tolerances: dict[str, float]) -> None:
    random = np.random.default_rng(5)
    for low, high in random.uniform((-3.0, 3.5), (1.0, 9.0), size=(40, 2)).tolist():
        expected = optimize.brentq(FUNCTIONS[name], low, high, **tolerances)
        assert brentq(FUNCTIONS[name], low, high, **tolerances) == expected
        assert brentq(FUNCTIONS[name], high, low, **tolerances) == pytest.approx(expected, abs=1e-5)


def test_an_end_may_be_the_root() -> None:
    assert brentq(lambda x: x, 0.0, 1.0) == 0.0
    assert brentq(lambda x: x - 1, 0.0, 1.0) == 1.0


def test_a_bracket_without_a_change_of_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="same sign at 1 and at 2"):
        brentq(lambda x: x, 1, 2)
