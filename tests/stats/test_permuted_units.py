"""A studentised permutation of units: every split is as likely, if nothing differs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from abeval.stats import skewed, split_moments
from abeval.stats.moments import Moments, Units
from abeval.stats.split_moments import at


def units(values: np.ndarray) -> Units:
    distinct, counts = np.unique(values - values.mean(), return_counts=True)
    return Units(distinct, counts)


def with_units(*columns: np.ndarray) -> Moments:
    rows, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return replace(Moments.with_third(*columns), each=Units(rows, counts))


def bought(random: np.random.Generator, n: int, buyers: float = 0.05) -> np.ndarray:
    return np.where(random.random(n) < buyers, random.lognormal(0, 1, n), 0.0)


def welch(control: np.ndarray, treatment: np.ndarray) -> float:
    variance = control.var(ddof=1) / control.size + treatment.var(ddof=1) / treatment.size
    return float((treatment.mean() - control.mean()) / np.sqrt(variance))


@pytest.mark.parametrize(("ratio", "shift"), [(1.0, 0.0), (2.5, 0.0), (1.0, 1.5)])
def test_p_values_are_those_of_all_splits(ratio: float, shift: float) -> None:
    control = np.array([0.0, 0.0, 1.0, 3.0, 0.5, 7.0, 0.0])
    treatment = np.array([2.0, 9.0, 0.0, 4.0, 6.0])
    moved = treatment / ratio - shift
    both = np.concatenate([control, moved])
    splits = [
        welch(np.delete(both, chosen), both[list(chosen)])
        for chosen in combinations(range(both.size), moved.size)
    ]
    observed, t = welch(control, moved), np.array(splits)
    found = split_moments.p_values(
        units(control), units(treatment), ratio, moved.mean() - control.mean()
    )
    exact = (t <= observed + 1e-9).mean(), (t >= observed - 1e-9).mean()
    assert found == pytest.approx(exact, abs=4 * 0.5 / np.sqrt(split_moments.DRAWS))


def test_few_buyers_keep_the_level_on_either_side() -> None:
    """Hall's transformation alone rejects 11 % of such losses (benchmarks.calibration.spread)."""
    random, runs = np.random.default_rng(4), 250
    rejected = np.zeros(2)
    for _ in range(runs):
        compared = skewed.means(with_units(bought(random, 800)), with_units(bought(random, 100)))
        test = at(compared, 1.0)
        rejected += [test.lower[0] < 0.025, test.upper[0] < 0.025]
    assert (rejected / runs < 0.025 + 3 * 0.01).all()
    assert rejected.sum() > 0


def test_p_value_and_intervals_agree() -> None:
    random, decided = np.random.default_rng(5), set()
    for times in (0.3, 1.0, 1.5, 3.0, 6.0):
        arms = with_units(bought(random, 900, 0.2)), with_units(times * bought(random, 150, 0.2))
        for alpha in (0.05, 0.2):
            effect, lift = (of(skewed.means(*arms), alpha) for of in (skewed.effect, skewed.lift))
            assert effect.method == lift.method == "permutation_units"
            rejects = effect.p_value < alpha
            assert rejects == (not effect.low <= 0 <= effect.high)
            assert rejects == (not lift.low <= 0 <= lift.high)
            decided.add(rejects)
    assert decided == {True, False}


def test_the_order_of_units_changes_nothing_and_neither_does_their_scale() -> None:
    random = np.random.default_rng(6)
    values = bought(random, 400), bought(random, 200)
    one = skewed.effect(skewed.means(*map(with_units, values)))
    other = skewed.effect(skewed.means(*(with_units(1e6 * y[::-1]) for y in values)))
    assert other.p_value == one.p_value
    assert other.low == pytest.approx(1e6 * one.low, rel=1e-6)


def test_what_no_split_reaches_is_left_to_the_moments() -> None:
    random = np.random.default_rng(7)
    compared = skewed.means(*(with_units(bought(random, 2_000, share)) for share in (0.02, 0.4)))
    effect = skewed.effect(compared)
    assert effect.p_value < 1 / (split_moments.DRAWS + 1)
    assert 0 < effect.low < effect.difference < effect.high


def test_units_of_ratios_are_linearised_and_lose_their_covariates() -> None:
    random = np.random.default_rng(8)
    shown, before = random.poisson(3, 300) + 1.0, bought(random, 300, 0.3)
    spent = before + bought(random, 300, 0.3)
    moments = with_units(spent, shown, before)
    (stratum,) = skewed.ratios(moments, moments, theta=[0.4]).strata
    assert stratum.control.each is not None
    distances, counts = stratum.control.each.values, stratum.control.each.counts
    assert distances @ counts == pytest.approx(0.0, abs=1e-9)
    assert distances**2 @ counts == pytest.approx(stratum.control.square)
    assert distances**3 @ counts == pytest.approx(stratum.control.cube)
