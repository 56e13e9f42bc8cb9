"""A short run of `benchmarks.calibration.history`: correlations and gains hold."""

from __future__ import annotations

import pytest

from benchmarks.calibration.history import Gain, measure_correlations, measure_gains
from tests.worlds.effects import Pair

pytestmark = pytest.mark.slow


def test_the_corrected_correlation_is_the_true_one() -> None:
    said = measure_correlations(Pair(0.8, 2.0), 60, seed=3)
    outcome = {name: float(str(said[name])) for name in said if name != "shape"}
    assert abs(outcome["naive"] - 0.8) > 0.03
    assert outcome["corrected"] == pytest.approx(0.8, abs=0.1)
    assert outcome["covered"] >= 0.9
    assert outcome["slope covered"] >= 0.88


def test_the_shrunken_sum_is_the_true_one() -> None:
    outcome = {name: float(str(value)) for name, value in measure_gains(Gain(), 300, 3).items()}
    assert outcome["naive"] > 1.5
    assert outcome["shrunken"] == pytest.approx(1, abs=0.1)
    assert outcome["covered"] >= 0.9
