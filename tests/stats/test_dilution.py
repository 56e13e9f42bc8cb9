import math
from collections.abc import Callable

import numpy as np
import pytest

from abeval.stats import dilution, effects
from abeval.stats.records import Lift, Refusal

EFFECT = effects.from_difference(2.0, 2.3, 0.3, 0.1)
LIFT = Lift(0.15, 0.05, math.inf, False, "fieller")


def test_the_additive_effect_shrinks_with_the_share_of_units() -> None:
    found = dilution.dilute(EFFECT, 250, 1000)
    assert (found.difference, found.se) == pytest.approx((0.075, 0.025))
    assert (found.statistic, found.p_value) == (EFFECT.statistic, EFFECT.p_value)
    assert (found.low, found.high) == pytest.approx((EFFECT.low / 4, EFFECT.high / 4))
    assert (found.control, found.treatment) == pytest.approx((0.5, 0.575))
    # Where all units are triggered nothing is diluted.
    assert dilution.dilute(EFFECT, 250, 250)[:-1] == EFFECT[:-1]


def test_dilution_is_what_all_units_show() -> None:
    # Untriggered units are the same in both variants, so the overall difference is the diluted one.
    triggered_c, triggered_t, others = np.array([1.0, 3]), np.array([2.0, 4]), np.array([7.0] * 6)
    overall = np.mean([*triggered_t, *others]) - np.mean([*triggered_c, *others])
    triggered = effects.from_difference(2.0, 3.0, 1.0, 0.5)
    assert dilution.dilute(triggered, 2, 8).difference == pytest.approx(overall)
    lift = dilution.dilute_lift(Lift(0.5, 0.1, 0.9, True, "delta"), 4.0, 46.0)
    assert lift.value == pytest.approx(overall / np.mean([*triggered_c, *others]))
    # The trigger rate would give another answer: triggered units are less active here.
    assert abs(lift.value - 0.5 * 2 / 8) > 0.05


def test_an_unbounded_lift_stays_unbounded() -> None:
    found = dilution.dilute_lift(LIFT, 1.0, 2.0)
    assert (found.low, found.high, found.bounded) == (0.025, math.inf, False)
    assert dilution.dilute_lift(LIFT, 0.0, 2.0) == Lift(0.0, 0.0, 0.0, True, "fieller")
    assert dilution.dilute_lift(LIFT, -1.0, -2.0).value == 0.075


def test_the_interval_of_a_lift_shrinks_with_the_share_of_the_total() -> None:
    lift = Lift(0.15, 0.05, 0.3, True, "fieller")
    diluted = dilution.dilute_lift(lift, 1.0, 4.0)
    assert diluted[:3] == pytest.approx((0.0375, 0.0125, 0.075))
    assert dilution.dilute_lift(lift, 4.0, 4.0) == lift


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: dilution.dilute(EFFECT, 5, 0), "too_few_units"),
        (lambda: dilution.dilute(EFFECT, 5, 4), "not_applicable"),
        (lambda: dilution.dilute(EFFECT, -1, 4), "not_applicable"),
        (lambda: dilution.dilute(EFFECT, 4.001, 4), "not_applicable"),
        (lambda: dilution.dilute(EFFECT, math.nan, 4), "not_finite"),
        (lambda: dilution.dilute_lift(LIFT, 1.0, 0.0), "control_near_zero"),
        (lambda: dilution.dilute_lift(LIFT, -1.0, 2.0), "not_applicable"),
        (lambda: dilution.dilute_lift(LIFT, 1.0, math.inf), "not_finite"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason
