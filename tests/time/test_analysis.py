"""Whole analyses over time on logs: windows are the scorecard of a shorter period."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import ExperimentError, LogError
from tests import sample
from tests.real_logs import kuairand

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def loaded():
    return sample.at_one_look()


@pytest.fixture(scope="module")
def result(loaded):
    return loaded.windows(looks=[7, 14])


@pytest.fixture(scope="module")
def windows(result):
    return result.windows_frame()


def one(windows, metric, kind, axis="calendar", **at):
    rows = windows[(windows.metric == metric) & (windows.kind == kind) & (windows.axis == axis)]
    for column, value in at.items():
        rows = rows[rows[column] == value]
    return rows.iloc[-1]


NUMBERS = ["units_control", "units", "control", "treatment", "difference", "lift_low", "p_value"]


def test_all_days_together_are_the_scorecard(result, windows):
    card = sample.analysis_at_one_look()
    for metric in (row.metric for row in result.stability if row.metric != "gauc"):
        last = one(windows, metric, "cumulative")
        for name in NUMBERS:
            assert last[name] == pytest.approx(getattr(card[metric], name), rel=1e-12), metric


def test_one_day_is_the_day_of_the_scorecard(windows):
    for row in sample.analysis_at_one_look().daily:
        day = one(windows, row.metric, "daily", end=row.cell)
        if row.p_value is None:
            assert day.reason == row.reason
        else:
            assert day.p_value == pytest.approx(row.p_value, rel=1e-12)


@pytest.mark.parametrize(("start", "end", "width"), [(18, 21, 3), (14, 21, 7)])
def test_a_rolling_window_is_the_scorecard_of_a_period_cut_to_it(
    loaded, windows, start, end, width
):
    metrics = [{"name": n} for n in ("ctr", "dwell_per_user", "page_views_per_user", "ndcg")]
    period = {"start": f"2026-09-{start}", "end": f"2026-09-{end}"}
    card = loaded.replace(period=period, metrics=metrics).analyze()
    for choice in metrics:
        found = one(windows, choice["name"], "rolling", days=width, start=f"2026-09-{start}")
        row = card[choice["name"]]
        for name in NUMBERS:
            assert found[name] == pytest.approx(getattr(row, name), rel=1e-9), (choice, name)


def test_gauc_of_a_day_is_gauc_of_a_log_of_that_day(loaded, windows):
    period = {"start": "2026-09-20", "end": "2026-09-21"}
    card = loaded.replace(period=period, metrics=[{"name": "gauc"}]).analyze()["gauc"]
    day = one(windows, "gauc", "daily", end="2026-09-20")
    assert day.difference == pytest.approx(card.difference, rel=1e-12)
    assert day.difference_low == pytest.approx(card.difference_low, rel=0.01)


def test_true_effects_hold_and_the_window_they_need_is_named(result):
    assert result["ctr"].verdict == "stable"
    assert result["ctr"].window_days <= 5
    assert result["ctr"].sign_share == 1.0
    assert {row.verdict for row in result.stability} <= {"stable", "too_early"}
    assert {row.word for row in result.novelty} == {None}


def test_looks_are_wider_where_they_may_be_repeated(result):
    looks = result.looks_frame()
    assert (looks.always_low <= looks.fixed_low).all()
    assert (looks.always_high >= looks.fixed_high).all()
    planned = looks.dropna(subset=["bound"])
    assert set(planned.day) == {"2026-09-20", "2026-09-27"}
    ctr = planned[planned.metric == "ctr"]
    assert ctr.bound.iloc[0] > ctr.bound.iloc[1] > 1.9
    assert list(ctr.planned_declares) == ["better", "better"]


def test_what_does_not_add_up_over_days_is_refused_by_name(result):
    assert set(result.refused) == {"auc"}
    assert any("GAUC over time" in note for note in result.notes)


def test_a_metric_that_is_one_on_every_active_day_says_so(result):
    assert result["active_days_per_user"].verdict == "too_early"
    assert "values that vary" in result["active_days_per_user"].reason


def test_command_line_writes_the_result(tmp_path):
    file = tmp_path / "time.json"
    run = CliRunner().invoke(
        app, ["windows", str(sample.FILE), "--metric", "ctr", "--json", str(file)]
    )
    assert run.exit_code == 0, run.output
    raw = json.loads(file.read_text())
    assert raw["schema_version"] == "1"
    assert [row["metric"] for row in raw["stability"]] == ["ctr"]


def test_events_have_an_inside_and_an_outside(loaded):
    events = [
        {"name": "fair", "start": "2026-09-19", "end": "2026-09-21"},
        {"name": "later", "start": "2027-01-01", "end": "2027-01-02"},
    ]
    found = loaded.replace(events=events).windows(metrics=["ctr"]).events
    assert [(row.event, row.days) for row in found] == [("fair", 2), ("later", 0)]
    fair = found[0]
    assert fair.difference == pytest.approx(fair.inside - fair.outside)
    assert fair.p_value > 0.001
    assert "no whole day" in found[1].reason


def frame(days, users=400, **changes):
    rows = [
        {
            "user_id": u,
            "variant": "ab"[u % 2],
            "ts": f"{d} 12:{u % 60:02d}:00",
            "click": (u + i) % 3 == 0,
        }
        for i, d in enumerate(days)
        for u in range(users)
    ]
    made = pd.DataFrame(rows)
    made["ts"] = pd.to_datetime(made["ts"])
    return made.assign(**changes)


def small(**entries):
    return abeval.define(
        name="small",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {"path": "none.parquet"}},
        metrics=[{"name": "ctr"}],
        **entries,
    )


def test_one_day_is_too_early():
    found = small().windows(logs={"impressions": frame(["2027-03-01"])})
    assert found["ctr"].verdict == "too_early"
    assert "whole days" in found["ctr"].reason
    assert [row.kind for row in found.windows if row.axis == "calendar"] == ["daily", "cumulative"]


def test_a_gap_is_a_day_without_an_effect_and_windows_over_it_are_marked():
    days = ["2027-03-01", "2027-03-02", "2027-03-05", "2027-03-06"]
    found = small().windows(logs={"impressions": frame(days)})
    assert set(found.partial) >= {"2027-03-03", "2027-03-04"}
    gap = [row for row in found.windows if row.kind == "daily" and row.end == "2027-03-03"]
    assert [(row.reason, row.partial) for row in gap] == [("no_units", True)]
    wide = one(found.windows_frame(), "ctr", "rolling", end="2027-03-05")
    assert wide.partial
    assert wide.p_value > 0


def test_a_log_without_time_is_refused():
    log = frame(["2027-03-01"]).drop(columns="ts")
    with pytest.raises(LogError, match="windows need a time"):
        small().windows(logs={"impressions": log})


def test_widths_count_days():
    with pytest.raises(ExperimentError, match="numbers of days"):
        small().windows(widths=[0])


def test_kuairand_marks_its_partial_days():
    found = kuairand(metrics=[{"name": "ctr", "role": "goal"}]).windows()
    assert found.partial == ("2022-04-24", "2022-04-30")
    assert (found["ctr"].days, found["ctr"].verdict) == (5, "too_early")
    daily = [row for row in found.windows if row.axis == "calendar" and row.kind == "daily"]
    assert [row.partial for row in daily] == [True] + [False] * 5 + [True]


def test_exposed_units_that_never_come_count_from_their_exposure():
    log = frame(["2027-03-01", "2027-03-02", "2027-03-03"], users=300)
    exposures = pd.DataFrame(
        {
            "user_id": range(400),
            "ts": pd.to_datetime(["2027-03-01 08:00", "2027-03-02 08:00"] * 200),
            "variant": ["a", "b", "b", "a"] * 100,
        }
    )
    log["variant"] = log.user_id.map(exposures.set_index("user_id").variant)
    logs = {"impressions": log, "exposures": exposures}
    loaded = small().replace(
        logs={"impressions": {"path": "x.parquet"}, "exposures": {"path": "y.parquet"}},
        metrics=[{"name": "clicks_per_user"}, {"name": "ctr"}],
    )
    card, found = loaded.analyze(logs=logs), loaded.windows(logs=logs)
    for metric in ("clicks_per_user", "ctr"):
        last = one(found.windows_frame(), metric, "cumulative")
        assert (last.units_control, last.units) == (200, 200)
        assert last.p_value == pytest.approx(card[metric].p_value, rel=1e-12)
    first = one(found.windows_frame(), "clicks_per_user", "cumulative", end="2027-03-01")
    assert first.units_control + first.units == 200
    age = one(found.windows_frame(), "ctr", "daily", axis="exposure", end="0")
    assert age.units_control + age.units == 300


def test_exposures_without_a_time_count_from_the_first_day():
    log = frame(["2027-03-01", "2027-03-02"])
    exposures = pd.DataFrame({"user_id": range(400), "variant": ["a", "b"] * 200})
    loaded = small().replace(
        logs={"impressions": {"path": "x.parquet"}, "exposures": {"path": "y.parquet"}}
    )
    found = loaded.windows(logs={"impressions": log, "exposures": exposures})
    last = one(found.windows_frame(), "ctr", "cumulative")
    assert (last.units_control, last.units) == (200, 200)


def test_the_numbers_of_bad_input_are_still_json():
    for days, changes in (
        (["2027-03-01"], {}),
        (["2027-03-01", "2027-03-02", "2027-03-09"], {"click": 0}),
        ([f"2027-03-{d:02d}" for d in range(1, 20)], {"click": 1}),
    ):
        found = small().windows(logs={"impressions": frame(days, **changes)}, looks=[1, 2])
        raw = json.loads(found.to_json())
        assert raw["stability"][0]["verdict"] == "too_early"
        assert raw["stability"][0]["reason"]


@pytest.mark.parametrize("days", [3, 10])
def test_a_cumulative_window_is_the_scorecard_as_it_stood_that_day(loaded, windows, days):
    metrics = [{"name": n} for n in ("ctr", "clicks_per_user", "sessions_per_user")]
    period = {"start": "2026-09-14", "end": f"2026-09-{14 + days}"}
    card = loaded.replace(period=period, metrics=metrics).analyze()
    for choice in metrics:
        found = one(windows, choice["name"], "cumulative", days=days)
        for name in NUMBERS:
            assert found[name] == pytest.approx(getattr(card[choice["name"]], name), rel=1e-9)


def test_looks_that_the_file_plans_have_their_bounds(loaded):
    plan = {"looks": "group_sequential", "planned_looks": ["2026-09-18", "2026-09-25"]}
    found = loaded.replace(inference=plan).windows(metrics=["ctr"])
    planned = found.looks_frame().dropna(subset=["bound"])
    # The data before each date, and the end.
    assert list(planned.day) == ["2026-09-17", "2026-09-24", "2026-09-27"]
    assert list(planned.bound) == sorted(planned.bound, reverse=True)
    shares = loaded.replace(inference={**plan, "planned_looks": [0.5, 0.75]})
    found = shares.windows(metrics=["ctr"]).looks_frame().dropna(subset=["bound"])
    assert list(found.day) == ["2026-09-20", "2026-09-24", "2026-09-27"]
    pocock = loaded.replace(inference={**plan, "spending": "pocock"}).windows(metrics=["ctr"])
    assert pocock.looks_frame().dropna(subset=["bound"]).bound.iloc[0] < planned.bound.iloc[0]
