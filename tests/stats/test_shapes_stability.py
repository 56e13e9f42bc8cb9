import math

import numpy as np
import pytest
from reference_vectors import vector

from abeval.stats import shapes
from abeval.stats.records import Refusal


def random_case(seed: int, days: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(days, days)) * 0.1 + np.eye(days)
    return rng.normal(size=days), root @ root.T


@pytest.mark.parametrize(
    ("differences", "size", "reason"),
    [([0.1, math.nan], 1.0, "not_finite"), ([0.1, 0.2], 0.0, "zero_variance")],
)
def test_refusals(differences: list[float], size: float, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        shapes.contrast(np.array(differences), size * np.eye(2), [1, -1])
    assert refused.value.reason == reason


def test_vector_novelty_contrast() -> None:
    v = vector("novelty_contrast")
    i = v.inputs
    found = shapes.contrast(i["delta"], i["sigma"], i["contrast"])
    assert found.difference == pytest.approx(v.expected["estimate"], abs=v.tol)
    assert found.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert found.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
