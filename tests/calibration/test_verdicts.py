"""Verdicts in worlds whose truth is known, a short version; the long one is marked slow."""

from dataclasses import replace

import numpy as np
import pytest

from abeval.experiment.sections import Event
from abeval.inference.comparison import Rule
from abeval.stats.records import Refusal
from abeval.time.analysis import follow_metric
from abeval.time.peeking import follow, take_snapshots
from abeval.time.windows import Course, build_calendar_axis, compute_windows
from benchmarks.calibration.verdicts import CLICKS, CTR, measure_looks, measure_verdicts
from tests.worlds.days import (
    DAYS,
    WORLDS,
    days_of,
    experiment_of,
    time_sums,
    units_of,
)

NAMED = {world.name: world for world in WORLDS}


def analysed(made, experiment=None):
    line = replace(time_sums(made), experiment=experiment or experiment_of(), widths=(7,))
    (result,) = follow_metric(line, CTR)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NAMED))
def test_the_right_verdict_in_each_world(name):
    found = measure_verdicts(NAMED[name], 3, 5000)
    assert found["right, %"] == 1.0, found


def test_novelty_earns_its_word_and_tells_the_long_run():
    found = analysed(units_of(NAMED["novelty"], 1, 16_000))
    whole = found.novelty
    assert (whole.word, whole.scale) == ("novelty", "relative")
    assert 1.5 <= whole.tau <= 5
    assert whole.long_run_low < np.log(1.05) < whole.long_run_high
    assert whole.start > 0.2
    assert found.stability.days == DAYS


def test_primacy_is_the_other_way_round():
    whole = analysed(units_of(NAMED["primacy"], 1, 16_000)).novelty
    assert whole.word == "primacy"
    assert whole.start < whole.long_run


def test_a_constant_effect_earns_no_word():
    whole = analysed(units_of(NAMED["constant"], 1)).novelty
    assert whole.word is None
    assert whole.p_value > 0.01


def test_the_shock_is_named_and_the_rest_is_stable():
    found = analysed(units_of(NAMED["one-day shock"], 2)).stability
    assert (found.verdict, found.shocks) == ("stable", ("2027-03-18",))


def test_the_rhythm_is_seen_and_is_no_drift():
    found = analysed(units_of(NAMED["weekly rhythm only"], 2)).stability
    assert found.verdict == "stable"
    assert found.rhythm_p_value < 0.01
    assert found.weeks == 4


def test_an_event_with_another_effect_is_found():
    event = Event(name="outage", start="2027-03-18", end="2027-03-19")
    made = units_of(NAMED["one-day shock"], 3)
    experiment = experiment_of().model_copy(update={"events": [event]})
    (row,) = analysed(made, experiment).events
    assert row.p_value < 1e-4
    assert row.inside < 0 < row.outside
    assert row.overall < row.outside


def test_a_ramp_is_found_and_its_paradox_undone():
    made = units_of(NAMED["ramp 10 to 50 %"], 4, 16_000)
    sums = time_sums(made)
    strata = sums.strata
    assert strata == (tuple(range(7)), tuple(range(7, DAYS)))
    assert sums.split_periods[0].shares["treatment"] == pytest.approx(0.1, abs=0.02)
    lifts = {}
    for name, groups in (("naive", (tuple(range(DAYS)),)), ("by share", strata)):
        ctr = sums.metrics["ctr"]
        axis = build_calendar_axis(ctr.sum_days(), "control", groups, sums.days, frozenset())
        effect = Course(CTR, "treatment", axis).effect((0, DAYS - 1), Rule(), entered=True)
        lifts[name] = effect.lift
    assert lifts["naive"].high < 0.10
    assert lifts["by share"].low < 0.10 < lifts["by share"].high


def test_an_even_split_has_one_stratum():
    sums = time_sums(units_of(NAMED["constant"], 5))
    assert sums.split_periods == ()


def test_days_without_the_metric_are_left_out():
    made = units_of(NAMED["constant"], 6)
    clicks = made.clicks.copy()
    clicks[:, 10] = 0
    found = analysed(replace(made, clicks=clicks)).stability
    assert found.days == DAYS - 1
    assert found.verdict in ("stable", "too_early")


def test_a_metric_that_is_always_zero_is_refused_in_words():
    made = units_of(NAMED["constant"], 6)
    found = analysed(replace(made, clicks=np.zeros_like(made.clicks)))
    assert found.stability.verdict == "too_early"
    assert "0 whole days" in found.stability.reason
    assert found.looks == ()
    assert {row.reason for row in found.windows if row.axis == "calendar"} == {"zero_variance"}


def test_units_that_appear_once_are_independent_days():
    made = units_of(NAMED["constant"], 7)
    once = np.arange(DAYS) == made.cohort[:, None]
    made = replace(made, shown=made.shown * once, clicks=made.clicks * once)
    found = analysed(made)
    assert found.stability.days == 14
    assert found.novelty.reason is not None


def test_more_days_than_units_is_refused():
    made = units_of(NAMED["constant"], 8, units=50)
    found = analysed(made)
    assert found.stability.verdict == "too_early"
    assert found.stability.reason


def test_two_weeks_are_needed_for_stable():
    made = units_of(NAMED["constant"], 9, days=10)
    found = analysed(made).stability
    assert found.verdict == "too_early"
    assert "1 whole weeks" in found.reason


def test_looks_need_units():
    with pytest.raises(Refusal, match="100 units"):
        follow([], 0.05)


@pytest.mark.slow
def test_daily_looks_short():
    for metric in (CLICKS, CTR):
        found = measure_looks(metric, 40, -10_000)
        assert found["always-valid, %"] <= 0.05 + 3 * (0.0475 / 40) ** 0.5
        assert found["naive, any day, %"] > found["always-valid, %"]


def test_a_real_effect_is_declared_by_looks():
    made = units_of(NAMED["constant"], 11, 16_000)
    by_day = days_of(made)
    strata = (tuple(range(DAYS)),)
    axis = build_calendar_axis(by_day.sum_days(), "control", strata, [""] * DAYS, frozenset())
    windows = compute_windows(Course(CTR, "treatment", axis), Rule(), ())
    _, looks, information = zip(*follow(take_snapshots(CTR, windows), 0.05), strict=True)
    assert looks[-1].p_value < 0.01
    assert information[0] >= 1
    assert list(information) == sorted(information)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NAMED))
def test_verdicts_over_400_seeds(name):
    found = measure_verdicts(NAMED[name], 400, 0)
    assert found["right, %"] >= 0.95, found
    if found["right verdict"] == "stable":
        assert found["drifting"] <= 0.02 * 400


@pytest.mark.slow
def test_looks_at_2000_experiments():
    for metric in (CLICKS, CTR):
        found = measure_looks(metric, 2_000, 0)
        assert found["always-valid, %"] <= 0.05 + 3 * (0.0475 / 2000) ** 0.5
        assert found["naive, any day, %"] > 3 * 0.05
