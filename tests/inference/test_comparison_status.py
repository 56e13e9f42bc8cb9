"""From numbers to a word: better, worse, equivalent, non-inferior, unclear."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from abeval.inference.comparison import MIN_UNITS, Comparison, Rule, Spread
from abeval.inference.families import check_range, decide_status, find_uncorrected_p_value
from abeval.inference.looks import AlwaysValidLooks, LookBoundary, PlannedLooks
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import DECREASE, INCREASE, Direction, Margin, Metric
from abeval.stats import decisions, effects
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Lift
from tests.logs.small import analyze, small_log


def metric(
    role: str = "goal", direction: Direction = INCREASE, margin: Margin | None = None, **of: object
) -> Metric:
    return Metric("m", "mean", "…", role=role, direction=direction, margin=margin, **of)


def comparison(
    control: float, treatment: float, half: float, *, units: int = 500, lift: bool = True
) -> Comparison:
    """A difference whose interval at 95 % is this wide to either side."""
    effect = effects.effect_from_difference(
        control, treatment, treatment - control, half / 1.959963984540054
    )
    ends = [value / abs(control) for value in (effect.difference, effect.low, effect.high)]
    relative = Lift(*ends, bounded=True, method="fieller") if lift else None
    return Comparison(units, units, control, treatment, effect, relative, None)


def status(found: Comparison, p_value: float | None = None, **of: object) -> str:
    own = metric(**of)
    p = find_uncorrected_p_value(own, found, 0.05)
    return decide_status(own, found, p if p_value is None else p_value, 0.05)


@pytest.mark.parametrize("role", ["goal", "diagnostic"])
@pytest.mark.parametrize(
    ("direction", "up", "down"), [(INCREASE, "better", "worse"), (DECREASE, "worse", "better")]
)
def test_goals_and_diagnostics(role: str, direction: Direction, up: str, down: str) -> None:
    assert status(comparison(10, 11, 0.9), role=role, direction=direction) == up
    assert status(comparison(10, 9, 0.9), role=role, direction=direction) == down
    assert status(comparison(10, 11, 1.1), role=role, direction=direction) == "unclear"


def test_goals_follow_the_adjusted_p_value() -> None:
    found = comparison(10, 11, 0.9)
    assert status(found, p_value=0.049) == "better"
    assert status(found, p_value=0.051) == "unclear"


def test_a_p_value_alone_does_not_decide_where_its_interval_holds_zero() -> None:
    assert status(comparison(10, 11, 1.1), p_value=0.001) == "unclear"


@pytest.mark.parametrize(
    ("half", "expected"), [(0.3, "equivalent"), (0.49, "equivalent"), (0.6, "unclear")]
)
@pytest.mark.parametrize("margin", [Margin(0.05, relative=True), Margin(0.5, relative=False)])
def test_equivalence_needs_both_ends_inside(half: float, expected: str, margin: Margin) -> None:
    for direction in (INCREASE, DECREASE):
        found = status(
            comparison(10, 10, half), role="diagnostic", direction=direction, margin=margin
        )
        assert found == expected


def test_a_small_but_certain_effect_is_better_not_equivalent() -> None:
    found = comparison(10, 10.2, 0.1)
    assert status(found, role="goal", margin=Margin(0.05, relative=True)) == "better"


GUARDRAIL = [
    # treatment of a control of 10, half-width, what an increase is worth, and a decrease
    (10.0, 0.15, "non_inferior", "non_inferior"),
    (10.0, 0.25, "unclear", "unclear"),
    (10.5, 0.4, "better", "worse"),
    (9.5, 0.4, "worse", "better"),
    (9.9, 0.05, "non_inferior", "better"),
    (10.1, 0.05, "better", "non_inferior"),
    (9.85, 0.1, "worse", "better"),
    (10.1, 0.25, "non_inferior", "unclear"),
]


@pytest.mark.parametrize(("treatment", "half", "up", "down"), GUARDRAIL)
@pytest.mark.parametrize("margin", [Margin(0.02, relative=True), Margin(0.2, relative=False)])
def test_guardrails(treatment: float, half: float, up: str, down: str, margin: Margin) -> None:
    found = comparison(10, treatment, half)
    assert status(found, role="guardrail", margin=margin) == up
    assert status(found, role="guardrail", margin=margin, direction=DECREASE) == down


def test_a_relative_margin_needs_a_lift() -> None:
    found = comparison(10, 10, 0.1, lift=False)
    assert status(found, role="guardrail", margin=Margin(0.02, relative=True)) == "unclear"
    assert status(found, role="guardrail", margin=Margin(0.2, relative=False)) == "non_inferior"
    assert status(found, role="diagnostic", margin=Margin(0.02, relative=True)) == "unclear"
    assert status(found, role="diagnostic", margin=Margin(0.2, relative=False)) == "equivalent"


def test_a_metric_with_a_target_has_no_better_side() -> None:
    for treatment in (0.8, 1.2):
        found = comparison(1.0, treatment, 0.05)
        assert status(found, role="diagnostic", direction=Direction(toward=1.0)) == "unclear"


def ranged(value: float, half: float) -> Comparison:
    """A variant whose value has an interval at 95 % this wide to either side."""
    own = Estimate(value, (half / 1.959963984540054) ** 2, 500, math.inf)
    return comparison(1.0, value, half)._replace(treatment_estimate=own)


RANGED = [
    # value, half-width, status of a guardrail within [0.9, 1.1]
    (1.0, 0.09, "non_inferior"),
    (1.0, 0.11, "unclear"),
    (1.05, 0.049, "non_inferior"),
    (1.05, 0.051, "unclear"),
    (0.95, 0.051, "unclear"),
    (1.2, 0.11, "unclear"),
    (1.2, 0.09, "worse"),
    (0.8, 0.09, "worse"),
]


@pytest.mark.parametrize(("value", "half", "expected"), RANGED)
def test_a_range_holds_where_two_one_sided_tests_reject(
    value: float, half: float, expected: str
) -> None:
    own = metric("guardrail", within=(0.9, 1.1))
    found = ranged(value, half)
    assert decide_status(own, found, find_uncorrected_p_value(own, found, 0.05), 0.05) == expected
    shown = check_range(own, found, 0.05)
    assert shown.interval == pytest.approx((value - half, value + half), rel=1e-3)
    # Whether it is worse waits for the correction; whether it holds does not.
    assert decide_status(own, found, 1.0, 0.05) == ("unclear" if expected == "worse" else expected)


@pytest.mark.slow
@pytest.mark.parametrize("bound", [0.9, 1.1])
def test_a_value_at_a_bound_passes_as_often_as_the_one_sided_level(bound: float) -> None:
    """2,000 ratios of 300 units a variant: the error of a share of 2.5 % is .35 points."""
    own = Metric("m", "ratio", "…", role="guardrail", within=(0.9, 1.1))
    random = np.random.default_rng(11)
    y = random.normal(bound, 0.6, (2_000, 2, 300))
    x = random.normal(1.0, 0.2, y.shape)
    held = worse = 0
    for i in range(len(y)):
        arms = [Moments.of(y[i, arm], x[i, arm]) for arm in (0, 1)]
        found = compare_moments(own, *arms, Rule())
        judged = decide_status(own, found, find_uncorrected_p_value(own, found, 0.05), 0.05)
        held += judged == "non_inferior"
        worse += judged == "worse"
    assert 0.025 - 3 * 0.0035 < held / len(y) < 0.025 + 3 * 0.0035
    assert 0.025 - 3 * 0.0035 < worse / len(y) < 0.025 + 3 * 0.0035


def test_a_range_is_not_judged_where_no_large_sample_test_is() -> None:
    own = metric("guardrail", within=(0.9, 1.1))
    for value in (None, Estimate(1.0, 0.0, 500, math.inf)):
        found = ranged(1.0, 0.01)._replace(treatment_estimate=value)
        assert find_uncorrected_p_value(own, found, 0.05) is None
        assert decide_status(own, found, None, 0.05) == "too_little_data"


def test_a_range_is_read_at_the_look_of_its_row() -> None:
    own, found = metric("guardrail", within=(0.9, 1.1)), ranged(1.0, 0.09)
    fixed = check_range(own, found, 0.05).interval
    for looks in (
        AlwaysValidLooks(500, 500, 1_000),
        AlwaysValidLooks(500, 500),
        PlannedLooks((0.5,), (1.0,), "obrien_fleming"),
    ):
        boundary = LookBoundary(1.0, 0.0, 3.0, False, looks)
        wider = check_range(own, found._replace(boundary=boundary), 0.05)
        assert wider.interval.low < fixed.low
        assert not wider.holds


@pytest.mark.parametrize("role", ["goal", "guardrail", "diagnostic"])
def test_too_little_data(role: str) -> None:
    margin = Margin(0.02, relative=True)
    found = comparison(10, 20, 0.1, units=MIN_UNITS - 1)
    assert status(found, role=role, margin=margin) == "too_little_data"
    for few in ({"units_control": 500}, {"units": 500}):
        assert status(found._replace(**few), role=role, margin=margin) == "too_little_data"
    enough = comparison(10, 20, 0.1, units=MIN_UNITS)
    assert status(enough, role=role, margin=margin) == "better"
    nothing = Comparison(500, 500, None, None, None, None, "no_clicks")
    assert decide_status(metric(role), nothing, None, 0.05) == "too_little_data"


def test_holm_runs_over_goals_and_variants() -> None:
    log = small_log(rows=1200, units=120).assign(
        variant=lambda f: f.user_id.map(lambda u: "abc"[u % 3])
    )
    goals = [{"name": name, "role": "goal"} for name in ("ctr", "impressions_per_user")]
    found = analyze(
        log,
        variants={"a": {}, "b": {}, "c": {}},
        metrics=[*goals, {"name": "dwell_per_user"}],
    )
    family = [row for row in found.scorecard if row.role == "goal"]
    ordered = sorted(family, key=lambda row: row.p_value)
    highest = 0.0
    for i, row in enumerate(ordered):
        highest = max(highest, min(1.0, row.p_value * (4 - i)))
        assert row.p_adjusted == pytest.approx(highest, rel=1e-12)
    assert [row.p_adjusted for row in found.scorecard if row.role != "goal"] == [None, None]


def exact(low: float, high: float, p_value: float, control: float = 10.0) -> Comparison:
    """An effect with these very ends; its lift is a tenth of it."""
    middle = (low + high) / 2
    effect = effects.effect_from_difference(control, control + middle, middle, 0.1)
    effect = effect._replace(low=low, high=high, p_value=p_value)
    lift = Lift(middle / 10, low / 10, high / 10, bounded=True, method="fieller")
    return Comparison(500, 500, control, control + middle, effect, lift, None)


def test_at_the_level_and_at_zero_nothing_is_proven() -> None:
    assert status(exact(0.5, 1.5, 0.05), p_value=0.05) == "unclear"
    assert status(exact(0.5, 1.5, 0.0499), p_value=0.0499) == "better"
    assert status(exact(0.0, 1.5, 0.01), p_value=0.01) == "unclear"
    assert status(exact(-1.5, 0.0, 0.01), p_value=0.01) == "unclear"


@pytest.mark.parametrize("margin", [Margin(0.05, relative=True), Margin(0.5, relative=False)])
def test_an_interval_that_ends_at_the_margin_does_not_hold(margin: Margin) -> None:
    inside = exact(-0.499, 0.7, 0.6)
    assert status(inside, role="guardrail", margin=margin) == "non_inferior"
    assert status(exact(-0.5, 0.7, 0.6), role="guardrail", margin=margin) == "unclear"
    assert status(exact(-0.4, 0.5, 0.6), role="diagnostic", margin=margin) == "unclear"
    assert status(exact(-0.4, 0.499, 0.6), role="diagnostic", margin=margin) == "equivalent"


@pytest.mark.parametrize("role", ["goal", "guardrail", "diagnostic"])
@pytest.mark.parametrize("direction", [INCREASE, DECREASE])
def test_no_effect_at_all_is_neither_better_nor_worse(role: str, direction: Direction) -> None:
    """Whatever an interval by another method says."""
    found = exact(0.1, 0.9, 0.001)
    assert found.effect is not None
    found = found._replace(effect=found.effect._replace(difference=0.0))
    assert status(found, role=role, direction=direction) == "unclear"


def test_no_share_of_a_control_of_exactly_zero_is_held() -> None:
    effect = effects.effect_from_difference(0.0, 0.0, 0.0, 0.1)
    found = Comparison(500, 500, 0.0, 0.0, effect, spread=Spread(0.005, 0.005, -0.005))
    assert status(found, role="guardrail", margin=Margin(0.5, relative=True)) == "unclear"
    assert status(found, role="guardrail", margin=Margin(0.5, relative=False)) == "non_inferior"


def of_profit(control: float, treatment: float, margin: float, seed: int = 3) -> str:
    """Status of a guardrail on profit per user, 2,000 users, whose spread is 10."""
    random = np.random.default_rng(seed)
    user = np.arange(2_000)
    variant = np.where(user % 2 == 0, "a", "b")
    profit = random.normal(np.where(variant == "a", control, treatment), 10.0)
    log = pd.DataFrame({"user_id": user, "variant": variant, "profit": profit})
    guardrail = {"name": "profit", "value": "profit", "role": "guardrail", "margin": margin}
    result = analyze(log, metrics=[{**guardrail, "direction": "increase"}], trust={"aa_runs": 0})
    row = result["profit"]
    assert row.reason == "lift_unbounded"
    return row.status


@pytest.mark.whole
def test_a_guardrail_of_a_control_near_zero_is_better_where_it_is_better() -> None:
    """It stayed unclear at any p-value: its lift has no interval, so nothing was compared."""
    assert of_profit(0.0, 5.0, 0.01) == "better"
    assert of_profit(0.0, 0.0, 0.01) == "unclear"
    assert of_profit(0.0, -5.0, 0.01) == "worse"


def test_a_share_of_a_control_near_zero_is_tested_without_dividing() -> None:
    """A loss of less than 95 % is proven by the variant's own value."""
    assert of_profit(0.5, 0.9, 0.95, seed=4) == "non_inferior"
    assert of_profit(0.5, 0.9, 0.05, seed=4) == "unclear"


@pytest.mark.parametrize("direction", ["increase", "decrease"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_contrast_agrees_with_the_lift_where_that_has_ends(direction: str, sign: float) -> None:
    control = Estimate(sign * 10.0, 0.2, 500, math.inf)
    for value in np.linspace(8.0, 12.0, 41):
        treatment = Estimate(sign * float(value), 0.3, 500, math.inf)
        effect = effects.compare(control, treatment)
        lift = effects.fieller(control, treatment)
        gain = decisions.gain((lift.low, lift.high), direction)
        for margin in (0.02, 0.05, 0.2):
            assert decisions.not_worse_relative(
                effect, control.variance, -control.variance, margin, direction
            ) == decisions.not_worse(gain, margin)


def test_a_guardrail_without_a_margin_holds_nothing() -> None:
    assert status(comparison(10, 10.1, 0.5), role="guardrail") == "unclear"
