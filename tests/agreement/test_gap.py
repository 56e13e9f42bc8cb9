"""Lost labels: clean categories are not named, and those that lost clicks are sized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from abeval.agreement import gap
from abeval.agreement.levels import PARTS, Faults


class _Responses:
    """An engine of which only what it is given is looked at."""

    factors: dict[str, Any]

    def add_arrays(self, name: str, arrays: dict[str, Any]) -> None:
        assert name == "responses"
        self.factors = dict(zip(arrays["category"], arrays["factor"], strict=True))


def compare(lost: list[float], clicks: float, seed: int) -> tuple[Faults, _Responses]:
    """Compare categories of which the variant lost shares of so many clicks each."""
    rng, engine = np.random.default_rng(seed), _Responses()
    expected = np.repeat(rng.poisson(clicks, len(lost)) / PARTS, PARTS)
    left = clicks / PARTS * (1 - np.repeat(lost, PARTS))
    rows = pd.DataFrame(
        {
            "category": np.repeat([f"c{i}" for i in range(len(lost))], PARTS),
            "part": np.tile(np.arange(PARTS), len(lost)),
            "clicks": rng.poisson(left),
            "expected": expected,
            "variance": expected,
        }
    )
    return gap._compare_labels(engine, rows), engine


@pytest.mark.parametrize(
    ("categories", "clicks"),
    [
        (60, 250),
        pytest.param(8, 300, marks=pytest.mark.slow),
        pytest.param(200, 40, marks=pytest.mark.slow),
    ],
)
def test_no_category_of_a_clean_log_is_named(categories: int, clicks: int) -> None:
    found = [compare([0.0] * categories, clicks, seed)[0].share > 0.1 for seed in range(150)]
    # One in 300 logs is what the level allows.
    assert sum(found) <= 3


def test_the_category_that_lost_clicks_is_named_alone_and_sized() -> None:
    outcomes = [compare([0.5] + [0.0] * 19, 1_000, seed) for seed in range(40)]
    assert all(faults.where[0] == "c0" for faults, _ in outcomes)
    assert np.mean([len(faults.where) for faults, _ in outcomes]) < 1.3
    shares = [faults.share for faults, _ in outcomes]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.04)
    factors = [engine.factors["c0"] for _, engine in outcomes]
    assert np.median(factors) == pytest.approx(2.0, rel=0.1)


def test_half_of_the_categories_can_have_lost_clicks() -> None:
    faults, engine = compare([0.35] * 4 + [0.0] * 4, 2_000, 1)
    assert {*engine.factors} == {"c0", "c1", "c2", "c3"}
    assert faults.share == pytest.approx(0.35, abs=0.06)
