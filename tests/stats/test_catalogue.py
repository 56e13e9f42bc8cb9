import tracemalloc
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference_vectors import quick
from scipy import stats

from abeval.stats import catalogue, item_exposure
from abeval.stats.catalogue import Functional
from abeval.stats.records import Refusal

Integers = NDArray[np.int64]
Log = tuple[Integers, Integers, Integers, Integers]
Arms = tuple[catalogue.Incidence, catalogue.Incidence]

ITEMS, GROUPS = 300, 64
FUNCTIONALS: tuple[Functional, ...] = ("coverage", "gini", "entropy")


def compare(
    control: catalogue.Incidence,
    treatment: catalogue.Incidence,
    functional: Functional,
    permutations: int = catalogue.PERMUTATIONS,
    seed: int = catalogue.SEED,
) -> catalogue.CatalogueComparison:
    """The comparison of one functional, which must not be refused."""
    outcomes = catalogue.compare_all(
        control, treatment, [functional], permutations=permutations, seed=seed
    )
    outcome = outcomes[functional]
    assert not isinstance(outcome, Refusal), outcome
    return outcome


def incidence(
    unit: Integers,
    item: Integers,
    impressions: Integers,
    group: Integers,
    member: NDArray[np.bool_],
    items: int = ITEMS,
    groups: int = GROUPS,
) -> catalogue.Incidence:
    """Incidence of the units in `member` from rows unit, item, impressions."""
    kept = member[unit]
    cell = item[kept] * groups + group[unit[kept]]
    units = np.bincount(cell, minlength=items * groups)
    shown = np.bincount(cell, weights=impressions[kept], minlength=items * groups)
    met = np.flatnonzero(units)
    return catalogue.Incidence(
        met // groups,
        met % groups,
        units[met],
        shown[met].astype(np.int64),
        np.bincount(group[member], minlength=groups),
        items,
    )


def clustered_log(rng: np.random.Generator, units: int = 1200, items: int = ITEMS) -> Log:
    """Users who return to the items of their own taste: unit, item, impressions, group."""
    popularity = rng.pareto(1.2, items) + 0.02
    taste = rng.integers(0, 10, units)
    activity = np.minimum(1 + rng.geometric(0.3, units), 10)
    unit = np.repeat(np.arange(units), activity)
    ten = items // 10
    share = (popularity[: ten * 10].reshape(10, ten)).cumsum(axis=1)
    share /= share[:, -1:]
    own = (rng.random(len(unit))[:, None] > share[taste[unit]]).sum(axis=1)
    pair = np.unique(unit * items + taste[unit] * ten + own)
    unit, item = pair // items, pair % items
    returns = rng.geometric(0.2, units)
    return unit, item, 1 + rng.poisson(2 * returns[unit]), rng.integers(0, GROUPS, units)


def split(rng: np.random.Generator, share: float) -> Arms:
    unit, item, impressions, group = clustered_log(rng)
    treated = rng.random(len(group)) < share
    log = (unit, item, impressions, group)
    return incidence(*log, ~treated), incidence(*log, treated)


@quick
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(1, 12))
def test_coverage_is_the_hypergeometric_expectation(shown: list[int], at: int) -> None:
    expected = sum(1 - comb(12 - u, at) / comb(12, at) for u in shown) / 10
    assert item_exposure.coverage(shown, 12, at, 10) == pytest.approx(expected, abs=1e-12)


def test_coverage_is_the_mean_over_subsets_of_units() -> None:
    rng = np.random.default_rng(1)
    shown = rng.random((40, 25)) < 0.1
    drawn = [shown[rng.permutation(40)[:7]].any(axis=0).mean() for _ in range(4000)]
    assert item_exposure.coverage(shown.sum(axis=0), 40, 7, 25) == pytest.approx(
        np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(4000)
    )


@quick
@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(0, 5))
def test_gini_is_half_the_relative_mean_difference_over_the_full_catalogue(
    shown: list[int], unseen: int
) -> None:
    if sum(shown) == 0:
        return
    full = np.array(shown + [0] * unseen, dtype=float)
    expected = np.abs(full[:, None] - full).mean() / 2 / full.mean()
    assert item_exposure.gini(shown, len(full)) == pytest.approx(expected, abs=1e-12)


@quick
@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_entropy_is_scipys_in_nats(shown: list[int]) -> None:
    if sum(shown) == 0:
        return
    totals = np.array([shown], dtype=float)
    entropy = item_exposure.measure_evenness(totals, len(shown), ["entropy"])[0, 0]
    assert entropy == pytest.approx(stats.entropy(shown), abs=1e-9)


def test_at_an_even_split_the_plain_functionals_are_compared() -> None:
    control, treatment = split(np.random.default_rng(2), 0.5)
    # Equal numbers of units per group: nothing to rarefy.
    even = np.full(GROUPS, 10)
    control, treatment = (
        control._replace(units_in_group=even),
        treatment._replace(units_in_group=even),
    )
    for functional in ("gini", "entropy"):
        found = compare(control, treatment, functional, permutations=50)
        for arm, value in ((control, found.effect.control), (treatment, found.effect.treatment)):
            totals = np.bincount(arm.item, weights=arm.impressions, minlength=ITEMS)
            plain = item_exposure.measure_evenness(totals[None], ITEMS, [functional])[0, 0]
            assert value == pytest.approx(plain, rel=1e-5)


def test_compared_coverage_is_rarefied_to_the_smaller_variant() -> None:
    control, treatment = split(np.random.default_rng(3), 0.2)
    found = compare(control, treatment, "coverage", permutations=50)
    assert found.at == treatment.units_in_group.sum()
    shown = np.bincount(control.item, weights=control.units, minlength=ITEMS)
    units = int(control.units_in_group.sum())
    expected = item_exposure.coverage(shown, units, found.at, ITEMS)
    assert found.effect.control == pytest.approx(expected, abs=1e-9)
    assert found.effect.treatment == pytest.approx(
        len(np.unique(treatment.item)) / ITEMS, abs=1e-12
    )


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_swapping_the_variants_negates_the_effect(functional: Functional) -> None:
    control, treatment = split(np.random.default_rng(4), 0.3)
    one = compare(control, treatment, functional, permutations=100).effect
    two = compare(treatment, control, functional, permutations=100).effect
    assert two.difference == pytest.approx(-one.difference, abs=1e-12)
    assert two.se == pytest.approx(one.se, rel=1e-9)
    assert two.p_value == one.p_value


def test_the_same_seed_gives_the_same_answer() -> None:
    arms = split(np.random.default_rng(5), 0.3)
    first = compare(*arms, "gini", permutations=100, seed=3)
    assert first == compare(*arms, "gini", permutations=100, seed=3)


@pytest.mark.parametrize("permutations", [0, 100])
def test_compared_together_each_is_what_it_is_alone(permutations: int) -> None:
    arms = split(np.random.default_rng(6), 0.2)
    together = catalogue.compare_all(*arms, permutations=permutations, seed=3)
    for functional in FUNCTIONALS:
        alone = compare(*arms, functional, permutations=permutations, seed=3)
        assert together[functional] == alone


def test_compared_together_one_that_is_refused_leaves_the_others() -> None:
    control, treatment = split(np.random.default_rng(6), 0.2)
    unseen = treatment._replace(units=np.zeros_like(treatment.units))
    found = catalogue.compare_all(control, unseen, permutations=100)
    assert isinstance(found["coverage"], Refusal)
    assert found["coverage"].reason == "too_few_units"
    assert found["gini"] == compare(control, treatment, "gini", permutations=100)


@pytest.mark.parametrize("functional", ["gini", "entropy"])
def test_the_number_of_impressions_does_not_matter_only_how_they_are_spread(
    functional: Functional,
) -> None:
    arms = split(np.random.default_rng(7), 0.3)
    many = [arm._replace(impressions=arm.impressions * 1_000_003) for arm in arms]
    one = compare(*arms, functional, permutations=100)
    two = compare(many[0], many[1], functional, permutations=100)
    assert two.effect[:4] == pytest.approx(one.effect[:4], rel=1e-9)
    assert two.effect.p_value == one.effect.p_value


@pytest.mark.slow
def test_the_same_policy_shows_no_difference_at_unequal_traffic() -> None:
    """Returning users of clustered taste, A/A: no systematic lead of the larger arm."""
    rng = np.random.default_rng(11)
    runs, found = 30, {f: [] for f in FUNCTIONALS}
    raw = []
    for seed in range(runs):
        arms = split(rng, 0.1)
        for f, comparison in catalogue.compare_all(*arms, permutations=100, seed=seed).items():
            assert not isinstance(comparison, Refusal)
            effect = comparison.effect
            found[f].append((effect.difference, effect.p_value, effect.low <= 0 <= effect.high))
        raw.append(len(np.unique(arms[0].item)) - len(np.unique(arms[1].item)))
    allowed = 3 * np.sqrt(0.05 * 0.95 / runs)
    for f in FUNCTIONALS:
        difference, p, covered = np.array(found[f]).T
        assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(runs), f
        assert np.mean(p <= 0.05) <= 0.05 + allowed, f
        assert np.mean(covered) >= 0.95 - allowed, f
    # What is avoided: without rarefaction the larger arm always wins.
    assert np.mean(np.array(raw) > 0) == 1


def test_a_policy_that_shows_fewer_items_is_found() -> None:
    rng = np.random.default_rng(12)
    unit, item, impressions, group = clustered_log(rng, units=2400)
    treated = rng.random(2400) < 0.3
    narrow = np.where(treated[unit] & (rng.random(len(unit)) < 0.5), item // 30 * 30, item)
    log = (unit, narrow, impressions, group)
    control, treatment = incidence(*log, ~treated), incidence(*log, treated)
    signs = {"coverage": -1, "entropy": -1, "gini": 1}
    for functional, sign in signs.items():
        effect = compare(control, treatment, functional, permutations=200).effect
        assert np.sign(effect.difference) == sign
        assert effect.p_value < 0.01
        assert effect.low * effect.high > 0


@pytest.mark.slow
@pytest.mark.whole
def test_twenty_thousand_items_have_an_interval_and_a_p_value() -> None:
    rng = np.random.default_rng(13)
    rate = rng.pareto(1, 20_000)[:, None] * np.full(64, 20.0)

    def arm(share: float) -> catalogue.Incidence:
        shown = rng.poisson(rate * share)
        item, group = np.nonzero(shown)
        units = np.minimum(shown[item, group], int(800 * share))
        in_group = np.full(64, int(800 * share))
        return catalogue.Incidence(item, group, units, shown[item, group], in_group, 20_000)

    arms = arm(0.9), arm(0.1)
    found = compare(*arms, "gini", permutations=1000)
    assert found.effect.low < found.effect.difference < found.effect.high
    assert 1 / 1001 <= found.effect.p_value <= 1


def arms_of(units: int, groups: int = 16) -> catalogue.Incidence:
    item, group = np.divmod(np.arange(5 * groups), groups)
    shown = np.full(5 * groups, 2)
    return catalogue.Incidence(item, group, shown, shown, np.full(groups, units), 10)


SHORT = arms_of(5)._replace(catalogue_size=3)


@pytest.mark.parametrize(
    ("control", "treatment", "reason"),
    [
        (arms_of(5), arms_of(5), "zero_variance"),
        (arms_of(1000), arms_of(5), "too_few_units"),
        (arms_of(5, 4), arms_of(5, 4), "too_few_units"),
        (arms_of(5), arms_of(5, 32), "not_applicable"),
        (arms_of(5), arms_of(5)._replace(catalogue_size=11), "not_applicable"),
        (
            arms_of(5)._replace(catalogue_size=3),
            arms_of(5)._replace(catalogue_size=3),
            "not_applicable",
        ),
        (arms_of(5), arms_of(5)._replace(units_in_group=np.zeros(16)), "too_few_units"),
        (
            arms_of(5),
            arms_of(5)._replace(units=np.zeros(80), impressions=np.zeros(80)),
            "too_few_units",
        ),
    ],
)
@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_refusals(
    control: catalogue.Incidence,
    treatment: catalogue.Incidence,
    reason: str,
    functional: Functional,
) -> None:
    refused = catalogue.compare_all(control, treatment, [functional])[functional]
    assert isinstance(refused, Refusal)
    assert refused.reason == reason


def test_refusals_of_plain_functionals() -> None:
    for call in (
        lambda: item_exposure.gini([0, 0], 5),
        lambda: item_exposure.coverage([1], 10, 11, 5),
    ):
        with pytest.raises(Refusal) as refused:
            call()
        assert refused.value.reason == "too_few_units"
    with pytest.raises(Refusal):
        item_exposure.gini([1, 2, 3], 2)
    with pytest.raises(Refusal):
        item_exposure.coverage([11], 10, 5, 5)


def test_one_hot_item_needs_no_more_memory() -> None:
    random = np.random.default_rng(0)
    totals = random.poisson(5.0, (16, 10_000)).astype(np.float32)
    totals[:, 0] = 70_000
    tracemalloc.start()
    try:
        item_exposure.measure_evenness(totals, 10_000, ["gini", "entropy"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * totals.nbytes


def test_counted_and_sorted_totals_have_one_spread() -> None:
    totals = np.random.default_rng(0).poisson(3.0, (4, 2_000)).astype(np.float64)
    # Half of an odd total is no whole number, and a share of impressions has no scale.
    counted, ordered = (
        item_exposure.measure_evenness(totals / scale, 2_500, ["gini", "entropy"])
        for scale in (1, 2)
    )
    assert counted == pytest.approx(ordered, rel=1e-12)
