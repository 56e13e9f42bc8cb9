import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick
from scipy import stats

from abeval.stats import composition
from abeval.stats.effects import effect_from_difference
from abeval.stats.records import Effect, Refusal

cells = st.integers(1, 200)
strata = st.lists(st.tuples(cells, cells, cells, cells), min_size=2, max_size=6)


@quick
@given(st.lists(st.tuples(*[st.floats(0.1, 50)] * 4), min_size=1, max_size=6))
def test_within_and_mix_add_up(rows: list[tuple[float, ...]]) -> None:
    control, treatment, control_units, treatment_units = np.array(rows).T
    found = composition.mix_shift(
        control, treatment, control_units, treatment_units, control_units, treatment_units
    )
    overall = np.average(treatment, weights=treatment_units) - np.average(
        control, weights=control_units
    )
    assert found.within + found.mix == pytest.approx(overall, abs=1e-9)


def test_a_paradox_is_flagged_and_the_mix_is_tested() -> None:
    units_c, units_t = [900, 100], [400, 600]
    found = composition.mix_shift([0.10, 0.30], [0.09, 0.28], units_c, units_t, units_c, units_t)
    assert found.within + found.mix > 0 > found.within
    assert found.shares == pytest.approx((0.65, 0.35))
    theirs = stats.chi2_contingency([units_c, units_t], correction=False)
    assert found.mix_p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    same = composition.mix_shift([0.10, 0.30], [0.09, 0.28], units_c, units_c, units_c, units_c)
    assert same.mix == pytest.approx(0, abs=1e-15)
    assert same.mix_p_value == 1.0


def test_a_reversal_needs_both_effects() -> None:
    def effect(difference: float, se: float) -> Effect:
        return effect_from_difference(0.0, difference, difference, se)

    up, down, unclear = effect(2.0, 0.5), effect(-3.0, 0.5), effect(-0.1, 0.5)
    assert composition.reversal(up, down) == max(up.p_value, down.p_value) < 0.001
    assert composition.reversal(up, unclear) == unclear.p_value > 0.8
    assert composition.reversal(unclear, up) == unclear.p_value
    assert composition.reversal(up, up) == composition.reversal(up, effect(0.0, 1.0)) == 1.0


def test_one_segment_has_no_mix() -> None:
    assert composition.mix_shift([0.1], [0.2], [5], [9], [5], [9]).mix_p_value == 1.0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: composition.mix_shift([1], [1], [0], [1], [1], [1]), "too_few_units"),
        (
            lambda: composition.mix_shift([1, 1], [1, 1], [2, -1], [1, 1], [1, 1], [1, 1]),
            "not_applicable",
        ),
        (lambda: composition.mix_shift([math.nan], [1], [1], [1], [1], [1]), "not_finite"),
        (
            lambda: composition.compare_segment_shares(np.array([[1.0, 1.0], [0.0, 0.0]])),
            "too_few_units",
        ),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


def test_small_effects_in_one_direction_are_no_reversal() -> None:
    small = effect_from_difference(0.0, 0.02, 0.02, 0.01)
    assert composition.reversal(small, effect_from_difference(0.0, 0.03, 0.03, 0.01)) == 1.0
    turned = effect_from_difference(0.0, -0.03, -0.03, 0.01)
    assert composition.reversal(small, turned) == small.p_value < 0.05


def test_the_part_within_weighs_segments_by_their_mean_share() -> None:
    control, treatment = np.array([0.1, 0.3, 0.7]), np.array([0.15, 0.2, 0.9])
    weights = np.array([[0.0, 30.0, 70.0], [40.0, 40.0, 20.0]])
    units = np.array([[10, 20, 0], [12, 5, 0]])
    parts = composition.mix_shift(control, treatment, *weights, *units)
    assert parts.within == pytest.approx(0.2 * 0.05 - 0.35 * 0.1 + 0.45 * 0.2)
    assert parts.mix == pytest.approx(0.4 * 0.125 + 0.1 * 0.25 - 0.5 * 0.8)
    theirs = stats.chi2_contingency(units[:, :2], correction=False)
    assert parts.mix_p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    # One unit in a segment is a unit.
    single = np.array([[50.0, 1.0], [40.0, 0.0]])
    expected = stats.chi2_contingency(single, correction=False).pvalue
    assert composition.compare_segment_shares(single) == pytest.approx(expected, rel=1e-9)


def test_shares_may_be_the_weights() -> None:
    units = [30, 70], [20, 80]
    shares = composition.mix_shift([1, 2], [3, 5], [0.25, 0.75], [0.5, 0.5], *units)
    counts = composition.mix_shift([1, 2], [3, 5], [25, 75], [50, 50], *units)
    assert shares[:3] == pytest.approx(counts[:3])
    assert shares.within + shares.mix == pytest.approx(4 - 1.75)


@pytest.mark.parametrize(
    ("values", "weights", "units"),
    [(math.inf, 1.0, 1.0), (1.0, math.inf, 1.0), (1.0, 1.0, math.nan)],
)
def test_a_mix_of_what_is_not_finite_is_refused(
    values: float, weights: float, units: float
) -> None:
    with pytest.raises(Refusal) as refused:
        composition.mix_shift([values], [1.0], [weights], [1.0], [units], [1.0])
    assert refused.value.reason == "not_finite"
