import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector

from abeval.stats import distributions, quantiles
from abeval.stats.records import Refusal
from tests.worlds import array_quantiles as arrays

Z = 1.959963984540054


def test_vector_quantile_iid_outer_ci() -> None:
    """The levels are those of Woodruff (1952); between ties, the values are nearly those there."""
    v = vector("quantile_iid_outer_ci")
    i = np.arange(1, 402)
    values = (37 * i * i + 11 * i) % 997
    low, high = quantiles.ends(401, v.inputs["nu"])
    assert (low, high) == pytest.approx((v.expected["L"], v.expected["U"]), abs=v.tol)
    [one] = arrays.iid(values, level=v.inputs["nu"])
    # The vector's quantiles, of type 7, stand at n − 1 of the n steps: one value further down.
    at = np.quantile(values, [v.inputs["nu"], low, high], method="hazen")
    assert at == pytest.approx([v.expected[name] for name in ("q", "q_L", "q_U")], rel=0.01)
    assert (one.value, one.value - Z * one.below, one.value + Z * one.above) == pytest.approx(
        at, rel=0.01
    )


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_without_ties_it_is_the_quantile_of_hazen(level: float) -> None:
    values = np.random.default_rng(1).gamma(2, 3, 200)
    [one] = arrays.iid(values, level=level)
    low, high = quantiles.ends(200, level)
    at = np.quantile(values, [level, low, high], method="hazen")
    assert (one.value, one.value - Z * one.below, one.value + Z * one.above) == pytest.approx(
        at, rel=0.03
    )


def test_ties_count_half_below_themselves() -> None:
    # Below 2: 20 %; below 3: 60 %. The middles of 2 and 3 are at 40 % and 75 %.
    values = [1] * 20 + [2] * 40 + [3] * 30 + [4] * 10
    [one] = arrays.iid(values, level=0.5)
    assert one.value == pytest.approx(2 + (0.50 - 0.40) / (0.75 - 0.40))
    # A value at the lower neighbour counts (1 + t)/2 as below, one at the upper t/2.
    t = 0.1 / 0.35
    below = np.repeat([1.0, (1 + t) / 2, t / 2, 0.0], [20, 40, 30, 10])
    half = Z * math.sqrt(np.var(below, ddof=1) / 100)
    assert 0.5 - half > 0.40
    assert 0.5 + half < 0.75
    assert one.below == pytest.approx(one.above)
    assert one.below == pytest.approx(half / Z / 0.35, rel=1e-5)


def test_clustered_follows_the_formula() -> None:
    rng = np.random.default_rng(2)
    units = np.repeat(np.arange(60), rng.integers(1, 9, 60))
    values = rng.gamma(2, 3, 60)[units] + rng.gamma(1, 1, units.size)
    [e], [independent] = (
        arrays.clustered((values, units), level=0.75),
        arrays.iid(values, level=0.75),
    )
    below = np.bincount(units, values <= independent.value)
    events = np.bincount(units).astype(float)
    r = below.sum() / events.sum()
    spread = np.var(below - r * events, ddof=1) / 60 / events.mean() ** 2
    half = Z * math.sqrt(spread)
    low, high = np.quantile(values, [0.75 - half, 0.75 + half], method="hazen")
    assert (e.value, e.units) == (independent.value, 60)
    assert Z * e.below == pytest.approx(e.value - low, rel=0.05)
    assert Z * e.above == pytest.approx(high - e.value, rel=0.05)
    assert e.below > 1.2 * independent.below


def test_clustered_errors_are_what_repetitions_show() -> None:
    rng = np.random.default_rng(3)
    values, errors = [], []
    for _ in range(400):
        units = np.repeat(np.arange(300), rng.integers(1, 8, 300))
        sample = np.exp(rng.normal(0, 1, 300)[units] + rng.normal(0, 0.5, units.size))
        [e] = arrays.clustered((sample, units), level=0.5)
        values.append(e.value)
        errors.append((e.below, e.above))
    below, above = np.mean(np.square(errors), axis=0)
    assert below < np.var(values) < above
    assert (below + above) / 2 == pytest.approx(np.var(values), rel=0.15)


def test_the_design_effect_is_no_less_than_that_of_all_variants() -> None:
    rng = np.random.default_rng(5)
    users = np.repeat(np.arange(400), 5)
    habits, fresh = rng.gamma(2, 5, 400)[users], rng.gamma(2, 5, 2000)
    [apart] = arrays.clustered((fresh, users), level=0.5)
    _, together = arrays.clustered((habits, users), (fresh, users), level=0.5)
    assert together.value == apart.value
    # Design effects of about 5 and 1: their mean is 3.
    assert (together.below / apart.below) ** 2 == pytest.approx(3, rel=0.3)
    with_few, _ = arrays.clustered((habits, users), (fresh, users), level=0.5)
    [own] = arrays.clustered((habits, users), level=0.5)
    assert with_few == own


def test_names_of_units_do_not_matter() -> None:
    values = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0] * 10
    names = [f"user {i // 3}" for i in range(60)]
    numbers = [i // 3 for i in range(60)]
    assert arrays.clustered((values, names), level=0.5) == arrays.clustered(
        (values, numbers), level=0.5
    )


@quick
@given(st.integers(0, 10**6), st.floats(0.1, 9), st.floats(-99, 99))
def test_shifting_and_scaling(seed: int, scale: float, shift: float) -> None:
    values = np.random.default_rng(seed).gamma(2, 5, 50)
    [one], [two] = (
        arrays.iid(values, level=0.5),
        arrays.iid(values * scale + shift, level=0.5),
    )
    assert two.value == pytest.approx(one.value * scale + shift, rel=1e-9, abs=1e-9)
    assert (two.below, two.above) == pytest.approx((one.below * scale, one.above * scale), rel=1e-6)


def test_two_quantiles_compare() -> None:
    rng = np.random.default_rng(4)
    control, treatment = arrays.iid(rng.gamma(2, 5, 500), rng.gamma(2, 6.5, 500), level=0.9)
    e = arrays.compare(control, treatment)
    assert e.p_value < 0.05
    assert e.low > 0
    # Each end is that of the errors on its own side (Zou and Donner 2008).
    q = -distributions.quantile(0.025, e.df)
    assert e.low == pytest.approx(e.difference - q * math.hypot(control.above, treatment.below))
    assert e.high == pytest.approx(
        e.difference + Z * math.hypot(control.below, treatment.above), rel=0.01
    )
    mirrored = arrays.compare(treatment, control)
    assert (mirrored.low, mirrored.high) == pytest.approx((-e.high, -e.low))
    assert mirrored.p_value == pytest.approx(e.p_value)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("grain", "level"), [(1.0, 0.5), (5.0, 0.9), (20.0, 0.5), (0.001, 0.99)])
def test_levels_and_coverage_with_ties(grain: float, level: float) -> None:
    """500 A/A tests of 400 users against 400, with five values each; long runs are a benchmark."""
    rng, users, runs = np.random.default_rng(7), np.repeat(np.arange(400), 5), 500
    rejected = []
    for _ in range(runs):
        arms = [
            np.round(rng.exponential(rng.gamma(3, 5, 400)[users]) / grain) * grain for _ in range(2)
        ]
        pair = arrays.clustered(*((one, users) for one in arms), level=level)
        rejected.append(arrays.compare(*pair).p_value < 0.05)
    assert 0.015 <= np.mean(rejected) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_degenerate_values_are_refused() -> None:
    cases = [
        ([], "too_few_units"),
        ([1.0], "too_few_units"),
        ([1.0, 2.0, 3.0], "too_few_units"),
        ([0.0] * 100, "tied_quantile"),
        ([0.0] * 600 + [1.0] * 400, "tied_quantile"),
        ([math.nan, *range(100)], "not_finite"),
        ([math.inf, *range(100)], "not_finite"),
    ]
    for values, reason in cases:
        with pytest.raises(Refusal) as refusal:
            arrays.iid(values, level=0.5 if values != cases[4][0] else 0.9)
        assert refusal.value.reason == reason
    with pytest.raises(Refusal) as refusal:
        arrays.iid(range(100), level=0.99)
    assert refusal.value.reason == "too_few_units"
    with pytest.raises(Refusal) as refusal:
        arrays.clustered((range(100), [7] * 100), level=0.5)
    assert refusal.value.reason == "too_few_units"
    with pytest.raises(Refusal) as refusal:
        quantiles.ends(100, 0.5, 0.0)
    assert refusal.value.reason == "zero_variance"
    with pytest.raises(Refusal) as refusal:
        quantiles.estimate_from_ends(1.0, 1.0, 1.0, 50)
    assert refusal.value.reason == "zero_variance"
    for nu in (0, 1, math.nan):
        with pytest.raises(ValueError, match="level"):
            arrays.iid(range(100), level=nu)


def test_ten_independent_values_beyond_a_quantile_are_enough() -> None:
    assert quantiles.estimate_tail_size(20, 0.5) == 10
    assert quantiles.ends(20, 0.5) == pytest.approx(
        (0.5 - Z * 0.25 / 5**0.5, 0.5 + Z * 0.25 / 5**0.5)
    )
    assert quantiles.explain_no_quantile(20, 0.5).reason == "tied_quantile"
    for n, effect in ((19, 1.0), (20, 1.01)):
        with pytest.raises(Refusal) as refusal:
            quantiles.ends(n, 0.5, effect)
        assert refusal.value.reason == "too_few_units"
    assert quantiles.explain_no_quantile(19, 0.5).reason == "too_few_units"


def test_every_end_has_to_be_a_number() -> None:
    for numbers in ((math.nan, 1, 3), (2, -math.inf, 3), (2, 1, math.nan)):
        with pytest.raises(Refusal) as refusal:
            quantiles.estimate_from_ends(*numbers, 50)
        assert refusal.value.reason == "not_finite"
    pair = quantiles.SidedEstimate(10, 0.5, 0.6, 9), quantiles.SidedEstimate(12, 0.8, 1.2, 9)
    assert arrays.compare(*pair) == arrays.compare(*pair, 0.05)
    # Each has one degree of freedom fewer than units.
    assert [one.df for one in quantiles.sides(*pair)[0]] == [8.0, 8.0]
