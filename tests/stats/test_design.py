import math

import pytest
from reference_vectors import vector

from abeval.stats import design
from abeval.stats.records import Refusal


def test_vector_power_mde_from_se() -> None:
    v = vector("power_mde_from_se")
    assert v.inputs["alpha"] == 0.05
    found = design.compute_mde(v.inputs["se"], v.inputs["power"])
    assert found == pytest.approx(v.expected["mde"], abs=v.tol)


def test_degenerate_plans_are_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        design.compute_mde(math.inf)
    assert refusal.value.reason == "not_finite"
    for bad in (0, 1):
        with pytest.raises(ValueError, match="power"):
            design.compute_mde(1, power=bad)
