"""Thousands of experiments at once are judged as `compare_moments` judges each."""

from __future__ import annotations

import math

import numpy as np
import pytest

from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from benchmarks.calibration import spread
from benchmarks.calibration.at_once import arm, covers, covers_difference, judge
from benchmarks.calibration.skew import METRIC
from tests.worlds.skewed import WORLDS, moments


@pytest.mark.parametrize(
    ("world", "sizes"),
    [
        ("3 % buyers, lognormal σ 1", (9_000, 1_000)),
        ("3 % buyers, lognormal σ 1.5", (400, 100)),
        ("conversion 3 %", (1_800, 200)),
        ("conversion 30 %", (1_000, 1_000)),
        ("3 % buyers, lognormal σ 1", (1_000, 1_000)),
        ("3 % buyers, lognormal σ 1.5", (150, 150)),
        ("Pareto 2.5", (300, 300)),
        ("normal", (1_800, 200)),
    ],
)
def test_they_are_judged_as_one_by_one(world: str, sizes: tuple[int, int]) -> None:
    random, lift = np.random.default_rng(3), 0.3
    draws = [WORLDS[world].draw(random, 25, n, f) for n, f in zip(sizes, (1.0, 1.3), strict=True)]
    control, treatment = (arm(sums, n) for sums, n in zip(draws, sizes, strict=True))
    judged = judge(control, treatment)
    covered = covers(control, treatment, lift, judged)
    by = lift * WORLDS[world].mean
    of_difference = covers_difference(control, treatment, by, judged)
    answers = 0
    for i, (c, t) in enumerate(zip(*draws, strict=True)):
        one = compare_moments(METRIC, moments(c, sizes[0]), moments(t, sizes[1]), Rule())
        assert (one.effect is None) == judged.refused[i]
        assert (one.permuted is not None) == judged.permuted[i]
        assert (one.rare is not None) == judged.exact[i]
        if one.effect is None:
            continue
        answers += 1
        p_value = min(1.0, 2 * min(side[i] for side in judged.sides))
        assert p_value == pytest.approx(one.effect.p_value, rel=1e-6)
        if not math.isnan(of_difference[i]):
            assert of_difference[i] == (one.effect.low <= by <= one.effect.high)
        if not math.isnan(covered[i]) and one.lift is not None and one.permuted is not None:
            assert covered[i] == (one.lift.low <= lift <= one.lift.high)
    assert answers or sizes[1] == 100


def test_equal_means_with_unequal_spread_keep_the_level() -> None:
    """A third fewer buyers spend half as much more: each test of skewed values alone is off."""
    cell = "a third fewer buyers, lognormal σ 1", (27_000, 3_000)
    (record,) = spread.measure_spread(cell, 3_000, 0)
    rejected = {name: float(str(record[name]).split()[0]) / 100 for name in spread.TESTS}
    error = math.sqrt(0.05 * 0.95 / 3_000)
    assert rejected["as it is"] < 0.055 + 3 * error
    assert rejected["permutation alone"] > 0.055 + 3 * error
