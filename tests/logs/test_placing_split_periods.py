"""The traffic split changes in mid-run: scheduled, exposed, unexplained, saved, refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.api import LoadedExperiment
from abeval.assignment import Assignment
from abeval.errors import ExperimentError, LogError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.placing import (
    Enrollment,
    SplitPeriod,
    find_enrollment_periods,
    find_split_periods,
    list_planned_splits,
)

DAYS = 6
EARLY, LATE = (0, 1), (2, 3, 4, 5)


def world(seed: int = 1, per_day: int = 300, hour: int = 0, late: float = 0.5) -> pd.DataFrame:
    """One row an impression: 10 % in b for two days (and `hour` hours), then half; CTR doubles."""
    rng = np.random.default_rng(seed)
    entered = pd.Timestamp("2026-01-05") + pd.to_timedelta(
        rng.integers(0, DAYS * 86_400, per_day * DAYS), unit="s"
    )
    is_late = entered >= pd.Timestamp("2026-01-07") + pd.Timedelta(hours=hour)
    share = np.where(is_late, late, 0.1)
    variant = np.where(rng.random(len(entered)) < share, "b", "a")
    shown = rng.integers(3, 12, len(entered))
    user = np.repeat(np.arange(len(entered)), shown)
    rate = np.where(is_late, 0.3, 0.12)[user]
    before = rng.random(len(user)) < 0.3
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": variant[user],
            "ts": entered[user].where(~before, pd.Timestamp("2026-01-02")),
            "click": (rng.random(len(user)) < rate).astype(int),
            "dwell": rng.integers(1, 100, len(user)) + rng.random(len(user)),
            "item_id": rng.integers(0, 30, len(user)),
            "device": np.where(user % 3 == 0, "web", "app"),
        }
    )


def schedule(start: str = "2026-01-07", late: float = 0.5) -> dict[str, Any]:
    """10 % until then, and another share from then on."""
    first = {"from": "2026-01-01", "weights": {"a": 0.9, "b": 0.1}}
    return {"splits": [first, {"from": start, "weights": {"b": late, "a": 1 - late}}]}


def experiment(**entries: Any) -> LoadedExperiment:
    base: dict[str, Any] = {
        "name": "ramp",
        "unit": "user_id",
        "control": "a",
        "period": {"start": "2026-01-05", "end": "2026-01-11"},
        "pre_period": {"start": "2026-01-01", "end": "2026-01-05"},
        "variants": {"a": {}, "b": {}},
        "cleaning": {"duplicates": "unchecked"},
        "logs": {"impressions": {}},
        "trust": {"aa_runs": 0},
        "metrics": [{"name": "ctr"}, {"name": "clicks_per_user", "role": "goal"}],
    }
    return abeval.define(**{**base, **entries})


def scheduled(**entries: Any) -> LoadedExperiment:
    return experiment(**{"assignment": schedule(), **entries})


def exposed(log: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The log, and one of exposures: each user's first row of the period."""
    during = log[log.ts >= "2026-01-05"].sort_values("ts")
    return {"impressions": log, "exposures": during.drop_duplicates("user_id").reset_index()}


EXPOSED = {"impressions": {}, "exposures": {}}


def by_hand(log: pd.DataFrame, early: pd.Series) -> float:
    """Clicks per user of b less a, within the two split periods, by their shares of all users."""
    during = log[log.ts >= "2026-01-05"]
    users = during.groupby("user_id").agg(
        variant=("variant", "first"), ts=("ts", "min"), clicks=("click", "sum")
    )
    users["early"] = early(users.ts)
    means = users.groupby(["early", "variant"]).clicks.mean()
    shares = users.early.value_counts(normalize=True)
    return sum(shares[k] * (means[k, "b"] - means[k, "a"]) for k in (True, False))


def test_units_are_compared_within_stretches_of_a_schedule_and_of_exposures():
    log = world()
    announced = scheduled().analyze(logs={"impressions": log})
    found = experiment(logs=EXPOSED).analyze(logs=exposed(log))
    expected = by_hand(log, lambda ts: ts < "2026-01-07")
    for result in (announced, found):
        assert result["clicks_per_user"].difference == pytest.approx(expected, rel=1e-9)
        assert [ramp.start for ramp in result.ramps] == ["2026-01-05", "2026-01-07"]
        assert any("within 2 split periods" in note for note in result.notes)
    checks = {check.name: check for check in announced.trust}
    assert (checks["split"].status, checks["srm"].status) == ("pass", "pass")
    checks = {check.name: check for check in found.trust}
    assert checks["split"].status == "warn"
    assert "from 2026-01-07 on (b 11.3% before, 50.2% then)" in checks["split"].message
    assert "no schedule announces" in checks["split"].message
    assert "2026-01-07 to 2026-01-10" in checks["srm"].message
    assert found.verdicts[0].decision == "keep_running"


def test_a_change_that_nothing_explains_decides_nothing_and_says_what_would() -> None:
    log = world()
    result = experiment().analyze(logs={"impressions": log})
    check = next(check for check in result.trust if check.name == "split")
    assert check.status == "fail"
    assert "from 2026-01-07 on (b 11.3% before, 50.2% then)" in check.message
    assert "map [logs.exposures]" in check.remedy
    assert "from = 2026-01-07" in check.remedy
    split = '[[assignment.splits]] from = 2026-01-05, weights = { "a" = 1, "b" = 1 }'
    assert split in check.remedy
    assert result.verdicts[0].sentence.startswith("DO NOT TRUST: split: by first impressions")
    assert {row.status for row in result.scorecard} == {"untrusted"}
    assert [ramp.start for ramp in result.ramps] == ["2026-01-05", "2026-01-07"]
    assert not any("within 2 split periods" in note for note in result.notes)
    windows = experiment().windows(logs={"impressions": log}, by=["hour"])
    assert (windows.windows, windows.stability) == ((), ())
    assert windows.ramps == result.ramps
    assert not any("are compared within" in note for note in windows.notes)
    assert all("b 11.3% before" in windows.refused[name] for name in ("ctr", "clicks_per_user"))
    pairs = experiment().compare("ctr", logs={"impressions": log})
    assert next(check for check in pairs.trust if check.name == "split").status == "fail"


def test_a_rule_for_all_units_says_that_the_split_never_changed() -> None:
    """By a hash of the unit: the treatment alone can have moved first impressions."""
    rng = np.random.default_rng(5)
    day = rng.integers(0, 10, 6_000)
    log = pd.DataFrame({"user_id": np.arange(6_000), "click": rng.integers(0, 2, 6_000)})
    log["ts"] = pd.Timestamp("2026-01-05") + pd.to_timedelta(day, unit="D")
    hashed = experiment(
        assignment={"salt": "s"}, period={"start": "2026-01-05", "end": "2026-01-15"}
    )
    placed = Assignment("s", {"a": 1, "b": 1}).assign_many(log.user_id)["variant"]
    moved = (placed == "b").to_numpy() & (rng.random(6_000) < 0.4)
    log.loc[moved, "ts"] = pd.Timestamp("2026-01-05")
    result = hashed.analyze(logs={"impressions": log})
    assert result.ramps == ()
    assert result.verdicts[0].decision == "keep_running"


def test_units_of_a_stretch_that_do_not_match_its_own_weights_fail_and_it_is_named():
    log = world()
    lost = log[~((log.variant == "b") & (log.user_id % 4 == 0) & (log.ts >= "2026-01-07"))]
    result = experiment(assignment=schedule()).analyze(logs={"impressions": lost})
    check = next(check for check in result.trust if check.name == "srm")
    assert check.status == "fail"
    assert "2026-01-07" in check.message or "all split periods" in check.message


def test_a_split_that_no_weights_fit_still_fails():
    """Without a schedule, the weights are those of all units, or of the latest stretch."""
    weights = {"a": {"weight": 0.7}, "b": {"weight": 0.3}}
    result = experiment(variants=weights, logs=EXPOSED).analyze(logs=exposed(world()))
    check = next(check for check in result.trust if check.name == "srm")
    assert check.status == "fail"
    assert "[[assignment.splits]]" in check.remedy


def test_a_schedule_may_change_the_split_within_a_day():
    log = world(hour=14)
    entries = schedule("2026-01-07T14:00:00")
    result = experiment(assignment=entries).analyze(logs={"impressions": log})
    assert [ramp.start for ramp in result.ramps] == ["2026-01-05", "2026-01-07 14:00:00"]
    assert result.ramps[0].end == "2026-01-07"
    expected = by_hand(log, lambda ts: ts < "2026-01-07 14:00")
    assert result["clicks_per_user"].difference == pytest.approx(expected, rel=1e-9)
    assert next(c for c in result.trust if c.name == "srm").status == "pass"
    found = experiment(logs=EXPOSED).analyze(logs=exposed(log))
    # By days, the day of the change is a stretch of its own.
    assert [ramp.start for ramp in found.ramps] == ["2026-01-05", "2026-01-07", "2026-01-08"]


def test_a_schedule_that_changes_nothing_is_no_change():
    log = world(late=0.1)
    weights = {"a": {"weight": 0.9}, "b": {"weight": 0.1}}
    plain = experiment(variants=weights).analyze(logs={"impressions": log})
    loaded = experiment(variants=weights, assignment=schedule(late=0.1))
    same = loaded.analyze(logs={"impressions": log})
    assert plain.scorecard == same.scorecard
    assert plain.ramps == same.ramps == ()
    assert [c.name for c in plain.trust] == [c.name for c in same.trust]


METRICS = [
    {"name": "ctr"},
    {"name": "dwell_per_user", "role": "goal", "cap": 0.99},
    {"name": "dwell_p50"},
    {"name": "coverage"},
    {"name": "both", "function": "clicks_per_user / impressions_per_user", "role": "goal"},
]


def test_what_cannot_be_weighed_is_refused_by_name_and_the_rest_is_not():
    log = world()
    result = scheduled(metrics=METRICS).analyze(logs={"impressions": log})
    reasons = {row.metric: row.reason for row in result.scorecard}
    assert reasons["dwell_p50"] == reasons["coverage"] == "split_changed"
    assert reasons["ctr"] is reasons["dwell_per_user"] is reasons["both"] is None
    # The function is the CTR, by another test.
    assert result["both"].difference == pytest.approx(result["ctr"].difference, rel=1e-9)
    assert result["both"].p_value == pytest.approx(result["ctr"].p_value, abs=0.1)
    permuted = scheduled(inference={"resample": "permutation"}).analyze(logs={"impressions": log})
    assert {row.reason for row in permuted.scorecard} == {"split_changed"}


@pytest.mark.parametrize("adjust", ["cuped", "regression", "stratify"])
def test_adjusted_effects_are_those_within_stretches(adjust):
    log = world(4)
    inference = {"adjust": adjust} | ({"stratify_by": "device"} if adjust == "stratify" else {})
    result = scheduled(segments={"device": "device"}, inference=inference).analyze(
        logs={"impressions": log}
    )
    for row, change in zip(result.scorecard, result.adjustments, strict=True):
        assert row.p_value > 0.01
        assert abs(row.difference - change.difference) < 2 * abs(
            change.difference_high - change.difference
        )
    assert change.difference == pytest.approx(by_hand(log, lambda ts: ts < "2026-01-07"), rel=1e-9)


def test_days_segments_and_their_tests_are_within_stretches():
    log = world(2)
    result = scheduled(segments={"device": "device"}).analyze(logs={"impressions": log})
    assert all(row.p_value > 1e-4 for row in result.segments)
    assert not any(test.reversed and test.mix_p_value < 0.01 for test in result.segment_tests)
    assert all(row.p_adjusted > 0.001 for row in result.segment_contrasts)
    first = [row for row in result.daily if row.cell == "2026-01-06" and row.metric == "ctr"]
    assert first[0].units < 60
    assert all(c.status == "pass" for c in result.trust if c.name == "srm:device")


def test_pairs_and_plans_follow_the_stretches():
    log = world()
    loaded = experiment(assignment=schedule())
    pair = loaded.compare("clicks_per_user", logs={"impressions": log}).pairs[0]
    row = loaded.analyze(logs={"impressions": log})["clicks_per_user"]
    assert (pair.difference, pair.p_value) == (row.difference, row.p_value)
    plan = loaded.power(days=6, logs={"impressions": log}).plans[1]
    assert plan.baseline == pytest.approx(row.control)
    # The plan goes on at the latest split, which is even.
    assert plan.units_control == plan.units


def test_windows_are_what_the_scorecard_shows():
    log = world()
    plain, cuped = {"impressions": log}, {"inference": {"adjust": "cuped"}}
    for loaded, logs in (
        (scheduled(), plain),
        (scheduled(**cuped), plain),
        (experiment(logs=EXPOSED), exposed(log)),
    ):
        windows = loaded.windows(logs=logs, widths=())
        result = loaded.analyze(logs=logs)
        last = [r for r in windows.windows if r.kind == "cumulative" and r.axis == "calendar"]
        for row in result.scorecard:
            twin = [r for r in last if r.metric == row.metric][-1]
            # Heavy units are added up in another order.
            assert (twin.difference, twin.p_value) == pytest.approx(
                (row.difference, row.p_value), rel=1e-12
            )
        assert [ramp.start for ramp in windows.ramps] == [ramp.start for ramp in result.ramps]


def test_small_stretches_are_left_out_and_a_note_says_so():
    log = world(per_day=120)
    result = scheduled().analyze(logs={"impressions": log})
    note = next(note for note in result.notes if "are not compared" in note)
    assert "2026-01-05" in note
    assert "fewer than 30" in note
    assert result["ctr"].units_control < result.experiment.variants[0].units


def test_few_successes_at_a_changed_split_have_no_exact_test():
    log = world()
    log["click"] = (log.click == 1) & (log.user_id % 97 == 0) & ~log.user_id.duplicated()
    own = [{"name": "converted", "value": "click"}]
    result = scheduled(metrics=own).analyze(logs={"impressions": log.assign(click=log.click * 1)})
    assert result["converted"].reason == "split_changed"


def test_mistakes_in_a_schedule_are_named():
    with pytest.raises(ExperimentError) as error:
        experiment(
            assignment={
                "splits": [
                    {"from": "2026-01-07", "weights": {"a": 1, "c": 1}},
                    {"from": "2026-01-06", "weights": {"a": 0, "b": 0}},
                    {"from": "2026-02-01", "weights": {"a": 1, "b": 1}},
                ]
            }
        )
    text = str(error.value)
    assert "assignment.splits[0].weights.c: no variant is called 'c'" in text
    assert "assignment.splits[0].weights: 'b' has no weight" in text
    assert "assignment.splits[1].from: 2026-01-06 00:00:00 is not after the split before it" in text
    assert "assignment.splits[1].weights: all are 0" in text
    assert "assignment.splits[2].from: 2026-02-01 00:00:00 is not before period.end" in text


def test_a_schedule_needs_times_and_logged_variants():
    log = world()
    with pytest.raises(LogError, match="need the variant in the log"):
        experiment(assignment={"salt": "s", **schedule()}).analyze(
            logs={"impressions": log.drop(columns="variant")}
        )
    with pytest.raises(LogError, match="need the time at which a unit entered"):
        experiment(assignment=schedule(), period=None, pre_period=None).analyze(
            logs={"impressions": log.drop(columns="ts")}
        )


def entries_of(*rows: tuple[int, str, int, str, int]) -> list[Enrollment]:
    return [Enrollment(*row) for row in rows]


def plan(**entries: Any) -> Experiment:
    base = {"name": "e", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    return parse_experiment({**base, "logs": {"impressions": {}}, **entries})


RAMP = entries_of(
    *[(0, f"2026-01-0{day}", hour, "a", 450) for day in (5, 6) for hour in (3, 9)],
    *[(0, f"2026-01-0{day}", 9, "b", 100) for day in (5, 6)],
    *[(0, f"2026-01-0{day}", 9, variant, 500) for day in (7, 8, 9) for variant in "ab"],
    (0, "2026-01-10", 9, "a", 0),
)


def test_a_stretch_has_the_units_of_all_hours_of_its_days() -> None:
    exposures = plan(logs=EXPOSED)
    assert find_split_periods(exposures, RAMP) == (
        SplitPeriod("2026-01-05", "2026-01-06", {"a": 1800, "b": 200}, None),
        SplitPeriod("2026-01-07", "2026-01-10", {"a": 1500, "b": 1500}, None),
    )
    assert (
        find_split_periods(exposures, [one for one in RAMP if one.entry_day <= "2026-01-06"]) == ()
    )
    # First impressions alone are no assignments.
    assert find_split_periods(plan(), RAMP) == ()
    assert find_enrollment_periods(plan(), RAMP) == find_split_periods(exposures, RAMP)
    # Rows of one user come together, so that counts of rows show no split.
    assert find_enrollment_periods(plan(unit="row"), RAMP) == ()


def test_a_schedule_is_believed_and_nothing_is_sought_within_its_splits() -> None:
    first = {"from": "2026-01-01", "weights": {"a": 0.5, "b": 0.5}}
    second = {"from": "2026-01-05T06:00:00", "weights": {"a": 0.9, "b": 0.1}}
    before = entries_of((0, "2026-01-04", 1, "a", 500), (0, "2026-01-04", 1, "b", 500))
    counts = [*before, *(one._replace(planned=1) for one in RAMP)]
    weights = {"a": {"weight": 1}, "b": {"weight": 1}}
    two = plan(variants=weights, assignment={"splits": [first, second]})
    ramps = find_split_periods(two, counts)
    assert [(ramp.start, ramp.end) for ramp in ramps] == [
        ("2026-01-04", "2026-01-04"),
        ("2026-01-05 06:00:00", "2026-01-10"),
    ]
    assert [ramp.weights for ramp in ramps] == [{"a": 1, "b": 1}, second["weights"]]
    constant = plan(variants=weights, assignment={"splits": [{**first, "from": "2026-01-05"}]})
    assert find_enrollment_periods(constant, RAMP) == ()


@pytest.mark.parametrize(
    ("weights", "then", "changes"),
    [
        ((9, 1), (0.9, 0.1), False),
        ((9, 1), (0.8, 0.2), True),
        # A third, written with twelve digits.
        ((1, 2), (0.333333333333, 0.666666666667), False),
        ((1, 2), (0.33333333333, 0.66666666667), True),
    ],
)
def test_weights_of_the_same_shares_are_one_split(
    weights: tuple[float, float], then: tuple[float, float], changes: bool
) -> None:
    variants = {name: {"weight": weight} for name, weight in zip("ab", weights, strict=True)}
    split = {"from": "2026-01-05", "weights": dict(zip("ab", then, strict=True))}
    plans = list_planned_splits(plan(variants=variants, assignment={"splits": [split]}))
    assert len(plans) == 1 + changes


@pytest.mark.parametrize(
    ("units", "shares"), [((1, 0), (1, 0)), ((0, 0), (0, 0)), ((1, 3), (0.25, 0.75))]
)
def test_shares_of_a_stretch_are_of_its_units(
    units: tuple[int, int], shares: tuple[float, float]
) -> None:
    counts = dict(zip("ab", units, strict=True))
    stretch = SplitPeriod("2026-01-05", "2026-01-06", counts, None)
    assert stretch.shares == dict(zip("ab", shares, strict=True))
