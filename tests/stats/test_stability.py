import math
from collections.abc import Callable

import numpy as np
import pytest
from reference_vectors import vector

from abeval.stats import shapes
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def random_case(seed: int, days: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(days, days)) * 0.1 + np.eye(days)
    return rng.normal(size=days), root @ root.T


def test_covariance_of_daily_differences() -> None:
    rng = np.random.default_rng(2)
    control, treatment = rng.poisson(2, size=(5, 80)), rng.poisson(2, size=(5, 40))
    found = shapes.covariance(Moments.of(*control), Moments.of(*treatment))
    assert found == pytest.approx(np.cov(control) / 80 + np.cov(treatment) / 40, abs=1e-12)


SIGMA = np.eye(3)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: shapes.contrast([0.1, 0.2], SIGMA, [1, -1]), "not_applicable"),
        (lambda: shapes.contrast([0.1, 0.2, math.nan], SIGMA, [1, -1, 0]), "not_finite"),
        (lambda: shapes.contrast([0.1, 0.2, 0.3], SIGMA * 0, [1, -1, 0]), "zero_variance"),
        (lambda: shapes.contrast([0.1, 0.2, 0.3], SIGMA, [1, -1]), "not_applicable"),
        (
            lambda: shapes.covariance(Moments.of([1, 2]), Moments.of([1, 2], [1, 3])),
            "not_applicable",
        ),
        (lambda: shapes.covariance(Moments.of([1]), Moments.of([1, 2])), "too_few_units"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "call",
    [
        lambda: shapes.contrast([0.1, 0.2], np.eye(2), [1.0, math.nan]),
        lambda: shapes.contrast([[0.1, 0.2]], np.eye(1), [1.0]),
    ],
)
def test_shapes_that_differ_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == "not_applicable"


def test_vector_novelty_contrast() -> None:
    v = vector("novelty_contrast")
    i = v.inputs
    found = shapes.contrast(i["delta"], i["sigma"], i["contrast"])
    assert found.difference == pytest.approx(v.expected["estimate"], abs=v.tol)
    assert found.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert found.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
