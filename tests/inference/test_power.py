"""How much an experiment can see, and how long it needs."""

import math
from pathlib import Path

import pytest
from scipy import stats

import abeval
from abeval.errors import ExperimentError
from abeval.stats import group_sequential

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"


@pytest.fixture(scope="module")
def loaded():
    return abeval.load(SAMPLE)


def test_units_are_those_of_the_normal_formula(loaded):
    (plan,) = loaded.power(mde=0.05, metrics=["ctr"]).plans
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    by_formula = 2 * (z * plan.sd / (plan.baseline * 0.05)) ** 2
    assert plan.units_control == pytest.approx(by_formula, rel=1e-4)
    assert plan.units == plan.units_control


def test_the_effect_that_n_days_find_needs_n_days(loaded):
    (by_days,) = loaded.power(days=21, metrics=["ctr"]).plans
    (by_effect,) = loaded.power(mde=by_days.mde, metrics=["ctr"]).plans
    assert by_effect.days == pytest.approx(21, rel=1e-3)


def test_without_a_question_it_is_what_the_units_seen_can_find(loaded):
    (plan,) = loaded.power(metrics=["ctr"]).plans
    row = loaded.analyze()["ctr"]
    half = (row.difference_high - row.difference_low) / 2 / row.control
    # The interval is 1.96 standard errors wide each way, and the effect found is 2.80.
    assert plan.mde == pytest.approx(half * 2.8016 / 1.96, rel=0.05)
    assert plan.days == 14


def test_always_valid_inference_needs_more_and_cuped_less(loaded):
    def units(**inference):
        found = loaded.replace(inference=inference).power(mde=0.05, metrics=["sessions_per_user"])
        return found.plans[0].units_control

    assert units(looks="always_valid") > 1.3 * units()
    assert units(adjust="cuped") < 0.95 * units()
    pocock = units(looks="group_sequential", planned_looks=[0.25, 0.5, 0.75], spending="pocock")
    z = group_sequential.bounds([0.25, 0.5, 0.75, 1.0], spending="pocock").z[-1]
    assert pocock / units() == pytest.approx(((z + 0.8416) / (1.96 + 0.8416)) ** 2, rel=1e-3)


def test_uneven_weights_give_an_uneven_plan(loaded):
    uneven = loaded.replace(variants={"control": {"weight": 9}, "treatment": {"weight": 1}})
    (plan,) = uneven.power(mde=0.05, metrics=["ctr"]).plans
    assert plan.units == pytest.approx(plan.units_control / 9)
    even = loaded.power(mde=0.05, metrics=["ctr"]).plans[0]
    assert plan.units + plan.units_control > 2 * (even.units + even.units_control)


@pytest.mark.parametrize(
    "question", [{"mde": 0.01, "days": 3}, {"mde": 0.0}, {"days": -1}, {"power": 0.01}]
)
def test_questions_that_make_no_sense_are_refused(loaded, question):
    with pytest.raises(ExperimentError):
        loaded.power(**question)


def test_goals_and_guardrails_are_planned_by_default(loaded):
    found = loaded.power(mde=0.1)
    assert [p.metric for p in found.plans] == ["ctr", "dwell_per_user", "sessions_per_user"]
    assert all(math.isfinite(p.units_control) for p in found.plans)
