"""How much an experiment can see, and how long it needs."""

import math

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.errors import ExperimentError
from abeval.inference import power
from abeval.stats import multiplicity, sequential
from benchmarks.calibration import power as calibration
from tests import sample
from tests.logs.people import experiment, log_of, users

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def loaded():
    return sample.at_one_look()


def test_units_are_those_of_the_normal_formula(loaded):
    (plan,) = loaded.power(mde=0.05, metrics=["ctr"]).plans
    # The sample has two goals; treatment's variance grows with its mean.
    z = stats.norm.ppf(1 - 0.05 / 4) + stats.norm.ppf(0.8)
    by_formula = (1 + 1.05) * (z * plan.sd / (plan.baseline * 0.05)) ** 2
    assert plan.units_control == pytest.approx(by_formula, rel=1e-4)
    assert plan.units == plan.units_control


def test_the_effect_that_n_days_find_needs_n_days(loaded):
    (by_days,) = loaded.power(days=21, metrics=["ctr"]).plans
    (by_effect,) = loaded.power(mde=by_days.mde, metrics=["ctr"]).plans
    assert by_effect.days == pytest.approx(21, rel=1e-3)


def test_without_a_question_it_is_what_the_units_seen_can_find(loaded):
    (plan,) = loaded.power(metrics=["ctr"]).plans
    names = ["ctr", "dwell_per_user"]
    goals = loaded.replace(metrics=[{"name": name, "role": "goal"} for name in names])
    row = goals.analyze()["ctr"]
    half = (row.difference_high - row.difference_low) / 2 / row.control
    # The interval is 1.96 standard errors wide each way; a goal of two is found at 2.24 + .84.
    assert plan.mde == row.mde
    assert plan.mde / (1 + plan.mde / 2) ** 0.5 == pytest.approx(half * 3.0830 / 1.96, rel=1e-3)
    assert (plan.days, plan.baseline) == (14, row.control)


def test_always_valid_inference_needs_more_and_cuped_less():
    log = {"impressions": log_of(users())}

    def units(**inference):
        """As many as find 7 %, up to a factor."""
        goal = {"name": "impressions_per_user", "role": "goal"}
        loaded = experiment(metrics=[goal], inference=inference)
        return loaded.power(logs=log).plans[0].mde ** 2

    plain = units()
    always = units(looks="always_valid")
    assert always > 1.3 * plain
    assert units(adjust="cuped") < plain
    pocock = units(looks="group_sequential", planned_looks=[0.25, 0.5, 0.75], spending="pocock")
    assert 1.1 * plain < pocock < 0.9 * always


def test_uneven_weights_give_an_uneven_plan(loaded):
    uneven = loaded.replace(variants={"control": {"weight": 9}, "treatment": {"weight": 1}})
    (plan,) = uneven.power(mde=0.1, metrics=["ctr"]).plans
    assert plan.units == pytest.approx(plan.units_control / 9)
    even = loaded.power(mde=0.1, metrics=["ctr"]).plans[0]
    assert plan.units + plan.units_control > 2 * (even.units + even.units_control)


@pytest.mark.parametrize(
    "question", [{"mde": 0.01, "days": 3}, {"mde": 0.0}, {"days": -1}, {"power": 0.01}]
)
def test_questions_that_make_no_sense_are_refused(loaded, question):
    with pytest.raises(ExperimentError):
        loaded.power(**question)


def test_goals_and_guardrails_are_planned_by_default(loaded):
    found = loaded.power(mde=0.15)
    assert [p.metric for p in found.plans] == ["ctr", "dwell_per_user", "sessions_per_user"]
    assert all(math.isfinite(p.units_control) for p in found.plans)


def test_days_inside_the_log_see_what_was_seen_by_then(loaded):
    """Two days of the sample: 17.9 % was predicted for sessions, and 8.4 % was seen."""
    path = sample.FILE.parent / "impressions" / "*.parquet"
    first = duckdb.connect().sql(f"select * from '{path}' where time < '2026-09-16'").df()
    names = ["ctr", "sessions_per_user"]
    plans = {plan.metric: plan for plan in loaded.power(days=2, metrics=names).plans}
    seen = loaded.replace(metrics=[{"name": name} for name in names]).analyze(
        logs={"impressions": first}
    )
    for name in names:
        row = seen[name]
        assert plans[name].baseline == pytest.approx(row.control, rel=1e-9)
        # By control's spread on those days; the sample's treatment varies otherwise.
        assert plans[name].mde == pytest.approx(row.mde, rel=0.2), name


def table(users: int = 4_000, seed: int = 0, **columns: object) -> pd.DataFrame:
    """One row a user, without time."""
    random = np.random.default_rng(seed)
    user = np.arange(users)
    active = random.gamma(2.0, 0.5, users)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 0, "a", "b"),
            "bought": random.poisson(3 * active),
            "opened": random.poisson(4 * active),
        }
    ).assign(**columns)


def planned(metrics: list[dict[str, object]], log: pd.DataFrame, **question: float):
    loaded = abeval.define(
        ".",
        name="planned",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        metrics=[{"value": m["name"], "direction": "increase", **m} for m in metrics],
        engine={"threads": 1},
    )
    return loaded.power(logs={"impressions": log}, **question)


GOAL, GUARDRAIL = {"name": "bought"}, {"name": "opened", "role": "guardrail", "margin": 0.05}


def test_without_time_it_is_what_todays_units_see() -> None:
    log = table()
    (plan,) = planned([GOAL], log).plans
    control = log[log.variant == "a"].bought
    treatment = log[log.variant == "b"].bought
    se = np.sqrt((control.var() + treatment.var()) / 2_000)
    # The interval is by Student's t.
    error = 2.8016 * se / control.mean() * stats.t.ppf(0.975, 3_998) / 1.95996
    assert plan.mde**2 == pytest.approx(error**2 * (1 + plan.mde / 2), rel=1e-4)
    assert (plan.units, plan.days, plan.reason) == (2_000, None, None)
    (by_effect,) = planned([GOAL], log, mde=plan.mde).plans
    assert (by_effect.units, by_effect.days) == (pytest.approx(2_000, rel=1e-3), None)
    (by_days,) = planned([GOAL], log, days=14).plans
    assert by_days.reason == "not_applicable"


def test_a_guardrail_is_planned_for_its_margin() -> None:
    log = table()
    spread = log.groupby("variant").opened.agg(["mean", "var"])
    plan = planned([GOAL, GUARDRAIL], log, mde=0.2).plans[1]
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    by_formula = spread["var"].sum() * (z / (spread["mean"]["a"] * 0.05)) ** 2
    assert plan.mde == 0.05
    assert plan.units == pytest.approx(by_formula, rel=1e-3)


def test_a_quantile_is_planned_and_decided_on_too() -> None:
    random = np.random.default_rng(1)
    log = table(20_000, latency=np.round(random.gamma(4, 50, 20_000)))
    slow = {"name": "latency", "quantile": 0.9, "role": "guardrail", "direction": "decrease"}
    result = planned([GOAL, {**slow, "margin": 0.03}], log, mde=0.2)
    plan = result.plans[1]
    density = stats.gamma.pdf(stats.gamma.ppf(0.9, 4, scale=50), 4, scale=50)
    se = np.sqrt(0.9 * 0.1) / density
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert plan.baseline == pytest.approx(stats.gamma.ppf(0.9, 4, scale=50), rel=0.03)
    assert plan.units == pytest.approx(2 * (z * se / plan.baseline / 0.03) ** 2, rel=0.15)
    assert result.decision.guardrails == 1
    assert result.decision.units > plan.units_control + plan.units


def test_an_absolute_margin_without_bad_events_has_no_plan() -> None:
    crashes = {**GUARDRAIL, "name": "crashed", "margin": {"absolute": 0.001}}
    result = planned([GOAL, crashes], table(crashed=0), mde=0.1)
    assert result.plans[1].reason == "control_near_zero"
    assert "crashed cannot be planned" in result.decision.reason


def test_a_goal_without_events_leaves_no_plan_for_the_decision() -> None:
    decision = planned([GOAL, {**GOAL, "name": "crashed"}], table(crashed=0)).decision
    assert "crashed cannot be planned" in decision.reason


def test_the_decision_needs_more_than_its_largest_test() -> None:
    result = planned([GOAL, {**GOAL, "name": "opened"}], table(), mde=0.05)
    single = max(plan.units_control + plan.units for plan in result.plans)
    decision = result.decision
    assert decision.ship == pytest.approx(0.8, abs=0.005)
    assert decision.ship_one < decision.ship
    assert decision.ship_none < 0.03
    guarded = planned([GOAL, GUARDRAIL], table(), mde=0.06).decision
    alone = planned([GOAL], table(), mde=0.06).decision
    assert alone.units == pytest.approx(single * (0.05 / 0.06) ** 2, rel=0.2)
    assert guarded.units > 1.1 * alone.units


def test_guardrails_that_cannot_hold_are_said_to_be_the_reason() -> None:
    tight = {**GUARDRAIL, "margin": 0.005}
    decision = planned([GOAL, tight], table()).decision
    assert decision.mde is None
    assert decision.ship < 0.8
    assert "guardrails hold too seldom" in decision.reason


@pytest.mark.parametrize(
    "family", ["none", "bonferroni", "holm", "hochberg", "bh", "by", "weighted"]
)
def test_simulated_families_are_those_of_the_statistics(family: str) -> None:
    z = np.abs(np.random.default_rng(1).normal(1.5, 1.2, (400, 4)))
    weights = [1.0, 2.0, 3.0, 2.0]
    rule = power.DecisionRule(0.05, family, weights, lambda level: (stats.norm.isf(level / 2),))
    rejected = power._test_family(z, rule, 0)
    for row, found in zip(2 * stats.norm.sf(z), rejected, strict=True):
        match family:
            case "none":
                expected = row
            case "weighted":
                expected = multiplicity.adjust_weighted(row.tolist(), weights)
            case _:
                expected = multiplicity.adjust(row, family)
        assert (np.asarray(expected) < 0.05).tolist() == found.tolist()


def test_planned_looks_can_end_the_experiment() -> None:
    once = power.DecisionRule(0.05, "holm", [1.0], lambda level: (stats.norm.isf(level / 2),))
    shares = [0.25, 0.5, 0.75, 1.0]
    looks = once._replace(
        critical=lambda level: sequential.bounds(shares, level).z, fractions=shares
    )
    fixed = power.simulate_odds([2.8016], [], once, power.draw_steps(np.eye(1), 1, 0.5, 1))
    ended = power.simulate_odds([2.8016], [], looks, power.draw_steps(np.eye(1), 1, 0.5, 4))
    assert fixed.ship == pytest.approx(0.8, abs=0.01)
    assert 0.77 < ended.ship < fixed.ship
    nothing = power.simulate_odds([0.0], [], looks, power.draw_steps(np.eye(1), 1, 0.5, 4))
    assert nothing.ship + nothing.stop == pytest.approx(0.05, abs=0.006)


@pytest.mark.slow
def test_the_planned_units_ship_as_often_as_planned() -> None:
    """Two goals and three guardrails; the long version is benchmarks.calibration.power."""
    plan = calibration.decision_plan(0.1, users=6_000)
    shipped = calibration.decisions(round(plan.units), (0.1, 0.1), 120).count("ship") / 120
    assert shipped == pytest.approx(plan.ship, abs=3 * (0.16 / 120) ** 0.5)


def test_goals_that_move_apart_need_fewer_units_than_a_goal_named_twice() -> None:
    """Below 40,960 units each metric's values were ordered by size, and correlated by 1."""
    random = np.random.default_rng(1)
    log = table(6_000, bought=random.gamma(2.0, 1.0, 6_000), opened=random.gamma(2.0, 1.0, 6_000))
    other = {"name": "opened"}
    apart = planned([GOAL, other], log, mde=0.02).decision
    twice = planned([GOAL, other], log.assign(opened=log.bought), mde=0.02).decision
    # Holm asks .025 of the first of two, and two that are the same are one.
    reach = stats.norm.isf(0.2) + stats.norm.isf(0.0125)
    cv = log.bought.std() / log.bought.mean()
    assert twice.units == pytest.approx(4.04 * (reach * cv / 0.02) ** 2, rel=0.05)
    assert apart.units < 0.65 * twice.units


@pytest.mark.slow
def test_power_where_users_return_is_what_was_predicted() -> None:
    for cell in calibration.TABLES["metrics"].cells:
        for row in calibration.measure_plans(cell, 100, 0):
            assert row["realised, %"] == pytest.approx(0.8, abs=0.02 + 3 * (0.16 / 1000) ** 0.5), (
                row
            )


def test_where_no_unit_is_new_a_plan_without_an_end_keeps_what_is_known() -> None:
    """All units come every day: ten million days would find .01 %, which is no plan."""
    user = np.tile(np.arange(400), 6)
    day = pd.to_timedelta(np.repeat(np.arange(6), 400), unit="D")
    click = np.random.default_rng(0).integers(0, 2, user.size)
    log = table(user.size).assign(
        user_id=user, variant=np.where(user % 2 == 0, "a", "b"), bought=click
    )
    log["ts"] = pd.Timestamp("2026-09-14") + day
    plans = planned([GOAL], log, mde=0.0001)
    (plan,) = plans.plans
    assert plan.reason.startswith("more than 1,000 days are needed; 1,000 find ")
    assert (plan.days, plan.units, plan.mde) == (None, None, 0.0001)
    mean = log[log.variant == "a"].groupby("user_id")["bought"].sum().mean()
    assert plan.baseline == pytest.approx(mean)
    assert "more than 1,000 days" in " ".join(str(plans).split())
    assert f"{mean:.4g}" in str(plans)
