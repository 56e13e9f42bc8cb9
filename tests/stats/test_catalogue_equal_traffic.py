"""Sets of groups with equal traffic, against loops over the groups."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from abeval.stats import catalogue, item_exposure
from abeval.stats.catalogue import Arm, Coverage, Evenness
from abeval.stats.records import Floats

GROUPS, ITEMS, SIZE = 12, 300, 310
ORDER = np.random.default_rng(1).permutation(GROUPS)


def arm(seed: int, units: int, rate: float = 1.0, groups: int = GROUPS) -> Arm:
    """Items unlike in popularity, groups unlike in size."""
    rng = np.random.default_rng(seed)
    in_group = rng.integers(units, 2 * units, groups).astype(float)
    share = np.minimum(rate * rng.pareto(1.5, ITEMS) / 20, 0.9)
    return Arm(rng.binomial(in_group.astype(int)[:, None], share).astype(float), in_group)


def windows(order: list[int], length: int) -> Iterator[list[int]]:
    """Half-overlapping windows along a circle; all groups are one."""
    total = len(order)
    sets = 1 if length == total else min(total, 2 * math.ceil(total / length))
    for i in range(sets):
        start = i * total // sets
        yield [order[(start + j) % total] for j in range(length)]


def gini_of(one: Arm, order: list[int], length: int) -> float:
    values = [
        item_exposure.gini(one.counts[list(w)].sum(axis=0), SIZE) for w in windows(order, length)
    ]
    return float(np.mean(values))


def gini_at(one: Arm, at: float, order: list[int]) -> float:
    """Linear in one over the number of groups, between two whole numbers."""
    exact = at / one.units[order].mean()
    low = math.floor(exact)
    if exact == low:
        return gini_of(one, order, low)
    share = (1 / low - 1 / exact) / (1 / low - 1 / (low + 1))
    return (1 - share) * gini_of(one, order, low) + share * gini_of(one, order, low + 1)


@pytest.mark.parametrize("groups_at", [1.0, 1.5, 2.0, 3.7, 5.0, 7.25, 11.9, 12.0])
def test_gini_is_that_of_half_overlapping_windows_with_as_many_units(groups_at: float) -> None:
    one = arm(2, 40)
    at = groups_at * one.units.mean()
    measured = Evenness(SIZE, ["gini"]).values(one, np.array([at]), [ORDER])
    assert measured[0, 0] == pytest.approx(gini_at(one, at, ORDER.tolist()), rel=1e-9)


@pytest.mark.parametrize("rate", [0.02, 1.0])
@pytest.mark.parametrize("times", [1.0, 1.5])
def test_a_group_that_is_left_out_takes_its_items_away(rate: float, times: float) -> None:
    """Few whole totals are counted by what changes, many and other ones as a whole."""
    one = arm(7, 40, rate)
    assert (one.counts.sum(axis=0).max() < ITEMS) == (rate < 1)
    orders = [ORDER, *(ORDER[g != ORDER] for g in range(GROUPS))]
    at = np.array([one.units[order].sum() for order in orders])
    scaled = one._replace(counts=times * one.counts)
    ginis, entropies = Evenness(SIZE, ["gini", "entropy"]).values(scaled, at, orders)
    coverages = Coverage(SIZE).values(one, at - 30, orders)[0]
    for k, order in enumerate(orders):
        shown, units = one.counts[order].sum(axis=0), int(at[k])
        assert ginis[k] == pytest.approx(item_exposure.gini(shown, SIZE), rel=1e-12)
        share = shown[shown > 0] / shown.sum()
        assert entropies[k] == pytest.approx(-np.sum(share * np.log(share)), rel=1e-12)
        covered = item_exposure.coverage(shown, units, units - 30, SIZE)
        assert coverages[k] == pytest.approx(covered, rel=1e-12)


def test_fewer_units_than_in_a_group_are_those_of_one_group() -> None:
    one = arm(3, 40)
    measured = Evenness(SIZE, ["gini"]).values(one, np.array([0.4 * one.units.mean()]), [ORDER])
    assert measured[0, 0] == pytest.approx(gini_of(one, ORDER.tolist(), 1), rel=1e-9)


def test_both_variants_have_the_units_of_the_smaller_one() -> None:
    large, small = arm(4, 60), arm(5, 25)
    at = float(small.units.sum())
    for pair in ((large, small), (small, large)):
        measured = catalogue.evaluate_at_equal_traffic(*pair, ORDER, Evenness(SIZE, ["gini"]))
        wanted = [gini_at(one, at, ORDER.tolist()) for one in pair]
        assert measured[0, :, 0] == pytest.approx(wanted, rel=1e-9)
        covered = catalogue.evaluate_at_equal_traffic(*pair, ORDER, Coverage(SIZE))
        assert covered[0, :, 0] == pytest.approx([coverage_of(one, at) for one in pair], rel=1e-9)


def coverage_of(one: Arm, at: float, groups: list[int] | None = None) -> float:
    kept = list(range(len(one.units))) if groups is None else groups
    units = int(one.units[kept].sum())
    return item_exposure.coverage(one.counts[kept].sum(axis=0), units, int(at), SIZE)


def test_without_a_group_both_variants_have_the_units_of_the_smaller_rest() -> None:
    # The second is the smaller one, but for its first group.
    one, other = arm(6, 40), arm(7, 40)
    other = other._replace(units=other.units - np.r_[-400.0, np.full(GROUPS - 1, 30)])
    order = ORDER.tolist()
    gini = catalogue.evaluate_at_equal_traffic(one, other, ORDER, Evenness(SIZE, ["gini"]))
    assert gini.shape == (1, 2, 1 + GROUPS)
    for group in range(GROUPS):
        rest = [g for g in order if g != group]
        at = min(float(a.units[rest].sum()) for a in (one, other))
        wanted = [gini_at(a, at, rest) for a in (one, other)]
        assert gini[0, :, 1 + group] == pytest.approx(wanted, rel=1e-9)


def test_left_out_coverage_is_rarefied() -> None:
    one, other = arm(8, 60), arm(9, 25)
    measured = catalogue.evaluate_at_equal_traffic(one, other, ORDER, Coverage(SIZE))
    for group in range(GROUPS):
        rest = [g for g in range(GROUPS) if g != group]
        at = min(one.units[rest].sum(), other.units[rest].sum())
        wanted = [coverage_of(a, at, rest) for a in (one, other)]
        assert measured[0, :, 1 + group] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("measure", [Evenness(20_000, ["gini", "entropy"]), Coverage(20_000)])
def test_many_items_have_the_values_that_counting_all_of_them_gives(measure) -> None:
    random = np.random.default_rng(5)
    # Whole numbers in single precision are changed by group, all others counted in each set.
    counted = [
        Arm(random.poisson(rate, (GROUPS, 15_000)).astype(np.float64), random.integers(*units))
        for rate, units in ((0.4, (40, 60, GROUPS)), (0.3, (30, 45, GROUPS)))
    ]
    changed = [one._replace(counts=one.counts.astype(np.float32)) for one in counted]
    wanted, found = (
        catalogue.evaluate_at_equal_traffic(*arms, ORDER, measure) for arms in (counted, changed)
    )
    assert found == pytest.approx(wanted, rel=1e-12)


def sets_of(blocks: list[list[int]]) -> Floats:
    members = np.zeros((len(blocks), GROUPS))
    for row, block in enumerate(blocks):
        members[row, block] = 1
    return members


def test_a_block_is_covered_against_all_other_groups_at_equal_units() -> None:
    pooled, observed = arm(10, 50), 900.0
    # The second block has more units than all others, the third groups fewer than were observed.
    blocks = [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8], [5]]
    measured = Coverage(SIZE).against_rest(pooled, sets_of(blocks), 3, observed)
    for i, block in enumerate(blocks):
        rest = [g for g in range(GROUPS) if g not in block]
        at = min(pooled.units[block].sum(), pooled.units[rest].sum())
        difference = coverage_of(pooled, at, block) - coverage_of(pooled, at, rest)
        assert measured[0, i] == pytest.approx(difference * max(1.0, observed / at), rel=1e-6)


def test_a_block_is_as_even_against_the_other_blocks_of_its_permutation() -> None:
    pooled = arm(11, 50)
    blocks = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    measure = Evenness(SIZE, ["gini", "entropy"])
    measured = measure.against_rest(pooled, sets_of(blocks), 3, 1.0)
    for row, name in enumerate(("gini", "entropy")):
        values = [
            item_exposure.measure_evenness(pooled.counts[b].sum(axis=0)[None], SIZE, [name])[0, 0]
            for b in blocks
        ]
        for i, value in enumerate(values):
            start = i // 3 * 3
            others = [values[j] for j in range(start, start + 3) if j != i]
            assert measured[row, i] == pytest.approx(value - np.mean(others), abs=1e-9)


def test_only_a_comparison_of_coverage_uses_groups_that_are_in_no_block() -> None:
    assert Coverage(SIZE).count_groups(64, 60) == 64
    assert Evenness(SIZE, ["gini"]).count_groups(64, 60) == 60


@pytest.mark.parametrize(
    ("units", "permutations", "wanted"),
    # A third of twelve groups is four, and three blocks; two sevenths are three, and four blocks.
    [((20.0, 10.0), 30, 30), ((20.0, 10.0), 31, 33), ((25.0, 10.0), 30, 32), ((10.0, 10.0), 9, 10)],
)
def test_blocks_have_the_share_of_the_smaller_variant(
    units: tuple[float, float], permutations: int, wanted: int
) -> None:
    arms = [arm(seed, 50)._replace(units=np.full(GROUPS, n)) for seed, n in enumerate(units)]
    for pair in (arms, arms[::-1]):
        null = catalogue.draw_null_differences(
            pair[0],
            pair[1],
            Evenness(SIZE, ["gini", "entropy"]),
            permutations,
            np.random.default_rng(1),
        )
        assert null.shape == (2, wanted)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("measure", [Coverage(SIZE), Evenness(SIZE, ["gini"])])
@pytest.mark.parametrize("units", [(50, 50), (150, 50)])
def test_null_differences_spread_as_differences_of_one_policy_do(
    measure: Coverage | Evenness, units: tuple[int, int]
) -> None:
    """The spread over many logs of one policy, and that of the permutations of one log."""
    rng = np.random.default_rng(12)
    share = np.minimum(rng.pareto(1.5, ITEMS) / 20, 0.9)
    groups = 32
    order = np.arange(groups)

    def drawn(n: int) -> Arm:
        return Arm(rng.binomial(n, share, (groups, ITEMS)).astype(float), np.full(groups, float(n)))

    arms = drawn(units[0]), drawn(units[1])
    differences = []
    for _ in range(100):
        values = catalogue.evaluate_at_equal_traffic(
            drawn(units[0]), drawn(units[1]), order, measure
        )
        differences.append(values[0, 1, 0] - values[0, 0, 0])
    null = catalogue.draw_null_differences(*arms, measure, 400, rng)[0]
    assert null.std() == pytest.approx(np.std(differences), rel=0.3)
