import math

import pytest
from reference_vectors import vector

from abeval.stats import design
from abeval.stats.records import Refusal


def test_vector_power_mde_from_se() -> None:
    v = vector("power_mde_from_se")
    assert v.inputs["alpha"] == 0.05
    found = design.mde_from_se(v.inputs["se"], v.inputs["power"])
    assert found == pytest.approx(v.expected["mde"], abs=v.tol)


def test_the_critical_value_of_an_always_valid_test() -> None:
    critical, n = design.always_valid_critical(0.05), 10_000
    # The half-width of the confidence sequence at the size it is tuned for, over the se.
    rho2 = (-2 * math.log(0.05) + math.log(-2 * math.log(0.05) + 1)) / n
    k = n * rho2 + 1
    half = math.sqrt(2 * k / (n**2 * rho2) * math.log(math.sqrt(k) / 0.05))
    assert critical == pytest.approx(half * math.sqrt(n), rel=1e-12)
    assert design.mde_from_se(2, critical=critical) == pytest.approx(2 * (critical + 0.8416212))


def test_degenerate_plans_are_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        design.mde_from_se(math.inf)
    assert refusal.value.reason == "not_finite"
    for bad in (0, 1):
        with pytest.raises(ValueError, match="power"):
            design.mde_from_se(1, power=bad)
