"""`[inference]` chooses how the scorecard is judged, and the statistics agree with it."""

import numpy as np
import pytest

import abeval
from abeval.aggregates.collect import collect
from abeval.errors import ExperimentError
from abeval.experiment.metrics import find_metrics_by_name
from abeval.inference.judge import judge
from abeval.logs.run import open_run
from abeval.stats import adjustment, multiplicity
from tests import sample
from tests.logs.people import arms, experiment, log_of, users


@pytest.fixture(scope="module")
def loaded():
    return abeval.load(sample.FILE)


@pytest.fixture(scope="module")
def judged(loaded):
    """The sample by another `[inference]`, from sums made once."""
    with open_run(loaded.experiment, {}) as run:
        sums = collect(run, find_metrics_by_name(loaded.experiment))

    def by(**inference):
        other = loaded.replace(inference=inference).experiment
        return judge(other, find_metrics_by_name(other), sums)

    return by


@pytest.fixture(scope="module")
def valid(judged):
    return judged(looks="always_valid")


def test_cuped_is_that_of_the_statistics_with_new_units_in_their_own_stratum():
    people = users()
    loaded = experiment(metrics=[{"name": "impressions_per_user"}], inference={"adjust": "cuped"})
    result = loaded.analyze(logs={"impressions": log_of(people)})
    row, (change,) = result["impressions_per_user"], result.adjustments
    expected = adjustment.cuped_mean(*arms(people, "during", "before", "new"))
    assert row.difference == pytest.approx(expected.effect.difference, rel=1e-9)
    assert row.p_value == pytest.approx(expected.effect.p_value, rel=1e-9)
    assert row.method == "cuped_welch_t"
    raw = expected.treatment.value - expected.control.value
    assert change.difference == pytest.approx(raw, rel=1e-9)
    assert change.theta == pytest.approx(expected.theta, rel=1e-9)
    assert change.variance_removed == pytest.approx(expected.variance_removed, rel=1e-9)
    assert change.variance_removed > 0.1


def test_without_a_pre_period_cuped_is_refused_where_it_is_asked_for(loaded):
    told = loaded.experiment.model_dump(exclude_unset=True, exclude={"folder", "pre_period"})
    with pytest.raises(ExperimentError, match=r'inference.adjust: "cuped" needs a \[pre_period\]'):
        abeval.define(**(told | {"inference": {"adjust": "cuped"}}))


def test_caps_are_pooled_and_both_numbers_are_there():
    people = users()
    people.loc[3, "during"] = 900
    metric = {"name": "impressions_per_user", "cap": 0.99}
    result = experiment(metrics=[metric]).analyze(logs={"impressions": log_of(people)})
    row, (change,) = result["impressions_per_user"], result.adjustments
    values = np.sort(people.during)
    cap = values[int(np.ceil(0.99 * (len(values) - 1)))]
    by_hand = [np.minimum(people[people.variant == v].during, cap).mean() for v in "ab"]
    assert change.cap == cap
    assert [row.control, row.treatment] == pytest.approx(by_hand)
    assert change.difference == pytest.approx(
        people[people.variant == "b"].during.mean() - people[people.variant == "a"].during.mean()
    )
    assert people.during.quantile(0.99, interpolation="lower") <= cap


@pytest.mark.whole
def test_always_valid_intervals_are_wider_and_say_so(valid):
    fixed = sample.analysis()
    for metric in ("ctr", "dwell_per_user", "sessions_per_user"):
        narrow, wide = fixed[metric], valid[metric]
        assert wide.difference == narrow.difference
        assert wide.difference_low < narrow.difference_low
        assert wide.difference_high > narrow.difference_high
        assert wide.p_value > narrow.p_value
        assert wide.method.startswith("always_valid_")
    assert any("valid at every look" in note for note in valid.notes)


def test_always_valid_lift_and_difference_exclude_zero_together(valid):
    for row in valid.scorecard:
        if row.lift_low is not None and row.kind != "catalogue":
            assert (row.lift_low > 0) == (row.difference_low > 0)
            assert (row.lift_high < 0) == (row.difference_high < 0)


@pytest.mark.parametrize("family", ["bonferroni", "holm", "bh", "hommel"])
def test_the_family_adjusts_goals_and_guardrails_apart(judged, family):
    result = judged(family=family)
    goals = [row for row in result.scorecard if row.role == "goal"]
    expected = multiplicity.adjust([row.p_value for row in goals], family)
    assert [row.p_adjusted for row in goals] == pytest.approx(list(expected), rel=1e-12)
    guardrails = [row for row in result.scorecard if row.role == "guardrail"]
    adjusted = multiplicity.adjust([row.p_value for row in guardrails], "holm")
    assert [row.p_adjusted for row in guardrails] == pytest.approx(list(adjusted), rel=1e-12)
    assert all(row.p_adjusted is None for row in result.scorecard if row.role == "diagnostic")


def test_the_interval_of_the_lift_can_be_chosen(judged):
    lows = {
        kind: judged(relative=kind)["ctr"].lift_low for kind in ("fieller", "delta", "log_delta")
    }
    assert len(set(lows.values())) == 3
    assert max(lows.values()) - min(lows.values()) < 0.01
